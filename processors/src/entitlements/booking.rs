//! One booking: the events, the rows that differ, the credits that move and the head, in one transaction.

use chrono::Months;
use dues_events::attr::{DUES_RECORD, DUES_TIER, DUES_UNTIL, PROVIDER, TIER, UPDATED_AT};
use dues_events::credits::partition;
use dues_events::profile::profile_sort;
use dues_events::stripe::StripeEvent;
use dues_events::{EventId, GoTime, Item, Movement, MovementId, Time, UserId, Value};
use dues_projections::entitlement::{Entitlement, again, fold, movements, rows};
use dues_projections::standing::{Shown, Standing};
use dues_store::credits::{Booked, Booking, Terms};
use dues_store::engine::TRANSACTION;
use dues_store::entitlements::{Book, Head, fact_op};
use dues_store::table::GG_CORE;
use dues_store::{Condition, Edit, Engine, Key, Op, Store, StoreError};
use std::collections::HashSet;

use super::connect::Released;
use crate::stripe::STREAM;

/// How many months are booked at once when not all fit: a pass is told of that was bought years ago.
const STRIDES: [Months; 4] = [Months::new(24), Months::new(12), Months::new(6), Months::new(1)];

/// What became of a booking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Commit {
    /// It is done.
    Whole,
    /// It is done as far as there was room for it: time has brought more.
    InPart,
    /// Somebody else was faster: nothing was done.
    Stale,
}

/// What is booked.
struct Step {
    after: Entitlement,
    movements: Vec<(Movement, EventId)>,
}

/// A booking, up to a time.
struct Attempt {
    until: Time,
    step: Step,
    ops: Vec<Op>,
}

impl Attempt {
    /// How many operations it has, the balance's among them.
    fn len(&self) -> usize {
        self.ops.len() + self.step.movements.len() + 1
    }
}

fn attempt<E: Engine>(
    store: &Store<E>,
    user: &UserId,
    book: &Book,
    before: &Entitlement,
    new: &[StripeEvent],
    released: &[Released],
    until: Time,
) -> Result<Attempt, StoreError> {
    let now = store.clock.now();
    let step = step(book, before, new, until);
    let (head, profile) = moved_on(book, &step.after, new.len(), until)?;
    let mut ops = vec![head.op(user)];
    for (event, place) in new.iter().zip(book.head.facts + 1..) {
        ops.push(fact_op(user, event, place, now)?);
    }
    ops.extend(row_ops(user, before, &step.after));
    ops.extend(profile.map(|shown| profile_op(user, &shown, now)));
    ops.extend(released.iter().flat_map(|released| released.waiting.done(STREAM)));
    Ok(Attempt { until, step, ops })
}

/// Books new events of a user, those that waited for them, and what time has brought.
pub(super) async fn commit<E: Engine>(
    store: &Store<E>,
    user: &UserId,
    book: &Book,
    new: Vec<StripeEvent>,
    released: &[Released],
) -> Result<Commit, StoreError> {
    let now = store.clock.now();
    let before = state(book);
    let waited = released.iter().filter(|released| released.is_new).map(|released| released.waiting.event.clone());
    let new: Vec<StripeEvent> = new.into_iter().chain(waited).collect();
    let mut booked = attempt(store, user, book, &before, &new, released, now)?;
    for months in STRIDES {
        if booked.len() <= TRANSACTION {
            break;
        }
        booked = attempt(store, user, book, &before, &new, released, stride(book, &new, now, months))?;
    }
    let Attempt { until, step, ops } = booked;
    let terms = terms(&before, &step);
    let first = before.grants.is_empty() && read_standing(&book.head)?.notes.is_empty();
    let (mut moves, causes): (Vec<Movement>, Vec<EventId>) = step.movements.into_iter().unzip();
    loop {
        let booking = Booking { ops: ops.clone(), movements: moves.clone(), first, terms };
        match store.book(user, &booking).await? {
            Booked::Done => break,
            Booked::Stale => return Ok(Commit::Stale),
            // It was granted, taken back, and is granted again.
            Booked::Known(place) => match (moves.get_mut(place), causes.get(place)) {
                (Some(movement), Some(cause)) if !movement.id.as_str().ends_with(&format!("@{cause}")) => {
                    *movement = again(movement, cause)
                }
                (_, _) => return Ok(Commit::Stale),
            },
        }
    }
    Ok(if until < now { Commit::InPart } else { Commit::Whole })
}

/// Whether time has brought nothing since the last booking.
pub(super) fn is_up_to_date(book: &Book, now: Time) -> bool {
    book.facts.is_empty() || fold(&book.facts, now).grants == state(book).grants
}

/// The state that the user's rows are in.
fn state(book: &Book) -> Entitlement {
    fold(&book.facts, book.head.seen.unwrap_or_default())
}

/// One event after the other, so that the ledger tells the same however they are cut into bookings.
fn step(book: &Book, before: &Entitlement, new: &[StripeEvent], until: Time) -> Step {
    let mut facts = book.facts.clone();
    let mut after = fold(&facts, until);
    let months = EventId::from("months");
    let mut moved: Vec<(Movement, EventId)> =
        movements(before, &after, (&months, until)).into_iter().map(|m| (m, months.clone())).collect();
    let mut used: HashSet<MovementId> = moved.iter().map(|(movement, _)| movement.id.clone()).collect();
    for event in new {
        facts.push(event.clone());
        let next = fold(&facts, until);
        for movement in movements(&after, &next, (&event.id, event.created)) {
            let movement = if used.contains(&movement.id) { again(&movement, &event.id) } else { movement };
            used.insert(movement.id.clone());
            moved.push((movement, event.id.clone()));
        }
        after = next;
    }
    Step { after, movements: moved }
}

/// Some months further than the last booking, or than the first event.
fn stride(book: &Book, new: &[StripeEvent], now: Time, months: Months) -> Time {
    let first = book.facts.iter().chain(new).map(|event| event.created).min().unwrap_or(now);
    let from = book.head.seen.unwrap_or(first).max(first);
    from.checked_add_months(months).map_or(now, |until| until.min(now))
}

/// The head after the booking, and the profile if it shows something else then.
fn moved_on(book: &Book, after: &Entitlement, new: usize, until: Time) -> Result<(Head, Option<Shown>), StoreError> {
    let before = read_standing(&book.head)?;
    let standing = Standing {
        subscribed: after.tier,
        passes: after.pass_tier(),
        provider: after.provider,
        next_grant: after.next_grant,
        notes: before.notes.clone(),
    };
    let head = Head {
        version: book.head.version + 1,
        facts: book.head.facts + new as u64,
        seen: Some(until),
        standing: write_standing(&standing)?,
    };
    let shown = standing.shown();
    let differs = book.head.version == 0 || shown != before.shown();
    Ok((head, differs.then_some(shown)))
}

pub(crate) fn read_standing(head: &Head) -> Result<Standing, StoreError> {
    if head.standing.is_empty() {
        return Ok(Standing::default());
    }
    serde_json::from_str(&head.standing).map_err(|e| StoreError::Invalid(format!("standing of a user's head: {e}")))
}

pub(super) fn write_standing(standing: &Standing) -> Result<String, StoreError> {
    serde_json::to_string(standing).map_err(|e| StoreError::Invalid(format!("standing of a user's head: {e}")))
}

fn row_ops(user: &UserId, before: &Entitlement, after: &Entitlement) -> Vec<Op> {
    let (old, new) = (rows(user, before), rows(user, after));
    let gone = old.keys().filter(|sort| !new.contains_key(*sort));
    let gone = gone.map(|sort| Op::Delete(&GG_CORE, Key { partition: partition(user), sort: Some(sort.clone()) }, Condition::Always));
    let changed = new.iter().filter(|(sort, item)| old.get(*sort) != Some(*item));
    let changed = changed.map(|(_, item): (_, &Item)| Op::Put(&GG_CORE, item.clone(), Condition::Always));
    gone.chain(changed).collect()
}

/// Only what is ours: others keep their own in the profile.
pub(super) fn profile_op(user: &UserId, shown: &Shown, now: Time) -> Op {
    let mut edits =
        vec![Edit::Set(TIER, Value::text(shown.tier.as_str())), Edit::Set(UPDATED_AT, Value::text(GoTime::trimmed(now).text()))];
    edits.extend(shown.provider.map(|provider| Edit::Set(PROVIDER, Value::text(provider.as_str()))));
    match &shown.dues {
        Some(dues) => edits.extend([
            Edit::Set(DUES_TIER, Value::text(dues.tier.as_str())),
            Edit::Set(DUES_UNTIL, Value::text(dues.until.text())),
            Edit::Set(DUES_RECORD, Value::text(dues.record.as_str())),
        ]),
        None => edits.extend([DUES_TIER, DUES_UNTIL, DUES_RECORD].map(Edit::Remove)),
    }
    Op::Update(&GG_CORE, Key { partition: partition(user), sort: Some(profile_sort(user)) }, edits, Condition::Always)
}

/// How the balance goes on. A founder pass brings credits every month, so that none of them expire.
fn terms(before: &Entitlement, step: &Step) -> Option<Terms> {
    match (before.next_grant, step.after.next_grant) {
        (was, Some(next)) if was != Some(next) || !step.movements.is_empty() => Some(Terms::Lasting { next_grant: next }),
        (Some(_), None) => Some(Terms::Ordinary),
        (_, _) => None,
    }
}
