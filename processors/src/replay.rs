//! `replay`: makes rows again from history, in an empty store beside the live one, compares the two, and puts the live one right.
//!
//! Nothing that history is kept in is ever written here: only rows that can be made again.

mod billing;

use dues_events::Item;
use dues_store::table::figureforge::FIGUREFORGE;
use dues_store::table::serenya::SERENYA;
use dues_store::table::{BILLING_ACTIVITY, Table, usage as usage_tables};
use dues_store::{Condition, Cursor, Engine, Key, Store, StoreError};
use futures::stream::{StreamExt as _, TryStreamExt as _, iter};

use crate::audit::{Finding, Kind, differences};
use crate::read_models::{ReadModel, figureforge, serenya, usage};

/// How many rows are read at once.
const PAGE: u32 = 500;
/// How many rows are written or looked up at once.
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

/// Makes the rows of a part again, into a store that has none. Gives how many rows of history that took, or how many it made, telling on the way.
///
/// # Errors
/// What the stores could not do, or a row of history that cannot be read.
pub async fn rebuild<E: Engine, F: Engine>(
    part: Part,
    from: &Store<E>,
    into: &Store<F>,
    mut progress: impl FnMut(u64),
) -> Result<u64, StoreError> {
    let made = match part {
        Part::Billing => billing::rebuild(from, into, &mut progress).await?,
        Part::Model(ReadModel::Usage) => usage::rebuild(from, into).await?,
        Part::Model(ReadModel::Figureforge) => figureforge::rebuild(from, into).await?,
        Part::Model(ReadModel::Serenya) => serenya::rebuild(from, into).await?,
    };
    progress(made);
    Ok(made)
}

/// What the live rows of a part differ in from those that were made again.
///
/// # Errors
/// What the stores could not do.
pub async fn compare<E: Engine, F: Engine>(part: Part, live: &Store<E>, made: &Store<F>) -> Result<Vec<Difference>, StoreError> {
    let mut found = Vec::new();
    for table in part.tables() {
        each_page(live, table, async |items| {
            let looked = iter(items).map(async |item| {
                let key = Key::of(table, &item)?;
                let made = made.engine.get(table, key.clone()).await?;
                Ok::<_, StoreError>((made.as_ref() != Some(&item)).then_some(Difference { table, key, there: Some(item), made }))
            });
            found.extend(looked.buffered(PARALLEL).try_filter_map(async |found| Ok(found)).try_collect::<Vec<_>>().await?);
            Ok(())
        })
        .await?;
        each_page(made, table, async |items| {
            for item in items {
                let key = Key::of(table, &item)?;
                if live.engine.get(table, key.clone()).await?.is_none() {
                    found.push(Difference { table, key, there: None, made: Some(item) });
                }
            }
            Ok(())
        })
        .await?;
    }
    Ok(found)
}

/// Writes what should be there.
///
/// # Errors
/// What the store could not do. What was written stays: comparing again tells what is left.
pub async fn put_right<E: Engine>(live: &Store<E>, found: &[Difference]) -> Result<(), StoreError> {
    let writes = found.iter().map(async |found| match &found.made {
        Some(item) => live.engine.put(found.table, item.clone(), Condition::Always).await.map(drop),
        None => live.engine.delete(found.table, found.key.clone(), Condition::Always).await.map(drop),
    });
    iter(writes).buffer_unordered(PARALLEL).try_collect::<()>().await
}

/// Calls back with every page of a table.
async fn each_page<E: Engine>(
    store: &Store<E>,
    table: &'static Table,
    mut each: impl AsyncFnMut(Vec<Item>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut start: Option<Cursor> = None;
    loop {
        let page = store.engine.scan(table, start, PAGE).await?;
        each(page.items).await?;
        match page.next {
            Some(next) => start = Some(next),
            None => return Ok(()),
        }
    }
}
