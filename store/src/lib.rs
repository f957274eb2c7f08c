//! Storage: the tables, the [`Engine`] trait over DynamoDB and SQLite, the access patterns, and the commit
//! protocol.
//!
//! Read [`billing::commit`] first: it makes effects happen exactly once, on either engine, without a dedupe
//! table.

pub mod clock;
#[cfg(feature = "dynamo")]
pub mod dynamo;
#[cfg(feature = "embedded")]
pub mod embedded;
pub mod engine;
pub mod entitlements;
pub mod journal;
pub mod lock;
pub mod parked;
pub mod table;
pub mod usage;

pub mod backoff;
pub mod billing;
pub mod collections;
mod unique_name;

pub use backoff::{Backoff, BackoffPolicy, Jitter};
pub use billing::Store;
pub use billing::commit::{CommitError, Committed};
pub use clock::{Clock, SharedClock, SystemClock};
pub use engine::{
    Condition, Consistency, Cursor, Edit, Engine, Key, Keys, Op, Order, Page, Query, Sorted, StoreError,
    Transacted, Updated, Written,
};
pub use entitlements::credits::{Consumed, LedgerCheck, Moved};
pub use lock::{Acquired, Held, Lock, Locks};
pub use table::{Table, TableId, TableNames};
