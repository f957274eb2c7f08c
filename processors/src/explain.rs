//! `explain`: why was this member charged, or not, or given this tier? Everything that is known of a member, as of any time, in one answer.

use dues_events::collect::Rules;
use dues_events::entitled::{PassRow, SubscriptionRow};
use dues_events::profile::Profile;
use dues_events::record::membership_status;
use dues_events::{GoTime, Record, Time, UserId};
use dues_projections::access::{Access, access};
use dues_projections::dues::{TierMap, meaning};
use dues_projections::entitlement::{fold, rows};
use dues_projections::standing::Standing;
use dues_projections::story::{Beat, Next, Story, story};
use dues_store::parked::Parked;
use dues_store::{Engine, Store, StoreError};
use serde_json::{Value as Json, json};

/// The answer.
#[derive(Debug, Clone)]
pub struct Explained {
    /// Whose story.
    pub user: UserId,
    /// As of when.
    pub at: Time,
    /// What happened, how it stands, what comes next.
    pub story: Story,
    /// What the member may use then, and why.
    pub access: Access,
    /// How many credits there were.
    pub credits: i64,
    /// What of theirs could not be processed, and why; as of now.
    pub parked: Vec<Parked>,
}

/// Tells a member's story up to a time.
///
/// # Errors
/// What the store could not do, or a row that cannot be read.
pub async fn explain<E: Engine>(
    store: &Store<E>,
    tiers: &TierMap,
    rules: &Rules,
    user: &UserId,
    at: Time,
) -> Result<Explained, StoreError> {
    let history = store.history_of_user(user).await?;
    let book = store.entitlement_book(user).await?;
    // Somebody without credits has none; looking does not make a row.
    let ledger = if store.balance(user).await?.is_some() { store.ledger(user).await? } else { Vec::new() };
    let story = story(&history, &book.facts, &ledger, rules, at);
    let facts: Vec<_> = book.facts.iter().filter(|event| event.created <= at).cloned().collect();
    let entitlement = fold(&facts, at);
    let mut standing = Standing {
        subscribed: entitlement.tier,
        passes: entitlement.pass_tier(),
        provider: entitlement.provider,
        next_grant: None,
        notes: Vec::new(),
    };
    for records in history.chunk_by(|a, b| a.record.subscription_id == b.record.subscription_id) {
        let mut before: Option<Record> = None;
        for row in records.iter().filter(|row| row.record.last_run_date.as_ref().is_none_or(|run| run.at() <= at)) {
            let after = row.onto(before.as_ref());
            if let Ok(Some(meaning)) = meaning(before.as_ref(), &after, tiers) {
                standing.remember(meaning.note);
            }
            before = Some(after);
        }
    }
    let entitled = rows(user, &entitlement);
    let subscriptions: Vec<SubscriptionRow> = entitled.values().cloned().filter_map(|item| SubscriptionRow::from_item(item).ok()).collect();
    let passes: Vec<PassRow> = entitled.into_values().filter_map(|item| PassRow::from_item(item).ok()).collect();
    let shown = standing.shown();
    let profile = Profile { user: user.clone(), tier: shown.tier, provider: shown.provider, dues: shown.dues, updated_at: None };
    let parked = store.parked().await?.into_iter().filter(|parked| parked.user_id.as_deref() == Some(user.as_str())).collect();
    Ok(Explained {
        user: user.clone(),
        at,
        story,
        access: access(at, &passes, &subscriptions, Some(&profile)),
        credits: ledger.iter().filter(|movement| movement.at <= at).map(|movement| movement.amount).sum(),
        parked,
    })
}

impl Explained {
    /// Whether anything at all is known of the member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.story.beats.is_empty() && self.parked.is_empty()
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> Json {
        let time = |at: Time| GoTime::trimmed(at).text();
        let beat = |beat: &Beat| {
            json!({
                "at": time(beat.at), "event_id": beat.event.as_ref().map(|id| id.as_str()), "source": beat.source,
                "subscription_id": beat.record.as_ref().map(|id| id.as_str()), "from": beat.moved.map(|(from, _)| from).filter(|from| !from.is_empty()),
                "to": beat.moved.map(|(_, to)| to), "sentence": beat.sentence, "followed": beat.followed,
            })
        };
        let next = |next: &Next| json!({"at": next.at.map(time), "subscription_id": next.record.as_str(), "sentence": next.sentence});
        let parked = |parked: &Parked| json!({"parked_id": parked.id, "stream": parked.stream, "code": parked.code, "reason": parked.reason, "event_id": parked.event_id});
        json!({
            "user_id": self.user.as_str(), "at": time(self.at), "status": membership_status(&self.story.records),
            "story": self.story.beats.iter().map(beat).collect::<Vec<_>>(),
            "records": self.story.records.iter().map(standing_record).collect::<Vec<_>>(),
            "access": {
                "tier": self.access.tier.as_str(), "source": self.access.source.as_str(),
                "until": self.access.until.as_ref().map(|until| until.text()), "why": self.access.why,
            },
            "credits": self.credits,
            "next": self.story.next.iter().map(next).collect::<Vec<_>>(),
            "parked": self.parked.iter().map(parked).collect::<Vec<_>>(),
        })
    }
}

fn standing_record(record: &Record) -> Json {
    json!({
        "subscription_id": record.subscription_id.as_str(), "due": record.billing_date.text(), "status": record.status().as_str(),
        "amount": record.plan.amount.to_string(), "tier": record.plan.tier.as_str(), "attempts": record.attempts,
    })
}
