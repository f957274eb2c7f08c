//! Every entity of figureforge, by its primary key.

use super::*;
use dues_processors::figureforge::{queries, show};
use dues_tests::fixtures::stripe::subscription;

dues_tests::on_engines! {
    user_by_user_id_and_profile,
    subscription_by_user_id_and_stripe_sub_id,
    generation_job_by_user_id_and_job_id,
    image_by_image_id_and_meta,
    image_item_example,
    tag_index_by_tag_value_and_image_id,
    tag_index_item,
    report_by_image_id_and_report_id,
    feature_flag_by_global_and_flag_name,
    plan_by_plan_id_and_meta,
    all_items_include_created_at_and_deleted_at_for_soft_delete,
    an_image_that_is_deleted_for_good_is_gone_and_stays_gone,
    dues_show_has_what_figureforge_knows_of_a_user,
}

async fn user_by_user_id_and_profile<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    forge
        .deliver(&[event(
            "e-1",
            5,
            "user.saved",
            json!({"user_id": "u-1", "email": "Ada@Example.com", "display_name": "Ada"}),
        )])
        .await;
    let row = queries::user(&forge.store, "u-1").await.unwrap().unwrap();
    let expected = json!({"pk": "USER#u-1", "sk": "PROFILE", "user_id": "u-1", "email": "Ada@Example.com",
        "display_name": "Ada",
        "email_pk": "EMAIL#ada@example.com", "email_sk": "USER#u-1", "created_at": MIDNIGHT + 5,
        "deleted_at": null});
    assert_eq!(row.to_json(), expected);
    assert_eq!(queries::user(&forge.store, "u-2").await.unwrap(), None);
}

async fn subscription_by_user_id_and_stripe_sub_id<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    let at = "2026-01-01T00:00:00Z";
    forge.deliver(&[subscription("evt_1", "created", at, "u-1", "SAGE", "active", at)]).await;
    let row = queries::subscription(&forge.store, "u-1", "sub_u-1").await.unwrap().unwrap();
    assert_eq!(
        (row.text("status"), row.text("plan_id"), row.text("plan")),
        (Some("active"), Some("SAGE"), Some("PLAN#SAGE"))
    );
    let listed =
        queries::subscriptions_of(&forge.store, "u-1", queries::PageRequest::default()).await.unwrap();
    assert_eq!(texts(&listed, "stripe_sub_id"), ["sub_u-1"]);
    forge
        .deliver(&[subscription("evt_2", "deleted", "2026-01-20T00:00:00Z", "u-1", "SAGE", "canceled", at)])
        .await;
    let row = queries::subscription(&forge.store, "u-1", "sub_u-1").await.unwrap().unwrap().to_json();
    assert_eq!((&row["status"], &row["deleted_at"]), (&json!("canceled"), &json!(1_768_867_200)));
}

async fn generation_job_by_user_id_and_job_id<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    let job = |fields: Value| {
        json!({"job_id": "j-1", "user_id": "u-1", "image_id": fields["image_id"],
        "prompt_json": {"prompt": "a knight"}})
    };
    forge
        .deliver(&[
            event("e-1", 1, "job.queued", job(json!({}))),
            event("e-2", 2, "job.started", job(json!({}))),
        ])
        .await;
    let row = queries::job(&forge.store, "u-1", "j-1").await.unwrap().unwrap().to_json();
    assert_eq!(
        (&row["status"], &row["image_id"], &row["started_at"]),
        (&json!("running"), &Value::Null, &json!(MIDNIGHT + 2))
    );
    forge.deliver(&[event("e-3", 3, "job.succeeded", job(json!({"image_id": "i-1"})))]).await;
    let row = queries::job(&forge.store, "u-1", "j-1").await.unwrap().unwrap().to_json();
    assert_eq!(
        (&row["status"], &row["image_id"], &row["ended_at"]),
        (&json!("succeeded"), &json!("i-1"), &json!(MIDNIGHT + 3))
    );
    assert_eq!(
        texts(
            &queries::jobs_of(&forge.store, "u-1", queries::PageRequest::default()).await.unwrap(),
            "job_id"
        ),
        ["j-1"]
    );
}

async fn image_by_image_id_and_meta<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    forge
        .deliver(&[
            image("e-1", 1, "i-1", None, &["a"]),
            event("e-2", 2, "image.favorited", json!({"image_id": "i-1", "favorited_count": 3})),
        ])
        .await;
    let row = queries::image(&forge.store, "i-1").await.unwrap().unwrap().to_json();
    assert_eq!(
        (&row["user_id"], &row["favorited_count"], &row["flag_status"]),
        (&Value::Null, &json!(3), &json!("clean"))
    );
    assert_eq!(queries::image(&forge.store, "i-2").await.unwrap(), None);
}

async fn image_item_example<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    let mut example = json!({"user_id": "u-1", "url": "https://cdn/img.jpg",
        "tags": ["pose:standing", "style:comic"],
        "prompt_json": {"prompt": "a", "negative_prompt": "b", "tags": ["c"]}, "provider": "fal.ai",
        "provider_model_id": "fal/sdxl-foo", "cost_cents": 12,
        "favorited_count": 0, "public": true, "private_gallery_ids": [], "flag_status": "clean",
        "created_at": 1_710_000_000});
    let mut fields = example.clone();
    fields["image_id"] = "i-1".into();
    forge.deliver(&[event("e-1", 1, "image.saved", fields)]).await;
    let row = queries::image(&forge.store, "i-1").await.unwrap().unwrap().to_json();
    for (name, value) in [("pk", json!("IMG#i-1")), ("sk", json!("META")), ("deleted_at", Value::Null)] {
        example[name] = value;
    }
    for (name, value) in example.as_object().unwrap() {
        assert_eq!(row.get(name), Some(value), "{name}");
    }
}

async fn tag_index_by_tag_value_and_image_id<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    forge
        .deliver(&[image("e-1", 1, "i-1", None, &["a", "b"]), image("e-2", 2, "i-2", Some("u-1"), &["b"])])
        .await;
    for (tag, images) in [("a", vec!["IMG#i-1"]), ("b", vec!["IMG#i-1", "IMG#i-2"]), ("c", vec![])] {
        assert_eq!(
            texts(
                &queries::images_by_tag(&forge.store, tag, queries::PageRequest::default()).await.unwrap(),
                "sk"
            ),
            images,
            "{tag}"
        );
    }
}

async fn tag_index_item<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    let image = json!({"image_id": "i-1", "url": "x", "tags": ["pose:standing"], "public": true,
        "created_at": 1_710_000_000});
    forge.deliver(&[event("e-1", 1, "image.saved", image)]).await;
    let rows = queries::images_by_tag(&forge.store, "pose:standing", queries::PageRequest::default())
        .await
        .unwrap()
        .items;
    let expected =
        json!({"pk": "TAG#pose:standing", "sk": "IMG#i-1", "created_at": 1_710_000_000, "deleted_at": null});
    assert_eq!(rows.iter().map(Item::to_json).collect::<Vec<_>>(), [expected]);
}

async fn report_by_image_id_and_report_id<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    let report =
        |id: &str| json!({"image_id": "i-1", "report_id": id, "reporter_id": "u-2", "reason": "spam"});
    forge
        .deliver(&[
            event("e-1", 1, "report.filed", report("r-1")),
            event("e-2", 2, "report.filed", report("r-2")),
        ])
        .await;
    let row = queries::report(&forge.store, "i-1", "r-1").await.unwrap().unwrap();
    let expected = json!({"pk": "IMG#i-1", "sk": "REPORT#r-1", "image_id": "i-1", "report_id": "r-1",
        "reporter_id": "u-2", "reason": "spam",
        "status": "filed", "report_status_pk": "REPORTSTATUS#filed", "created_at": MIDNIGHT + 1,
        "deleted_at": null});
    assert_eq!(row.to_json(), expected);
    assert_eq!(
        texts(
            &queries::reports_of(&forge.store, "i-1", queries::PageRequest::default()).await.unwrap(),
            "report_id"
        ),
        ["r-1", "r-2"]
    );
}

async fn feature_flag_by_global_and_flag_name<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    let flag = |name: &str, enabled: bool| json!({"flag_name": name, "enabled": enabled});
    let events = [("e-1", "video", true), ("e-2", "teaser", false), ("e-3", "video", false)];
    let events: Vec<Sent> = events
        .iter()
        .zip(1..)
        .map(|((id, name, on), second)| event(id, second, "flag.set", flag(name, *on)))
        .collect();
    forge.deliver(&events).await;
    let row = queries::flag(&forge.store, "video").await.unwrap().unwrap().to_json();
    assert_eq!(
        (&row["pk"], &row["sk"], &row["enabled"]),
        (&json!("FEATUREFLAG#global"), &json!("video"), &json!(false))
    );
    assert_eq!(
        texts(&queries::flags(&forge.store, queries::PageRequest::default()).await.unwrap(), "flag_name"),
        ["teaser", "video"]
    );
    forge.deliver(&[event("e-4", 4, "flag.deleted", flag("video", true))]).await;
    assert_eq!(
        texts(&queries::flags(&forge.store, queries::PageRequest::default()).await.unwrap(), "flag_name"),
        ["teaser"]
    );
}

async fn plan_by_plan_id_and_meta<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    let plan = json!({"plan_id": "SAGE", "name": "Sage", "price_cents": 4900, "interval": "month",
        "stripe_price_id": "price_1", "active": true});
    forge.deliver(&[event("e-1", 1, "plan.saved", plan)]).await;
    let row = queries::plan(&forge.store, "SAGE").await.unwrap().unwrap().to_json();
    assert_eq!(
        (&row["pk"], &row["sk"], &row["price_cents"], &row["active"]),
        (&json!("PLAN#SAGE"), &json!("META"), &json!(4900), &json!(true))
    );
}

async fn all_items_include_created_at_and_deleted_at_for_soft_delete<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    let ids = json!({"user_id": "u-1", "job_id": "j-1", "image_id": "i-1", "report_id": "r-1",
        "flag_name": "f-1", "plan_id": "p-1",
        "email": "a@b", "url": "x", "reason": "spam", "enabled": true, "name": "P", "active": true,
        "public": true, "tags": ["t"]});
    let all = ["user.saved", "job.queued", "image.saved", "report.filed", "flag.set", "plan.saved"];
    let made: Vec<Sent> = all.iter().map(|kind| event(kind, 1, kind, ids.clone())).collect();
    forge.deliver(&made).await;
    let start = "2026-01-01T00:00:00Z";
    forge
        .deliver(&[dues_tests::fixtures::stripe::subscription(
            "evt_1", "created", start, "u-1", "SAGE", "active", start,
        )])
        .await;
    let before = dump(&forge.engine).await;
    assert_eq!(before.len(), 8, "every entity: {:?}", before.keys());
    for (key, row) in &before {
        assert!(row.to_json()["created_at"].is_i64() && row.to_json()["deleted_at"].is_null(), "{key}");
    }
    let of = |what: &str, second: u32| -> Vec<Sent> {
        let kinds =
            ["user", "job", "image", "report", "flag", "plan"].map(|entity| format!("{entity}.{what}"));
        kinds.iter().map(|kind| event(kind, second, kind, ids.clone())).collect()
    };
    forge.deliver(&of("deleted", 2)).await;
    for (key, row) in dump(&forge.engine).await {
        let deleted = if key.contains("SUB#") { Value::Null } else { json!(MIDNIGHT + 2) };
        assert_eq!(row.to_json()["deleted_at"], deleted, "{key}");
        assert!(!key.starts_with("TAG#"), "the tag row follows its image");
    }
    forge.deliver(&of("restored", 3)).await;
    assert_eq!(dump(&forge.engine).await, before, "nothing was lost");
}

async fn an_image_that_is_deleted_for_good_is_gone_and_stays_gone<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    forge
        .deliver(&[
            image("e-1", 1, "i-1", Some("u-1"), &["a"]),
            event("e-2", 5, "image.purged", json!({"image_id": "i-1"})),
        ])
        .await;
    assert!(dump(&forge.engine).await.is_empty());
    forge
        .deliver(&[
            image("e-3", 9, "i-1", Some("u-1"), &["a"]),
            event("e-4", 9, "image.restored", json!({"image_id": "i-1"})),
        ])
        .await;
    assert!(dump(&forge.engine).await.is_empty(), "whatever comes late");
}

async fn dues_show_has_what_figureforge_knows_of_a_user<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    let user = dues_events::UserId::from("u-1");
    let (json, lines) = show(&forge.store, &user).await.unwrap();
    assert_eq!((json, lines), (json!({"user": null, "subscriptions": [], "jobs": [], "images": []}), vec![]));
    forge
        .deliver(&[
            event("e-1", 1, "user.saved", json!({"user_id": "u-1", "email": "a@b"})),
            image("e-2", 2, "i-1", Some("u-1"), &[]),
        ])
        .await;
    forge.deliver(&[event("e-3", 1, "job.queued", json!({"user_id": "u-1", "job_id": "j-1"}))]).await;
    let (json, lines) = show(&forge.store, &user).await.unwrap();
    assert_eq!(lines, ["user a@b", "job j-1 queued", "image i-1 clean"]);
    assert_eq!(
        (&json["user"]["email"], &json["images"][0]["image_id"], &json["images"][0].get("pk")),
        (&json!("a@b"), &json!("i-1"), &None)
    );
}
