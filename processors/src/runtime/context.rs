//! Context of stream handlers: the store, and how a batch runs.

use chrono::TimeDelta;
use dues_events::ParkedEvents;
use dues_store::{Engine, Store};

use crate::read_models::ReadModels;

/// Dependencies and settings of stream handlers.
#[derive(Clone)]
pub struct Context<E> {
    /// The tables.
    pub store: Store<E>,
    /// How long a record that arrived too early is redelivered before it is parked.
    pub hold: TimeDelta,
    /// How many lanes of a batch run at once.
    pub parallel: usize,
    /// Whether the records are redriven: parked events are then decided anew.
    pub parked_events: ParkedEvents,
    /// The read models of the deployment.
    pub read_models: ReadModels,
}

impl<E: Engine> Context<E> {
    /// The defaults: hold for five minutes, 128 lanes at once.
    pub fn new(store: Store<E>) -> Self {
        Self {
            store,
            hold: TimeDelta::minutes(5),
            parallel: 128,
            parked_events: ParkedEvents::Keep,
            read_models: ReadModels::default(),
        }
    }
}
