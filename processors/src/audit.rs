//! `audit`: is every row what its history says? Histories are folded again, with the same functions that live traffic uses, and compared with the rows.
//!
//! Nothing is mended here, and nothing is taken on trust: not the version of a row, not the sum of a balance. What a crash has cut short shows as
//! [`Kind::Ahead`] until whoever comes by next has finished it.

mod billing;
mod entitled;

use dues_events::Item;
use dues_projections::dues::TierMap;
use dues_store::table::{BILLING_ACTIVITY, ENTITLEMENTS, GG_CORE, HISTORY, Table};
use dues_store::{Cursor, Engine, Store, StoreError};
use futures::stream::{FuturesUnordered, StreamExt as _};
use std::future::Future;

/// How many rows are read at once.
const PAGE: u32 = 1000;
/// How many rows are judged together.
const PILE: usize = 2000;
/// How many piles are judged at once.
const PARALLEL: usize = 4;

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
}

impl Audit {
    fn add(&mut self, other: Self) {
        self.events += other.events;
        self.rows += other.rows;
        self.findings.extend(other.findings);
    }

    fn find(&mut self, kind: Kind, table: &'static Table, key: impl Into<String>, detail: impl Into<String>) {
        self.findings.push(Finding { table: table.name, key: key.into(), kind, detail: detail.into() });
    }
}

/// Audits billing records, entitlements and credits, telling after each pile how many events were folded so far.
///
/// # Errors
/// What the store could not do. A row that cannot be read is a finding, not an error.
pub async fn audit<E: Engine>(store: &Store<E>, tiers: &TierMap, mut progress: impl FnMut(u64)) -> Result<Audit, StoreError> {
    let mut audit = Audit::default();
    let told = |sum: &mut Audit, part: Audit, progress: &mut dyn FnMut(u64)| {
        sum.add(part);
        progress(sum.events);
    };
    piles(store, &HISTORY, billing::histories, |part| told(&mut audit, part, &mut progress)).await?;
    piles(store, &BILLING_ACTIVITY, billing::primaries, |part| told(&mut audit, part, &mut progress)).await?;
    let tiers = tiers.clone();
    let users = move |store, pile| entitled::users(store, pile, tiers.clone());
    piles(store, &GG_CORE, users, |part| told(&mut audit, part, &mut progress)).await?;
    piles(store, &ENTITLEMENTS, entitled::heads, |part| told(&mut audit, part, &mut progress)).await?;
    audit.findings.sort();
    audit.findings.dedup();
    Ok(audit)
}

/// The rows of some whole partitions.
type Pile = Vec<(String, Vec<Item>)>;

/// Reads a table, partition by partition, and has piles of them judged side by side, each as a task of its own.
async fn piles<E, F>(
    store: &Store<E>,
    table: &'static Table,
    judge: impl Fn(Store<E>, Pile) -> F,
    mut done: impl FnMut(Audit),
) -> Result<(), StoreError>
where
    E: Engine,
    F: Future<Output = Result<Audit, StoreError>> + Send + 'static,
{
    let mut running = FuturesUnordered::new();
    let (mut pile, mut rows): (Pile, usize) = (Vec::new(), 0);
    let mut start: Option<Cursor> = None;
    loop {
        let page = store.engine.scan(table, start, PAGE).await?;
        for item in page.items {
            let partition = item.text(table.partition).unwrap_or_default();
            match pile.last_mut() {
                // Items of one partition come together.
                Some((known, items)) if known == partition => items.push(item),
                Some(_) | None => {
                    if rows >= PILE {
                        running.push(tokio::spawn(judge(store.clone(), std::mem::take(&mut pile))));
                        rows = 0;
                    }
                    pile.push((partition.to_owned(), vec![item]));
                }
            }
            rows += 1;
        }
        start = page.next;
        if start.is_none() {
            running.push(tokio::spawn(judge(store.clone(), std::mem::take(&mut pile))));
        }
        while running.len() >= PARALLEL || (start.is_none() && !running.is_empty()) {
            let Some(judged) = running.next().await else { break };
            done(judged.map_err(|error| StoreError::Invalid(format!("a part of the audit broke off: {error}")))??);
        }
        if start.is_none() {
            return Ok(());
        }
    }
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
