//! Seed 003: users, subscriptions, generation jobs, images, reports, plans and feature flags.
//!
//! Each entity is an aggregate of its own, and has one row. Two things follow from changes of rows and not from facts alone: the tags' rows follow the
//! images' ([`tags`]), and an image is told how its reports stand ([`moderation`]).
//!
//! Nothing is ever lost by deleting: the row stays, with `deleted_at`, and leaves the indexes that list things for people. Which ones, each entity's file
//! says. Only `image.purged` takes a row away.

pub mod flag;
pub mod image;
pub mod job;
pub mod moderation;
pub mod objects;
pub mod plan;
pub mod presign;
pub mod report;
pub mod subscription;
pub mod tags;
pub mod user;
pub mod words;

mod kept;
mod read;
mod row;

use dues_events::stripe::{self, StripeEvent};
use dues_events::wire::WireError;
use dues_events::wire::app_events::AppEvent;
use dues_events::{Item, Record, UserId};
use serde::{Deserialize, Serialize};

use crate::model::{Latest, Model, Told};
use flag::FeatureFlag;
use image::{ImageFact, ImageState};
use job::{JobFact, JobState};
use plan::Plan;
use report::{ReportFact, ReportState};
use row::TABLE;
use subscription::Held;
use user::User;

pub use kept::{Kept, Said};

/// The read model.
#[derive(Debug)]
pub struct Figureforge;

/// What is told of an aggregate: a user, a subscription, a job, an image, a report, a plan or a flag.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// Of a user.
    User(Said<User>),
    /// Of a subscription.
    Subscription(Box<Held>),
    /// Of a job.
    Job(JobFact),
    /// Of an image.
    Image(ImageFact),
    /// Of a report.
    Report(ReportFact),
    /// Of a plan.
    Plan(Said<Plan>),
    /// Of a feature flag.
    Flag(Said<FeatureFlag>),
}

/// What an aggregate's facts come to. All but one part of it say nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    #[serde(skip_serializing_if = "is_nothing")]
    user: Kept<User>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subscription: Option<Latest<Held>>,
    #[serde(skip_serializing_if = "is_nothing")]
    job: JobState,
    #[serde(skip_serializing_if = "is_nothing")]
    image: ImageState,
    /// The report, if it is one.
    #[serde(skip_serializing_if = "is_nothing")]
    pub report: ReportState,
    #[serde(skip_serializing_if = "is_nothing")]
    plan: Kept<Plan>,
    #[serde(skip_serializing_if = "is_nothing")]
    flag: Kept<FeatureFlag>,
}

fn is_nothing<T: Default + PartialEq>(part: &T) -> bool {
    *part == T::default()
}

/// The aggregate of an image.
#[must_use]
pub fn image_aggregate(image: &str) -> String {
    format!("image:{image}")
}

/// The aggregate of a report. Neither id has a slash.
#[must_use]
pub fn report_aggregate(image: &str, report: &str) -> String {
    format!("report:{image}/{report}")
}

impl Model for Figureforge {
    const NAME: &'static str = "figureforge";
    type Fact = Fact;
    type State = State;

    fn read(event: &AppEvent) -> Result<Option<(String, Fact)>, WireError> {
        read::read(event)
    }

    fn stripe(user: &UserId, event: &StripeEvent) -> Option<(String, Fact)> {
        match &event.fact {
            stripe::Fact::Subscription(subscription) => {
                let held = Held { user: user.clone(), subscription: subscription.clone() };
                Some((format!("sub:{}", subscription.id), Fact::Subscription(Box::new(held))))
            }
            stripe::Fact::InvoicePaid(_)
            | stripe::Fact::InvoiceFailed(_)
            | stripe::Fact::Checkout(_)
            | stripe::Fact::PaymentIntent(_)
            | stripe::Fact::Refund(_)
            | stripe::Fact::ChargeRefunded(_)
            | stripe::Fact::Dispute(_) => None,
        }
    }

    /// Dues by ACH are nothing that figureforge sells.
    fn billing(_record: &Record) -> Option<(String, Fact)> {
        None
    }

    fn merge(state: &mut State, told: &Told<Fact>) {
        match &told.fact {
            Fact::User(said) => keep(&mut state.user, told, said, |user| user.created_at),
            Fact::Subscription(held) => subscription::merge(&mut state.subscription, told, held),
            Fact::Job(fact) => state.job.merge(told, fact),
            Fact::Image(fact) => state.image.merge(told, fact),
            Fact::Report(fact) => state.report.merge(told, fact),
            Fact::Plan(said) => keep(&mut state.plan, told, said, |plan| plan.created_at),
            Fact::Flag(said) => keep(&mut state.flag, told, said, |flag| flag.created_at),
        }
    }

    fn rows(aggregate: &str, state: &State) -> Vec<(&'static str, Item)> {
        let id = aggregate.split_once(':').map_or(aggregate, |(_, id)| id);
        let rows = [
            user::row(id, &state.user),
            subscription::row(&state.subscription),
            state.job.row(id),
            state.image.row(id),
            state.report.row(id),
            plan::row(id, &state.plan),
            flag::row(id, &state.flag),
        ];
        rows.into_iter().flatten().map(|item| (TABLE, item)).collect()
    }
}

fn keep<T: Clone>(kept: &mut Kept<T>, told: &Told<Fact>, said: &Said<T>, made: impl Fn(&T) -> Option<words::Second>) {
    match said {
        Said::Saved(value) => kept.save(told, made(value), value.clone()),
        Said::Deleted => kept.set_gone(told, true),
        Said::Restored => kept.set_gone(told, false),
    }
}
