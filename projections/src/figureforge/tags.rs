//! TagIndex: `TAG#<tag_value>`, `IMG#<image_id>`, one row for each tag of an image that can be found.
//!
//! The rows are not written with the image: they follow from its row, independent of the writer. An image is
//! found by its tags if it is public, not deleted, and neither blocked nor removed. One pending human review
//! is found: a report alone must not hide it.

use dues_events::{Item, Value};
use std::collections::{BTreeMap, BTreeSet};

use super::moderation::FlagStatus;

/// The attributes of an image's row that determine the rows of its tags.
pub const INDEXED_ATTRIBUTES: [&str; 5] = ["tags", "public", "flag_status", "deleted_at", "created_at"];

/// The image id, if this is the row of an image.
#[must_use]
pub fn image_of(row: &Item) -> Option<&str> {
    let image = row.text("pk")?.strip_prefix("IMG#")?;
    (row.text("sk") == Some("META")).then_some(image)
}

/// The tags in an image's row.
#[must_use]
pub fn tags_of(row: &Item) -> BTreeSet<String> {
    match row.get("tags") {
        Some(Value::L(tags)) => {
            tags.iter().filter_map(Value::as_text).filter(|tag| !tag.is_empty()).map(str::to_owned).collect()
        }
        // Other writers may store a string set instead of a list.
        Some(Value::Ss(tags)) => tags.iter().filter(|tag| !tag.is_empty()).cloned().collect(),
        Some(
            Value::S(_)
            | Value::N(_)
            | Value::B(_)
            | Value::Bool(_)
            | Value::Null
            | Value::M(_)
            | Value::Ns(_)
            | Value::Bs(_),
        )
        | None => BTreeSet::new(),
    }
}

/// The partition of a tag.
#[must_use]
pub fn partition(tag: &str) -> String {
    format!("TAG#{tag}")
}

/// The tag rows of an image, by tag; derived from its row alone.
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

/// Whether an image may be shown: it is not deleted, blocked or removed.
#[must_use]
pub fn can_be_seen(image: &Item) -> bool {
    let hidden = [FlagStatus::AutoBlocked, FlagStatus::Removed].map(|status| Some(status.as_str()));
    let deleted = image.get("deleted_at").is_some_and(|deleted| *deleted != Value::Null);
    !deleted && !hidden.contains(&image.text("flag_status"))
}

fn can_be_found(image: &Item) -> bool {
    image.get("public") == Some(&Value::Bool(true)) && can_be_seen(image)
}
