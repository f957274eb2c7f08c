//! `replay`: rebuilds rows from history, compares them with the live ones, and repairs those.
//!
//! Rows are rebuilt and compared in batches, so nothing is written next to the live store; memory holds one
//! batch per core and one mark per row. History itself is never written, only rows that can be rebuilt.

pub(crate) mod billing;
mod source;

use dues_events::{Item, attributes};
use dues_store::table::figureforge::FIGUREFORGE;
use dues_store::table::serenya::SERENYA;
use dues_store::table::{BILLING_ACTIVITY, Table, usage as usage_tables};
use dues_store::{Condition, Engine, Key, Store, StoreError, Written};
use futures::stream::{StreamExt as _, TryStreamExt as _, iter};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::operators::audit::{Finding, FindingKind, differences};
use crate::read_models::ReadModel;
use crate::runtime::partition_scan::{each_key, side_by_side};
use source::{Made, PARTITIONS_PER_BATCH, Source};

/// Rows written concurrently.
const PARALLEL: usize = 128;

/// What can be rebuilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayTarget {
    /// The billing records, from their history.
    Billing,
    /// A read model, from its journal.
    Model(ReadModel),
}

impl ReplayTarget {
    /// All targets.
    pub const ALL: [Self; 4] = [
        Self::Billing,
        Self::Model(ReadModel::Usage),
        Self::Model(ReadModel::Figureforge),
        Self::Model(ReadModel::Serenya),
    ];

    /// The target's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Billing => "billing",
            Self::Model(model) => model.name(),
        }
    }

    /// The target with that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }

    /// The read model, if the target is one.
    #[must_use]
    pub fn model(self) -> Option<ReadModel> {
        match self {
            Self::Billing => None,
            Self::Model(model) => Some(model),
        }
    }

    /// The tables that the target rebuilds completely.
    #[must_use]
    pub fn tables(self) -> &'static [&'static Table] {
        match self {
            Self::Billing => &[&BILLING_ACTIVITY],
            // The log of actions is itself history.
            Self::Model(ReadModel::Usage) => &[&usage_tables::USER_SUBSCRIPTIONS, &usage_tables::USER_USAGE],
            Self::Model(ReadModel::Figureforge) => &[&FIGUREFORGE],
            Self::Model(ReadModel::Serenya) => &[&SERENYA],
        }
    }

    /// The histories that the rows are rebuilt from.
    fn sources(self) -> &'static [Source] {
        match self {
            Self::Billing => &[Source::Billing],
            Self::Model(ReadModel::Usage) => &[Source::Journal(ReadModel::Usage), Source::Actions],
            Self::Model(ReadModel::Figureforge) => &[Source::Journal(ReadModel::Figureforge)],
            Self::Model(ReadModel::Serenya) => &[Source::Journal(ReadModel::Serenya)],
        }
    }
}

/// A row that differs from its history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The table.
    pub table: &'static Table,
    /// The key.
    pub key: Key,
    /// The live row.
    pub there: Option<Item>,
    /// The rebuilt row.
    pub made: Option<Item>,
}

impl Difference {
    /// Description of the difference.
    #[must_use]
    pub fn detail(&self) -> String {
        match (&self.there, &self.made) {
            (Some(there), Some(made)) => differences(there, made),
            (None, _) => "is missing".to_owned(),
            (Some(_), None) => "has no history".to_owned(),
        }
    }
}

impl From<&Difference> for Finding {
    fn from(difference: &Difference) -> Self {
        let kind = match (&difference.there, &difference.made) {
            (Some(_), Some(_)) => FindingKind::Differs,
            (None, _) => FindingKind::Missing,
            (Some(_), None) => FindingKind::Unexplained,
        };
        let Key { partition, sort } = &difference.key;
        let key = format!("{partition}/{}", sort.as_deref().unwrap_or_default());
        Self { table: difference.table.name, key, kind, detail: difference.detail() }
    }
}

/// Rebuilds the rows of a target into an empty store. Returns how many rows of history were folded, and
/// reports progress.
pub async fn rebuild<E: Engine, F: Engine>(
    part: ReplayTarget,
    from: &Store<E>,
    into: &Store<F>,
    mut progress: impl FnMut(u64),
) -> Result<u64, StoreError> {
    let mut events = 0;
    for source in part.sources().iter().copied() {
        let names = source.partitions(from).await?;
        let into = into.clone();
        let make = move |from: Store<E>, names| {
            let into = into.clone();
            async move {
                let Made { events, rows, unreadable } = source.make(&from, names).await?;
                if let Some((key, why)) = unreadable.into_iter().next() {
                    return Err(StoreError::Invalid(format!(
                        "{} {}: {why}",
                        source.table().name,
                        key.partition
                    )));
                }
                let writes: Vec<_> = rows
                    .into_iter()
                    .map(|(table, row)| into.engine.put(table, row, Condition::Always))
                    .collect();
                iter(writes).buffer_unordered(PARALLEL).try_for_each(async |_| Ok(())).await?;
                Ok(events)
            }
        };
        side_by_side(from, names, PARTITIONS_PER_BATCH, make, |some| {
            events += some;
            progress(events);
        })
        .await?;
    }
    Ok(events)
}

/// The live rows of a target compared with the rebuilt ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Rows of history that were folded.
    pub events: u64,
    /// Live rows.
    pub rows: u64,
    /// The differences, sorted by table and key.
    pub differences: Vec<Difference>,
    /// History that cannot be decoded: table, partition and reason. The live rows that belong to it are
    /// among the differences, as rows without history; do not repair those.
    pub unreadable: Vec<(&'static Table, Key, String)>,
}

/// Rebuilds the rows of a target, compares them with the live ones, and reports how much history was folded
/// so far.
pub async fn compare<E: Engine>(
    part: ReplayTarget,
    live: &Store<E>,
    mut progress: impl FnMut(u64),
) -> Result<Comparison, StoreError> {
    // List the keys first: the history of every row listed here was written before, so reading history
    // afterwards covers them all.
    let mut left: HashSet<u128> = HashSet::new();
    for table in part.tables().iter().copied() {
        each_key(live, table, |key| {
            left.insert(mark(table, &key));
        })
        .await?;
    }
    let mut compared = Comparison { rows: left.len() as u64, ..Comparison::default() };
    for source in part.sources().iter().copied() {
        let names = source.partitions(live).await?;
        side_by_side(
            live,
            names,
            PARTITIONS_PER_BATCH,
            move |live, names| source.compare(live, names),
            |some| {
                for mark in &some.marks {
                    left.remove(mark);
                }
                compared.events += some.events;
                compared.differences.extend(some.differences);
                compared
                    .unreadable
                    .extend(some.unreadable.into_iter().map(|(key, why)| (source.table(), key, why)));
                progress(compared.events);
            },
        )
        .await?;
    }
    if !left.is_empty() {
        compared.differences.extend(unexplained(part, live, &left).await?);
    }
    compared.differences.sort_by(|a, b| {
        (a.table.name, &a.key.partition, &a.key.sort).cmp(&(b.table.name, &b.key.partition, &b.key.sort))
    });
    Ok(compared)
}

/// The live rows with marks that no history produced; some may have been deleted meanwhile.
async fn unexplained<E: Engine>(
    part: ReplayTarget,
    live: &Store<E>,
    left: &HashSet<u128>,
) -> Result<Vec<Difference>, StoreError> {
    let mut found = Vec::new();
    for table in part.tables().iter().copied() {
        let mut keys = Vec::new();
        each_key(live, table, |key| {
            if left.contains(&mark(table, &key)) {
                keys.push(key);
            }
        })
        .await?;
        for key in keys {
            if let Some(there) = live.engine.get(table, key.clone()).await? {
                found.push(Difference { table, key, there: Some(there), made: None });
            }
        }
    }
    Ok(found)
}

/// A hash that identifies a row: 16 bytes for any key length, without collisions among a billion rows.
fn mark(table: &Table, key: &Key) -> u128 {
    let half = |which: u8| {
        let mut hasher = DefaultHasher::new();
        (which, table.name, key).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

/// Writes the rebuilt rows, each only if the live row is still the one that was compared. Returns how many
/// rows have changed meanwhile: compare again to check them.
///
/// # Errors
/// Any [`StoreError`]. Rows written before the error stay written: compare again to find the rest.
pub async fn repair<E: Engine>(live: &Store<E>, found: &[Difference]) -> Result<u64, StoreError> {
    let writes = found.iter().map(async |found| {
        let Difference { table, key, there, made } = found;
        let condition = match there {
            None => Condition::NoItem,
            Some(row) => match row.get(attributes::VERSION) {
                Some(version) => Condition::Equals(attributes::VERSION, version.clone()),
                // Rows of read models have no version. They are derived again with every fact of their
                // aggregate, so the short window between this read and the write is acceptable.
                None if live.engine.get(table, key.clone()).await? == *there => Condition::Always,
                None => return Ok(1),
            },
        };
        let written = match made {
            Some(item) => live.engine.put(table, item.clone(), condition).await?,
            None => live.engine.delete(table, key.clone(), condition).await?,
        };
        Ok(u64::from(written != Written::Done))
    });
    iter(writes).buffer_unordered(PARALLEL).try_fold(0, async |sum, moved| Ok(sum + moved)).await
}
