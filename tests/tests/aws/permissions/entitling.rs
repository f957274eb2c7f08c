//! Stripe's events, and what follows from changes of the tables.

use dues_events::{Balance, Item, Movement, Record};
use dues_lambda::{Function, Handle};
use dues_processors::runtime::changes::Change;
use dues_processors::usage::{Settings, count};
use dues_store::table::figureforge::FIGUREFORGE;
use dues_store::table::serenya::SERENYA;
use dues_store::table::usage::USER_USAGE;
use dues_store::table::{BILLING_ACTIVITY, ENTITLEMENTS, GG_CORE, Table};
use dues_store::usage::count::CountOutcome;
use dues_store::{Condition, Engine as _};
use dues_tests::aws::function_recorder::{Site, kinesis_batch};
use dues_tests::fixtures::company::{all, context, deliver, payment, t};
use dues_tests::fixtures::figureforge as figureforge_events;
use dues_tests::fixtures::stripe::{checkout, invoice, invoice_payment, payment_of, refund, subscription};
use dues_tests::fixtures::usage::{asked, at};
use serde_json::{Value, json};
use std::collections::BTreeMap;

use super::{agree, first, members, site};

const AT: &str = "2026-02-10T00:00:00Z";

#[tokio::test]
async fn stripe() {
    let site = site().await;
    let handle = site.start(Function::StripeWebhook);
    let (_, event) = subscription("e-1", "created", AT, "u-1", "SAGE", "active", AT);
    let partner = json!({"source": "aws.partner/stripe.com/ed_1",
        "detail-type": "customer.subscription.created", "detail": event});
    assert_eq!(handle(partner).await.unwrap(), json!({"handled": true}));
    let unsigned = json!({"version": "2.0", "rawPath": "/webhooks/stripe",
        "headers": {"stripe-signature": "t=1,v1=00"}, "body": "{}",
        "requestContext": {"http": {"method": "POST"}}});
    assert_eq!(handle(unsigned).await.unwrap()["statusCode"], 400);
    agree(Function::StripeWebhook, &site);
}

#[tokio::test]
async fn stripe_worker() {
    let site = site().await;
    let handle = site.start(Function::StripeWorker);
    for (_, event) in [
        // The owner is not known yet: it waits, and the checkout lets it through.
        refund("e-0", "created", AT, "re_1", "pi_1", 500, "succeeded"),
        refund("e-0", "created", AT, "re_1", "pi_1", 500, "succeeded"),
        checkout("e-1", AT, "u-1", "CREDITS", 1000, "pi_1", "paid"),
        refund("e-0", "created", AT, "re_1", "pi_1", 500, "succeeded"),
        subscription("e-2", "created", AT, "u-1", "SAGE", "active", AT),
        invoice("e-3", "paid", AT, "u-1", AT),
        invoice_payment("e-4", AT, "u-1", AT),
        refund("e-5", "created", AT, "re_2", &payment_of("u-1", AT), 1500, "succeeded"),
        checkout("e-6", AT, "u-1", "FOUNDING_MEMBER", 20_000, "pi_2", "paid"),
        refund("e-7", "created", AT, "re_3", "pi_2", 20_000, "succeeded"),
        ("stripe", json!("poison")),
    ] {
        assert_eq!(handle(kinesis_batch(&[event])).await.unwrap(), json!({"batchItemFailures": []}));
    }
    // Credits that arrived late and expired in the same second as earlier ones, which have their expiry in
    // the ledger.
    let (late, expired) = ("u-2".into(), t("2026-02-01T00:00:00Z").timestamp());
    let balance =
        Balance { balance: 5, expires_at: Some(expired), ..Balance::new(late, t("2025-02-01T00:00:00Z")) };
    let ended = Movement::expire(expired, 0, 5).to_item(&balance.user);
    for item in [balance.to_item(), ended] {
        site.engine.put(&GG_CORE, item, Condition::Always).await.unwrap();
    }
    let (_, bought) = checkout("e-8", AT, "u-2", "CREDITS", 1000, "pi_8", "paid");
    assert_eq!(handle(kinesis_batch(&[bought])).await.unwrap(), json!({"batchItemFailures": []}));
    agree(Function::StripeWorker, &site);
}

/// Delivers a change to a function, as Lambda does.
pub(super) async fn deliver_change(
    handle: &Handle,
    table: &'static Table,
    old: Option<Item>,
    new: Option<Item>,
    sequence: &str,
    by_ttl: bool,
) -> Value {
    let change = Change { sequence: sequence.to_owned(), table, old, new, arrived: t(AT), by_ttl };
    let mut record = change.to_json();
    record["eventSourceARN"] =
        format!("arn:aws:dynamodb:eu-central-1:000000000000:table/{}/stream/2026", table.name).into();
    handle(json!({"Records": [record]})).await.unwrap()
}

pub(super) fn profile_row(user: &str, tier: &str) -> Item {
    let mut item = Item::new();
    for (name, text) in [
        ("PK", format!("USER#{user}")),
        ("SK", format!("PROFILE#{user}")),
        ("tier", tier.into()),
        ("provider", "cognito".into()),
    ] {
        item.set_text(name, text);
    }
    item
}

async fn profile(site: &Site, handle: &Handle, user: &str, tier: &str, sequence: &str) {
    let item = profile_row(user, tier);
    site.engine.put(&GG_CORE, item.clone(), Condition::Always).await.unwrap();
    assert_eq!(
        deliver_change(handle, &GG_CORE, None, Some(item), sequence, false).await,
        json!({"batchItemFailures": []})
    );
}

#[tokio::test]
async fn projector() {
    let site = site().await;
    let handle = site.start(Function::Projector);
    // Dues are paid, then returned.
    members(&site, &["u-1"], "2026-01-31").await;
    let mut before: Option<Record> = None;
    for (id, kind) in [("a", "SUBMITTED"), ("b", "COMPLETED"), ("c", "RETURNED")] {
        let sent = payment(id, kind, &first(&site, "u-1").await, "c-1", AT);
        deliver(&context(site.engine.clone()), &[sent], 1).await;
        let after = first(&site, "u-1").await;
        let old = before.as_ref().map(Record::to_item);
        assert_eq!(
            deliver_change(&handle, &BILLING_ACTIVITY, old, Some(after.to_item()), id, false).await,
            json!({"batchItemFailures": []})
        );
        before = Some(after);
    }
    // Groups: a user unknown to the pool, then known, then with another tier.
    profile(&site, &handle, "auth0|ada", "SAGE", "g-1").await;
    site.pool.1.admin_create_user().user_pool_id(&site.pool.0).username("auth0|ada").send().await.unwrap();
    profile(&site, &handle, "auth0|ada", "SAGE", "g-2").await;
    profile(&site, &handle, "auth0|ada", "JOURNEYMAN", "g-3").await;
    // A balance that has expired.
    deliver(&context(site.engine.clone()), &[checkout("e-1", AT, "u-2", "CREDITS", 1000, "pi_1", "paid")], 1)
        .await;
    let balance = all(&site.engine, &GG_CORE)
        .await
        .into_iter()
        .find(|item| item.text("SK") == Some("CREDITS#BALANCE"))
        .unwrap();
    deliver_change(&handle, &GG_CORE, Some(balance), None, "t-1", true).await;
    // Stripe's events for the read models, and an unreadable one.
    deliver(
        &context(site.engine.clone()),
        &[subscription("e-2", "created", AT, "u-2", "SAGE", "active", AT)],
        1,
    )
    .await;
    deliver(&context(site.engine.clone()), &[invoice("e-3", "paid", AT, "u-2", AT)], 1).await;
    deliver_stripe_events(&site, &handle).await;
    // A failed attempt of two days before arrives late: the payment takes that day.
    deliver(
        &context(site.engine.clone()),
        &[invoice("e-4", "payment_failed", "2026-02-08T00:00:00Z", "u-2", AT)],
        1,
    )
    .await;
    deliver_stripe_events(&site, &handle).await;
    models_follow(&site, &handle).await;
    handle(json!({"Records": [{"eventSourceARN": "nonsense"}]})).await.unwrap();
    agree(Function::Projector, &site);
}

async fn deliver_stripe_events(site: &Site, handle: &Handle) {
    for event in all(&site.engine, &ENTITLEMENTS)
        .await
        .into_iter()
        .filter(|item| item.text("SK").unwrap().starts_with("EVENT#"))
    {
        assert_eq!(
            deliver_change(handle, &ENTITLEMENTS, None, Some(event), "s-1", false).await,
            json!({"batchItemFailures": []})
        );
    }
}

/// Actions are logged, tags and images follow, and a profile that TTL removed is restored.
async fn models_follow(site: &Site, handle: &Handle) {
    let now = at(&site.engine, t(AT));
    let counted = count(&now, &Settings::default(), &asked("u-3", "simulations", "simulation_run", "k-1"))
        .await
        .unwrap();
    assert!(matches!(counted, CountOutcome::Done(_)), "{counted:?}");
    for row in all(&site.engine, &USER_USAGE).await {
        assert_eq!(
            deliver_change(handle, &USER_USAGE, None, Some(row), "u-1", false).await,
            json!({"batchItemFailures": []})
        );
    }
    let (users, mut before) = (["u-3".to_owned(), "u-4".to_owned()], BTreeMap::new());
    for seed in [1, 2] {
        let events =
            figureforge_events::events(seed, 120, &users).into_iter().map(|event| ("app-events", event));
        deliver(&context(site.engine.clone()), &events.collect::<Vec<_>>(), 25).await;
        for row in all(&site.engine, &FIGUREFORGE)
            .await
            .into_iter()
            .filter(|row| row.text("pk").unwrap().starts_with("IMG#"))
        {
            let key = (row.text("pk").unwrap().to_owned(), row.text("sk").unwrap().to_owned());
            let old = before.insert(key, row.clone());
            assert_eq!(
                deliver_change(handle, &FIGUREFORGE, old, Some(row), "f-1", false).await,
                json!({"batchItemFailures": []})
            );
        }
    }
    let event = |kind: &str, mut fields: Value| {
        (fields["event_id"], fields["type"], fields["occurred_at"]) =
            (kind.into(), format!("serenya.{kind}").into(), AT.into());
        ("app-events", fields)
    };
    let made = json!({"user_id": "u-3", "email": "ada@example.com", "name": "Ada", "auth_provider": "google",
        "external_id": "x-1"});
    let session = json!({"user_id": "u-3", "session_id": "s-1"});
    deliver(
        &context(site.engine.clone()),
        &[event("user.created", made), event("session.started", session)],
        2,
    )
    .await;
    let profile =
        all(&site.engine, &SERENYA).await.into_iter().find(|row| row.text("SK") == Some("PROFILE")).unwrap();
    assert_eq!(
        deliver_change(handle, &SERENYA, Some(profile), None, "p-1", true).await,
        json!({"batchItemFailures": []})
    );
}
