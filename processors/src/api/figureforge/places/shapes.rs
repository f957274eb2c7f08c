//! The shapes of what `figureforge` answers: its rows, without the keys of the table.

use dues_events::stripe::SubscriptionStatus;
use dues_projections::figureforge::job::JobStatus;
use dues_projections::figureforge::moderation::FlagStatus;
use dues_projections::figureforge::report::ReportStatus;
use serde_json::{Value, json};

use crate::api::openapi::{any, count, flag, id, joined, list, number, object, or_null, text, text_or_null, words};

/// The last second of the year 9999.
const LAST_SECOND: i64 = 253_402_300_799;

/// A second that somebody names.
pub(super) fn second() -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": LAST_SECOND})
}

/// An amount or a count that somebody names.
pub(super) fn cents() -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": u32::MAX})
}

/// A user's id, or a tag.
pub(super) fn name() -> Value {
    id()
}

pub(super) fn tags() -> Value {
    json!({"type": "array", "items": name(), "maxItems": 500})
}

/// What every row has beside these.
fn row(properties: Value) -> Value {
    object(joined(properties, json!({"created_at": number(), "deleted_at": or_null(number())})))
}

pub(super) fn all() -> [(&'static str, Value); 8] {
    let maybe = || or_null(number());
    [
        ("FigureforgeUser", row(json!({"user_id": text(), "email": text(), "display_name": text_or_null()}))),
        (
            "FigureforgeSubscription",
            row(json!({
                "user_id": text(), "stripe_sub_id": text(), "stripe_customer_id": text_or_null(),
                "status": words(SubscriptionStatus::ALL.map(SubscriptionStatus::as_str)), "plan_id": text_or_null(), "plan": text_or_null(),
                "current_period_start": maybe(), "current_period_end": maybe(), "cancel_at_period_end": flag(),
            })),
        ),
        (
            "FigureforgePlan",
            row(json!({
                "plan_id": text(), "name": text(), "price_cents": or_null(count()), "interval": text_or_null(), "stripe_price_id": text_or_null(),
                "active": flag(),
            })),
        ),
        ("FigureforgeFlag", row(json!({"flag_name": text(), "enabled": flag(), "description": text_or_null(), "value": any()}))),
        (
            "FigureforgeJob",
            row(json!({
                "job_id": text(), "user_id": text(), "status": words(JobStatus::ALL.map(JobStatus::as_str)), "prompt_json": any(),
                "provider": text_or_null(), "provider_model_id": text_or_null(), "image_id": text_or_null(), "cost_cents": or_null(count()),
                "error": text_or_null(), "started_at": maybe(), "ended_at": maybe(),
            })),
        ),
        (
            "FigureforgeImage",
            row(json!({
                "image_id": text(), "user_id": text_or_null(), "url": text(), "tags": list(text()), "prompt_json": any(),
                "provider": text_or_null(), "provider_model_id": text_or_null(), "cost_cents": or_null(count()), "favorited_count": count(),
                "public": flag(), "private_gallery_ids": list(text()), "flag_status": words(FlagStatus::ALL.map(FlagStatus::as_str)),
            })),
        ),
        (
            "FigureforgeReport",
            row(json!({
                "image_id": text(), "report_id": text(), "reporter_id": text_or_null(), "reason": text(),
                "status": words(ReportStatus::ALL.map(ReportStatus::as_str)),
            })),
        ),
        ("FigureforgeTagged", object(json!({"tag": text(), "image_id": text(), "created_at": number()}))),
    ]
}
