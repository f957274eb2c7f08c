//! The shapes of what `serenya` answers.

use serde_json::{Value, json};

use crate::api::openapi::{any, count, flag, joined, object, object_with, or_null, shape, text, text_or_null, time, words};

pub(super) fn all() -> [(&'static str, Value); 13] {
    [
        ("SerenyaProfile", profile()),
        ("SerenyaConsents", consents()),
        ("SerenyaDevice", device()),
        ("SerenyaSession", session()),
        ("SerenyaBiometric", biometric()),
        ("SerenyaSubscription", subscription()),
        ("SerenyaPayment", payment()),
        ("SerenyaJob", job()),
        ("SerenyaConfig", object(json!({"config_key": text(), "version": text(), "features": any(), "limits": any(), "services": any()}))),
        ("SerenyaTier", tier()),
        ("SerenyaUsage", object_with(json!({"allowed": flag()}), usage())),
        ("SerenyaCounted", object_with(json!({"allowed": flag(), "outcome": words(["applied", "known"])}), usage())),
        ("SerenyaRefused", refused()),
    ]
}

fn refused() -> Value {
    let error = object(json!({"code": words(["usage_limit"]), "message": text()}));
    object_with(json!({"allowed": {"const": false}, "error": error}), usage())
}

fn usage() -> Value {
    json!({"reason": text(), "usage": count(), "limit": count(), "period_end": time()})
}

fn profile() -> Value {
    object(json!({
        "id": text(), "email": text(), "name": text(), "auth_provider": text(), "external_id": text(), "account_status": text(),
        "consents": shape("SerenyaConsents"), "current_device": or_null(shape("SerenyaDevice")), "current_session": or_null(shape("SerenyaSession")),
        "biometric": or_null(shape("SerenyaBiometric")), "subscription": shape("SerenyaSubscription"),
    }))
}

fn consents() -> Value {
    object_with(
        json!({
            "medical_disclaimers": flag(), "terms_of_service": flag(), "privacy_policy": flag(), "consent_version": text_or_null(),
            "consent_date": or_null(time()),
        }),
        json!({"ip_address": text_or_null(), "user_agent": text_or_null()}),
    )
}

fn device() -> Value {
    object(json!({
        "device_id": text(), "device_name": text_or_null(), "platform": text_or_null(), "platform_version": text_or_null(),
        "app_version": text_or_null(), "biometric_type": text_or_null(), "device_fingerprint": text_or_null(), "timezone": text_or_null(),
        "last_active_at": time(),
    }))
}

fn session() -> Value {
    object(json!({
        "session_id": text(), "access_token_hash": text_or_null(), "refresh_token_hash": text_or_null(), "issued_at": time(), "expires_at": time(),
        "last_accessed_at": time(), "biometric_expires_at": or_null(time()), "user_agent": text_or_null(), "source_ip": text_or_null(),
    }))
}

fn biometric() -> Value {
    object(json!({
        "registration_id": text(), "biometric_type": text(), "is_verified": flag(), "verification_level": text_or_null(),
        "challenge_data": text_or_null(), "challenge_expires_at": or_null(time()), "last_verification_at": or_null(time()),
        "failure_count": count(), "locked_until": or_null(time()),
    }))
}

fn subscription() -> Value {
    let used = object(json!({"documents_processed": count(), "period_start": time(), "period_end": time()}));
    object(json!({
        "subscription_id": text(), "subscription_type": text(), "subscription_status": text(), "provider": text(),
        "external_subscription_id": text_or_null(), "start_date": time(), "end_date": or_null(time()), "auto_renew": flag(),
        "trial_period_days": count(), "grace_period_days": count(), "usage_current_period": used,
    }))
}

fn payment() -> Value {
    let dollars = || json!({"type": ["number", "null"]});
    let back = words(["pending", "partially_refunded", "refunded", "charged_back", "returned"]);
    let paid = json!({
        "payment_id": text(), "user_id": text(), "subscription_id": text_or_null(), "amount": dollars(), "currency": text_or_null(),
        "payment_status": words(["pending", "failed", "completed"]), "payment_method": text_or_null(), "provider_transaction_id": text_or_null(),
        "provider_receipt_data": text_or_null(), "provider_sandbox": flag(), "initiated_at": time(), "processed_at": or_null(time()),
        "platform": text_or_null(), "app_version": text_or_null(),
    });
    let refunded = json!({
        "refund_status": or_null(back), "refund_amount": dollars(), "refunded_at": or_null(time()), "refund_reason": text_or_null(),
    });
    // Only currencies other than dollars have them.
    object_with(joined(paid, refunded), json!({"amount_minor_units": count(), "refund_amount_minor_units": count()}))
}

fn job() -> Value {
    object_with(
        json!({"status": words(["pending", "processing", "completed", "failed"]), "file_name": text()}),
        json!({
            "uploaded_at": time(), "processing_started_at": time(), "completed_at": time(), "result_location": text(), "error_message": text(),
        }),
    )
}

fn tier() -> Value {
    object(json!({
        "tier_name": text(), "medical_reports": flag(), "max_documents_per_month": or_null(count()), "priority_processing": flag(),
        "advanced_analytics": flag(), "export_capabilities": flag(), "chat_interactions_per_day": or_null(count()), "storage_gb": count(),
        "retention_days": count(), "support_level": text(), "monthly_price_usd": {"type": "number"}, "yearly_price_usd": {"type": "number"},
        "apple_product_id": text_or_null(), "google_product_id": text_or_null(),
    }))
}
