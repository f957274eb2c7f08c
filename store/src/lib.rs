//! Where the records live: the tables, the seam that two engines stand behind, the access patterns, and the commit protocol.
//!
//! Read [`commit`] first: it is what makes effects happen exactly once, on either engine, without a dedupe table.

pub mod clock;
pub mod commit;
pub mod credits;
pub mod engine;
pub mod entitlements;
pub mod journal;
pub mod lock;
pub mod pages;
pub mod parked;
pub mod sweep;
pub mod table;
pub mod usage;
pub mod user;

mod admin;
mod billing;
mod tries;
mod unique;

#[cfg(feature = "dynamo")]
pub mod dynamo;
#[cfg(feature = "embedded")]
pub mod embedded;

pub use billing::Store;
pub use clock::{Clock, SharedClock, SystemClock};
pub use commit::{CommitError, Committed};
pub use credits::{Consumed, LedgerCheck, Moved};
pub use engine::{Condition, Cursor, Edit, Engine, Key, Keys, Op, Page, Query, Sorted, StoreError, Transacted, Updated, Written};
pub use lock::{Acquired, Held, Lock, Locks};
pub use table::{Table, TableNames};
