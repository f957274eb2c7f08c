//! Each of the six indexes, by name: its members, their order, and what removes an item from it.

use super::*;
use dues_processors::figureforge::queries;
use dues_processors::figureforge::queries::PageRequest;
use dues_projections::figureforge::job::JobStatus;
use dues_projections::figureforge::report::ReportStatus;
use dues_tests::fixtures::stripe::subscription;

dues_tests::on_engines! {
    by_email_finds_a_user_by_email,
    by_stripe_sub_finds_the_user_of_a_stripe_subscription,
    jobs_by_status_lists_jobs_in_a_status_by_created_at,
    images_by_user_lists_a_users_images_by_created_at,
    reports_by_status_lists_reports_in_a_status_by_created_at,
    plans_by_active_lists_plans_that_can_be_bought,
    an_index_is_read_in_pages,
}

async fn by_email_finds_a_user_by_email<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    let user = |id: &str, email: &str| json!({"user_id": id, "email": email});
    forge
        .deliver(&[
            event("e-1", 1, "user.saved", user("u-1", "Ada@Example.com")),
            event("e-2", 1, "user.saved", user("u-2", "bob@example.com")),
        ])
        .await;
    let found = async |forge: &Forge<E>, email: &str| {
        texts(
            &queries::users_by_email(&forge.store, email, PageRequest::default()).await.unwrap(),
            "email_sk",
        )
    };
    assert_eq!(found(&forge, "ada@EXAMPLE.com").await, ["USER#u-1"]);
    forge.deliver(&[event("e-3", 2, "user.saved", user("u-1", "ada@example.org"))]).await;
    assert_eq!(found(&forge, "ada@example.com").await, [""; 0], "the index follows the user");
    assert_eq!(found(&forge, "ada@example.org").await, ["USER#u-1"]);
    forge.deliver(&[event("e-4", 3, "user.deleted", user("u-1", ""))]).await;
    assert_eq!(found(&forge, "ada@example.org").await, [""; 0], "who is deleted is not found");
    forge.deliver(&[event("e-5", 4, "user.restored", user("u-1", ""))]).await;
    assert_eq!(found(&forge, "ada@example.org").await, ["USER#u-1"]);
}

async fn by_stripe_sub_finds_the_user_of_a_stripe_subscription<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    let start = "2026-01-01T00:00:00Z";
    forge
        .deliver(&[subscription("evt_2", "updated", "2026-01-02T00:00:00Z", "u-1", "SAGE", "active", start)])
        .await;
    forge.deliver(&[subscription("evt_1", "created", start, "u-1", "INITIATE", "incomplete", start)]).await;
    let found = async |forge: &Forge<E>| {
        queries::subscription_by_stripe_id(&forge.store, "sub_u-1").await.unwrap().unwrap()
    };
    let row = found(&forge).await;
    assert_eq!(
        (row.text("stripe_sub_sk"), row.text("status"), row.text("plan")),
        (Some("USER#u-1"), Some("active"), Some("PLAN#SAGE"))
    );
    forge
        .deliver(&[subscription(
            "evt_3",
            "deleted",
            "2026-01-20T00:00:00Z",
            "u-1",
            "SAGE",
            "canceled",
            start,
        )])
        .await;
    assert_eq!(found(&forge).await.text("status"), Some("canceled"), "late events still find their user");
    assert_eq!(queries::subscription_by_stripe_id(&forge.store, "sub_unknown").await.unwrap(), None);
}

async fn jobs_by_status_lists_jobs_in_a_status_by_created_at<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    let job = |id: &str| json!({"job_id": id, "user_id": "u-1", "image_id": "i-1"});
    forge
        .deliver(&[
            event("e-1", 30, "job.queued", job("j-a")),
            event("e-2", 10, "job.queued", job("j-b")),
            event("e-3", 9, "job.queued", job("j-c")),
            event("e-4", 40, "job.queued", job("j-d")),
        ])
        .await;
    let listed = async |forge: &Forge<E>, status: JobStatus| {
        texts(&queries::jobs_by_status(&forge.store, status, PageRequest::default()).await.unwrap(), "job_id")
    };
    assert_eq!(listed(&forge, JobStatus::Queued).await, ["j-c", "j-b", "j-a", "j-d"], "as numbers");
    let then = [
        ("e-5", "started", "j-a"),
        ("e-6", "succeeded", "j-b"),
        ("e-7", "failed", "j-c"),
        ("e-8", "cancelled", "j-d"),
    ];
    let then: Vec<Sent> =
        then.iter().map(|(id, what, name)| event(id, 50, &format!("job.{what}"), job(name))).collect();
    forge.deliver(&then).await;
    for (status, job) in JobStatus::ALL.into_iter().skip(1).zip(["j-a", "j-b", "j-c", "j-d"]) {
        assert_eq!(listed(&forge, status).await, [job], "{status:?}");
    }
    assert_eq!(listed(&forge, JobStatus::Queued).await, [""; 0]);
    forge.deliver(&[event("e-9", 60, "job.deleted", job("j-b"))]).await;
    assert_eq!(listed(&forge, JobStatus::Succeeded).await, [""; 0], "what is deleted is not listed");
}

async fn images_by_user_lists_a_users_images_by_created_at<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    forge
        .deliver(&[
            image("e-1", 9, "i-a", Some("u-1"), &[]),
            image("e-2", 100, "i-b", Some("u-1"), &[]),
            image("e-3", 30, "i-c", Some("u-1"), &[]),
            image("e-4", 5, "i-d", Some("u-2"), &[]),
            image("e-5", 5, "i-e", None, &[]),
        ])
        .await;
    let listed = async |forge: &Forge<E>, user: &str| {
        texts(&queries::images_by_user(&forge.store, user, PageRequest::default()).await.unwrap(), "image_id")
    };
    assert_eq!(listed(&forge, "u-1").await, ["i-b", "i-c", "i-a"], "the newest first");
    assert_eq!(listed(&forge, "u-2").await, ["i-d"]);
    forge
        .deliver(&[
            event("e-6", 200, "image.deleted", json!({"image_id": "i-c"})),
            event("e-7", 200, "image.purged", json!({"image_id": "i-a"})),
        ])
        .await;
    assert_eq!(listed(&forge, "u-1").await, ["i-b"]);
    forge.deliver(&[event("e-8", 201, "image.restored", json!({"image_id": "i-c"}))]).await;
    assert_eq!(listed(&forge, "u-1").await, ["i-b", "i-c"]);
}

async fn reports_by_status_lists_reports_in_a_status_by_created_at<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    let report = |image: &str, id: &str| json!({"image_id": image, "report_id": id, "reason": "spam"});
    forge
        .deliver(&[
            event("e-1", 20, "report.filed", report("i-1", "r-1")),
            event("e-2", 8, "report.filed", report("i-2", "r-2")),
            event("e-3", 9, "report.filed", report("i-1", "r-3")),
            event("e-4", 30, "report.dismissed", report("i-1", "r-3")),
        ])
        .await;
    let listed = async |forge: &Forge<E>, status: ReportStatus| {
        texts(
            &queries::reports_by_status(&forge.store, status, PageRequest::default()).await.unwrap(),
            "report_id",
        )
    };
    assert_eq!(listed(&forge, ReportStatus::Filed).await, ["r-2", "r-1"]);
    assert_eq!(listed(&forge, ReportStatus::Dismissed).await, ["r-3"]);
    forge.deliver(&[event("e-5", 40, "report.deleted", report("i-2", "r-2"))]).await;
    assert_eq!(listed(&forge, ReportStatus::Filed).await, ["r-1"]);
}

async fn plans_by_active_lists_plans_that_can_be_bought<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    let plan = |id: &str, active: bool| json!({"plan_id": id, "name": id, "active": active});
    forge
        .deliver(&[
            event("e-1", 3, "plan.saved", plan("SAGE", true)),
            event("e-2", 2, "plan.saved", plan("INITIATE", true)),
            event("e-3", 1, "plan.saved", plan("OLD", false)),
        ])
        .await;
    let listed = async |forge: &Forge<E>, active: bool| {
        texts(
            &queries::plans_by_active(&forge.store, active, PageRequest::default()).await.unwrap(),
            "plan_id",
        )
    };
    assert_eq!(
        (listed(&forge, true).await, listed(&forge, false).await),
        (vec!["INITIATE".into(), "SAGE".into()], vec!["OLD".to_owned()])
    );
    forge
        .deliver(&[
            event("e-4", 4, "plan.saved", plan("INITIATE", false)),
            event("e-5", 5, "plan.deleted", plan("SAGE", true)),
        ])
        .await;
    assert_eq!(listed(&forge, true).await, [""; 0], "a deleted plan is not active");
    assert_eq!(listed(&forge, false).await, ["OLD", "INITIATE"]);
}

async fn an_index_is_read_in_pages<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    let images: Vec<Sent> =
        (0..25).map(|n| image(&format!("e-{n}"), n, &format!("i-{n:02}"), Some("u-1"), &["t"])).collect();
    forge.deliver(&images).await;
    let (mut asked, mut listed) = (PageRequest { limit: Some(10), start: None }, Vec::new());
    loop {
        let page = queries::images_by_user(&forge.store, "u-1", asked.clone()).await.unwrap();
        assert!(page.items.len() <= 10);
        listed.extend(texts(&page, "image_id"));
        match page.next {
            Some(next) => asked.start = Some(next),
            None => break,
        }
    }
    assert_eq!(listed, (0..25).rev().map(|n| format!("i-{n:02}")).collect::<Vec<_>>());
}
