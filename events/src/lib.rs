//! The pure core of `dues`: billing records, the events that change them, and the follow-ups of each
//! change.
//!
//! Nothing here performs I/O or reads a clock. Cargo enforces it: neither tokio nor an AWS crate is a
//! dependency. Data flow:
//!
//! ```text
//! bytes ──wire──► Event ──decide──► Transition ──item──► attributes as the tables hold them
//! ```
//!
//! Start reading at [`crate::billing::decide::decide`]: it implements the whole state table.

pub mod attributes;
pub mod billing;
pub mod calendar;
pub mod collections;
pub mod entitlements;
pub mod ids;
pub mod item;
pub mod money;
pub mod time;
pub mod usage;
pub mod wire;

mod row;

pub use crate::billing::decide::{Outcome, Rejection, Transition, decide};
pub use crate::billing::event::{Event, EventKind};
pub use crate::billing::idempotency::{Applied, IdempotencyToken, Lookup, ParkedEvents};
pub use crate::billing::record::{Record, State, Status};
pub use crate::entitlements::credits::{Balance, Feature, Movement, MovementKind};
pub use crate::entitlements::group_effect::GroupsEffect;
pub use crate::entitlements::profile::Profile;
pub use crate::entitlements::tier::PlanTier;
pub use ids::{
    AttemptKey, ChangeId, EventId, GatewayRefundId, MessageId, MovementId, RefundKey, SubscriptionId,
    TransactionId, UserId,
};
pub use item::{Item, Value};
pub use money::Money;
pub use time::{GoTime, Time};
