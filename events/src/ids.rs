//! Typed ids: a user id cannot be passed as a subscription id, nor an event id as a transaction id.

use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;

use crate::item::Item;
use crate::time::Time;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Box<str>);

        impl $name {
            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl<T: Into<Box<str>>> From<T> for $name {
            fn from(text: T) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id!(
    /// The billed user.
    UserId
);
text_id!(
    /// One billing period of one user: the UUID in `subscription_id`.
    SubscriptionId
);
text_id!(
    /// Identifies a fact. A producer that retries sends the same id in a new stream record.
    EventId
);
text_id!(
    /// The payment processor's confirmation of one attempt.
    TransactionId
);

text_id!(
    /// The gateway's idempotency key: the same for every request of one attempt.
    AttemptKey
);
text_id!(
    /// The gateway's idempotency key of a refund: the same for every request of one refund.
    RefundKey
);
text_id!(
    /// The payment processor's confirmation of one refund.
    GatewayRefundId
);

text_id!(
    /// Stripe's `cus_…`: a customer.
    CustomerId
);
text_id!(
    /// Stripe's `sub_…`: a subscription, over all of its periods.
    StripeSubscriptionId
);
text_id!(
    /// Stripe's `in_…`: one invoice.
    InvoiceId
);
text_id!(
    /// Stripe's `pi_…`: one payment, over all of its attempts.
    PaymentIntentId
);
text_id!(
    /// Stripe's `ch_…`: one attempt that moved money.
    ChargeId
);
text_id!(
    /// Stripe's `cs_…`: one checkout session.
    CheckoutId
);
text_id!(
    /// Stripe's `re_…`: one refund.
    RefundId
);
text_id!(
    /// Stripe's `du_…`: one dispute.
    DisputeId
);
text_id!(
    /// One movement of credits: the same for every redelivery of one fact.
    MovementId
);

text_id!(
    /// One published message: the same for every publication of one change, so that consumers can drop
    /// duplicates.
    MessageId
);

impl AttemptKey {
    /// The key of a record's n-th attempt.
    #[must_use]
    pub fn of(subscription: &SubscriptionId, attempt: u32) -> Self {
        format!("{subscription}-{attempt}").into()
    }

    /// The attempt number, if this is a key of that record.
    #[must_use]
    pub fn number_of(&self, subscription: &SubscriptionId) -> Option<u32> {
        let number = self.as_str().strip_prefix(subscription.as_str())?.strip_prefix('-')?;
        number.parse().ok().filter(|n| *n > 0 && Self::of(subscription, *n) == *self)
    }
}

impl RefundKey {
    /// The key of a transaction's n-th refund. A hash, because a transaction id may come from another service
    /// in characters that a header cannot hold.
    #[must_use]
    pub fn of(transaction: &TransactionId, n: u32) -> Self {
        let name = format!("refund\u{1f}{transaction}\u{1f}{n}");
        format!("refund-{}", Uuid::new_v5(&NAMESPACE, name.as_bytes()).hyphenated()).into()
    }
}

/// UUID namespace of all ids generated here.
const NAMESPACE: Uuid = Uuid::from_u128(0x8d6f_2d4e_7a1b_5c93_9e42_51c8_0a6b_7f10);

impl SubscriptionId {
    /// The id of one period of a membership. Deterministic: the same user, membership, anchor and period
    /// give the same id, so a record written twice is the same record.
    #[must_use]
    pub fn of_period(user: &UserId, since: Time, anchor: Time, period: &str) -> Self {
        let name = format!("{user}\u{1f}{}\u{1f}{}\u{1f}{period}", nanos(since), nanos(anchor));
        Uuid::new_v5(&NAMESPACE, name.as_bytes()).hyphenated().to_string().into()
    }
}

/// Identifies a change of an item, independent of the delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeId(Uuid);

impl ChangeId {
    /// Derives the id from the images: equal images give equal ids. Every write by this system changes a
    /// version or a time in the image, so no two changes of an item share an id.
    #[must_use]
    pub fn of(old: Option<&Item>, new: Option<&Item>) -> Self {
        let image = |item: Option<&Item>| item.map(|item| item.to_json().to_string()).unwrap_or_default();
        Self(Uuid::new_v5(&NAMESPACE, format!("{}\u{1f}{}", image(old), image(new)).as_bytes()))
    }

    /// The id of the message of that kind about this change.
    #[must_use]
    pub fn message(self, kind: &str) -> MessageId {
        Uuid::new_v5(&self.0, kind.as_bytes()).hyphenated().to_string().into()
    }
}

impl UserId {
    /// The user id for a provider's external id. Deterministic, so that repeated sign-ins never create a
    /// second user.
    #[must_use]
    pub fn of_sign_in(provider: &str, external_id: &str) -> Self {
        Uuid::new_v5(&NAMESPACE, format!("{provider}\u{1f}{external_id}").as_bytes())
            .hyphenated()
            .to_string()
            .into()
    }
}

fn nanos(time: Time) -> i128 {
    i128::from(time.timestamp()) * 1_000_000_000 + i128::from(time.timestamp_subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_has_one_id_and_every_part_of_its_name_matters() {
        let t = |text: &str| crate::time::parse(text).unwrap();
        let (jan, feb) = (t("2026-01-31T00:00:00Z"), t("2026-02-28T00:00:00Z"));
        let id = |user: &str, since, anchor, period| {
            SubscriptionId::of_period(&user.into(), since, anchor, period)
        };
        let one = id("u-1", jan, jan, "01/2026");
        assert_eq!(one, id("u-1", jan, jan, "01/2026"));
        for other in [
            id("u-2", jan, jan, "01/2026"),
            id("u-1", feb, jan, "01/2026"),
            id("u-1", jan, feb, "01/2026"),
            id("u-1", jan, jan, "02/2026"),
        ] {
            assert_ne!(one, other);
        }
        assert_eq!(Uuid::parse_str(one.as_str()).unwrap().get_version_num(), 5);
    }

    #[test]
    fn a_refund_has_one_key_that_fits_into_a_header() {
        let key = |transaction: &str, n| RefundKey::of(&transaction.into(), n);
        assert_eq!(key("c-991", 1), key("c-991", 1));
        assert_ne!(key("c-991", 1), key("c-991", 2));
        assert_ne!(key("c-99", 11), key("c-991", 1));
        assert!(key("é\n", 1).as_str().bytes().all(|byte| byte.is_ascii_graphic()));
    }

    #[test]
    fn a_change_has_one_id_for_each_kind_of_message_and_both_images_matter() {
        let item = |version: u64| Item::from_iter([("version".into(), crate::item::Value::number(version))]);
        let (first, second) = (item(1), item(2));
        let ids = [
            ChangeId::of(None, Some(&first)).message("a"),
            ChangeId::of(None, Some(&first)).message("b"),
            ChangeId::of(Some(&first), None).message("a"),
            ChangeId::of(Some(&first), Some(&second)).message("a"),
            ChangeId::of(Some(&second), Some(&first)).message("a"),
        ];
        assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), ids.len());
        assert_eq!(ids[3], ChangeId::of(Some(&item(1)), Some(&item(2))).message("a"));
    }
}
