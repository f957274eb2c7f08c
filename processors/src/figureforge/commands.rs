//! Commands of the REST API: each is recorded as the fact that the same event on the stream would be.

use dues_events::Item;
use dues_events::wire::app_events::AppEvent;
use dues_projections::figureforge::{Fact, Figureforge};
use dues_projections::model::{Model as _, Recorded};
use dues_store::journal::Aggregate;
use dues_store::{Engine, Store, StoreError};

use crate::outcome::{CommandOutcome, FactOutcome};
use crate::read_models::journal_commit::{load_fact, load_state, record_facts};

/// What a command requires of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing: the command creates the row.
    None,
    /// The row exists.
    RowExists,
}

/// The row that the command requires does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotFound;

/// Executes a command once and returns its row, if there is one afterwards. Retries of a client that sends
/// no time of its own (`is_dated` is false) carry another time, so only their content is compared.
pub async fn command<E: Engine>(
    store: &Store<E>,
    event: AppEvent,
    precondition: Precondition,
    is_dated: bool,
) -> Result<CommandOutcome<Option<Box<Item>>, NotFound>, StoreError> {
    let (aggregate, fact) = match Figureforge::read(&event) {
        Ok(Some(read)) => read,
        Ok(None) => return Ok(CommandOutcome::Rejected(NotFound)),
        Err(error) => return Ok(CommandOutcome::Malformed(error)),
    };
    if precondition == Precondition::RowExists
        && row(store, &aggregate).await?.is_none()
        && !is_recorded(store, &aggregate, &event).await?
    {
        return Ok(CommandOutcome::Rejected(NotFound));
    }
    let recorded = Recorded { id: event.id, at: event.at, fact };
    let outcomes = record_facts::<Figureforge, E>(store, &aggregate, std::slice::from_ref(&recorded)).await?;
    let is_duplicate = match outcomes.first() {
        Some(FactOutcome::Applied) | None => false,
        Some(FactOutcome::Duplicate) => true,
        Some(FactOutcome::ConflictingContent) => {
            if is_dated || !has_same_content(store, &aggregate, &recorded).await? {
                return Ok(CommandOutcome::ConflictingContent);
            }
            true
        }
    };
    let row = row(store, &aggregate).await?.map(Box::new);
    Ok(if is_duplicate { CommandOutcome::Duplicate(row) } else { CommandOutcome::Applied(row) })
}

/// The row of an aggregate, read from the journal: it includes every command that has returned.
pub async fn row<E: Engine>(store: &Store<E>, aggregate: &str) -> Result<Option<Item>, StoreError> {
    let state = load_state::<Figureforge, E>(store, aggregate).await?;
    Ok(Figureforge::rows(aggregate, &state).into_iter().map(|(_, item)| item).next())
}

/// A command that deleted the row can be retried.
async fn is_recorded<E: Engine>(
    store: &Store<E>,
    aggregate: &str,
    event: &AppEvent,
) -> Result<bool, StoreError> {
    Ok(store.journal_fact(&Aggregate::new(Figureforge::NAME, aggregate), &event.id).await?.is_some())
}

/// Whether the fact recorded under that id has the same content, whatever its time.
async fn has_same_content<E: Engine>(
    store: &Store<E>,
    aggregate: &str,
    fact: &Recorded<Fact>,
) -> Result<bool, StoreError> {
    let known = load_fact::<Figureforge, E>(store, aggregate, &fact.id).await?;
    Ok(known.is_some_and(|known| known.fact == fact.fact))
}
