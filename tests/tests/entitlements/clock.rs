//! The entitlement clock: what is paid stays until its last second and is gone within five minutes, whatever
//! the member did in between; each moment is booked once.

use chrono::{Days, TimeDelta};
use dues_events::collections::eligibility::Rules;
use dues_events::{PlanTier, Time, UserId};
use dues_processors::entitlements::clock::entitlement_clock;
use dues_processors::operators::audit::audit;
use dues_processors::operators::explain::explain;
use dues_processors::read_models::{ReadModel, ReadModels};
use dues_processors::usage::{Settings, plan_of};
use dues_projections::entitlements::dues::TierMap;
use dues_store::entitlements::Head;
use dues_store::table::ENTITLEMENTS;
use dues_store::{Condition, Engine as _, Key, Store};
use dues_tests::clock::TestClock;
use dues_tests::engines::dynoxide::Call;
use dues_tests::engines::faulty::Faulty;
use dues_tests::engines::{dynoxide, embedded};
use dues_tests::fixtures::company::{Sent, all, deliver, membership, monthly, payment, t};
use dues_tests::fixtures::stripe::{checkout, refund, subscription};
use serde_json::{Value, json};

use super::world::{World, everywhere};
use super::{at, user};

const DUE: &str = "2026-01-31T00:00:00Z";
/// The next due date: 31 January and one month.
const NEXT: &str = "2026-02-28T00:00:00Z";

fn days_after(time: &str, days: u64) -> Time {
    t(time).checked_add_days(Days::new(days)).unwrap()
}

fn text(at: Time) -> String {
    at.format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The days from the settlement to the last before the next due date.
fn days() -> impl Iterator<Item = Time> {
    (4..=27).map(|day| days_after(DUE, day)).filter(|day| *day < t(NEXT))
}

/// What a member may do on any day of a paid period, and whether the membership is renewed after it.
const ACTIONS: [(&str, &[&str], bool); 10] = [
    ("nothing", &[], true),
    ("pause", &["PAUSE"], false),
    ("pause-unpause", &["PAUSE", "UNPAUSE"], true),
    ("cancel", &["CANCEL"], false),
    ("cancel-retract", &["CANCEL", "RETRACT"], true),
    ("close", &["CLOSEACCOUNT"], false),
    ("reactivate", &["REACTIVATE"], false),
    ("upgrade", &["UPGRADE"], true),
    ("downgrade", &["DOWNGRADE"], true),
    ("activate", &["ACTIVATE"], true),
];

fn terms(kind: &str) -> Value {
    match kind {
        "PAUSE" => json!({"pause_duration_months": 2}),
        "REACTIVATE" | "ACTIVATE" => monthly("2026-03-20"),
        "UPGRADE" => json!({"tier": "Pro", "version": "v1", "amount": "29.99"}),
        "DOWNGRADE" => json!({"tier": "Basic", "version": "v1", "amount": "4.99"}),
        _ => json!({}),
    }
}

/// Members who have paid the period from [`DUE`] to [`NEXT`].
async fn paid_members(users: &[String]) -> World {
    let mut world = World::at(t("2026-01-05T00:00:00Z"));
    let join = |user: &String| {
        membership(&format!("m-{user}"), "ACTIVATE", user, "2026-01-05T00:00:00Z", monthly("2026-01-31"))
    };
    world.send(t("2026-01-05T00:00:00Z"), &users.iter().map(join).collect::<Vec<_>>()).await;
    for (kind, at) in [("SUBMITTED", "2026-01-31T08:00:00Z"), ("COMPLETED", "2026-02-03T08:00:00Z")] {
        let mut sent = Vec::new();
        for user in users {
            let record = world.record_due(user, t(DUE)).await.unwrap();
            sent.push(payment(&format!("{kind}-{user}"), kind, &record, &format!("c-{user}"), at));
        }
        world.send(t(at), &sent).await;
    }
    world
}

#[tokio::test]
async fn what_is_paid_stays_to_its_last_second_whatever_the_member_does_on_any_day() {
    let cases: Vec<(String, Time, &[&str], bool)> = ACTIONS
        .into_iter()
        .flat_map(|(name, kinds, renewed)| {
            days().map(move |day| (format!("{name}-{}", day.format("%d")), day, kinds, renewed))
        })
        .collect();
    let users: Vec<String> = cases.iter().map(|(user, ..)| user.clone()).collect();
    let mut world = paid_members(&users).await;
    for day in days() {
        for (n, hour) in [(0, 9), (1, 15)] {
            let now = day + TimeDelta::hours(hour);
            let of_day = cases.iter().filter(|(_, on, kinds, _)| *on == day && kinds.len() > n);
            let event = |(user, _, kinds, _): &(String, Time, &[&str], bool)| {
                membership(&format!("e{n}-{user}"), kinds[n], user, &text(now), terms(kinds[n]))
            };
            let sent: Vec<Sent> = of_day.map(event).collect();
            world.send(now, &sent).await;
        }
        world.tick(day + TimeDelta::hours(20)).await;
    }
    let last = t(NEXT) - TimeDelta::seconds(1);
    world.tick(last).await;
    for (user, ..) in &cases {
        assert_eq!(world.seen(user, last).await, everywhere(PlanTier::Journeyman), "{user} at {last}");
    }
    let after = t(NEXT) + TimeDelta::minutes(5);
    let report = world.tick(after).await;
    for (user, _, _, renewed) in &cases {
        let tier = if *renewed { PlanTier::Journeyman } else { PlanTier::Free };
        assert_eq!(world.seen(user, after).await, everywhere(tier), "{user} at {after}");
    }
    let ended = cases.iter().filter(|(.., renewed)| !renewed).count() as u64;
    assert_eq!(
        (report.due, report.booked, report.tiers),
        (ended, ended, ended),
        "who is renewed costs nothing"
    );
    let found = audit(&world.store(), &TierMap::default(), &world.models, |_| {}).await.unwrap();
    assert_eq!(found.findings, []);
}

/// The days of grace after a failure, and their end.
#[tokio::test]
async fn a_failed_renewal_is_gone_fourteen_days_after_the_failure() {
    let mut world = paid_members(&["u-1".to_owned()]).await;
    let next = world.record_due("u-1", t(NEXT)).await.unwrap();
    for (id, kind, transaction, time) in [
        ("f-1", "SUBMITTED", "d-1", "2026-03-02T08:00:00Z"),
        ("f-2", "RETURNED", "d-1", "2026-03-04T08:00:00Z"),
        ("f-3", "SUBMITTED", "d-2", "2026-03-10T08:00:00Z"),
        ("f-4", "RETURNED", "d-2", "2026-03-12T08:00:00Z"),
    ] {
        world.send(t(time), &[payment(id, kind, &next, transaction, time)]).await;
        world.tick(t(time)).await;
        assert_eq!(world.seen("u-1", t(time)).await, everywhere(PlanTier::Journeyman), "{id}");
    }
    let last = t("2026-03-26T07:59:59Z");
    assert_eq!(world.tick(last).await.due, 0);
    assert_eq!(world.seen("u-1", last).await, everywhere(PlanTier::Journeyman));
    let over = t("2026-03-26T08:04:59Z");
    assert_eq!(world.tick(over).await.tiers, 1);
    assert_eq!(world.seen("u-1", over).await, everywhere(PlanTier::Free));
    // The third presentment is the last: its failure gives no more time.
    for (id, kind, time, tier) in [
        ("f-5", "SUBMITTED", "2026-03-27T08:00:00Z", PlanTier::Journeyman),
        ("f-6", "RETURNED", "2026-03-29T08:00:00Z", PlanTier::Free),
    ] {
        world.send(t(time), &[payment(id, kind, &next, "d-3", time)]).await;
        assert_eq!(world.seen("u-1", t(time)).await, everywhere(tier), "{id}");
    }
}

fn yearly(day: &str) -> Value {
    let mut terms = monthly(day);
    terms["term"] = "YEARLY".into();
    terms
}

/// A member with a year from 31 January 2026 on, settled on 3 February.
async fn paid_year() -> World {
    let mut world = World::at(t("2026-01-05T00:00:00Z"));
    let join = membership("m-1", "ACTIVATE", "u-1", "2026-01-05T00:00:00Z", yearly("2026-01-31"));
    world.send(t("2026-01-05T00:00:00Z"), &[join]).await;
    let record = world.record_due("u-1", t(DUE)).await.unwrap();
    for (kind, time) in [("SUBMITTED", "2026-01-31T08:00:00Z"), ("COMPLETED", "2026-02-03T08:00:00Z")] {
        world.send(t(time), &[payment(kind, kind, &record, "c-1", time)]).await;
    }
    world
}

async fn balance(world: &World) -> i64 {
    let check = world.store().check_ledger(&user()).await.unwrap();
    assert!(check.agrees(), "{check:?}");
    check.balance
}

#[tokio::test]
async fn a_paid_year_brings_its_credits_every_month_and_loses_them_with_its_payment() {
    let mut world = paid_year().await;
    assert_eq!(balance(&world).await, 5, "the first month comes with the settlement");
    // The last days of the months, as 31 January gives them.
    let months =
        ["02-28", "03-31", "04-30", "05-31", "06-30", "07-31", "08-31", "09-30", "10-31", "11-30", "12-31"];
    for (n, day) in (2..).zip(months) {
        let begins = t(&format!("2026-{day}T00:00:00Z"));
        world.tick(begins - TimeDelta::seconds(1)).await;
        assert_eq!(balance(&world).await, 5 * (n - 1), "before {day}");
        let report = world.tick(begins).await;
        assert_eq!((report.months, world.tick(begins).await.due), (1, 0), "{day}");
        assert_eq!(balance(&world).await, 5 * n, "{day}");
    }
    assert_eq!(world.tick(t("2027-01-30T23:59:59Z")).await.due, 0, "twelve months");
    let found = audit(&world.store(), &TierMap::default(), &world.models, |_| {}).await.unwrap();
    assert_eq!(found.findings, []);
    let record = world.record_due("u-1", t(DUE)).await.unwrap();
    let back = "2027-01-30T23:59:59Z";
    world.send(t(back), &[payment("back", "REFUNDED", &record, "c-1", back)]).await;
    assert_eq!((balance(&world).await, world.seen("u-1", t(back)).await), (0, everywhere(PlanTier::Free)));
    let found = audit(&world.store(), &TierMap::default(), &world.models, |_| {}).await.unwrap();
    assert_eq!(found.findings, []);
}

/// After an outage of months one run grants all of them, and a pass catches up by the same job.
#[tokio::test]
async fn an_outage_is_caught_up_by_one_run() {
    let mut world = paid_year().await;
    let pass = checkout("e-1", "2026-02-10T00:00:00Z", "u-1", "FOUNDING_MEMBER", 19900, "pi_1", "paid");
    world.send(t("2026-02-10T00:00:00Z"), &[pass]).await;
    assert_eq!(balance(&world).await, 5 + 15);
    let report = world.tick(t("2026-06-15T00:00:00Z")).await;
    assert_eq!((report.due, report.booked, report.months), (1, 1, 4));
    assert_eq!(balance(&world).await, 5 * 5 + 15 * 5);
    assert_eq!(world.tick(t("2026-06-15T00:04:00Z")).await.due, 0);
}

/// A clock that is set back finds nothing due, takes nothing away, and goes on when time has come back.
#[tokio::test]
async fn a_clock_that_steps_back_wedges_nothing() {
    let mut world = paid_year().await;
    let pass = checkout("e-1", "2026-02-10T00:00:00Z", "u-1", "FOUNDING_MEMBER", 19900, "pi_1", "paid");
    world.send(t("2026-02-10T00:00:00Z"), &[pass]).await;
    world.tick(t("2026-04-10T00:00:00Z")).await;
    let (before, head) = (balance(&world).await, world.store().entitlement_head(&user()).await.unwrap());
    assert_eq!(before, 5 * 3 + 15 * 3);
    assert_eq!(world.tick(t("2026-02-11T00:00:00Z")).await.due, 0);
    // An event in the past of the head: no month is taken back, and `seen` stays where it was.
    let top_up = checkout("e-2", "2026-02-11T00:00:00Z", "u-1", "CREDITS", 500, "pi_2", "paid");
    world.send(t("2026-02-11T00:00:00Z"), &[top_up]).await;
    assert_eq!(balance(&world).await, before + 10);
    assert_eq!(world.store().entitlement_head(&user()).await.unwrap().counted_until, head.counted_until);
    assert_eq!(world.tick(t("2026-04-10T00:05:00Z")).await.due, 0);
    world.tick(t("2026-05-10T00:00:00Z")).await;
    assert_eq!(balance(&world).await, before + 10 + 5 + 15);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_runs_at_once_book_each_moment_once() {
    let users: Vec<String> = (0..40).map(|n| format!("u-{n}")).collect();
    let mut world = paid_members(&users).await;
    let cancel =
        |user: &String| membership(&format!("x-{user}"), "CANCEL", user, "2026-02-10T00:00:00Z", json!({}));
    world.send(t("2026-02-10T00:00:00Z"), &users.iter().map(cancel).collect::<Vec<_>>()).await;
    let versions = async |world: &World| {
        let mut versions = Vec::new();
        for user in &users {
            versions
                .push(world.store().entitlement_head(&UserId::from(user.as_str())).await.unwrap().version);
        }
        versions
    };
    let before = versions(&world).await;
    world.clock.set_now(t(NEXT));
    let run = || {
        let store = world.store();
        tokio::spawn(async move { entitlement_clock(&store, &TierMap::default()).await.unwrap() })
    };
    let (one, two, three) = (run(), run(), run());
    let booked = one.await.unwrap().booked + two.await.unwrap().booked + three.await.unwrap().booked;
    assert_eq!(booked, 40);
    let after: Vec<u64> = before.iter().map(|version| version + 1).collect();
    assert_eq!(versions(&world).await, after);
}

/// A crash after every write of a run; the next run completes it.
#[tokio::test]
async fn a_run_survives_a_crash_after_any_write() {
    let mut crashes = 0;
    for writes in 1.. {
        let mut world = paid_year().await;
        let cancel = membership("x", "CANCEL", "u-1", "2026-02-10T00:00:00Z", json!({}));
        let sage = "2026-02-01T00:00:00Z";
        let stripe = subscription("s-1", "created", sage, "u-1", "SAGE", "active", sage);
        let pass = checkout("e-1", sage, "u-1", "GUILD_BUILDER", 99900, "pi_1", "paid");
        let back = refund("e-2", "created", sage, "re_1", "pi_1", 99900, "succeeded");
        world.send(t("2026-02-10T00:00:00Z"), &[cancel, stripe, pass, back]).await;
        let now = t("2026-05-15T00:00:00Z");
        world.clock.set_now(now);
        let faulty = Faulty::after(world.engine.clone(), writes);
        let store = Store::new(faulty.clone(), world.clock.shared());
        let _ = entitlement_clock(&store, &TierMap::default()).await;
        let crashed = faulty.stopped();
        world.tick(now).await;
        assert_eq!(balance(&world).await, 5 * 4, "crash at write {writes}");
        assert_eq!(world.seen("u-1", now).await, everywhere(PlanTier::Journeyman), "crash at write {writes}");
        assert_eq!(world.store().attention().await.unwrap().len(), 1, "crash at write {writes}");
        assert_eq!(world.tick(now).await.due, 0);
        if !crashed {
            break;
        }
        crashes += 1;
    }
    assert!(crashes >= 2, "only {crashes} crashes");
}

/// A renewal at Stripe that no event reports: ended after three days, and listed until an event arrives.
#[tokio::test]
async fn a_missed_renewal_is_listed_until_an_event_arrives() {
    let mut world = World::at(t("2026-01-01T00:00:00Z"));
    let start = "2026-01-01T00:00:00Z";
    world.send(t(start), &[subscription("e-1", "created", start, "u-1", "SAGE", "active", start)]).await;
    world.tick(t("2026-02-03T23:59:59Z")).await;
    assert_eq!(world.seen("u-1", t("2026-02-03T23:59:59Z")).await, everywhere(PlanTier::Sage));
    assert_eq!(world.store().attention().await.unwrap(), []);
    let report = world.tick(t("2026-02-04T00:04:00Z")).await;
    assert_eq!((report.attention, report.tiers), (1, 1));
    assert_eq!(world.seen("u-1", t("2026-02-04T00:04:00Z")).await, everywhere(PlanTier::Free));
    let listed = world.store().attention().await.unwrap();
    assert_eq!(
        (listed.len(), listed[0].since, listed[0].subscription.as_str()),
        (1, t("2026-02-01T00:00:00Z"), "sub_u-1")
    );
    assert_eq!(world.engine.open_attention().unwrap(), 1);
    let found = audit(&world.store(), &TierMap::default(), &world.models, |_| {}).await.unwrap();
    assert_eq!(found.findings, []);
    let renewed = "2026-02-05T00:00:00Z";
    let event = subscription("e-2", "updated", renewed, "u-1", "SAGE", "active", "2026-02-01T00:00:00Z");
    world.send(t(renewed), &[event]).await;
    assert_eq!(world.seen("u-1", t(renewed)).await, everywhere(PlanTier::Sage));
    assert_eq!(
        (world.store().attention().await.unwrap(), world.engine.open_attention().unwrap()),
        (vec![], 0)
    );
}

/// A timer that is due is not overdue for fifteen minutes; then the clock does not run.
#[tokio::test]
async fn audit_reports_a_clock_that_does_not_run() {
    let mut world = paid_members(&["u-1".to_owned()]).await;
    let cancel = membership("x", "CANCEL", "u-1", "2026-02-10T00:00:00Z", json!({}));
    world.send(t("2026-02-10T00:00:00Z"), &[cancel]).await;
    let findings = async |world: &World, now: Time| {
        world.clock.set_now(now);
        let found = audit(&world.store(), &TierMap::default(), &world.models, |_| {}).await.unwrap();
        (found.findings.len(), found.overdue_timers)
    };
    assert_eq!(findings(&world, t(NEXT) + TimeDelta::minutes(15)).await, (0, 0));
    assert_eq!(findings(&world, t(NEXT) + TimeDelta::minutes(16)).await, (0, 1));
    world.tick(t(NEXT) + TimeDelta::minutes(16)).await;
    assert_eq!(findings(&world, t(NEXT) + TimeDelta::minutes(17)).await, (0, 0));
}

/// The usage plan is the access's: a founder for life is not on the free plan, and a paid period ends there
/// too.
#[tokio::test]
async fn the_usage_plan_follows_the_access() {
    let mut world = paid_members(&["u-1".to_owned()]).await;
    world.models = [ReadModel::Usage].into_iter().collect::<ReadModels>();
    let settings = Settings::default();
    let plan = async |world: &World, user: &str, now: Time| {
        world.clock.set_now(now);
        plan_of(&world.store(), &settings, &UserId::from(user)).await.unwrap().to_owned()
    };
    let pass = checkout("e-1", "2026-02-10T00:00:00Z", "u-2", "GUILD_BUILDER", 99900, "pi_1", "paid");
    let cancel = membership("x", "CANCEL", "u-1", "2026-02-10T00:00:00Z", json!({}));
    world.send(t("2026-02-10T00:00:00Z"), &[pass, cancel]).await;
    assert_eq!(plan(&world, "u-2", t("2030-01-01T00:00:00Z")).await, "pro");
    assert_eq!(plan(&world, "u-1", t(NEXT) - TimeDelta::seconds(1)).await, "pro");
    assert_eq!(plan(&world, "u-1", t(NEXT)).await, "free");
    assert_eq!(plan(&world, "u-3", t(NEXT)).await, "free");
}

/// The story has the change that time alone caused, with its cause, and ends with the access below it.
#[tokio::test]
async fn explain_says_when_a_period_ended_and_why() {
    let mut world = paid_members(&["u-1".to_owned()]).await;
    let cancel = membership("x", "CANCEL", "u-1", "2026-02-10T00:00:00Z", json!({}));
    world.send(t("2026-02-10T00:00:00Z"), &[cancel]).await;
    let ask = async |world: &World, at: Time| {
        explain(&world.store(), &TierMap::default(), &Rules::default(), &user(), at).await.unwrap()
    };
    for (at, tier, changes) in [
        (t("2026-02-03T07:59:59Z"), PlanTier::Free, 0),
        (t("2026-02-03T08:00:00Z"), PlanTier::Journeyman, 1),
        (t(NEXT) - TimeDelta::seconds(1), PlanTier::Journeyman, 1),
        (t(NEXT), PlanTier::Free, 2),
    ] {
        let explained = ask(&world, at).await;
        let last = explained.tier_changes.last().map_or(PlanTier::Free, |turn| turn.to);
        assert_eq!(
            (explained.access.tier, last, explained.tier_changes.len()),
            (tier, tier, changes),
            "{at}"
        );
    }
    let explained = ask(&world, t(NEXT)).await;
    let ended = explained.story.entries.last().unwrap();
    let record = world.record_due("u-1", t(DUE)).await.unwrap().subscription_id;
    assert_eq!(
        ended.sentence,
        format!("Time passed, and this ended: dues of billing record {record} are paid until {NEXT}.")
    );
    assert_eq!((ended.at, explained.tier_changes_of(ended).count()), (t(NEXT), 1));
}

/// A tier that another writer put on a profile stays while only credits are known of the user.
#[tokio::test]
async fn another_writers_tier_is_not_overwritten_by_silence() {
    let mut world = World::at(t("2026-02-10T00:00:00Z"));
    let store = world.store();
    let mut profile = dues_events::Item::new();
    for (name, value) in
        [("PK", "USER#u-1"), ("SK", "PROFILE#u-1"), ("tier", "SAGE"), ("provider", "cognito")]
    {
        profile.set_text(name, value);
    }
    store.engine.put(&dues_store::table::GG_CORE, profile, Condition::Always).await.unwrap();
    let top_up = checkout("e-1", "2026-02-10T00:00:00Z", "u-1", "CREDITS", 500, "pi_2", "paid");
    world.send(t("2026-02-10T00:00:00Z"), &[top_up]).await;
    assert_eq!(world.seen("u-1", t("2026-02-10T00:00:00Z")).await, everywhere(PlanTier::Sage));
    let found = audit(&world.store(), &TierMap::default(), &world.models, |_| {}).await.unwrap();
    assert_eq!(found.findings, []);
    // A pass that is bought and refunded is a fact.
    let time = "2026-02-11T00:00:00Z";
    let pass = checkout("e-2", time, "u-1", "GUILD_BUILDER", 99900, "pi_1", "paid");
    world.send(t(time), &[pass, refund("e-3", "created", time, "re_1", "pi_1", 99900, "succeeded")]).await;
    assert_eq!(world.seen("u-1", t(time)).await, everywhere(PlanTier::Free));
}

/// Heads of an earlier version have neither timers nor renewals: the first run rebuilds them, once.
#[tokio::test]
async fn the_first_run_rebuilds_the_heads_of_an_earlier_version() {
    let mut world = paid_members(&["u-1".to_owned()]).await;
    let start = "2026-02-01T00:00:00Z";
    world.send(t(start), &[subscription("e-1", "created", start, "u-2", "SAGE", "active", start)]).await;
    let store = world.store();
    let mut expected = Vec::new();
    for (user, old) in [
        ("u-1", r#"{"subscribed":"free","passes":"free"}"#),
        ("u-2", r#"{"subscribed":"SAGE","passes":"free","provider":"cognito"}"#),
    ] {
        let user = UserId::from(user);
        let head = store.entitlement_head(&user).await.unwrap();
        let old =
            Head { version: head.version + 1, effective_tier: old.to_owned(), timer: None, ..head.clone() };
        let _ = store.engine.transact(vec![old.op(&user)]).await.unwrap();
        expected.push((user, head));
    }
    let report = world.tick(t("2026-02-10T00:00:00Z")).await;
    assert_eq!((report.rebuilt, world.tick(t("2026-02-10T00:00:00Z")).await.rebuilt), (2, 0));
    for (user, head) in expected {
        let rebuilt = world.store().entitlement_head(&user).await.unwrap();
        assert_eq!((rebuilt.effective_tier, rebuilt.timer), (head.effective_tier, head.timer), "{user}");
    }
    let found = audit(&world.store(), &TierMap::default(), &world.models, |_| {}).await.unwrap();
    assert_eq!(found.findings, []);
}

/// What a run costs on DynamoDB: a query for each bucket, and for each member that is due a read and a
/// transaction. Members that are not due cost nothing.
#[tokio::test]
async fn a_run_costs_its_buckets_and_its_due_members() {
    let (engine, server) = dynoxide().await;
    let start = "2026-01-01T00:00:00Z";
    for n in 0..30 {
        let user = format!("u-{n}");
        let sub = subscription(&format!("e-{n}"), "created", start, &user, "SAGE", "active", start);
        deliver(&at(&engine, start), &[sub], 1).await;
    }
    let run = async |now: &str| {
        let store = Store::new(engine.clone(), TestClock::frozen(t(now)).shared());
        server.reset_calls();
        let report = entitlement_clock(&store, &TierMap::default()).await.unwrap();
        let calls = server.calls();
        let count = |name: &str| calls.iter().filter(|call| call.operation == name).count();
        let units = |name: &str| -> f64 {
            let of_name = |call: &&Call| call.operation == name;
            calls.iter().filter(of_name).filter_map(|call| call.capacity).sum()
        };
        let found = (report.booked, count("Query"), count("GetItem"), count("TransactWriteItems"));
        println!("{now}: {found:?}, {} write units", units("TransactWriteItems"));
        (found, units("Query") + units("GetItem"), units("TransactWriteItems"))
    };
    run("2026-01-02T00:00:00Z").await;
    // Nothing is due: the version of the heads, and sixteen empty buckets.
    let (found, read, _) = run("2026-01-02T00:05:00Z").await;
    assert_eq!(found, (0, 16, 1, 0));
    assert!(read <= 17.0, "{read}");
    // All are due: read before and after, and head, profile and listing in one transaction; the head leaves
    // the index.
    let (found, _, write) = run("2026-02-04T00:00:00Z").await;
    assert_eq!(found, (30, 16, 1 + 2 * 30, 30));
    assert!(write <= 30.0 * 8.0, "{write}");
}

/// A file from before the timers has no columns for their index: they are added when it is opened.
#[tokio::test]
async fn a_file_from_before_the_timers_gets_their_index() {
    let (engine, folder) = embedded();
    let context = at(&engine, "2026-01-01T00:00:00Z");
    let start = "2026-01-01T00:00:00Z";
    deliver(&context, &[subscription("e-1", "created", start, "u-1", "SAGE", "active", start)], 1).await;
    drop((engine, context));
    let path = folder.path().join("dues.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(
        "DROP INDEX \"dues-entitlements/timer-index\";
         ALTER TABLE \"dues-entitlements\" DROP COLUMN p0; ALTER TABLE \"dues-entitlements\" DROP COLUMN s0;",
    )
    .unwrap();
    drop(db);
    let engine = dues_store::embedded::Embedded::open(&path).unwrap();
    assert_eq!(
        all(&engine, &ENTITLEMENTS).await.iter().filter(|item| item.text("SK") == Some("HEAD")).count(),
        1
    );
    let store = at(&engine, "2026-01-02T00:00:00Z").store;
    let due = async |store: &Store<_>| {
        let (bucket, now) = (dues_store::entitlements::timers::bucket_of(&user()), t("2027-01-01T00:00:00Z"));
        store.due_timers(&bucket, now, None).await.unwrap().users
    };
    assert_eq!(due(&store).await, [], "rows from before are not in it");
    let sub = subscription("e-2", "updated", start, "u-1", "SAGE", "past_due", start);
    deliver(&at(&engine, start), &[sub], 1).await;
    let sub = subscription("e-3", "updated", "2026-01-03T00:00:00Z", "u-1", "SAGE", "active", start);
    deliver(&at(&engine, "2026-01-03T00:00:00Z"), &[sub], 1).await;
    assert_eq!(due(&store).await, [user()]);
    let key = Key { partition: "USER#u-1".to_owned(), sort: Some("HEAD".to_owned()) };
    assert!(store.engine.get(&ENTITLEMENTS, key).await.unwrap().unwrap().text("timerAt").is_some());
}
