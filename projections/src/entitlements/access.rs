//! What a user may use now, until when, and why.
//!
//! The priority of `gg_core`: a founder pass; then a subscription that is active or cancelled but paid until
//! later, or paid dues; then the tier of the profile; then free.

use dues_events::entitlements::rows::{PassRow, SubscriptionRow};
use dues_events::entitlements::stripe::SubscriptionStatus;
use dues_events::{GoTime, PlanTier, Profile, Time};

/// What the access follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A founder pass.
    FounderPass,
    /// A subscription at Stripe.
    Subscription,
    /// Dues by ACH.
    Dues,
    /// The profile's own tier.
    Profile,
    /// Nothing was found.
    Default,
}

impl Source {
    /// Its name in responses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FounderPass => "founder_pass",
            Self::Subscription => "subscription",
            Self::Dues => "dues",
            Self::Profile => "profile",
            Self::Default => "default",
        }
    }
}

/// What a user may use now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The tier.
    pub tier: PlanTier,
    /// What it follows from.
    pub source: Source,
    /// The end, if known; a pass is for life.
    pub until: Option<GoTime>,
    /// The reason, in a sentence with ids.
    pub why: String,
}

/// Determines the access of a user from their rows.
#[must_use]
pub fn access(
    now: Time,
    passes: &[PassRow],
    subscriptions: &[SubscriptionRow],
    profile: Option<&Profile>,
) -> Access {
    founder(passes)
        .or_else(|| paid(now, subscriptions, profile))
        .unwrap_or_else(|| shown(subscriptions, profile))
}

fn founder(passes: &[PassRow]) -> Option<Access> {
    let pass = passes.iter().max_by_key(|pass| (pass.tier, std::cmp::Reverse(pass.purchased_at.at())))?;
    let why =
        format!("founder pass {} of {}, for life ({})", pass.kind, pass.purchased_at.text(), pass.payment);
    Some(Access { tier: pass.tier, source: Source::FounderPass, until: None, why })
}

/// The highest paid tier; of two equal ones, the one that lasts longer.
fn paid(now: Time, subscriptions: &[SubscriptionRow], profile: Option<&Profile>) -> Option<Access> {
    let subscribed = subscriptions.iter().filter_map(|subscription| subscribed(now, subscription));
    let dues =
        profile.and_then(|profile| profile.dues.as_ref()).filter(|dues| dues.until.at() > now).map(|dues| {
            Access {
                tier: dues.tier,
                source: Source::Dues,
                until: Some(dues.until.clone()),
                why: format!("dues of billing record {} are paid until {}", dues.record, dues.until.text()),
            }
        });
    subscribed
        .chain(dues)
        .filter(|access| access.tier > PlanTier::Free)
        .max_by_key(|access| (access.tier, access.until.as_ref().map(GoTime::at)))
}

fn subscribed(now: Time, subscription: &SubscriptionRow) -> Option<Access> {
    let until = subscription.period_end.clone().filter(|end| end.at() > now)?;
    let how = match subscription.status {
        SubscriptionStatus::Active if subscription.cancel_at_period_end => "is active and ends",
        SubscriptionStatus::Active => "is active until",
        SubscriptionStatus::Canceled => "was cancelled and is paid for until",
        SubscriptionStatus::Incomplete
        | SubscriptionStatus::Trialing
        | SubscriptionStatus::PastDue
        | SubscriptionStatus::Unpaid
        | SubscriptionStatus::Paused
        | SubscriptionStatus::IncompleteExpired => return None,
    };
    let why = format!("subscription {} {how} {}", subscription.id, until.text());
    Some(Access { tier: subscription.tier, source: Source::Subscription, until: Some(until), why })
}

fn shown(subscriptions: &[SubscriptionRow], profile: Option<&Profile>) -> Access {
    let Some(profile) = profile.filter(|profile| profile.tier > PlanTier::Free) else {
        let why = "no founder pass, no subscription or dues that are paid for, and no tier in the profile"
            .to_owned();
        return Access { tier: PlanTier::Free, source: Source::Default, until: None, why };
    };
    let behind = subscriptions
        .iter()
        .find(|subscription| subscription.tier == profile.tier && still_tried(subscription.status));
    let why = match behind {
        Some(subscription) => format!(
            "the profile says {}: subscription {} is {}",
            profile.tier, subscription.id, subscription.status
        ),
        None => format!("the profile says {}", profile.tier),
    };
    Access { tier: profile.tier, source: Source::Profile, until: None, why }
}

/// Whether a status keeps the tier without a paid period.
fn still_tried(status: SubscriptionStatus) -> bool {
    match status {
        SubscriptionStatus::Trialing | SubscriptionStatus::PastDue | SubscriptionStatus::Active => true,
        SubscriptionStatus::Incomplete
        | SubscriptionStatus::Unpaid
        | SubscriptionStatus::Paused
        | SubscriptionStatus::IncompleteExpired
        | SubscriptionStatus::Canceled => false,
    }
}
