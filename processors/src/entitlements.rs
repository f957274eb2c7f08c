//! What a user is entitled to: Stripe's events and the dues by ACH come in, and the profile, subscriptions, passes and credits that follow from
//! them are booked in the same transaction.
//!
//! ```text
//! event ──► the user's book (all events so far) ──fold──► before │ after ──► rows that differ, credits that move, the head moved on
//! ```
//!
//! The fold takes a set, so the order of delivery cannot matter; the head's version lets one booking through at a time, so nobody books on what
//! is out of date; and an event that is in the book is never booked again. There is nothing half done to be found after a crash.

mod access;
mod booking;
mod connect;
mod dues;

pub use access::{access, consume, credits};
pub(crate) use booking::read_standing;
pub use dues::{DuesTold, dues};

use dues_events::stripe::StripeEvent;
use dues_events::{Stamp, UserId};
use dues_store::entitlements::Book;
use dues_store::{Engine, Store, StoreError};
use std::collections::HashMap;

use booking::{Commit, commit};
use connect::{Released, connect};

/// How many events are booked at once: with all that may follow from them they fit into one transaction.
const TOGETHER: usize = 10;
/// How many operations of a booking are left to events that waited, beside others or by themselves.
const BESIDE: usize = 40;
const ALONE: usize = 60;
/// How often a booking is tried that others were faster than.
const TRIES: u32 = 50;

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It is in the book now.
    Applied,
    /// It was in the book.
    Duplicate,
    /// Another event with its id is in the book.
    Different,
}

/// Tells what Stripe's events say of a user. Gives what became of each.
///
/// # Errors
/// What the store could not do. Some of the events may have been booked: told again they are duplicates.
pub async fn tell<E: Engine>(store: &Store<E>, user: &UserId, events: &[StripeEvent]) -> Result<Vec<Told>, StoreError> {
    let mut told = Vec::with_capacity(events.len());
    for some in events.chunks(TOGETHER) {
        told.extend(tell_some(store, user, some).await?);
    }
    Ok(told)
}

async fn tell_some<E: Engine>(store: &Store<E>, user: &UserId, events: &[StripeEvent]) -> Result<Vec<Told>, StoreError> {
    for _ in 0..TRIES {
        let book = store.entitlement_book(user).await?;
        let told = sorted_out(&book, events);
        let new: Vec<StripeEvent> =
            events.iter().zip(&told).filter(|(_, told)| **told == Told::Applied).map(|(event, _)| event.clone()).collect();
        if new.is_empty() {
            return Ok(told);
        }
        let mut released = connect(store, user, &book, &new).await?;
        if weight(&released) > BESIDE {
            // Those at the end of the chain first: what has led to them still does, should this be cut short.
            let mut cut = released.len();
            while cut > 0 && weight(&released[cut - 1..]) <= ALONE {
                cut -= 1;
            }
            commit(store, user, &book, Vec::new(), &released.split_off(cut)).await?;
            continue;
        }
        match commit(store, user, &book, new, &released).await? {
            Commit::Whole => return Ok(told),
            // The rest is what time has brought.
            Commit::InPart => return refresh(store, user).await.map(|()| told),
            Commit::Stale => {}
        }
    }
    Err(StoreError::Contended(TRIES))
}

/// Brings what time alone brings: the months of a founder pass that have begun.
///
/// # Errors
/// What the store could not do.
pub async fn refresh<E: Engine>(store: &Store<E>, user: &UserId) -> Result<(), StoreError> {
    for _ in 0..TRIES {
        let book = store.entitlement_book(user).await?;
        if booking::is_up_to_date(&book, store.clock.now()) {
            return Ok(());
        }
        // Whether or not somebody was faster: there may be more than fits into one.
        commit(store, user, &book, Vec::new(), &[]).await?;
    }
    Err(StoreError::Contended(TRIES))
}

fn weight(released: &[Released]) -> usize {
    released.iter().map(Released::weight).sum()
}

/// What is to become of each event, by the book and by those before it.
fn sorted_out(book: &Book, events: &[StripeEvent]) -> Vec<Told> {
    let mut known: HashMap<_, _> = book.facts.iter().map(|event| (&event.id, &event.stamp)).collect();
    let told = |event: &StripeEvent, known: Option<&Stamp>| match known {
        None => Told::Applied,
        Some(stamp) if stamp.same_event(&event.stamp) => Told::Duplicate,
        Some(_) => Told::Different,
    };
    let mut all = Vec::with_capacity(events.len());
    for event in events {
        all.push(told(event, known.get(&event.id).copied()));
        known.entry(&event.id).or_insert(&event.stamp);
    }
    all
}
