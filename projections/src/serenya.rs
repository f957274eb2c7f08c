//! Read model serenya: user profiles with everything embedded, payments, document jobs and configuration.
//!
//! | aggregate | its facts | its rows |
//! |---|---|---|
//! | `user:{id}` | what the profile embeds | `USER#{id}`/`PROFILE`, pointers from email and external id |
//! | `session:{user}:{id}` | started, accessed, ended | none: the profile follows it |
//! | `payment:{user}:{id}` | reports by Stripe, billing and apps | `USER#{id}`/`PAYMENT#{date}#{id}` |
//! | `document:{user}:{file}` | S3 objects | `USER#{id}`/`JOB#{file}` |
//! | `config:{key}:{version}` | the configuration | `SYSTEM#CONFIG`/`{KEY}#{version}` |

pub mod chat;
pub mod config;
pub mod document;
pub mod profile;
pub mod tiers;

mod biometric;
mod payment;
mod rows;
mod session;
mod sources;
mod subscription;
mod usage;
mod wire;

use dues_events::entitlements::stripe::StripeEvent;
use dues_events::wire::WireError;
use dues_events::wire::app_events::AppEvent;
use dues_events::{Item, Record, UserId};
use serde::{Deserialize, Serialize};

use crate::model::{Model, Recorded};
pub use config::Saved;
pub use payment::Payment;
pub use profile::{Profile, ProfileFact, email_key, external_key};
pub use session::{Session, SessionFact};
pub use subscription::Subscription;
pub use usage::{DOCUMENT_PROCESSING, MAX_COUNTED, Usage};
pub use wire::{RAW_TOKENS, raw_token, remove_tokens};

/// The table of this read model.
pub const TABLE: &str = "serenya";

/// The read model `serenya`.
#[derive(Debug)]
pub struct Serenya;

/// A fact about an aggregate. Payments and documents arrive in parts, which are merged: each part is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// About a user's profile.
    Profile(ProfileFact),
    /// About a session.
    Session(SessionFact),
    /// About a payment.
    Payment(Box<Payment>),
    /// About a document.
    Document(document::Document),
    /// About a version of the configuration.
    Config(config::Saved),
}

/// The merged facts of an aggregate. Each aggregate uses one of these parts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// State of `user:{id}`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub profile: Box<Profile>,
    /// State of `session:{user}:{id}`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub session: Session,
    /// State of `payment:{user}:{id}`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub payment: Box<Payment>,
    /// State of `document:{user}:{file}`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub document: document::Document,
    /// State of `config:{key}:{version}`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub config: config::Config,
}

fn is_default<T: Default + PartialEq>(part: &T) -> bool {
    *part == T::default()
}

impl Model for Serenya {
    const NAME: &'static str = "serenya";
    type Fact = Fact;
    type State = State;

    fn read(event: &AppEvent) -> Result<Option<(String, Fact)>, WireError> {
        wire::read(event)
    }

    fn stripe(user: &UserId, event: &StripeEvent) -> Option<(String, Fact)> {
        sources::stripe(user, event)
    }

    fn billing(record: &Record) -> Option<(String, Fact)> {
        sources::billing(record)
    }

    fn merge(state: &mut State, recorded: &Recorded<Fact>) {
        match &recorded.fact {
            Fact::Profile(fact) => state.profile.merge(recorded, fact),
            Fact::Session(fact) => state.session.merge(recorded, fact),
            Fact::Payment(parts) => state.payment.join(parts),
            Fact::Document(parts) => state.document.join(parts),
            Fact::Config(saved) => state.config.merge(recorded, saved),
        }
    }

    fn rows(aggregate: &str, state: &State) -> Vec<(&'static str, Item)> {
        let rows = match aggregate.split_once(':') {
            Some(("user", user)) => state.profile.rows(user),
            Some(("payment", _)) => state.payment.row().into_iter().collect(),
            Some(("document", _)) => state.document.row().into_iter().collect(),
            Some(("config", _)) => state.config.row().into_iter().collect(),
            Some(_) | None => Vec::new(),
        };
        rows.into_iter().map(|row| (TABLE, row)).collect()
    }

    fn follows(aggregate: &str, version: u64, state: &State) -> Vec<(String, Recorded<Fact>)> {
        match aggregate.split_once(':') {
            Some(("session", _)) => state.session.follows(version).into_iter().collect(),
            Some(("payment", _)) => state.payment.follows(version),
            Some(_) | None => Vec::new(),
        }
    }
}

/// The aggregate name of a user's profile.
#[must_use]
pub fn user_aggregate(user: &str) -> String {
    format!("user:{user}")
}

/// The aggregate name of an entity that belongs to a user. `%` and `:` in the user's id are escaped, so that
/// names are unique.
#[must_use]
pub fn aggregate_of(kind: &str, user: &str, id: &str) -> String {
    format!("{kind}:{}:{id}", user.replace('%', "%25").replace(':', "%3A"))
}
