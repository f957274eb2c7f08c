//! The histories, and how rows are rebuilt from them.

use dues_events::Item;
use dues_projections::figureforge::{Figureforge, tags};
use dues_projections::model::Model;
use dues_projections::serenya::Serenya;
use dues_projections::usage::Usage;
use dues_store::journal::Aggregate;
use dues_store::table::figureforge::FIGUREFORGE;
use dues_store::table::usage::ACTIONS_LOG;
use dues_store::table::{BILLING_ACTIVITY, HISTORY, JOURNAL, Table};
use dues_store::{Engine, Key, Query, Store, StoreError};

use super::{Difference, billing, mark};
use crate::read_models::{ReadModel, journal_commit};
use crate::runtime::partition_scan::{partitions, read};
use crate::usage;

/// Partitions of history per batch.
pub(super) const PARTITIONS_PER_BATCH: usize = 100;

/// A history that rows are rebuilt from, partition by partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The history of billing records, by user.
    Billing,
    /// The facts of a read model, by aggregate.
    Journal(ReadModel),
    /// The log of actions, by user.
    Actions,
}

/// Rows rebuilt from some partitions.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// Rows of history that were folded.
    pub(super) events: u64,
    /// The rows.
    pub(super) rows: Vec<(&'static Table, Item)>,
    /// The partitions that could not be decoded, and why.
    pub(super) unreadable: Vec<(Key, String)>,
}

/// Rebuilt rows of some partitions compared with the live ones.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) events: u64,
    /// The marks of the rebuilt rows.
    pub(super) marks: Vec<u128>,
    pub(super) differences: Vec<Difference>,
    pub(super) unreadable: Vec<(Key, String)>,
}

impl Source {
    /// The table of the history.
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
        let wanted = |name: &str| {
            model.is_none_or(|model| Aggregate::read(name).is_some_and(|aggregate| aggregate.model == model))
        };
        partitions(store, self.table(), wanted).await
    }

    /// Rebuilds the rows of some partitions.
    pub(super) async fn make<E: Engine>(
        self,
        store: &Store<E>,
        names: Vec<String>,
    ) -> Result<Made, StoreError> {
        let query = |name: &String| match self {
            Self::Billing | Self::Actions => Query::partition(self.table(), name.as_str()),
            Self::Journal(_) => Aggregate::facts_of(name),
        };
        let histories = read(store, names.iter().map(query).collect()).await?;
        // Days that were reset have no counts.
        let forgotten = match self {
            Self::Actions => store.usage_reset_through().await?,
            Self::Billing | Self::Journal(_) => None,
        };
        let live = match self {
            Self::Billing => {
                let query = |name: &String| Query::partition(&BILLING_ACTIVITY, name.as_str());
                read(store, names.iter().map(query).collect()).await?
            }
            Self::Actions | Self::Journal(_) => vec![Vec::new(); names.len()],
        };
        let mut made = Made::default();
        for ((name, history), live) in names.into_iter().zip(histories).zip(live) {
            made.events += history.len() as u64;
            let rows = match self {
                Self::Billing => billing::rows(history, live),
                Self::Actions => usage::rows(history, forgotten),
                Self::Journal(ReadModel::Usage) => journal::<Usage>(&name, &history),
                Self::Journal(ReadModel::Serenya) => journal::<Serenya>(&name, &history),
                Self::Journal(ReadModel::Figureforge) => {
                    journal::<Figureforge>(&name, &history).map(with_tags)
                }
            };
            match rows {
                Ok(rows) => made.rows.extend(rows),
                Err(error) => made.unreadable.push((Key { partition: name, sort: None }, error.to_string())),
            }
        }
        Ok(made)
    }

    /// Rebuilds the rows of some partitions and compares them with the live ones.
    pub(super) async fn compare<E: Engine>(
        self,
        live: Store<E>,
        names: Vec<String>,
    ) -> Result<Comparison, StoreError> {
        let Made { events, rows, unreadable } = self.make(&live, names).await?;
        let keys = rows
            .iter()
            .map(|(table, row)| Ok((*table, Key::of(table, row)?)))
            .collect::<Result<Vec<_>, StoreError>>()?;
        let mut compared = Comparison { events, unreadable, ..Comparison::default() };
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
    journal_commit::rebuild_rows::<M>(&name, facts)
}

/// Adds the tag rows, which are derived from the image rows.
fn with_tags(mut rows: Rows) -> Rows {
    let tagged: Rows = rows
        .iter()
        .flat_map(|(_, row)| tags::rows(row).into_values())
        .map(|tag| (&FIGUREFORGE, tag))
        .collect();
    rows.extend(tagged);
    rows
}
