//! User: `USER#<user_id>`, `PROFILE`; in `byEmail` unless deleted, so that nobody signs in as somebody who is gone.

use dues_events::Item;
use serde::{Deserialize, Serialize};

use super::kept::Kept;
use super::row::Row;
use super::words::{Email, Second};

/// What is told of a user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct User {
    /// Where they are reached.
    pub email: Email,
    /// What they are called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// When they came, if it was not just now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Second>,
}

pub(super) fn row(id: &str, kept: &Kept<User>) -> Option<Item> {
    let (user, created_at) = kept.value()?;
    let listed = kept.deleted_at().is_none();
    let row = Row::new(format!("USER#{id}"), "PROFILE".to_owned(), created_at, kept.deleted_at())
        .text("user_id", id)
        .text("email", user.email.as_str())
        .maybe("display_name", user.display_name.as_deref())
        .indexed(listed, "email_pk", format!("EMAIL#{}", Email::folded(user.email.as_str())))
        .indexed(listed, "email_sk", format!("USER#{id}"));
    Some(row.item())
}
