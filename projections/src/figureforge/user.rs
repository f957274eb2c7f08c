//! User: `USER#<user_id>`, `PROFILE`; in `byEmail` unless deleted, so that a deleted user cannot sign in.

use dues_events::Item;
use serde::{Deserialize, Serialize};

use super::row::Row;
use super::soft_delete::SoftDelete;
use super::validation::{Email, EpochSecond};

/// A user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct User {
    /// The email address.
    pub email: Email,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// When the user was created; defaults to the event's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<EpochSecond>,
}

pub(super) fn row(id: &str, kept: &SoftDelete<User>) -> Option<Item> {
    let (user, created_at) = kept.value()?;
    let listed = kept.deleted_at().is_none();
    let row = Row::new(format!("USER#{id}"), "PROFILE".to_owned(), created_at, kept.deleted_at())
        .text("user_id", id)
        .text("email", user.email.as_str())
        .maybe("display_name", user.display_name.as_deref())
        .indexed(listed, "email_pk", format!("EMAIL#{}", Email::normalized(user.email.as_str())))
        .indexed(listed, "email_sk", format!("USER#{id}"));
    Some(row.item())
}
