//! One test for all read models: fifty thousand mixed events, repeated and out of order, then every table
//! rebuilt from history.

use dues_events::Item;
use dues_processors::Outcome;
use dues_processors::entitlements::groups::{LocalDirectory, RateLimiter};
use dues_processors::operators::replay::{ReplayTarget, compare, rebuild, repair};
use dues_processors::projector::Projector;
use dues_processors::runtime::changes::Change;
use dues_processors::usage::reset::usage_reset;
use dues_processors::usage::{Settings, count};
use dues_store::embedded::Embedded;
use dues_store::table::{BILLING_ACTIVITY, DERIVED, Table};
use dues_store::{Engine as _, Store};
use dues_tests::engines::embedded;
use dues_tests::engines::memory::Memory;
use dues_tests::fixtures::company::{
    Sent, all, clock, context, counts, deliver, membership, monthly, payment, records, store, t,
};
use dues_tests::fixtures::figureforge as figureforge_events;
use dues_tests::fixtures::serenya as serenya_events;
use dues_tests::fixtures::stripe::{checkout, invoice, invoice_payment, payment_of, refund, subscription};
use dues_tests::fixtures::usage::{actions, at};
use fastrand::Rng;
use futures::stream::{StreamExt as _, iter};
use serde_json::json;
use std::collections::BTreeMap;

const SEED: u64 = 7;
const USERS: usize = 240;
const EVENTS: usize = 50_000;
/// Records per batch.
const BATCH: usize = 500;

/// Dues by ACH: most are paid, some are returned, late or not, some are refunded.
async fn dues(engine: &Embedded, users: &[String], dice: &mut Rng) -> Vec<Sent> {
    let joins: Vec<Sent> = users
        .iter()
        .map(|user| {
            membership(&format!("m-{user}"), "ACTIVATE", user, "2026-01-02T00:00:00Z", monthly("2026-01-05"))
        })
        .collect();
    deliver(&context(engine.clone()), &joins, BATCH).await;
    let mut sent = joins;
    for user in users {
        let record = records(engine, user).await.remove(0);
        let report = |kind: &str, day: u8| {
            payment(
                &format!("{kind}-{user}"),
                kind,
                &record,
                &format!("c-{user}"),
                &format!("2026-01-{day:02}T00:00:00Z"),
            )
        };
        sent.push(report("SUBMITTED", 6));
        match dice.u8(..10) {
            0 => sent.push(report("RETURNED", 8)),
            1 => sent.extend([report("COMPLETED", 8), report("RETURNED", 12)]),
            2 => sent.extend([report("COMPLETED", 8), report("REFUNDED", 13)]),
            _ => sent.push(report("COMPLETED", 8)),
        }
    }
    sent
}

/// Half a year at Stripe: subscriptions that start, change and end, invoices that are paid, reported twice
/// and refunded, and passes.
fn stripe(users: &[String], dice: &mut Rng) -> Vec<Sent> {
    let mut sent = Vec::new();
    for user in users {
        for month in 1..=6 {
            let (from, later) = (
                format!("2026-{month:02}-01T00:00:00Z"),
                format!("2026-{month:02}-01T00:00:{:02}Z", dice.u8(..60)),
            );
            let id = |kind: &str| format!("evt-{kind}-{user}-{month}");
            let tier = ["INITIATE", "JOURNEYMAN", "SAGE"][dice.usize(..3)];
            let status =
                if month == 6 { "canceled" } else { ["active", "active", "past_due"][dice.usize(..3)] };
            sent.push(subscription(&id("sub"), "updated", &from, user, tier, status, &from));
            sent.push(invoice(&id("paid"), "paid", &from, user, &from));
            sent.push(invoice(&id("succeeded"), "payment_succeeded", &later, user, &from));
            sent.push(invoice_payment(&id("intent"), &from, user, &from));
            if dice.u8(..12) == 0 {
                sent.push(refund(
                    &id("refund"),
                    "created",
                    &later,
                    &format!("re-{user}-{month}"),
                    &payment_of(user, &from),
                    1500,
                    "succeeded",
                ));
            }
        }
        if dice.u8(..8) == 0 {
            sent.push(checkout(
                &format!("evt-top-{user}"),
                "2026-02-01T00:00:00Z",
                user,
                "CREDITS",
                500,
                &format!("pi-top-{user}"),
                "paid",
            ));
        }
    }
    sent
}

/// Objects in S3, as EventBridge reports them.
fn objects(count: usize, users: &[String], dice: &mut Rng) -> Vec<Sent> {
    let object = |n: usize| {
        let (user, file) = (&users[dice.usize(..users.len())], format!("scan {}.pdf", dice.u8(..4)));
        let key = match dice.u8(..3) {
            0 => format!("users/{user}/documents/uploads/{file}"),
            1 => format!("users/{user}/documents/processing/{file}.processing"),
            _ => format!("users/{user}/documents/results/{file}.json"),
        };
        let kind = if dice.u8(..4) == 0 { "Object Deleted" } else { "Object Created" };
        let detail = json!({"bucket": {"name": "b"}, "object": {"key": key, "sequencer": format!("{n:016X}"),
            "size": 1}});
        let at = format!("2026-01-{:02}T00:00:00Z", 1 + n % 28);
        (
            "s3-events",
            json!({"id": format!("s3-{n}"), "source": "aws.s3", "detail-type": kind, "time": at,
                "detail": detail}),
        )
    };
    (0..count).map(object).collect()
}

/// Repeats one in ten, and shuffles everything.
fn stir(mut sent: Vec<Sent>, dice: &mut Rng) -> Vec<Sent> {
    let repeated: Vec<Sent> = sent.iter().filter(|_| dice.u8(..10) == 0).cloned().collect();
    sent.extend(repeated);
    dice.shuffle(&mut sent);
    // Groups each stretch by stream, so that records come in batches.
    for stretch in sent.chunks_mut(BATCH * 8) {
        stretch.sort_by_key(|(stream, _)| *stream);
    }
    sent
}

/// Projects the changes after a position; some batches are delivered twice.
async fn project(engine: &Embedded, after: u64, dice: &mut Rng) -> u64 {
    let projector = Projector {
        limiter: RateLimiter::unlimited(clock()),
        parallel: BATCH,
        ..Projector::new(store(engine.clone()), Some(LocalDirectory::new(engine.clone())))
    };
    let mut place = after;
    loop {
        let changes = engine.changes(place, BATCH).unwrap();
        let Some(last) = changes.last().map(|change| change.seq) else { return place };
        let read = |change: dues_store::embedded::Change| Change {
            sequence: change.seq.to_string(),
            table: change.table,
            old: change.old,
            new: change.new,
            arrived: t("2026-03-01T00:00:00Z"),
            by_ttl: false,
        };
        let changes: Vec<Change> = changes.into_iter().map(read).collect();
        for _ in 0..=usize::from(dice.u8(..5) == 0) {
            let report = projector.project(&changes).await;
            let mut outcomes = report.outcomes.iter().zip(&changes);
            let wrong = outcomes.find(|(outcome, _)| matches!(outcome, Outcome::Failed(_) | Outcome::Parked));
            assert!(wrong.is_none(), "seed {SEED}: {wrong:?}");
        }
        place = last;
    }
}

type Rows = BTreeMap<(String, String), Item>;

async fn rows(engine: &impl dues_store::Engine, table: &'static Table) -> Rows {
    let key = |item: &Item| {
        (
            item.text(table.partition).unwrap().to_owned(),
            table.sort.and_then(|sort| item.text(sort)).unwrap_or_default().to_owned(),
        )
    };
    all(engine, table).await.into_iter().map(|item| (key(&item), item)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_read_model_rebuilt_from_history_is_the_live_one_byte_for_byte() {
    let (engine, _folder) = embedded();
    let mut dice = Rng::with_seed(SEED);
    let users: Vec<String> = (0..USERS).map(|n| format!("u-{n:03}")).collect();
    let acts = actions(SEED, 4_000, &users);
    let mut sent = dues(&engine, &users[..USERS / 2], &mut dice).await;
    sent.extend(stripe(&users[USERS / 3..], &mut dice));
    sent.extend(objects(4_000, &users, &mut dice));
    sent.extend(serenya_events::events(SEED, 14_000, &users).into_iter().map(|event| ("app-events", event)));
    let left = (EVENTS - acts.len()).saturating_sub(sent.len() * 11 / 10) * 10 / 11;
    sent.extend(
        figureforge_events::events(SEED, left, &users).into_iter().map(|event| ("app-events", event)),
    );
    let sent = stir(sent, &mut dice);
    assert!(sent.len() + acts.len() > EVENTS * 99 / 100, "{} and {}", sent.len(), acts.len());

    let context = dues_processors::Context { parallel: BATCH, ..context(engine.clone()) };
    let (mut seen, mut outcomes) = (0, Vec::new());
    for stretch in sent.chunks(BATCH * 8) {
        outcomes.extend(deliver(&context, stretch, BATCH).await);
        seen = project(&engine, seen, &mut dice).await;
    }
    let counts = counts(&outcomes);
    assert_eq!(counts.failed, 0, "{counts:?}");
    assert!(counts.applied > 30_000 && counts.duplicate > 2_000, "{counts:?}");

    // The counted actions, at their own times; then the first day is reset.
    let mut lanes: BTreeMap<_, Vec<_>> = BTreeMap::new();
    acts.into_iter().for_each(|act| lanes.entry(act.1.user.clone()).or_default().push(act));
    let settings = Settings::default();
    iter(lanes.into_values())
        .map(async |lane| {
            for (time, asked) in lane {
                let _ = count(&at(&engine, time), &settings, &asked).await.unwrap();
            }
        })
        .buffer_unordered(128)
        .collect::<()>()
        .await;
    seen = project(&engine, seen, &mut dice).await;
    usage_reset(&at(&engine, t("2026-01-06T12:00:00Z")), &settings, |_| {}).await.unwrap();
    project(&engine, seen, &mut dice).await;

    let live = store(engine.clone());
    let again: Store<Memory> = store(Memory::default());
    for part in ReplayTarget::ALL {
        let made = rebuild(part, &live, &again, |_| {}).await.unwrap();
        assert!(made > 200, "{part:?} {made}");
        let compared = compare(part, &live, |_| {}).await.unwrap();
        assert_eq!(
            (compared.differences, compared.unreadable),
            (Vec::new(), Vec::new()),
            "{part:?}, seed {SEED}"
        );
        assert_eq!(compared.events, made, "{part:?}");
    }
    // And once more without the comparison code.
    for table in DERIVED {
        let (there, made) = (rows(&engine, table).await, rows(&again.engine, table).await);
        assert!(there.len() > 200, "{}: {}", table.name, there.len());
        assert!(there == made, "{}, seed {SEED}", table.name);
    }
    a_row_that_was_changed_removed_or_added_by_hand_is_repaired(&live).await;
}

async fn a_row_that_was_changed_removed_or_added_by_hand_is_repaired(live: &Store<Embedded>) {
    for (n, table) in DERIVED.into_iter().enumerate() {
        let before = rows(&live.engine, table).await;
        let mut picked = before.values().cloned().collect::<Vec<_>>();
        picked.truncate(2);
        live.engine
            .delete(table, dues_store::Key::of(table, &picked[0]).unwrap(), dues_store::Condition::Always)
            .await
            .unwrap();
        picked[1].set_text("planted", "by hand");
        live.engine.put(table, picked[1].clone(), dues_store::Condition::Always).await.unwrap();
        picked[1].set_text(table.partition, "no-such-user");
        live.engine.put(table, picked[1].clone(), dues_store::Condition::Always).await.unwrap();
        let part = ReplayTarget::ALL
            .into_iter()
            .find(|part| part.tables().iter().any(|of| of.id == table.id))
            .unwrap();
        let found = compare(part, live, |_| {}).await.unwrap().differences;
        assert_eq!(found.len(), 3, "{}: {found:?}", table.name);
        assert_eq!(repair(live, &found).await.unwrap(), 0);
        assert!(rows(&live.engine, table).await == before, "{n} {}", BILLING_ACTIVITY.name);
        // A row that changed after the comparison is left alone.
        assert!(repair(live, &found).await.unwrap() >= 2, "{}", table.name);
        assert!(rows(&live.engine, table).await == before, "{n} {}", table.name);
    }
}
