//! Parking: a record that cannot be processed is stored with the reason, and never stalls its stream.

use dues_events::Rejection;
use dues_events::wire::{WireError, peek_ids};
use dues_store::parked::Parked;
use dues_store::{Engine, Store, StoreError};

use crate::runtime::lanes::{Delivery, Outcome};

/// Why a record is parked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Poison {
    /// For programs.
    pub(crate) code: &'static str,
    /// For operators: names the field or the row.
    pub(crate) reason: String,
}

impl Poison {
    pub(crate) fn new(code: &'static str, reason: impl ToString) -> Self {
        Self { code, reason: reason.to_string() }
    }

    /// A store error as a reason to park.
    ///
    /// # Errors
    /// [`Outcome::Failed`] when the error is transient: redelivery can succeed.
    pub(crate) fn of(error: &StoreError) -> Result<Self, Outcome> {
        if error.is_transient() {
            return Err(Outcome::Failed(error.to_string()));
        }
        Ok(Self::new("store", error))
    }
}

impl From<WireError> for Poison {
    fn from(error: WireError) -> Self {
        Self::new("malformed", error)
    }
}

impl From<&Rejection> for Poison {
    fn from(rejection: &Rejection) -> Self {
        Self::new(rejection.code(), rejection)
    }
}

/// Event id and user id of a record, as far as they are known.
pub(crate) type Ids = (Option<String>, Option<String>);

/// Parks a record: [`Outcome::Parked`], or [`Outcome::Failed`] when the store is unavailable.
pub(crate) async fn park<E: Engine>(
    store: &Store<E>,
    stream: &str,
    record: &Delivery,
    poison: Poison,
    ids: Ids,
) -> Outcome {
    write(store, parked(store, stream, record, (poison.code, poison.reason), ids)).await
}

/// Parks a record under the ids that can be read from it. Parking it again changes nothing.
pub async fn park_record<E: Engine>(
    store: &Store<E>,
    stream: &str,
    record: &Delivery,
    code: &str,
    reason: String,
) -> Outcome {
    write(store, parked(store, stream, record, (code, reason), peek_ids(&record.data))).await
}

/// The row of a parked record.
pub(crate) fn parked<E>(
    store: &Store<E>,
    stream: &str,
    record: &Delivery,
    (code, reason): (&str, String),
    (event_id, user_id): Ids,
) -> Parked {
    Parked {
        stream: stream.to_owned(),
        id: Parked::id_of(stream, &record.data),
        code: code.to_owned(),
        reason,
        event_id,
        user_id,
        sequence: record.sequence.clone(),
        parked_at: store.clock.now(),
        body: record.data.clone(),
    }
}

async fn write<E: Engine>(store: &Store<E>, parked: Parked) -> Outcome {
    match store.park(&parked).await {
        Ok(()) => Outcome::Parked,
        Err(error) => Outcome::Failed(format!("could not be parked ({}): {error}", parked.reason)),
    }
}
