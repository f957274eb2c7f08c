//! TagIndex: `TAG#<tag_value>`, `IMG#<image_id>`, one row for each tag of an image that can be found.
//!
//! They are not written with the image: they follow from its row, whoever wrote that. An image is found by its tags when it is public, not deleted, and
//! neither blocked nor removed. One that waits for a human is found: a report alone must not hide it.

use dues_events::{Item, Value};
use std::collections::{BTreeMap, BTreeSet};

use super::moderation::FlagStatus;

/// The attributes of an image's row that its tags' rows depend on.
pub const DECISIVE: [&str; 5] = ["tags", "public", "flag_status", "deleted_at", "created_at"];

/// The image whose row that is.
#[must_use]
pub fn image_of(row: &Item) -> Option<&str> {
    let image = row.text("pk")?.strip_prefix("IMG#")?;
    (row.text("sk") == Some("META")).then_some(image)
}

/// The tags that an image's row names.
#[must_use]
pub fn tags_of(row: &Item) -> BTreeSet<String> {
    match row.get("tags") {
        Some(Value::L(tags)) => tags.iter().filter_map(Value::as_text).filter(|tag| !tag.is_empty()).map(str::to_owned).collect(),
        // Another writer's set is as good as a list.
        Some(Value::Ss(tags)) => tags.iter().filter(|tag| !tag.is_empty()).cloned().collect(),
        Some(Value::S(_) | Value::N(_) | Value::B(_) | Value::Bool(_) | Value::Null | Value::M(_) | Value::Ns(_) | Value::Bs(_)) | None => {
            BTreeSet::new()
        }
    }
}

/// The partition of a tag.
#[must_use]
pub fn partition(tag: &str) -> String {
    format!("TAG#{tag}")
}

/// The rows that an image's row implies, by tag; their content comes from nowhere else.
#[must_use]
pub fn rows(image: &Item) -> BTreeMap<String, Item> {
    let (Some(id), true) = (image_of(image), can_be_found(image)) else { return BTreeMap::new() };
    let row = |tag: String| {
        let mut row = Item::new();
        row.set_text("pk", partition(&tag));
        row.set_text("sk", format!("IMG#{id}"));
        row.set("created_at", image.get("created_at").cloned().unwrap_or(Value::Null));
        row.set("deleted_at", Value::Null);
        (tag, row)
    };
    tags_of(image).into_iter().map(row).collect()
}

/// Whether whoever knows an image may see it: it is neither deleted, nor blocked, nor removed.
#[must_use]
pub fn can_be_seen(image: &Item) -> bool {
    let hidden = [FlagStatus::AutoBlocked, FlagStatus::Removed].map(|status| Some(status.as_str()));
    let deleted = image.get("deleted_at").is_some_and(|deleted| *deleted != Value::Null);
    !deleted && !hidden.contains(&image.text("flag_status"))
}

fn can_be_found(image: &Item) -> bool {
    image.get("public") == Some(&Value::Bool(true)) && can_be_seen(image)
}
