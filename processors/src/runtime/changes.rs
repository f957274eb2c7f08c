//! Changes of the tables: from DynamoDB Streams as Lambda delivers them, or from the embedded engine's
//! change log.
//!
//! Records are decoded by hand: `aws_lambda_events` has the types behind a feature that links
//! `serde_dynamo`, and rejects a whole batch for one malformed record. Here each record is decoded
//! separately, so that a malformed one can be parked.

use dues_events::wire::WireError;
use dues_events::{Item, Time};
use dues_store::parked::Parked;
use dues_store::{Table, TableNames};
use serde_json::{Value as Json, json};
use std::time::Duration;

pub use crate::aws::triggers::dynamodb_json::{read_item, write_item};
pub use crate::aws::triggers::dynamodb_streams::DynamoStreamEvent;
pub use crate::runtime::followers::Follower;

/// The stream under which records without a readable table name are parked.
pub const STREAM: &str = "changes";
/// The principal of removals by TTL.
const TTL: &str = "dynamodb.amazonaws.com";

/// A change of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Identifies the delivery, never the fact.
    pub sequence: String,
    /// The table of the item.
    pub table: &'static Table,
    /// The item before the change; `None` if it was inserted.
    pub old: Option<Item>,
    /// The item after the change; `None` if it was removed.
    pub new: Option<Item>,
    /// When it was put on the stream.
    pub arrived: Time,
    /// Whether DynamoDB removed the item by TTL.
    pub by_ttl: bool,
}

/// A decoded record of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// A change.
    Change(Change),
    /// A change of a table that no follower reads.
    Foreign,
    /// The record cannot be decoded.
    Unreadable {
        /// The table's name, or [`STREAM`] if that cannot be read.
        stream: &'static str,
        /// The invalid field.
        error: WireError,
    },
}

impl Change {
    /// Decodes a record as Lambda delivers it; `now` is its arrival if it has no time of its own.
    #[must_use]
    pub fn read(record: &Json, tables: &TableNames, now: Time) -> Read {
        let table = match table_name(record) {
            Ok(name) => tables.table(name).filter(|table| table.stream),
            Err(error) => return Read::Unreadable { stream: STREAM, error },
        };
        match table.map(|table| (table.name, Self::of_table(record, table, now))) {
            None => Read::Foreign,
            Some((_, Ok(change))) => Read::Change(change),
            Some((stream, Err(error))) => Read::Unreadable { stream, error },
        }
    }

    /// Decodes a record of a known table.
    ///
    /// # Errors
    /// [`WireError`] names the field.
    pub fn of_table(record: &Json, table: &'static Table, now: Time) -> Result<Self, WireError> {
        let image = |name: &str| match at(record, &["dynamodb", name]) {
            None => Ok(None),
            Some(image) => read_item(image, &format!("dynamodb.{name}")).map(Some),
        };
        let (old, new) = (image("OldImage")?, image("NewImage")?);
        let missing = |name: &str| Err(wrong(&format!("dynamodb.{name}"), "is missing"));
        match (text(record, &["eventName"])?, &old, &new) {
            ("INSERT" | "MODIFY", _, None) => return missing("NewImage"),
            ("MODIFY" | "REMOVE", None, _) => return missing("OldImage"),
            ("INSERT" | "MODIFY" | "REMOVE", _, _) => {}
            (name, _, _) => {
                return Err(wrong("eventName", format!("{name:?} is not one of INSERT, MODIFY, REMOVE")));
            }
        }
        for (image, name) in [(&old, "OldImage"), (&new, "NewImage")] {
            for key in [Some(table.partition), table.sort].into_iter().flatten() {
                if image.as_ref().is_some_and(|image| image.text(key).is_none_or(str::is_empty)) {
                    return Err(wrong(&format!("dynamodb.{name}.{key}"), "is not a key"));
                }
            }
        }
        Ok(Self {
            sequence: text(record, &["dynamodb", "SequenceNumber"])?.to_owned(),
            table,
            old,
            new,
            arrived: created(record).unwrap_or(now),
            by_ttl: identity(record, "principalId") == Some(TTL)
                && identity(record, "type") == Some("Service"),
        })
    }

    /// Decodes a parked change.
    ///
    /// # Errors
    /// [`WireError`] names the field.
    pub fn of_parked(parked: &Parked, tables: &TableNames) -> Result<Self, WireError> {
        let mut record: Json = serde_json::from_slice(&parked.body)
            .map_err(|error| wrong("body", format!("is not JSON: {error}")))?;
        if sequence(&record).is_empty() && record.get("dynamodb").is_some() {
            record["dynamodb"]["SequenceNumber"] = parked.sequence.as_str().into();
        }
        let own = TableNames::default();
        let name = parked.stream.rsplit('/').next().unwrap_or_default();
        let table = own.table(name).or_else(|| tables.table(table_name(&record).ok()?));
        let table = table.ok_or_else(|| wrong("eventSourceARN", format!("{} is no table", parked.stream)))?;
        Self::of_table(&record, table, parked.parked_at)
    }

    /// The record as Lambda would deliver it: only the fields that are read here, without the time.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let name = match (&self.old, &self.new) {
            (None, _) => "INSERT",
            (Some(_), Some(_)) => "MODIFY",
            (Some(_), None) => "REMOVE",
        };
        let mut stream = json!({"SequenceNumber": self.sequence});
        for (name, image) in [("OldImage", &self.old), ("NewImage", &self.new)] {
            if let Some(image) = image {
                stream[name] = write_item(image);
            }
        }
        let mut record = json!({"eventName": name, "dynamodb": stream});
        if self.by_ttl {
            record["userIdentity"] = json!({"type": "Service", "principalId": TTL});
        }
        record
    }

    /// The partition key of the item. Changes of one partition stay in order.
    #[must_use]
    pub fn partition(&self) -> &str {
        self.new
            .as_ref()
            .or(self.old.as_ref())
            .and_then(|image| image.text(self.table.partition))
            .unwrap_or_default()
    }
}

/// The sequence number of a record, which may otherwise be malformed; empty if it has none. Lambda takes an
/// empty identifier in a response as a failure of the whole batch.
#[must_use]
pub fn sequence(record: &Json) -> &str {
    at(record, &["dynamodb", "SequenceNumber"]).and_then(Json::as_str).unwrap_or_default()
}

/// The stream under which a malformed record is parked: its table, or [`STREAM`] if that cannot be read.
pub(crate) fn parked_stream(record: &Json, tables: &TableNames) -> &'static str {
    table_name(record).ok().and_then(|name| tables.table(name)).map_or(STREAM, |table| table.name)
}

/// The table in `arn:aws:dynamodb:REGION:ACCOUNT:table/NAME/stream/LABEL`.
fn table_name(record: &Json) -> Result<&str, WireError> {
    let arn = text(record, &["eventSourceARN"])?;
    let name = arn.split_once(":table/").map(|(_, rest)| rest.split('/').next().unwrap_or_default());
    name.filter(|name| !name.is_empty())
        .ok_or_else(|| wrong("eventSourceARN", format!("{arn:?} names no table")))
}

/// A field of `userIdentity`. Lambda writes its name in lower camel case, the stream itself in upper.
fn identity<'a>(record: &'a Json, field: &str) -> Option<&'a str> {
    let capital = field[..1].to_uppercase() + &field[1..];
    let who = at(record, &["userIdentity"])?;
    who.get(field).or_else(|| who.get(&capital)).and_then(Json::as_str)
}

/// When the record was put on the stream: Unix seconds, with or without a fraction.
fn created(record: &Json) -> Option<Time> {
    let seconds = at(record, &["dynamodb", "ApproximateCreationDateTime"])?;
    match seconds.as_i64() {
        Some(whole) => Time::from_timestamp(whole, 0),
        None => {
            let since = Duration::try_from_secs_f64(seconds.as_f64()?).ok()?;
            Time::from_timestamp(i64::try_from(since.as_secs()).ok()?, since.subsec_nanos())
        }
    }
}

/// A nested field; null counts as missing.
fn at<'a>(record: &'a Json, path: &[&str]) -> Option<&'a Json> {
    path.iter().try_fold(record, |value, name| value.get(name)).filter(|value| !value.is_null())
}

fn text<'a>(record: &'a Json, path: &[&str]) -> Result<&'a str, WireError> {
    let value = at(record, path).ok_or_else(|| wrong(&path.join("."), "is missing"))?;
    value.as_str().ok_or_else(|| wrong(&path.join("."), "is not text"))
}

pub(crate) fn wrong(field: &str, problem: impl Into<String>) -> WireError {
    WireError { field: field.to_owned(), problem: problem.into() }
}
