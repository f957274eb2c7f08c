//! Pagination: row limits and cursors.

use dues_events::wire::WireError;
use dues_store::Cursor;
use serde_json::Value;
use utoipa::IntoParams;

use super::extract::Parameters;
use crate::figureforge::queries::PageRequest;
use crate::runtime::changes::{read_item, write_item};

/// Default and maximum rows of a page.
pub(super) const PAGE: u32 = 100;
pub(super) const MAX_PAGE: u32 = 1000;

/// How many rows.
#[derive(IntoParams)]
#[allow(dead_code, reason = "described here, read by `Parameters`")]
pub(super) struct Limit {
    /// How many rows; 100 unless given.
    #[param(minimum = 1, maximum = 1000, nullable = false)]
    limit: Option<u32>,
}

/// A page of a list.
#[derive(IntoParams)]
#[allow(dead_code, reason = "described here, read by `Parameters`")]
pub(super) struct PageOf {
    /// How many rows; 100 unless given.
    #[param(minimum = 1, maximum = 1000, nullable = false)]
    limit: Option<u32>,
    /// `next` of the page before.
    #[param(pattern = "^([0-9a-f]{2})+$", nullable = false)]
    after: Option<String>,
}

/// The requested page.
pub(super) fn page(parameters: &Parameters) -> Result<PageRequest, WireError> {
    let forged = || WireError { field: "after".to_owned(), problem: FORGED.to_owned() };
    let start = parameters.get("after").map(|text| cursor(text).ok_or_else(forged)).transpose()?;
    Ok(PageRequest { limit: Some(parameters.limit(PAGE, MAX_PAGE)?), start })
}

/// The error for a cursor that no page returned.
pub(super) const FORGED: &str = "is not from a page before";

/// A cursor as hex, which needs no encoding in a query string.
pub(super) fn cursor_text(Cursor(position): &Cursor) -> String {
    hex::encode(write_item(position).to_string())
}

fn cursor(text: &str) -> Option<Cursor> {
    let json: Value = serde_json::from_slice(&hex::decode(text).ok()?).ok()?;
    read_item(&json, "after").ok().map(Cursor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dues_events::{Item, Value as Attribute};

    #[test]
    fn a_cursor_round_trips() {
        let position: Item =
            [("pk".into(), Attribute::text("TAG#ä&=%")), ("created_at".into(), Attribute::number(7))]
                .into_iter()
                .collect();
        let text = cursor_text(&Cursor(position.clone()));
        assert!(text.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(cursor(&text), Some(Cursor(position)));
        for invalid in ["x", "7", "7b", "zz", "7b7"] {
            assert_eq!(cursor(invalid), None, "{invalid}");
        }
    }
}
