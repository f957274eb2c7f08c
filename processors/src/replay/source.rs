//! Where the history of rows is, and how they are made from it.

use dues_events::Item;
use dues_projections::figureforge::{Figureforge, tags};
use dues_projections::model::Model;
use dues_projections::serenya::Serenya;
use dues_projections::usage::Usage;
use dues_store::journal::Aggregate;
use dues_store::table::figureforge::FIGUREFORGE;
use dues_store::table::usage::ACTIONS_LOG;
use dues_store::table::{HISTORY, JOURNAL, Table};
use dues_store::{Engine, Key, Query, Store, StoreError};

use super::{Difference, billing, mark};
use crate::piles::{partitions, read};
use crate::read_models::{ReadModel, booking, usage};

/// How many partitions of history are worked on together.
pub(super) const PILE: usize = 100;

/// A history that rows are made from, partition by partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The history of billing records, by user.
    Billing,
    /// The facts of a read model, by aggregate.
    Journal(ReadModel),
    /// The log of what was used, by user.
    Actions,
}

/// What was made from some partitions.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// How many rows of history were folded.
    pub(super) events: u64,
    /// The rows.
    pub(super) rows: Vec<(&'static Table, Item)>,
    /// The partitions that could not be understood, and why.
    pub(super) unreadable: Vec<(Key, String)>,
}

/// How what was made from some partitions compares with what is there.
#[derive(Debug, Default)]
pub(super) struct Compared {
    pub(super) events: u64,
    /// The marks of the rows that were made.
    pub(super) marks: Vec<u128>,
    pub(super) differences: Vec<Difference>,
    pub(super) unreadable: Vec<(Key, String)>,
}

impl Source {
    /// The table that the history is in.
    pub(super) fn table(self) -> &'static Table {
        match self {
            Self::Billing => &HISTORY,
            Self::Journal(_) => &JOURNAL,
            Self::Actions => &ACTIONS_LOG,
        }
    }

    /// The names of its partitions.
    pub(super) async fn partitions<E: Engine>(self, store: &Store<E>) -> Result<Vec<String>, StoreError> {
        let model = match self {
            Self::Billing | Self::Actions => None,
            Self::Journal(model) => Some(model.name()),
        };
        let wanted = |name: &str| model.is_none_or(|model| Aggregate::read(name).is_some_and(|aggregate| aggregate.model == model));
        partitions(store, self.table(), wanted).await
    }

    /// Makes the rows of some partitions.
    pub(super) async fn make<E: Engine>(self, store: &Store<E>, names: Vec<String>) -> Result<Made, StoreError> {
        let query = |name: &String| match self {
            Self::Billing | Self::Actions => Query::partition(self.table(), name.as_str()),
            Self::Journal(_) => Aggregate::facts_of(name),
        };
        let histories = read(store, names.iter().map(query).collect()).await?;
        // Days that are forgotten have no counts.
        let forgotten = match self {
            Self::Actions => store.usage_reset_through().await?,
            Self::Billing | Self::Journal(_) => None,
        };
        let mut made = Made::default();
        for (name, history) in names.into_iter().zip(histories) {
            made.events += history.len() as u64;
            let rows = match self {
                Self::Billing => billing::rows(history),
                Self::Actions => usage::rows(history, forgotten),
                Self::Journal(ReadModel::Usage) => journal::<Usage>(&name, &history),
                Self::Journal(ReadModel::Serenya) => journal::<Serenya>(&name, &history),
                Self::Journal(ReadModel::Figureforge) => journal::<Figureforge>(&name, &history).map(with_tags),
            };
            match rows {
                Ok(rows) => made.rows.extend(rows),
                Err(error) => made.unreadable.push((Key { partition: name, sort: None }, error.to_string())),
            }
        }
        Ok(made)
    }

    /// Makes the rows of some partitions, and looks at those that are there.
    pub(super) async fn compare<E: Engine>(self, live: Store<E>, names: Vec<String>) -> Result<Compared, StoreError> {
        let Made { events, rows, unreadable } = self.make(&live, names).await?;
        let keys = rows.iter().map(|(table, row)| Ok((*table, Key::of(table, row)?))).collect::<Result<Vec<_>, StoreError>>()?;
        let mut compared = Compared { events, unreadable, ..Compared::default() };
        compared.marks.extend(keys.iter().map(|(table, key)| mark(table, key)));
        let there = live.engine.get_many(keys.clone()).await;
        for (((table, key), (_, made)), there) in keys.into_iter().zip(rows).zip(there) {
            let there = there?;
            if there.as_ref() != Some(&made) {
                compared.differences.push(Difference { table, key, there, made: Some(made) });
            }
        }
        Ok(compared)
    }
}

type Rows = Vec<(&'static Table, Item)>;

fn journal<M: Model>(partition: &str, facts: &[Item]) -> Result<Rows, StoreError> {
    let name = Aggregate::read(partition).map(|aggregate| aggregate.name).unwrap_or_default();
    booking::made::<M>(&name, facts)
}

/// The tags' rows follow from the images'.
fn with_tags(mut rows: Rows) -> Rows {
    let tagged: Rows = rows.iter().flat_map(|(_, row)| tags::rows(row).into_values()).map(|tag| (&FIGUREFORGE, tag)).collect();
    rows.extend(tagged);
    rows
}
