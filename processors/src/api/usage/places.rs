//! The paths of the read model `usage`, and the shapes of its answers.

use dues_events::stripe::SubscriptionStatus;
use serde_json::{Value, json};

use super::MOST_LISTED;
use crate::api::openapi::{
    Operation, Part, count, day, flag, id, joined, list, number, object, object_with, or_null, shape, text, time, words,
};
use crate::api::places::{self, Place, Places, described, shaped};

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// What everybody did.
    AllActions,
    /// Who has used a feature.
    Feature,
    /// How a user stands.
    User,
    /// What a user did.
    Actions,
    /// To count an action.
    Count,
}

/// All paths. Whoever is called `actions` or `features` has to be asked about in another way.
pub(super) const PLACES: Places<Asked> = &[&[
    Place::get("/models/usage/actions", Asked::AllActions, || {
        let operation = Operation::new("usage_list_actions", "What everybody did, the newest first.");
        span(operation).query("type", "Only actions of that type.", id()).answer(
            200,
            "The actions.",
            object(json!({"actions": list(shape("UsageAction")), "more": flag()})),
        )
    }),
    Place::get("/models/usage/features/{feature}", Asked::Feature, || {
        Operation::new("usage_list_users_of_feature", "Who has used a feature on a day, and how often.")
            .query("date", "The day; today, if none is named.", day())
            .query("at_least", "Only who has used it so often.", count())
            .query("limit", "How many.", limit())
            .answer(
                200,
                "The users.",
                object(json!({"feature": text(), "date": day(), "reset_date": day(), "usage": list(shape("UsageOfDay")), "more": flag()})),
            )
            .errors(&[404, 422])
    }),
    Place::get("/models/usage/{user_id}", Asked::User, || {
        Operation::new("usage_get_user", "A user's plan, its limits, and what was used of them today.").answer(
            200,
            "How the user stands.",
            shape("UsageSummary"),
        )
    }),
    Place::get("/models/usage/{user_id}/actions", Asked::Actions, || {
        span(Operation::new("usage_list_user_actions", "What a user did, the newest first.")).answer(
            200,
            "The actions.",
            object(json!({"user_id": text(), "actions": list(shape("UsageAction")), "more": flag()})),
        )
    }),
    Place::post("/models/usage/{user_id}/{feature}", Asked::Count, || {
        let details = json!({"type": ["object", "null"], "description": "Whatever is to be remembered of it, 8 KiB at the most."});
        Operation::new("usage_count_action", "Counts an action, if the user's plan allows one more today; once for each key.")
            .needs(object_with(json!({"action_type": id()}), json!({"action_details": details, "idempotency_key": or_null(id())})))
            .answer(200, "It was counted, now or before.", shape("UsageCounted"))
            .answer(429, "Not one more today, or the server is too busy.", json!({"anyOf": [shape("UsageLimit"), shape("Error")]}))
            .errors(&[404, 409, 422])
    }),
]];

fn limit() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": MOST_LISTED})
}

fn span(operation: Operation) -> Operation {
    operation
        .query("from", "Not before that time.", time())
        .query("to", "Not after that time.", time())
        .query("limit", "How many.", limit())
        .errors(&[422])
}

/// The path as it is described.
pub(in crate::api) fn template(path: &[&str]) -> Option<&'static str> {
    places::template(PLACES, path)
}

/// How they are described.
pub(in crate::api) fn openapi() -> Part {
    let statuses = SubscriptionStatus::ALL.map(SubscriptionStatus::as_str);
    let action = || json!({"action_id": text(), "action_type": text(), "action_details": {"type": "object"}, "occurred_at": time(), "plan_id": text()});
    let limit = || json!({"limit_value": count()});
    let part = Part::new("usage", "How often features are used, and may be (read model usage).");
    let part = shaped(
        part,
        [
            (
                "UsageAction",
                object_with(
                    joined(
                        action(),
                        json!({"feature": text(), "usage_before": count(), "usage_after": count(), "user_id": text(), "timestamp": time()}),
                    ),
                    joined(limit(), json!({"expires_at": number()})),
                ),
            ),
            (
                "UsageOfDay",
                object_with(
                    json!({
                        "user_id": text(), "feature_date_key": text(), "feature_name": text(), "usage_count": count(), "reset_date": day(),
                        "created_at": time(), "updated_at": time(), "last_action": object(action()),
                    }),
                    limit(),
                ),
            ),
            (
                "UsageSummary",
                object(json!({
                    "user_id": text(), "plan_id": text(), "subscriptions": list(shape("UsageSubscription")), "reset_at": time(),
                    "usage": {"type": "object", "additionalProperties": object(json!({"used": count(), "limit": or_null(count())}))},
                })),
            ),
            (
                "UsageSubscription",
                object_with(
                    json!({
                        "user_id": text(), "subscription_id": text(), "plan_id": text(), "status": words(statuses), "created_at": time(),
                        "updated_at": time(),
                    }),
                    json!({"stripe_subscription_id": text(), "current_period_start": time(), "current_period_end": time()}),
                ),
            ),
            (
                "UsageCounted",
                object(json!({
                    "user_id": text(), "feature": text(), "action_id": text(), "action_type": text(), "plan_id": text(), "occurred_at": time(),
                    "usage_before": count(), "usage_after": count(), "limit": or_null(count()), "remaining": or_null(count()), "reset_at": time(),
                })),
            ),
            (
                "UsageLimit",
                object(json!({
                    "error": object(json!({"code": words(["usage_limit_exceeded"]), "message": text()})), "limit": count(), "used": count(),
                    "reset_at": time(),
                })),
            ),
        ],
    );
    described(PLACES, part)
}
