//! What the read model `serenya` is asked.

use dues_events::UserId;
use dues_store::{Engine, Store, StoreError};
use serde_json::{Value as Json, json};

/// What it knows of a user: for programs, and as lines for people.
///
/// # Errors
/// What the store could not do.
pub async fn show<E: Engine>(_store: &Store<E>, _user: &UserId) -> Result<(Json, Vec<String>), StoreError> {
    Ok((json!({}), Vec::new()))
}
