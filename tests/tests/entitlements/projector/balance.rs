//! Balances that DynamoDB removed by TTL.

use super::*;
use dues_events::Movement;
use dues_store::Store;
use dues_tests::clock::TestClock;
use dues_tests::engines;

use serde_json::{Value, json};

dues_tests::on_engines! {
    a_balance_that_ttl_removed_is_booked_in_the_ledger,
}

fn at<E: Engine>(engine: &E, time: &str) -> Store<E> {
    Store::new(engine.clone(), TestClock::frozen(t(time)).shared())
}

async fn buy<E: Engine>(store: &Store<E>) {
    let bought = Movement::top_up("pi_1", 10, store.clock.now(), "evt_1".into());
    store.move_credits(&ada(), &bought).await.map(drop).unwrap();
}

async fn a_balance_that_ttl_removed_is_booked_in_the_ledger<E: Engine>(engine: E) {
    buy(&at(&engine, "2026-03-01T00:00:00Z")).await;
    let balance = key(&ada(), "CREDITS#BALANCE".into());
    let image = engine.get(&GG_CORE, balance.clone()).await.unwrap().unwrap();
    engine.delete(&GG_CORE, balance.clone(), Condition::Always).await.unwrap();
    let projector =
        Projector { store: at(&engine, "2027-03-02T00:00:00Z"), ..projector(&engine, accepts_all) };

    let by_hand = change(Some(image), None, "1");
    assert_eq!(project_one(&projector, &by_hand).await, Outcome::Skipped);
    assert_eq!(
        engine.get(&GG_CORE, balance.clone()).await.unwrap(),
        None,
        "a removal by hand is not repaired"
    );

    let by_ttl = Change { by_ttl: true, ..by_hand };
    for _ in 0..2 {
        assert_eq!(project_one(&projector, &by_ttl).await, Outcome::Applied);
        let check = projector.store.check_ledger(&ada()).await.unwrap();
        assert_eq!((check.balance, check.sum), (0, 0));
    }
    let ledger = projector.store.ledger(&ada()).await.unwrap();
    assert_eq!(ledger.iter().map(|movement| movement.amount).collect::<Vec<_>>(), [10, -10]);
}

/// From DynamoDB's own TTL, through its stream and a batch as Lambda makes it, to a ledger that adds up.
#[tokio::test]
async fn from_the_sweeper_through_the_stream_to_the_ledger() {
    let (engine, server) = engines::dynoxide().await;
    let ttl = json!({
        "TableName": "gg_core",
        "TimeToLiveSpecification": {"AttributeName": "expiresAt", "Enabled": true},
    });
    server.request("UpdateTimeToLive", &ttl).unwrap();
    buy(&at(&engine, "2020-01-01T00:00:00Z")).await;
    assert_eq!(server.database().sweep_ttl().unwrap(), 1);

    let arn = server.request("DescribeTable", &json!({"TableName": "gg_core"})).unwrap()["Table"]["LatestStreamArn"].clone();
    let described = server.request("DescribeStream", &json!({"StreamArn": arn})).unwrap();
    let mut records: Vec<Value> = Vec::new();
    for shard in described["StreamDescription"]["Shards"].as_array().unwrap() {
        let place =
            json!({"StreamArn": arn, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"});
        let start = server.request("GetShardIterator", &place).unwrap();
        let page = server.request("GetRecords", &json!({"ShardIterator": start["ShardIterator"]})).unwrap();
        records.extend(page["Records"].as_array().unwrap().iter().cloned());
    }
    // The one field that Lambda adds.
    records.iter_mut().for_each(|record| record["eventSourceARN"] = arn.clone());
    let removals = records.iter().filter(|record| record["eventName"] == "REMOVE").count();
    assert_eq!((removals, records.len()), (1, 4), "made, filled with its movement, and removed: {records:?}");

    let projector =
        Projector { store: at(&engine, "2026-03-01T00:00:00Z"), ..projector(&engine, accepts_all) };
    let answer = dues_processors::projector::projector(
        &projector,
        serde_json::from_value(json!({"Records": records})).unwrap(),
    )
    .await;
    assert_eq!(answer.batch_item_failures, []);
    let ledger = projector.store.ledger(&ada()).await.unwrap();
    assert_eq!(ledger.iter().map(|movement| movement.amount).collect::<Vec<_>>(), [10, -10]);
    assert!(projector.store.check_ledger(&ada()).await.unwrap().agrees());
    assert_eq!(parked(&engine).await, []);
}
