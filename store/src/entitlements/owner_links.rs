//! Owner links: which user a Stripe object belongs to. A refund names a payment and no user: the event of
//! that payment has set the link, or will.
//!
//! Both sides meet in one row for each object. The write that sets the owner also returns whether events
//! wait; a waiting event registers first, and checks the owner again at the end. So no event waits for a
//! link that exists.

use dues_events::attributes::{PARKED_ID, STRIPE_EVENT, USER_ID, WAITERS};
use dues_events::entitlements::stripe::StripeEvent;
use dues_events::{Item, UserId, Value};
use futures::future::try_join_all;

use super::{keyed, stripe_event_of};
use crate::billing::Store;
use crate::engine::{Condition, Edit, Engine, Key, Op, Query, StoreError, Updated};
use crate::parked::Parked;
use crate::table::{ENTITLEMENTS, PARKED};

/// The sort key of a link.
const LINK: &str = "LINK";
/// Prefix of the sort key of a waiting event.
const WAIT: &str = "WAIT#";

/// The owner of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The user, if a link is known.
    pub user: Option<UserId>,
    /// Whether events have ever waited for one of its objects: this event may have been one of them.
    pub was_waited_for: bool,
}

/// Outcome of setting a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linked {
    /// The owner of the object: the first one that was set.
    pub user: UserId,
    /// The events that wait for it.
    pub waiting: Vec<Waiting>,
}

/// An event that waits for its owner. Until then it is also visible among the parked records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The event.
    pub event: StripeEvent,
    /// Its id among the parked records of its stream.
    pub parked: String,
}

impl Waiting {
    /// Operations that end the wait: delete the event's wait rows for all its objects, and its parked record
    /// of that stream.
    #[must_use]
    pub fn done(&self, stream: &str) -> Vec<Op> {
        let waits = self
            .event
            .objects()
            .into_iter()
            .map(|object| Op::Delete(&ENTITLEMENTS, wait_key(object, &self.event), Condition::Always));
        let parked = Key { partition: stream.to_owned(), sort: Some(self.parked.clone()) };
        waits.chain([Op::Delete(&PARKED, parked, Condition::Always)]).collect()
    }
}

impl<E: Engine> Store<E> {
    /// The owner of an event: that of its first object with a link.
    pub async fn owner(&self, event: &StripeEvent) -> Result<Owner, StoreError> {
        let reads =
            event.objects().into_iter().map(|object| self.engine.get(&ENTITLEMENTS, link_key(object)));
        let links: Vec<Item> = try_join_all(reads).await?.into_iter().flatten().collect();
        Ok(Owner { user: links.iter().find_map(owner_in), was_waited_for: links.iter().any(has_waiters) })
    }

    /// The owner of a Stripe object (a payment, charge, subscription or customer), if its link is known.
    pub async fn owner_of(&self, object: &str) -> Result<Option<UserId>, StoreError> {
        Ok(self.engine.get(&ENTITLEMENTS, link_key(object)).await?.as_ref().and_then(owner_in))
    }

    /// Sets the owner of an object, unless it has one.
    pub async fn link(&self, object: &str, user: &UserId) -> Result<Linked, StoreError> {
        let condition = Condition::Any(vec![
            Condition::Missing(USER_ID),
            Condition::Equals(USER_ID, Value::text(user.as_str())),
        ]);
        let edits = vec![Edit::Set(USER_ID, Value::text(user.as_str()))];
        let there = match self.engine.update(&ENTITLEMENTS, link_key(object), edits, condition).await? {
            Updated::Done(item) => Some(item),
            Updated::Refused(there) => there,
        };
        let owner = there.as_deref().and_then(owner_in).unwrap_or_else(|| user.clone());
        let waiting = if there.as_deref().is_some_and(has_waiters) && owner == *user {
            self.waiting_for(object).await?
        } else {
            Vec::new()
        };
        Ok(Linked { user: owner, waiting })
    }

    /// Makes an event wait for all of its objects, visible among the parked records. Returns the owner, if
    /// one was linked in the meantime.
    pub async fn wait_for_owner(
        &self,
        event: &StripeEvent,
        parked: &Parked,
    ) -> Result<Option<UserId>, StoreError> {
        let objects = event.objects();
        let count = |object: &&str| {
            self.engine.update(
                &ENTITLEMENTS,
                link_key(object),
                vec![Edit::Add(WAITERS, 1)],
                Condition::Always,
            )
        };
        try_join_all(objects.iter().map(count)).await?;
        let json = event.to_json().map_err(|e| StoreError::Invalid(format!("event {}: {e}", event.id)))?;
        let waits = objects.into_iter().map(|object| {
            let Key { partition, sort } = wait_key(object, event);
            let mut item = keyed(partition, &sort.unwrap_or_default());
            item.set_text(STRIPE_EVENT, json.as_str());
            item.set_text(PARKED_ID, parked.id.as_str());
            self.engine.put(&ENTITLEMENTS, item, Condition::Always)
        });
        try_join_all(waits).await?;
        self.park(parked).await?;
        // A link that was set after the first of these writes may have missed some of them.
        self.owner(event).await.map(|owner| owner.user)
    }

    async fn waiting_for(&self, object: &str) -> Result<Vec<Waiting>, StoreError> {
        let items = self.all(Query::prefix(&ENTITLEMENTS, link_partition(object), WAIT)).await?;
        let read = |item: Item| {
            let parked = item.text(PARKED_ID).unwrap_or_default().to_owned();
            Ok(Waiting { event: stripe_event_of(&item)?, parked })
        };
        items.into_iter().map(read).collect()
    }
}

fn owner_in(item: &Item) -> Option<UserId> {
    item.text(USER_ID).map(UserId::from)
}

fn has_waiters(item: &Item) -> bool {
    item.get(WAITERS).and_then(Value::as_u64).is_some_and(|waiters| waiters > 0)
}

fn link_partition(object: &str) -> String {
    format!("STRIPE#{object}")
}

fn link_key(object: &str) -> Key {
    Key { partition: link_partition(object), sort: Some(LINK.to_owned()) }
}

fn wait_key(object: &str, event: &StripeEvent) -> Key {
    Key { partition: link_partition(object), sort: Some(format!("{WAIT}{}", event.id)) }
}
