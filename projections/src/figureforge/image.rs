//! Image: `IMG#<image_id>`, `META`; in `imagesByUser` unless deleted. The rows of its tags follow from this
//! one: see [`super::tags`].

use dues_events::{Item, Value};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::moderation::{FlagStatus, Moderation, Reported};
use super::row::Row;
use super::soft_delete::SoftDelete;
use super::validation::{EpochSecond, Name, Tags};
use crate::model::{Latest, Recorded};

/// A saved image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Image {
    /// The owner; `None` if an anonymous user made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<Name>,
    /// The image's URL.
    pub url: String,
    /// The tags; `None` leaves them unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Tags>,
    /// The prompt.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub prompt_json: Json,
    /// The provider that generated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The provider's model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_model_id: Option<String>,
    /// Cost of the generation, in cents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_cents: Option<u32>,
    /// The number of favorites; `None` leaves it unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub favorited_count: Option<u32>,
    /// Whether others can find it.
    #[serde(default)]
    pub public: bool,
    /// The private galleries that contain it.
    #[serde(default)]
    pub private_gallery_ids: Vec<Name>,
    /// The verdict of the generator's own filter, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flag_status: Option<FlagStatus>,
    /// When it was created; defaults to the event's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<EpochSecond>,
}

/// A fact about an image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageFact {
    /// The image was saved.
    Saved(Box<Image>),
    /// The tags were replaced.
    Tagged(Tags),
    /// The number of favorites changed.
    Favorited(u32),
    /// The staff set the moderation status.
    Flagged(FlagStatus),
    /// The status of one of its reports.
    Reported(Reported),
    /// Soft-deleted (`true`) or restored.
    Gone(bool),
    /// Deleted for good: the row is removed and never returns.
    Purged,
}

/// State of an image.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ImageState {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    purged: bool,
    image: SoftDelete<Image>,
    tags: Option<Latest<Tags>>,
    favorited: Option<Latest<u32>>,
    #[serde(default)]
    moderation: Moderation,
}

impl ImageState {
    pub(super) fn merge<F>(&mut self, recorded: &Recorded<F>, fact: &ImageFact) {
        if self.purged {
            return;
        }
        match fact {
            ImageFact::Saved(image) => {
                let mut image = Image::clone(image);
                if let Some(tags) = image.tags.take() {
                    Latest::update(&mut self.tags, recorded, tags);
                }
                if let Some(count) = image.favorited_count.take() {
                    Latest::update(&mut self.favorited, recorded, count);
                }
                if let Some(status) = image.flag_status.take() {
                    self.moderation.say(recorded, status);
                }
                self.image.save(recorded, image.created_at, image);
            }
            ImageFact::Tagged(tags) => Latest::update(&mut self.tags, recorded, tags.clone()),
            ImageFact::Favorited(count) => Latest::update(&mut self.favorited, recorded, *count),
            ImageFact::Flagged(status) => self.moderation.decide(recorded, *status),
            ImageFact::Reported(reported) => self.moderation.report(recorded, reported),
            ImageFact::Gone(gone) => self.image.set_gone(recorded, *gone),
            // Drop all other state: late facts must not bring any part of the image back.
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
            .set(
                "favorited_count",
                Value::number(self.favorited.as_ref().map_or(0, |count| count.value).into()),
            )
            .flag("public", image.public)
            .texts("private_gallery_ids", image.private_gallery_ids.iter().map(Name::as_str))
            .text("flag_status", self.moderation.status().as_str())
            .indexed(
                user.is_some() && deleted_at.is_none(),
                "image_user_pk",
                format!("USER#{}", user.unwrap_or_default()),
            );
        Some(row.item())
    }
}
