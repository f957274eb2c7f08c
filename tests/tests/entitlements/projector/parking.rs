//! What needs an operator: users and groups that the directory does not have, and rows that cannot be read.

use super::*;
use dues_processors::projector::{GROUPS_STREAM, redrive_groups};
use dues_processors::runtime::redrive::redrive_change;
use dues_tests::aws::cognito_pool::SAGE;

dues_tests::on_engines! {
    an_unknown_user_is_parked_and_redriven,
    a_user_who_is_made_later_leaves_nothing_parked,
    a_user_has_one_parked_effect_with_the_latest_reason,
    what_may_pass_is_delivered_again_and_not_parked,
    a_profile_that_cannot_be_read_is_parked_and_redriven,
}

/// The error that every call returns, if any.
type Mood = Arc<Mutex<Option<DirectoryError>>>;

/// A directory with an answer that the test changes.
fn moody<E: Engine>(engine: &E, first: Option<DirectoryError>) -> (Projector<E, Local<E>>, Mood) {
    let mood = Arc::new(Mutex::new(first));
    let said = mood.clone();
    (projector(engine, move |_, _| said.lock().unwrap().clone()), mood)
}

fn waiting(code: &str, tier: &str) -> (String, String, Option<String>, String) {
    let body = format!(r#"{{"tier":"{tier}","user_id":"auth0|ada"}}"#);
    (GROUPS_STREAM.to_owned(), code.to_owned(), Some("auth0|ada".to_owned()), body)
}

async fn an_unknown_user_is_parked_and_redriven<E: Engine>(engine: E) {
    let (projector, mood) = moody(&engine, Some(DirectoryError::NoSuchUser));
    let change = save(&engine, &ada(), "SAGE", "cognito", "1").await;
    for _ in 0..2 {
        assert_eq!(project_one(&projector, &change).await, Outcome::Parked);
        assert_eq!(parked(&engine).await, [waiting("no_such_user", "SAGE")]);
    }
    let [record] = <[_; 1]>::try_from(projector.store.parked().await.unwrap()).unwrap();
    assert_eq!((record.reason.as_str(), record.sequence.as_str()), ("no such user", "1"));
    assert_eq!(redrive_groups(&projector, &record).await.unwrap(), Outcome::Parked);
    *mood.lock().unwrap() = Some(DirectoryError::Throttled("slowly".into()));
    assert_eq!(
        redrive_groups(&projector, &record).await.unwrap(),
        Outcome::Failed("throttled: slowly".into())
    );
    assert_eq!(parked(&engine).await.len(), 1);
    *mood.lock().unwrap() = None;
    assert_eq!(redrive_groups(&projector, &record).await.unwrap(), Outcome::Applied);
    assert_eq!((parked(&engine).await, local_groups(&engine, &ada()).await), (vec![], vec![SAGE.to_owned()]));
    assert_eq!(redrive_groups(&projector, &record).await.unwrap(), Outcome::Duplicate);
    let row = effect(&engine, &ada()).await.unwrap();
    assert_eq!((row.parked, row.under_way), (None, vec![]));

    let mut nameless = record.clone();
    nameless.user_id = None;
    assert!(redrive_groups(&projector, &nameless).await.is_err());
    let mut foreign = record;
    foreign.stream = "memberships".into();
    assert!(redrive_groups(&projector, &foreign).await.is_err());
}

async fn a_user_who_is_made_later_leaves_nothing_parked<E: Engine>(engine: E) {
    let (projector, mood) = moody(&engine, Some(DirectoryError::NoSuchUser));
    let first = save(&engine, &ada(), "INITIATE", "cognito", "1").await;
    assert_eq!(project_one(&projector, &first).await, Outcome::Parked);
    *mood.lock().unwrap() = None;
    let second = save(&engine, &ada(), "SAGE", "cognito", "2").await;
    assert_eq!(project_one(&projector, &second).await, Outcome::Applied);
    assert_eq!((parked(&engine).await, local_groups(&engine, &ada()).await), (vec![], vec![SAGE.to_owned()]));
    assert_eq!(project_one(&projector, &first).await, Outcome::Duplicate);
}

async fn a_user_has_one_parked_effect_with_the_latest_reason<E: Engine>(engine: E) {
    let (projector, mood) = moody(&engine, Some(DirectoryError::NoSuchUser));
    let first = save(&engine, &ada(), "INITIATE", "cognito", "1").await;
    assert_eq!(project_one(&projector, &first).await, Outcome::Parked);
    for (n, (error, code)) in [
        (DirectoryError::NoSuchGroup(SAGE.into()), "no_such_group"),
        (DirectoryError::Refused("not allowed".into()), "refused"),
    ]
    .into_iter()
    .enumerate()
    {
        *mood.lock().unwrap() = Some(error);
        let next = save(&engine, &ada(), ["SAGE", "GUILDMASTER"][n], "cognito", &format!("{}", n + 2)).await;
        assert_eq!(project_one(&projector, &next).await, Outcome::Parked);
        assert_eq!(parked(&engine).await, [waiting(code, ["SAGE", "GUILDMASTER"][n])]);
        assert_eq!(effect(&engine, &ada()).await.unwrap().parked.as_deref(), Some(code));
    }
    // The user moves to another provider: nothing is left to do.
    save(&engine, &ada(), "GUILDMASTER", "local", "4").await;
    let [record] = <[_; 1]>::try_from(projector.store.parked().await.unwrap()).unwrap();
    assert_eq!(redrive_groups(&projector, &record).await.unwrap(), Outcome::Skipped);
    assert_eq!(parked(&engine).await, []);
}

async fn what_may_pass_is_delivered_again_and_not_parked<E: Engine>(engine: E) {
    let (projector, mood) = moody(&engine, Some(DirectoryError::Unavailable("silence".into())));
    let change = save(&engine, &ada(), "SAGE", "cognito", "1").await;
    assert_eq!(project_one(&projector, &change).await, Outcome::Failed("unavailable: silence".into()));
    assert_eq!(
        (parked(&engine).await, projector.directory.as_ref().unwrap().calls().len()),
        (vec![], 6),
        "it was retried"
    );
    assert_eq!(effect(&engine, &ada()).await.unwrap().under_way, ["1"]);
    *mood.lock().unwrap() = None;
    assert_eq!(project_one(&projector, &change).await, Outcome::Applied);
    assert_eq!(project_one(&projector, &change).await, Outcome::Duplicate);
    assert_eq!(local_groups(&engine, &ada()).await, [SAGE]);
}

async fn a_profile_that_cannot_be_read_is_parked_and_redriven<E: Engine>(engine: E) {
    let projector = projector(&engine, accepts_all);
    let bad = save(&engine, &ada(), "sage", "cognito", "1").await;
    let bob = UserId::from("bob");
    let good = save(&engine, &bob, "SAGE", "cognito", "2").await;
    assert_eq!(projector.project(&[bad.clone(), good]).await.outcomes, [Outcome::Parked, Outcome::Applied]);
    // Redelivered, by a runner that has only its own read time.
    assert_eq!(
        project_one(&projector, &Change { arrived: t("2026-03-09T00:00:00Z"), ..bad.clone() }).await,
        Outcome::Parked
    );
    let [record] = <[_; 1]>::try_from(projector.store.parked().await.unwrap()).unwrap();
    assert_eq!(
        (record.stream.as_str(), record.code.as_str(), record.user_id.as_deref()),
        ("gg_core", "store", Some("auth0|ada"))
    );
    assert_eq!(record.reason, r#"tier of row USER#auth0|ada/PROFILE#auth0|ada: "sage" is not a tier"#);
    assert_eq!(
        Change::of_parked(&record, &projector.tables).unwrap(),
        bad,
        "the parked record is the change"
    );

    assert_eq!(redrive_change(&projector, &record).await.unwrap(), Outcome::Parked);
    assert_eq!(parked(&engine).await.len(), 1);
    save(&engine, &ada(), "SAGE", "cognito", "3").await;
    assert_eq!(redrive_change(&projector, &record).await.unwrap(), Outcome::Applied);
    assert_eq!((parked(&engine).await, local_groups(&engine, &ada()).await), (vec![], vec![SAGE.to_owned()]));
}
