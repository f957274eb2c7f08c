//! Dues by ACH change the same profile and credits as Stripe does: paid, returned late, refunded, charged
//! back, paid again.

use dues_events::{PlanTier, Record, UserId};
use dues_processors::entitlements::{DuesOutcome, access, apply_dues};
use dues_projections::entitlements::dues::TierMap;
use dues_store::embedded::Embedded;
use dues_store::table::BILLING_ACTIVITY;
use dues_tests::engines::embedded;
use dues_tests::fixtures::company::{Sent, deliver, membership, monthly, payment, records};
use dues_tests::fixtures::stripe::{checkout, invoice, subscription};
use fastrand::Rng;
use serde_json::json;

use super::{at, credits, rows, tier, user};

const NOW: &str = "2026-02-10T00:00:00Z";

/// The changes of the billing records after a position, as images, and the last position.
fn changes(engine: &Embedded, after: u64) -> (Vec<(Option<Record>, Record)>, u64) {
    let changes = engine.changes(after, 10_000).unwrap();
    let last = changes.last().map_or(after, |change| change.seq);
    let read = |item: Option<dues_events::Item>| item.map(|item| Record::from_item(item).unwrap());
    let ours = changes.into_iter().filter(|change| change.table == &BILLING_ACTIVITY);
    (ours.filter_map(|change| Some((read(change.old), read(change.new)?))).collect(), last)
}

struct Member {
    engine: Embedded,
    read_until: u64,
    delivered: Vec<(Option<Record>, Record)>,
    _folder: tempfile::TempDir,
}

impl Member {
    /// A member with the record of 31 January submitted to the bank.
    async fn new() -> (Self, Record) {
        let (engine, folder) = embedded();
        let mut member = Self { engine, read_until: 0, delivered: Vec::new(), _folder: folder };
        member
            .after(&[membership("m-1", "ACTIVATE", "u-1", "2026-01-05T00:00:00Z", monthly("2026-01-31"))])
            .await;
        let record = records(&member.engine, "u-1").await.remove(0);
        member.after(&[payment("p-1", "SUBMITTED", &record, "c-1", "2026-02-01T00:00:00Z")]).await;
        (member, record)
    }

    /// Delivers records, then the changes that they cause: each twice, as a stream may.
    async fn after(&mut self, sent: &[Sent]) -> Vec<DuesOutcome> {
        let context = at(&self.engine, NOW);
        deliver(&context, sent, 10).await;
        let (changes, last) = changes(&self.engine, self.read_until);
        self.read_until = last;
        let mut all = Vec::new();
        for (old, new) in changes {
            let outcome = apply_dues(&context.store, &TierMap::default(), old.as_ref(), &new).await.unwrap();
            let again = apply_dues(&context.store, &TierMap::default(), old.as_ref(), &new).await.unwrap();
            assert!(matches!(again, DuesOutcome::NoChange | DuesOutcome::Duplicate), "{outcome:?} {again:?}");
            self.delivered.push((old, new));
            all.push(outcome);
        }
        all.retain(|outcome| *outcome != DuesOutcome::NoChange);
        // Redelivering the whole history in any order changes nothing.
        let before = rows(&self.engine).await;
        let mut again: Vec<usize> = (0..self.delivered.len()).collect();
        Rng::with_seed(last).shuffle(&mut again);
        for n in again {
            let (old, new) = &self.delivered[n];
            let outcome = apply_dues(&context.store, &TierMap::default(), old.as_ref(), new).await.unwrap();
            assert!(matches!(outcome, DuesOutcome::NoChange | DuesOutcome::Duplicate), "{outcome:?}");
        }
        assert_eq!(rows(&self.engine).await, before);
        self.read_until = self
            .engine
            .changes(self.read_until, 100_000)
            .unwrap()
            .last()
            .map_or(self.read_until, |change| change.seq);
        all
    }

    async fn tier_and_credits(&self) -> (PlanTier, i64) {
        let store = at(&self.engine, NOW).store;
        (tier(&store).await, credits(&store).await)
    }
}

#[tokio::test]
async fn a_settlement_gives_the_tier_and_its_credits_and_a_late_return_takes_them_back() {
    let (mut member, record) = Member::new().await;
    assert_eq!(
        member.tier_and_credits().await,
        (PlanTier::Free, 0),
        "a debit that is under way has paid for nothing"
    );
    let paid = member.after(&[payment("p-2", "COMPLETED", &record, "c-1", "2026-02-03T00:00:00Z")]).await;
    assert_eq!(
        (paid, member.tier_and_credits().await),
        (vec![DuesOutcome::Applied], (PlanTier::Journeyman, 5))
    );
    let store = at(&member.engine, NOW).store;
    let answer = access(&store, &user()).await.unwrap();
    assert_eq!((answer.tier, answer.source.as_str()), (PlanTier::Journeyman, "dues"));
    assert_eq!(answer.until, None, "the renewal is expected: no timer");
    assert!(answer.why.ends_with("are paid until 2026-02-28T00:00:00Z"), "{}", answer.why);
    assert_eq!(rows(&member.engine).await["PROFILE#u-1"]["provider"], "cognito");

    let returned = member.after(&[payment("p-3", "RETURNED", &record, "c-1", "2026-02-09T00:00:00Z")]).await;
    assert_eq!(
        (returned, member.tier_and_credits().await),
        (vec![DuesOutcome::Applied], (PlanTier::Free, 0))
    );
    let ledger = store.ledger(&user()).await.unwrap();
    let lineage: Vec<(i64, Option<&str>, Option<&str>)> = ledger
        .iter()
        .map(|m| (m.amount, m.payment.as_deref(), m.takes_back.as_ref().map(|id| id.as_str())))
        .collect();
    assert_eq!(
        lineage,
        [(5, Some("c-1"), None), (-5, Some("c-1"), Some(ledger[0].id.as_str()))],
        "with lineage"
    );

    // Collected again, with another debit: paid again, and granted again.
    let again = [
        payment("p-4", "SUBMITTED", &record, "c-2", "2026-02-10T00:00:00Z"),
        payment("p-5", "COMPLETED", &record, "c-2", "2026-02-12T00:00:00Z"),
    ];
    assert_eq!(member.after(&again).await, [const { DuesOutcome::Applied }; 2], "presented again, and paid");
    assert_eq!(member.tier_and_credits().await, (PlanTier::Journeyman, 5));
}

#[tokio::test]
async fn refunds_and_chargebacks_take_back_and_ordinary_returns_take_nothing() {
    for kind in ["REFUNDED", "CHARGED_BACK"] {
        let (mut member, record) = Member::new().await;
        member.after(&[payment("p-2", "COMPLETED", &record, "c-1", "2026-02-03T00:00:00Z")]).await;
        assert_eq!(
            member.after(&[payment("p-3", kind, &record, "c-1", "2026-02-20T00:00:00Z")]).await,
            [DuesOutcome::Applied],
            "{kind}"
        );
        assert_eq!(member.tier_and_credits().await, (PlanTier::Free, 0), "{kind}");
    }
    let (mut member, record) = Member::new().await;
    assert_eq!(
        member.after(&[payment("p-2", "RETURNED", &record, "c-1", "2026-02-03T00:00:00Z")]).await,
        [DuesOutcome::Applied],
        "a failure is booked"
    );
    assert_eq!(member.tier_and_credits().await, (PlanTier::Free, 0), "it had brought nothing");
}

/// February fails: the tier stays for the days of grace, as with a subscription that is past due. Then the
/// member leaves, which ends the renewal and nothing that is paid for.
#[tokio::test]
async fn a_failed_renewal_keeps_the_tier_and_leaving_ends_it() {
    let (mut member, record) = Member::new().await;
    member.after(&[payment("p-2", "COMPLETED", &record, "c-1", "2026-02-03T00:00:00Z")]).await;
    let next = records(&member.engine, "u-1").await.pop().unwrap();
    assert_ne!(next.subscription_id, record.subscription_id);
    let failed = [
        payment("p-3", "SUBMITTED", &next, "c-2", "2026-03-02T00:00:00Z"),
        payment("p-4", "RETURNED", &next, "c-2", "2026-03-04T00:00:00Z"),
    ];
    assert_eq!(member.after(&failed).await, [DuesOutcome::Applied]);
    assert_eq!(member.tier_and_credits().await, (PlanTier::Journeyman, 5));
    let store = |time| at(&member.engine, time).store;
    let grace = access(&store("2026-03-04T00:00:00Z"), &user()).await.unwrap();
    assert_eq!(
        (grace.tier, grace.until.unwrap().text()),
        (PlanTier::Journeyman, "2026-03-18T00:00:00Z".into())
    );
    let outcomes =
        member.after(&[membership("m-2", "CLOSEACCOUNT", "u-1", "2026-03-05T00:00:00Z", json!({}))]).await;
    assert!(outcomes.contains(&DuesOutcome::Applied), "{outcomes:?}");
    assert_eq!(
        member.tier_and_credits().await,
        (PlanTier::Journeyman, 5),
        "in February it is still paid for"
    );
    let left = access(&at(&member.engine, "2026-03-05T00:00:00Z").store, &user()).await.unwrap();
    assert_eq!(left.tier, PlanTier::Free, "without a renewal it ended on 28 February");
}

#[tokio::test]
async fn a_pause_ends_nothing_that_is_paid_for() {
    let (mut member, record) = Member::new().await;
    member.after(&[payment("p-2", "COMPLETED", &record, "c-1", "2026-02-03T00:00:00Z")]).await;
    member
        .after(&[membership(
            "m-2",
            "PAUSE",
            "u-1",
            "2026-02-05T00:00:00Z",
            json!({"pause_duration_months": 2}),
        )])
        .await;
    assert_eq!(member.tier_and_credits().await.0, PlanTier::Journeyman);
    let answer = access(&at(&member.engine, NOW).store, &user()).await.unwrap();
    assert_eq!(
        (answer.tier, answer.source.as_str(), answer.until.unwrap().text()),
        (PlanTier::Journeyman, "dues", "2026-02-28T00:00:00Z".into()),
        "what is paid for can be used until it ends"
    );
    member.after(&[membership("m-3", "UNPAUSE", "u-1", "2026-02-06T00:00:00Z", json!({}))]).await;
    assert_eq!(member.tier_and_credits().await.0, PlanTier::Journeyman);
    let answer = access(&at(&member.engine, NOW).store, &user()).await.unwrap();
    assert_eq!(answer.until, None, "the renewal is expected again");
}

/// Both payment methods at once: the higher tier shows, the credits add up, and the end of one leaves the
/// other.
#[tokio::test]
async fn the_two_ways_of_paying_meet_in_one_profile() {
    let (mut member, record) = Member::new().await;
    let context = at(&member.engine, NOW);
    let month = "2026-02-01T00:00:00Z";
    let sage = [
        subscription("e-1", "created", month, "u-1", "SAGE", "active", month),
        invoice("e-2", "paid", month, "u-1", month),
    ];
    deliver(&context, &sage, 1).await;
    member.after(&[payment("p-2", "COMPLETED", &record, "c-1", "2026-02-03T00:00:00Z")]).await;
    assert_eq!(member.tier_and_credits().await, (PlanTier::Sage, 20));
    deliver(
        &context,
        &[subscription("e-3", "deleted", "2026-02-04T00:00:00Z", "u-1", "SAGE", "canceled", month)],
        1,
    )
    .await;
    assert_eq!(member.tier_and_credits().await, (PlanTier::Sage, 20), "it is paid for until 1 March");
    let march = access(&at(&member.engine, "2026-03-01T00:00:00Z").store, &user()).await.unwrap();
    assert_eq!(
        (march.tier, march.source.as_str()),
        (PlanTier::Journeyman, "dues"),
        "the dues are still paid"
    );
    deliver(
        &context,
        &[checkout("e-4", "2026-02-05T00:00:00Z", "u-1", "GUILD_BUILDER", 99900, "pi_1", "paid")],
        1,
    )
    .await;
    member.after(&[payment("p-3", "RETURNED", &record, "c-1", "2026-02-09T00:00:00Z")]).await;
    assert_eq!(member.tier_and_credits().await, (PlanTier::Guildmaster, 15 + 15));
    let balance = at(&member.engine, NOW).store.credits(&user()).await.unwrap();
    assert_eq!((balance.expires_at, balance.next_grant_at.is_some()), (None, true), "a pass is for life");
}

#[tokio::test]
async fn a_tier_that_is_not_in_the_map_is_reported_and_nothing_is_booked() {
    let (engine, _folder) = embedded();
    let context = at(&engine, NOW);
    let mut terms = monthly("2026-01-31");
    terms["tier"] = "Platinum".into();
    deliver(&context, &[membership("m-1", "ACTIVATE", "u-1", "2026-01-05T00:00:00Z", terms)], 1).await;
    let record = records(&engine, "u-1").await.remove(0);
    let paid = [
        payment("p-1", "SUBMITTED", &record, "c-1", "2026-02-01T00:00:00Z"),
        payment("p-2", "COMPLETED", &record, "c-1", "2026-02-03T00:00:00Z"),
    ];
    deliver(&context, &paid, 10).await;
    let (changes, _) = changes(&engine, 0);
    let (old, new) =
        changes.iter().rev().find(|(_, new)| new.subscription_id == record.subscription_id).unwrap();
    let outcome = apply_dues(&context.store, &TierMap::default(), old.as_ref(), new).await.unwrap();
    let why = "receipt_tier_name: \"Platinum:v2\" stands for no tier: add it to the map of tiers";
    assert_eq!(outcome, DuesOutcome::UnknownTier(why.to_owned()));
    assert_eq!(rows(&engine).await.len(), 0);
    let map = TierMap::parse("Platinum=SAGE, Platinum:v2=GUILDMASTER").unwrap();
    assert_eq!(apply_dues(&context.store, &map, old.as_ref(), new).await.unwrap(), DuesOutcome::Applied);
    assert_eq!(tier(&context.store).await, PlanTier::Guildmaster, "a name with its version comes first");
    assert_eq!(TierMap::parse("Plus"), Err("\"Plus\" is not NAME=TIER".to_owned()));
    assert_eq!(TierMap::parse("Plus=GOLD"), Err("\"Plus=GOLD\": \"GOLD\" is not a tier".to_owned()));
}

/// Stripe's events and dues of one user, booked by two workers at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stripe_and_dues_at_once_lose_nothing() {
    let (member, record) = Member::new().await;
    let engine = &member.engine;
    let context = at(engine, NOW);
    deliver(&context, &[payment("p-2", "COMPLETED", &record, "c-1", "2026-02-03T00:00:00Z")], 1).await;
    let (changes, _) = changes(engine, 0);
    let ach = {
        let store = context.store.clone();
        tokio::spawn(async move {
            for (old, new) in changes {
                apply_dues(&store, &TierMap::default(), old.as_ref(), &new).await.unwrap();
            }
        })
    };
    let top_ups: Vec<_> = (0..10)
        .map(|n| checkout(&format!("e-{n}"), NOW, "u-1", "CREDITS", 500, &format!("pi_{n}"), "paid"))
        .collect();
    let stripe = {
        let context = at(engine, NOW);
        tokio::spawn(async move { deliver(&context, &top_ups, 1).await })
    };
    ach.await.unwrap();
    stripe.await.unwrap();
    assert_eq!(member.tier_and_credits().await, (PlanTier::Journeyman, 105));
    assert_eq!(context.store.entitlement_book(&UserId::from("u-1")).await.unwrap().facts.len(), 10);
}
