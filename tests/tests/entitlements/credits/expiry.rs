//! Expiry by the next reader, and when DynamoDB's TTL was faster.

use dues_events::{Feature, MovementKind, Value};
use dues_store::entitlements::credits::{Consumed, Moved};
use dues_store::{Condition, Edit, Engine, Op, Transacted};
use dues_tests::engines;
use futures::future::join_all;
use serde_json::json;

use super::*;

dues_tests::on_engines! {
    credits_expire_on_time_with_any_first_reader,
    what_has_expired_is_gone_before_anything_moves,
    whatever_comes_in_makes_all_credits_good_for_as_long_as_if_they_had_come_now,
    a_negative_balance_does_not_expire,
    credits_that_arrive_late_are_as_good_as_others,
    a_removed_row_comes_back_without_its_credits,
    a_removed_row_does_not_undo_what_came_after_it,
    a_removed_row_with_a_negative_balance_comes_back_with_it,
    a_row_removed_for_a_second_that_has_expired_before_is_booked_too,
}

const BOUGHT: &str = "2026-03-01T00:00:00Z";
const LAST_SECOND: &str = "2027-02-28T23:59:59Z";
const OVER: &str = "2027-03-01T00:00:00Z";

async fn expiries<E: Engine>(store: &Store<E>) -> Vec<(String, i64)> {
    let ledger = store.ledger(&user()).await.unwrap();
    ledger
        .into_iter()
        .filter(|m| m.kind == MovementKind::Expire)
        .map(|m| (m.id.to_string(), m.amount))
        .collect()
}

/// Removes the row as TTL does. Returns the image that the change stream delivers.
async fn removed<E: Engine>(engine: &E) -> Item {
    let image = engine.get(&GG_CORE, balance_key()).await.unwrap().unwrap();
    engine.delete(&GG_CORE, balance_key(), Condition::Always).await.unwrap();
    image
}

async fn credits_expire_on_time_with_any_first_reader<E: Engine>(engine: E) {
    stocked(&engine, 10).await;
    let before = at(&engine, LAST_SECOND);
    assert!(taken(&before.consume(&user(), Feature::Video, "in time").await.unwrap()).is_some());
    let after = at(&engine, OVER);
    let read = async || after.credits(&user()).await.map(|balance| balance.balance);
    let spend = async |n: usize| after.consume(&user(), Feature::Video, &format!("late {n}")).await;
    let (reads, spent) = tokio::join!(join_all((0..20).map(|_| read())), join_all((0..20).map(spend)));
    assert!(reads.into_iter().all(|balance| balance == Ok(0)));
    assert!(spent.into_iter().all(|answer| answer == Ok(Consumed::NotEnough(0))));
    let id = format!("expire:{}", t(OVER).timestamp());
    assert_eq!(expiries(&after).await, [(id, -7)], "once");
    assert_eq!(checked(&after).await, 0);
    let row = after.credits(&user()).await.unwrap();
    assert_eq!((row.expires_at, row.updated_at.unwrap().text().as_str()), (None, OVER));
    let known = before.consume(&user(), Feature::Video, "in time").await.unwrap();
    assert!(taken(&known).is_some(), "what was spent in time stays spent");
    assert_eq!(after.move_credits(&user(), &top_up("pi_2", 4, OVER)).await.unwrap(), Moved::Done(4));
    assert_eq!(checked(&after).await, 4);
}

/// Without any read of the balance before.
async fn what_has_expired_is_gone_before_anything_moves<E: Engine>(engine: E) {
    let back = Movement::take_back("re", &top_up("pi_stock", 10, BOUGHT), t(OVER), "evt".into());
    for (movement, answer, left) in [
        (Movement::consume("late", Feature::Video, t(OVER)), Moved::NotEnough(0), 0),
        (top_up("pi_2", 4, OVER), Moved::Done(4), 4),
        (grant(OVER, 5, "evt"), Moved::Done(5), 5),
        (back, Moved::Done(-10), -10),
    ] {
        clear(&engine).await;
        stocked(&engine, 10).await;
        let after = at(&engine, OVER);
        assert_eq!(after.move_credits(&user(), &movement).await.unwrap(), answer, "{movement:?}");
        assert_eq!(checked(&after).await, left, "{movement:?}");
        assert_eq!(
            expiries(&after).await,
            [(format!("expire:{}", t(OVER).timestamp()), -10)],
            "{movement:?}"
        );
    }
}

async fn whatever_comes_in_makes_all_credits_good_for_as_long_as_if_they_had_come_now<E: Engine>(engine: E) {
    let store = stocked(&engine, 10).await;
    let expiry = async || store.credits(&user()).await.unwrap().expires_at.unwrap();
    assert_eq!(expiry().await, t(OVER).timestamp());
    let later = at(&engine, "2026-04-01T00:00:00Z");
    let late = top_up("pi_late", 1, "2024-02-01T00:00:00Z");
    assert_eq!(later.move_credits(&user(), &late).await.unwrap(), Moved::Done(11));
    assert_eq!(
        expiry().await,
        t("2027-04-01T00:00:00Z").timestamp(),
        "a webhook that comes late brings credits that are good"
    );
    assert!(taken(&later.consume(&user(), Feature::Video, "k").await.unwrap()).is_some());
    let back = Movement::take_back("re", &late, t("2026-04-01T00:00:00Z"), "evt".into());
    assert_eq!(
        at(&engine, "2026-05-01T00:00:00Z").move_credits(&user(), &back).await.unwrap(),
        Moved::Done(7)
    );
    assert_eq!(expiry().await, t("2027-04-01T00:00:00Z").timestamp(), "what goes does not renew");
    assert_eq!(checked(&at(&engine, OVER)).await, 7);
    assert_eq!(checked(&at(&engine, "2027-04-01T00:00:00Z")).await, 0);
}

async fn a_negative_balance_does_not_expire<E: Engine>(engine: E) {
    let store = stocked(&engine, 3).await;
    assert!(taken(&store.consume(&user(), Feature::Video, "k").await.unwrap()).is_some());
    let back = Movement::take_back("re", &top_up("pi_stock", 3, BOUGHT), t(BOUGHT), "evt".into());
    assert_eq!(store.move_credits(&user(), &back).await.unwrap(), Moved::Done(-3));
    let after = at(&engine, OVER);
    assert_eq!((after.credits(&user()).await.unwrap().balance, expiries(&after).await.len()), (-3, 0));
    assert_eq!(after.credits(&user()).await.unwrap().expires_at, None);
    assert_eq!(checked(&after).await, -3);
}

async fn credits_that_arrive_late_are_as_good_as_others<E: Engine>(engine: E) {
    stocked(&engine, 10).await;
    let after = at(&engine, OVER);
    for n in 1..4 {
        let late = top_up(&format!("pi_late_{n}"), n, BOUGHT);
        assert_eq!(
            after.move_credits(&user(), &late).await.unwrap(),
            Moved::Done((1..=n).map(i64::from).sum())
        );
        assert_eq!(after.move_credits(&user(), &late).await.unwrap(), Moved::Known(late));
    }
    assert_eq!(expiries(&after).await, [(format!("expire:{}", t(OVER).timestamp()), -10)]);
    assert_eq!(checked(&after).await, 6);
}

async fn a_removed_row_comes_back_without_its_credits<E: Engine>(engine: E) {
    stocked(&engine, 10).await;
    let image = removed(&engine).await;
    let after = at(&engine, "2027-03-02T00:00:00Z");
    // Delivered at least once, and by several workers at once.
    let user = user();
    let results = join_all((0..5).map(|_| after.balance_row_removed(&user, &image))).await;
    assert!(results.into_iter().all(|result| result == Ok(())));
    let first = rows(&engine).await;
    assert_eq!(
        first[0].to_json(),
        json!({
            "PK": "USER#u-1", "SK": "CREDITS#BALANCE", "type": "Credits", "balance": 0, "lastTopUp": BOUGHT,
            "createdAt": BOUGHT, "updatedAt": "2027-03-02T00:00:00Z"
        })
    );
    assert_eq!(expiries(&after).await, [(format!("expire:{}", t(OVER).timestamp()), -10)]);
    assert_eq!(checked(&after).await, 0);
    at(&engine, "2027-03-03T00:00:00Z").balance_row_removed(&user, &image).await.unwrap();
    assert_eq!(rows(&engine).await, first);
    let mut without = image;
    without.remove("expiresAt");
    after.balance_row_removed(&user, &without).await.unwrap();
    assert_eq!(rows(&engine).await, first, "not removed by TTL");
}

async fn a_removed_row_does_not_undo_what_came_after_it<E: Engine>(engine: E) {
    stocked(&engine, 10).await;
    let image = removed(&engine).await;
    let after = at(&engine, "2027-03-02T00:00:00Z");
    assert_eq!(
        after.move_credits(&user(), &top_up("pi_2", 4, "2027-03-02T00:00:00Z")).await.unwrap(),
        Moved::Done(4)
    );
    assert!(!after.check_ledger(&user()).await.unwrap().agrees(), "until the removal is delivered");
    for _ in 0..2 {
        after.balance_row_removed(&user(), &image).await.unwrap();
        assert_eq!(checked(&after).await, 4);
    }
}

async fn a_removed_row_with_a_negative_balance_comes_back_with_it<E: Engine>(engine: E) {
    for topped_up in [false, true] {
        clear(&engine).await;
        let store = stocked(&engine, 3).await;
        assert!(taken(&store.consume(&user(), Feature::Video, "k").await.unwrap()).is_some());
        let back = Movement::take_back("re", &top_up("pi_stock", 3, BOUGHT), t(BOUGHT), "evt".into());
        assert_eq!(store.move_credits(&user(), &back).await.unwrap(), Moved::Done(-3));
        let image = removed(&engine).await;
        let after = at(&engine, OVER);
        if topped_up {
            assert_eq!(after.move_credits(&user(), &top_up("pi_2", 4, OVER)).await.unwrap(), Moved::Done(4));
        }
        for _ in 0..2 {
            after.balance_row_removed(&user(), &image).await.unwrap();
            assert_eq!(checked(&after).await, if topped_up { 1 } else { -3 });
        }
    }
}

/// Credits arrived late, so they expire in a second that has passed, and TTL removed the row before any
/// reader.
async fn a_row_removed_for_a_second_that_has_expired_before_is_booked_too<E: Engine>(engine: E) {
    stocked(&engine, 10).await;
    let after = at(&engine, OVER);
    assert_eq!(after.credits(&user()).await.unwrap().balance, 0);
    let late = top_up("pi_late", 4, BOUGHT);
    let edits = vec![Edit::Add("balance", 4), Edit::Set("expiresAt", Value::signed(t(OVER).timestamp()))];
    let ops = vec![
        Op::Put(&GG_CORE, late.to_item(&user()), Condition::NoItem),
        Op::Update(&GG_CORE, balance_key(), edits, Condition::Always),
    ];
    assert_eq!(engine.transact(ops).await.unwrap(), Transacted::Done);
    let image = removed(&engine).await;
    for _ in 0..2 {
        after.balance_row_removed(&user(), &image).await.unwrap();
        let second = t(OVER).timestamp();
        assert_eq!(
            expiries(&after).await,
            [(format!("expire:{second}"), -10), (format!("expire:{second}:1"), -4)]
        );
        assert_eq!(checked(&after).await, 0);
    }
}

/// From DynamoDB's own TTL to a ledger that adds up.
#[tokio::test]
async fn what_ttl_removes_is_delivered_by_the_stream_and_repaired() {
    let (engine, server) = engines::dynoxide().await;
    let ttl = json!({
        "TableName": "gg_core",
        "TimeToLiveSpecification": {"AttributeName": "expiresAt", "Enabled": true},
    });
    server.request("UpdateTimeToLive", &ttl).unwrap();
    let then = at(&engine, "2020-01-01T00:00:00Z");
    then.move_credits(&user(), &top_up("pi_1", 10, "2020-01-01T00:00:00Z")).await.map(drop).unwrap();
    let image = engine.get(&GG_CORE, balance_key()).await.unwrap().unwrap();
    assert_eq!(server.database().sweep_ttl().unwrap(), 1, "the ledger stays");
    assert_eq!(engine.get(&GG_CORE, balance_key()).await.unwrap(), None);
    let now = today(&engine);
    now.balance_row_removed(&user(), &image).await.unwrap();
    assert_eq!(checked(&now).await, 0);
    assert_eq!(
        image.get("expiresAt"),
        Some(&Value::signed(t("2020-12-31T00:00:00Z").timestamp())),
        "2020 had a day more"
    );
}
