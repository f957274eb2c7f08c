//! The read model `figureforge`: its settings, what it is asked, what it is told by commands, and how it is made again.

pub mod commands;
pub mod queries;

mod settings;

use dues_events::UserId;
use dues_store::{Engine, Store, StoreError};
use serde_json::{Value as Json, json};

pub use settings::Settings;

use queries::{Asked, shown};

/// How many images and jobs of a user are shown.
const SHOWN: u32 = 20;

/// What it knows of a user: for programs, and as lines for people.
///
/// # Errors
/// What the store could not do.
pub async fn show<E: Engine>(store: &Store<E>, user: &UserId) -> Result<(Json, Vec<String>), StoreError> {
    let asked = Asked { limit: Some(SHOWN), ..Asked::default() };
    let profile = queries::user(store, user.as_str()).await?;
    let subscriptions = queries::subscriptions_of(store, user.as_str(), asked.clone()).await?.items;
    let jobs = queries::jobs_of(store, user.as_str(), asked.clone()).await?.items;
    let images = queries::images_by_user(store, user.as_str(), asked).await?.items;
    let mut lines = Vec::new();
    let text = |item: &dues_events::Item, name: &str| item.text(name).unwrap_or("none").to_owned();
    if let Some(profile) = &profile {
        lines.push(format!("user {}", text(profile, "email")));
    }
    lines.extend(
        subscriptions
            .iter()
            .map(|sub| format!("subscription {} {}, plan {}", text(sub, "stripe_sub_id"), text(sub, "status"), text(sub, "plan_id"))),
    );
    lines.extend(jobs.iter().map(|job| format!("job {} {}", text(job, "job_id"), text(job, "status"))));
    lines.extend(images.iter().map(|image| format!("image {} {}", text(image, "image_id"), text(image, "flag_status"))));
    let list = |items: &[dues_events::Item]| -> Vec<Json> { items.iter().map(shown).collect() };
    let json = json!({
        "user": profile.as_ref().map(shown), "subscriptions": list(&subscriptions), "jobs": list(&jobs), "images": list(&images),
    });
    Ok((json, lines))
}
