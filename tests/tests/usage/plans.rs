//! The plans of users: from Stripe's subscriptions, and from dues by ACH through the change stream.

use dues_events::{Item, Record, Time, UserId};
use dues_processors::Outcome;
use dues_processors::read_models::ReadModels;
use dues_processors::usage::{Settings, plan_of};
use dues_projections::usage::Plans;
use dues_store::Engine;
use dues_store::embedded::Embedded;
use dues_tests::engines::embedded;
use dues_tests::fixtures::company::{Sent, context, deliver, membership, monthly, payment, records, t};
use dues_tests::fixtures::stripe::subscription;
use dues_tests::fixtures::usage::{at, embedded_changes, projector, stripe_events};
use fastrand::Rng;

use super::rows;

dues_tests::on_engines! {
    the_latest_of_stripes_events_counts_whatever_their_order,
    dues_by_ach_are_a_subscription_until_the_money_goes_back,
}

const NOW: &str = "2026-03-01T00:00:00Z";

async fn record_event<E: Engine>(engine: &E, models: &ReadModels, (_, event): &Sent) -> Outcome {
    let event =
        dues_events::entitlements::stripe::wire::decode(event.to_string().as_bytes()).unwrap().unwrap();
    models.stripe(&at(engine, t(NOW)), &event.user().unwrap().clone(), &event).await.unwrap()
}

async fn the_latest_of_stripes_events_counts_whatever_their_order<E: Engine>(engine: E) {
    let users = ["ada", "ben", "cyd"].map(str::to_owned);
    // Only this model: the others have rows of their own.
    let models: ReadModels = [dues_processors::read_models::ReadModel::Usage].into_iter().collect();
    let mut events = stripe_events(7, 40, &users);
    // Within one second the end is later, whichever arrives first.
    for (n, status) in ["active", "canceled"].iter().enumerate() {
        let end = "2026-01-29T00:00:00Z";
        events.push(subscription(
            &format!("end-{n}"),
            "updated",
            end,
            "ada",
            "SAGE",
            status,
            "2026-01-01T00:00:00Z",
        ));
    }
    for event in &events {
        assert_eq!(record_event(&engine, &models, event).await, Outcome::Applied);
    }
    let expected = rows(&engine).await;
    let status = |user: &str| {
        expected[&("f1-user-subscriptions", user.to_owned(), format!("sub_{user}"))]
            .text("status")
            .map(str::to_owned)
    };
    assert_eq!((expected.len(), status("ada").as_deref()), (3, Some("canceled")));
    let mut dice = Rng::with_seed(3);
    for _ in 0..3 {
        super::clear(&engine).await;
        dice.shuffle(&mut events);
        for (n, event) in events.iter().enumerate() {
            assert_eq!(record_event(&engine, &models, event).await, Outcome::Applied);
            assert_eq!(
                record_event(&engine, &models, &events[dice.usize(..=n)]).await,
                Outcome::Duplicate,
                "delivered again"
            );
        }
        assert_eq!(rows(&engine).await, expected);
    }
}

/// Delivers the current state of all billing records of a user.
async fn deliver_dues<E: Engine>(engine: &E, user: &str) {
    for record in records(engine, user).await {
        ReadModels::default().billing(&at(engine, t(NOW)), &record).await.unwrap();
    }
}

async fn dues_row<E: Engine>(engine: &E, user: &str) -> Option<Item> {
    at(engine, t(NOW)).plan_subscription(&user.into(), &format!("dues-{user}")).await.unwrap()
}

async fn standing<E: Engine>(engine: &E, user: &str) -> (String, &'static str) {
    deliver_dues(engine, user).await;
    let row = dues_row(engine, user).await;
    let status = row.and_then(|row| row.text("status").map(str::to_owned)).unwrap_or_default();
    let settings = Settings::default();
    let plan = plan_of(&at(engine, t(NOW)), &settings, &UserId::from(user)).await.unwrap();
    (status, if plan == "pro" { "pro" } else { "free" })
}

async fn dues_by_ach_are_a_subscription_until_the_money_goes_back<E: Engine>(engine: E) {
    let context = context(engine.clone());
    let send = async |sent: Sent| assert_eq!(deliver(&context, &[sent], 1).await, [Outcome::Applied]);
    let of = |status: &str, plan: &'static str| (status.to_owned(), plan);
    send(membership("m-1", "ACTIVATE", "u-1", "2026-01-05T00:00:00Z", monthly("2026-01-31"))).await;
    assert_eq!(standing(&engine, "u-1").await, of("", "free"), "nothing was paid yet");
    let january = records(&engine, "u-1").await.remove(0);
    send(payment("p-1", "SUBMITTED", &january, "c-1", "2026-02-01T00:00:00Z")).await;
    send(payment("p-2", "COMPLETED", &january, "c-1", "2026-02-03T00:00:00Z")).await;
    assert_eq!(standing(&engine, "u-1").await, of("active", "pro"));
    let row = dues_row(&engine, "u-1").await.unwrap();
    for (name, text) in [
        ("user_id", "u-1"),
        ("subscription_id", "dues-u-1"),
        ("plan_id", "pro"),
        ("status", "active"),
        ("current_period_start", "2026-01-31T00:00:00Z"),
        ("current_period_end", "2026-02-28T00:00:00Z"),
        ("created_at", "2026-01-05T00:00:00Z"),
        ("updated_at", "2026-02-03T00:00:00Z"),
    ] {
        assert_eq!(row.text(name), Some(text), "{name}");
    }
    assert_eq!(row.len(), 8, "no Stripe subscription stands behind it");

    // A renewal fails: the paid plan continues while it is retried.
    let february = records(&engine, "u-1").await.remove(1);
    send(payment("p-3", "SUBMITTED", &february, "c-2", "2026-03-01T00:00:00Z")).await;
    assert_eq!(standing(&engine, "u-1").await, of("active", "pro"));
    send(payment("p-4", "RETURNED", &february, "c-2", "2026-03-03T00:00:00Z")).await;
    assert_eq!(standing(&engine, "u-1").await, of("past_due", "pro"));
    // It is paid after all, and returned late: nothing is paid for any more.
    send(payment("p-5", "SUBMITTED", &february, "c-3", "2026-03-05T00:00:00Z")).await;
    send(payment("p-6", "COMPLETED", &february, "c-3", "2026-03-07T00:00:00Z")).await;
    assert_eq!(standing(&engine, "u-1").await, of("active", "pro"));
    send(payment("p-7", "RETURNED", &february, "c-3", "2026-03-20T00:00:00Z")).await;
    assert_eq!(standing(&engine, "u-1").await, of("unpaid", "free"));
    send(payment("p-8", "SUBMITTED", &february, "c-4", "2026-03-21T00:00:00Z")).await;
    send(payment("p-9", "COMPLETED", &february, "c-4", "2026-03-23T00:00:00Z")).await;
    assert_eq!(standing(&engine, "u-1").await, of("active", "pro"));
    send(payment("p-10", "REFUNDED", &february, "c-4", "2026-03-25T00:00:00Z")).await;
    assert_eq!(standing(&engine, "u-1").await, of("canceled", "free"));
}

/// A member through the stream: every change of the billing records, delivered in order, ends in the same
/// row as the current records.
#[tokio::test]
async fn the_change_stream_reports_dues_that_ended_and_began_again() {
    let (engine, _folder) = embedded();
    let context = context(engine.clone());
    let mut seen = 0;
    for (sent, status) in [
        (membership("m-1", "ACTIVATE", "u-1", "2026-01-05T00:00:00Z", monthly("2026-01-31")), None),
        (
            membership("m-2", "CLOSEACCOUNT", "u-1", "2026-01-06T00:00:00Z", serde_json::json!({})),
            Some("canceled"),
        ),
        (
            membership("m-3", "REACTIVATE", "u-1", "2026-01-07T00:00:00Z", monthly("2026-02-15")),
            Some("canceled"),
        ),
    ] {
        deliver(&context, std::slice::from_ref(&sent), 1).await;
        seen = project(&engine, seen, t(NOW)).await;
        let row = dues_row(&engine, "u-1").await;
        assert_eq!(row.as_ref().and_then(|row| row.text("status")), status, "{sent:?}");
    }
    let record: Record = records(&engine, "u-1").await.pop().unwrap();
    for (id, kind, at) in
        [("p-1", "SUBMITTED", "2026-02-16T00:00:00Z"), ("p-2", "COMPLETED", "2026-02-18T00:00:00Z")]
    {
        deliver(&context, &[payment(id, kind, &record, "c-1", at)], 1).await;
    }
    project(&engine, seen, t(NOW)).await;
    let row = dues_row(&engine, "u-1").await.unwrap();
    assert_eq!((row.text("status"), row.text("created_at")), (Some("active"), Some("2026-01-07T00:00:00Z")));
    // All of it again, from the beginning.
    let before = super::everything(&engine).await;
    project(&engine, 0, t(NOW)).await;
    assert_eq!(super::everything(&engine).await, before);
}

/// Projects the changes after a position; returns the last position.
async fn project(engine: &Embedded, after: u64, now: Time) -> u64 {
    let changes = embedded_changes(engine);
    let new: Vec<_> =
        changes.into_iter().filter(|change| change.sequence.parse::<u64>().unwrap() > after).collect();
    let report = projector(&at(engine, now)).project(&new).await;
    assert_eq!(report.first_failure(), None, "{:?}", report.outcomes);
    new.last().map_or(after, |change| change.sequence.parse().unwrap())
}

/// A tier that maps to no plan needs an operator.
#[tokio::test]
async fn a_change_with_a_tier_without_a_plan_is_parked_and_can_be_driven_through_later() {
    let (engine, _folder) = embedded();
    let context = context(engine.clone());
    deliver(
        &context,
        &[membership("m-1", "ACTIVATE", "u-1", "2026-01-05T00:00:00Z", monthly("2026-01-31"))],
        1,
    )
    .await;
    let record = records(&engine, "u-1").await.remove(0);
    deliver(&context, &[payment("p-1", "SUBMITTED", &record, "c-1", "2026-02-01T00:00:00Z")], 1).await;
    deliver(&context, &[payment("p-2", "COMPLETED", &record, "c-1", "2026-02-03T00:00:00Z")], 1).await;
    let strict =
        Settings { plans: Plans::configured(None, Some("SAGE=pro")).unwrap(), ..Settings::default() };
    let store = at(&engine, t(NOW));
    let mut projector = projector(&store);
    projector.read_models = ReadModels::default().with_usage(strict);
    let report = projector.project(&embedded_changes(&engine)).await;
    assert_eq!(
        report.outcomes.iter().filter(|outcome| **outcome == Outcome::Parked).count(),
        1,
        "{:?}",
        report.outcomes
    );
    let parked = store.parked().await.unwrap();
    assert_eq!(
        parked[0].reason,
        "invalid: tier \"Plus:v2\" stands for no plan: add it to the tiers of the plans"
    );
    projector.read_models = ReadModels::default();
    projector.project(&embedded_changes(&engine)).await;
    assert_eq!(dues_row(&engine, "u-1").await.unwrap().text("status"), Some("active"));
}
