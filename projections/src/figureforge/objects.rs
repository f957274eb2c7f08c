//! S3 keys of images: `users/<user_id>/yyyy/mm/dd/<image_uuid>.jpg` and `public/teaser/<image_uuid>.jpg`.

use chrono::{Datelike as _, NaiveDate};
use dues_events::Time;
use std::fmt;

/// The key of an S3 object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectKey {
    /// A user's image, by its day of creation (UTC).
    User {
        /// The owner's id; may contain slashes.
        user: String,
        /// The day of creation.
        day: NaiveDate,
        /// Id of the image.
        image: String,
    },
    /// A public image.
    Teaser {
        /// Id of the image.
        image: String,
    },
}

impl ObjectKey {
    /// The key of an image: under its owner, or public if it has none.
    #[must_use]
    pub fn of(user: Option<&str>, made: Time, image: &str) -> Self {
        let image = image.to_owned();
        match user {
            Some(user) => Self::User { user: user.to_owned(), day: made.date_naive(), image },
            None => Self::Teaser { image },
        }
    }

    /// Parses a key from its end: a user's id may contain slashes, an image's id may not.
    #[must_use]
    pub fn read(key: &str) -> Option<Self> {
        let (folder, name) = key.rsplit_once('/')?;
        let image = name.strip_suffix(".jpg").filter(|image| !image.is_empty())?.to_owned();
        if folder == "public/teaser" {
            return Some(Self::Teaser { image });
        }
        let mut parts = folder.strip_prefix("users/")?.rsplitn(4, '/');
        let mut number = |digits: usize| {
            parts
                .next()
                .filter(|part| part.len() == digits && part.bytes().all(|b| b.is_ascii_digit()))?
                .parse()
                .ok()
        };
        let (day, month, year) = (number(2)?, number(2)?, number(4)?);
        let day = NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day)?;
        let user = parts.next().filter(|user| !user.is_empty())?.to_owned();
        Some(Self::User { user, day, image })
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User { user, day, image } => {
                write!(f, "users/{user}/{:04}/{:02}/{:02}/{image}.jpg", day.year(), day.month(), day.day())
            }
            Self::Teaser { image } => write!(f, "public/teaser/{image}.jpg"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_and_read_as_the_seed_lays_them_out() {
        let made = Time::from_timestamp(1_710_000_000, 0).unwrap();
        for (user, key) in [
            (Some("u-1"), "users/u-1/2024/03/09/i-1.jpg"),
            (Some("auth0|a/b"), "users/auth0|a/b/2024/03/09/i-1.jpg"),
            (Some("2024/01/02"), "users/2024/01/02/2024/03/09/i-1.jpg"),
            (None, "public/teaser/i-1.jpg"),
        ] {
            let object = ObjectKey::of(user, made, "i-1");
            assert_eq!(object.to_string(), key);
            assert_eq!(ObjectKey::read(key), Some(object), "{key}");
        }
    }

    #[test]
    fn what_is_no_key_is_not_read() {
        for no in [
            "",
            "i-1.jpg",
            "public/teaser/.jpg",
            "public/teaser/i-1.png",
            "public/other/i-1.jpg",
            "users/u-1/2024/3/9/i-1.jpg",
            "users/u-1/2024/02/30/i-1.jpg",
            "users//2024/03/09/i-1.jpg",
            "users/2024/03/09/i-1.jpg",
            "users/u-1/2024/+3/09/i-1.jpg",
        ] {
            assert_eq!(ObjectKey::read(no), None, "{no}");
        }
    }
}
