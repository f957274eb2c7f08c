//! Image: `IMG#<image_id>`, `META`; in `imagesByUser` unless deleted. The tags' own rows follow from this one: see [`super::tags`].

use dues_events::{Item, Value};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::kept::Kept;
use super::moderation::{FlagStatus, Moderation, Reported};
use super::row::Row;
use super::words::{Name, Second, Tags};
use crate::model::{Latest, Told};

/// What is told of an image as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Image {
    /// Whose it is; nobody's when a visitor made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<Name>,
    /// Where it is seen.
    pub url: String,
    /// Its tags, unless they are left as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Tags>,
    /// What it was made from.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub prompt_json: Json,
    /// Who made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// With what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_model_id: Option<String>,
    /// What it has cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_cents: Option<u32>,
    /// How many like it, unless that is left as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub favorited_count: Option<u32>,
    /// Whether others may find it.
    #[serde(default)]
    pub public: bool,
    /// The galleries that have it.
    #[serde(default)]
    pub private_gallery_ids: Vec<Name>,
    /// What the generator's own filter says, if it says something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flag_status: Option<FlagStatus>,
    /// When it was made, if it was not just now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Second>,
}

/// What is told of an image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageFact {
    /// This is what it is like.
    Saved(Box<Image>),
    /// These are its tags, and no others.
    Tagged(Tags),
    /// So many like it.
    Favorited(u32),
    /// The staff says whether it may be seen.
    Flagged(FlagStatus),
    /// How one of its reports stands.
    Reported(Reported),
    /// It is deleted softly, or not any more.
    Gone(bool),
    /// It is deleted for good: the row goes, and never comes back.
    Purged,
}

/// What an image's facts come to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ImageState {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    purged: bool,
    image: Kept<Image>,
    tags: Option<Latest<Tags>>,
    favorited: Option<Latest<u32>>,
    #[serde(default)]
    moderation: Moderation,
}

impl ImageState {
    pub(super) fn merge<F>(&mut self, told: &Told<F>, fact: &ImageFact) {
        if self.purged {
            return;
        }
        match fact {
            ImageFact::Saved(image) => {
                let mut image = Image::clone(image);
                if let Some(tags) = image.tags.take() {
                    Latest::put(&mut self.tags, told, tags);
                }
                if let Some(count) = image.favorited_count.take() {
                    Latest::put(&mut self.favorited, told, count);
                }
                if let Some(status) = image.flag_status.take() {
                    self.moderation.say(told, status);
                }
                self.image.save(told, image.created_at, image);
            }
            ImageFact::Tagged(tags) => Latest::put(&mut self.tags, told, tags.clone()),
            ImageFact::Favorited(count) => Latest::put(&mut self.favorited, told, *count),
            ImageFact::Flagged(status) => self.moderation.decide(told, *status),
            ImageFact::Reported(reported) => self.moderation.report(told, reported),
            ImageFact::Gone(gone) => self.image.set_gone(told, *gone),
            // Nothing else is remembered, so that nothing that comes late can bring a part of it back.
            ImageFact::Purged => *self = Self { purged: true, ..Self::default() },
        }
    }

    pub(super) fn row(&self, id: &str) -> Option<Item> {
        let (image, created_at) = self.image.value()?;
        let deleted_at = self.image.deleted_at();
        let user = image.user_id.as_ref().map(Name::as_str);
        let tags = self.tags.as_ref().map(|tags| tags.value.0.as_slice()).unwrap_or_default();
        let row = Row::new(format!("IMG#{id}"), "META".to_owned(), created_at, deleted_at)
            .text("image_id", id)
            .maybe("user_id", user)
            .text("url", &image.url)
            .texts("tags", tags.iter().map(Name::as_str))
            .json("prompt_json", &image.prompt_json)
            .maybe("provider", image.provider.as_deref())
            .maybe("provider_model_id", image.provider_model_id.as_deref())
            .number("cost_cents", image.cost_cents.map(i64::from))
            .set("favorited_count", Value::number(self.favorited.as_ref().map_or(0, |count| count.value).into()))
            .flag("public", image.public)
            .texts("private_gallery_ids", image.private_gallery_ids.iter().map(Name::as_str))
            .text("flag_status", self.moderation.status().as_str())
            .indexed(user.is_some() && deleted_at.is_none(), "image_user_pk", format!("USER#{}", user.unwrap_or_default()));
        Some(row.item())
    }
}
