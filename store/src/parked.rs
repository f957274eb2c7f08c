//! Parked records: records that could not be processed, stored whole with the reason, for inspection and
//! redrive.

use dues_events::{Item, Time, Value};
use sha2::{Digest as _, Sha256};

use crate::billing::Store;
use crate::engine::{Condition, Cursor, Engine, Key, Query, StoreError};
use crate::table::PARKED;

/// A parked record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parked {
    /// The stream that delivered it.
    pub stream: String,
    /// Its id: the same for the same record of the same stream, however often it is delivered.
    pub id: String,
    /// A short machine-readable code of the reason.
    pub code: String,
    /// The reason; names the field.
    pub reason: String,
    /// The event id, if it could be read.
    pub event_id: Option<String>,
    /// The user, if it could be read.
    pub user_id: Option<String>,
    /// The delivery's sequence number, or the line number in a file.
    pub sequence: String,
    /// When it was first parked.
    pub parked_at: Time,
    /// The record as delivered.
    pub body: Vec<u8>,
}

/// A DynamoDB item holds 400 KB; longer bodies are split into parts of this size.
const PART: usize = 300 * 1024;

impl Parked {
    /// The id of a record with that body on that stream.
    #[must_use]
    pub fn id_of(stream: &str, body: &[u8]) -> String {
        let mut hash = Sha256::new();
        hash.update((stream.len() as u64).to_le_bytes());
        hash.update(stream.as_bytes());
        hash.update(body);
        hex::encode(&hash.finalize()[..12])
    }
}

impl<E: Engine> Store<E> {
    /// Parks a record. Idempotent.
    pub async fn park(&self, parked: &Parked) -> Result<(), StoreError> {
        let mut parts = parked.body.chunks(PART);
        let first = parts.next().unwrap_or_default();
        let rest: Vec<&[u8]> = parts.collect();
        // Write the parts first, so that a visible row can be read whole.
        for (n, part) in rest.iter().enumerate() {
            let mut item = Item::new();
            item.set_text(PARKED.partition, parts_of(&parked.id));
            item.set_text("parked_id", part_key(n));
            item.set("body", Value::B(part.to_vec()));
            self.engine.put(&PARKED, item, Condition::Always).await?;
        }
        let mut item = Item::new();
        item.set_text(PARKED.partition, parked.stream.as_str());
        item.set_text("parked_id", parked.id.as_str());
        item.set_text("code", parked.code.as_str());
        item.set_text("reason", parked.reason.as_str());
        item.set_text("sequence", parked.sequence.as_str());
        item.set_text("parked_at", parked.parked_at.to_rfc3339());
        for (name, value) in [("event_id", &parked.event_id), ("user_id", &parked.user_id)] {
            if let Some(value) = value {
                item.set_text(name, value.as_str());
            }
        }
        item.set("body", Value::B(first.to_vec()));
        item.set("parts", Value::number(rest.len() as u64));
        self.engine.put(&PARKED, item, Condition::NoItem).await?;
        tracing::warn!(stream = %parked.stream, parked = %parked.id, code = %parked.code,
            event = parked.event_id.as_deref(), "parked a record");
        Ok(())
    }

    /// All parked records, by stream.
    pub async fn parked(&self) -> Result<Vec<Parked>, StoreError> {
        let mut all = Vec::new();
        let mut start: Option<Cursor> = None;
        loop {
            let page = self.engine.scan(&PARKED, start, 1000).await?;
            for item in page.items {
                if !item.text(PARKED.partition).unwrap_or_default().starts_with(PARTS) {
                    all.push(self.read_parked(item).await?);
                }
            }
            match page.next {
                Some(next) => start = Some(next),
                None => break,
            }
        }
        all.sort_by(|a, b| (&a.stream, a.parked_at, &a.id).cmp(&(&b.stream, b.parked_at, &b.id)));
        Ok(all)
    }

    /// A page of parked records, of one stream or of all, and the start of the next page.
    pub async fn parked_page(
        &self,
        stream: Option<&str>,
        start: Option<Cursor>,
        limit: u32,
    ) -> Result<(Vec<Parked>, Option<Cursor>), StoreError> {
        let page = match stream {
            Some(stream) => {
                self.engine
                    .query(Query { start, limit: Some(limit), ..Query::partition(&PARKED, stream) })
                    .await?
            }
            None => self.engine.scan(&PARKED, start, limit).await?,
        };
        let mut parked = Vec::new();
        for item in page
            .items
            .into_iter()
            .filter(|item| !item.text(PARKED.partition).unwrap_or_default().starts_with(PARTS))
        {
            parked.push(self.read_parked(item).await?);
        }
        Ok((parked, page.next))
    }

    /// Finds one parked record.
    pub async fn find_parked(&self, stream: &str, id: &str) -> Result<Option<Parked>, StoreError> {
        match self
            .engine
            .get(&PARKED, Key { partition: stream.to_owned(), sort: Some(id.to_owned()) })
            .await?
        {
            Some(item) => self.read_parked(item).await.map(Some),
            None => Ok(None),
        }
    }

    /// Whether a record is parked.
    pub async fn is_parked(&self, stream: &str, id: &str) -> Result<bool, StoreError> {
        Ok(self
            .engine
            .get(&PARKED, Key { partition: stream.to_owned(), sort: Some(id.to_owned()) })
            .await?
            .is_some())
    }

    /// The parked records of a stream with that code.
    pub async fn parked_with(&self, stream: &str, code: &str) -> Result<Vec<Parked>, StoreError> {
        let filter = Condition::Equals("code", Value::text(code));
        let items = self.all(Query { filter, ..Query::partition(&PARKED, stream) }).await?;
        let mut found = Vec::new();
        for item in items {
            found.push(self.read_parked(item).await?);
        }
        Ok(found)
    }

    /// Removes a parked record, after it was processed.
    pub async fn unpark(&self, parked: &Parked) -> Result<(), StoreError> {
        let key = |partition: &str, sort: &str| Key {
            partition: partition.to_owned(),
            sort: Some(sort.to_owned()),
        };
        self.engine.delete(&PARKED, key(&parked.stream, &parked.id), Condition::Always).await?;
        for n in 0..parked.body.len().div_ceil(PART).saturating_sub(1) {
            self.engine.delete(&PARKED, key(&parts_of(&parked.id), &part_key(n)), Condition::Always).await?;
        }
        Ok(())
    }

    async fn read_parked(&self, item: Item) -> Result<Parked, StoreError> {
        let text = |name: &str| item.text(name).unwrap_or_default().to_owned();
        let optional = |name: &str| item.text(name).map(str::to_owned);
        let mut parked = Parked {
            stream: text(PARKED.partition),
            id: text("parked_id"),
            code: text("code"),
            reason: text("reason"),
            event_id: optional("event_id"),
            user_id: optional("user_id"),
            sequence: text("sequence"),
            parked_at: dues_events::time::parse(&text("parked_at"))
                .map_err(|e| StoreError::Invalid(format!("parked_at of {}: {e}", text("parked_id"))))?,
            body: bytes(&item),
        };
        for n in 0..item.get("parts").and_then(Value::as_u64).unwrap_or(0) {
            let key = Key {
                partition: parts_of(&parked.id),
                sort: Some(part_key(usize::try_from(n).unwrap_or_default())),
            };
            let part = self.engine.get(&PARKED, key).await?;
            let part = part.ok_or_else(|| {
                StoreError::Invalid(format!("part {n} of parked record {} is missing", parked.id))
            })?;
            parked.body.extend(bytes(&part));
        }
        Ok(parked)
    }
}

/// Prefix of the partitions that hold only the parts of long records.
pub const PARTS: &str = "part:";

fn parts_of(id: &str) -> String {
    format!("{PARTS}{id}")
}

fn part_key(n: usize) -> String {
    format!("{n:04}")
}

fn bytes(item: &Item) -> Vec<u8> {
    match item.get("body") {
        Some(Value::B(bytes)) => bytes.clone(),
        Some(_) | None => Vec::new(),
    }
}
