//! The calls made, and the resulting groups.

use super::*;
use dues_processors::entitlements::groups::{GroupPage, LocalDirectory};
use dues_tests::clock::TestClock;
use dues_tests::engines::memory::Memory;

fn asked(calls: &[(&str, Option<&str>)]) -> Vec<(String, Option<String>)> {
    calls.iter().map(|(operation, group)| ((*operation).to_owned(), group.map(str::to_owned))).collect()
}

#[test]
fn tiers_have_groups_by_configuration_and_free_has_none() {
    let names = GroupNames::default();
    let of = |tier| names.of_tier(tier);
    assert_eq!(["INITIATE", "JOURNEYMAN", "SAGE", "GUILDMASTER"].map(of), TIERS.map(Some));
    assert_eq!([of("free"), of("sage"), of("")], [None; 3]);
    let other = GroupNames::new([("SAGE", "wise"), ("GUILDMASTER", "wise")]);
    assert_eq!((other.of_tier("SAGE"), other.of_tier("INITIATE")), (Some("wise"), None));
    assert!(other.contains("wise") && !other.contains(SAGE));
}

#[tokio::test]
async fn the_first_tier_is_one_call_more_than_looking() {
    let pool = pool(&[], nothing).await;
    assert_eq!(run(&pool, Some(INITIATE)).await, Ok(changes(&[INITIATE], &[], 2)));
    assert_eq!(pool.asked(), asked(&[(LIST, None), (ADD, Some(INITIATE))]));
    assert_eq!(pool.groups().await, [INITIATE]);
    assert_eq!(pool.meddler.asked()[1].entries[0]["Username"], "auth0|ada", "the id is the username");
}

#[tokio::test]
async fn a_change_of_tier_is_one_add_and_then_one_remove() {
    let pool = pool(&["admins", JOURNEYMAN], nothing).await;
    assert_eq!(run(&pool, Some(SAGE)).await, Ok(changes(&[SAGE], &[JOURNEYMAN], 3)));
    assert_eq!(pool.asked(), asked(&[(LIST, None), (ADD, Some(SAGE)), (REMOVE, Some(JOURNEYMAN))]));
    assert_eq!(pool.groups().await, ["admins", SAGE]);
}

#[tokio::test]
async fn what_is_equal_is_only_looked_at() {
    let pool = pool(&["admins", SAGE], nothing).await;
    assert_eq!(run(&pool, Some(SAGE)).await, Ok(changes(&[], &[], 1)));
    assert_eq!(pool.asked(), asked(&[(LIST, None)]));
    let free = self::pool(&["admins"], nothing).await;
    assert_eq!(run(&free, None).await, Ok(changes(&[], &[], 1)));
    assert_eq!(free.asked(), asked(&[(LIST, None)]));
}

#[tokio::test]
async fn free_is_in_no_tiers_group_and_foreign_groups_stay() {
    let pool = pool(&[GUILDMASTER, "admins", INITIATE], nothing).await;
    assert_eq!(run(&pool, None).await, Ok(changes(&[], &[GUILDMASTER, INITIATE], 3)));
    assert_eq!(pool.groups().await, ["admins"]);
    let refused = run(&pool, Some("admins")).await;
    assert_eq!(refused, Err(DirectoryError::Refused("group admins belongs to no tier".into())));
    assert_eq!(pool.meddler.asked().len(), 3, "and no call was made");
}

#[tokio::test]
async fn adding_twice_and_removing_twice_is_no_error() {
    let pool = pool(&[], nothing).await;
    for _ in 0..2 {
        pool.directory.add(&ada(), SAGE).await.unwrap();
        assert_eq!(pool.groups().await, [SAGE]);
    }
    for _ in 0..2 {
        pool.directory.remove(&ada(), SAGE).await.unwrap();
        assert!(pool.groups().await.is_empty());
    }
}

#[tokio::test]
async fn an_unknown_user_is_reported_at_once() {
    let pool = pool(&[], nothing).await;
    let unknown = UserId::from("unknown");
    let answer =
        sync_groups(&pool.directory, &pool.limiter, &GroupNames::default(), &unknown, Some(SAGE)).await;
    assert_eq!(answer, Err(DirectoryError::NoSuchUser));
    assert_eq!((pool.asked(), pool.clock.sleeps_ms()), (asked(&[(LIST, None)]), vec![]));
    assert_eq!(pool.directory.add(&unknown, SAGE).await, Err(DirectoryError::NoSuchUser));
    assert_eq!(pool.directory.remove(&unknown, SAGE).await, Err(DirectoryError::NoSuchUser));
}

#[tokio::test]
async fn a_missing_group_is_reported_before_anything_is_removed() {
    let pool = pool(&[JOURNEYMAN], nothing).await;
    pool.client.delete_group().user_pool_id(&pool.id).group_name(SAGE).send().await.unwrap();
    assert_eq!(run(&pool, Some(SAGE)).await, Err(DirectoryError::NoSuchGroup(SAGE.into())));
    assert_eq!((pool.groups().await, pool.clock.sleeps_ms()), (vec![JOURNEYMAN.to_owned()], vec![]));
}

/// A directory where groups disappear as soon as they are listed. Cognito refuses to remove from such a
/// group, ministack does not.
#[derive(Clone)]
struct Crumbling(LocalDirectory<Memory>);

impl Directory for Crumbling {
    async fn groups_of(&self, user: &UserId, start: Option<&str>) -> Result<GroupPage, DirectoryError> {
        self.0.groups_of(user, start).await
    }

    async fn add(&self, user: &UserId, group: &str) -> Result<(), DirectoryError> {
        self.0.add(user, group).await
    }

    async fn remove(&self, _: &UserId, group: &str) -> Result<(), DirectoryError> {
        Err(DirectoryError::NoSuchGroup(group.to_owned()))
    }
}

#[tokio::test]
async fn a_group_that_is_gone_has_no_member_to_remove() {
    let (directory, clock) = (Crumbling(LocalDirectory::new(Memory::default())), TestClock::skipping());
    directory.add(&ada(), JOURNEYMAN).await.unwrap();
    let answer = sync_groups(
        &directory,
        &RateLimiter::unlimited(clock.shared()),
        &GroupNames::default(),
        &ada(),
        Some(SAGE),
    )
    .await;
    assert_eq!(answer, Ok(changes(&[SAGE], &[JOURNEYMAN], 3)));
}

#[tokio::test]
async fn a_missing_pool_is_no_missing_group() {
    let pool = pool(&[], nothing).await;
    let gone = Cognito::new(&pool.client, "eu-central-1_gone00000");
    let answers = [
        gone.groups_of(&ada(), None).await.map(drop),
        gone.add(&ada(), SAGE).await,
        gone.remove(&ada(), SAGE).await,
    ];
    for answer in answers {
        let Err(DirectoryError::Refused(why)) = &answer else { panic!("{answer:?}") };
        assert!(why.starts_with("ResourceNotFoundException: User pool "), "{why}");
    }
}

#[tokio::test]
async fn all_pages_are_read_and_each_is_a_call() {
    // More groups than a Cognito page holds; ministack returns them all at once, so the proxy splits them.
    let pool =
        pool(&[], |asked| if asked.operation == LIST { Mischief::Pages(60) } else { Mischief::None }).await;
    for n in 0..70 {
        let group = format!("club-{n:02}");
        pool.create_group(&group).await;
        pool.quiet().add(&ada(), &group).await.unwrap();
    }
    pool.quiet().add(&ada(), JOURNEYMAN).await.unwrap();
    assert_eq!(run(&pool, Some(JOURNEYMAN)).await, Ok(changes(&[], &[], 2)));
    assert_eq!(run(&pool, Some(SAGE)).await, Ok(changes(&[SAGE], &[JOURNEYMAN], 4)));
    let lists: Vec<_> =
        pool.meddler.asked().iter().map(|asked| asked.entries[0]["NextToken"].clone()).collect();
    assert_eq!(lists[..2], [serde_json::Value::Null, "60".into()]);
    assert_eq!(pool.meddler.asked()[0].entries[0]["Limit"], 60);
    assert_eq!(pool.groups().await.len(), 71);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_users_can_be_made_equal_at_once() {
    let pool = pool(&[], nothing).await;
    let users: Vec<UserId> = (0..10).map(|n| format!("u-{n}").into()).collect();
    for user in &users {
        pool.create_user(user).await;
    }
    let runs = users.iter().cloned().map(|user| {
        let (directory, limiter) = (pool.directory.clone(), pool.limiter.clone());
        tokio::spawn(async move {
            sync_groups(&directory, &limiter, &GroupNames::default(), &user, Some(SAGE)).await
        })
    });
    for run in futures::future::join_all(runs).await {
        assert_eq!(run.unwrap(), Ok(changes(&[SAGE], &[], 2)));
    }
}
