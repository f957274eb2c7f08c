//! `audit`: is every row what its history says? Histories are folded again, with the same functions that live traffic uses, and compared with the rows.
//!
//! Nothing is mended here, and nothing is taken on trust: not the version of a row, not the sum of a balance. What a crash has cut short shows as
//! [`Kind::Ahead`] until whoever comes by next has finished it.

mod billing;
mod entitled;

use dues_events::credits::partition;
use dues_events::profile::user_of;
use dues_events::{Item, UserId};
use dues_projections::dues::TierMap;
use dues_store::table::{BILLING_ACTIVITY, ENTITLEMENTS, GG_CORE, HISTORY, Table};
use dues_store::{Engine, Query, Store, StoreError};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::piles::{partitions, read, side_by_side};
use crate::read_models::{ReadModel, ReadModels};
use crate::replay::{Part, compare};

/// How many users are judged together.
const PILE: usize = 64;
/// How often, and how far apart, what does not agree is looked at: somebody may have been at work on it.
const LOOKS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(400);

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A row says something else than its history.
    Differs,
    /// History tells of a row that is not there.
    Missing,
    /// A row of which no history tells.
    Unexplained,
    /// History has a hole: a change builds on one that is not there.
    Gap,
    /// History is ahead of its row: a commit was cut short. The next event, or the sweeper, finishes it.
    Ahead,
    /// A row that cannot be read.
    Unreadable,
    /// A record that must follow another is not there.
    Owed,
    /// One record stands in two rows.
    Twice,
    /// A balance is not the sum of its ledger.
    Balance,
    /// The ledger has granted something else than the payments have brought.
    Credits,
    /// A profile does not show what was paid for.
    Tier,
    /// The groups are not those of the tier.
    Groups,
}

impl Kind {
    /// A word for programs.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Differs => "differs",
            Self::Missing => "missing",
            Self::Unexplained => "unexplained",
            Self::Gap => "gap",
            Self::Ahead => "ahead",
            Self::Unreadable => "unreadable",
            Self::Owed => "owed",
            Self::Twice => "twice",
            Self::Balance => "balance",
            Self::Credits => "credits",
            Self::Tier => "tier",
            Self::Groups => "groups",
        }
    }
}

/// Something that does not agree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The table of the row.
    pub table: &'static str,
    /// The row: its keys.
    pub key: String,
    /// What is wrong.
    pub kind: Kind,
    /// In words, with both values.
    pub detail: String,
}

/// What an audit came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audit {
    /// How many rows of history were folded: changes of billing records, events of Stripe's, movements of credits, facts of read models.
    pub events: u64,
    /// How many rows were compared with them.
    pub rows: u64,
    /// What does not agree, in the order of tables and keys.
    pub findings: Vec<Finding>,
    /// The users whom it concerns.
    suspects: Vec<String>,
}

impl Audit {
    fn add(&mut self, other: Self) {
        self.events += other.events;
        self.rows += other.rows;
        self.findings.extend(other.findings);
        self.suspects.extend(other.suspects);
    }

    /// Keeps what is found again, as it was found then.
    fn confirm(&mut self, again: Self) {
        let what = |found: &Finding| (found.table, found.key.clone(), found.kind);
        let before: BTreeSet<_> = self.findings.iter().map(what).collect();
        self.findings = again.findings.into_iter().filter(|found| before.contains(&what(found))).collect();
        self.suspects = again.suspects;
    }

    fn find(&mut self, kind: Kind, table: &'static Table, key: impl Into<String>, detail: impl Into<String>) {
        self.findings.push(Finding { table: table.name, key: key.into(), kind, detail: detail.into() });
    }
}

/// Audits billing records, entitlements and credits, and then the read models, telling after each pile how many events were folded so far.
///
/// Others may be at work meanwhile: what does not agree is looked at again, and told only if it still does not.
///
/// # Errors
/// What the store could not do. A row that cannot be read is a finding, not an error.
pub async fn audit<E: Engine>(
    store: &Store<E>,
    tiers: &TierMap,
    read_models: &ReadModels,
    mut progress: impl FnMut(u64),
) -> Result<Audit, StoreError> {
    let tiers = Arc::new(tiers.clone());
    let mut audit = members(store, everybody(store).await?, &tiers, &mut progress).await?;
    for _ in 1..LOOKS {
        if audit.suspects.is_empty() {
            break;
        }
        store.clock.sleep(PAUSE).await;
        let suspects = std::mem::take(&mut audit.suspects);
        audit.confirm(members(store, suspects, &tiers, &mut |_| {}).await?);
    }
    for read_model in read_models.iter() {
        let before = audit.events;
        let mut rows = model(store, read_model, &mut |events| progress(before + events)).await?;
        for _ in 1..LOOKS {
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

/// The billing records, entitlements and credits of these users.
async fn members<E: Engine>(
    store: &Store<E>,
    users: Vec<String>,
    tiers: &Arc<TierMap>,
    progress: &mut impl FnMut(u64),
) -> Result<Audit, StoreError> {
    let (mut audit, tiers) = (Audit::default(), tiers.clone());
    let judge = move |store, users| judge(store, users, tiers.clone());
    side_by_side(store, users, PILE, judge, |part| {
        audit.add(part);
        progress(audit.events);
    })
    .await?;
    Ok(audit)
}

/// A read model: all of its rows are made again.
async fn model<E: Engine>(store: &Store<E>, model: ReadModel, progress: &mut impl FnMut(u64)) -> Result<Audit, StoreError> {
    let compared = compare(Part::Model(model), store, progress).await?;
    let findings = compared.differences.iter().map(Finding::from).collect();
    let mut audit = Audit { events: compared.events, rows: compared.rows, findings, suspects: Vec::new() };
    for (table, key, why) in compared.unreadable {
        audit.find(Kind::Unreadable, table, key.partition, why);
    }
    Ok(audit)
}

/// Every user of whom anything is known.
async fn everybody<E: Engine>(store: &Store<E>) -> Result<Vec<String>, StoreError> {
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

/// Judges some users by all their rows, which are as of one moment where the engine can do that.
async fn judge<E: Engine>(store: Store<E>, users: Vec<String>, tiers: Arc<TierMap>) -> Result<Audit, StoreError> {
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
        let history = billing::judge(&mut audit, user, history, records);
        entitled::judge(&mut audit, &store, user, &book, &history, &tiers, core).await?;
        if audit.findings.len() > found {
            audit.suspects.push(user.as_str().to_owned());
        }
    }
    Ok(audit)
}

/// What two rows differ in, attribute by attribute.
pub(crate) fn differences(there: &Item, expected: &Item) -> String {
    let shown = |value: Option<&dues_events::Value>| value.map_or("nothing".to_owned(), |value| value.to_json().to_string());
    let mut names: Vec<&str> = there.iter().chain(expected.iter()).map(|(name, _)| name.as_ref()).collect();
    names.sort_unstable();
    names.dedup();
    let differ = names.into_iter().filter(|name| there.get(name) != expected.get(name));
    let told: Vec<String> =
        differ.map(|name| format!("{name} is {} and should be {}", shown(there.get(name)), shown(expected.get(name)))).collect();
    told.join("; ")
}
