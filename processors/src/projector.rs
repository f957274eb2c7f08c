//! `projector`: what follows from a change of the tables, told by their change streams. Cognito's groups follow a profile's tier, paid dues become
//! entitlements, and a balance that DynamoDB's TTL has removed is told to the ledger.
//!
//! Changes of one user are worked on in order, users in parallel. A change that fails stops the later ones of its user, and of nobody else; a
//! change that cannot be understood is parked. Every effect can be repeated: a change that is delivered again does no harm.

mod dues;
mod groups;
mod read_models;

use aws_lambda_events::event::streams::{DynamoDbBatchItemFailure, DynamoDbEventResponse};
use dues_events::attr::{PROVIDER, SK, TIER};
use dues_events::credits::BALANCE_SORT;
use dues_events::profile::{PROFILE_PREFIX, user_of};
use dues_events::{Item, UserId};
use dues_projections::dues::TierMap;
use dues_store::entitlements::EVENT_PREFIX;
use dues_store::table::{BILLING_ACTIVITY, ENTITLEMENTS, GG_CORE};
use dues_store::{Engine, Store, StoreError, TableNames};
use futures::stream::{FuturesUnordered, StreamExt as _, iter};
use serde_json::Value as Json;
use std::collections::HashMap;

use crate::batch::{Fate, Incoming, Report, guarded, park_as};
use crate::changes::{Change, DynamoStreamEvent, Read, sequence};
use crate::groups::{Directory, GroupNames, Limiter};
use crate::kinesis::milliseconds;

pub use groups::{GROUPS_STREAM, redrive_groups};

/// How many users are worked on at once.
const PARALLEL: usize = 128;

/// What the projector works with.
#[derive(Clone)]
pub struct Projector<E, D> {
    /// The tables.
    pub store: Store<E>,
    /// Where the groups are; without one, groups follow nobody.
    pub directory: Option<D>,
    /// How fast the directory may be called.
    pub limiter: Limiter,
    /// Which group stands for which tier.
    pub names: GroupNames,
    /// Which tier a name on a receipt stands for.
    pub tiers: TierMap,
    /// What the deployment calls the tables.
    pub tables: TableNames,
    /// How many users are worked on at once.
    pub parallel: usize,
}

impl<E: Engine, D: Directory> Projector<E, D> {
    /// With the usual names, below Cognito's rate, and 128 users at once.
    pub fn new(store: Store<E>, directory: Option<D>) -> Self {
        let limiter = Limiter::with_default_rate(store.clock.clone());
        Self {
            store,
            directory,
            limiter,
            names: GroupNames::default(),
            tiers: TierMap::default(),
            tables: TableNames::default(),
            parallel: PARALLEL,
        }
    }

    /// Does what follows from these changes.
    pub async fn project(&self, changes: &[Change]) -> Report {
        let mut fates = vec![Fate::Skipped; changes.len()];
        let mut lanes: HashMap<UserId, Vec<(usize, &Change, Work<'_>)>> = HashMap::new();
        for (place, change) in changes.iter().enumerate() {
            if let Some((user, work)) = Work::of(change) {
                lanes.entry(user).or_default().push((place, change, work));
            }
        }
        let guarded = lanes.into_iter().map(|(user, lane)| {
            let places = lane.iter().map(|(place, ..)| *place).collect();
            guarded(places, self.run_lane(user, lane))
        });
        let lanes: Vec<_> = guarded.collect();
        let mut running = iter(lanes).buffer_unordered(self.parallel.max(1));
        while let Some(done) = running.next().await {
            for (place, fate) in done {
                fates[place] = fate;
            }
        }
        Report { fates }
    }

    /// The changes of one user, in order.
    async fn run_lane(&self, user: UserId, lane: Vec<(usize, &Change, Work<'_>)>) -> Vec<(usize, Fate)> {
        let mut fates = Vec::with_capacity(lane.len());
        let mut broken: Option<String> = None;
        for (place, change, work) in lane {
            if let Some(why) = &broken {
                // What comes after a failure must not overtake it.
                fates.push((place, Fate::Failed(format!("behind a record that failed: {why}"))));
                continue;
            }
            let fate = match self.run(&user, change, work).await {
                Ok(fate) => fate,
                Err(error) if error.is_transient() => Fate::Failed(error.to_string()),
                // Delivering it again cannot help: somebody has to look.
                Err(error) => self.park_change(change, "store", error.to_string(), &user).await,
            };
            if let Fate::Failed(why) = &fate {
                broken = Some(why.clone());
            }
            fates.push((place, fate));
        }
        fates
    }

    /// Does what follows from one change, once more if need be.
    pub(crate) async fn repeat(&self, change: &Change) -> Result<Fate, StoreError> {
        match Work::of(change) {
            None => Ok(Fate::Skipped),
            Some((user, work)) => self.run(&user, change, work).await,
        }
    }

    async fn run(&self, user: &UserId, change: &Change, work: Work<'_>) -> Result<Fate, StoreError> {
        match work {
            Work::Expired(old) => self.store.balance_row_removed(user, old).await.map(|()| Fate::Applied),
            Work::Groups => self.groups(user, &change.sequence).await,
            Work::Dues => self.dues(change).await,
            Work::Stripe(told) => self.stripe(user, told).await,
        }
    }

    /// Parks a change as it would have come.
    async fn park_change(&self, change: &Change, code: &str, reason: String, user: &UserId) -> Fate {
        let (sequence, arrived) = (change.sequence.clone(), change.arrived);
        let mut record = change.to_json();
        // The same change is the same record, whichever number it came under.
        if let Some(stream) = record["dynamodb"].as_object_mut() {
            stream.remove("SequenceNumber");
        }
        let incoming = Incoming { sequence, arrived, data: record.to_string().into_bytes() };
        park_as(&self.store, change.table.name, &incoming, code, reason, (None, Some(user.to_string()))).await
    }

    /// Parks a record as it came.
    async fn park_unreadable(&self, place: usize, record: &Json, stream: &str, reason: String) -> (usize, Fate) {
        let (sequence, arrived) = (sequence(record).to_owned(), self.store.clock.now());
        let incoming = Incoming { sequence, arrived, data: record.to_string().into_bytes() };
        (place, park_as(&self.store, stream, &incoming, "malformed", reason, (None, None)).await)
    }
}

/// What follows from a change.
#[derive(Debug, Clone, Copy)]
enum Work<'a> {
    /// A balance was removed because its time was over; this is what it was.
    Expired(&'a Item),
    /// The tier or the provider of a profile is another.
    Groups,
    /// A billing record has changed.
    Dues,
    /// Stripe has told something of the user.
    Stripe(&'a Item),
}

impl<'a> Work<'a> {
    /// Whose change it is, and what has to be done; `None` when nothing follows from it.
    fn of(change: &'a Change) -> Option<(UserId, Self)> {
        if change.table.name == BILLING_ACTIVITY.name {
            return Some((change.partition().into(), Self::Dues));
        }
        let sort = change.new.as_ref().or(change.old.as_ref()).and_then(|item| item.text(SK))?;
        if change.table.name == ENTITLEMENTS.name {
            let told = change.new.as_ref().filter(|_| change.old.is_none() && sort.starts_with(EVENT_PREFIX))?;
            return Some((user_of(change.partition())?, Self::Stripe(told)));
        }
        if change.table.name != GG_CORE.name {
            return None;
        }
        let work = match (&change.old, &change.new) {
            (Some(old), None) if sort == BALANCE_SORT && change.by_ttl => Self::Expired(old),
            (old, Some(new)) if sort.starts_with(PROFILE_PREFIX) && has_moved(old.as_ref(), new) => Self::Groups,
            (_, _) => return None,
        };
        Some((user_of(change.partition())?, work))
    }
}

/// Whether a profile's groups may have to be others than before.
fn has_moved(old: Option<&Item>, new: &Item) -> bool {
    old.is_none_or(|old| [TIER, PROVIDER].into_iter().any(|name| old.get(name) != new.get(name)))
}

/// `projector`: handles a batch of a table's stream. The answer names the first record that has to be delivered again: Lambda then redelivers from
/// there, and what had gone through is done again without harm.
pub async fn projector<E: Engine, D: Directory>(projector: &Projector<E, D>, event: DynamoStreamEvent) -> DynamoDbEventResponse {
    let now = projector.store.clock.now();
    let mut fates = vec![Fate::Skipped; event.records.len()];
    let (mut places, mut changes, mut unreadable) = (Vec::new(), Vec::new(), FuturesUnordered::new());
    for (place, record) in event.records.iter().enumerate() {
        match Change::read(record, &projector.tables, now) {
            Read::Change(change) => {
                places.push(place);
                changes.push(change);
            }
            Read::Foreign => {}
            Read::Unreadable { stream, error } => unreadable.push(projector.park_unreadable(place, record, stream, error.to_string())),
        }
    }
    while let Some((place, fate)) = unreadable.next().await {
        fates[place] = fate;
    }
    for (place, fate) in places.into_iter().zip(projector.project(&changes).await.fates) {
        fates[place] = fate;
    }
    let lag = changes.iter().map(|change| change.arrived).min().map_or(0, |oldest| milliseconds(now - oldest));
    answer(&event, &Report { fates }, lag)
}

/// Says in the log what became of the batch, and names to Lambda what has to come again.
fn answer(event: &DynamoStreamEvent, report: &Report, lag_ms: u64) -> DynamoDbEventResponse {
    let counts = report.counts();
    let mut response = DynamoDbEventResponse::default();
    if let Some(first) = report.first_failure() {
        let mut failure = DynamoDbBatchItemFailure::default();
        failure.item_identifier = Some(sequence(&event.records[first]).to_owned());
        tracing::warn!(sequence = failure.item_identifier, why = ?report.fates[first], "a change has to be delivered again");
        response.batch_item_failures.push(failure);
    }
    tracing::info!(
        records = report.fates.len(),
        applied = counts.applied,
        duplicate = counts.duplicate,
        ignored = counts.ignored,
        skipped = counts.skipped,
        parked = counts.parked,
        failed = counts.failed,
        lag_ms,
        "changes"
    );
    response
}
