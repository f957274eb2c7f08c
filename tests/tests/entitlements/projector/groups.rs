//! The effect on groups: the calls made, and the effect row.

use super::*;
use dues_tests::aws::cognito_pool::{INITIATE, JOURNEYMAN, SAGE};
use dues_tests::fixtures::company::all;
use serde_json::json;

dues_tests::on_engines! {
    groups_follow_a_profile_and_are_written_down,
    what_was_done_is_not_done_again,
    only_users_of_cognito_have_groups,
    an_old_image_does_not_win,
    what_is_no_change_of_the_tier_is_skipped,
    without_a_directory_nothing_follows,
}

async fn groups_follow_a_profile_and_are_written_down<E: Engine>(engine: E) {
    let projector = projector(&engine, accepts_all);
    let directory = projector.directory.clone().unwrap();
    directory.inner.add(&ada(), "admins").await.unwrap();

    let first = save(&engine, &ada(), "JOURNEYMAN", "cognito", "1").await;
    assert_eq!(project_one(&projector, &first).await, Outcome::Applied);
    assert_eq!(directory.calls(), ["list", "add dues-journeyman"]);
    assert_eq!(local_groups(&engine, &ada()).await, ["admins", JOURNEYMAN]);

    let second = save(&engine, &ada(), "SAGE", "cognito", "2").await;
    assert_eq!(project_one(&projector, &second).await, Outcome::Applied);
    assert_eq!(directory.calls(), ["list", "add dues-sage", "remove dues-journeyman"]);
    assert_eq!(local_groups(&engine, &ada()).await, ["admins", SAGE]);
    let row = engine.get(&GG_CORE, key(&ada(), "EFFECT#GROUPS".into())).await.unwrap().unwrap();
    assert_eq!(
        row.to_json(),
        json!({
            "PK": "USER#auth0|ada", "SK": "EFFECT#GROUPS", "type": "GroupsEffect", "tier": "SAGE",
            "group": SAGE, "added": [SAGE], "removed": [JOURNEYMAN], "calls": 3,
            "appliedAt": "2026-03-01T00:00:00Z", "version": 4,
        })
    );

    let third = save(&engine, &ada(), "free", "cognito", "3").await;
    assert_eq!(project_one(&projector, &third).await, Outcome::Applied);
    assert_eq!(directory.calls(), ["list", "remove dues-sage"]);
    assert_eq!(local_groups(&engine, &ada()).await, ["admins"]);
    let row = effect(&engine, &ada()).await.unwrap();
    assert_eq!((row.tier.unwrap().as_str(), row.group, row.added, row.calls), ("free", None, vec![], 2));
}

async fn what_was_done_is_not_done_again<E: Engine>(engine: E) {
    let projector = projector(&engine, accepts_all);
    let directory = projector.directory.clone().unwrap();
    let change = save(&engine, &ada(), "SAGE", "cognito", "1").await;
    assert_eq!(project_one(&projector, &change).await, Outcome::Applied);
    assert_eq!(directory.calls().len(), 2);
    let rows = all(&engine, &GG_CORE).await;
    let twice = projector.project(&[change.clone(), change]).await;
    assert_eq!((twice.outcomes, directory.calls()), (vec![Outcome::Duplicate, Outcome::Duplicate], vec![]));
    assert_eq!(all(&engine, &GG_CORE).await, rows, "nothing is written either");
}

async fn only_users_of_cognito_have_groups<E: Engine>(engine: E) {
    let projector = projector(&engine, accepts_all);
    let directory = projector.directory.clone().unwrap();
    let bob = UserId::from("bob");
    let local = save(&engine, &bob, "SAGE", "local", "1").await;
    assert_eq!(project_one(&projector, &local).await, Outcome::Skipped);
    let mut unknown = save(&engine, &bob, "GUILDMASTER", "local", "2").await;
    unknown.new.as_mut().unwrap().remove("provider");
    engine.put(&GG_CORE, unknown.new.clone().unwrap(), Condition::Always).await.unwrap();
    assert_eq!(project_one(&projector, &unknown).await, Outcome::Skipped);
    assert_eq!((directory.calls(), effect(&engine, &bob).await), (vec![], None));

    let moved = save(&engine, &bob, "SAGE", "cognito", "3").await;
    assert_eq!(
        project_one(&projector, &moved).await,
        Outcome::Applied,
        "the provider counts as much as the tier"
    );
    assert_eq!(directory.calls(), ["list", "add dues-sage"]);
    let back = save(&engine, &bob, "INITIATE", "local", "4").await;
    assert_eq!(project_one(&projector, &back).await, Outcome::Skipped);
    assert_eq!(
        (directory.calls(), local_groups(&engine, &bob).await),
        (vec![], vec![SAGE.to_owned()]),
        "no call is made for a local user"
    );
}

/// A lagging shard or a redelivered batch carries outdated tiers.
async fn an_old_image_does_not_win<E: Engine>(engine: E) {
    let projector = projector(&engine, accepts_all);
    let directory = projector.directory.clone().unwrap();
    let old = save(&engine, &ada(), "INITIATE", "cognito", "1").await;
    let middle = save(&engine, &ada(), "SAGE", "cognito", "2").await;
    let new = save(&engine, &ada(), "JOURNEYMAN", "cognito", "3").await;
    let report = projector.project(&[old.clone(), middle.clone(), new]).await;
    assert_eq!(
        report.outcomes,
        [Outcome::Applied, Outcome::Duplicate, Outcome::Duplicate],
        "the first brings it to where it is now"
    );
    assert_eq!(directory.calls(), ["list", "add dues-journeyman"]);
    assert_eq!(projector.project(&[middle, old]).await.outcomes, [Outcome::Duplicate, Outcome::Duplicate]);
    assert_eq!(local_groups(&engine, &ada()).await, [JOURNEYMAN]);
}

async fn what_is_no_change_of_the_tier_is_skipped<E: Engine>(engine: E) {
    let projector = projector(&engine, accepts_all);
    let directory = projector.directory.clone().unwrap();
    let first = save(&engine, &ada(), "SAGE", "cognito", "1").await;
    let (before, mut after) = (first.new.clone(), first.new.unwrap());
    after.set_text("displayName", "Countess");
    let gone = change(before.clone(), None, "3");
    let mut row = Item::new();
    row.set_text("PK", "USER#auth0|ada");
    row.set_text("SK", "SUBSCRIPTION#sub_1");
    row.set_text("tier", "SAGE");
    let mut strange = profile(&ada(), "SAGE", "cognito");
    strange.set_text("PK", "GUILD#1");
    let changes = [
        change(before, Some(after), "2"),
        gone,
        change(None, Some(row), "4"),
        change(None, Some(strange), "5"),
    ];
    assert_eq!(projector.project(&changes).await.outcomes, vec![Outcome::Skipped; 4]);
    assert_eq!(directory.calls(), Vec::<String>::new());
}

async fn without_a_directory_nothing_follows<E: Engine>(engine: E) {
    let none = Projector::<E, LocalDirectory<E>>::new(store(engine.clone()), None);
    let change = save(&engine, &ada(), "INITIATE", "cognito", "1").await;
    assert_eq!(project_one(&none, &change).await, Outcome::Skipped);
    assert_eq!(effect(&engine, &ada()).await, None);
    assert_eq!(
        project_one(&projector(&engine, accepts_all), &change).await,
        Outcome::Applied,
        "and one that has a directory finds it to do"
    );
    assert_eq!(local_groups(&engine, &ada()).await, [INITIATE]);
}
