//! The source of a user's entitlements, in [`ENTITLEMENTS`]: the user's Stripe events, a head with their
//! count and version, the owner links of Stripe objects, and the events that wait for an owner.
//!
//! One transaction adds an event, increments the head's version, and writes everything that follows from the
//! event. So a reader that finds as many events as the head counts has read all of them, and they match the
//! state of the user's rows.

pub mod attention;
pub mod credits;
pub mod timers;

mod owner_links;

pub use owner_links::{Linked, Owner, Waiting};

use dues_events::attributes::{
    FACTS, PK, PLACE, RECORDED_AT, SEEN_AT, SK, STANDING, STRIPE_EVENT, TIMER_AT, TIMER_BUCKET, VERSION,
};
use dues_events::billing::record::ReadError;
use dues_events::entitlements::credits::{MOVEMENT_TYPE, partition};
use dues_events::entitlements::profile::profile_sort;
use dues_events::entitlements::rows::{PASS_PREFIX, PassRow, SUBSCRIPTION_PREFIX, SubscriptionRow};
use dues_events::entitlements::stripe::StripeEvent;
use dues_events::{GoTime, Item, Movement, MovementId, Profile, Time, UserId, Value};
use std::time::Duration;

use crate::billing::Store;
use crate::engine::{Condition, Engine, Key, Op, Query, StoreError};
use crate::table::{ENTITLEMENTS, GG_CORE};

/// The sort key of a head.
pub const HEAD: &str = "HEAD";
/// Prefix of the sort key of an event.
pub const EVENT_PREFIX: &str = "EVENT#";
/// How often, and at what interval, a user's events are read again when a concurrent booking changed them.
const READS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// The head of a user's events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    /// How many bookings were made; 0 for an unknown user.
    pub version: u64,
    /// Number of events.
    pub facts: u64,
    /// The time up to which the months of founder passes have been counted.
    pub counted_until: Option<Time>,
    /// The user's effective tier, in the form that the booking wrote.
    pub effective_tier: String,
    /// When it must be looked at again without an event.
    pub timer: Option<Time>,
}

/// A user's Stripe events, in the order in which they were booked, with their head.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Book {
    /// The head.
    pub head: Head,
    /// The events.
    pub facts: Vec<StripeEvent>,
}

impl Book {
    /// Reads all rows of a user; `None` if the number of events differs from the head's count.
    pub fn read(items: &[Item]) -> Result<Option<Self>, StoreError> {
        let (mut head, mut facts) = (Head::default(), Vec::with_capacity(items.len()));
        for item in items {
            if item.text(SK) == Some(HEAD) {
                head = Head::read(item)?;
            } else {
                facts.push((number(item, PLACE)?, stripe_event_of(item)?));
            }
        }
        facts.sort_unstable_by_key(|(place, _)| *place);
        let whole = head.facts == facts.len() as u64;
        Ok(whole.then(|| Self { head, facts: facts.into_iter().map(|(_, event)| event).collect() }))
    }
}

impl Head {
    /// Writes the head, if the current one is its predecessor.
    #[must_use]
    pub fn op(&self, user: &UserId) -> Op {
        let mut item = keyed(partition(user), HEAD);
        item.set(VERSION, Value::number(self.version));
        item.set(FACTS, Value::number(self.facts));
        if let Some(until) = self.counted_until {
            item.set_text(SEEN_AT, GoTime::trimmed(until).text());
        }
        item.set_text(STANDING, self.effective_tier.as_str());
        if let Some(timer) = self.timer {
            item.set_text(TIMER_BUCKET, timers::bucket_of(user));
            item.set_text(TIMER_AT, GoTime::nine_digits(timer).text());
        }
        let condition = match self.version {
            0 | 1 => Condition::NoItem,
            version => Condition::Equals(VERSION, Value::number(version - 1)),
        };
        Op::Put(&ENTITLEMENTS, item, condition)
    }

    fn read(item: &Item) -> Result<Self, StoreError> {
        let counted_until = item.text(SEEN_AT).map(dues_events::time::parse).transpose();
        let timer = item.text(TIMER_AT).map(dues_events::time::parse).transpose();
        Ok(Self {
            version: number(item, VERSION)?,
            facts: number(item, FACTS)?,
            counted_until: counted_until.map_err(|e| unreadable(item, SEEN_AT, e.to_string()))?,
            effective_tier: item.text(STANDING).unwrap_or_default().to_owned(),
            timer: timer.map_err(|e| unreadable(item, TIMER_AT, e.to_string()))?,
        })
    }
}

/// Adds an event to a user's events, at that position.
///
/// # Errors
/// [`StoreError::Invalid`] when the event cannot be serialised.
pub fn fact_op(user: &UserId, event: &StripeEvent, place: u64, now: Time) -> Result<Op, StoreError> {
    let mut item = keyed(partition(user), &format!("{EVENT_PREFIX}{}", event.id));
    item.set(PLACE, Value::number(place));
    item.set_text(RECORDED_AT, GoTime::trimmed(now).text());
    item.set_text(
        STRIPE_EVENT,
        event.to_json().map_err(|e| StoreError::Invalid(format!("event {}: {e}", event.id)))?,
    );
    Ok(Op::Put(&ENTITLEMENTS, item, Condition::NoItem))
}

impl<E: Engine> Store<E> {
    /// All events of a user, with their head.
    pub async fn entitlement_book(&self, user: &UserId) -> Result<Book, StoreError> {
        for _ in 0..READS {
            let items = self.all(Query::partition(&ENTITLEMENTS, partition(user))).await?;
            if let Some(book) = Book::read(&items)? {
                return Ok(book);
            }
            // A booking happened during the read: a query is not a snapshot.
            self.clock.sleep(PAUSE).await;
        }
        Err(StoreError::Contended(READS))
    }

    /// The head of a user's events.
    pub async fn entitlement_head(&self, user: &UserId) -> Result<Head, StoreError> {
        let item = self
            .engine
            .get(&ENTITLEMENTS, Key { partition: partition(user), sort: Some(HEAD.to_owned()) })
            .await?;
        item.as_ref().map(Head::read).transpose().map(Option::unwrap_or_default)
    }

    /// A movement of a user's credits.
    pub async fn movement(&self, user: &UserId, id: &MovementId) -> Result<Option<Movement>, StoreError> {
        let item = self
            .engine
            .get(&GG_CORE, Key { partition: partition(user), sort: Some(format!("LEDGER#{id}")) })
            .await?;
        let item = item.filter(|item| item.text(dues_events::attributes::TYPE) == Some(MOVEMENT_TYPE));
        Ok(item.map(Movement::from_item).transpose()?)
    }

    /// A user's profile.
    pub async fn profile(&self, user: &UserId) -> Result<Option<Profile>, StoreError> {
        let item = self
            .engine
            .get(&GG_CORE, Key { partition: partition(user), sort: Some(profile_sort(user)) })
            .await?;
        Ok(item.map(Profile::from_item).transpose()?)
    }

    /// A user's Stripe subscriptions.
    pub async fn subscriptions(&self, user: &UserId) -> Result<Vec<SubscriptionRow>, StoreError> {
        let items = self.all(Query::prefix(&GG_CORE, partition(user), SUBSCRIPTION_PREFIX)).await?;
        Ok(items.into_iter().map(SubscriptionRow::from_item).collect::<Result<_, _>>()?)
    }

    /// A user's founder passes.
    pub async fn founder_passes(&self, user: &UserId) -> Result<Vec<PassRow>, StoreError> {
        let items = self.all(Query::prefix(&GG_CORE, partition(user), PASS_PREFIX)).await?;
        Ok(items.into_iter().map(PassRow::from_item).collect::<Result<_, _>>()?)
    }
}

fn keyed(partition: String, sort: &str) -> Item {
    let mut item = Item::new();
    item.set_text(PK, partition);
    item.set_text(SK, sort);
    item
}

fn number(item: &Item, name: &'static str) -> Result<u64, StoreError> {
    item.get(name)
        .and_then(Value::as_u64)
        .ok_or_else(|| unreadable(item, name, "is missing or not a number".to_owned()))
}

/// The Stripe event in a row of [`ENTITLEMENTS`].
///
/// # Errors
/// [`StoreError::Unreadable`] names the row.
pub fn stripe_event_of(item: &Item) -> Result<StripeEvent, StoreError> {
    StripeEvent::from_json(item.text(STRIPE_EVENT).unwrap_or_default())
        .map_err(|e| unreadable(item, STRIPE_EVENT, e.to_string()))
}

fn unreadable(item: &Item, attribute: &'static str, problem: String) -> StoreError {
    let key = format!("{}/{}", item.text(PK).unwrap_or("?"), item.text(SK).unwrap_or("?"));
    StoreError::Unreadable(ReadError { attribute: attribute.to_owned(), key, problem })
}
