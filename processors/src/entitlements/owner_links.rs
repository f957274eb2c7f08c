//! Owner links: an event without a user belongs to the owner of the Stripe objects it references.

use dues_events::UserId;
use dues_events::entitlements::stripe::StripeEvent;
use dues_store::entitlements::{Book, Waiting};
use dues_store::{Engine, Store, StoreError};
use futures::future::try_join_all;
use std::collections::{BTreeSet, HashSet};

use crate::entitlements::stripe_worker::STREAM;

/// A waiting event with an owner that is known now.
pub(super) struct ReleasedEvent {
    pub(super) waiting: Waiting,
    /// Whether it must be recorded. A redelivery may have recorded it already.
    pub(super) is_new: bool,
}

impl ReleasedEvent {
    /// Transaction operations: the event, its movement, and the removal of its waiting rows.
    pub(super) fn op_count(&self) -> usize {
        usize::from(self.is_new) * 2 + self.waiting.done(STREAM).len()
    }
}

/// Links the objects of new events to their owner and returns the events that waited for those links. A
/// released event may release others, which follow it in the result.
///
/// Links are written before the events are recorded: after a crash, the redelivered events find the waiting
/// ones again. For the same reason, objects referenced only by released events are checked again.
pub(super) async fn link_owners<E: Engine>(
    store: &Store<E>,
    user: &UserId,
    book: &Book,
    new: &[StripeEvent],
) -> Result<Vec<ReleasedEvent>, StoreError> {
    let mut linked_objects: HashSet<String> = book
        .facts
        .iter()
        .filter(|event| event.user().is_some())
        .flat_map(StripeEvent::objects)
        .map(str::to_owned)
        .collect();
    let mut known: HashSet<_> = book.facts.iter().chain(new).map(|event| event.id.clone()).collect();
    let mut objects: BTreeSet<String> =
        new.iter().flat_map(StripeEvent::objects).map(str::to_owned).collect();
    let mut released: Vec<ReleasedEvent> = Vec::new();
    while !objects.is_empty() {
        let unlinked: Vec<String> =
            objects.into_iter().filter(|object| linked_objects.insert(object.clone())).collect();
        let links = try_join_all(unlinked.iter().map(|object| store.link(object, user))).await?;
        objects = BTreeSet::new();
        for (object, linked) in unlinked.iter().zip(links) {
            if linked.user != *user {
                tracing::warn!(
                    object,
                    %user,
                    owner = %linked.user,
                    "object referenced by two users: its events belong to the first"
                );
            }
            for waiting in linked.waiting {
                let is_new = known.insert(waiting.event.id.clone());
                objects.extend(waiting.event.objects().into_iter().map(str::to_owned));
                if released.iter().all(|known: &ReleasedEvent| known.waiting.event.id != waiting.event.id) {
                    released.push(ReleasedEvent { waiting, is_new });
                }
            }
        }
    }
    Ok(released)
}
