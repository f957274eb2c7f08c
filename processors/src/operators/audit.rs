//! `audit`: compares every row with its history, folded again with the same functions that live traffic
//! uses.
//!
//! The audit repairs nothing and trusts nothing: neither the version of a row nor the sum of a balance. An
//! interrupted commit shows as [`FindingKind::Ahead`] until the next event or the sweeper completes it.

mod billing;
mod entitlements;
mod money;

use dues_events::entitlements::credits::partition;
use dues_events::entitlements::profile::user_of;
use dues_events::{Item, UserId};
use dues_projections::entitlements::dues::TierMap;
use dues_store::table::{BILLING_ACTIVITY, ENTITLEMENTS, GG_CORE, HISTORY, Table};
use dues_store::{Engine, Query, Store, StoreError};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::operators::replay::{ReplayTarget, compare};
use crate::read_models::{ReadModel, ReadModels};
use crate::runtime::partition_scan::{partitions, read, side_by_side};

/// Users audited per batch.
const USERS_PER_BATCH: usize = 64;
/// How often a finding is checked, with [`PAUSE`] in between: a writer may have been at work.
const CHECKS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(400);

/// The kind of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingKind {
    /// A row differs from its history.
    Differs,
    /// History implies a row that does not exist.
    Missing,
    /// A row without history.
    Unexplained,
    /// History has a gap: a change builds on a version that is missing.
    Gap,
    /// History is ahead of its row: a commit was interrupted. The next event or the sweeper completes it.
    Ahead,
    /// A row cannot be decoded.
    Unreadable,
    /// A record's successor is missing.
    Followup,
    /// One record has two rows.
    Twice,
    /// A history row is not what its event gives: the decision in it is wrong.
    WrongDecision,
    /// A history row was changed, added or removed by hand.
    Chain,
    /// A balance is not the sum of its ledger.
    Balance,
    /// The ledger's grants differ from what the payments grant.
    Credits,
    /// A profile does not show the tier that was paid for.
    Tier,
    /// The groups are not those of the tier.
    Groups,
}

impl FindingKind {
    /// The kind as a code in machine-readable output.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Differs => "differs",
            Self::Missing => "missing",
            Self::Unexplained => "unexplained",
            Self::Gap => "gap",
            Self::Ahead => "ahead",
            Self::Unreadable => "unreadable",
            Self::Followup => "owed",
            Self::Twice => "twice",
            Self::WrongDecision => "decision",
            Self::Chain => "chain",
            Self::Balance => "balance",
            Self::Credits => "credits",
            Self::Tier => "tier",
            Self::Groups => "groups",
        }
    }
}

/// A disagreement between rows and history.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The table of the row.
    pub table: &'static str,
    /// The keys of the row.
    pub key: String,
    /// The kind.
    pub kind: FindingKind,
    /// Description, with both values.
    pub detail: String,
}

/// The result of an audit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audit {
    /// Rows of history that were folded: changes of billing records, Stripe events, credit movements, facts
    /// of read models.
    pub events: u64,
    /// Rows compared with them.
    pub rows: u64,
    /// The findings, sorted by table and key.
    pub findings: Vec<Finding>,
    /// Timers that the entitlement clock should have booked. No row disagrees with its history: the job does
    /// not run.
    pub overdue_timers: u64,
    /// The users with findings.
    suspects: Vec<String>,
}

impl Audit {
    fn add(&mut self, other: Self) {
        self.events += other.events;
        self.rows += other.rows;
        self.overdue_timers += other.overdue_timers;
        self.findings.extend(other.findings);
        self.suspects.extend(other.suspects);
    }

    /// Keeps the findings that a second check confirms, with the second check's details.
    fn confirm(&mut self, again: Self) {
        let what = |found: &Finding| (found.table, found.key.clone(), found.kind);
        let before: BTreeSet<_> = self.findings.iter().map(what).collect();
        self.findings = again.findings.into_iter().filter(|found| before.contains(&what(found))).collect();
        self.suspects = again.suspects;
    }

    fn find(
        &mut self,
        kind: FindingKind,
        table: &'static Table,
        key: impl Into<String>,
        detail: impl Into<String>,
    ) {
        self.findings.push(Finding { table: table.name, key: key.into(), kind, detail: detail.into() });
    }
}

/// Audits billing records, entitlements and credits, then unapplied money and the read models, and reports
/// after each batch how many events were folded so far.
///
/// Runs concurrent with writers: findings are checked again, and reported only if they persist.
///
/// # Errors
/// Any [`StoreError`]. A row that cannot be decoded is a finding, not an error.
pub async fn audit<E: Engine>(
    store: &Store<E>,
    tiers: &TierMap,
    read_models: &ReadModels,
    mut progress: impl FnMut(u64),
) -> Result<Audit, StoreError> {
    let tiers = Arc::new(tiers.clone());
    let mut audit = members(store, all_users(store).await?, &tiers, &mut progress).await?;
    for _ in 1..CHECKS {
        if audit.suspects.is_empty() {
            break;
        }
        store.clock.sleep(PAUSE).await;
        let suspects = std::mem::take(&mut audit.suspects);
        audit.confirm(members(store, suspects, &tiers, &mut |_| {}).await?);
    }
    let mut listed = money::check(store).await?;
    for _ in 1..CHECKS {
        if listed.findings.is_empty() {
            break;
        }
        store.clock.sleep(PAUSE).await;
        listed.confirm(money::check(store).await?);
    }
    audit.add(listed);
    for read_model in read_models.iter() {
        let before = audit.events;
        let mut rows = model(store, read_model, &mut |events| progress(before + events)).await?;
        for _ in 1..CHECKS {
            if rows.findings.is_empty() {
                break;
            }
            store.clock.sleep(PAUSE).await;
            rows.confirm(model(store, read_model, &mut |_| {}).await?);
        }
        audit.add(rows);
    }
    audit.findings.sort();
    audit.findings.dedup();
    Ok(audit)
}

/// Audits the billing records, entitlements and credits of these users.
async fn members<E: Engine>(
    store: &Store<E>,
    users: Vec<String>,
    tiers: &Arc<TierMap>,
    progress: &mut impl FnMut(u64),
) -> Result<Audit, StoreError> {
    let (mut audit, tiers) = (Audit::default(), tiers.clone());
    let check = move |store, users| check(store, users, tiers.clone());
    side_by_side(store, users, USERS_PER_BATCH, check, |part| {
        audit.add(part);
        progress(audit.events);
    })
    .await?;
    Ok(audit)
}

/// Audits a read model by rebuilding all of its rows.
async fn model<E: Engine>(
    store: &Store<E>,
    model: ReadModel,
    progress: &mut impl FnMut(u64),
) -> Result<Audit, StoreError> {
    let compared = compare(ReplayTarget::Model(model), store, progress).await?;
    let findings = compared.differences.iter().map(Finding::from).collect();
    let mut audit = Audit { events: compared.events, rows: compared.rows, findings, ..Audit::default() };
    for (table, key, why) in compared.unreadable {
        audit.find(FindingKind::Unreadable, table, key.partition, why);
    }
    Ok(audit)
}

/// Every user with a row in billing, entitlements or `gg_core`.
async fn all_users<E: Engine>(store: &Store<E>) -> Result<Vec<String>, StoreError> {
    let mut users = BTreeSet::new();
    for table in [&HISTORY, &BILLING_ACTIVITY] {
        users.extend(partitions(store, table, |_| true).await?);
    }
    for table in [&GG_CORE, &ENTITLEMENTS] {
        let names = partitions(store, table, |name| user_of(name).is_some()).await?;
        users.extend(names.iter().filter_map(|name| user_of(name)).map(|user| user.as_str().to_owned()));
    }
    Ok(users.into_iter().collect())
}

/// Audits some users by all their rows, read from one snapshot where the engine supports it.
async fn check<E: Engine>(
    store: Store<E>,
    users: Vec<String>,
    tiers: Arc<TierMap>,
) -> Result<Audit, StoreError> {
    let users: Vec<UserId> = users.into_iter().map(UserId::from).collect();
    let queries = users.iter().flat_map(|user| {
        let core = partition(user);
        [
            Query::partition(&HISTORY, user.as_str()),
            Query::partition(&BILLING_ACTIVITY, user.as_str()),
            Query::partition(&ENTITLEMENTS, core.as_str()),
            Query::partition(&GG_CORE, core),
        ]
    });
    let mut rows = read(&store, queries.collect()).await?.into_iter();
    let mut audit = Audit::default();
    for user in &users {
        let mut next = || rows.next().unwrap_or_default();
        let (history, records, book, core) = (next(), next(), next(), next());
        let found = audit.findings.len();
        let history = billing::check(&mut audit, user, history, records);
        entitlements::check(&mut audit, &store, user, &book, &history, &tiers, core).await?;
        if audit.findings.len() > found {
            audit.suspects.push(user.as_str().to_owned());
        }
    }
    Ok(audit)
}

/// The attributes in which two rows differ.
pub(crate) fn differences(there: &Item, expected: &Item) -> String {
    let shown = |value: Option<&dues_events::Value>| {
        value.map_or("nothing".to_owned(), |value| value.to_json().to_string())
    };
    let mut names: Vec<&str> = there.iter().chain(expected.iter()).map(|(name, _)| name.as_ref()).collect();
    names.sort_unstable();
    names.dedup();
    let differ = names.into_iter().filter(|name| there.get(name) != expected.get(name));
    let described: Vec<String> = differ
        .map(|name| {
            format!("{name} is {} and should be {}", shown(there.get(name)), shown(expected.get(name)))
        })
        .collect();
    described.join("; ")
}
