//! DynamoDB's TTL removes a profile when its session expires; the projector restores the profile without the
//! session.

use super::*;
use dues_processors::entitlements::groups::LocalDirectory;
use dues_processors::projector::{Projector, projector};
use dues_processors::runtime::changes::Change;
use dues_processors::serenya as model;
use dues_store::{Condition, Key};
use dues_tests::engines;

dues_tests::on_engines! {
    a_profile_that_ttl_took_away_comes_back_without_its_session,
    a_user_who_signs_in_while_the_row_is_gone_is_found,
}

const LATER: &str = "2026-03-05T00:00:00Z";

fn key() -> Key {
    Key { partition: "USER#u-1".to_owned(), sort: Some("PROFILE".to_owned()) }
}

/// Ada, signed in for a day, with her row removed after it. Returns the removed row.
async fn gone<E: Engine>(engine: &E) -> Item {
    ada(engine).await;
    ask(engine, "POST", "users/u-1/session", json!({"event_id": "s-1", "session_id": "sess_1"})).await;
    let old = engine.get(&SERENYA, key()).await.unwrap().unwrap();
    assert_eq!(old.to_json()["ttl"], json!(t("2026-03-02T00:00:00Z").timestamp()));
    engine.delete(&SERENYA, key(), Condition::Always).await.unwrap();
    old
}

fn change(old: Item, by_ttl: bool) -> Change {
    Change { sequence: "1".to_owned(), table: &SERENYA, old: Some(old), new: None, arrived: t(LATER), by_ttl }
}

async fn a_profile_that_ttl_took_away_comes_back_without_its_session<E: Engine>(engine: E) {
    let old = gone(&engine).await;
    let projector = Projector::new(at(&engine, LATER), None::<LocalDirectory<E>>);
    let project = async |change: Change| projector.project(&[change]).await.outcomes.remove(0);
    assert_eq!(
        project(change(old.clone(), false)).await,
        Outcome::Skipped,
        "a deliberate removal is not restored"
    );
    assert_eq!(row(&engine, "PROFILE").await, None);

    assert_eq!(project(change(old.clone(), true)).await, Outcome::Applied);
    let back = row(&engine, "PROFILE").await.unwrap();
    assert_eq!(
        (&back["data"]["current_session"], back.get("ttl"), back["data"]["name"].as_str()),
        (&Value::Null, None, Some("Ada"))
    );
    assert_eq!(project(change(old, true)).await, Outcome::Duplicate);

    // The next session works like the first.
    ask_at(&engine, LATER, "POST", "users/u-1/session", json!({"event_id": "s-2", "session_id": "sess_2"}))
        .await;
    let next = row(&engine, "PROFILE").await.unwrap();
    assert_eq!(
        (next["data"]["current_session"]["session_id"].as_str(), &next["ttl"]),
        (Some("sess_2"), &json!(t("2026-03-06T00:00:00Z").timestamp()))
    );
}

async fn a_user_who_signs_in_while_the_row_is_gone_is_found<E: Engine>(engine: E) {
    gone(&engine).await;
    let store = at(&engine, LATER);
    let found = [
        model::profile(&store, "u-1").await.unwrap().unwrap(),
        model::find_by_email(&store, "ada@example.com").await.unwrap().unwrap(),
        model::find_by_external_id(&store, "google", "113426185144286227617").await.unwrap().unwrap(),
    ];
    for profile in found {
        let profile = profile.to_json();
        assert_eq!(
            (profile["id"].as_str(), &profile["current_session"]),
            (Some("u-1"), &Value::Null),
            "the session is over"
        );
    }
    // Signing in restores the row, even before the projector processes the removal.
    let signed = ask_at(
        &engine,
        LATER,
        "POST",
        "users/u-1/session",
        json!({"event_id": "s-2", "session_id": "sess_2"}),
    )
    .await;
    assert_eq!(signed.body["profile"]["current_session"]["session_id"], "sess_2");
    assert!(row(&engine, "PROFILE").await.is_some());
}

/// From DynamoDB's own TTL, through its stream and a batch as Lambda makes it.
#[tokio::test]
async fn from_the_sweeper_through_the_stream_to_the_profile() {
    let (engine, server) = engines::dynoxide().await;
    let ttl =
        json!({"TableName": "serenya", "TimeToLiveSpecification": {"AttributeName": "ttl", "Enabled": true}});
    server.request("UpdateTimeToLive", &ttl).unwrap();
    let made = json!({"user_id": "u-1", "email": "ada@example.com", "name": "Ada", "auth_provider": "google",
        "external_id": "1"});
    deliver(&engine, "e-1", "user.created", "2020-01-01T00:00:00Z", made).await;
    assert_eq!(server.database().sweep_ttl().unwrap(), 1);
    assert_eq!(row(&engine, "PROFILE").await, None);

    let arn = server.request("DescribeTable",
        &json!({"TableName": "serenya"})).unwrap()["Table"]["LatestStreamArn"].clone();
    let described = server.request("DescribeStream", &json!({"StreamArn": arn})).unwrap();
    let mut records: Vec<Value> = Vec::new();
    for shard in described["StreamDescription"]["Shards"].as_array().unwrap() {
        let place =
            json!({"StreamArn": arn, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"});
        let start = server.request("GetShardIterator", &place).unwrap();
        let page = server.request("GetRecords", &json!({"ShardIterator": start["ShardIterator"]})).unwrap();
        records.extend(page["Records"].as_array().unwrap().iter().cloned());
    }
    records.iter_mut().for_each(|record| record["eventSourceARN"] = arn.clone());
    let projecting = Projector::new(at(&engine, NOW), None::<LocalDirectory<dues_store::dynamo::Dynamo>>);
    let answer = projector(&projecting, serde_json::from_value(json!({"Records": records})).unwrap()).await;
    assert_eq!(answer.batch_item_failures, []);
    let back = row(&engine, "PROFILE").await.unwrap();
    assert_eq!((back["data"]["email"].as_str(), back.get("ttl")), (Some("ada@example.com"), None));
    assert_eq!(server.database().sweep_ttl().unwrap(), 0, "nothing is left to take away");
}
