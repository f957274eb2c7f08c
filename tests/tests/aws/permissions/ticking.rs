//! The entitlement clock: a month of a founder pass, a renewal that is overdue, and a head of an earlier
//! version.

use dues_events::UserId;
use dues_lambda::Function;
use dues_processors::Context;
use dues_store::entitlements::Head;
use dues_store::{Engine as _, Store};
use dues_tests::clock::TestClock;
use dues_tests::fixtures::company::{context, deliver, t};
use dues_tests::fixtures::stripe::{checkout, subscription};
use serde_json::json;

use super::{agree, site};

const AT: &str = "2026-01-15T00:00:00Z";

#[tokio::test]
async fn entitlement_clock() {
    let site = site().await;
    let store = Store::new(site.engine.clone(), TestClock::frozen(t(AT)).shared());
    let january = Context { store, ..context(site.engine.clone()) };
    let sent = [
        checkout("e-1", AT, "u-1", "FOUNDING_MEMBER", 20_000, "pi_1", "paid"),
        subscription("e-2", "created", AT, "u-2", "SAGE", "active", AT),
    ];
    deliver(&january, &sent, 1).await;
    let standing = r#"{"subscribed":"SAGE","passes":"free"}"#.to_owned();
    let old = Head { version: 1, effective_tier: standing, ..Head::default() };
    let _ = site.engine.transact(vec![old.op(&UserId::from("u-3"))]).await.unwrap();
    let handle = site.start(Function::EntitlementClock);
    let booked =
        json!({"due": 2, "booked": 2, "tiers": 1, "months": 0, "attention": 1, "rebuilt": 1, "failed": 0});
    assert_eq!(handle(json!({})).await.unwrap(), booked);
    agree(Function::EntitlementClock, &site);
    let nothing =
        json!({"due": 0, "booked": 0, "tiers": 0, "months": 0, "attention": 0, "rebuilt": 0, "failed": 0});
    assert_eq!(handle(json!({})).await.unwrap(), nothing);
}
