//! Read model figureforge: users, subscriptions, generation jobs, images, reports, plans and feature flags.
//!
//! Each entity is its own aggregate with one row. Two things follow from row changes, not from facts alone:
//! the tags' rows follow the images' ([`tags`]), and an image receives the status of its reports
//! ([`moderation`]).
//!
//! Deletes are soft: the row stays, with `deleted_at`, and leaves the listing indexes that its entity's file
//! names. Only `image.purged` removes a row.

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
pub mod validation;

mod row;
mod soft_delete;
mod wire;

use dues_events::entitlements::stripe;
use dues_events::entitlements::stripe::StripeEvent;
use dues_events::wire::WireError;
use dues_events::wire::app_events::AppEvent;
use dues_events::{Item, Record, UserId};
use serde::{Deserialize, Serialize};

use crate::model::{Latest, Model, Recorded};
use flag::FeatureFlag;
use image::{ImageFact, ImageState};
use job::{JobFact, JobState};
use plan::Plan;
use report::{ReportFact, ReportState};
use row::TABLE;
use subscription::UserSubscription;
use user::User;

pub use soft_delete::{Lifecycle, SoftDelete};

/// The read model `figureforge`.
#[derive(Debug)]
pub struct Figureforge;

/// A fact about an aggregate: a user, a subscription, a job, an image, a report, a plan or a flag.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// About a user.
    User(Lifecycle<User>),
    /// About a subscription.
    Subscription(Box<UserSubscription>),
    /// About a job.
    Job(JobFact),
    /// About an image.
    Image(ImageFact),
    /// About a report.
    Report(ReportFact),
    /// About a plan.
    Plan(Lifecycle<Plan>),
    /// About a feature flag.
    Flag(Lifecycle<FeatureFlag>),
}

/// The merged facts of an aggregate. All parts but one are empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    #[serde(skip_serializing_if = "is_nothing")]
    user: SoftDelete<User>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subscription: Option<Latest<UserSubscription>>,
    #[serde(skip_serializing_if = "is_nothing")]
    job: JobState,
    #[serde(skip_serializing_if = "is_nothing")]
    image: ImageState,
    /// State of a report; empty for other aggregates.
    #[serde(skip_serializing_if = "is_nothing")]
    pub report: ReportState,
    #[serde(skip_serializing_if = "is_nothing")]
    plan: SoftDelete<Plan>,
    #[serde(skip_serializing_if = "is_nothing")]
    flag: SoftDelete<FeatureFlag>,
}

fn is_nothing<T: Default + PartialEq>(part: &T) -> bool {
    *part == T::default()
}

/// The aggregate name of an image.
#[must_use]
pub fn image_aggregate(image: &str) -> String {
    format!("image:{image}")
}

/// The aggregate name of a report. Neither id contains a slash.
#[must_use]
pub fn report_aggregate(image: &str, report: &str) -> String {
    format!("report:{image}/{report}")
}

impl Model for Figureforge {
    const NAME: &'static str = "figureforge";
    type Fact = Fact;
    type State = State;

    fn read(event: &AppEvent) -> Result<Option<(String, Fact)>, WireError> {
        wire::read(event)
    }

    fn stripe(user: &UserId, event: &StripeEvent) -> Option<(String, Fact)> {
        match &event.fact {
            stripe::Fact::Subscription(subscription) => {
                let held = UserSubscription { user: user.clone(), subscription: subscription.clone() };
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

    /// figureforge has no dues by ACH.
    fn billing(_record: &Record) -> Option<(String, Fact)> {
        None
    }

    fn merge(state: &mut State, recorded: &Recorded<Fact>) {
        match &recorded.fact {
            Fact::User(said) => keep(&mut state.user, recorded, said, |user| user.created_at),
            Fact::Subscription(held) => subscription::merge(&mut state.subscription, recorded, held),
            Fact::Job(fact) => state.job.merge(recorded, fact),
            Fact::Image(fact) => state.image.merge(recorded, fact),
            Fact::Report(fact) => state.report.merge(recorded, fact),
            Fact::Plan(said) => keep(&mut state.plan, recorded, said, |plan| plan.created_at),
            Fact::Flag(said) => keep(&mut state.flag, recorded, said, |flag| flag.created_at),
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

fn keep<T: Clone>(
    kept: &mut SoftDelete<T>,
    recorded: &Recorded<Fact>,
    said: &Lifecycle<T>,
    made: impl Fn(&T) -> Option<validation::EpochSecond>,
) {
    match said {
        Lifecycle::Saved(value) => kept.save(recorded, made(value), value.clone()),
        Lifecycle::Deleted => kept.set_gone(recorded, true),
        Lifecycle::Restored => kept.set_gone(recorded, false),
    }
}
