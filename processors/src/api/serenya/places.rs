//! The paths of the read model `serenya`. A command has an `event_id`, under which it is done once; with an `occurred_at` it happened then, otherwise
//! now.

mod accounts;
mod shapes;

use dues_projections::serenya::DOCUMENT_PROCESSING;
use serde_json::{Value, json};

use super::{JOBS, MOST, PAYMENTS};
use crate::api::openapi::{
    Operation, Part, any, flag, id, joined, list, object, object_with, or_null, shape, text, text_or_null, time, words,
};
use crate::api::places::{self, Place, Places, described, shaped};

/// What is asked, or told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// The tiers.
    Tiers,
    /// What can be asked about a document.
    ChatOptions,
    /// A configuration.
    Config,
    /// To save one.
    SaveConfig,
    /// To make a user.
    Create,
    /// To find one.
    Find,
    /// A user's profile.
    Profile,
    /// A user's subscription.
    Subscription,
    /// A user's payments.
    Payments,
    /// Whether a user may use something.
    Usage,
    /// To count that a user does.
    Count,
    /// A user's documents.
    Jobs,
    /// One of them.
    Job,
    /// Something of a user's has happened.
    Tell(Tell),
}

/// What has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tell {
    /// The event that it stands for.
    pub(super) kind: &'static str,
    /// Where the event has the fields.
    pub(super) fields: At,
}

/// Where an event has the fields of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// As they are.
    Top,
    /// In its `payment`, which goes by the id of the command if it has none.
    Payment,
    /// In its `subscription`.
    Subscription,
}

/// All paths. Whoever is called `find` has to be asked about in another way.
pub(super) const PLACES: Places<Asked> = &[SETTINGS, accounts::USERS, accounts::SIGNED_IN, MONEY, DOCUMENTS];

/// The path as it is described.
pub(in crate::api) fn template(path: &[&str]) -> Option<&'static str> {
    places::template(PLACES, path)
}

/// How they are described.
pub(in crate::api) fn openapi() -> Part {
    let about = "Profiles with sessions and consents, payments, limits, documents and configuration (read model serenya).";
    described(PLACES, shaped(Part::new("serenya", about), shapes::all()))
}

const SETTINGS: &[Place<Asked>] = &[
    Place::get("/models/serenya/subscription-tiers", Asked::Tiers, || {
        Operation::new("serenya_list_tiers", "What each tier allows and costs.").answer(
            200,
            "The tiers, by their names.",
            json!({"type": "object", "additionalProperties": shape("SerenyaTier")}),
        )
    }),
    Place::post("/models/serenya/chat-options", Asked::ChatOptions, || {
        let body = object_with(json!({}), json!({"documentType": text_or_null(), "availableMetrics": or_null(list(text()))}));
        Operation::new("serenya_list_chat_options", "What can be asked about a document: for a result also about each of its metrics.")
            .body(body)
            .answer(200, "The options, as the deployment has them.", json!({"type": "object"}))
            .errors(&[422])
    }),
    Place::get("/models/serenya/config/{config_key}", Asked::Config, || {
        Operation::new("serenya_get_config", "A configuration.")
            .query("version", "That version; the highest, if none is named.", text())
            .answer(200, "The configuration.", shape("SerenyaConfig"))
            .errors(&[422])
    }),
    Place::post("/models/serenya/config/{config_key}", Asked::SaveConfig, || {
        Operation::new("serenya_save_config", "Saves a version of a configuration.")
            .needs(command(json!({"version": id()}), json!({"features": any(), "limits": any(), "services": any()})))
            .answer(200, "It is saved, now or before.", object(json!({"config_key": text(), "outcome": outcome()})))
            .errors(&[409, 422])
    }),
];

const MONEY: &[Place<Asked>] = &[
    Place::get("/models/serenya/users/{user_id}/subscription", Asked::Subscription, || {
        Operation::new("serenya_get_subscription", "A user's subscription, with what is used of it.").answer(
            200,
            "The one that counts.",
            shape("SerenyaSubscription"),
        )
    }),
    Place::post("/models/serenya/users/{user_id}/subscription", tell("subscription.updated", At::Subscription), || {
        let required = json!({"subscription_id": id(), "subscription_type": id(), "subscription_status": text(), "provider": text(), "start_date": time()});
        let days = || json!({"type": "integer", "minimum": 0, "maximum": u32::MAX});
        let optional = json!({
            "external_subscription_id": text_or_null(), "end_date": or_null(time()), "auto_renew": flag(), "trial_period_days": days(),
            "grace_period_days": days(),
        });
        tells("serenya_update_subscription", "An application says what the subscription is.", required, optional)
    }),
    Place::get("/models/serenya/users/{user_id}/payments", Asked::Payments, || {
        Operation::new("serenya_list_payments", "A user's payments, the latest first.")
            .query("limit", &format!("How many; {PAYMENTS} unless it is said."), limit())
            .answer(200, "The payments.", object(json!({"user_id": text(), "payments": list(shape("SerenyaPayment"))})))
            .errors(&[422])
    }),
    Place::post("/models/serenya/users/{user_id}/payments", tell("payment.recorded", At::Payment), || {
        let optional = json!({
            "payment_id": or_null(id()), "subscription_id": text_or_null(), "currency": or_null(json!({"type": "string", "pattern": "^[Uu][Ss][Dd]$"})),
            "payment_status": or_null(words(["pending", "completed", "failed"])), "payment_method": text_or_null(),
            "provider_transaction_id": text_or_null(), "provider_receipt_data": text_or_null(), "provider_sandbox": flag(),
            "initiated_at": or_null(time()), "platform": text_or_null(), "app_version": text_or_null(),
        });
        let summary = "Records a payment: bought in a store, or by hand. Of the receipt only the SHA-256 is kept.";
        tells("serenya_record_payment", summary, json!({"amount": amount()}), optional)
    }),
    Place::post("/models/serenya/users/{user_id}/payments/{payment_id}/refunds", tell("payment.refunded", At::Top), || {
        let optional = json!({"refund_amount": or_null(amount()), "refund_reason": text_or_null()});
        tells("serenya_record_refund", "Records money given back; all of it, if no amount is named.", json!({"refund_id": id()}), optional)
    }),
    Place::get("/models/serenya/users/{user_id}/usage", Asked::Usage, || {
        Operation::new("serenya_check_usage", "Whether a user may use a feature now.")
            .query("feature", &format!("Which; {DOCUMENT_PROCESSING} unless it is said."), text())
            .answer(200, "Whether, and how much is used where there is a limit.", shape("SerenyaUsage"))
            .errors(&[422])
    }),
    Place::post("/models/serenya/users/{user_id}/usage", Asked::Count, || {
        Operation::new("serenya_count_document", "Counts a document, if one more is allowed; once for each event_id.")
            .needs(command(json!({}), json!({})))
            .answer(200, "It was counted, now or before.", shape("SerenyaCounted"))
            .answer(
                429,
                "Not one more in this period, or the server is too busy.",
                json!({"anyOf": [shape("SerenyaRefused"), shape("Error")]}),
            )
            .errors(&[404, 409, 422])
    }),
];

const DOCUMENTS: &[Place<Asked>] = &[
    Place::get("/models/serenya/users/{user_id}/jobs", Asked::Jobs, || {
        Operation::new("serenya_list_jobs", "How a user's documents stand, the latest upload first.")
            .query("limit", &format!("How many; {JOBS} unless it is said."), limit())
            .answer(200, "The jobs.", object(json!({"user_id": text(), "jobs": list(shape("SerenyaJob"))})))
            .errors(&[422])
    }),
    Place::get("/models/serenya/users/{user_id}/jobs/{file_name}", Asked::Job, || {
        let missing = object(json!({"status": words(["not_found"]), "file_name": text()}));
        Operation::new("serenya_get_job", "How a document stands. A slash in its name is written %2F.")
            .answer(200, "The job.", shape("SerenyaJob"))
            .answer(404, "There is no such document.", json!({"anyOf": [missing, shape("Error")]}))
    }),
    Place::post("/models/serenya/users/{user_id}/jobs/{file_name}/failed", tell("document.failed", At::Top), || {
        tells("serenya_fail_job", "A document could not be processed.", json!({}), json!({"error_message": text_or_null()}))
    }),
];

const fn tell(kind: &'static str, fields: At) -> Asked {
    Asked::Tell(Tell { kind, fields })
}

/// Tells what has happened to a user.
fn tells(name: &str, summary: &str, required: Value, optional: Value) -> Operation {
    Operation::new(name, summary)
        .needs(command(required, optional))
        .answer(
            200,
            "It is so, now or before, and this is the user.",
            object(json!({"user_id": text(), "outcome": outcome(), "profile": shape("SerenyaProfile")})),
        )
        .errors(&[404, 409, 422])
}

/// The body of a command.
fn command(required: Value, optional: Value) -> Value {
    object_with(joined(json!({"event_id": id()}), required), joined(json!({"occurred_at": or_null(time())}), optional))
}

fn outcome() -> Value {
    words(["applied", "known"])
}

fn limit() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": MOST})
}

/// Dollars with two decimals at the most, as a number or as text.
fn amount() -> Value {
    json!({"anyOf": [{"type": "number", "minimum": 0, "maximum": 1_000_000}, {"type": "string", "pattern": "^[0-9]{1,7}(\\.[0-9]{1,2})?$"}]})
}
