//! A crash after every write, of the tables and of the directory; the change is redelivered, and the result
//! is the same.

use super::*;
use dues_tests::aws::cognito_pool::{INITIATE, JOURNEYMAN};
use dues_tests::engines::faulty::{Faulty, Plug};

dues_tests::on_engines! {
    after_a_crash_anywhere_it_ends_the_same,
}

/// The situations in which the crash happens.
#[derive(Debug, Clone, Copy)]
enum Story {
    First,
    Another,
    Unknown,
    KnownLater,
}

/// The groups and parked records before the change that the crash interrupts.
async fn before<E: Engine>(engine: &E, user: &UserId, story: Story) {
    let directory = LocalDirectory::new(engine.clone());
    match story {
        Story::First => directory.add(user, JOURNEYMAN).await.unwrap(),
        Story::Another | Story::Unknown => {
            let change = save(engine, user, "INITIATE", "cognito", "0").await;
            assert_eq!(project_one(&projector(engine, accepts_all), &change).await, Outcome::Applied);
        }
        Story::KnownLater => {
            let change = save(engine, user, "INITIATE", "cognito", "0").await;
            assert_eq!(project_one(&projector(engine, unknown), &change).await, Outcome::Parked);
            directory.add(user, INITIATE).await.unwrap();
        }
    }
}

fn unknown(_: &str, _: &UserId) -> Option<DirectoryError> {
    Some(DirectoryError::NoSuchUser)
}

fn hook(story: Story) -> fn(&str, &UserId) -> Option<DirectoryError> {
    match story {
        Story::First | Story::Another | Story::KnownLater => accepts_all,
        Story::Unknown => unknown,
    }
}

/// Groups, their effect row, and what is parked, without the last run's calls and version: those may differ
/// after a crash.
async fn end<E: Engine>(engine: &E, user: &UserId) -> (Vec<String>, GroupsEffect, Vec<String>) {
    let row = effect(engine, user).await.unwrap();
    let said = GroupsEffect { added: vec![], removed: vec![], calls: 0, version: 0, ..row };
    let waiting =
        parked(engine).await.into_iter().filter(|parked| parked.2.as_deref() == Some(user.as_str()));
    (
        local_groups(engine, user).await,
        GroupsEffect { user: ada(), ..said },
        waiting.map(|parked| parked.1).collect(),
    )
}

async fn after_a_crash_anywhere_it_ends_the_same<E: Engine>(engine: E) {
    // By hand: a mark, an add, a remove and the result; the same; a mark, the parked record and the result;
    // a mark, an add, a remove, the parked record's removal, and the result. An uninterrupted run has one
    // step to spare.
    for (story, steps) in
        [(Story::First, 4), (Story::Another, 4), (Story::Unknown, 3), (Story::KnownLater, 5)]
    {
        let calm = UserId::from(format!("calm {story:?}"));
        before(&engine, &calm, story).await;
        let change = save(&engine, &calm, "SAGE", "cognito", "1").await;
        let outcome = project_one(&projector(&engine, hook(story)), &change).await;
        assert!(matches!(outcome, Outcome::Applied | Outcome::Parked), "{outcome:?}");
        let expected = end(&engine, &calm).await;
        for step in 1..=steps + 1 {
            let user = UserId::from(format!("{story:?} {step}"));
            before(&engine, &user, story).await;
            let change = save(&engine, &user, "SAGE", "cognito", "1").await;
            let plug = Plug::after(step);
            let cut =
                project_one(&projector(&Faulty::on(engine.clone(), plug.clone()), hook(story)), &change)
                    .await;
            assert_eq!(
                (plug.is_pulled(), matches!(cut, Outcome::Failed(_))),
                (step <= steps, step <= steps),
                "{story:?}, step {step}"
            );
            let again = project_one(&projector(&engine, hook(story)), &change).await;
            assert!(!matches!(again, Outcome::Failed(_)), "{story:?}, step {step}: {again:?}");
            assert_eq!(end(&engine, &user).await, expected, "{story:?}, step {step}");
        }
    }
}
