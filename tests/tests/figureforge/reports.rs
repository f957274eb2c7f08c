//! Reports decide whether their image is visible, through the change stream.

use super::*;
use dues_processors::figureforge::{Settings, queries};
use dues_tests::engines::faulty::{Faulty, Plug};

dues_tests::on_engines! {
    reports_become_the_flag_status_of_their_image,
    as_many_open_reports_as_configured_block_an_image,
    reports_delivered_late_twice_and_through_crashes_end_the_same,
}

fn report(id: &str, second: u32, what: &str, report: &str) -> Sent {
    event(
        id,
        second,
        &format!("report.{what}"),
        json!({"image_id": "i-1", "report_id": report, "reason": "spam"}),
    )
}

async fn flag_status<E: Engine>(engine: &E) -> String {
    queries::image(&store(engine.clone()), "i-1")
        .await
        .unwrap()
        .unwrap()
        .text("flag_status")
        .unwrap()
        .to_owned()
}

async fn reports_become_the_flag_status_of_their_image<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    forge.deliver(&[report("e-0", 1, "filed", "r-0"), image("e-1", 1, "i-1", None, &["a"])]).await;
    assert_eq!(
        flag_status(&forge.engine).await,
        "human_pending",
        "also one that was filed before the image was known"
    );
    for (sent, status, found) in [
        (report("e-2", 2, "dismissed", "r-0"), "clean", 1),
        (report("e-3", 3, "filed", "r-1"), "human_pending", 1),
        (report("e-4", 4, "reviewed", "r-1"), "human_pending", 1),
        (report("e-5", 5, "deleted", "r-1"), "clean", 1),
        (report("e-6", 6, "restored", "r-1"), "human_pending", 1),
        (report("e-7", 7, "upheld", "r-1"), "removed", 0),
        (report("e-8", 8, "dismissed", "r-1"), "removed", 0),
        (event("e-9", 9, "image.flagged", json!({"image_id": "i-1", "flag_status": "clean"})), "clean", 1),
    ] {
        forge.deliver(std::slice::from_ref(&sent)).await;
        assert_eq!(flag_status(&forge.engine).await, status, "{sent:?}");
        assert_eq!(tag_rows(&forge.engine).await.len(), found, "{sent:?}");
    }
}

async fn as_many_open_reports_as_configured_block_an_image<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    let settings = Settings { auto_block_reports: 2, ..Settings::default() };
    let read_models = dues_processors::read_models::ReadModels::default().with_figureforge(settings);
    let strict = Projector { read_models, ..projector(&forge.engine) };
    forge.deliver(&[image("e-1", 1, "i-1", None, &["a"])]).await;
    for (sent, status) in [
        (report("e-2", 2, "filed", "r-1"), "human_pending"),
        (report("e-3", 3, "filed", "r-2"), "auto_blocked"),
        (report("e-4", 4, "dismissed", "r-1"), "human_pending"),
    ] {
        deliver(&forge.context, &[sent], 1).await;
        let changes = forge.engine.changes(forge.seen).await;
        forge.seen += changes.len();
        strict.project(&changes).await;
        assert_eq!(flag_status(&forge.engine).await, status);
        forge.follow().await;
    }
}

async fn reports_delivered_late_twice_and_through_crashes_end_the_same<E: Engine>(engine: E) {
    let mut forge = Forge::new(engine);
    forge.deliver(&[image("e-1", 1, "i-1", None, &["a"])]).await;
    let place = forge.seen;
    let kinds = ["filed", "reviewed", "dismissed", "deleted", "restored"];
    for n in 0..6 {
        for (second, what) in (10..).zip(kinds) {
            deliver(&forge.context, &[report(&format!("{what} {n}"), second, what, &format!("r-{n}"))], 1)
                .await;
        }
    }
    let mut changes = forge.engine.changes(place).await;
    assert_eq!(changes.len(), 30);
    fastrand::Rng::with_seed(7).shuffle(&mut changes);
    for change in changes.iter().chain(&changes) {
        // The write happens, and its answer is lost.
        project(&Faulty::on(forge.engine.clone(), Plug::after(1)), change).await;
        let outcome = project(&forge.engine, change).await;
        assert!(matches!(outcome, Outcome::Applied | Outcome::Duplicate), "{outcome:?}");
    }
    forge.follow().await;
    assert_eq!(flag_status(&forge.engine).await, "clean", "all were dismissed");
    forge.deliver(&[report("late", 11, "upheld", "r-3")]).await;
    assert_eq!(flag_status(&forge.engine).await, "removed");
}
