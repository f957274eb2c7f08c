//! Applications' events of `serenya` for made-up users: what people do with such an app, in any order that a seed gives.

use chrono::TimeDelta;
use fastrand::Rng;
use serde_json::{Value, json};

use crate::world::t;

/// So many events of these users, the same ones for the same seed. Each user is made by the first event about them.
pub fn events(seed: u64, count: usize, users: &[String]) -> Vec<Value> {
    let mut random = Rng::with_seed(seed);
    let begin = t("2026-01-01T00:00:00Z");
    let mut made = vec![false; users.len()];
    let event = |n: usize| {
        let place = random.usize(..users.len());
        let at = begin + TimeDelta::seconds(n as i64 * 61 + random.i64(0..60));
        let (kind, mut event) = if std::mem::replace(&mut made[place], true) { happening(&mut random, n, place) } else { new(place) };
        // Objects are named by their key, and the configuration is nobody's.
        if kind == "document.object" {
            let key = event["key"].as_str().unwrap_or_default();
            event["key"] = format!("users/{}/documents/{key}", users[place]).into();
        } else if kind != "config.saved" {
            event["user_id"] = users[place].as_str().into();
        }
        event["event_id"] = format!("serenya-{seed}-{n}").into();
        event["type"] = format!("serenya.{kind}").into();
        event["occurred_at"] = at.to_rfc3339().into();
        event
    };
    (0..count).map(event).collect()
}

fn new(place: usize) -> (&'static str, Value) {
    let provider = if place.is_multiple_of(2) { "google" } else { "apple" };
    (
        "user.created",
        json!({"email": format!("User{place}@example.com"), "name": format!("User {place}"), "auth_provider": provider, "external_id": format!("x-{place}")}),
    )
}

fn happening(random: &mut Rng, n: usize, place: usize) -> (&'static str, Value) {
    let session = format!("sess-{place}-{}", random.u8(0..6));
    let payment = format!("pay-{place}-{}", random.u8(0..20));
    let cents = random.u32(100..5000);
    let amount = format!("{}.{:02}", cents / 100, cents % 100);
    let file = format!("scan {}.pdf", random.u8(0..8));
    let object = |key: String, random: &mut Rng| {
        ("document.object", json!({"key": key, "sequencer": format!("{:X}", n + 1), "deleted": random.u8(0..4) == 0}))
    };
    match random.u8(0..18) {
        0 => ("user.updated", json!({"name": format!("User {place} {n}")})),
        1 => ("user.updated", json!({"email": format!("user{place}.{}@example.com", random.u8(0..3))})),
        2 => (
            "consent.given",
            json!({"medical_disclaimers": random.bool(), "terms_of_service": true, "consent_version": "v2.1.0", "ip_address": "192.0.2.1"}),
        ),
        3 => ("device.seen", json!({"device_id": format!("d-{}", random.u8(0..3)), "platform": "ios", "app_version": "1.2.3"})),
        4 => ("session.started", json!({"session_id": session, "access_token_hash": format!("{n:064x}"), "source_ip": "192.0.2.1"})),
        5 => ("session.accessed", json!({"session_id": session})),
        6 => ("session.ended", json!({"session_id": session})),
        7 => (
            "biometric.registered",
            json!({"registration_id": format!("bio-{n}"), "biometric_type": "faceid", "verification_level": "high"}),
        ),
        8 => ("biometric.verified", json!({})),
        9 => ("biometric.failed", json!({})),
        10 => ("usage.counted", json!({"feature": "document_processing"})),
        11 => {
            let status = if random.bool() { "active" } else { "expired" };
            (
                "subscription.updated",
                json!({"subscription": {"subscription_id": format!("apple-{place}"), "subscription_type": "premium", "subscription_status": status,
                "provider": "apple", "start_date": "2026-01-01T00:00:00Z", "end_date": "2026-02-01T00:00:00Z"}}),
            )
        }
        12 => (
            "payment.recorded",
            json!({"payment": {"payment_id": payment, "amount": amount, "currency": "USD", "payment_method": "apple_pay", "platform": "ios"}}),
        ),
        13 => (
            "payment.refunded",
            json!({"payment_id": payment, "refund_id": format!("r-{}", random.u8(0..3)), "refund_amount": "1.00", "refund_reason": "asked for"}),
        ),
        14 => object(format!("uploads/{file}"), random),
        15 => object(format!("processing/{file}.processing"), random),
        16 => object(format!("results/{file}.json"), random),
        _ if random.u8(0..20) == 0 => {
            ("config.saved", json!({"config_key": "app_settings", "version": "v1", "limits": {"max_file_size_mb": random.u8(5..20)}}))
        }
        _ if random.u8(0..40) == 0 => ("account.closed", json!({})),
        _ => ("document.failed", json!({"file_name": file, "error_message": "the scan cannot be read"})),
    }
}
