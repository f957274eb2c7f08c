//! Usage: the plans of users, from Stripe's subscriptions and from dues by ACH. Use is counted, not folded:
//! see [`dues_events::usage`].
//!
//! A fact holds the tier as received, and the plan that the deployment's configuration gave it when the fact
//! was recorded. So a rebuild needs only the journal, whatever the configuration says by then.

mod dues_plan;
mod plans;

use dues_events::entitlements::stripe::{Fact as StripeFact, StripeEvent, Subscription, SubscriptionStatus};
use dues_events::usage::{CREATED_AT, PLAN_ID, STATUS, UPDATED_AT};
use dues_events::wire::WireError;
use dues_events::wire::app_events::AppEvent;
use dues_events::{GoTime, Item, Record, Time, UserId, attributes};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::model::{Latest, Model, Recorded};
pub use dues_plan::{Dues, DuesPlanState, dues_plan_id};
pub use plans::{Plans, UnknownPlan};

/// The table of the rows.
const TABLE: &str = "f1-user-subscriptions";

/// The read model.
#[derive(Debug)]
pub struct Usage;

/// A fact about an aggregate: a user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// The state of a subscription at Stripe.
    Stripe(Subscribed),
    /// The state of a billing record of dues by ACH.
    Dues(Dues),
}

/// A subscription at Stripe, and the plan of its tier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Subscribed {
    /// The subscription.
    pub subscription: Subscription,
    /// The plan; before [`Fact::with_plan`], the tier itself.
    pub plan: Box<str>,
}

impl Fact {
    /// Replaces the tier with the plan that the configuration maps it to.
    ///
    /// # Errors
    /// [`UnknownPlan`] when the configuration has none.
    pub fn with_plan(self, plans: &Plans) -> Result<Self, UnknownPlan> {
        Ok(match self {
            Self::Stripe(subscribed) => {
                Self::Stripe(Subscribed { plan: plans.of_tier(&subscribed.plan)?.into(), ..subscribed })
            }
            Self::Dues(dues) => Self::Dues(Dues { plan: plans.of_tier(&dues.plan)?.into(), ..dues }),
        })
    }
}

/// What a user's facts merge into.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Each subscription at Stripe, as of its latest event.
    #[serde(default)]
    stripe: BTreeMap<String, Latest<Subscribed>>,
    /// The newest billing records.
    #[serde(default)]
    dues: dues_plan::Records,
}

impl Model for Usage {
    const NAME: &'static str = "usage";
    type Fact = Fact;
    type State = State;

    fn read(_event: &AppEvent) -> Result<Option<(String, Fact)>, WireError> {
        Ok(None)
    }

    fn stripe(user: &UserId, event: &StripeEvent) -> Option<(String, Fact)> {
        let subscription = match &event.fact {
            StripeFact::Subscription(subscription) => subscription.clone(),
            StripeFact::InvoicePaid(_)
            | StripeFact::InvoiceFailed(_)
            | StripeFact::Checkout(_)
            | StripeFact::PaymentIntent(_)
            | StripeFact::Refund(_)
            | StripeFact::ChargeRefunded(_)
            | StripeFact::Dispute(_) => return None,
        };
        let plan = subscription.tier.clone().unwrap_or_else(|| plans::NO_TIER.into());
        Some((user.to_string(), Fact::Stripe(Subscribed { subscription, plan })))
    }

    fn billing(record: &Record) -> Option<(String, Fact)> {
        Dues::of(record).map(|dues| (record.user_id.to_string(), Fact::Dues(dues)))
    }

    fn merge(state: &mut State, recorded: &Recorded<Fact>) {
        match &recorded.fact {
            Fact::Stripe(subscribed) => {
                let id = subscribed.subscription.id.to_string();
                let mut place = state.stripe.remove(&id);
                Latest::update_ranked(&mut place, recorded, subscribed.clone(), |subscribed| {
                    subscribed.subscription.rank()
                });
                state.stripe.extend(place.map(|latest| (id, latest)));
            }
            Fact::Dues(dues) => state.dues.update(recorded.at, dues),
        }
    }

    fn rows(aggregate: &str, state: &State) -> Vec<(&'static str, Item)> {
        let stripe = state.stripe.values().map(|latest| stripe_row(aggregate, latest));
        let dues = state.dues.row(aggregate);
        stripe.chain(dues).map(|item| (TABLE, item)).collect()
    }
}

fn stripe_row(user: &str, latest: &Latest<Subscribed>) -> Item {
    let Subscribed { subscription, plan } = &latest.value;
    // Stripe deletes a subscription in whatever status it has.
    let status = if subscription.ended { SubscriptionStatus::Canceled } else { subscription.status };
    let mut item = row(user, subscription.id.as_str(), plan, status.as_str());
    item.set_text("stripe_subscription_id", subscription.id.as_str());
    if let Some(period) = subscription.period {
        set_period(&mut item, period.start, period.end);
    }
    item.set_text(CREATED_AT, text(subscription.created_at));
    item.set_text(UPDATED_AT, text(latest.at));
    item
}

fn row(user: &str, id: &str, plan: &str, status: &str) -> Item {
    let mut item = Item::new();
    item.set_text(attributes::USER_ID, user);
    item.set_text(attributes::SUBSCRIPTION_ID, id);
    item.set_text(PLAN_ID, plan);
    item.set_text(STATUS, status);
    item
}

fn set_period(item: &mut Item, start: Time, end: Time) {
    item.set_text("current_period_start", text(start));
    item.set_text("current_period_end", text(end));
}

fn text(time: Time) -> String {
    GoTime::trimmed(time).text()
}
