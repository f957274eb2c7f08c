//! Seed 004: a user's profile with everything embedded, payments, and the configuration.

use dues_events::stripe::StripeEvent;
use dues_events::wire::WireError;
use dues_events::wire::app_events::AppEvent;
use dues_events::{Item, Record, UserId};
use serde::{Deserialize, Serialize};

use crate::model::{Model, Told};

/// The read model.
#[derive(Debug)]
pub struct Serenya;

/// What is told of an aggregate: a user, a document or the configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Fact {}

/// What an aggregate's facts come to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct State {}

impl Model for Serenya {
    const NAME: &'static str = "serenya";
    type Fact = Fact;
    type State = State;

    fn read(_event: &AppEvent) -> Result<Option<(String, Fact)>, WireError> {
        Ok(None)
    }

    fn stripe(_user: &UserId, _event: &StripeEvent) -> Option<(String, Fact)> {
        None
    }

    fn billing(_record: &Record) -> Option<(String, Fact)> {
        None
    }

    fn merge(_state: &mut State, told: &Told<Fact>) {
        match told.fact {}
    }

    fn rows(_aggregate: &str, _state: &State) -> Vec<(&'static str, Item)> {
        Vec::new()
    }
}
