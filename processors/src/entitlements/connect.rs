//! Events find their user by the objects that they name.

use dues_events::UserId;
use dues_events::stripe::StripeEvent;
use dues_store::entitlements::{Book, Waiting};
use dues_store::{Engine, Store, StoreError};
use futures::future::try_join_all;
use std::collections::{BTreeSet, HashSet};

use crate::stripe::STREAM;

/// An event that does not have to wait any more.
pub(super) struct Released {
    pub(super) waiting: Waiting,
    /// Whether it has to be booked. Delivered again, it may have found its user already.
    pub(super) is_new: bool,
}

impl Released {
    /// How many operations of a transaction it takes: itself, what it may move, and the end of its waiting.
    pub(super) fn weight(&self) -> usize {
        usize::from(self.is_new) * 2 + self.waiting.done(STREAM).len()
    }
}

/// Notes whose the objects of new events are, and gives the events that waited to know. Those may name objects that others wait for: each comes
/// behind the one that has led to it.
///
/// It is done before the events are booked: a crash in between leaves links, and the events, told again, find what waits once more. Objects that
/// only those have named that had to be led here themselves are looked at again, for the same reason.
pub(super) async fn connect<E: Engine>(
    store: &Store<E>,
    user: &UserId,
    book: &Book,
    new: &[StripeEvent],
) -> Result<Vec<Released>, StoreError> {
    let mut seen: HashSet<String> =
        book.facts.iter().filter(|event| event.user().is_some()).flat_map(StripeEvent::objects).map(str::to_owned).collect();
    let mut known: HashSet<_> = book.facts.iter().chain(new).map(|event| event.id.clone()).collect();
    let mut objects: BTreeSet<String> = new.iter().flat_map(StripeEvent::objects).map(str::to_owned).collect();
    let mut released: Vec<Released> = Vec::new();
    while !objects.is_empty() {
        let unlinked: Vec<String> = objects.into_iter().filter(|object| seen.insert(object.clone())).collect();
        let links = try_join_all(unlinked.iter().map(|object| store.link(object, user))).await?;
        objects = BTreeSet::new();
        for (object, linked) in unlinked.iter().zip(links) {
            if linked.user != *user {
                tracing::warn!(object, %user, owner = %linked.user, "two users name one object: events that only name it go to the first");
            }
            for waiting in linked.waiting {
                let is_new = known.insert(waiting.event.id.clone());
                objects.extend(waiting.event.objects().into_iter().map(str::to_owned));
                if released.iter().all(|known: &Released| known.waiting.event.id != waiting.event.id) {
                    released.push(Released { waiting, is_new });
                }
            }
        }
    }
    Ok(released)
}
