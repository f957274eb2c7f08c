//! The pure heart of `dues`: what a billing record is, what can happen to it, and what follows.
//!
//! Nothing here performs I/O or reads a clock; Cargo sees to it, because neither tokio nor an AWS crate is among the
//! dependencies. The way of the data through this crate:
//!
//! ```text
//! bytes ──wire──► Event ──decide──► Transition ──item──► attributes as the tables hold them
//! ```
//!
//! Start reading at [`decide::decide`]: the whole state table is there.

pub mod ach;
pub mod attr;
pub mod calendar;
pub mod collect;
pub mod credits;
pub mod decide;
pub mod effect;
pub mod entitled;
pub mod event;
pub mod ids;
pub mod item;
pub mod membership;
pub mod money;
pub mod profile;
pub mod record;
pub mod stamp;
pub mod stripe;
pub mod tier;
pub mod time;
pub mod usage;
pub mod wire;

mod row;

pub use credits::{Balance, Feature, Movement, MovementKind};
pub use decide::{Outcome, Rejection, Transition, decide};
pub use effect::GroupsEffect;
pub use event::{Event, Happening};
pub use ids::{AttemptKey, ChangeId, EventId, MessageId, MovementId, SubscriptionId, TransactionId, UserId};
pub use item::{Item, Value};
pub use money::Money;
pub use profile::Profile;
pub use record::{Record, State, Status};
pub use stamp::{Applied, Seen, Stamp};
pub use tier::PlanTier;
pub use time::{GoTime, Time};
