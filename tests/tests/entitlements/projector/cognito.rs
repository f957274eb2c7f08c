//! The projector and Cognito's own calls, on ministack.

use super::*;
use dues_processors::aws::clients::cognito_groups::Cognito;
use dues_processors::projector::redrive_groups;
use dues_tests::aws::cognito_pool::{ADD, JOURNEYMAN, LIST, Pool, REMOVE, SAGE, nothing};
use dues_tests::aws::recording_proxy::Mischief;
use dues_tests::engines;
use dues_tests::engines::memory::Memory;

fn of<E: Engine>(engine: &E, pool: &Pool) -> Projector<E, Cognito> {
    Projector { limiter: pool.limiter.clone(), ..over(engine, pool.directory.clone()) }
}

fn calls(pool: &Pool) -> Vec<String> {
    pool.asked().into_iter().map(|(operation, _)| operation).collect()
}

/// Tables and pool are both on ministack.
#[tokio::test]
async fn a_first_tier_a_change_and_the_end_of_it() {
    let ((engine, ()), pool) = (engines::ministack().await, Pool::new(&["admins"], nothing).await);
    let projector = of(&engine, &pool);
    let mut asked = Vec::new();
    for (n, (tier, groups, called)) in [
        ("JOURNEYMAN", vec!["admins", JOURNEYMAN], vec![LIST, ADD]),
        ("SAGE", vec!["admins", SAGE], vec![LIST, ADD, REMOVE]),
        ("free", vec!["admins"], vec![LIST, REMOVE]),
    ]
    .into_iter()
    .enumerate()
    {
        let change = save(&engine, &ada(), tier, "cognito", &n.to_string()).await;
        assert_eq!(project_one(&projector, &change).await, Outcome::Applied, "{tier}");
        asked.extend(called);
        assert_eq!(pool.groups().await, groups);
        assert_eq!(calls(&pool), asked);
        assert_eq!(project_one(&projector, &change).await, Outcome::Duplicate);
        assert_eq!(calls(&pool).len(), asked.len(), "a redelivery makes no call");
    }
    let local = save(&engine, &ada(), "SAGE", "local", "9").await;
    assert_eq!(project_one(&projector, &local).await, Outcome::Skipped);
    assert_eq!(calls(&pool).len(), asked.len());
}

#[tokio::test]
async fn an_unknown_user_waits_until_the_pool_knows_her() {
    let (engine, pool) = (Memory::default(), Pool::new(&[], nothing).await);
    let projector = of(&engine, &pool);
    let grace = UserId::from("grace");
    let change = save(&engine, &grace, "SAGE", "cognito", "1").await;
    assert_eq!(project_one(&projector, &change).await, Outcome::Parked);
    let [record] = <[_; 1]>::try_from(projector.store.parked().await.unwrap()).unwrap();
    assert_eq!(
        (record.stream.as_str(), record.code.as_str(), record.user_id.as_deref()),
        ("groups", "no_such_user", Some("grace"))
    );
    pool.create_user(&grace).await;
    assert_eq!(redrive_groups(&projector, &record).await.unwrap(), Outcome::Applied);
    assert_eq!((sorted(&pool.quiet(), &grace).await, parked(&engine).await), (vec![SAGE.to_owned()], vec![]));
}

#[tokio::test]
async fn a_missing_group_waits_until_it_is_created() {
    let (engine, pool) = (Memory::default(), Pool::new(&[JOURNEYMAN], nothing).await);
    pool.client.delete_group().user_pool_id(&pool.id).group_name(SAGE).send().await.unwrap();
    let projector = of(&engine, &pool);
    let change = save(&engine, &ada(), "SAGE", "cognito", "1").await;
    assert_eq!(project_one(&projector, &change).await, Outcome::Parked);
    let [record] = <[_; 1]>::try_from(projector.store.parked().await.unwrap()).unwrap();
    assert_eq!((record.code.as_str(), record.reason.as_str()), ("no_such_group", "no such group: dues-sage"));
    assert_eq!(pool.groups().await, [JOURNEYMAN]);
    pool.create_group(SAGE).await;
    assert_eq!(redrive_groups(&projector, &record).await.unwrap(), Outcome::Applied);
    assert_eq!((pool.groups().await, parked(&engine).await), (vec![SAGE.to_owned()], vec![]));
}

#[tokio::test]
async fn throttling_is_waited_out_and_what_outlasts_it_is_delivered_again() {
    const SLOWLY: Mischief = Mischief::Refuse(400, "TooManyRequestsException");
    // Each of the first three calls is throttled twice; in the second round the list passes and the add is
    // throttled six times.
    let pool = Pool::new(&[JOURNEYMAN], |asked| match asked.number {
        2 | 5 | 8 | 9 => Mischief::None,
        0..16 => SLOWLY,
        _ => Mischief::None,
    })
    .await;
    let engine = Memory::default();
    let projector = of(&engine, &pool);
    let first = save(&engine, &ada(), "SAGE", "cognito", "1").await;
    assert_eq!(project_one(&projector, &first).await, Outcome::Applied);
    assert_eq!(
        (pool.groups().await, effect(&engine, &ada()).await.unwrap().calls),
        (vec![SAGE.to_owned()], 9)
    );

    let second = save(&engine, &ada(), "JOURNEYMAN", "cognito", "2").await;
    let third = save(&engine, &ada(), "free", "cognito", "3").await;
    let back = save(&engine, &ada(), "JOURNEYMAN", "cognito", "4").await;
    let batch = [second, third, back];
    // The list succeeds, the add does not.
    let outcomes = projector.project(&batch).await.outcomes;
    assert!(
        outcomes.iter().all(
            |outcome| matches!(outcome, Outcome::Failed(why) if why.ends_with("TooManyRequestsException: no"))
        ),
        "{outcomes:?}"
    );
    assert_eq!(
        (pool.groups().await, calls(&pool).len(), parked(&engine).await),
        (vec![SAGE.to_owned()], 16, vec![])
    );
    assert_eq!(
        projector.project(&batch).await.outcomes,
        [Outcome::Applied, Outcome::Duplicate, Outcome::Duplicate]
    );
    assert_eq!(pool.groups().await, [JOURNEYMAN]);
}
