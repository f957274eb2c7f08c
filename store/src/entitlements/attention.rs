//! Subscriptions at Stripe that need an operator: a renewal is overdue, so an event was missed.
//!
//! The rows are written and removed in the transactions of the user's head, in one partition: there are few,
//! and the listing is one query.

use dues_events::attributes::{PK, SINCE, SK, SUBSCRIPTION, USER_ID};
use dues_events::ids::StripeSubscriptionId;
use dues_events::{GoTime, Item, Time, UserId};

use super::unreadable;
use crate::billing::Store;
use crate::engine::{Condition, Engine, Key, Op, Query, StoreError};
use crate::table::ENTITLEMENTS;

/// The partition of the listing.
pub(crate) const PARTITION: &str = "ATTENTION";

/// A subscription that needs attention.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attention {
    /// The user.
    pub user: UserId,
    /// The subscription at Stripe.
    pub subscription: StripeSubscriptionId,
    /// The end of the period that was not renewed.
    pub since: Time,
}

impl Attention {
    /// What an operator should do about it.
    #[must_use]
    pub fn what_to_do(&self) -> String {
        format!(
            "look {} up at Stripe and resend its events since {}, or cancel it there",
            self.subscription,
            GoTime::trimmed(self.since).text()
        )
    }

    /// Lists it.
    #[must_use]
    pub fn list_op(&self) -> Op {
        let mut item = Item::new();
        item.set_text(PK, PARTITION);
        item.set_text(SK, sort(&self.user, &self.subscription));
        item.set_text(USER_ID, self.user.as_str());
        item.set_text(SUBSCRIPTION, self.subscription.as_str());
        item.set_text(SINCE, GoTime::trimmed(self.since).text());
        Op::Put(&ENTITLEMENTS, item, Condition::Always)
    }

    fn read(item: &Item) -> Result<Self, StoreError> {
        let text = |name| {
            item.text(name).ok_or_else(|| unreadable(item, name, "is missing or not a text".to_owned()))
        };
        let since = dues_events::time::parse(text(SINCE)?);
        Ok(Self {
            user: text(USER_ID)?.into(),
            subscription: text(SUBSCRIPTION)?.into(),
            since: since.map_err(|e| unreadable(item, SINCE, e.to_string()))?,
        })
    }
}

/// Removes a subscription from the listing.
#[must_use]
pub fn unlist_op(user: &UserId, subscription: &StripeSubscriptionId) -> Op {
    let key = Key { partition: PARTITION.to_owned(), sort: Some(sort(user, subscription)) };
    Op::Delete(&ENTITLEMENTS, key, Condition::Always)
}

fn sort(user: &UserId, subscription: &StripeSubscriptionId) -> String {
    format!("{user}#{subscription}")
}

impl<E: Engine> Store<E> {
    /// Every subscription that needs attention, by user.
    pub async fn attention(&self) -> Result<Vec<Attention>, StoreError> {
        let items = self.all(Query::partition(&ENTITLEMENTS, PARTITION)).await?;
        items.iter().map(Attention::read).collect()
    }
}
