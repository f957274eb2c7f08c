//! The tables of billing-activity may be in another region than the rest: each call goes to its table's
//! region.

use dues_store::dynamo::Dynamo;
use dues_store::table::{ALL, BILLING_ACTIVITY, HISTORY, LOCKS};
use dues_store::{Acquired, Locks, SystemClock};
use dues_tests::engines::dynoxide::Dynoxide;
use dues_tests::fixtures::company::{context, deliver, membership, monthly, payment, records};
use dues_tests::fixtures::stripe::checkout;
use std::collections::{BTreeMap, BTreeSet};

fn asked_for(server: &Dynoxide) -> BTreeSet<String> {
    server.calls().into_iter().flat_map(|call| call.tables).collect()
}

#[tokio::test]
async fn each_call_goes_to_the_region_of_its_table() {
    let (here, legacy, locks) = (Dynoxide::new(), Dynoxide::new(), Dynoxide::new());
    let elsewhere = [(BILLING_ACTIVITY.id, &legacy), (HISTORY.id, &legacy), (LOCKS.id, &locks)];
    let elsewhere: BTreeMap<_, _> =
        elsewhere.into_iter().map(|(table, server)| (table, server.client())).collect();
    let engine = Dynamo::new(here.client()).with_clients(elsewhere);
    for table in ALL {
        engine.create(table).await.unwrap();
    }
    let context = context(engine.clone());
    deliver(&context, &[membership("m", "ACTIVATE", "u", "2026-01-05T00:00:00Z", monthly("2026-01-31"))], 1)
        .await;
    let record = records(&engine, "u").await.remove(0);
    let sent = payment("s", "SUBMITTED", &record, "c-1", "2026-02-01T00:00:00Z");
    deliver(
        &context,
        &[sent, checkout("e", "2026-02-01T00:00:00Z", "u", "CREDITS", 1000, "pi_1", "paid")],
        1,
    )
    .await;
    deliver(&context, &[("site-payments", serde_json::json!("poison"))], 1).await;
    let Acquired::Held(lock) = Locks::new(engine, SystemClock::shared()).acquire(&"u".into()).await.unwrap()
    else {
        panic!("the lock is free")
    };
    lock.release().await;
    assert_eq!(asked_for(&legacy), [BILLING_ACTIVITY.name, HISTORY.name].map(String::from).into());
    assert_eq!(asked_for(&locks), [LOCKS.name.to_owned()].into());
    let rest: BTreeSet<String> = ALL.iter().map(|table| table.name.to_owned()).collect();
    assert_eq!(
        asked_for(&here),
        rest.difference(&(&asked_for(&legacy) | &asked_for(&locks))).cloned().collect()
    );
}
