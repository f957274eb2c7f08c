//! The directory in a table of the store.

use super::*;
use dues_events::{Item, Value};
use dues_processors::entitlements::groups::LocalDirectory;
use dues_store::table::{ALL, EMBEDDED, GROUPS};
use dues_store::{Engine, Query, SystemClock};
use dues_tests::engines::memory::Memory;

async fn groups_follow_the_tier<E: Engine>(engine: E) {
    let (directory, limiter, names) = (
        LocalDirectory::new(engine.clone()),
        RateLimiter::unlimited(SystemClock::shared()),
        GroupNames::default(),
    );
    let equal = async |user: &UserId, wanted| sync_groups(&directory, &limiter, &names, user, wanted).await;
    let bob = UserId::from("bob");

    assert_eq!(equal(&ada(), None).await, Ok(changes(&[], &[], 1)), "no user is missing");
    assert_eq!(equal(&ada(), Some(INITIATE)).await, Ok(changes(&[INITIATE], &[], 2)));
    assert_eq!(equal(&bob, Some(SAGE)).await, Ok(changes(&[SAGE], &[], 2)));
    directory.add(&ada(), "admins").await.unwrap();
    directory.add(&ada(), "admins").await.unwrap();
    assert_eq!(equal(&ada(), Some(GUILDMASTER)).await, Ok(changes(&[GUILDMASTER], &[INITIATE], 3)));
    assert_eq!(sorted(&directory, &ada()).await, ["admins", GUILDMASTER]);

    let rows = engine.query(Query::partition(&GROUPS, "auth0|ada")).await.unwrap().items;
    let row = |group| {
        Item::from_iter([("user_id".into(), Value::text("auth0|ada")), ("group".into(), Value::text(group))])
    };
    assert_eq!(rows, [row("admins"), row(GUILDMASTER)]);

    assert_eq!(equal(&ada(), None).await, Ok(changes(&[], &[GUILDMASTER], 2)));
    directory.remove(&ada(), GUILDMASTER).await.unwrap();
    assert_eq!(
        (sorted(&directory, &ada()).await, sorted(&directory, &bob).await),
        (vec!["admins".to_owned()], vec![SAGE.to_owned()])
    );

    // More than one page of either engine.
    for n in 0..1100 {
        directory.add(&bob, &format!("club-{n:04}")).await.unwrap();
    }
    assert_eq!(sorted(&directory, &bob).await.len(), 1101);
    assert_eq!(equal(&bob, None).await, Ok(changes(&[], &[SAGE], 2)));
    assert!(
        matches!(directory.add(&"".into(), SAGE).await, Err(DirectoryError::Refused(_))),
        "a key cannot be empty"
    );
}

#[tokio::test]
async fn on_the_embedded_engine() {
    let (engine, _folder) = dues_tests::engines::embedded();
    groups_follow_the_tier(engine).await;
}

#[tokio::test]
async fn on_the_model_engine() {
    groups_follow_the_tier(Memory::default()).await;
}

#[tokio::test]
async fn on_dynamo() {
    let (engine, _server) = dues_tests::engines::dynoxide().await;
    groups_follow_the_tier(engine).await;
}

/// The table's index is its number in existing files.
#[test]
fn the_table_is_local_and_keeps_its_place() {
    assert_eq!(EMBEDDED.get(5), Some(&&GROUPS));
    assert!(!ALL.contains(&&GROUPS));
    assert_eq!((GROUPS.name, GROUPS.partition, GROUPS.sort), ("dues-groups", "user_id", Some("group")));
}
