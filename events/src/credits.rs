//! Credits: a balance, and a ledger of every movement that made it, as rows of `gg_core`.
//!
//! A movement's id comes from the fact that it tells of, so the same fact told twice, by two events or by a retry, is one movement.

use chrono::TimeDelta;

use crate::attr::*;
use crate::ids::{EventId, MovementId, UserId};
use crate::item::{Item, Value};
use crate::row::{ReadError, Reader, keyed, set_texts, set_times};
use crate::time::{GoTime, Time};

/// The sort key of a balance.
pub const BALANCE_SORT: &str = "CREDITS#BALANCE";
/// The `type` of a balance.
pub const BALANCE_TYPE: &str = "Credits";
/// The `type` of a movement.
pub const MOVEMENT_TYPE: &str = "CreditMovement";
/// How long credits are good for after the last grant or top-up.
pub const VALIDITY: TimeDelta = TimeDelta::days(365);

/// The partition of `gg_core` that holds all of a user's rows.
#[must_use]
pub fn partition(user: &UserId) -> String {
    format!("USER#{user}")
}

/// What credits are spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Feature {
    /// A video.
    Video,
    /// Feedback of a mentor on one reflection.
    MentorFeedback,
    /// A month's mirror report.
    MirrorReport,
}

impl Feature {
    /// Every feature.
    pub const ALL: [Self; 3] = [Self::Video, Self::MentorFeedback, Self::MirrorReport];

    /// As the ledger spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Video => "VIDEO",
            Self::MentorFeedback => "MENTOR_FEEDBACK",
            Self::MirrorReport => "MIRROR_REPORT",
        }
    }

    /// Reads that spelling.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|feature| feature.as_str() == text)
    }

    /// As people call it.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Video => "Veo-3 Video Generation",
            Self::MentorFeedback => "AI Mentor Feedback",
            Self::MirrorReport => "Guild Mirror Report",
        }
    }

    /// How many credits it takes.
    #[must_use]
    pub fn cost(self) -> u32 {
        match self {
            Self::Video => 3,
            Self::MentorFeedback => 1,
            Self::MirrorReport => 5,
        }
    }
}

/// Why credits come or go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MovementKind {
    /// Those of a month.
    Grant,
    /// Bought.
    TopUp,
    /// Spent.
    Consume,
    /// The money for them went back.
    TakeBack,
    /// Their time is over.
    Expire,
}

impl MovementKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Grant, Self::TopUp, Self::Consume, Self::TakeBack, Self::Expire];

    /// As the ledger spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Grant => "GRANT",
            Self::TopUp => "TOP_UP",
            Self::Consume => "CONSUME",
            Self::TakeBack => "TAKE_BACK",
            Self::Expire => "EXPIRE",
        }
    }

    /// Reads that spelling.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// A movement: a row of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Movement {
    /// Which one. It comes from the fact.
    pub id: MovementId,
    /// Why.
    pub kind: MovementKind,
    /// How many credits, negative when they go.
    pub amount: i64,
    /// When the fact happened.
    pub at: Time,
    /// The event that told of it first.
    pub source: EventId,
    /// The payment that it comes from, so that a refund finds it.
    pub payment: Option<String>,
    /// The movement that it takes back.
    pub takes_back: Option<MovementId>,
    /// What the credits were spent on.
    pub feature: Option<Feature>,
}

impl Movement {
    /// The credits of one period of a subscription: once, whichever event tells of its payment.
    #[must_use]
    pub fn grant(subscription: &str, period_start: Time, credits: u32, at: Time, source: EventId, payment: Option<String>) -> Self {
        let id = format!("grant:{subscription}:{}", GoTime::trimmed(period_start));
        Self { payment, ..Self::new(id, MovementKind::Grant, credits.into(), at, source) }
    }

    /// Credits that a payment bought.
    #[must_use]
    pub fn top_up(payment: &str, credits: u32, at: Time, source: EventId) -> Self {
        Self { payment: Some(payment.to_owned()), ..Self::new(format!("topup:{payment}"), MovementKind::TopUp, credits.into(), at, source) }
    }

    /// What a feature costs, spent once for each key.
    #[must_use]
    pub fn consume(key: &str, feature: Feature, at: Time) -> Self {
        let id = format!("consume:{key}");
        Self { feature: Some(feature), ..Self::new(id, MovementKind::Consume, -i64::from(feature.cost()), at, key.into()) }
    }

    /// Takes a movement back, once for each cause, such as a refund. Taking back a take-back gives the credits again.
    #[must_use]
    pub fn take_back(cause: &str, of: &Self, at: Time, source: EventId) -> Self {
        Self { payment: of.payment.clone(), ..Self::take_back_of(cause, &of.id, of.amount, at, source) }
    }

    /// Takes back so many of the credits that a movement brought, once for each cause.
    #[must_use]
    pub fn take_back_of(cause: &str, of: &MovementId, credits: i64, at: Time, source: EventId) -> Self {
        let id = format!("takeback:{cause}:{of}");
        Self { takes_back: Some(of.clone()), ..Self::new(id, MovementKind::TakeBack, credits.saturating_neg(), at, source) }
    }

    /// What was left at a time of expiry goes, then. Should that same second come up again, later ones are numbered from 1.
    #[must_use]
    pub fn expire(expired: i64, nth: u32, left: i64) -> Self {
        let id = if nth == 0 { format!("expire:{expired}") } else { format!("expire:{expired}:{nth}") };
        let at = Time::from_timestamp(expired, 0).unwrap_or_default();
        Self::new(id.clone(), MovementKind::Expire, left.max(0).saturating_neg(), at, id.into())
    }

    fn new(id: String, kind: MovementKind, amount: i64, at: Time, source: EventId) -> Self {
        Self { id: id.into(), kind, amount, at, source, payment: None, takes_back: None, feature: None }
    }

    /// Whether both tell of the same fact. One fact may be told by several events, at several times.
    #[must_use]
    pub fn is_same_as(&self, other: &Self) -> bool {
        let fact = |m: &Self| (m.id.clone(), m.kind, m.amount, m.payment.clone(), m.takes_back.clone(), m.feature);
        fact(self) == fact(other)
    }

    /// The ledger row.
    #[must_use]
    pub fn to_item(&self, user: &UserId) -> Item {
        let mut item = keyed(user, format!("LEDGER#{}", self.id), MOVEMENT_TYPE);
        item.set_text(MOVEMENT_ID, self.id.as_str());
        item.set_text(KIND, self.kind.as_str());
        item.set(AMOUNT, Value::signed(self.amount));
        item.set_text(OCCURRED_AT, GoTime::trimmed(self.at).text());
        item.set_text(SOURCE, self.source.as_str());
        let texts = [
            (PAYMENT_ID, self.payment.clone()),
            (TAKES_BACK, self.takes_back.as_ref().map(MovementId::to_string)),
            (FEATURE, self.feature.map(|feature| feature.as_str().to_owned())),
        ];
        set_texts(&mut item, texts);
        item
    }

    /// Reads a ledger row.
    ///
    /// # Errors
    /// [`ReadError`] names the attribute and the row.
    pub fn from_item(item: Item) -> Result<Self, ReadError> {
        let mut row = Reader::new(item, [PK, SK]);
        Ok(Self {
            id: row.text(MOVEMENT_ID)?.into(),
            kind: row.required(KIND, "a kind of movement", MovementKind::read)?,
            amount: row.number(AMOUNT)?.ok_or_else(|| row.error(AMOUNT, "is missing"))?,
            at: row.time(OCCURRED_AT)?.ok_or_else(|| row.error(OCCURRED_AT, "is missing"))?.at(),
            source: row.text(SOURCE)?.into(),
            payment: row.optional_text(PAYMENT_ID)?,
            takes_back: row.optional_text(TAKES_BACK)?.map(MovementId::from),
            feature: row.parsed(FEATURE, "a feature", Feature::read)?,
        })
    }
}

/// A balance: how many credits a user has, and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balance {
    /// Whose.
    pub user: UserId,
    /// How many; fewer than none after a take-back.
    pub balance: i64,
    /// When some were last bought.
    pub last_top_up: Option<GoTime>,
    /// When those of a month were last granted.
    pub last_reset: Option<GoTime>,
    /// When they expire, in seconds of the Unix epoch.
    pub expires_at: Option<i64>,
    /// When a lasting membership brings the next ones, in seconds of the Unix epoch.
    pub next_grant_at: Option<i64>,
    /// When the row was made.
    pub created_at: Option<GoTime>,
    /// When it last changed.
    pub updated_at: Option<GoTime>,
}

impl Balance {
    /// No credits yet.
    #[must_use]
    pub fn new(user: UserId, at: Time) -> Self {
        let at = Some(GoTime::trimmed(at));
        Self {
            user,
            balance: 0,
            last_top_up: None,
            last_reset: None,
            expires_at: None,
            next_grant_at: None,
            created_at: at.clone(),
            updated_at: at,
        }
    }

    /// Whether its time is over.
    #[must_use]
    pub fn has_expired(&self, now: Time) -> bool {
        self.expires_at.is_some_and(|expiry| expiry <= now.timestamp())
    }

    /// Whether a lasting membership has brought credits that are not in it yet.
    #[must_use]
    pub fn has_more_to_come(&self, now: Time) -> bool {
        self.next_grant_at.is_some_and(|at| at <= now.timestamp())
    }

    /// What an expiry leaves: no credits, but debts stay.
    #[must_use]
    pub fn expired(&self, now: Time) -> Self {
        Self { balance: self.balance.min(0), expires_at: None, updated_at: Some(GoTime::trimmed(now)), ..self.clone() }
    }

    /// The row.
    #[must_use]
    pub fn to_item(&self) -> Item {
        let mut item = keyed(&self.user, BALANCE_SORT, BALANCE_TYPE);
        item.set(BALANCE, Value::signed(self.balance));
        let times = [
            (LAST_TOP_UP, &self.last_top_up),
            (LAST_RESET, &self.last_reset),
            (CREATED_AT, &self.created_at),
            (UPDATED_AT, &self.updated_at),
        ];
        set_times(&mut item, times);
        for (name, second) in [(EXPIRES_AT, self.expires_at), (NEXT_GRANT_AT, self.next_grant_at)] {
            if let Some(second) = second {
                item.set(name, Value::signed(second));
            }
        }
        item
    }

    /// Reads a row.
    ///
    /// # Errors
    /// [`ReadError`] names the attribute and the row.
    pub fn from_item(item: Item) -> Result<Self, ReadError> {
        let mut row = Reader::new(item, [PK, SK]);
        Ok(Self {
            user: row.required(PK, "a user's partition", crate::profile::user_of)?,
            balance: row.number(BALANCE)?.ok_or_else(|| row.error(BALANCE, "is missing"))?,
            last_top_up: row.time(LAST_TOP_UP)?,
            last_reset: row.time(LAST_RESET)?,
            expires_at: row.number(EXPIRES_AT)?,
            next_grant_at: row.number(NEXT_GRANT_AT)?,
            created_at: row.time(CREATED_AT)?,
            updated_at: row.time(UPDATED_AT)?,
        })
    }
}

#[cfg(test)]
mod tests;
