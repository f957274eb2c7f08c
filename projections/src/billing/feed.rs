//! What a change publishes: every change of a billing record to the stream `subscriptions`, its meaning to
//! the bus.
//!
//! Derived from the two images, without a clock or the delivery's sequence number: a redelivered change
//! gives the same bytes under the same id.

use dues_events::attributes::*;
use dues_events::billing::record::{Failure, ReadError};
use dues_events::entitlements::credits::MOVEMENT_TYPE;
use dues_events::entitlements::profile::{PROFILE_PREFIX, user_of};
use dues_events::{
    ChangeId, GoTime, Item, MessageId, Movement, MovementKind, PlanTier, Profile, Record, Time, UserId,
};
use serde_json::{Value as Json, json};

/// The name of an update if its record names no event of its own.
pub const SUBSCRIPTION_UPDATED: &str = "subscription-updated";
/// A billing record is new, or its status changed.
pub const STATUS_CHANGED: &str = "SubscriptionStatusChanged";
/// Credits were granted or bought.
pub const CREDITS_GRANTED: &str = "CreditsGranted";
/// A user's tier changed.
pub const TIER_CHANGED: &str = "TierChanged";

/// The attributes that an update publishes. Account digits, a processor's own texts and what other writers
/// have put into the row stay private.
const SHOWN: [&str; 23] = [
    BILLING_DATE,
    BILLING_AMOUNT,
    BILLING_STATUS,
    BILLING_PERIOD,
    TRANSACTION_ID,
    INITIAL_RUN_DATE,
    COMPLETION_DATE,
    LAST_RUN_DATE,
    CREATED_DATE,
    PROCESS,
    UPDATED_EVENT,
    TERM,
    RECEIPT_TIER_NAME,
    RECEIPT_PAYMENT_TYPE,
    BILLING_WEEK,
    PAUSE_DURATION_MONTHS,
    IS_PENDING_DOWNGRADE,
    MEMBER_SINCE,
    ATTEMPTS,
    NEXT_SUBSCRIPTION_ID,
    CANCEL_AT,
    SUPERSEDED_BY,
    MOVED_TO,
];

/// A message of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The same on every publication: consumers can drop repeats. The data carries it too.
    pub id: MessageId,
    /// The user: messages with one key stay in order.
    pub key: String,
    /// The message.
    pub data: Vec<u8>,
}

/// A message for the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The same on every publication: consumers can drop repeats.
    pub id: MessageId,
    /// The detail type, such as `SubscriptionDueSoon`.
    pub detail_type: &'static str,
    /// When it became true, if the row has a time.
    pub at: Option<Time>,
    /// The content. It carries the id too.
    pub detail: Json,
}

/// Everything that one change publishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publications {
    /// The owner of the changed row.
    pub user: UserId,
    /// For the stream `subscriptions`.
    pub update: Option<Outgoing>,
    /// For the bus.
    pub message: Option<Message>,
}

/// What a change of `billing-activity` publishes. A removed row publishes nothing: it was moved, and is
/// published from its new place.
///
/// # Errors
/// [`ReadError`] names the attribute and the row.
pub fn billing_publications(
    old: Option<&Item>,
    new: Option<&Item>,
) -> Result<Option<Publications>, ReadError> {
    let Some(image) = new else { return Ok(None) };
    let record = Record::from_item(image.clone())?;
    let before = |name| old.and_then(|old| old.text(name)).filter(|text| !text.is_empty());
    let change = ChangeId::of(old, new);
    let status = before(BILLING_STATUS);
    // A record with earlier versions is not new where it arrives: its move was published when the old row
    // was marked.
    let is_news = match old {
        None => record.version <= 1,
        Some(_) => status != Some(record.status().as_str()),
    };
    Ok(Some(Publications {
        user: record.user_id.clone(),
        update: Some(update(&record, before(UPDATED_EVENT), status, change)),
        message: is_news.then(|| status_changed(&record, status, change)),
    }))
}

/// What a change of `gg_core` publishes: credits granted or bought, and a changed tier of a profile.
///
/// # Errors
/// [`ReadError`] names the attribute and the row.
pub fn core_publications(old: Option<&Item>, new: Option<&Item>) -> Result<Option<Publications>, ReadError> {
    let Some(image) = new else { return Ok(None) };
    let Some(user) = image.text(PK).and_then(user_of) else { return Ok(None) };
    let message = if image.text(SK).is_some_and(|sort| sort.starts_with(PROFILE_PREFIX)) {
        tier_changed(&user, old, image)?
    } else if image.text(TYPE) == Some(MOVEMENT_TYPE) && old.is_none() {
        credits_granted(&user, image)?
    } else {
        None
    };
    Ok(message.map(|message| Publications { user, update: None, message: Some(message) }))
}

fn update(record: &Record, tag: Option<&str>, status: Option<&str>, change: ChangeId) -> Outgoing {
    let id = change.message(SUBSCRIPTION_UPDATED);
    // A tag describes one update: if it was there before, it describes an earlier one.
    let event = record.updated_event.as_ref().map(|event| event.as_str()).filter(|event| Some(*event) != tag);
    let shown: Item = record.to_item().into_iter().filter(|(name, _)| SHOWN.contains(&&**name)).collect();
    let mut body = json!({
        "id": id,
        "event": event.unwrap_or(SUBSCRIPTION_UPDATED),
        "user_id": record.user_id,
        "subscription_id": record.subscription_id,
        "version": record.version,
        "previous_status": status,
        "subscription": shown.to_json(),
    });
    if let Some(code) = record.state.last_failure().map(|failed| &failed.failure).and_then(Failure::code) {
        body["return_code"] = json!(code.to_string());
    }
    Outgoing { id, key: record.user_id.to_string(), data: body.to_string().into_bytes() }
}

fn status_changed(record: &Record, status: Option<&str>, change: ChangeId) -> Message {
    let id = change.message(STATUS_CHANGED);
    let at = record.last_run_date.as_ref().or(record.created_date.as_ref());
    let detail = json!({
        "id": id,
        "user_id": record.user_id,
        "subscription_id": record.subscription_id,
        "billing_date": record.billing_date.text(),
        "billing_period": record.period(),
        "old_status": status,
        "new_status": record.status().as_str(),
        "process": record.process.as_str(),
        "version": record.version,
        "occurred_at": at.map(GoTime::text),
    });
    Message { id, detail_type: STATUS_CHANGED, at: at.map(GoTime::at), detail }
}

fn tier_changed(user: &UserId, old: Option<&Item>, new: &Item) -> Result<Option<Message>, ReadError> {
    let tier = |item: Option<&Item>| {
        item.and_then(|item| item.text(TIER)).unwrap_or(PlanTier::Free.as_str()).to_owned()
    };
    // As text: an unreadable old tier must not suppress the message about its replacement.
    let before = tier(old);
    // Other services change their part of the row at any time, and may write what we cannot read.
    if before == tier(Some(new)) {
        return Ok(None);
    }
    let profile = Profile::from_item(new.clone())?;
    let id = ChangeId::of(old, Some(new)).message(TIER_CHANGED);
    let detail = json!({
        "id": id,
        "user_id": user,
        "old_tier": before,
        "new_tier": profile.tier.as_str(),
        "occurred_at": profile.updated_at.as_ref().map(GoTime::text),
    });
    Ok(Some(Message {
        id,
        detail_type: TIER_CHANGED,
        at: profile.updated_at.as_ref().map(GoTime::at),
        detail,
    }))
}

fn credits_granted(user: &UserId, new: &Item) -> Result<Option<Message>, ReadError> {
    let movement = Movement::from_item(new.clone())?;
    match movement.kind {
        MovementKind::Grant | MovementKind::TopUp => {}
        MovementKind::Consume | MovementKind::TakeBack | MovementKind::Expire => return Ok(None),
    }
    let id = ChangeId::of(None, Some(new)).message(CREDITS_GRANTED);
    let detail = json!({
        "id": id,
        "user_id": user,
        "movement_id": movement.id,
        "kind": movement.kind.as_str(),
        "credits": movement.amount,
        "payment_id": movement.payment,
        "occurred_at": GoTime::trimmed(movement.at).text(),
    });
    Ok(Some(Message { id, detail_type: CREDITS_GRANTED, at: Some(movement.at), detail }))
}
