//! The read model `figureforge` (seed 003), on every engine.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "figureforge/api.rs"]
mod api;
#[path = "figureforge/entities.rs"]
mod entities;
#[path = "figureforge/indexes.rs"]
mod indexes;
#[path = "figureforge/rebuild.rs"]
mod rebuild;
#[path = "figureforge/reports.rs"]
mod reports;
#[path = "figureforge/tag_races.rs"]
mod tag_races;
#[path = "figureforge/tags.rs"]
mod tags;

use dues_events::Item;
use dues_processors::changes::Change;
use dues_processors::groups::{Limiter, LocalDirectory};
use dues_processors::projector::Projector;
use dues_processors::{Context, Fate};
use dues_store::table::figureforge::FIGUREFORGE;
use dues_store::{Engine, Page, Store};
use dues_tests::logged::Logged;
use dues_tests::world::{Sent, all, clock, context, deliver, store};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A deployment: what applications and Stripe tell comes in, and the projector follows the changes.
struct Forge<E> {
    engine: Logged<E>,
    store: Store<Logged<E>>,
    context: Context<Logged<E>>,
    /// How many changes the projector has seen.
    seen: usize,
}

impl<E: Engine> Forge<E> {
    fn new(engine: E) -> Self {
        let engine = Logged::new(engine);
        Self { store: store(engine.clone()), context: context(engine.clone()), engine, seen: 0 }
    }

    /// Tells something, and does what follows from it.
    async fn tell(&mut self, records: &[Sent]) {
        for fate in deliver(&self.context, records, 25).await {
            assert!(matches!(fate, Fate::Applied | Fate::Duplicate), "{fate:?}");
        }
        self.follow().await;
    }

    /// Does what follows from every change, until nothing follows any more.
    async fn follow(&mut self) {
        let projector = projector(&self.engine);
        loop {
            let changes = self.engine.changes(self.seen).await;
            if changes.is_empty() {
                return;
            }
            self.seen += changes.len();
            for fate in projector.project(&changes).await.fates {
                assert!(!matches!(fate, Fate::Failed(_) | Fate::Parked), "{fate:?}");
            }
        }
    }
}

fn projector<E: Engine>(engine: &E) -> Projector<E, LocalDirectory<E>> {
    Projector { limiter: Limiter::unlimited(clock()), ..Projector::new(store(engine.clone()), None) }
}

async fn told<E: Engine>(engine: &E, change: &Change) -> Fate {
    projector(engine).project(std::slice::from_ref(change)).await.fates.remove(0)
}

/// An application's event, on the second of a day that its number says.
fn event(id: &str, second: u32, kind: &str, mut fields: Value) -> Sent {
    fields["event_id"] = id.into();
    fields["type"] = format!("figureforge.{kind}").into();
    fields["occurred_at"] = format!("2026-02-01T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60).into();
    ("app-events", fields)
}

/// Midnight of that day.
const MIDNIGHT: i64 = 1_769_904_000;

fn image(id: &str, second: u32, image: &str, user: Option<&str>, tags: &[&str]) -> Sent {
    let fields = json!({"image_id": image, "user_id": user, "url": format!("https://cdn/{image}.jpg"), "tags": tags, "public": true});
    event(id, second, "image.saved", fields)
}

/// What a page's items say under a name.
fn texts(page: &Page, name: &str) -> Vec<String> {
    page.items.iter().map(|item| item.text(name).unwrap_or("none").to_owned()).collect()
}

/// The tag rows that there are: tag and image.
async fn tag_rows<E: Engine>(engine: &E) -> BTreeSet<(String, String)> {
    let rows = all(engine, &FIGUREFORGE).await;
    let pair = |row: &Item| Some((row.text("pk")?.strip_prefix("TAG#")?.to_owned(), row.text("sk")?.strip_prefix("IMG#")?.to_owned()));
    rows.iter().filter_map(pair).collect()
}

/// The tag rows that the images imply, found out by somebody who knows only the seed and the rule in words.
async fn implied<E: Engine>(engine: &E) -> BTreeSet<(String, String)> {
    let mut implied = BTreeSet::new();
    for row in all(engine, &FIGUREFORGE).await.iter().map(Item::to_json).filter(|row| row["sk"] == "META" && row["tags"].is_array()) {
        let hidden = row["flag_status"] == "removed" || row["flag_status"] == "auto_blocked";
        if row["public"] == true && row["deleted_at"].is_null() && !hidden {
            let id = row["pk"].as_str().unwrap().trim_start_matches("IMG#");
            implied.extend(row["tags"].as_array().unwrap().iter().map(|tag| (tag.as_str().unwrap().to_owned(), id.to_owned())));
        }
    }
    implied
}

/// Every row of the table, by key.
async fn dump<E: Engine>(engine: &E) -> BTreeMap<String, Item> {
    let rows = all(engine, &FIGUREFORGE).await.into_iter();
    rows.map(|row| (format!("{} {}", row.text("pk").unwrap(), row.text("sk").unwrap()), row)).collect()
}
