//! Credits: a balance and the ledger of its movements, as rows of `gg_core`.
//!
//! A movement's id derives from its fact, so the same fact from two events or from a retry is one movement.

#[cfg(test)]
mod tests;

use chrono::TimeDelta;

use crate::attributes::*;
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
/// How long credits are valid after the last grant or top-up.
pub const VALIDITY: TimeDelta = TimeDelta::days(365);

/// The partition key of a user's rows in `gg_core`.
#[must_use]
pub fn partition(user: &UserId) -> String {
    format!("USER#{user}")
}

/// A feature that costs credits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Feature {
    /// A video.
    Video,
    /// A mentor's feedback on one reflection.
    MentorFeedback,
    /// A monthly mirror report.
    MirrorReport,
}

impl Feature {
    /// Every feature.
    pub const ALL: [Self; 3] = [Self::Video, Self::MentorFeedback, Self::MirrorReport];

    /// The spelling in the ledger.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Video => "VIDEO",
            Self::MentorFeedback => "MENTOR_FEEDBACK",
            Self::MirrorReport => "MIRROR_REPORT",
        }
    }

    /// Parses the spelling of [`Feature::as_str`].
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|feature| feature.as_str() == text)
    }

    /// The display name.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Video => "Veo-3 Video Generation",
            Self::MentorFeedback => "AI Mentor Feedback",
            Self::MirrorReport => "Guild Mirror Report",
        }
    }

    /// The cost in credits.
    #[must_use]
    pub fn cost(self) -> u32 {
        match self {
            Self::Video => 3,
            Self::MentorFeedback => 1,
            Self::MirrorReport => 5,
        }
    }
}

/// Why a balance changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MovementKind {
    /// The monthly grant.
    Grant,
    /// Credits bought.
    TopUp,
    /// Credits spent.
    Consume,
    /// Reversal: the payment for the credits went back.
    TakeBack,
    /// Expiry.
    Expire,
}

impl MovementKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Grant, Self::TopUp, Self::Consume, Self::TakeBack, Self::Expire];

    /// The spelling in the ledger.
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

    /// Parses the spelling of [`MovementKind::as_str`].
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// A movement: one row of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Movement {
    /// Its id, derived from the fact.
    pub id: MovementId,
    /// Why the balance changes.
    pub kind: MovementKind,
    /// Number of credits; negative when they are taken.
    pub amount: i64,
    /// When the fact occurred.
    pub at: Time,
    /// The first event that reported the fact.
    pub source: EventId,
    /// The payment behind it, so that a refund finds the movement.
    pub payment: Option<String>,
    /// The movement it reverses.
    pub takes_back: Option<MovementId>,
    /// The feature the credits were spent on.
    pub feature: Option<Feature>,
}

impl Movement {
    /// The grant for one period of a subscription: one movement, whichever event reports the payment.
    #[must_use]
    pub fn grant(
        subscription: &str,
        period_start: Time,
        credits: u32,
        at: Time,
        source: EventId,
        payment: Option<String>,
    ) -> Self {
        let id = format!("grant:{subscription}:{}", GoTime::trimmed(period_start));
        Self { payment, ..Self::new(id, MovementKind::Grant, credits.into(), at, source) }
    }

    /// Credits bought with a payment.
    #[must_use]
    pub fn top_up(payment: &str, credits: u32, at: Time, source: EventId) -> Self {
        Self {
            payment: Some(payment.to_owned()),
            ..Self::new(format!("topup:{payment}"), MovementKind::TopUp, credits.into(), at, source)
        }
    }

    /// The cost of a feature, spent once per key.
    #[must_use]
    pub fn consume(key: &str, feature: Feature, at: Time) -> Self {
        let id = format!("consume:{key}");
        Self {
            feature: Some(feature),
            ..Self::new(id, MovementKind::Consume, -i64::from(feature.cost()), at, key.into())
        }
    }

    /// Reverses a movement, once per cause, such as a refund. Reversing a reversal restores the credits.
    #[must_use]
    pub fn take_back(cause: &str, of: &Self, at: Time, source: EventId) -> Self {
        Self { payment: of.payment.clone(), ..Self::take_back_of(cause, &of.id, of.amount, at, source) }
    }

    /// Reverses that many credits of a movement, once per cause.
    #[must_use]
    pub fn take_back_of(cause: &str, of: &MovementId, credits: i64, at: Time, source: EventId) -> Self {
        let id = format!("takeback:{cause}:{of}");
        Self {
            takes_back: Some(of.clone()),
            ..Self::new(id, MovementKind::TakeBack, credits.saturating_neg(), at, source)
        }
    }

    /// Expires the remaining credits at the time of expiry. If the same second occurs again, later
    /// movements are numbered from 1.
    #[must_use]
    pub fn expire(expired: i64, nth: u32, left: i64) -> Self {
        let id = if nth == 0 { format!("expire:{expired}") } else { format!("expire:{expired}:{nth}") };
        let at = Time::from_timestamp(expired, 0).unwrap_or_default();
        Self::new(id.clone(), MovementKind::Expire, left.max(0).saturating_neg(), at, id.into())
    }

    fn new(id: String, kind: MovementKind, amount: i64, at: Time, source: EventId) -> Self {
        Self { id: id.into(), kind, amount, at, source, payment: None, takes_back: None, feature: None }
    }

    /// Whether both describe the same fact. Several events may report one fact, at different times.
    #[must_use]
    pub fn has_same_content(&self, other: &Self) -> bool {
        let fact =
            |m: &Self| (m.id.clone(), m.kind, m.amount, m.payment.clone(), m.takes_back.clone(), m.feature);
        fact(self) == fact(other)
    }

    /// Encodes the ledger row.
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

    /// Decodes a ledger row.
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

/// A user's balance of credits and its expiry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balance {
    /// The user.
    pub user: UserId,
    /// Number of credits; negative after a reversal of spent credits.
    pub balance: i64,
    /// Time of the last top-up.
    pub last_top_up: Option<GoTime>,
    /// Time of the last monthly grant.
    pub last_reset: Option<GoTime>,
    /// Expiry time, in seconds of the Unix epoch.
    pub expires_at: Option<i64>,
    /// Time of the next grant of a founder pass, in seconds of the Unix epoch.
    pub next_grant_at: Option<i64>,
    /// Creation time of the row.
    pub created_at: Option<GoTime>,
    /// Time of the last change.
    pub updated_at: Option<GoTime>,
}

impl Balance {
    /// An empty balance.
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

    /// Whether the credits have expired.
    #[must_use]
    pub fn has_expired(&self, now: Time) -> bool {
        self.expires_at.is_some_and(|expiry| expiry <= now.timestamp())
    }

    /// Whether a founder pass's grant is due and not yet booked.
    #[must_use]
    pub fn has_more_to_come(&self, now: Time) -> bool {
        self.next_grant_at.is_some_and(|at| at <= now.timestamp())
    }

    /// The balance after expiry: no credits; a negative balance stays.
    #[must_use]
    pub fn expired(&self, now: Time) -> Self {
        Self {
            balance: self.balance.min(0),
            expires_at: None,
            updated_at: Some(GoTime::trimmed(now)),
            ..self.clone()
        }
    }

    /// Encodes the row.
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

    /// Decodes a row.
    ///
    /// # Errors
    /// [`ReadError`] names the attribute and the row.
    pub fn from_item(item: Item) -> Result<Self, ReadError> {
        let mut row = Reader::new(item, [PK, SK]);
        Ok(Self {
            user: row.required(PK, "a user's partition", crate::entitlements::profile::user_of)?,
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
