//! `projector`: applies the change streams of the tables. Cognito groups follow a profile's tier, paid dues
//! become entitlements, a balance removed by DynamoDB's TTL expires in the ledger, and a profile removed by
//! it is rebuilt without its session.
//!
//! Changes of one user run in order, users in parallel. A failure stops the later changes of its user only;
//! a change that cannot be decoded is parked. Every effect is idempotent, so redelivery is safe.

use aws_lambda_events::event::streams::DynamoDbEventResponse;
use dues_events::attributes::{PROVIDER, SK, TIER};
use dues_events::entitlements::credits::BALANCE_SORT;
use dues_events::entitlements::profile::{PROFILE_PREFIX, user_of};
use dues_events::{Item, UserId};
use dues_projections::entitlements::dues::TierMap;
use dues_projections::serenya::profile::PROFILE;
use dues_store::entitlements::{EVENT_PREFIX, stripe_event_of};
use dues_store::{Engine, Store, StoreError, TableId, TableNames};

use crate::aws::triggers::dynamodb_streams::{DynamoStreamEvent, handle};
use crate::entitlements::groups::{Directory, GroupNames, RateLimiter};
use crate::read_models::{ReadModel, ReadModels};
use crate::runtime::changes::{Change, Follower};
use crate::runtime::followers::park_change;
use crate::runtime::lanes::{Batch, BatchReport, Entry, Lane, LaneOutcomes, Outcome, lanes_by};
use crate::runtime::parking::Poison;

pub use crate::entitlements::groups::tier_changes::{GROUPS_STREAM, redrive_groups};
pub use crate::usage::action_log::SeenTypes;

/// How many users run at once.
const PARALLEL: usize = 128;

/// The projector: its tables, directory and settings.
#[derive(Clone)]
pub struct Projector<E, D> {
    /// The tables.
    pub store: Store<E>,
    /// The directory with the groups; `None` leaves groups alone.
    pub directory: Option<D>,
    /// Rate limit of calls to the directory.
    pub limiter: RateLimiter,
    /// The group of each tier.
    pub names: GroupNames,
    /// The tier of each name on a receipt.
    pub tiers: TierMap,
    /// The deployment's table names.
    pub tables: TableNames,
    /// The read models of the deployment.
    pub read_models: ReadModels,
    /// Action types that are already listed.
    pub action_types: SeenTypes,
    /// How many users run at once.
    pub parallel: usize,
}

impl<E: Engine, D: Directory> Projector<E, D> {
    /// The defaults: standard group names, a rate below Cognito's quota, 128 users at once.
    pub fn new(store: Store<E>, directory: Option<D>) -> Self {
        let limiter = RateLimiter::with_default_rate(store.clock.clone());
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

    /// Applies changes: users in parallel, the changes of one in order.
    pub async fn project(&self, changes: &[Change]) -> BatchReport {
        let mut batch = Batch::new(changes.len());
        let decode = |change| Ok(Work::of(change).map(|(user, work)| (user, change, work)));
        let park = |index: usize, poison| {
            let change: &Change = &changes[index];
            async move { park_change(self, change, poison, &change.partition().into()).await }
        };
        let entries = batch.decode(changes.iter().enumerate(), decode, park).await;
        batch.run(lanes_by(entries, |(user, ..)| user), self.parallel, |lane| self.run_lane(lane)).await;
        batch.report()
    }

    /// Applies the changes of one user.
    async fn run_lane(&self, lane: Lane<UserId, (UserId, &Change, Work<'_>)>) -> LaneOutcomes {
        let mut outcomes = LaneOutcomes::with_capacity(lane.entries.len());
        for Entry { index, item: (user, change, work) } in lane.entries {
            if outcomes.is_behind_failure(index) {
                continue;
            }
            let outcome = match self.run(&user, change, work).await {
                Ok(outcome) => outcome,
                Err(error) => match Poison::of(&error) {
                    Ok(poison) => park_change(self, change, poison, &user).await,
                    Err(failed) => failed,
                },
            };
            outcomes.settle_or_stop(index, outcome);
        }
        outcomes
    }

    /// Applies one change again.
    pub(crate) async fn repeat(&self, change: &Change) -> Result<Outcome, StoreError> {
        match Work::of(change) {
            None => Ok(Outcome::Skipped),
            Some((user, work)) => self.run(&user, change, work).await,
        }
    }

    async fn run(&self, user: &UserId, change: &Change, work: Work<'_>) -> Result<Outcome, StoreError> {
        match work {
            Work::BalanceExpired(old) => {
                self.store.balance_row_removed(user, old).await.map(|()| Outcome::Applied)
            }
            Work::SessionExpired(old) => self.session_over(user, old).await,
            Work::Groups => self.groups(user, &change.sequence).await,
            Work::Dues => self.dues(change).await,
            Work::Usage => self.usage(change).await,
            Work::Stripe(event) => self.read_models.stripe(&self.store, user, &stripe_event_of(event)?).await,
            Work::Tags | Work::Report(_) if !self.read_models.has(ReadModel::Figureforge) => {
                Ok(Outcome::Skipped)
            }
            Work::Tags => self.tags(change).await,
            Work::Report(row) => self.report(row).await,
        }
    }

    /// Parks a change as it would have been delivered.
    pub(crate) async fn park_change(
        &self,
        change: &Change,
        code: &'static str,
        reason: String,
        user: &UserId,
    ) -> Outcome {
        park_change(self, change, Poison::new(code, reason), user).await
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

    async fn follow(&self, changes: &[Change]) -> BatchReport {
        self.project(changes).await
    }
}

/// The effect of a change.
#[derive(Debug, Clone, Copy)]
enum Work<'a> {
    /// TTL removed a balance; this is the old row.
    BalanceExpired(&'a Item),
    /// TTL removed a profile of `serenya` with its session; this is the old row.
    SessionExpired(&'a Item),
    /// The tier or the provider of a profile changed.
    Groups,
    /// A billing record changed.
    Dues,
    /// An action was counted.
    Usage,
    /// A Stripe event of the user was recorded.
    Stripe(&'a Item),
    /// The tags of a figureforge image changed.
    Tags,
    /// A report of a figureforge image changed; this is its row.
    Report(&'a Item),
}

impl<'a> Work<'a> {
    /// The lane and the effect of a change; `None` when it has none.
    fn of(change: &'a Change) -> Option<(UserId, Self)> {
        let sort = || change.new.as_ref().or(change.old.as_ref()).and_then(|item| item.text(SK));
        match change.table.id {
            TableId::BillingActivity => Some((change.partition().into(), Self::Dues)),
            TableId::UserUsage => Some((change.partition().into(), Self::Usage)),
            TableId::Figureforge => {
                // The lane is the image: its reports are in its partition.
                let work = crate::figureforge::report_changes::concerned(change)
                    .map(Self::Report)
                    .or_else(|| crate::figureforge::tag_changes::concerns(change).then_some(Self::Tags))?;
                Some((change.partition().into(), work))
            }
            TableId::Entitlements => {
                let is_event = change.old.is_none() && sort()?.starts_with(EVENT_PREFIX);
                let event = change.new.as_ref().filter(|_| is_event)?;
                Some((user_of(change.partition())?, Self::Stripe(event)))
            }
            TableId::Serenya => {
                let is_expired = change.by_ttl && change.new.is_none() && sort()? == PROFILE;
                let old = change.old.as_ref().filter(|_| is_expired)?;
                Some((user_of(change.partition())?, Self::SessionExpired(old)))
            }
            TableId::GgCore => {
                let sort = sort()?;
                let work = match (&change.old, &change.new) {
                    (Some(old), None) if sort == BALANCE_SORT && change.by_ttl => Self::BalanceExpired(old),
                    (old, Some(new))
                        if sort.starts_with(PROFILE_PREFIX) && may_change_groups(old.as_ref(), new) =>
                    {
                        Self::Groups
                    }
                    (_, _) => return None,
                };
                Some((user_of(change.partition())?, work))
            }
            // Changes of these tables have no effect.
            TableId::History
            | TableId::Locks
            | TableId::Parked
            | TableId::Sandbox
            | TableId::Groups
            | TableId::Journal
            | TableId::UnappliedMoney
            | TableId::UserSubscriptions
            | TableId::ActionsLog => None,
        }
    }
}

/// Whether the groups of a profile may change.
fn may_change_groups(old: Option<&Item>, new: &Item) -> bool {
    old.is_none_or(|old| [TIER, PROVIDER].into_iter().any(|name| old.get(name) != new.get(name)))
}

/// `projector`: handles a batch of a table's stream. The response names the first record to redeliver.
pub async fn projector<E: Engine, D: Directory>(
    projector: &Projector<E, D>,
    event: DynamoStreamEvent,
) -> DynamoDbEventResponse {
    handle(projector, event).await
}
