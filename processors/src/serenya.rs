//! Queries of the read model `serenya`, and the end of sessions.
//!
//! A profile's row may be missing for a moment, between its deletion by DynamoDB's TTL and its restoration
//! by the projector. Queries then read the profile from the journal, so that signing in does not fail. The
//! pointer rows of email and external id are always in the table.

pub mod s3_events;

mod commands;
mod jobs;
pub(crate) mod profile_expiry;

use dues_events::attributes::SK;
use dues_events::{Item, Time, UserId, Value};
use dues_projections::model::{Model as _, Recorded};
use dues_projections::serenya::profile::{PROFILE, ttl_of};
use dues_projections::serenya::{Fact, ProfileFact, Serenya, email_key, external_key, user_aggregate};
use dues_store::table::Index;
use dues_store::table::serenya::{BY_EMAIL_HASH, BY_EXTERNAL_ID, SERENYA};
use dues_store::{Engine, Key, Order, Query, Store, StoreError};
use serde_json::{Value as Json, json};

use crate::outcome::FactOutcome;
use crate::read_models::journal_commit;
use crate::read_models::journal_commit::record_facts;
use crate::runtime::lanes::Outcome;

pub use commands::{Taken, UsageCheck, check_usage, command, count_usage, create_user};
pub use jobs::{job, jobs};

/// Sort key prefix of payments.
const PAYMENT: &str = "PAYMENT#";
/// Partition key prefix of users.
const USER: &str = "USER#";

/// A user's profile: `data` of its row.
pub async fn profile<E: Engine>(store: &Store<E>, user: &str) -> Result<Option<Item>, StoreError> {
    Ok(profile_row(store, user).await?.and_then(|row| data(row, store.clock.now())))
}

async fn profile_row<E: Engine>(store: &Store<E>, user: &str) -> Result<Option<Item>, StoreError> {
    let key = Key { partition: format!("{USER}{user}"), sort: Some(PROFILE.to_owned()) };
    match store.engine.get(&SERENYA, key).await? {
        Some(row) => Ok(Some(row)),
        None => {
            let name = user_aggregate(user);
            let state = journal_commit::load_state::<Serenya, E>(store, &name).await?;
            let rows = Serenya::rows(&name, &state).into_iter().map(|(_, row)| row);
            Ok(rows.into_iter().find(|row| row.text(SK) == Some(PROFILE)))
        }
    }
}

/// The user with that email, in any spelling.
pub async fn find_by_email<E: Engine>(store: &Store<E>, email: &str) -> Result<Option<Item>, StoreError> {
    find(store, &BY_EMAIL_HASH, email_key(email)).await
}

/// The user with that id at Google or Apple.
pub async fn find_by_external_id<E: Engine>(
    store: &Store<E>,
    provider: &str,
    external_id: &str,
) -> Result<Option<Item>, StoreError> {
    find(store, &BY_EXTERNAL_ID, external_key(provider, external_id)).await
}

/// Looks in the index first, then in the pointer rows.
async fn find<E: Engine>(
    store: &Store<E>,
    index: &'static Index,
    key: String,
) -> Result<Option<Item>, StoreError> {
    let found = store.all(Query::index(&SERENYA, index.name, key.clone())).await?;
    if let Some(row) = found.into_iter().next() {
        return Ok(data(row, store.clock.now()));
    }
    let pointers = store.all(Query::prefix(&SERENYA, key, USER)).await?;
    match pointers.first().and_then(|pointer| pointer.text(SK)?.strip_prefix(USER)) {
        Some(user) => profile(store, user).await,
        None => Ok(None),
    }
}

/// The `data` of a row. An expired session is removed, even if DynamoDB has not deleted the row yet.
fn data(mut row: Item, now: Time) -> Option<Item> {
    let over = ttl_of(&row).is_some_and(|(_, at)| at <= now);
    match row.remove("data") {
        Some(Value::M(mut data)) => {
            if over {
                data.set("current_session", Value::Null);
            }
            Some(data)
        }
        Some(_) | None => None,
    }
}

/// A user's subscription, with its usage.
pub async fn current_subscription<E: Engine>(
    store: &Store<E>,
    user: &str,
) -> Result<Option<Item>, StoreError> {
    let subscription = profile(store, user).await?.and_then(|mut profile| profile.remove("subscription"));
    Ok(match subscription {
        Some(Value::M(subscription)) => Some(subscription),
        Some(_) | None => None,
    })
}

/// A user's payments, newest first.
pub async fn payments<E: Engine>(store: &Store<E>, user: &str, limit: u32) -> Result<Vec<Item>, StoreError> {
    let query = Query {
        order: Order::Descending,
        limit: Some(limit),
        ..Query::prefix(&SERENYA, format!("{USER}{user}"), PAYMENT)
    };
    let page = store.engine.query(query).await?;
    Ok(page.items.into_iter().filter_map(|row| data(row, store.clock.now())).collect())
}

/// A configuration in the given version, or in the highest one.
pub async fn config<E: Engine>(
    store: &Store<E>,
    key: &str,
    version: Option<&str>,
) -> Result<Option<Item>, StoreError> {
    use dues_projections::serenya::config::{CONFIG, prefix};
    let rows = store.all(Query::prefix(&SERENYA, CONFIG, prefix(key))).await?;
    let versions = rows.into_iter().filter_map(|row| data(row, store.clock.now()));
    let number = |data: &Item| {
        data.text("version")
            .map(|version| (version.trim_start_matches('v').parse::<u64>().ok(), version.to_owned()))
    };
    Ok(match version {
        Some(version) => versions.into_iter().find(|data| data.text("version") == Some(version)),
        None => versions.into_iter().max_by_key(number),
    })
}

/// Records that DynamoDB has deleted a profile with that `ttl`.
pub async fn session_over<E: Engine>(
    store: &Store<E>,
    user: &UserId,
    (ttl, at): (i64, Time),
) -> Result<Outcome, StoreError> {
    let fact =
        Recorded { id: format!("ttl:{ttl}").into(), at, fact: Fact::Profile(ProfileFact::Expired { ttl }) };
    let booked = record_facts::<Serenya, E>(store, &user_aggregate(user.as_str()), &[fact]).await?;
    Ok(if booked == [FactOutcome::Applied] { Outcome::Applied } else { Outcome::Duplicate })
}

/// A user's rows: as JSON, and as lines of text.
pub async fn show<E: Engine>(store: &Store<E>, user: &UserId) -> Result<(Json, Vec<String>), StoreError> {
    let profile = profile(store, user.as_str()).await?.map(|profile| profile.to_json());
    let payments: Vec<Json> = payments(store, user.as_str(), 20).await?.iter().map(Item::to_json).collect();
    let jobs: Vec<Json> = jobs(store, user.as_str(), 20).await?.iter().map(Item::to_json).collect();
    let text = |json: &Json, name: &str| json[name].as_str().unwrap_or("-").to_owned();
    let mut lines = Vec::new();
    if let Some(profile) = &profile {
        let (subscription, used) = (
            &profile["subscription"],
            &profile["subscription"]["usage_current_period"]["documents_processed"],
        );
        let status = [
            text(profile, "account_status"),
            text(subscription, "subscription_type"),
            text(subscription, "subscription_status"),
        ];
        lines.push(format!("{}, {} ({}), {used} documents in this period", status[0], status[1], status[2]));
    }
    for payment in &payments {
        let back = payment["refund_status"].as_str().map_or(String::new(), |back| format!(", {back}"));
        let words = ["payment_id", "payment_status", "payment_method"].map(|name| text(payment, name));
        lines.push(format!("payment {} {} {} by {}{back}", words[0], payment["amount"], words[1], words[2]));
    }
    lines.extend(jobs.iter().map(|job| format!("job {} {}", text(job, "file_name"), text(job, "status"))));
    Ok((json!({"profile": profile, "payments": payments, "jobs": jobs}), lines))
}
