//! The entitlement commit: events, changed rows, credit movements and the head, in one transaction.

use chrono::Months;
use dues_events::attributes::{DUES_RECORD, DUES_TIER, DUES_UNTIL, PROVIDER, TIER, UPDATED_AT};
use dues_events::entitlements::credits::partition;
use dues_events::entitlements::profile::profile_sort;
use dues_events::entitlements::stripe::StripeEvent;
use dues_events::{EventId, GoTime, Item, Movement, MovementId, Time, UserId, Value};
use dues_projections::entitlements::effective_tier::{EffectiveTier, ProfileView};
use dues_projections::entitlements::stripe::{Entitlement, fold, movements, regrant, rows};
use dues_store::engine::TRANSACTION;
use dues_store::entitlements::attention::{Attention, unlist_op};
use dues_store::entitlements::credits::{Booked, Booking, Terms};
use dues_store::entitlements::{Book, Head, fact_op};
use dues_store::table::GG_CORE;
use dues_store::{Condition, Edit, Engine, Key, Op, Store, StoreError};
use std::collections::{BTreeMap, HashSet};

use super::owner_links::ReleasedEvent;
use crate::entitlements::stripe_worker::STREAM;

/// Months granted per commit when not all fit into one, for a pass bought years ago.
const CATCH_UP_MONTHS: [Months; 4] = [Months::new(24), Months::new(12), Months::new(6), Months::new(1)];

/// The outcome of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommitOutcome {
    /// Everything is committed.
    Complete,
    /// Committed; more monthly grants are due than fit.
    Partial,
    /// The head has moved: nothing was written.
    Stale,
}

/// The entitlement after the commit, and the credit movements with their causes.
struct Transition {
    after: Entitlement,
    movements: Vec<(Movement, EventId)>,
}

/// The operations of a commit that grants months up to `until`.
struct PlannedCommit {
    until: Time,
    transition: Transition,
    ops: Vec<Op>,
}

impl PlannedCommit {
    /// Number of operations, with the movements and the balance.
    fn len(&self) -> usize {
        self.ops.len() + self.transition.movements.len() + 1
    }
}

fn plan<E: Engine>(
    store: &Store<E>,
    user: &UserId,
    book: &Book,
    before: &Entitlement,
    new: &[StripeEvent],
    released: &[ReleasedEvent],
    until: Time,
) -> Result<PlannedCommit, StoreError> {
    let now = store.clock.now();
    let transition = transition(book, before, new, until);
    let before_head = decode_effective_tier(&book.head)?;
    let after_head = before_head.clone().with_stripe(&transition.after);
    let head = Head {
        version: book.head.version + 1,
        facts: book.head.facts + new.len() as u64,
        counted_until: Some(until),
        ..book.head.clone()
    };
    let mut ops = head_ops(user, head, &before_head, after_head, now)?;
    for (event, place) in new.iter().zip(book.head.facts + 1..) {
        ops.push(fact_op(user, event, place, now)?);
    }
    ops.extend(row_ops(user, before, &transition.after));
    ops.extend(released.iter().flat_map(|released| released.waiting.done(STREAM)));
    Ok(PlannedCommit { until, transition, ops })
}

/// Commits new events of a user, the events they release, and due monthly grants.
pub(super) async fn commit<E: Engine>(
    store: &Store<E>,
    user: &UserId,
    book: &Book,
    new: Vec<StripeEvent>,
    released: &[ReleasedEvent],
) -> Result<CommitOutcome, StoreError> {
    // A clock that was set back takes no month away.
    let now = store.clock.now().max(book.head.counted_until.unwrap_or_default());
    let before = committed_state(book);
    let waited =
        released.iter().filter(|released| released.is_new).map(|released| released.waiting.event.clone());
    let new: Vec<StripeEvent> = new.into_iter().chain(waited).collect();
    let mut planned = plan(store, user, book, &before, &new, released, now)?;
    for months in CATCH_UP_MONTHS {
        if planned.len() <= TRANSACTION {
            break;
        }
        planned = plan(store, user, book, &before, &new, released, catch_up_until(book, &new, now, months))?;
    }
    let PlannedCommit { until, transition, ops } = planned;
    let terms = balance_terms(&before, &transition);
    let first = before.grants.is_empty() && decode_effective_tier(&book.head)?.paid_periods.is_empty();
    let (mut moves, causes): (Vec<Movement>, Vec<EventId>) = transition.movements.into_iter().unzip();
    loop {
        let booking = Booking { ops: ops.clone(), movements: moves.clone(), first, terms };
        match store.book(user, &booking).await? {
            Booked::Done => break,
            Booked::Stale => return Ok(CommitOutcome::Stale),
            // Granted, reversed, and granted again.
            Booked::Known(place) => match (moves.get_mut(place), causes.get(place)) {
                (Some(movement), Some(cause)) if !movement.id.as_str().ends_with(&format!("@{cause}")) => {
                    *movement = regrant(movement, cause)
                }
                (_, _) => return Ok(CommitOutcome::Stale),
            },
        }
    }
    Ok(if until < now { CommitOutcome::Partial } else { CommitOutcome::Complete })
}

/// Whether no monthly grant is due since the last commit.
pub(super) fn is_up_to_date(book: &Book, now: Time) -> bool {
    let now = now.max(book.head.counted_until.unwrap_or_default());
    book.facts.is_empty() || fold(&book.facts, now).grants == committed_state(book).grants
}

/// The entitlement that the user's rows show.
fn committed_state(book: &Book) -> Entitlement {
    fold(&book.facts, book.head.counted_until.unwrap_or_default())
}

/// Folds event by event, so that the ledger does not depend on how events are grouped into commits.
fn transition(book: &Book, before: &Entitlement, new: &[StripeEvent], until: Time) -> Transition {
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
            let movement = if used.contains(&movement.id) { regrant(&movement, &event.id) } else { movement };
            used.insert(movement.id.clone());
            moved.push((movement, event.id.clone()));
        }
        after = next;
    }
    Transition { after, movements: moved }
}

/// Some months after the last commit, or after the first event.
fn catch_up_until(book: &Book, new: &[StripeEvent], now: Time, months: Months) -> Time {
    let first = book.facts.iter().chain(new).map(|event| event.created).min().unwrap_or(now);
    let from = book.head.counted_until.unwrap_or(first).max(first);
    from.checked_add_months(months).map_or(now, |until| until.min(now))
}

/// The head of a booking at a time, and the rows that follow from it: the profile, if it shows something
/// else, and the listing of subscriptions that need attention. The first operation detects concurrent
/// bookings.
pub(super) fn head_ops(
    user: &UserId,
    head: Head,
    before: &EffectiveTier,
    mut after: EffectiveTier,
    now: Time,
) -> Result<Vec<Op>, StoreError> {
    after.mark_overdue(now);
    let (was, shown) = (before.view(now), after.view(now));
    let is_new = head.version <= 1;
    let differs =
        is_new || shown.tier != before.shown || (&shown.provider, &shown.dues) != (&was.provider, &was.dues);
    after.shown = shown.tier;
    let head = Head { effective_tier: encode_effective_tier(&after)?, timer: after.timer(now), ..head };
    let mut ops = vec![head.op(user)];
    if differs {
        ops.push(profile_op(user, &shown, now));
    }
    ops.extend(attention_ops(user, before, &after));
    Ok(ops)
}

fn attention_ops(user: &UserId, before: &EffectiveTier, after: &EffectiveTier) -> Vec<Op> {
    let overdue = |head: &EffectiveTier| {
        let overdue = head.subscriptions.iter().filter(|held| held.overdue);
        overdue.map(|held| (held.id.clone(), held.period_end)).collect::<BTreeMap<_, _>>()
    };
    let (was, is) = (overdue(before), overdue(after));
    let gone = was.keys().filter(|id| !is.contains_key(*id)).map(|id| unlist_op(user, id));
    let new = is.iter().filter(|(id, end)| was.get(*id) != Some(*end)).filter_map(|(id, end)| {
        Some(Attention { user: user.clone(), subscription: id.clone(), since: (*end)? }.list_op())
    });
    gone.chain(new).collect()
}

pub(crate) fn decode_effective_tier(head: &Head) -> Result<EffectiveTier, StoreError> {
    if head.effective_tier.is_empty() {
        return Ok(EffectiveTier::new());
    }
    serde_json::from_str(&head.effective_tier)
        .map_err(|e| StoreError::Invalid(format!("effective tier in a user's head: {e}")))
}

pub(super) fn encode_effective_tier(effective: &EffectiveTier) -> Result<String, StoreError> {
    serde_json::to_string(effective)
        .map_err(|e| StoreError::Invalid(format!("effective tier in a user's head: {e}")))
}

fn row_ops(user: &UserId, before: &Entitlement, after: &Entitlement) -> Vec<Op> {
    let (old, new) = (rows(user, before), rows(user, after));
    let gone = old.keys().filter(|sort| !new.contains_key(*sort));
    let gone = gone.map(|sort| {
        Op::Delete(&GG_CORE, Key { partition: partition(user), sort: Some(sort.clone()) }, Condition::Always)
    });
    let changed = new.iter().filter(|(sort, item)| old.get(*sort) != Some(*item));
    let changed = changed.map(|(_, item): (_, &Item)| Op::Put(&GG_CORE, item.clone(), Condition::Always));
    gone.chain(changed).collect()
}

/// Updates only our attributes: other services store theirs in the same row.
pub(super) fn profile_op(user: &UserId, shown: &ProfileView, now: Time) -> Op {
    let mut edits = vec![Edit::Set(UPDATED_AT, Value::text(GoTime::trimmed(now).text()))];
    // Without a fact about the tier, another writer's stays.
    edits.extend(shown.tier.map(|tier| Edit::Set(TIER, Value::text(tier.as_str()))));
    edits.extend(shown.provider.map(|provider| Edit::Set(PROVIDER, Value::text(provider.as_str()))));
    match &shown.dues {
        Some(dues) => edits.extend([
            Edit::Set(DUES_TIER, Value::text(dues.tier.as_str())),
            Edit::Set(DUES_UNTIL, Value::text(dues.until.text())),
            Edit::Set(DUES_RECORD, Value::text(dues.record.as_str())),
        ]),
        None => edits.extend([DUES_TIER, DUES_UNTIL, DUES_RECORD].map(Edit::Remove)),
    }
    Op::Update(
        &GG_CORE,
        Key { partition: partition(user), sort: Some(profile_sort(user)) },
        edits,
        Condition::Always,
    )
}

/// The expiry terms of the balance. Credits do not expire while a founder pass grants monthly.
fn balance_terms(before: &Entitlement, transition: &Transition) -> Option<Terms> {
    match (before.next_grant, transition.after.next_grant) {
        (was, Some(next)) if was != Some(next) || !transition.movements.is_empty() => {
            Some(Terms::Lasting { next_grant: next })
        }
        (Some(_), None) => Some(Terms::Ordinary),
        (_, _) => None,
    }
}
