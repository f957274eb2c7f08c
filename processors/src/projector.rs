//! `projector`: what follows from a change of the tables, told by their change streams. Cognito's groups follow a profile's tier, paid dues become
//! entitlements, a balance that DynamoDB's TTL has removed is told to the ledger, and a profile that it has removed is made again without its session.
//!
//! Changes of one user are worked on in order, users in parallel. A change that fails stops the later ones of its user, and of nobody else; a
//! change that cannot be understood is parked. Every effect can be repeated: a change that is delivered again does no harm.

mod dues;
mod groups;
mod reports;
mod serenya;
mod tags;
mod usage;

use aws_lambda_events::event::streams::DynamoDbEventResponse;
use dues_events::attr::{PROVIDER, SK, TIER};
use dues_events::credits::BALANCE_SORT;
use dues_events::profile::{PROFILE_PREFIX, user_of};
use dues_events::{Item, UserId};
use dues_projections::dues::TierMap;
use dues_projections::serenya::profile::PROFILE;
use dues_store::entitlements::{EVENT_PREFIX, told_event};
use dues_store::table::figureforge::FIGUREFORGE;
use dues_store::table::serenya::SERENYA;
use dues_store::table::usage::USER_USAGE;
use dues_store::table::{BILLING_ACTIVITY, ENTITLEMENTS, GG_CORE};
use dues_store::{Engine, Store, StoreError, TableNames};
use futures::stream::{StreamExt as _, iter};
use std::collections::HashMap;

use crate::batch::{Fate, Report, guarded};
use crate::changes::follower::{handle, park_change};
use crate::changes::{Change, DynamoStreamEvent, Follower};
use crate::groups::{Directory, GroupNames, Limiter};
use crate::read_models::{ReadModel, ReadModels};

pub use groups::{GROUPS_STREAM, redrive_groups};
pub use usage::SeenTypes;

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
    /// The read models that are told of what happens.
    pub read_models: ReadModels,
    /// The types of actions that are known to be listed.
    pub action_types: SeenTypes,
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
            read_models: ReadModels::default(),
            action_types: SeenTypes::default(),
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
            Work::SessionOver(old) => self.session_over(user, old).await,
            Work::Groups => self.groups(user, &change.sequence).await,
            Work::Dues => self.dues(change).await,
            Work::Usage => self.usage(change).await,
            Work::Stripe(told) => self.read_models.stripe(&self.store, user, &told_event(told)?).await,
            Work::Tags | Work::Report(_) if !self.read_models.has(ReadModel::Figureforge) => Ok(Fate::Skipped),
            Work::Tags => self.tags(change).await,
            Work::Report(row) => self.report(row).await,
        }
    }

    /// Parks a change as it would have come.
    async fn park_change(&self, change: &Change, code: &str, reason: String, user: &UserId) -> Fate {
        park_change(self, change, code, reason, user).await
    }
}

impl<E: Engine, D: Directory> Follower for Projector<E, D> {
    type Engine = E;

    fn store(&self) -> &Store<E> {
        &self.store
    }

    fn tables(&self) -> &TableNames {
        &self.tables
    }

    fn parked_as(&self, table: &str) -> String {
        table.to_owned()
    }

    async fn follow(&self, changes: &[Change]) -> Report {
        self.project(changes).await
    }
}

/// What follows from a change.
#[derive(Debug, Clone, Copy)]
enum Work<'a> {
    /// A balance was removed because its time was over; this is what it was.
    Expired(&'a Item),
    /// A profile of `serenya` was removed because its session was over; this is what it was.
    SessionOver(&'a Item),
    /// The tier or the provider of a profile is another.
    Groups,
    /// A billing record has changed.
    Dues,
    /// An action was counted.
    Usage,
    /// Stripe has told something of the user.
    Stripe(&'a Item),
    /// An image of figureforge is to be found under other tags.
    Tags,
    /// A report of an image of figureforge stands otherwise; this is its row.
    Report(&'a Item),
}

impl<'a> Work<'a> {
    /// Whose change it is, and what has to be done; `None` when nothing follows from it.
    fn of(change: &'a Change) -> Option<(UserId, Self)> {
        if change.table.name == BILLING_ACTIVITY.name {
            return Some((change.partition().into(), Self::Dues));
        }
        if change.table.name == USER_USAGE.name {
            return Some((change.partition().into(), Self::Usage));
        }
        if change.table.name == FIGUREFORGE.name {
            // The lane is the image's, whose reports are in its partition.
            let work = reports::concerned(change).map(Self::Report).or_else(|| tags::concerns(change).then_some(Self::Tags))?;
            return Some((change.partition().into(), work));
        }
        let sort = change.new.as_ref().or(change.old.as_ref()).and_then(|item| item.text(SK))?;
        if change.table.name == ENTITLEMENTS.name {
            let told = change.new.as_ref().filter(|_| change.old.is_none() && sort.starts_with(EVENT_PREFIX))?;
            return Some((user_of(change.partition())?, Self::Stripe(told)));
        }
        if change.table.name == SERENYA.name {
            let old = change.old.as_ref().filter(|_| change.by_ttl && change.new.is_none() && sort == PROFILE)?;
            return Some((user_of(change.partition())?, Self::SessionOver(old)));
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
    handle(projector, event).await
}
