//! Seeded random histories of several images, while several projectors deliver their changes: late, in any
//! order, more than once, and dying after any write. In the end there are exactly the tag rows that the
//! images imply.

use super::*;
use dues_events::Value as Attribute;
use dues_store::{Condition, Key};
use dues_tests::engines::faulty::Faulty;
use fastrand::Rng;
use futures::future::join_all;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

dues_tests::on_engines! {
    random_histories_of_images_end_with_exactly_the_tags_that_they_imply,
    a_slow_projector_does_not_undo_a_faster_one,
}

const IMAGES: [&str; 3] = ["i-0", "i-1", "i-2"];
const TAGS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const STEPS: usize = 40;
const SEEDS: u64 = 6;

/// Changes an image as any service might: new tags, a soft delete, an undelete, a hard delete, hidden, or
/// visible again.
async fn step<E: Engine>(engine: &Logged<E>, random: &mut Rng) {
    let key = Key {
        partition: format!("IMG#{}", IMAGES[random.usize(..IMAGES.len())]),
        sort: Some("META".to_owned()),
    };
    let there = engine.get(&FIGUREFORGE, key.clone()).await.unwrap();
    if there.is_some() && random.u8(..8) == 0 {
        engine.delete(&FIGUREFORGE, key, Condition::Always).await.unwrap();
        return;
    }
    let mut image = there.unwrap_or_else(|| {
        let mut image = Item::new();
        image.set_text("pk", key.partition.clone());
        image.set_text("sk", "META");
        image.set("created_at", Attribute::number(random.u64(1..1000)));
        image
    });
    match random.u8(..8) {
        0 => image.set("deleted_at", Attribute::number(9)),
        1 => image.set("deleted_at", Attribute::Null),
        2 => image.set("public", Attribute::Bool(random.bool())),
        3 => image.set_text(
            "flag_status",
            ["clean", "human_pending", "auto_blocked", "removed"][random.usize(..4)],
        ),
        _ => {
            image.set("public", Attribute::Bool(true));
            image.set(
                "tags",
                Attribute::L(TAGS.into_iter().filter(|_| random.bool()).map(Attribute::text).collect()),
            );
        }
    }
    engine.put(&FIGUREFORGE, image, Condition::Always).await.unwrap();
}

/// The changes that have been processed, by any projector.
type Through = Arc<Mutex<BTreeSet<usize>>>;

/// Delivers changes until the writer is done and each of them has been processed by some projector: in
/// random order, with repeats.
async fn deliver_all<E: Engine>(engine: Logged<E>, mut random: Rng, through: Through, done: Arc<AtomicBool>) {
    for _ in 0..5000 {
        let over = done.load(Ordering::SeqCst);
        let changes = engine.changes(0).await;
        let images: Vec<usize> =
            (0..changes.len()).filter(|n| changes[*n].partition().starts_with("IMG#")).collect();
        let waiting: Vec<usize> =
            images.iter().copied().filter(|n| !through.lock().unwrap().contains(n)).collect();
        if waiting.is_empty() && over {
            return;
        }
        let from = if random.u8(..4) == 0 { &images } else { &waiting };
        let Some(n) = (!from.is_empty()).then(|| from[random.usize(..from.len())]) else {
            tokio::time::sleep(Duration::from_micros(200)).await;
            continue;
        };
        let outcome = if random.u8(..3) == 0 {
            project(&Faulty::after(engine.clone(), random.u64(1..4)), &changes[n]).await
        } else {
            project(&engine, &changes[n]).await
        };
        match outcome {
            // A change that leaves the tags as they are has no effect.
            Outcome::Applied | Outcome::Duplicate | Outcome::Skipped => {
                through.lock().unwrap().insert(n);
            }
            Outcome::Failed(_) => {}
            Outcome::Ignored | Outcome::Parked => panic!("{outcome:?}: {:?}", changes[n]),
        }
    }
    panic!("it comes to no end");
}

async fn random_histories_of_images_end_with_exactly_the_tags_that_they_imply<E: Engine>(engine: E) {
    let engine = Logged::new(engine);
    for seed in 0..SEEDS {
        let (through, done) = (Through::default(), Arc::new(AtomicBool::new(false)));
        let before = engine.changes(0).await.len();
        through.lock().unwrap().extend(0..before);
        let deliver =
            |n| deliver_all(engine.dawdling(), Rng::with_seed(seed * 10 + n), through.clone(), done.clone());
        let projectors: Vec<_> = (0..4).map(|n| tokio::spawn(deliver(n))).collect();
        let mut random = Rng::with_seed(seed);
        for _ in 0..STEPS {
            step(&engine, &mut random).await;
            tokio::time::sleep(Duration::from_micros(random.u64(..1500))).await;
        }
        done.store(true, Ordering::SeqCst);
        join_all(projectors).await.into_iter().for_each(Result::unwrap);
        assert_eq!(tag_rows(&engine).await, implied(&engine).await, "seed {seed}");
    }
}

/// An image with these tags; without any it is deleted permanently.
async fn write<E: Engine>(engine: &Logged<E>, tags: &[&str]) -> Change {
    if tags.is_empty() {
        let key = Key { partition: "IMG#i-0".to_owned(), sort: Some("META".to_owned()) };
        engine.delete(&FIGUREFORGE, key, Condition::Always).await.unwrap();
    } else {
        let mut image = Item::new();
        image.set_text("pk", "IMG#i-0");
        image.set_text("sk", "META");
        image.set("created_at", Attribute::number(1));
        image.set("public", Attribute::Bool(true));
        image.set("tags", Attribute::L(tags.iter().map(|tag| Attribute::text(*tag)).collect()));
        engine.put(&FIGUREFORGE, image, Condition::Always).await.unwrap();
    }
    engine.changes(0).await.pop().unwrap()
}

/// A projector has read the image and is about to write; the image changes, and another projector applies
/// that change; then the first one proceeds.
async fn a_slow_projector_does_not_undo_a_faster_one<E: Engine>(engine: E) {
    let engine = Logged::new(engine);
    let cases: [(&[&str], &[&str]); 4] =
        [(&["a", "b"], &["b", "c"]), (&["a"], &[]), (&["a", "b"], &["c"]), (&["b"], &["a", "b", "d"])];
    for (slow, fast) in cases {
        let first = write(&engine, slow).await;
        let (gated, gate) = engine.gated();
        let running = tokio::spawn(async move { project(&gated, &first).await });
        gate.reached().await;
        let second = write(&engine, fast).await;
        let quick = project(&engine, &second).await;
        assert!(matches!(quick, Outcome::Applied | Outcome::Duplicate), "{quick:?}");
        gate.open();
        let late = running.await.unwrap();
        assert!(matches!(late, Outcome::Applied | Outcome::Duplicate), "{late:?}");
        assert_eq!(tag_rows(&engine).await, implied(&engine).await, "{slow:?}, then {fast:?}");
        // The next case starts empty.
        if !fast.is_empty() {
            let gone = write(&engine, &[]).await;
            project(&engine, &gone).await;
        }
        assert!(tag_rows(&engine).await.is_empty());
    }
}
