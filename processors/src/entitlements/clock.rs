//! `entitlement-clock`: the moments at which an entitlement changes without an event. A period ends, a month
//! of a founder pass or of a paid year brings its credits, a renewal at Stripe is overdue.
//!
//! Each head names its next moment as a timer, in an index. A run reads the timers that are due, and books
//! each member like any event: head, profile and credits in one transaction, on the head's version. So two
//! runs at once book a moment once, a crash leaves a timer that is still due, and an outage is caught up by
//! the next run. A timer that a clock set back sees in the future is not due yet.

use dues_events::{EventId, GoTime, Movement, MovementKind, Time, UserId};
use dues_projections::entitlements::dues::{TierMap, entitlement_changes, month_grant};
use dues_projections::entitlements::effective_tier::{EffectiveTier, MonthOfYear, SCHEMA};
use dues_projections::entitlements::stripe::fold;
use dues_store::entitlements::Head;
use dues_store::entitlements::credits::{Booked, Booking, Terms};
use dues_store::entitlements::timers::{BUCKETS, bucket};
use dues_store::{Engine, Store, StoreError};
use futures::stream::{StreamExt as _, iter};
use serde::Serialize;

use super::entitlement_commit::{decode_effective_tier, head_ops};
use super::{MAX_COMMIT_ATTEMPTS, refresh};

/// Buckets queried at once.
const PARALLEL_BUCKETS: usize = 4;
/// Members of a bucket booked at once.
const PARALLEL_MEMBERS: usize = 16;

/// Counts of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ClockReport {
    /// Members with a timer that was due.
    pub due: u64,
    /// Members that were booked; the others had been booked by another run.
    pub booked: u64,
    /// Members with another tier in their profile now.
    pub tiers: u64,
    /// Months of paid years that brought their credits.
    pub months: u64,
    /// Subscriptions at Stripe that were listed for attention.
    pub attention: u64,
    /// Heads of an earlier version that were rebuilt.
    pub rebuilt: u64,
    /// Members that could not be booked.
    pub failed: u64,
    /// The first failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl ClockReport {
    fn add(mut self, other: Self) -> Self {
        self.due += other.due;
        self.booked += other.booked;
        self.tiers += other.tiers;
        self.months += other.months;
        self.attention += other.attention;
        self.rebuilt += other.rebuilt;
        self.failed += other.failed;
        self.failure = self.failure.or(other.failure);
        self
    }

    fn of_failure(user: &UserId, error: &StoreError) -> Self {
        Self { failed: 1, failure: Some(format!("{user}: {error}")), ..Self::default() }
    }

    /// Fails if a member could not be booked.
    ///
    /// # Errors
    /// Names the first member and the failure.
    pub fn check(&self) -> Result<(), String> {
        match &self.failure {
            None => Ok(()),
            Some(first) => Err(format!("{} members were not booked; the first: {first}", self.failed)),
        }
    }
}

/// Books every timer that is due now. A member that cannot be booked is counted, and holds up no other.
///
/// # Errors
/// Any [`StoreError`] of reading the timers. Run it again: it is idempotent.
pub async fn entitlement_clock<E: Engine>(
    store: &Store<E>,
    tiers: &TierMap,
) -> Result<ClockReport, StoreError> {
    let mut report = rebuild_outdated(store, tiers).await?;
    let now = store.clock.now();
    let mut buckets = iter((0..BUCKETS).map(|number| run_bucket(store, tiers, number, now)))
        .buffer_unordered(PARALLEL_BUCKETS);
    while let Some(done) = buckets.next().await {
        report = report.add(done?);
    }
    Ok(report)
}

async fn run_bucket<E: Engine>(
    store: &Store<E>,
    tiers: &TierMap,
    number: u32,
    now: Time,
) -> Result<ClockReport, StoreError> {
    let (bucket, mut start, mut report) = (bucket(number), None, ClockReport::default());
    loop {
        let page = store.due_timers(&bucket, now, start).await?;
        let mut visits = iter(page.users.into_iter().map(|user| visit(store, tiers, user, now)))
            .buffer_unordered(PARALLEL_MEMBERS);
        while let Some(visited) = visits.next().await {
            report = report.add(visited);
        }
        drop(visits);
        match page.next {
            Some(next) => start = Some(next),
            None => return Ok(report),
        }
    }
}

async fn visit<E: Engine>(store: &Store<E>, tiers: &TierMap, user: UserId, now: Time) -> ClockReport {
    let report = match book_due(store, tiers, &user, now).await {
        Ok(report) => report,
        Err(error) => ClockReport::of_failure(&user, &error),
    };
    ClockReport { due: 1, ..report }
}

/// Books what has fallen due for a member, until the head's timer lies ahead.
async fn book_due<E: Engine>(
    store: &Store<E>,
    tiers: &TierMap,
    user: &UserId,
    now: Time,
) -> Result<ClockReport, StoreError> {
    let mut report = ClockReport::default();
    for _ in 0..MAX_COMMIT_ATTEMPTS {
        let head = store.entitlement_head(user).await?;
        // Another run, or an event, was first.
        if head.timer.is_none_or(|timer| timer > now) {
            return Ok(report);
        }
        let before = decode_effective_tier(&head)?;
        if before.is_outdated() {
            report.rebuilt += u64::from(rebuild_head(store, tiers, user).await?);
        } else if before.next_grant.is_some_and(|next| next <= now) {
            // The months of a pass follow from Stripe's events, so they are read too.
            refresh(store, user).await?;
            let after = decode_effective_tier(&store.entitlement_head(user).await?)?;
            report.booked = 1;
            report.tiers += u64::from(after.shown != before.shown);
        } else if let Some(booked) = book_moment(store, user, &head, before, now).await? {
            report = report.add(booked);
            report.booked = 1;
        }
    }
    Err(StoreError::Contended(MAX_COMMIT_ATTEMPTS))
}

/// Books a moment on top of that head; `None` when the head has moved.
async fn book_moment<E: Engine>(
    store: &Store<E>,
    user: &UserId,
    head: &Head,
    before: EffectiveTier,
    now: Time,
) -> Result<Option<ClockReport>, StoreError> {
    let months = before.months_due(now);
    let mut after = before.clone();
    after.count_months(&months);
    after.mark_overdue(now);
    let overdue = |head: &EffectiveTier| head.subscriptions.iter().filter(|held| held.overdue).count();
    let booked = ClockReport {
        tiers: u64::from(after.view(now).tier != before.shown),
        months: months.len() as u64,
        attention: (overdue(&after) - overdue(&before)) as u64,
        ..ClockReport::default()
    };
    let next = Head { version: head.version + 1, ..head.clone() };
    let ops = head_ops(user, next, &before, after, now)?;
    let mut movements: Vec<Movement> = months.iter().map(month_movement).collect();
    loop {
        let terms = before.next_grant.filter(|_| !movements.is_empty());
        let terms = terms.map(|next_grant| Terms::Lasting { next_grant });
        let booking = Booking { ops: ops.clone(), movements: movements.clone(), first: false, terms };
        match store.book(user, &booking).await? {
            Booked::Done => return Ok(Some(booked)),
            Booked::Stale => return Ok(None),
            // A head that was rebuilt has forgotten its count: the ledger still has the movement.
            Booked::Known(place) if place < movements.len() => drop(movements.remove(place)),
            Booked::Known(_) => return Ok(None),
        }
    }
}

/// The credits of a later month of a paid year.
fn month_movement(month: &MonthOfYear) -> Movement {
    Movement {
        id: month_grant(&month.record, &month.settled, month.month),
        kind: MovementKind::Grant,
        amount: month.tier.monthly_credits().into(),
        at: month.at,
        source: EventId::from(format!("month {} of {}", month.month + 1, month.record)),
        payment: None,
        takes_back: None,
        feature: None,
    }
}

/// Rebuilds the heads that an earlier version wrote, once: a row records that every head is up to date.
async fn rebuild_outdated<E: Engine>(store: &Store<E>, tiers: &TierMap) -> Result<ClockReport, StoreError> {
    let mut report = ClockReport::default();
    if store.heads_reached().await? >= SCHEMA.into() {
        return Ok(report);
    }
    let mut start = None;
    loop {
        let page = store.users_with_heads(start).await?;
        let mut visits = iter(page.users.into_iter().map(|user| visit_outdated(store, tiers, user)))
            .buffer_unordered(PARALLEL_MEMBERS);
        while let Some(visited) = visits.next().await {
            report = report.add(visited);
        }
        drop(visits);
        match page.next {
            Some(next) => start = Some(next),
            None => break,
        }
    }
    if report.failed == 0 {
        store.set_heads_reached(SCHEMA.into()).await?;
    }
    Ok(report)
}

async fn visit_outdated<E: Engine>(store: &Store<E>, tiers: &TierMap, user: UserId) -> ClockReport {
    match rebuild_head(store, tiers, &user).await {
        Ok(rebuilt) => ClockReport { rebuilt: rebuilt.into(), ..ClockReport::default() },
        Err(error) => ClockReport::of_failure(&user, &error),
    }
}

/// Rebuilds a head that an earlier version wrote from the user's facts: Stripe's events and billing history.
/// Returns whether it did; one that is up to date stays as it is.
async fn rebuild_head<E: Engine>(
    store: &Store<E>,
    tiers: &TierMap,
    user: &UserId,
) -> Result<bool, StoreError> {
    for _ in 0..MAX_COMMIT_ATTEMPTS {
        if !decode_effective_tier(&store.entitlement_head(user).await?)?.is_outdated() {
            return Ok(false);
        }
        let history = store.committed_history_of_user(user).await?;
        let book = store.entitlement_book(user).await?;
        let before = decode_effective_tier(&book.head)?;
        let stripe = fold(&book.facts, book.head.counted_until.unwrap_or_default());
        let after = EffectiveTier::of_facts(&stripe, &entitlement_changes(&history, tiers, None));
        let next = Head { version: book.head.version + 1, ..book.head.clone() };
        let ops = head_ops(user, next, &before, after, store.clock.now())?;
        match store.book(user, &Booking { ops, movements: Vec::new(), first: false, terms: None }).await? {
            Booked::Done => return Ok(true),
            Booked::Stale | Booked::Known(_) => {}
        }
    }
    Err(StoreError::Contended(MAX_COMMIT_ATTEMPTS))
}

/// One line about a run.
#[must_use]
pub fn summary(report: &ClockReport, now: Time) -> String {
    format!(
        "{} timers due up to {}: {} members booked, {} tiers changed, {} months of paid years granted, \
         {} subscriptions listed for attention",
        report.due,
        GoTime::trimmed(now).text(),
        report.booked,
        report.tiers,
        report.months,
        report.attention
    )
}
