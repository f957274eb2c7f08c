//! Commands: what the API is asked to do becomes the same facts as what comes on the stream.

use dues_events::Item;
use dues_events::wire::WireError;
use dues_events::wire::app_events::AppEvent;
use dues_projections::figureforge::{Fact, Figureforge};
use dues_projections::model::{Model as _, Told};
use dues_store::journal::Aggregate;
use dues_store::{Engine, Store, StoreError};

use crate::read_models::booking::{Booked, state, tell};

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// It is done, now or before; this is the row, if there is one.
    Row(Option<Box<Item>>),
    /// There is nothing that it could be done to.
    Nothing,
    /// Another command had its id.
    Different,
    /// It cannot be understood.
    Malformed(WireError),
}

/// Carries a command out, once. One that changes something needs something that is there, unless it `makes` it. A client that does not say when it
/// happened sends no time again: then only what was said is compared.
///
/// # Errors
/// What the store could not do.
pub async fn command<E: Engine>(store: &Store<E>, event: AppEvent, makes: bool, dated: bool) -> Result<Done, StoreError> {
    let (aggregate, fact) = match Figureforge::read(&event) {
        Ok(Some(read)) => read,
        Ok(None) => return Ok(Done::Nothing),
        Err(error) => return Ok(Done::Malformed(error)),
    };
    if !makes && row(store, &aggregate).await?.is_none() && !is_known(store, &aggregate, &event).await? {
        return Ok(Done::Nothing);
    }
    let told = Told { id: event.id, at: event.at, fact };
    let booked = tell::<Figureforge, E>(store, &aggregate, std::slice::from_ref(&told)).await?;
    match booked.first() {
        Some(Booked::Different) if dated || !says_the_same(store, &aggregate, &told).await? => Ok(Done::Different),
        Some(Booked::Applied | Booked::Duplicate | Booked::Different) | None => Ok(Done::Row(row(store, &aggregate).await?.map(Box::new))),
    }
}

/// The row that belongs to an aggregate, as consistent as the command that asks.
///
/// # Errors
/// What the store could not do.
pub async fn row<E: Engine>(store: &Store<E>, aggregate: &str) -> Result<Option<Item>, StoreError> {
    let state = state::<Figureforge, E>(store, aggregate).await?;
    Ok(Figureforge::rows(aggregate, &state).into_iter().map(|(_, item)| item).next())
}

/// A command that took the row away can be repeated.
async fn is_known<E: Engine>(store: &Store<E>, aggregate: &str, event: &AppEvent) -> Result<bool, StoreError> {
    Ok(store.journal_fact(&Aggregate::new(Figureforge::NAME, aggregate), &event.id).await?.is_some())
}

/// Whether what is known under that id says the same, whenever it was.
async fn says_the_same<E: Engine>(store: &Store<E>, aggregate: &str, told: &Told<Fact>) -> Result<bool, StoreError> {
    let known = store.journal_fact(&Aggregate::new(Figureforge::NAME, aggregate), &told.id).await?;
    let known = known.map(|text| serde_json::from_str::<Told<Fact>>(&text)).transpose();
    Ok(known
        .map_err(|error| StoreError::Invalid(format!("the journal: {aggregate}: {error}")))?
        .is_some_and(|known| known.fact == told.fact))
}
