//! The read model `figureforge`: settings, queries, commands, and the effects of image and report changes.

pub mod commands;
pub mod queries;

pub(crate) mod report_changes;
mod settings;
pub(crate) mod tag_changes;

use dues_events::UserId;
use dues_store::{Engine, Store, StoreError};
use serde_json::{Value as Json, json};

pub use settings::Settings;

use queries::{PageRequest, public_json};

/// How many rows of each kind are shown for a user.
const SHOWN: u32 = 20;

/// A user's rows: as JSON, and as lines of text.
pub async fn show<E: Engine>(store: &Store<E>, user: &UserId) -> Result<(Json, Vec<String>), StoreError> {
    let asked = PageRequest { limit: Some(SHOWN), ..PageRequest::default() };
    let profile = queries::user(store, user.as_str()).await?;
    let subscriptions = queries::subscriptions_of(store, user.as_str(), asked.clone()).await?.items;
    let jobs = queries::jobs_of(store, user.as_str(), asked.clone()).await?.items;
    let images = queries::images_by_user(store, user.as_str(), asked).await?.items;
    let mut lines = Vec::new();
    let text = |item: &dues_events::Item, name: &str| item.text(name).unwrap_or("none").to_owned();
    if let Some(profile) = &profile {
        lines.push(format!("user {}", text(profile, "email")));
    }
    lines.extend(subscriptions.iter().map(|sub| {
        format!(
            "subscription {} {}, plan {}",
            text(sub, "stripe_sub_id"),
            text(sub, "status"),
            text(sub, "plan_id")
        )
    }));
    lines.extend(jobs.iter().map(|job| format!("job {} {}", text(job, "job_id"), text(job, "status"))));
    lines.extend(
        images
            .iter()
            .map(|image| format!("image {} {}", text(image, "image_id"), text(image, "flag_status"))),
    );
    let list = |items: &[dues_events::Item]| -> Vec<Json> { items.iter().map(public_json).collect() };
    let json = json!({
        "user": profile.as_ref().map(public_json), "subscriptions": list(&subscriptions), "jobs": list(&jobs),
        "images": list(&images),
    });
    Ok((json, lines))
}
