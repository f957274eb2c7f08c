//! `explain`: why was a member charged, or not charged, or given this tier? Everything known of a member as
//! of any time.

mod tier_changes;

use dues_events::billing::record::membership_status;
use dues_events::collections::eligibility::Rules;
use dues_events::entitlements::credits::Movement;
use dues_events::entitlements::rows::{PassRow, SubscriptionRow};
use dues_events::{GoTime, Record, Time, UserId};
use dues_projections::entitlements::access::{Access, access_or_profile};
use dues_projections::entitlements::dues::TierMap;
use dues_projections::entitlements::stripe::{fold, rows};
use dues_projections::timeline::{Sources, Timeline, TimelineEntry, Upcoming, timeline};
use dues_store::parked::Parked;
use dues_store::{Engine, Store, StoreError};
use serde_json::{Value as Json, json};

pub use tier_changes::TierChange;

/// The answer.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The member.
    pub user: UserId,
    /// As of when.
    pub at: Time,
    /// The timeline: what happened, the current records, what comes next.
    pub story: Timeline,
    /// The member's access at that time, and why.
    pub access: Access,
    /// The credit balance at that time.
    pub credits: i64,
    /// The credit movements, in order.
    pub ledger: Vec<Movement>,
    /// The subscriptions at Stripe.
    pub subscriptions: Vec<SubscriptionRow>,
    /// The founder passes.
    pub passes: Vec<PassRow>,
    /// The changes of tier, and with it of the groups.
    pub tier_changes: Vec<TierChange>,
    /// The member's parked records, with their reasons; as of now.
    pub parked: Vec<Parked>,
}

/// Explains a member's state up to a time.
pub async fn explain<E: Engine>(
    store: &Store<E>,
    tiers: &TierMap,
    rules: &Rules,
    user: &UserId,
    at: Time,
) -> Result<Explanation, StoreError> {
    let history = store.committed_history_of_user(user).await?;
    let book = store.entitlement_book(user).await?;
    // Without a balance row there are no credits; a query must not create the row.
    let mut ledger =
        if store.balance(user).await?.is_some() { store.ledger(user).await? } else { Vec::new() };
    let incomes = store.incomes(user).await?;
    let sources = Sources { history: &history, stripe: &book.facts, ledger: &ledger, incomes: &incomes };
    let mut story = timeline(&sources, rules, at);
    let facts: Vec<_> = book.facts.iter().filter(|event| event.created <= at).cloned().collect();
    let entitlement = fold(&facts, at);
    let effective = tier_changes::effective_tier(&history, &facts, tiers, at);
    let entitled = rows(user, &entitlement);
    let subscriptions: Vec<SubscriptionRow> =
        entitled.values().cloned().filter_map(|item| SubscriptionRow::from_item(item).ok()).collect();
    let passes: Vec<PassRow> =
        entitled.into_values().filter_map(|item| PassRow::from_item(item).ok()).collect();
    // A profile that facts wrote later is no other writer's.
    let is_ours = tier_changes::effective_tier(&history, &book.facts, tiers, Time::MAX_UTC).has_facts();
    let profile = if is_ours { None } else { store.profile(user).await? };
    let access = access_or_profile(&effective, profile.map(|profile| profile.tier), at);
    let tier_changes = tier_changes::tier_changes(&mut story, &history, &facts, tiers, at);
    ledger.retain(|movement| movement.at <= at);
    let parked = store
        .parked()
        .await?
        .into_iter()
        .filter(|parked| parked.user_id.as_deref() == Some(user.as_str()))
        .collect();
    Ok(Explanation {
        user: user.clone(),
        at,
        tier_changes,
        story,
        access,
        credits: ledger.iter().map(|movement| movement.amount).sum(),
        ledger,
        subscriptions,
        passes,
        parked,
    })
}

impl Explanation {
    /// Whether nothing is known of the member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.story.entries.is_empty() && self.parked.is_empty()
    }

    /// The tier changes that a timeline entry caused.
    pub fn tier_changes_of(&self, entry: &TimelineEntry) -> impl Iterator<Item = &TierChange> {
        tier_changes::of_entry(&self.tier_changes, &self.story, entry)
    }

    /// The explanation as JSON.
    #[must_use]
    pub fn json(&self) -> Json {
        let time = |at: Time| GoTime::trimmed(at).text();
        let entry = |entry: &TimelineEntry| {
            json!({
                "at": time(entry.at), "event_id": entry.event.as_ref().map(|id| id.as_str()),
                "source": entry.source, "actor": entry.actor,
                "subscription_id": entry.record.as_ref().map(|id| id.as_str()),
                "from": entry.moved.map(|(from, _)| from).filter(|from| !from.is_empty()),
                "to": entry.moved.map(|(_, to)| to), "sentence": entry.sentence, "followed": entry.followed,
            })
        };
        let next = |next: &Upcoming| {
            json!({
                "at": next.at.map(time), "subscription_id": next.record.as_str(), "sentence": next.sentence,
            })
        };
        let change = |change: &TierChange| {
            json!({
                "at": time(change.at), "from": change.from.as_str(), "to": change.to.as_str(),
                "group": change.group, "cause": change.cause,
            })
        };
        let parked = |parked: &Parked| {
            json!({
                "parked_id": parked.id, "stream": parked.stream, "code": parked.code,
                "reason": parked.reason, "event_id": parked.event_id,
            })
        };
        json!({
            "user_id": self.user.as_str(), "at": time(self.at),
            "status": membership_status(&self.story.records),
            "story": self.story.entries.iter().map(entry).collect::<Vec<_>>(),
            "records": self.story.records.iter().map(record_json).collect::<Vec<_>>(),
            "access": {
                "tier": self.access.tier.as_str(), "source": self.access.source.as_str(),
                "until": self.access.until.as_ref().map(|until| until.text()), "why": self.access.why,
            },
            "tiers": self.tier_changes.iter().map(change).collect::<Vec<_>>(),
            "credits": self.credits,
            "next": self.story.next.iter().map(next).collect::<Vec<_>>(),
            "parked": self.parked.iter().map(parked).collect::<Vec<_>>(),
        })
    }
}

fn record_json(record: &Record) -> Json {
    json!({
        "subscription_id": record.subscription_id.as_str(), "due": record.billing_date.text(),
        "status": record.status().as_str(),
        "amount": record.plan.amount.to_string(), "tier": record.plan.tier.as_str(),
        "attempts": record.attempts.count(),
    })
}
