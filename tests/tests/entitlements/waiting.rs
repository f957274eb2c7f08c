//! Events that name no user resolve their owner, in any order of arrival.

use dues_events::PlanTier;
use dues_processors::Outcome;
use dues_processors::runtime::redrive::{process_stream, redrive};
use dues_store::Engine;
use dues_store::table::{ENTITLEMENTS, PARKED};
use dues_tests::fixtures::company::{all, deliver, incoming};
use dues_tests::fixtures::stripe::{
    checkout, dispute, invoice, invoice_payment, payment_of, refund, subscription,
};

use super::{USER, at, credits, tier, user};

dues_tests::on_engines! {
    who_comes_too_early_is_parked_and_goes_through_by_itself,
    a_chain_of_objects_leads_to_the_user,
    a_redriven_event_without_a_user_stays_parked,
    both_at_once_never_miss_each_other,
    a_hundred_that_wait_for_one_are_let_through_by_it,
}

const NOW: &str = "2026-02-01T00:00:00Z";

async fn waits<E: Engine>(engine: &E) -> usize {
    all(engine, &ENTITLEMENTS)
        .await
        .iter()
        .filter(|item| item.text("SK").unwrap().starts_with("WAIT#"))
        .count()
}

async fn who_comes_too_early_is_parked_and_goes_through_by_itself<E: Engine>(engine: E) {
    let context = at(&engine, NOW);
    let early = refund("e-1", "created", NOW, "re_1", "pi_1", 500, "succeeded");
    assert_eq!(deliver(&context, std::slice::from_ref(&early), 1).await, [Outcome::Parked]);
    assert_eq!(
        deliver(&context, std::slice::from_ref(&early), 1).await,
        [Outcome::Parked],
        "redelivered, it waits on"
    );
    let parked = context.store.parked().await.unwrap();
    assert_eq!(
        (parked.len(), parked[0].code.as_str(), parked[0].event_id.as_deref()),
        (1, "unknown_user", Some("e-1"))
    );
    assert_eq!(
        parked[0].reason,
        "no user is known for pi_1, ch_pi_1: applied automatically once an event names the user"
    );
    let bought = checkout("e-2", NOW, USER, "CREDITS", 1000, "pi_1", "paid");
    assert_eq!(deliver(&context, &[bought], 1).await, [Outcome::Applied]);
    assert_eq!(credits(&context.store).await, 10, "half of it went back before its owner was known");
    assert_eq!((all(&engine, &PARKED).await.len(), waits(&engine).await), (0, 0), "nothing waits any more");
    assert_eq!(deliver(&context, &[early], 1).await, [Outcome::Duplicate]);
}

/// A dispute that names only a charge; the refund that names the charge and its payment; the checkout that
/// names the payment and its user.
async fn a_chain_of_objects_leads_to_the_user<E: Engine>(engine: E) {
    let context = at(&engine, NOW);
    let (stream, mut only_charge) = dispute("e-1", "closed", NOW, "pi_1", "lost");
    only_charge["data"]["object"]["payment_intent"] = serde_json::Value::Null;
    let chain = [
        (stream, only_charge),
        refund("e-2", "created", NOW, "re_1", "pi_1", 100, "pending"),
        checkout("e-3", NOW, USER, "CREDITS", 500, "pi_1", "paid"),
    ];
    assert_eq!(deliver(&context, &chain, 1).await, [Outcome::Parked, Outcome::Parked, Outcome::Applied]);
    assert_eq!((credits(&context.store).await, waits(&engine).await), (0, 0));
    assert_eq!(context.store.entitlement_book(&user()).await.unwrap().facts.len(), 3);
    assert_eq!(context.store.parked().await.unwrap(), vec![]);
}

async fn a_redriven_event_without_a_user_stays_parked<E: Engine>(engine: E) {
    let context = at(&engine, NOW);
    deliver(&context, &[refund("e-1", "created", NOW, "re_1", "pi_1", 500, "succeeded")], 1).await;
    let parked = context.store.parked().await.unwrap().remove(0);
    assert_eq!(redrive(&context, &parked).await.unwrap(), Outcome::Parked);
    assert_eq!(context.store.parked().await.unwrap(), [parked]);
}

async fn both_at_once_never_miss_each_other<E: Engine>(engine: E) {
    for n in 0..20 {
        let payment = format!("pi_{n}");
        let lost = dispute(&format!("d-{n}"), "closed", NOW, &payment, "lost");
        let pass = checkout(&format!("c-{n}"), NOW, USER, "GUILD_BUILDER", 99900, &payment, "paid");
        let spawn_delivery = |(_, record): dues_tests::fixtures::company::Sent| {
            let context = at(&engine, NOW);
            tokio::spawn(async move {
                process_stream(&context, "stripe", &[incoming(&record, 0)]).await.unwrap().outcomes.remove(0)
            })
        };
        let outcomes = futures::future::join_all([spawn_delivery(lost), spawn_delivery(pass)]).await;
        assert!(
            outcomes
                .iter()
                .all(|outcome| matches!(outcome.as_ref().unwrap(), Outcome::Applied | Outcome::Parked)),
            "{outcomes:?}"
        );
        let context = at(&engine, NOW);
        assert_eq!(
            (tier(&context.store).await, credits(&context.store).await),
            (PlanTier::Free, 0),
            "round {n}"
        );
        assert_eq!((context.store.parked().await.unwrap(), waits(&engine).await), (vec![], 0), "round {n}");
    }
    let context = at(&engine, NOW);
    deliver(&context, &[subscription("s", "created", NOW, USER, "SAGE", "active", NOW)], 1).await;
    assert_eq!(tier(&context.store).await, PlanTier::Sage);
}

/// Three years of invoices, payments and refunds, before an event names the customer's owner.
async fn a_hundred_that_wait_for_one_are_let_through_by_it<E: Engine>(engine: E) {
    let context = at(&engine, "2026-02-01T00:00:00Z");
    let mut early = Vec::new();
    for month in (0..36).map(|n| format!("{}-{:02}-01T00:00:00Z", 2023 + n / 12, n % 12 + 1)) {
        early.push(refund(
            &format!("r-{month}"),
            "created",
            &month,
            &format!("re-{month}"),
            &payment_of(USER, &month),
            1500,
            "succeeded",
        ));
        early.push(invoice_payment(&format!("p-{month}"), &month, USER, &month));
        early.push(invoice(&format!("i-{month}"), "paid", &month, USER, &month));
    }
    let outcomes = deliver(&context, &early, 50).await;
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Parked));
    assert_eq!(
        deliver(&context, &[subscription("s", "created", NOW, USER, "SAGE", "active", NOW)], 1).await,
        [Outcome::Applied]
    );
    assert_eq!((context.store.parked().await.unwrap(), waits(&engine).await), (vec![], 0));
    assert_eq!(context.store.entitlement_book(&user()).await.unwrap().facts.len(), 109);
    assert_eq!(credits(&context.store).await, 0, "all were refunded");
}
