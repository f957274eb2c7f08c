//! Pages: what stands behind the question mark, and the cursor that leads from one page to the next.

use dues_events::wire::{LARGEST_RECORD, WireError};
use dues_store::Cursor;
use serde_json::{Map, Value};

use crate::api::path::decoded_text;
use crate::changes::{read_item, write_item};
use crate::fields::LONGEST_ID;
use crate::read_models::figureforge::queries::Asked;

/// How many items a page has, unless somebody asks for more or fewer, and the most.
const LISTED: u32 = 100;
pub(super) const MOST_LISTED: u32 = 1000;

pub(super) fn wrong(field: &str, problem: impl Into<String>) -> WireError {
    WireError { field: field.to_owned(), problem: problem.into() }
}

/// A body's fields; nothing is as good as none.
pub(super) fn object(body: &[u8]) -> Result<Map<String, Value>, WireError> {
    if body.trim_ascii().is_empty() {
        return Ok(Map::new());
    }
    if body.len() > LARGEST_RECORD {
        return Err(wrong("body", format!("has {} bytes, the most is {LARGEST_RECORD}", body.len())));
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(wrong("body", "is not a JSON object")),
        Err(error) => Err(wrong("body", format!("is not JSON: {error}"))),
    }
}

/// What stands behind the question mark.
#[derive(Debug)]
pub(super) struct Parameters {
    /// Which page.
    pub(super) asked: Asked,
    others: Vec<(String, String)>,
}

impl Parameters {
    pub(super) fn read(query: &str) -> Result<Self, WireError> {
        let mut read = Self { asked: Asked { limit: Some(LISTED), start: None }, others: Vec::new() };
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let value = decoded_text(value).ok_or_else(|| wrong(name, "is not UTF-8"))?;
            match name {
                "limit" => {
                    let number = value.parse().ok().filter(|number| (1..=MOST_LISTED).contains(number));
                    let problem = || wrong(name, format!("{value:?} is not a whole number from 1 to {MOST_LISTED}"));
                    read.asked.limit = Some(number.ok_or_else(problem)?);
                }
                "after" => read.asked.start = Some(cursor(&value).ok_or_else(|| wrong(name, "is not from a page before"))?),
                _ => read.others.push((name.to_owned(), value)),
            }
        }
        Ok(read)
    }

    /// A parameter that must be there.
    pub(super) fn required(&self, name: &str) -> Result<&str, WireError> {
        let value = self.others.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let value = value.filter(|value| !value.is_empty()).ok_or_else(|| wrong(name, "is missing"))?;
        // A key of the table has to hold it.
        if value.len() > LONGEST_ID {
            return Err(wrong(name, format!("has {} bytes, the most is {LONGEST_ID}", value.len())));
        }
        Ok(value)
    }

    /// One of a few words, which must be there.
    pub(super) fn one_of<T: Copy>(&self, name: &str, all: &[T], word: impl Fn(&T) -> &'static str) -> Result<T, WireError> {
        let value = self.required(name)?;
        let words = || all.iter().map(&word).collect::<Vec<_>>().join(", ");
        all.iter().copied().find(|one| word(one) == value).ok_or_else(|| wrong(name, format!("{value:?} is not one of {}", words())))
    }
}

/// A cursor as text that needs no encoding in a query.
pub(super) fn cursor_text(Cursor(place): &Cursor) -> String {
    write_item(place).to_string().bytes().fold(String::new(), |out, byte| out + &format!("{byte:02x}"))
}

fn cursor(text: &str) -> Option<Cursor> {
    let digits: Vec<u8> = text.chars().map(|digit| digit.to_digit(16).and_then(|value| u8::try_from(value).ok())).collect::<Option<_>>()?;
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    let json: Value = serde_json::from_slice(&bytes).ok()?;
    read_item(&json, "after").ok().map(Cursor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dues_events::{Item, Value as Attribute};

    #[test]
    fn a_cursor_comes_back_as_it_was() {
        let place: Item = [("pk".into(), Attribute::text("TAG#ä&=%")), ("created_at".into(), Attribute::number(7))].into_iter().collect();
        let text = cursor_text(&Cursor(place.clone()));
        assert!(text.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(cursor(&text), Some(Cursor(place)));
        for no in ["x", "7", "7b", "zz", "7b7"] {
            assert_eq!(cursor(no), None, "{no}");
        }
    }
}
