//! `replay`: makes rows again from history, compares them with the live ones, and puts those right.
//!
//! Rows are made pile by pile and compared at once, so nothing is written down beside the live store, and what is held is a pile for each core and a
//! mark for each row. Nothing that history is kept in is ever written here: only rows that can be made again.

pub(crate) mod billing;
mod source;

use dues_events::{Item, attr};
use dues_store::table::figureforge::FIGUREFORGE;
use dues_store::table::serenya::SERENYA;
use dues_store::table::{BILLING_ACTIVITY, Table, usage as usage_tables};
use dues_store::{Condition, Engine, Key, Store, StoreError, Written};
use futures::stream::{StreamExt as _, TryStreamExt as _, iter};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::audit::{Finding, Kind, differences};
use crate::piles::{each_key, side_by_side};
use crate::read_models::ReadModel;
use source::{Made, PILE, Source};

/// How many rows are written at once.
const PARALLEL: usize = 128;

/// What can be made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The billing records, from their history.
    Billing,
    /// A read model, from its journal.
    Model(ReadModel),
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Billing, Self::Model(ReadModel::Usage), Self::Model(ReadModel::Figureforge), Self::Model(ReadModel::Serenya)];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Billing => "billing",
            Self::Model(model) => model.name(),
        }
    }

    /// The one with that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }

    /// The read model, if it is one.
    #[must_use]
    pub fn model(self) -> Option<ReadModel> {
        match self {
            Self::Billing => None,
            Self::Model(model) => Some(model),
        }
    }

    /// The tables that it makes again, whole.
    #[must_use]
    pub fn tables(self) -> &'static [&'static Table] {
        match self {
            Self::Billing => &[&BILLING_ACTIVITY],
            // The log of actions is history itself.
            Self::Model(ReadModel::Usage) => &[&usage_tables::USER_SUBSCRIPTIONS, &usage_tables::USER_USAGE],
            Self::Model(ReadModel::Figureforge) => &[&FIGUREFORGE],
            Self::Model(ReadModel::Serenya) => &[&SERENYA],
        }
    }

    /// What its rows are made from.
    fn sources(self) -> &'static [Source] {
        match self {
            Self::Billing => &[Source::Billing],
            Self::Model(ReadModel::Usage) => &[Source::Journal(ReadModel::Usage), Source::Actions],
            Self::Model(ReadModel::Figureforge) => &[Source::Journal(ReadModel::Figureforge)],
            Self::Model(ReadModel::Serenya) => &[Source::Journal(ReadModel::Serenya)],
        }
    }
}

/// A row that is not as history makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// In which table.
    pub table: &'static Table,
    /// Which row.
    pub key: Key,
    /// The row that is there.
    pub there: Option<Item>,
    /// The row that should be.
    pub made: Option<Item>,
}

impl Difference {
    /// In words.
    #[must_use]
    pub fn detail(&self) -> String {
        match (&self.there, &self.made) {
            (Some(there), Some(made)) => differences(there, made),
            (None, _) => "is missing".to_owned(),
            (Some(_), None) => "no history tells of it".to_owned(),
        }
    }
}

impl From<&Difference> for Finding {
    fn from(difference: &Difference) -> Self {
        let kind = match (&difference.there, &difference.made) {
            (Some(_), Some(_)) => Kind::Differs,
            (None, _) => Kind::Missing,
            (Some(_), None) => Kind::Unexplained,
        };
        let Key { partition, sort } = &difference.key;
        let key = format!("{partition}/{}", sort.as_deref().unwrap_or_default());
        Self { table: difference.table.name, key, kind, detail: difference.detail() }
    }
}

/// Makes the rows of a part again, into a store that has none. Gives how many rows of history that took, telling on the way.
///
/// # Errors
/// What the stores could not do, or a row of history that cannot be read.
pub async fn rebuild<E: Engine, F: Engine>(
    part: Part,
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
                    return Err(StoreError::Invalid(format!("{} {}: {why}", source.table().name, key.partition)));
                }
                let writes: Vec<_> = rows.into_iter().map(|(table, row)| into.engine.put(table, row, Condition::Always)).collect();
                iter(writes).buffer_unordered(PARALLEL).try_for_each(async |_| Ok(())).await?;
                Ok(events)
            }
        };
        side_by_side(from, names, PILE, make, |some| {
            events += some;
            progress(events);
        })
        .await?;
    }
    Ok(events)
}

/// How the live rows of a part compare with those that history makes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compared {
    /// How many rows of history were folded.
    pub events: u64,
    /// How many rows are there.
    pub rows: u64,
    /// What differs, by table and key.
    pub differences: Vec<Difference>,
    /// History that cannot be understood: which table, which partition, and why. What it would make is among the differences, as rows that no history
    /// tells of, so nobody should put those right.
    pub unreadable: Vec<(&'static Table, Key, String)>,
}

/// Makes the rows of a part again, and compares them with the live ones, telling on the way how much history was folded.
///
/// # Errors
/// What the store could not do.
pub async fn compare<E: Engine>(part: Part, live: &Store<E>, mut progress: impl FnMut(u64)) -> Result<Compared, StoreError> {
    // The keys come first: whatever is there now was told of before, so whoever reads history from here on makes it again.
    let mut left: HashSet<u128> = HashSet::new();
    for table in part.tables().iter().copied() {
        each_key(live, table, |key| {
            left.insert(mark(table, &key));
        })
        .await?;
    }
    let mut compared = Compared { rows: left.len() as u64, ..Compared::default() };
    for source in part.sources().iter().copied() {
        let names = source.partitions(live).await?;
        side_by_side(
            live,
            names,
            PILE,
            move |live, names| source.compare(live, names),
            |some| {
                for mark in &some.marks {
                    left.remove(mark);
                }
                compared.events += some.events;
                compared.differences.extend(some.differences);
                compared.unreadable.extend(some.unreadable.into_iter().map(|(key, why)| (source.table(), key, why)));
                progress(compared.events);
            },
        )
        .await?;
    }
    if !left.is_empty() {
        compared.differences.extend(unexplained(part, live, &left).await?);
    }
    compared.differences.sort_by(|a, b| (a.table.name, &a.key.partition, &a.key.sort).cmp(&(b.table.name, &b.key.partition, &b.key.sort)));
    Ok(compared)
}

/// The rows behind marks that nothing made; some may have gone meanwhile.
async fn unexplained<E: Engine>(part: Part, live: &Store<E>, left: &HashSet<u128>) -> Result<Vec<Difference>, StoreError> {
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

/// Stands for the key of a row: sixteen bytes, whatever its length, and of a billion rows no two have the same.
fn mark(table: &Table, key: &Key) -> u128 {
    let half = |which: u8| {
        let mut hasher = DefaultHasher::new();
        (which, table.name, key).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

/// Writes what should be there, where the row is still the one that was compared. Gives how many rows somebody else has changed meanwhile: comparing
/// again tells whether they are right now.
///
/// # Errors
/// What the store could not do. What was written stays: comparing again tells what is left.
pub async fn put_right<E: Engine>(live: &Store<E>, found: &[Difference]) -> Result<u64, StoreError> {
    let writes = found.iter().map(async |found| {
        let Difference { table, key, there, made } = found;
        let condition = match there {
            None => Condition::NoItem,
            Some(row) => match row.get(attr::VERSION) {
                Some(version) => Condition::Equals(attr::VERSION, version.clone()),
                // Rows of read models have none. They are made again whenever their aggregate is told something, so a moment is enough.
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
