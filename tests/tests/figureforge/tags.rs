//! Tags follow their images, for any writer, in any order and any number of deliveries.

use super::*;
use dues_store::{Condition, Key};
use dues_tests::engines::faulty::{Faulty, Plug};

dues_tests::on_engines! {
    a_retag_a_soft_delete_an_undelete_and_a_hard_delete_are_followed,
    tags_follow_an_image_that_another_service_wrote,
    what_does_not_concern_the_tags_costs_nothing,
    deliveries_backwards_and_twice_end_the_same,
    after_a_crash_at_any_write_of_many_tags_redelivery_ends_the_same,
    without_the_read_model_nothing_follows,
}

async fn a_retag_a_soft_delete_an_undelete_and_a_hard_delete_are_followed<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    let of = |what: &str, second: u32| {
        event(
            &format!("{what} {second}"),
            second,
            &format!("image.{what}"),
            json!({"image_id": "i-1", "tags": ["b", "c"]}),
        )
    };
    let pairs =
        |tags: &[&str]| tags.iter().map(|tag| ((*tag).to_owned(), "i-1".to_owned())).collect::<BTreeSet<_>>();
    for (sent, tags) in [
        (image("e-1", 1, "i-1", None, &["a", "b"]), &["a", "b"][..]),
        (of("tagged", 2), &["b", "c"]),
        (of("deleted", 3), &[]),
        (of("restored", 4), &["b", "c"]),
        (event("private", 5, "image.saved", json!({"image_id": "i-1", "url": "x", "public": false})), &[]),
        (
            event("public", 6, "image.saved", json!({"image_id": "i-1", "url": "x", "public": true})),
            &["b", "c"],
        ),
        (event("flag", 7, "image.flagged", json!({"image_id": "i-1", "flag_status": "auto_blocked"})), &[]),
        (
            event("clean", 8, "image.flagged", json!({"image_id": "i-1", "flag_status": "human_pending"})),
            &["b", "c"],
        ),
        (of("purged", 9), &[]),
        (image("e-9", 10, "i-1", None, &["a", "b"]), &[]),
    ] {
        forge.deliver(std::slice::from_ref(&sent)).await;
        assert_eq!(tag_rows(&forge.engine).await, pairs(tags), "{sent:?}");
    }
}

/// An image as another service may write it.
fn plain(id: &str, tags: &[String]) -> Item {
    let mut item = Item::new();
    item.set_text("pk", format!("IMG#{id}"));
    item.set_text("sk", "META");
    item.set("tags", dues_events::Value::L(tags.iter().map(dues_events::Value::text).collect()));
    item.set("public", dues_events::Value::Bool(true));
    item.set("created_at", dues_events::Value::number(7));
    item
}

fn key(id: &str) -> Key {
    Key { partition: format!("IMG#{id}"), sort: Some("META".to_owned()) }
}

async fn tags_follow_an_image_that_another_service_wrote<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    forge
        .engine
        .put(&FIGUREFORGE, plain("i-1", &["a".to_owned(), "b".to_owned()]), Condition::Always)
        .await
        .unwrap();
    forge.follow().await;
    assert_eq!(tag_rows(&forge.engine).await.len(), 2);
    let mut set = plain("i-1", &[]);
    set.set("tags", dues_events::Value::Ss(vec!["b".into(), "c".into()]));
    forge.engine.put(&FIGUREFORGE, set, Condition::Always).await.unwrap();
    forge.follow().await;
    assert_eq!(
        tag_rows(&forge.engine).await,
        [("b".to_owned(), "i-1".to_owned()), ("c".to_owned(), "i-1".to_owned())].into()
    );
    forge.engine.delete(&FIGUREFORGE, key("i-1"), Condition::Always).await.unwrap();
    forge.follow().await;
    assert!(tag_rows(&forge.engine).await.is_empty());
}

async fn what_does_not_concern_the_tags_costs_nothing<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    forge.deliver(&[image("e-1", 1, "i-1", None, &["a"])]).await;
    let place = forge.seen;
    forge
        .deliver(&[event("e-2", 2, "image.favorited", json!({"image_id": "i-1", "favorited_count": 3}))])
        .await;
    let [liked] = <[Change; 1]>::try_from(forge.engine.changes(place).await).unwrap();
    assert_eq!(project(&forge.engine, &liked).await, Outcome::Skipped);
    let first = forge.engine.changes(0).await.remove(0);
    let writes = forge.engine.changes(0).await.len();
    assert_eq!(
        project(&Faulty::on(forge.engine.clone(), Plug::after(1)), &first).await,
        Outcome::Duplicate,
        "it reads, and writes nothing"
    );
    assert_eq!(forge.engine.changes(0).await.len(), writes);
}

async fn deliveries_backwards_and_twice_end_the_same<E: Engine>(engine: E) {
    let engine = Logged::new(engine);
    let tags = |names: &str| names.chars().map(String::from).collect::<Vec<_>>();
    for names in ["ab", "bc", "", "ad", "cd"] {
        engine.put(&FIGUREFORGE, plain("i-1", &tags(names)), Condition::Always).await.unwrap();
        // Only some of the changes are projected in time.
        let changes = engine.changes(0).await;
        if names == "bc" {
            project(&engine, changes.last().unwrap()).await;
        }
    }
    let mut changes = engine.changes(0).await;
    changes.retain(|change| change.partition().starts_with("IMG#"));
    assert_eq!(changes.len(), 5);
    for change in changes.iter().rev().chain(&changes) {
        let outcome = project(&engine, change).await;
        assert!(matches!(outcome, Outcome::Applied | Outcome::Duplicate), "{outcome:?}");
    }
    assert_eq!(
        tag_rows(&engine).await,
        [("c".to_owned(), "i-1".to_owned()), ("d".to_owned(), "i-1".to_owned())].into()
    );
}

async fn after_a_crash_at_any_write_of_many_tags_redelivery_ends_the_same<E: Engine>(engine: E) {
    let engine = Logged::new(engine);
    let many = |from: usize| (from..from + 150).map(|n| format!("t-{n:03}")).collect::<Vec<_>>();
    // 150 tags before and 150 after, half of them the same: 225 to compare, in three transactions with their
    // checks.
    for step in 1..=4 {
        let id = format!("i-{step}");
        engine.put(&FIGUREFORGE, plain(&id, &many(0)), Condition::Always).await.unwrap();
        let first = engine.changes(0).await.pop().unwrap();
        assert_eq!(project(&engine, &first).await, Outcome::Applied);
        engine.put(&FIGUREFORGE, plain(&id, &many(75)), Condition::Always).await.unwrap();
        let second = engine.changes(0).await.pop().unwrap();
        let plug = Plug::after(step);
        let cut = project(&Faulty::on(engine.clone(), plug.clone()), &second).await;
        assert_eq!(
            (plug.is_pulled(), matches!(cut, Outcome::Failed(_))),
            (step < 4, step < 4),
            "step {step}: {cut:?}"
        );
        let again = project(&engine, &second).await;
        assert!(matches!(again, Outcome::Applied | Outcome::Duplicate), "{again:?}");
        let expected: BTreeSet<_> = many(75).into_iter().map(|tag| (tag, id.clone())).collect();
        let rows: BTreeSet<_> =
            tag_rows(&engine).await.into_iter().filter(|(_, image)| *image == id).collect();
        assert_eq!(rows, expected, "step {step}");
    }
    assert_eq!(tag_rows(&engine).await, implied(&engine).await);
}

async fn without_the_read_model_nothing_follows<E: Engine>(engine: E) {
    let engine = Logged::new(engine);
    engine.put(&FIGUREFORGE, plain("i-1", &["a".to_owned()]), Condition::Always).await.unwrap();
    let change = engine.changes(0).await.remove(0);
    let others = dues_processors::read_models::ReadModels::parse("usage").unwrap();
    let outcomes = Projector { read_models: others, ..projector(&engine) }.project(&[change]).await.outcomes;
    assert_eq!(outcomes, [Outcome::Skipped]);
    assert!(tag_rows(&engine).await.is_empty());
}
