//! What a subscription allows: asking, and counting.

use dues_projections::serenya::DOCUMENT_PROCESSING;
use dues_projections::serenya::tiers::Settings;
use dues_store::{Engine, Store};
use serde_json::{Value as Json, json};

use super::{Command, No, Response, key_was_used, ok, wrong};
use crate::read_models::serenya::{Checked, Counting, check_usage, count_usage};

/// Whether a feature may be used.
pub(super) async fn check<E: Engine>(store: &Store<E>, settings: &Settings, user: &str, feature: Option<String>) -> Result<Response, No> {
    let feature = feature.unwrap_or_else(|| DOCUMENT_PROCESSING.to_owned());
    Ok(ok(shown(&check_usage(store, settings, user, &feature).await?)))
}

/// Counts a document, if one more is allowed: 429 with limit, usage and the time of the next period otherwise.
pub(super) async fn count<E: Engine>(store: &Store<E>, settings: &Settings, user: &str, asked: &Command) -> Result<Response, No> {
    let key = asked.id.as_ref().ok_or_else(|| wrong("event_id", "is missing"))?;
    Ok(match count_usage(store, settings, user, key).await? {
        Counting::Counted(checked) => ok(with(shown(&checked), "outcome", "applied".into())),
        Counting::Known(checked) => ok(with(shown(&checked), "outcome", "known".into())),
        Counting::Different => key_was_used(),
        Counting::Refused(checked) => {
            let why = checked.reason.clone().unwrap_or_else(|| "all documents of this period are used".to_owned());
            let error = json!({"code": "usage_limit", "message": why});
            let wait = checked.reset.and_then(|reset| u64::try_from((reset - store.clock.now()).num_seconds()).ok());
            Response { retry_after: wait, ..Response::of(429, with(shown(&checked), "error", error)) }
        }
    })
}

/// In the seed's words, and when the next period begins.
fn shown(checked: &Checked) -> Json {
    let mut json = json!({"allowed": checked.allowed});
    let reset = checked.reset.map(|reset| dues_events::GoTime::trimmed(reset).text());
    let fields = [
        ("reason", checked.reason.clone().map(Json::from)),
        ("usage", checked.usage.map(Json::from)),
        ("limit", checked.limit.map(Json::from)),
        ("period_end", reset.map(Json::from)),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            json[name] = value;
        }
    }
    json
}

fn with(mut json: Json, name: &str, value: Json) -> Json {
    json[name] = value;
    json
}
