//! Seed 003: users, subscriptions, generation jobs, images, reports, plans and feature flags.

use dues_events::stripe::StripeEvent;
use dues_events::wire::WireError;
use dues_events::wire::app_events::AppEvent;
use dues_events::{Item, Record, UserId};
use serde::{Deserialize, Serialize};

use crate::model::{Model, Told};

/// The read model.
#[derive(Debug)]
pub struct Figureforge;

/// What is told of an aggregate: a user, a job, an image, a plan or a flag.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Fact {}

/// What an aggregate's facts come to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct State {}

impl Model for Figureforge {
    const NAME: &'static str = "figureforge";
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
