//! The rows, as gg_core defines them.

use dues_events::{Feature, Value};
use dues_store::entitlements::credits::{Consumed, Moved};
use dues_store::{Condition, Engine};
use serde_json::json;

use super::*;

dues_tests::on_engines! {
    the_example_of_gg_core_ends_in_its_row,
    a_row_of_another_writer_is_taken_over_and_keeps_what_is_not_ours,
    a_take_back_may_leave_a_negative_balance,
    other_rows_of_the_user_are_no_part_of_the_ledger,
}

/// Granted 5 on the 1st, bought 10 on the 15th, spent 3 half an hour later.
async fn the_example_of_gg_core_ends_in_its_row<E: Engine>(engine: E) {
    let user = UserId::from("abc123");
    let first = at(&engine, "2025-01-01T00:00:00Z");
    assert_eq!(
        first.move_credits(&user, &grant("2025-01-01T00:00:00Z", 5, "evt_1")).await.unwrap(),
        Moved::Done(5)
    );
    let fifteenth = at(&engine, "2025-01-15T10:00:00Z");
    assert_eq!(
        fifteenth.move_credits(&user, &top_up("pi_1", 10, "2025-01-15T10:00:00Z")).await.unwrap(),
        Moved::Done(15)
    );
    let later = at(&engine, "2025-01-15T10:30:00Z");
    assert!(taken(&later.consume(&user, Feature::Video, "render-1").await.unwrap()).is_some());
    let year_later = t("2026-01-15T10:00:00Z").timestamp();
    let expected = json!([
        {
            "PK": "USER#abc123", "SK": "CREDITS#BALANCE", "type": "Credits", "balance": 12,
            "lastTopUp": "2025-01-15T10:00:00Z", "lastReset": "2025-01-01T00:00:00Z", "expiresAt": year_later,
            "createdAt": "2025-01-01T00:00:00Z", "updatedAt": "2025-01-15T10:30:00Z"
        },
        {
            "PK": "USER#abc123", "SK": "LEDGER#consume:render-1", "type": "CreditMovement",
            "movementId": "consume:render-1", "kind": "CONSUME", "amount": -3,
            "occurredAt": "2025-01-15T10:30:00Z", "source": "render-1", "feature": "VIDEO"
        },
        {
            "PK": "USER#abc123", "SK": "LEDGER#grant:sub_1:2025-01-01T00:00:00Z", "type": "CreditMovement",
            "movementId": "grant:sub_1:2025-01-01T00:00:00Z", "kind": "GRANT", "amount": 5,
            "occurredAt": "2025-01-01T00:00:00Z", "source": "evt_1", "paymentId": "in_1"
        },
        {
            "PK": "USER#abc123", "SK": "LEDGER#topup:pi_1", "type": "CreditMovement",
            "movementId": "topup:pi_1", "kind": "TOP_UP", "amount": 10,
            "occurredAt": "2025-01-15T10:00:00Z", "source": "evt-pi_1", "paymentId": "pi_1"
        }
    ]);
    let rows = rows(&engine).await;
    assert_eq!(rows.iter().map(Item::to_json).collect::<serde_json::Value>(), expected);
    assert_eq!(rows[0].get("balance"), Some(&Value::N("12".into())), "a number, not text");
    assert_eq!(rows[0].get("expiresAt"), Some(&Value::signed(year_later)));
}

async fn a_row_of_another_writer_is_taken_over_and_keeps_what_is_not_ours<E: Engine>(engine: E) {
    let mut row = Item::new();
    for (name, text) in [
        ("PK", "USER#u-1"),
        ("SK", "CREDITS#BALANCE"),
        ("createdAt", "2025-01-01T00:00:00.000Z"),
        ("note", "kept"),
    ] {
        row.set_text(name, text);
    }
    row.set("balance", Value::signed(4));
    engine.put(&GG_CORE, row.clone(), Condition::NoItem).await.unwrap();
    let store = today(&engine);
    assert_eq!(store.credits(&user()).await.unwrap().balance, 4);
    assert_eq!(rows(&engine).await, [row.clone()], "a read writes nothing");
    assert!(taken(&store.consume(&user(), Feature::Video, "k").await.unwrap()).is_some());
    row.set("balance", Value::signed(1));
    row.set_text("updatedAt", "2026-03-01T00:00:00Z");
    assert_eq!(rows(&engine).await[0], row);
}

async fn a_take_back_may_leave_a_negative_balance<E: Engine>(engine: E) {
    let store = stocked(&engine, 10).await;
    for n in 0..3 {
        assert!(taken(&store.consume(&user(), Feature::Video, &format!("k-{n}")).await.unwrap()).is_some());
    }
    let bought = store
        .ledger(&user())
        .await
        .unwrap()
        .into_iter()
        .find(|movement| movement.payment.as_deref() == Some("pi_stock"))
        .unwrap();
    let back = Movement::take_back("re_1", &bought, t("2026-03-02T00:00:00Z"), "evt_re".into());
    assert_eq!(store.move_credits(&user(), &back).await.unwrap(), Moved::Done(-9));
    assert_eq!(store.move_credits(&user(), &back).await.unwrap(), Moved::Known(back.clone()));
    assert_eq!(
        store.consume(&user(), Feature::MentorFeedback, "k-9").await.unwrap(),
        Consumed::NotEnough(-9)
    );
    assert_eq!(checked(&store).await, -9);
    assert_eq!(
        store.move_credits(&user(), &top_up("pi_2", 10, "2026-03-03T00:00:00Z")).await.unwrap(),
        Moved::Done(1),
        "a negative balance is made up first"
    );
    let reinstated = Movement::take_back("re_1-failed", &back, t("2026-03-04T00:00:00Z"), "evt_rf".into());
    assert_eq!(store.move_credits(&user(), &reinstated).await.unwrap(), Moved::Done(11));
    assert_eq!(checked(&store).await, 11);
}

async fn other_rows_of_the_user_are_no_part_of_the_ledger<E: Engine>(engine: E) {
    let store = stocked(&engine, 2).await;
    for sort in ["SUBSCRIPTION#sub_1", "PROFILE#u-1", "LEDGERS"] {
        let mut row = Item::new();
        row.set_text("PK", "USER#u-1");
        row.set_text("SK", sort);
        engine.put(&GG_CORE, row, Condition::NoItem).await.unwrap();
    }
    // More than one page of SQLite, and of the in-memory engine.
    for n in 0..1_050 {
        let movement = Movement::top_up(
            &format!("pi_{n:04}"),
            1,
            t("2026-03-01T00:00:00Z") - chrono::TimeDelta::seconds(n),
            "evt".into(),
        );
        engine.put(&GG_CORE, movement.to_item(&user()), Condition::NoItem).await.unwrap();
    }
    let ledger = store.ledger(&user()).await.unwrap();
    assert_eq!(ledger.len(), 1_051);
    assert!(ledger.is_sorted_by_key(|movement| movement.at));
    let check = store.check_ledger(&user()).await.unwrap();
    assert_eq!(
        (check.balance, check.sum, check.agrees()),
        (2, 1_052, false),
        "rows without their balance are found out"
    );
}
