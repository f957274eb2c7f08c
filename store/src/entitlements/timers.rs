//! Timers: heads that must be looked at again at a time, in a sparse index by bucket and time.
//!
//! Buckets spread the writes over the index's partitions, and let the job that looks for due timers query
//! them in parallel.

use dues_events::attributes::{PK, SK, VERSION};
use dues_events::entitlements::profile::user_of;
use dues_events::{GoTime, Item, Time, UserId, Value};

use super::HEAD;
use crate::billing::Store;
use crate::engine::{Condition, Cursor, Engine, Key, Query, Sorted, StoreError};
use crate::table::{BY_TIMER, ENTITLEMENTS};

/// How many buckets there are.
pub const BUCKETS: u32 = 16;
/// Heads per page.
const PAGE: u32 = 200;
/// The row that says which version every head has reached.
const HEADS_REACHED: (&str, &str) = ("CLOCK", "SCHEMA");

/// The bucket of a user: FNV-1a of the id. It is stored, so it never changes.
#[must_use]
pub fn bucket_of(user: &UserId) -> String {
    let hash = user
        .as_str()
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    bucket(hash % BUCKETS)
}

/// The name of a bucket.
#[must_use]
pub fn bucket(number: u32) -> String {
    format!("{number:02}")
}

/// A page of users.
#[derive(Debug, Clone, Default)]
pub struct UsersPage {
    /// The users.
    pub users: Vec<UserId>,
    /// Where the next page starts; `None` at the end.
    pub next: Option<Cursor>,
}

impl<E: Engine> Store<E> {
    /// A page of the users of a bucket with a timer that is due at a time.
    pub async fn due_timers(
        &self,
        bucket: &str,
        now: Time,
        start: Option<Cursor>,
    ) -> Result<UsersPage, StoreError> {
        let to = Value::text(GoTime::nine_digits(now).text());
        let query = Query {
            sorted: Sorted::Between(Value::text("0"), to),
            limit: Some(PAGE),
            start,
            ..Query::index(&ENTITLEMENTS, BY_TIMER.name, bucket)
        };
        let page = self.engine.query(query).await?;
        let users = page.items.iter().filter_map(|item| user_of(item.text(PK)?)).collect();
        Ok(UsersPage { users, next: page.next })
    }

    /// A page of all users with a head, in the order of a scan.
    pub async fn users_with_heads(&self, start: Option<Cursor>) -> Result<UsersPage, StoreError> {
        let page = self.engine.keys(&ENTITLEMENTS, start, PAGE).await?;
        let heads = page.keys.iter().filter(|key| key.sort.as_deref() == Some(HEAD));
        Ok(UsersPage { users: heads.filter_map(|key| user_of(&key.partition)).collect(), next: page.next })
    }

    /// The version that every head has reached.
    pub async fn heads_reached(&self) -> Result<u64, StoreError> {
        let (partition, sort) = HEADS_REACHED;
        let key = Key { partition: partition.to_owned(), sort: Some(sort.to_owned()) };
        let row = self.engine.get(&ENTITLEMENTS, key).await?;
        Ok(row.and_then(|row| row.get(VERSION)?.as_u64()).unwrap_or(0))
    }

    /// Records that every head has reached a version.
    pub async fn set_heads_reached(&self, version: u64) -> Result<(), StoreError> {
        let mut row = Item::new();
        row.set_text(PK, HEADS_REACHED.0);
        row.set_text(SK, HEADS_REACHED.1);
        row.set(VERSION, Value::number(version));
        self.engine.put(&ENTITLEMENTS, row, Condition::Always).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_spread_and_never_change() {
        let of = |user: &str| bucket_of(&UserId::from(user));
        assert_eq!((of("u-1"), of("u-2")), (of("u-1"), of("u-2")));
        // FNV-1a of "a" is e40c292c.
        assert_eq!(of("a"), "12");
        let used: std::collections::BTreeSet<String> = (0..400).map(|n| of(&format!("u-{n}"))).collect();
        assert_eq!(used.len(), BUCKETS as usize);
    }
}
