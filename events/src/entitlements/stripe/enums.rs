//! Stripe's enums. States are ordered by life cycle: of two in the same second the larger one is later.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

macro_rules! wire_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
        }

        impl $name {
            /// All variants.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$variant),*];

            /// The spelling on the wire.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            /// Parses the spelling on the wire.
            #[must_use]
            pub fn read(text: &str) -> Option<Self> {
                match text {
                    $($text => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::read(&text).ok_or_else(|| D::Error::custom(format!("{text:?} is not known here")))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

wire_enum! {
    /// Status of a subscription, in life-cycle order: see [`super::Subscription::rank`].
    SubscriptionStatus {
        /// The first payment has not arrived yet.
        Incomplete = "incomplete",
        /// In its trial.
        Trialing = "trialing",
        /// Paid.
        Active = "active",
        /// A renewal was not paid; Stripe is retrying.
        PastDue = "past_due",
        /// A renewal was not paid; Stripe has stopped retrying.
        Unpaid = "unpaid",
        /// Paused, without invoices.
        Paused = "paused",
        /// The first payment never arrived. Final.
        IncompleteExpired = "incomplete_expired",
        /// Cancelled. Final.
        Canceled = "canceled",
    }
}

wire_enum! {
    /// A one-time purchase.
    Purchase {
        /// A founder pass.
        FoundingMember = "FOUNDING_MEMBER",
        /// The larger founder pass.
        GuildBuilder = "GUILD_BUILDER",
        /// Credits.
        Credits = "CREDITS",
    }
}

wire_enum! {
    /// Purpose of a checkout session.
    CheckoutMode {
        /// One payment.
        Payment = "payment",
        /// A subscription.
        Subscription = "subscription",
        /// A card to save, without a payment.
        Setup = "setup",
    }
}

wire_enum! {
    /// Status of a refund, in life-cycle order. A refund that succeeded can still fail, when the bank
    /// returns it.
    RefundStatus {
        /// The customer has to act.
        RequiresAction = "requires_action",
        /// In progress.
        Pending = "pending",
        /// Refunded.
        Succeeded = "succeeded",
        /// Not refunded.
        Failed = "failed",
        /// Cancelled.
        Canceled = "canceled",
    }
}

/// Whether a checkout's payment has arrived, in life-cycle order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckoutState {
    /// Not yet paid.
    Pending,
    /// The payment failed.
    Failed,
    /// The payment arrived.
    Paid,
}

/// State of a dispute, in life-cycle order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DisputeState {
    /// Undecided.
    Open,
    /// No money was taken, or it is returned: won, or an inquiry or dispute without consequences.
    Won,
    /// Lost: the payer keeps the money.
    Lost,
    /// The funds are reinstated, even after a loss.
    Reinstated,
}

/// Why an invoice was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum BillingReason {
    /// A subscription began.
    SubscriptionCreate,
    /// A period began.
    SubscriptionCycle,
    /// A subscription was changed.
    SubscriptionUpdate,
    /// Any other reason, in Stripe's spelling.
    Other(Box<str>),
}

impl BillingReason {
    /// Parses Stripe's spelling.
    #[must_use]
    pub fn read(text: &str) -> Self {
        match text {
            "subscription_create" => Self::SubscriptionCreate,
            "subscription_cycle" => Self::SubscriptionCycle,
            "subscription_update" => Self::SubscriptionUpdate,
            other => Self::Other(other.into()),
        }
    }

    /// Stripe's spelling.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::SubscriptionCreate => "subscription_create",
            Self::SubscriptionCycle => "subscription_cycle",
            Self::SubscriptionUpdate => "subscription_update",
            Self::Other(other) => other,
        }
    }

    /// Whether the invoice starts a period, and so brings its monthly credits.
    #[must_use]
    pub fn starts_period(&self) -> bool {
        match self {
            Self::SubscriptionCreate | Self::SubscriptionCycle => true,
            Self::SubscriptionUpdate | Self::Other(_) => false,
        }
    }
}

impl From<String> for BillingReason {
    fn from(text: String) -> Self {
        Self::read(&text)
    }
}

impl From<BillingReason> for String {
    fn from(reason: BillingReason) -> Self {
        reason.as_str().to_owned()
    }
}
