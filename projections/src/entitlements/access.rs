//! What a user may use at a time, until when, and why: the one answer behind profile, groups, usage plan,
//! API, `explain` and `audit`.
//!
//! | source | gives its tier |
//! |---|---|
//! | founder pass | for ever, before everything else |
//! | dues that are paid or waived | from the due date to the next one |
//! | a renewal of paid dues that is still tried | while under way, and `grace_days` after a failure |
//! | Stripe: active, trialing | to the end of the period, and `renewal_tolerance_days` more |
//! | Stripe: past due | while Stripe says so |
//! | Stripe: canceled | to the end of the period |
//!
//! Each source is a window of time; the highest tier of the windows that are open counts. The answer changes
//! with an event, or at the end of a window: [`Access::until`] is the first such moment, and a timer.

use chrono::TimeDelta;
use dues_events::entitlements::stripe::SubscriptionStatus;
use dues_events::{GoTime, PlanTier, Time};

use crate::entitlements::dues::{DuesState, PaidPeriod};
use crate::entitlements::effective_tier::{EffectiveTier, HeldPass, HeldSubscription, when};

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

/// What a user may use at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The tier.
    pub tier: PlanTier,
    /// What it follows from.
    pub source: Source,
    /// The id of that: a payment, a subscription at Stripe, or a billing record.
    pub id: Option<String>,
    /// Whether a fact says anything about the tier; without one the answer is only a default.
    pub is_known: bool,
    /// The first moment at which the tier changes without an event; `None` if only an event changes it.
    pub until: Option<GoTime>,
    /// The reason, in a sentence with ids.
    pub why: String,
}

/// The periods of grace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessRules {
    /// Days for which a failed renewal of dues keeps the tier while it may be presented again.
    pub grace_days: u32,
    /// Days after the end of a period at Stripe in which the renewal's event may still arrive.
    pub renewal_tolerance_days: u32,
}

impl Default for AccessRules {
    fn default() -> Self {
        Self { grace_days: 14, renewal_tolerance_days: 3 }
    }
}

/// The reason of an answer that is only a default.
const NOTHING: &str =
    "no founder pass, no subscription or dues that are paid for, and no tier in the profile";

/// The access of a user with that head at a time.
#[must_use]
pub fn access(head: &EffectiveTier, now: Time) -> Access {
    AccessRules::default().access(head, now)
}

/// The access of a user with a profile. Where no fact says anything about the tier, the profile's own stands:
/// another writer put it there.
#[must_use]
pub fn access_or_profile(head: &EffectiveTier, profile: Option<PlanTier>, now: Time) -> Access {
    match profile.filter(|tier| *tier > PlanTier::Free && !head.has_facts()) {
        Some(tier) => Access {
            tier,
            source: Source::Profile,
            id: None,
            is_known: false,
            until: None,
            why: format!("the profile says {tier}"),
        },
        None => access(head, now),
    }
}

/// A time in which something gives its tier.
struct Window<'a> {
    tier: PlanTier,
    holder: Holder<'a>,
    /// When it opens; `None` if it is open already.
    from: Option<Time>,
    /// When it closes; `None` if only an event closes it.
    to: Option<Time>,
}

enum Holder<'a> {
    Pass(&'a HeldPass),
    Subscription(&'a HeldSubscription),
    /// The paid period, its end, and what is known of its renewal.
    Dues(&'a PaidPeriod, Time, Option<&'a PaidPeriod>),
    /// A tier in a head of an earlier version.
    Outdated(Source),
}

impl AccessRules {
    /// The access of a user with that head at a time.
    #[must_use]
    pub fn access(&self, head: &EffectiveTier, now: Time) -> Access {
        let windows = self.windows(head);
        let open = best(&windows, now);
        let mut boundaries: Vec<Time> = windows
            .iter()
            .flat_map(|window| [window.from, window.to])
            .flatten()
            .filter(|at| *at > now)
            .collect();
        boundaries.sort_unstable();
        // Another window with the same tier changes nothing that a timer would have to book.
        let tier = |window: Option<&Window<'_>>| window.map(|window| window.tier);
        let until = boundaries.into_iter().find(|at| tier(best(&windows, *at)) != tier(open));
        let until = until.map(GoTime::trimmed);
        match open {
            Some(window) => Access {
                tier: window.tier,
                source: window.holder.source(),
                id: window.holder.id(),
                is_known: true,
                until,
                why: self.why(window, now),
            },
            None => Access {
                tier: PlanTier::Free,
                source: Source::Default,
                id: None,
                is_known: head.has_facts(),
                until,
                why: NOTHING.to_owned(),
            },
        }
    }

    /// From when on the renewal of a subscription at Stripe is overdue, so that an event must have been
    /// missed; `None` if no renewal is expected.
    #[must_use]
    pub fn overdue_from(&self, held: &HeldSubscription) -> Option<Time> {
        match held.status {
            SubscriptionStatus::Active | SubscriptionStatus::Trialing => {
                let end = held.period_end.filter(|_| !held.cancel_at_period_end)?;
                Some(end + days(self.renewal_tolerance_days))
            }
            SubscriptionStatus::PastDue
            | SubscriptionStatus::Incomplete
            | SubscriptionStatus::Unpaid
            | SubscriptionStatus::Paused
            | SubscriptionStatus::IncompleteExpired
            | SubscriptionStatus::Canceled => None,
        }
    }

    fn windows<'a>(&self, head: &'a EffectiveTier) -> Vec<Window<'a>> {
        let passes = head.founder_passes.iter().map(|pass| Window {
            tier: pass.tier,
            holder: Holder::Pass(pass),
            from: None,
            to: None,
        });
        let outdated = [(head.passes, Source::FounderPass), (head.subscribed, Source::Subscription)]
            .map(|(tier, source)| Window { tier, holder: Holder::Outdated(source), from: None, to: None });
        let subscriptions = head.subscriptions.iter().filter_map(|held| self.subscription(held));
        let dues = head.paid_periods.iter().filter_map(|period| self.dues(head, period));
        let all = passes.chain(outdated).chain(subscriptions).chain(dues);
        all.filter(|window| window.tier > PlanTier::Free).collect()
    }

    fn subscription<'a>(&self, held: &'a HeldSubscription) -> Option<Window<'a>> {
        let to = match held.status {
            SubscriptionStatus::Active | SubscriptionStatus::Trialing => {
                self.overdue_from(held).or(held.period_end)
            }
            SubscriptionStatus::PastDue => None,
            SubscriptionStatus::Canceled => Some(held.period_end?),
            SubscriptionStatus::Incomplete
            | SubscriptionStatus::Unpaid
            | SubscriptionStatus::Paused
            | SubscriptionStatus::IncompleteExpired => return None,
        };
        Some(Window { tier: held.tier, holder: Holder::Subscription(held), from: None, to })
    }

    /// A paid period, and the time after it in which its renewal is tried.
    fn dues<'a>(&self, head: &'a EffectiveTier, period: &'a PaidPeriod) -> Option<Window<'a>> {
        let (tier, until) = match &period.state {
            DuesState::Paid { tier, until, .. } => (*tier, until),
            DuesState::Failed { .. }
            | DuesState::Retried
            | DuesState::TakenBack
            | DuesState::Ended
            | DuesState::Open => return None,
        };
        let end = head.lasts_until(period, until);
        let renewal = head.renewal_of(period);
        // A bar is the member's, not one record's.
        let is_renewed = period.next.is_some() && !head.paid_periods.iter().any(|other| other.barred);
        let to = match renewal.map(|renewal| &renewal.state) {
            _ if !is_renewed => Some(end),
            // Nothing was booked of it: it is expected, or its first attempt is under way.
            None | Some(DuesState::Open | DuesState::Retried) => None,
            Some(DuesState::Failed { at, again: true, cancel_at }) => {
                let grace = when(at) + days(self.grace_days);
                Some(end.max(cancel_at.as_deref().map_or(grace, |cancel| grace.min(when(cancel)))))
            }
            Some(
                DuesState::Failed { again: false, .. }
                | DuesState::Paid { .. }
                | DuesState::TakenBack
                | DuesState::Ended,
            ) => Some(end),
        };
        let holder = Holder::Dues(period, end, renewal);
        Some(Window { tier, holder, from: Some(when(&period.due)), to })
    }

    fn why(&self, window: &Window<'_>, now: Time) -> String {
        match &window.holder {
            Holder::Pass(pass) => format!(
                "founder pass {} of {}, for life ({})",
                pass.kind,
                text(pass.purchased_at),
                pass.payment
            ),
            Holder::Outdated(source) => {
                format!("a {} that an earlier version booked", source.as_str().replace('_', " "))
            }
            Holder::Subscription(held) => self.why_subscribed(held, now),
            Holder::Dues(period, end, _) if now < *end => {
                let paid = match &period.state {
                    DuesState::Paid { waived: true, .. } => "waived",
                    DuesState::Paid { .. }
                    | DuesState::Failed { .. }
                    | DuesState::Retried
                    | DuesState::TakenBack
                    | DuesState::Ended
                    | DuesState::Open => "paid",
                };
                format!("dues of billing record {} are {paid} until {}", period.record, text(*end))
            }
            Holder::Dues(period, end, renewal) => {
                let paid = format!("dues of billing record {} were paid until {}", period.record, text(*end));
                match renewal.map(|renewal| (&renewal.record, &renewal.state)) {
                    Some((record, DuesState::Failed { at, .. })) => format!(
                        "{paid}; the renewal {record} failed on {at} and may be presented again: \
                         {} days of grace",
                        self.grace_days
                    ),
                    Some((record, DuesState::Retried)) => {
                        format!("{paid}; the renewal {record} was presented again")
                    }
                    Some((
                        _,
                        DuesState::Open | DuesState::Paid { .. } | DuesState::TakenBack | DuesState::Ended,
                    ))
                    | None => format!("{paid}, and the renewal is being collected"),
                }
            }
        }
    }

    fn why_subscribed(&self, held: &HeldSubscription, now: Time) -> String {
        let id = &held.id;
        let Some(end) = held.period_end else { return format!("subscription {id} is {}", held.status) };
        match held.status {
            SubscriptionStatus::Canceled => {
                format!("subscription {id} was cancelled and is paid for until {}", text(end))
            }
            SubscriptionStatus::Active | SubscriptionStatus::Trialing if held.cancel_at_period_end => {
                format!("subscription {id} is {} and ends {}", held.status, text(end))
            }
            SubscriptionStatus::Active | SubscriptionStatus::Trialing if now < end => {
                format!("subscription {id} is {} until {}", held.status, text(end))
            }
            SubscriptionStatus::Active | SubscriptionStatus::Trialing => format!(
                "subscription {id} was {} until {}; its renewal may arrive within {} days",
                held.status,
                text(end),
                self.renewal_tolerance_days
            ),
            SubscriptionStatus::PastDue
            | SubscriptionStatus::Incomplete
            | SubscriptionStatus::Unpaid
            | SubscriptionStatus::Paused
            | SubscriptionStatus::IncompleteExpired => format!("subscription {id} is {}", held.status),
        }
    }
}

impl Window<'_> {
    fn is_open(&self, at: Time) -> bool {
        self.from.is_none_or(|from| from <= at) && self.to.is_none_or(|to| at < to)
    }
}

/// The window that counts at a time: a pass, then the highest tier; of two equal ones, the one that lasts
/// longer.
fn best<'w, 'a>(windows: &'w [Window<'a>], at: Time) -> Option<&'w Window<'a>> {
    windows.iter().filter(|window| window.is_open(at)).max_by_key(|window| {
        let is_pass = window.holder.source() == Source::FounderPass;
        (is_pass, window.tier, window.to.is_none(), window.to, window.holder.id())
    })
}

impl Holder<'_> {
    fn source(&self) -> Source {
        match self {
            Self::Pass(_) => Source::FounderPass,
            Self::Subscription(_) => Source::Subscription,
            Self::Dues(..) => Source::Dues,
            Self::Outdated(source) => *source,
        }
    }

    fn id(&self) -> Option<String> {
        match self {
            Self::Pass(pass) => Some(pass.payment.to_string()),
            Self::Subscription(held) => Some(held.id.to_string()),
            Self::Dues(period, ..) => Some(period.record.to_string()),
            Self::Outdated(_) => None,
        }
    }
}

fn days(n: u32) -> TimeDelta {
    TimeDelta::days(n.into())
}

fn text(at: Time) -> String {
    GoTime::trimmed(at).text()
}
