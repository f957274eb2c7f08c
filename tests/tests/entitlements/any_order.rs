//! The same profile, subscriptions, passes and credits for any order, repetition, batching and concurrency
//! of the events.

use dues_events::Record;
use dues_processors::entitlements::apply_dues;
use dues_processors::entitlements::groups::{Directory as _, LocalDirectory, RateLimiter};
use dues_processors::projector::Projector;
use dues_processors::runtime::changes::Change;
use dues_processors::runtime::redrive::process_stream;
use dues_projections::entitlements::dues::TierMap;
use dues_store::table::BILLING_ACTIVITY;
use dues_store::{Engine, Store};
use dues_tests::engines::memory::Memory;
use dues_tests::fixtures::company::{Sent, counts, deliver, incoming, membership, monthly, payment, t};
use dues_tests::fixtures::stripe::{
    checkout, dispute, invoice, invoice_payment, paid_later, payment_of, refund, subscription,
};
use fastrand::Rng;
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;

use super::world::World;
use super::{USER, at, credits, rows, user};

pub(super) const NOW: &str = "2026-06-15T00:00:00Z";

/// Half a year of Stripe events with every case: two events in one second, both events of one payment, a
/// month with a refunded payment, a refund that fails, a dispute that is lost and one with its funds
/// reinstated, a pass, a top-up that is partly refunded, one that is paid later.
pub(super) fn life() -> Vec<Sent> {
    let u = USER;
    let mut life = vec![
        subscription(
            "s-1",
            "created",
            "2026-01-01T00:00:00Z",
            u,
            "JOURNEYMAN",
            "incomplete",
            "2026-01-01T00:00:00Z",
        ),
        subscription(
            "s-2",
            "updated",
            "2026-01-01T00:00:00Z",
            u,
            "JOURNEYMAN",
            "active",
            "2026-01-01T00:00:00Z",
        ),
        subscription("s-3", "updated", "2026-03-10T00:00:00Z", u, "SAGE", "active", "2026-03-01T00:00:00Z"),
        subscription("s-4", "updated", "2026-05-01T00:00:05Z", u, "SAGE", "past_due", "2026-05-01T00:00:00Z"),
        checkout("c-1", "2026-02-05T00:00:00Z", u, "CREDITS", 1000, "pi_top", "paid"),
        refund("r-1", "created", "2026-02-06T00:00:00Z", "re_1", "pi_top", 500, "succeeded"),
        checkout("c-2", "2026-02-07T00:00:00Z", u, "CREDITS", 500, "pi_slow", "unpaid"),
        paid_later("c-3", "2026-02-09T00:00:00Z", u, "CREDITS", 500, "pi_slow"),
        checkout("c-4", "2026-04-01T00:00:00Z", u, "FOUNDING_MEMBER", 19900, "pi_pass", "paid"),
        dispute("d-1", "created", "2026-04-20T00:00:00Z", "pi_pass", "needs_response"),
        dispute("d-2", "closed", "2026-04-25T00:00:00Z", "pi_pass", "lost"),
        dispute("d-3", "funds_reinstated", "2026-05-02T00:00:00Z", "pi_pass", "lost"),
        refund(
            "r-2",
            "created",
            "2026-03-20T00:00:00Z",
            "re_2",
            &payment_of(u, "2026-02-01T00:00:00Z"),
            1500,
            "succeeded",
        ),
        refund(
            "r-3",
            "created",
            "2026-03-21T00:00:00Z",
            "re_3",
            &payment_of(u, "2026-03-01T00:00:00Z"),
            1500,
            "pending",
        ),
        refund(
            "r-4",
            "failed",
            "2026-03-22T00:00:00Z",
            "re_3",
            &payment_of(u, "2026-03-01T00:00:00Z"),
            1500,
            "failed",
        ),
        dispute("d-4", "closed", "2026-05-10T00:00:00Z", &payment_of(u, "2026-04-01T00:00:00Z"), "lost"),
    ];
    for (n, month) in (1..5).map(|month| (month, format!("2026-{month:02}-01T00:00:00Z"))) {
        let paid = format!("2026-{n:02}-01T00:00:03Z");
        life.push(invoice(&format!("i-{n}"), "paid", &paid, USER, &month));
        life.push(invoice(&format!("j-{n}"), "payment_succeeded", &paid, USER, &month));
        life.push(invoice_payment(&format!("p-{n}"), &paid, USER, &month));
    }
    life
}

/// January and March as JOURNEYMAN (March's invoice came before the change to SAGE): 5 and 5. February was
/// refunded, April's payment disputed and lost. Half of a top-up and the whole of another: 10 and 10. The
/// pass since April: 15 for April, May and June.
pub(super) const CREDITS: i64 = 5 + 5 + 10 + 10 + 3 * 15;

pub(super) async fn expected() -> BTreeMap<String, Value> {
    let engine = Memory::default();
    let context = at(&engine, NOW);
    let outcomes = deliver(&context, &life(), 1).await;
    assert_eq!((counts(&outcomes).failed, context.store.parked().await.unwrap()), (0, vec![]));
    assert_eq!(credits(&context.store).await, CREDITS);
    rows(&engine).await
}

#[tokio::test]
async fn half_a_year_in_its_own_order() {
    let rows = expected().await;
    let keys: Vec<&str> = rows.keys().map(String::as_str).collect();
    assert_eq!(keys, ["CREDITS#BALANCE", "FOUNDER#FOUNDING_MEMBER", "PROFILE#u-1", "SUBSCRIPTION#sub_u-1"]);
    assert_eq!(
        (&rows["PROFILE#u-1"]["tier"], &rows["SUBSCRIPTION#sub_u-1"]["status"]),
        (&"SAGE".into(), &"past_due".into())
    );
    assert_eq!(rows["CREDITS#BALANCE"]["expiresAt"], Value::Null, "a pass brings more every month");
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn order_repeats_and_cuts_do_not_matter(
        order in Just(life()).prop_shuffle(),
        repeats in proptest::collection::vec(0..28_usize, 0..12),
        cut in 1..12_usize,
    ) {
        let mut order = order;
        for (n, repeat) in repeats.into_iter().enumerate() {
            let again = order[repeat % order.len()].clone();
            order.insert((n * 7) % order.len(), again);
        }
        runtime().block_on(async {
            let engine = Memory::default();
            let context = at(&engine, NOW);
            let outcomes = deliver(&context, &order, cut).await;
            prop_assert_eq!(counts(&outcomes).failed, 0);
            prop_assert_eq!(context.store.parked().await.unwrap(), vec![], "everything has found its user");
            prop_assert_eq!(credits(&context.store).await, CREDITS);
            prop_assert_eq!(rows(&engine).await, expected().await);
            Ok(())
        })?;
    }
}

/// Changes of two billing records in the order of their versions: January is paid, returned late, presented
/// again and paid; February fails once and is paid; then the member cancels.
async fn dues_changes() -> Vec<(Option<Record>, Record)> {
    let mut world = World::at(t("2026-01-05T00:00:00Z"));
    let join = membership("m-1", "ACTIVATE", USER, "2026-01-05T00:00:00Z", monthly("2026-01-31"));
    world.send(t("2026-01-05T00:00:00Z"), &[join]).await;
    for (due, kind, transaction, at) in [
        ("2026-01-31T00:00:00Z", "SUBMITTED", "c-1", "2026-01-31T08:00:00Z"),
        ("2026-01-31T00:00:00Z", "COMPLETED", "c-1", "2026-02-02T08:00:00Z"),
        ("2026-01-31T00:00:00Z", "RETURNED", "c-1", "2026-02-10T08:00:00Z"),
        ("2026-01-31T00:00:00Z", "SUBMITTED", "c-2", "2026-02-12T08:00:00Z"),
        ("2026-01-31T00:00:00Z", "COMPLETED", "c-2", "2026-02-14T08:00:00Z"),
        ("2026-02-28T00:00:00Z", "SUBMITTED", "c-3", "2026-02-28T08:00:00Z"),
        ("2026-02-28T00:00:00Z", "RETURNED", "c-3", "2026-03-03T08:00:00Z"),
        ("2026-02-28T00:00:00Z", "SUBMITTED", "c-4", "2026-03-10T08:00:00Z"),
        ("2026-02-28T00:00:00Z", "COMPLETED", "c-4", "2026-03-12T08:00:00Z"),
    ] {
        let record = world.record_due(USER, t(due)).await.unwrap();
        let id = format!("{kind}-{transaction}");
        world.send(t(at), &[payment(&id, kind, &record, transaction, at)]).await;
    }
    let cancel = membership("m-2", "CANCEL", USER, "2026-03-20T00:00:00Z", serde_json::json!({}));
    world.send(t("2026-03-20T00:00:00Z"), &[cancel]).await;
    let read = |item: Option<dues_events::Item>| item.map(|item| Record::from_item(item).unwrap());
    let ours = world.engine.changes(0, 10_000).unwrap().into_iter();
    let ours = ours.filter(|change| change.table == &BILLING_ACTIVITY);
    ours.filter_map(|change| Some((read(change.old), read(change.new)?))).collect()
}

/// The rows without the times at which they were written, and the content of the head.
async fn timeless<E: Engine>(store: &Store<E>) -> (BTreeMap<String, Value>, String) {
    let mut rows = rows(&store.engine).await;
    // It counts the calls to the directory.
    rows.remove("EFFECT#GROUPS");
    for row in rows.values_mut() {
        for name in ["updatedAt", "lastReset", "lastTopUp", "expiresAt", "createdAt"] {
            row.as_object_mut().unwrap().remove(name);
        }
    }
    (rows, store.entitlement_head(&user()).await.unwrap().effective_tier)
}

/// What happens in a run: an event of Stripe's, the next change of one of the two records, or the clock.
#[derive(Debug, Clone, Copy)]
enum Step {
    Stripe(usize),
    Dues(usize),
    Clock,
}

async fn run(steps: &[Step], events: &[Sent], records: &[Vec<(Option<Record>, Record)>]) -> World {
    let mut world = World::at(t("2026-01-01T00:00:00Z"));
    let span = t(NOW) - t("2026-01-01T00:00:00Z");
    let mut next = vec![0_usize; records.len()];
    for (n, step) in (1..).zip(steps) {
        // Time passes between the steps, in the same span whatever their order.
        let now = t("2026-01-01T00:00:00Z") + span * n / i32::try_from(steps.len()).unwrap();
        match step {
            Step::Stripe(event) => world.send(now, &events[*event..=*event]).await,
            Step::Dues(record) => {
                world.clock.set_now(now);
                // Each change twice, and the one before once more, as a stream may.
                let place = next[*record];
                for place in [place, place, place.saturating_sub(1)] {
                    let (old, new) = &records[*record][place];
                    apply_dues(&world.store(), &TierMap::default(), old.as_ref(), new).await.unwrap();
                }
                next[*record] += 1;
            }
            Step::Clock => drop(world.tick(now).await),
        }
    }
    world.tick(t(NOW)).await;
    world
}

/// Stripe's events in any order, the changes of each billing record in their own order, and the clock at any
/// time in between: the same rows, the same head and the same credits.
#[tokio::test]
async fn the_clock_in_between_changes_nothing() {
    let changes = dues_changes().await;
    let of_due = |due: &str| {
        let ours = changes.iter().filter(|(_, new)| new.billing_date.at() == t(due));
        ours.cloned().collect::<Vec<_>>()
    };
    let records = [of_due("2026-01-31T00:00:00Z"), of_due("2026-02-28T00:00:00Z")];
    assert!(records.iter().all(|changes| changes.len() > 3));
    let events = life();
    let mut steps: Vec<Step> = (0..events.len()).map(Step::Stripe).collect();
    for (n, changes) in records.iter().enumerate() {
        steps.extend(changes.iter().map(|_| Step::Dues(n)));
    }
    let world = run(&steps, &events, &records).await;
    let expected = timeless(&world.store()).await;
    // Both records were paid in the end; the first payment of January was taken back.
    let balance = credits(&world.store()).await;
    assert_eq!(balance, CREDITS + 5 + 5);
    steps.extend([Step::Clock; 8]);
    for seed in 0..12 {
        let mut die = Rng::with_seed(seed);
        let mut steps = steps.clone();
        die.shuffle(&mut steps);
        let repeated: Vec<Step> =
            steps.iter().filter(|step| matches!(step, Step::Stripe(_))).step_by(5).copied().collect();
        steps.extend(repeated);
        let world = run(&steps, &events, &records).await;
        assert_eq!(credits(&world.store()).await, balance, "seed {seed}");
        assert_eq!(timeless(&world.store()).await, expected, "seed {seed}");
    }
}

/// Several workers at once, each with its own part of one user's events: on every engine.
async fn at_once<E: Engine>(engine: E) {
    let expected = expected().await;
    let mut die = Rng::with_seed(11);
    let mut events = life();
    die.shuffle(&mut events);
    let work = |part: Vec<Sent>| {
        let context = at(&engine, NOW);
        async move {
            let records: Vec<_> =
                part.iter().enumerate().map(|(n, (_, record))| incoming(record, n)).collect();
            // A write that keeps losing to concurrent ones fails, and its event is redelivered.
            for _ in 0..50 {
                let report = process_stream(&context, "stripe", &records).await.unwrap();
                if report.first_failure().is_none() {
                    return;
                }
            }
            panic!("never got through");
        }
    };
    // Each event goes to two of the four workers.
    let parts = (0..4).map(|n| {
        events
            .iter()
            .enumerate()
            .filter(|(i, _)| i % 4 == n || i % 3 == n)
            .map(|(_, sent)| sent.clone())
            .collect()
    });
    let workers: Vec<_> = parts.map(|part: Vec<Sent>| tokio::spawn(work(part))).collect();
    for worker in workers {
        worker.await.unwrap();
    }
    let context = at(&engine, NOW);
    assert_eq!(context.store.parked().await.unwrap(), vec![]);
    assert_eq!(credits(&context.store).await, CREDITS);
    assert_eq!(rows(&engine).await, expected);
    let book = context.store.entitlement_book(&user()).await.unwrap();
    assert_eq!(book.facts.len(), life().len());
}

dues_tests::on_engines! { at_once, }

/// The groups too: from the embedded engine's change log, with some changes delivered twice, through the
/// projector.
#[tokio::test]
async fn groups_follow_whatever_the_order() {
    for seed in 0..12 {
        let (engine, _folder) = dues_tests::engines::embedded();
        let context = at(&engine, NOW);
        let mut die = Rng::with_seed(seed);
        let mut events = life();
        die.shuffle(&mut events);
        let projector = Projector {
            limiter: RateLimiter::unlimited(context.store.clock.clone()),
            ..Projector::new(context.store.clone(), Some(LocalDirectory::new(engine.clone())))
        };
        let mut seen = 0;
        for cut in events.chunks(4) {
            deliver(&context, cut, 4).await;
            let changes = engine.changes(seen, 10_000).unwrap();
            // Now and then the stream restarts from a slightly earlier position.
            seen = if changes.is_empty() { seen } else { changes[die.usize(..changes.len())].seq };
            let changes: Vec<Change> = changes.into_iter().map(change).collect();
            assert_eq!(projector.project(&changes).await.first_failure(), None);
        }
        let changes: Vec<Change> = engine.changes(seen, 10_000).unwrap().into_iter().map(change).collect();
        assert_eq!(projector.project(&changes).await.first_failure(), None);
        let groups = LocalDirectory::new(engine.clone()).groups_of(&user(), None).await.unwrap().groups;
        assert_eq!(groups, ["dues-sage"], "seed {seed}");
        let mut rows = rows(&engine).await;
        let effect = rows.remove("EFFECT#GROUPS").unwrap();
        assert_eq!((&effect["tier"], &effect["group"]), (&"SAGE".into(), &"dues-sage".into()));
        assert_eq!(rows, expected().await, "seed {seed}");
    }
}

fn change(change: dues_store::embedded::Change) -> Change {
    let dues_store::embedded::Change { seq, table, old, new } = change;
    Change {
        sequence: seq.to_string(),
        table,
        old,
        new,
        arrived: dues_tests::fixtures::company::t(NOW),
        by_ttl: false,
    }
}
