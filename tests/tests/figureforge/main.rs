//! The read model `figureforge`, on every engine.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod api;
mod entities;
mod indexes;
mod rebuild;
mod reports;
mod tag_races;
mod tags;

use dues_events::Item;
use dues_processors::entitlements::groups::{LocalDirectory, RateLimiter};
use dues_processors::projector::Projector;
use dues_processors::runtime::changes::Change;
use dues_processors::{Context, Outcome};
use dues_store::table::figureforge::FIGUREFORGE;
use dues_store::{Engine, Page, Store};
use dues_tests::engines::change_capture::Logged;
use dues_tests::fixtures::company::{Sent, all, clock, context, deliver, store};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A deployment: ingests events of applications and Stripe, and projects the changes.
struct Forge<E> {
    engine: Logged<E>,
    store: Store<Logged<E>>,
    context: Context<Logged<E>>,
    /// How many changes the projector has processed.
    seen: usize,
}

impl<E: Engine> Forge<E> {
    fn new(engine: E) -> Self {
        let engine = Logged::new(engine);
        Self { store: store(engine.clone()), context: context(engine.clone()), engine, seen: 0 }
    }

    /// Ingests records, then projects what follows from them.
    async fn deliver(&mut self, records: &[Sent]) {
        for outcome in deliver(&self.context, records, 25).await {
            assert!(matches!(outcome, Outcome::Applied | Outcome::Duplicate), "{outcome:?}");
        }
        self.follow().await;
    }

    /// Projects every change, until no new ones follow.
    async fn follow(&mut self) {
        let projector = projector(&self.engine);
        loop {
            let changes = self.engine.changes(self.seen).await;
            if changes.is_empty() {
                return;
            }
            self.seen += changes.len();
            for outcome in projector.project(&changes).await.outcomes {
                assert!(!matches!(outcome, Outcome::Failed(_) | Outcome::Parked), "{outcome:?}");
            }
        }
    }
}

fn projector<E: Engine>(engine: &E) -> Projector<E, LocalDirectory<E>> {
    Projector { limiter: RateLimiter::unlimited(clock()), ..Projector::new(store(engine.clone()), None) }
}

async fn project<E: Engine>(engine: &E, change: &Change) -> Outcome {
    projector(engine).project(std::slice::from_ref(change)).await.outcomes.remove(0)
}

/// An application's event, at this second of the test day.
fn event(id: &str, second: u32, kind: &str, mut fields: Value) -> Sent {
    fields["event_id"] = id.into();
    fields["type"] = format!("figureforge.{kind}").into();
    fields["occurred_at"] =
        format!("2026-02-01T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60).into();
    ("app-events", fields)
}

/// Midnight of that day.
const MIDNIGHT: i64 = 1_769_904_000;

fn image(id: &str, second: u32, image: &str, user: Option<&str>, tags: &[&str]) -> Sent {
    let fields = json!({"image_id": image, "user_id": user, "url": format!("https://cdn/{image}.jpg"),
        "tags": tags, "public": true});
    event(id, second, "image.saved", fields)
}

/// One attribute of every item on a page.
fn texts(page: &Page, name: &str) -> Vec<String> {
    page.items.iter().map(|item| item.text(name).unwrap_or("none").to_owned()).collect()
}

/// The existing tag rows: tag and image.
async fn tag_rows<E: Engine>(engine: &E) -> BTreeSet<(String, String)> {
    let rows = all(engine, &FIGUREFORGE).await;
    let pair = |row: &Item| {
        Some((
            row.text("pk")?.strip_prefix("TAG#")?.to_owned(),
            row.text("sk")?.strip_prefix("IMG#")?.to_owned(),
        ))
    };
    rows.iter().filter_map(pair).collect()
}

/// The tag rows that the images imply, computed from figureforge's rules without the projector's code.
async fn implied<E: Engine>(engine: &E) -> BTreeSet<(String, String)> {
    let mut implied = BTreeSet::new();
    for row in all(engine, &FIGUREFORGE)
        .await
        .iter()
        .map(Item::to_json)
        .filter(|row| row["sk"] == "META" && row["tags"].is_array())
    {
        let hidden = row["flag_status"] == "removed" || row["flag_status"] == "auto_blocked";
        if row["public"] == true && row["deleted_at"].is_null() && !hidden {
            let id = row["pk"].as_str().unwrap().trim_start_matches("IMG#");
            implied.extend(
                row["tags"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|tag| (tag.as_str().unwrap().to_owned(), id.to_owned())),
            );
        }
    }
    implied
}

/// Every row of the table, by key.
async fn dump<E: Engine>(engine: &E) -> BTreeMap<String, Item> {
    let rows = all(engine, &FIGUREFORGE).await.into_iter();
    rows.map(|row| (format!("{} {}", row.text("pk").unwrap(), row.text("sk").unwrap()), row)).collect()
}
