//! Validated ids, names, tags and times, safe to use in keys.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// The longest id, name or tag, in bytes: it must fit into a table key.
const MAX_BYTES: usize = 256;
/// The most tags of an image.
const MAX_TAGS: usize = 500;
/// The last second of the year 9999.
const LAST_SECOND: i64 = 253_402_300_799;

macro_rules! checked_text {
    ($(#[$doc:meta])* $name:ident, $check:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The value as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                match $check(text.as_str()) {
                    None => Ok(Self(text)),
                    Some(problem) => Err(problem),
                }
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

fn misfit(text: &str) -> Option<String> {
    match text.len() {
        0 => Some("is empty".to_owned()),
        1..=MAX_BYTES => None,
        length => Some(format!("has {length} bytes, the most is {MAX_BYTES}")),
    }
}

checked_text!(
    /// Id of an image, job, report, plan or flag. It contains no slash: it is part of object keys and
    /// aggregate names.
    Id,
    |text: &str| misfit(text).or_else(|| text.contains('/').then(|| "has a slash".to_owned()))
);
checked_text!(
    /// A tag, or a user id assigned by another system.
    Name,
    misfit
);
checked_text!(
    /// An email address: text on both sides of the last `@`.
    Email,
    |text: &str| misfit(text).or_else(|| {
        let parts = text.trim().rsplit_once('@');
        let misses_a_side = parts.is_none_or(|(name, host)| name.is_empty() || host.is_empty());
        misses_a_side.then(|| "is no email address".to_owned())
    })
);

impl Email {
    /// The lookup form: trimmed and lower case, because mail systems ignore case in practice.
    #[must_use]
    pub fn normalized(text: &str) -> String {
        text.trim().to_lowercase()
    }
}

/// An image's tags, without duplicates, in the given order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Name>")]
pub struct Tags(pub Vec<Name>);

impl TryFrom<Vec<Name>> for Tags {
    type Error = String;

    fn try_from(mut tags: Vec<Name>) -> Result<Self, String> {
        let mut seen = BTreeSet::new();
        tags.retain(|tag| seen.insert(tag.clone()));
        match tags.len() {
            0..=MAX_TAGS => Ok(Self(tags)),
            count => Err(format!("has {count} tags, the most is {MAX_TAGS}")),
        }
    }
}

/// A second of the Unix epoch, up to the year 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub struct EpochSecond(i64);

impl TryFrom<i64> for EpochSecond {
    type Error = String;

    fn try_from(second: i64) -> Result<Self, String> {
        if (0..=LAST_SECOND).contains(&second) {
            Ok(Self(second))
        } else {
            Err(format!("{second} is not a second from 1970 to 9999"))
        }
    }
}

impl From<EpochSecond> for i64 {
    fn from(second: EpochSecond) -> Self {
        second.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn what_cannot_be_a_key_is_refused() {
        assert!(from_value::<Id>(json!("i-1")).is_ok());
        for (id, problem) in [
            (String::new(), "is empty"),
            ("a/b".to_owned(), "has a slash"),
            ("x".repeat(257), "has 257 bytes, the most is 256"),
        ] {
            assert_eq!(from_value::<Id>(json!(id)).unwrap_err().to_string(), problem);
        }
        assert!(from_value::<Name>(json!("auth0|a/b")).is_ok());
        for no in ["", "ada", "@x", "ada@"] {
            assert!(from_value::<Email>(json!(no)).is_err(), "{no}");
        }
        assert!(
            from_value::<EpochSecond>(json!(-1)).is_err()
                && from_value::<EpochSecond>(json!(LAST_SECOND + 1)).is_err()
        );
    }

    #[test]
    fn tags_are_a_set_in_the_order_given() {
        let tags: Tags = from_value(json!(["style:comic", "pose:standing", "style:comic"])).unwrap();
        assert_eq!(tags.0.iter().map(Name::as_str).collect::<Vec<_>>(), ["style:comic", "pose:standing"]);
        let many: Vec<String> = (0..501).map(|n| n.to_string()).collect();
        assert_eq!(from_value::<Tags>(json!(many)).unwrap_err().to_string(), "has 501 tags, the most is 500");
    }
}
