//! Stripe's words. Where they are states, their order is the order of their life: of two in the same second the larger one is later.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$variant),*];

            /// As the wire spells it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            /// Reads that spelling.
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

words! {
    /// How a subscription stands, in the order of its life: see [`super::Subscription::rank`].
    SubscriptionStatus {
        /// The first payment has not come yet.
        Incomplete = "incomplete",
        /// In its trial.
        Trialing = "trialing",
        /// Paid.
        Active = "active",
        /// A renewal was not paid, Stripe tries on.
        PastDue = "past_due",
        /// A renewal was not paid, Stripe has given up trying.
        Unpaid = "unpaid",
        /// Resting, without invoices.
        Paused = "paused",
        /// The first payment never came. Final.
        IncompleteExpired = "incomplete_expired",
        /// Over. Final.
        Canceled = "canceled",
    }
}

words! {
    /// What was bought.
    Purchase {
        /// A founder pass.
        FoundingMember = "FOUNDING_MEMBER",
        /// The larger founder pass.
        GuildBuilder = "GUILD_BUILDER",
        /// Credits.
        Credits = "CREDITS",
    }
}

words! {
    /// What a checkout is for.
    CheckoutMode {
        /// One payment.
        Payment = "payment",
        /// A subscription.
        Subscription = "subscription",
        /// A card to be kept, without a payment.
        Setup = "setup",
    }
}

words! {
    /// How a refund stands, in the order of its life. A refund that succeeded can still fail, when the bank sends it back.
    RefundStatus {
        /// The customer has to do something.
        RequiresAction = "requires_action",
        /// On its way.
        Pending = "pending",
        /// Given back.
        Succeeded = "succeeded",
        /// Not given back.
        Failed = "failed",
        /// Called off.
        Canceled = "canceled",
    }
}

/// Whether the money of a checkout is here, in the order of its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckoutState {
    /// Not yet.
    Pending,
    /// It did not come.
    Failed,
    /// It is here.
    Paid,
}

/// How a dispute stands, in the order of its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DisputeState {
    /// Not decided.
    Open,
    /// Nothing was taken, or it comes back: won, or a question or dispute that came to nothing.
    Won,
    /// The payer keeps the money.
    Lost,
    /// The money is back, even if it was lost before.
    Reinstated,
}

/// Why an invoice was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum BillingReason {
    /// A subscription began.
    SubscriptionCreate,
    /// A period began.
    SubscriptionCycle,
    /// A subscription was changed.
    SubscriptionUpdate,
    /// Any other reason, in Stripe's words.
    Other(Box<str>),
}

impl BillingReason {
    /// Reads Stripe's word.
    #[must_use]
    pub fn read(text: &str) -> Self {
        match text {
            "subscription_create" => Self::SubscriptionCreate,
            "subscription_cycle" => Self::SubscriptionCycle,
            "subscription_update" => Self::SubscriptionUpdate,
            other => Self::Other(other.into()),
        }
    }

    /// Stripe's word.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::SubscriptionCreate => "subscription_create",
            Self::SubscriptionCycle => "subscription_cycle",
            Self::SubscriptionUpdate => "subscription_update",
            Self::Other(other) => other,
        }
    }

    /// Whether a period begins with it, and so its monthly credits.
    #[must_use]
    pub fn begins_a_period(&self) -> bool {
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
