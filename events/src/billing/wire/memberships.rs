//! The stream `memberships`: activations, cancellations, pauses and tier changes.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::billing::idempotency::IdempotencyToken;
use crate::billing::membership::{Change, MembershipEvent, NewMembership};
use crate::billing::record::{Plan, Provider, TierName};
use crate::calendar::{BillingWeek, Term};
use crate::ids::EventId;
use crate::time::GoTime;
use crate::wire::{Field, WireError, object, parse_if_known, required_id, required_time};

#[derive(Deserialize)]
struct Wire {
    event_id: Option<String>,
    r#type: Option<String>,
    occurred_at: Option<String>,
    user_id: Option<String>,
    #[serde(default, deserialize_with = "object")]
    membership: Option<WireMembership>,
}

#[derive(Deserialize, Default)]
struct WireMembership {
    tier: Option<String>,
    version: Option<String>,
    term: Option<String>,
    amount: Option<String>,
    billing_date: Option<String>,
    billing_week: Option<i64>,
    pause_duration_months: Option<i64>,
    provider: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Activate,
    Reactivate,
    Cancel,
    Retract,
    CloseAccount,
    Pause,
    Unpause,
    Upgrade,
    Downgrade,
}

impl Kind {
    const ALL: [Self; 9] = [
        Self::Activate,
        Self::Reactivate,
        Self::Cancel,
        Self::Retract,
        Self::CloseAccount,
        Self::Pause,
        Self::Unpause,
        Self::Upgrade,
        Self::Downgrade,
    ];

    fn source(self) -> &'static str {
        match self {
            Self::Activate => "memberships ACTIVATE",
            Self::Reactivate => "memberships REACTIVATE",
            Self::Cancel => "memberships CANCEL",
            Self::Retract => "memberships RETRACT",
            Self::CloseAccount => "memberships CLOSEACCOUNT",
            Self::Pause => "memberships PAUSE",
            Self::Unpause => "memberships UNPAUSE",
            Self::Upgrade => "memberships UPGRADE",
            Self::Downgrade => "memberships DOWNGRADE",
        }
    }

    fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.source().strip_prefix("memberships ") == Some(text))
    }
}

/// Decodes a record of the stream; `None` for types that are not read here.
///
/// # Errors
/// [`WireError`] names the field.
pub fn decode(bytes: &[u8]) -> Result<Option<MembershipEvent>, WireError> {
    let Some(wire) = parse_if_known::<Wire>(bytes, |kind| Kind::read(kind).is_some())? else {
        return Ok(None);
    };
    let Some(kind) = Kind::read(wire.r#type.required("type")?) else { return Ok(None) };
    let id = EventId::from(required_id(&wire.event_id, "event_id")?);
    let at = required_time(&wire.occurred_at, "occurred_at")?;
    let user_id = required_id(&wire.user_id, "user_id")?;
    let membership = match (wire.membership, kind) {
        (Some(membership), _) => membership,
        (None, Kind::Cancel | Kind::Retract | Kind::CloseAccount | Kind::Unpause) => {
            WireMembership::default()
        }
        (None, Kind::Activate | Kind::Reactivate | Kind::Pause | Kind::Upgrade | Kind::Downgrade) => {
            return Err(WireError::missing("membership"));
        }
    };
    let change = match kind {
        Kind::Activate => Change::Activate(membership.terms()?),
        Kind::Reactivate => Change::Reactivate(membership.terms()?),
        Kind::Cancel => Change::Cancel,
        Kind::Retract => Change::Retract,
        Kind::CloseAccount => Change::CloseAccount,
        Kind::Pause => Change::Pause { months: membership.pause_months()? },
        Kind::Unpause => Change::Unpause,
        Kind::Upgrade => Change::Upgrade(membership.plan()?),
        Kind::Downgrade => Change::Downgrade(membership.plan()?),
    };
    let mut event = MembershipEvent {
        token: IdempotencyToken::new(&id, &[]),
        id,
        at,
        user_id: user_id.into(),
        source: kind.source().into(),
        change,
    };
    event.token = token(&event);
    Ok(Some(event))
}

/// The idempotency token of a change: the hash of its id and of its content.
#[must_use]
pub fn token(event: &MembershipEvent) -> IdempotencyToken {
    let (at, change) = (event.at.to_rfc3339(), format!("{:?}", event.change));
    IdempotencyToken::new(&event.id, &[&event.source, &at, event.user_id.as_str(), &change])
}

/// Encodes a change as its stream has it: decoding gives the same change, with the same token.
#[must_use]
pub fn encode(event: &MembershipEvent) -> String {
    let plan = |plan: &Plan| {
        json!({
            "tier": plan.tier.tier(), "version": plan.tier.version(), "amount": plan.amount.to_string(),
        })
    };
    let (kind, membership) = match &event.change {
        Change::Activate(new) => (Kind::Activate, terms_json(new)),
        Change::Reactivate(new) => (Kind::Reactivate, terms_json(new)),
        Change::Cancel => (Kind::Cancel, json!({})),
        Change::Retract => (Kind::Retract, json!({})),
        Change::CloseAccount => (Kind::CloseAccount, json!({})),
        Change::Pause { months } => (Kind::Pause, json!({"pause_duration_months": months})),
        Change::Unpause => (Kind::Unpause, json!({})),
        Change::Upgrade(new) => (Kind::Upgrade, plan(new)),
        Change::Downgrade(new) => (Kind::Downgrade, plan(new)),
    };
    let kind = kind.source().strip_prefix("memberships ").unwrap_or_default();
    json!({
        "event_id": event.id.as_str(), "type": kind, "occurred_at": GoTime::trimmed(event.at).text(),
        "user_id": event.user_id.as_str(), "membership": membership,
    })
    .to_string()
}

fn terms_json(new: &NewMembership) -> Value {
    json!({
        "tier": new.plan.tier.tier(), "version": new.plan.tier.version(),
        "amount": new.plan.amount.to_string(),
        "term": new.term.as_str(), "billing_date": GoTime::trimmed(new.billing_date).text(),
        "billing_week": new.billing_week.map(BillingWeek::get),
        "provider": new.provider.map(Provider::as_str),
    })
}

impl WireMembership {
    fn plan(&self) -> Result<Plan, WireError> {
        let tier = self.tier.required("membership.tier")?;
        if tier.contains(':') {
            return Err(WireError::new("membership.tier", "has a colon, which separates tier and version"));
        }
        Ok(Plan {
            amount: self.amount.required_as("membership.amount")?,
            tier: TierName::new(tier, self.version.optional().unwrap_or("v1")),
        })
    }

    fn terms(&self) -> Result<NewMembership, WireError> {
        Ok(NewMembership {
            plan: self.plan()?,
            term: match self.term.optional() {
                None => Term::Monthly,
                Some(_) => self.term.one_of("membership.term", "MONTHLY or YEARLY", Term::read)?,
            },
            billing_date: required_time(&self.billing_date, "membership.billing_date")?,
            billing_week: match self.billing_week {
                None => None,
                Some(n) => Some(BillingWeek::new(n).ok_or_else(|| {
                    WireError::new("membership.billing_week", format!("{n} is not 1 to 5"))
                })?),
            },
            provider: match self.provider.optional() {
                None => None,
                Some(_) => {
                    Some(self.provider.one_of("membership.provider", "cognito or local", Provider::read)?)
                }
            },
        })
    }

    fn pause_months(&self) -> Result<u32, WireError> {
        let field = "membership.pause_duration_months";
        let months = self.pause_duration_months.ok_or_else(|| WireError::missing(field))?;
        u32::try_from(months)
            .ok()
            .filter(|months| (1..=12).contains(months))
            .ok_or_else(|| WireError::new(field, format!("{months} is not 1 to 12")))
    }
}
