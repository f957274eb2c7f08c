//! Context of stream handlers: the store, and how a batch runs.

use dues_events::ParkedEvents;
use dues_store::{Engine, Store};

use crate::read_models::ReadModels;

/// Dependencies and settings of stream handlers.
#[derive(Clone)]
pub struct Context<E> {
    /// The tables.
    pub store: Store<E>,
    /// How many lanes of a batch run at once.
    pub parallel: usize,
    /// Whether the records are redriven: parked events are then decided anew.
    pub parked_events: ParkedEvents,
    /// The read models of the deployment.
    pub read_models: ReadModels,
}

impl<E: Engine> Context<E> {
    /// The defaults: 128 lanes at once.
    pub fn new(store: Store<E>) -> Self {
        Self { store, parallel: 128, parked_events: ParkedEvents::Keep, read_models: ReadModels::default() }
    }
}
