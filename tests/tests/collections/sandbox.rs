//! The sandbox's contract: refunds in parts, once per key and never more than was collected; events that
//! carry what moved; and the balance of every transaction.

use dues_events::{AttemptKey, Money, RefundKey, Time, TransactionId};
use dues_processors::collections::gateway::sandbox::{Balance, Odds, Sandbox};
use dues_processors::collections::gateway::{Debit, Gateway, OutcomeUnknown, Refund, RefundAnswer};
use dues_store::{Engine, Store};
use dues_tests::clock::TestClock;
use dues_tests::engines;
use dues_tests::engines::memory::Memory;
use dues_tests::fixtures::company::t;
use futures::future::join_all;
use serde_json::{Value, json};

/// A Monday; debits settle on Wednesday.
const SUBMITTED: &str = "2026-02-02T08:00:00Z";
const SETTLED: &str = "2026-02-04T06:00:00Z";
/// Thursday: a refund that is asked for now goes back on Friday.
const ASKED: &str = "2026-02-05T12:00:00Z";
const BACK: &str = "2026-02-06T05:59:59Z";
/// After every late return and chargeback.
const LATER: &str = "2026-04-01T00:00:00Z";

struct Network<E> {
    sandbox: Sandbox<E>,
    clock: TestClock,
}

fn money(text: &str) -> Money {
    text.parse().unwrap()
}

fn attempt(user: &str) -> AttemptKey {
    AttemptKey::of(&format!("s-{user}").as_str().into(), 1)
}

impl<E: Engine> Network<E> {
    fn new(engine: E) -> Self {
        let clock = TestClock::frozen(t(SUBMITTED));
        Self { sandbox: Sandbox::new(Store::new(engine, clock.shared()), Odds::NONE), clock }
    }

    /// Debits 14.99 from an account, at the time of submission.
    async fn debit(&self, user: &str, mask: &str) -> TransactionId {
        self.sandbox.set_account(&user.into(), mask).await.unwrap();
        let debit = Debit {
            user_id: user.into(),
            subscription_id: format!("s-{user}").as_str().into(),
            amount: money("14.99"),
            period: "02/2026".into(),
        };
        self.sandbox.submit(&debit, &attempt(user)).await.unwrap();
        let balances = self.sandbox.balances(t(LATER)).await.unwrap();
        let mine = balances.into_iter().find(|balance| balance.user_id.as_str() == user);
        mine.map_or_else(|| "none".into(), |balance| balance.transaction_id)
    }

    async fn refund(
        &self,
        transaction: &TransactionId,
        n: u32,
        amount: &str,
    ) -> Result<RefundAnswer, OutcomeUnknown> {
        let refund =
            Refund { transaction_id: transaction.clone(), amount: money(amount), user_id: "u-1".into() };
        self.sandbox.refund(&refund, &RefundKey::of(transaction, n)).await
    }

    /// Publishes what is due and returns the records.
    async fn publish(&self, now: Time) -> Vec<Value> {
        let mut records = Vec::new();
        loop {
            let events = self.sandbox.due_events(now).await.unwrap();
            if events.is_empty() {
                return records;
            }
            records.extend(events.iter().map(|event| serde_json::from_str::<Value>(&event.record).unwrap()));
            self.sandbox.mark_published(events).await.unwrap();
        }
    }

    async fn balance(&self, user: &str, at: &str) -> Option<Balance> {
        let balances = self.sandbox.balances(t(at)).await.unwrap();
        balances.into_iter().find(|balance| balance.user_id.as_str() == user)
    }

    /// Collected, refunded, returned, and what is left of it.
    async fn sums(&self, user: &str, at: &str) -> [String; 4] {
        let it = self.balance(user, at).await.unwrap();
        [it.collected, it.refunded, it.returned, it.at_bank()].map(|sum| format!("{:.2}", sum.decimal()))
    }
}

fn is_refunded(answer: &Result<RefundAnswer, OutcomeUnknown>) -> bool {
    matches!(answer, Ok(RefundAnswer::Refunded { .. }))
}

#[track_caller]
fn assert_refused(answer: Result<RefundAnswer, OutcomeUnknown>, wanted: &str) {
    assert_eq!(answer, Ok(RefundAnswer::Refused { reason: wanted.into() }));
}

async fn refunds_contract<E: Engine>(engine: E) {
    let network = Network::new(engine);
    let transaction = network.debit("u-1", "6789").await;
    assert_refused(
        network.refund(&transaction, 1, "5.00").await,
        "5.00 is more than the 0 that is left of the transaction",
    );
    network.clock.set_now(t(ASKED));
    assert_eq!(network.sandbox.lookup_refund(&RefundKey::of(&transaction, 2)).await, Ok(None), "never seen");
    assert_refused(
        network.refund(&transaction, 1, "5.00").await,
        "5.00 is more than the 0 that is left of the transaction",
    );

    let first = network.refund(&transaction, 2, "5.00").await;
    assert!(is_refunded(&first), "{first:?}");
    assert_eq!(network.refund(&transaction, 2, "5.00").await, first, "once per key");
    let found = network.sandbox.lookup_refund(&RefundKey::of(&transaction, 2)).await;
    assert_eq!(found.map(Option::unwrap), first);
    let other = network.refund(&transaction, 2, "5.01").await;
    assert_eq!(
        other,
        Err(OutcomeUnknown("sandbox: invalid: dues-sandbox: the key stands for another refund".into()))
    );

    assert_refused(
        network.refund(&transaction, 3, "10.00").await,
        "10.00 is more than the 9.99 that is left of the transaction",
    );
    assert_refused(network.refund(&transaction, 4, "0.00").await, "nothing to refund");
    assert_refused(network.refund(&"sbx-unknown".into(), 1, "1.00").await, "unknown transaction");
    assert!(is_refunded(&network.refund(&transaction, 5, "9.99").await));
    assert_refused(
        network.refund(&transaction, 6, "0.01").await,
        "0.01 is more than the 0.00 that is left of the transaction",
    );

    assert_eq!(network.sums("u-1", "2026-02-03T00:00:00Z").await, ["0.00", "0.00", "0.00", "0.00"]);
    assert_eq!(network.sums("u-1", ASKED).await, ["14.99", "0.00", "0.00", "14.99"]);
    assert_eq!(network.sums("u-1", BACK).await, ["14.99", "14.99", "0.00", "0.00"]);

    let published = network.publish(t(LATER)).await;
    let reports: Vec<_> = published
        .iter()
        .map(|record| (&record["type"], &record["occurred_at"], &record["payment"]["amount"]))
        .map(|(kind, at, amount)| json!([kind, at, amount]))
        .collect();
    assert_eq!(reports[0], json!(["SUBSCRIPTION_COMPLETED", SETTLED, "14.99"]));
    let mut refunds = reports[1..].to_vec();
    refunds.sort_by_key(Value::to_string);
    assert_eq!(
        refunds,
        [json!(["SUBSCRIPTION_REFUNDED", BACK, "5.00"]), json!(["SUBSCRIPTION_REFUNDED", BACK, "9.99"])]
    );
    assert!(published.iter().all(|record| record["payment"]["payment_id"] == attempt("u-1").as_str()));
    assert!(published.iter().all(|record| record["payment"]["confirmation_id"] == transaction.as_str()));
    assert_eq!(network.publish(t(LATER)).await, Vec::<Value>::new(), "each is published once");
}

#[tokio::test]
async fn refunds_in_parts_never_exceed_what_was_collected() {
    refunds_contract(Memory::default()).await;
    let (engine, _folder) = engines::embedded();
    refunds_contract(engine).await;
}

#[tokio::test]
async fn only_the_member_who_was_debited_is_refunded() {
    let network = Network::new(Memory::default());
    let transaction = network.debit("u-2", "6789").await;
    network.clock.set_now(t(ASKED));
    assert_refused(network.refund(&transaction, 1, "1.00").await, "the transaction is another member's");
    assert_eq!(network.sums("u-2", LATER).await, ["14.99", "0.00", "0.00", "14.99"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn refunds_at_once_do_not_exceed_what_was_collected_either() {
    let (engine, _folder) = engines::embedded();
    let network = Network::new(engine);
    let transaction = network.debit("u-1", "0400").await;
    network.clock.set_now(t(ASKED));
    // Forty requests for a dollar, each key twice, while the network publishes.
    let keys: Vec<u32> = (0..20).flat_map(|n| [n, n]).collect();
    let refunds = join_all(keys.iter().map(|n| network.refund(&transaction, *n, "1.00")));
    let (answers, _) = tokio::join!(refunds, network.publish(t(ASKED)));
    let made: std::collections::BTreeSet<u32> =
        keys.iter().zip(&answers).filter(|(_, answer)| is_refunded(answer)).map(|(n, _)| *n).collect();
    assert_eq!(made.len(), 14, "{answers:?}");
    for pair in answers.chunks(2) {
        assert_eq!(pair[0], pair[1]);
    }
    assert_eq!(network.sums("u-1", LATER).await, ["14.99", "14.00", "0.00", "0.99"]);
    assert_eq!(network.publish(t(LATER)).await.len(), 14);
}

#[tokio::test]
async fn every_event_carries_its_money_and_the_attempt_that_it_is_about() {
    let network = Network::new(Memory::default());
    let cases: [(&str, &[&str], [&str; 4]); 6] = [
        ("6789", &["COMPLETED"], ["14.99", "0.00", "0.00", "14.99"]),
        ("0001", &["RETURNED"], ["0.00", "0.00", "0.00", "0.00"]),
        ("0110", &["COMPLETED", "RETURNED"], ["14.99", "0.00", "14.99", "0.00"]),
        ("0200", &["COMPLETED", "REFUNDED"], ["14.99", "14.99", "0.00", "0.00"]),
        ("0300", &["COMPLETED", "CHARGED_BACK"], ["14.99", "0.00", "14.99", "0.00"]),
        ("0400", &[], ["14.99", "0.00", "0.00", "14.99"]),
    ];
    for (mask, ..) in cases {
        network.debit(&format!("u-{mask}"), mask).await;
    }
    network.debit("u-0501", "0501").await;
    assert_eq!(network.balance("u-0501", LATER).await, None, "a refused debit moves nothing");
    let published = network.publish(t(LATER)).await;
    assert_eq!(published.len(), 8);
    for (mask, kinds, sums) in cases {
        let user = format!("u-{mask}");
        let balance = network.balance(&user, LATER).await.unwrap();
        assert_eq!(network.sums(&user, LATER).await, sums, "{mask}");
        let mine: Vec<_> = published.iter().filter(|it| it["payment"]["user_id"] == user.as_str()).collect();
        let reports: Vec<_> = mine.iter().map(|record| record["type"].as_str().unwrap()).collect();
        assert_eq!(reports, kinds.iter().map(|kind| format!("SUBSCRIPTION_{kind}")).collect::<Vec<_>>());
        for record in mine {
            let payment = &record["payment"];
            assert_eq!(payment["amount"], "14.99", "{record}");
            assert_eq!(payment["currency"], "USD", "{record}");
            assert_eq!(payment["confirmation_id"], balance.transaction_id.as_str(), "{record}");
            assert_eq!(payment["payment_id"], attempt(&user).as_str(), "{record}");
            assert_eq!(payment["subscription_id"], format!("s-{user}"), "{record}");
        }
    }
}

#[tokio::test]
async fn a_return_or_chargeback_takes_what_the_refunds_have_left() {
    for (mask, kind, sums) in [
        ("0110", "RETURNED", ["14.99", "5.00", "9.99", "0.00"]),
        ("0300", "CHARGED_BACK", ["14.99", "5.00", "9.99", "0.00"]),
        ("0200", "REFUNDED", ["14.99", "14.99", "0.00", "0.00"]),
    ] {
        let network = Network::new(Memory::default());
        let transaction = network.debit("u-1", mask).await;
        network.clock.set_now(t(ASKED));
        assert!(is_refunded(&network.refund(&transaction, 1, "5.00").await));
        let published = network.publish(t(LATER)).await;
        let reports: Vec<_> = published
            .iter()
            .map(|record| format!("{} {}", record["type"], record["payment"]["amount"]).replace('"', ""))
            .collect();
        assert_eq!(
            reports,
            [
                "SUBSCRIPTION_COMPLETED 14.99",
                "SUBSCRIPTION_REFUNDED 5.00",
                &format!("SUBSCRIPTION_{kind} 9.99")
            ]
        );
        assert_eq!(network.sums("u-1", LATER).await, sums);
        network.clock.set_now(t(LATER));
        assert_refused(
            network.refund(&transaction, 2, "1.00").await,
            "1.00 is more than the 0 that is left of the transaction",
        );
    }
}

#[tokio::test]
async fn what_was_refunded_in_full_is_not_returned_as_well() {
    for (mask, before) in [("0110", false), ("0300", false), ("0200", false), ("0110", true)] {
        let network = Network::new(Memory::default());
        let transaction = network.debit("u-1", mask).await;
        network.clock.set_now(t(ASKED));
        let mut published = if before { network.publish(t(ASKED)).await } else { Vec::new() };
        assert!(is_refunded(&network.refund(&transaction, 1, "14.99").await));
        published.extend(network.publish(t(LATER)).await);
        let reports: Vec<_> = published.iter().map(|record| record["type"].as_str().unwrap()).collect();
        assert_eq!(reports, ["SUBSCRIPTION_COMPLETED", "SUBSCRIPTION_REFUNDED"], "{mask}");
        assert_eq!(network.sums("u-1", LATER).await, ["14.99", "14.99", "0.00", "0.00"]);
    }
}

#[tokio::test]
async fn an_event_that_a_refund_overtook_is_published_again_not_lost() {
    let network = Network::new(Memory::default());
    let transaction = network.debit("u-1", "0110").await;
    network.clock.set_now(t(ASKED));
    let settled = network.sandbox.due_events(t(ASKED)).await.unwrap();
    assert!(is_refunded(&network.refund(&transaction, 1, "14.99").await));
    network.sandbox.mark_published(settled.clone()).await.unwrap();
    let again = network.publish(t(LATER)).await;
    assert_eq!(again.len(), 2);
    assert_eq!(again[0].to_string(), settled[0].record, "the same record: consumers drop it as a duplicate");
    assert_eq!(again[1]["type"], "SUBSCRIPTION_REFUNDED");
}
