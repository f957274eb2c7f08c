//! Concurrent requests at the usage limit.

use super::*;
use dues_processors::outcome::CommandOutcome;
use dues_processors::serenya::{UsageCheck, count_usage};
use futures::future::join_all;

dues_tests::on_engines! {
    fifty_callers_at_a_limit_of_three,
    fifty_callers_with_one_key,
}

async fn calls<E: Engine>(
    engine: &E,
    key: impl Fn(usize) -> String,
) -> Vec<CommandOutcome<UsageCheck, UsageCheck>> {
    let models = limit_of_three();
    let calls = (0..50).map(|n| {
        let (store, models, key) = (at(engine, NOW), models.clone(), key(n));
        tokio::spawn(async move { count_usage(&store, models.serenya(), "u-1", &key.into()).await.unwrap() })
    });
    join_all(calls).await.into_iter().map(Result::unwrap).collect()
}

async fn fifty_callers_at_a_limit_of_three<E: Engine>(engine: E) {
    ada(&engine).await;
    let answers = calls(&engine, |n| format!("d-{n}")).await;
    let allowed = answers.iter().filter(|answer| matches!(answer, CommandOutcome::Applied(_))).count();
    let refused = answers
        .iter()
        .filter(|answer| matches!(answer, CommandOutcome::Rejected(checked) if checked.usage == Some(3)))
        .count();
    assert_eq!((allowed, refused), (3, 47));
    let profile = row(&engine, "PROFILE").await.unwrap();
    let used = &profile["data"]["subscription"]["usage_current_period"]["documents_processed"];
    assert_eq!(used, &json!(3));
}

async fn fifty_callers_with_one_key<E: Engine>(engine: E) {
    ada(&engine).await;
    let answers = calls(&engine, |_| "d-1".to_owned()).await;
    let counted = answers.iter().filter(|answer| matches!(answer, CommandOutcome::Applied(_))).count();
    let known = answers
        .iter()
        .filter(|answer| matches!(answer, CommandOutcome::Duplicate(checked) if checked.allowed))
        .count();
    assert_eq!((counted, known), (1, 49));
}
