//! The events published for a change, as a table of cases.

#![allow(clippy::unwrap_used)]

use dues_events::{EventId, Item, Movement, MovementKind, Time, UserId, Value};
use dues_projections::billing::feed::{
    Publications, billing_publications as billing, core_publications as core,
};
use serde_json::{Value as Json, json};

fn t(text: &str) -> Time {
    dues_events::time::parse(text).unwrap()
}

fn item(attributes: &[(&str, &str)]) -> Item {
    attributes.iter().map(|(name, value)| ((*name).to_owned().into(), Value::text(*value))).collect()
}

/// A billing record with this status, tag and version.
fn record(status: &str, tag: &str, version: u64) -> Item {
    let mut row = item(&[
        ("user_id", "u-1"),
        ("billing_date", "2026-02-01T00:00:00Z"),
        ("subscription_id", "s-1"),
        ("billing_amount", "14.99"),
        ("billing_status", status),
        ("billing_period", "02/2026"),
        ("process", "INITIAL"),
        ("updated_event", tag),
        ("term", "MONTHLY"),
        ("receipt_tier_name", "Plus:v2"),
        ("receipt_account_mask", "6789"),
        ("last_run_date", "2026-02-02T08:00:00.000000000Z"),
        ("hair_colour", "red"),
    ]);
    if status == "ERROR" {
        row.set_text("usio_error", "R01 Ada has no money");
    }
    if status == "PAUSED" {
        row.set("pause_duration_months", Value::number(2));
    }
    if version > 0 {
        row.set("version", Value::number(version));
    }
    row
}

fn body(published: &Publications) -> Json {
    serde_json::from_slice(&published.update.as_ref().unwrap().data).unwrap()
}

#[test]
fn every_change_of_a_billing_record_has_an_event_and_a_new_status_is_published() {
    /// Before, after → the event on the stream, the statuses on the bus.
    type Case = (Option<Item>, Option<Item>, Option<&'static str>, Option<(Json, &'static str)>);
    let cases: [Case; 13] = [
        (
            None,
            Some(record("SCHEDULED", "", 1)),
            Some("subscription-updated"),
            Some((json!(null), "SCHEDULED")),
        ),
        (
            None,
            Some(record("SCHEDULED", "user-reactivated", 1)),
            Some("user-reactivated"),
            Some((json!(null), "SCHEDULED")),
        ),
        // A row of an older writer.
        (
            None,
            Some(record("SCHEDULED", "", 0)),
            Some("subscription-updated"),
            Some((json!(null), "SCHEDULED")),
        ),
        // A record moved to another due date is not new.
        (None, Some(record("SCHEDULED", "", 4)), Some("subscription-updated"), None),
        (
            Some(record("SCHEDULED", "", 1)),
            Some(record("ACHSENT", "", 2)),
            Some("subscription-updated"),
            Some((json!("SCHEDULED"), "ACHSENT")),
        ),
        (
            Some(record("ACHSENT", "", 2)),
            Some(record("ERROR", "", 3)),
            Some("subscription-updated"),
            Some((json!("ACHSENT"), "ERROR")),
        ),
        (Some(record("ERROR", "", 3)), Some(record("ERROR", "", 4)), Some("subscription-updated"), None),
        (
            Some(record("PAUSED", "", 3)),
            Some(record("SCHEDULED", "pause-resume", 4)),
            Some("pause-resume"),
            Some((json!("PAUSED"), "SCHEDULED")),
        ),
        (
            Some(record("PAUSED", "", 3)),
            Some(record("PAUSED", "pause-pending-resume", 4)),
            Some("pause-pending-resume"),
            None,
        ),
        // An unchanged tag describes the previous update.
        (
            Some(record("PAUSED", "pause-resume", 3)),
            Some(record("PAUSED", "pause-resume", 4)),
            Some("subscription-updated"),
            None,
        ),
        (
            Some(record("PAUSED", "pause-resume", 3)),
            Some(record("PAUSED", "pause-skipped", 4)),
            Some("pause-skipped"),
            None,
        ),
        (
            Some(record("PAUSED", "another-writers", 3)),
            Some(record("PAUSED", "", 4)),
            Some("subscription-updated"),
            None,
        ),
        (Some(record("SCHEDULED", "", 3)), None, None, None),
    ];
    for (n, (old, new, event, statuses)) in cases.iter().enumerate() {
        let published = billing(old.as_ref(), new.as_ref()).unwrap();
        let Some(event) = event else {
            assert_eq!(published, None, "case {n}");
            continue;
        };
        let published = published.unwrap();
        let (update, body) = (published.update.clone().unwrap(), body(&published));
        assert_eq!(
            (update.key.as_str(), published.user.as_str(), &body["event"]),
            ("u-1", "u-1", &json!(event)),
            "case {n}"
        );
        assert_eq!(
            (&body["id"], &body["user_id"], &body["subscription_id"]),
            (&json!(update.id), &json!("u-1"), &json!("s-1")),
            "case {n}"
        );
        let said = published.message.as_ref().map(|message| {
            (message.detail["old_status"].clone(), message.detail["new_status"].as_str().unwrap())
        });
        assert_eq!(said, *statuses, "case {n}");
        if let Some(message) = &published.message {
            assert_eq!(
                (message.detail_type, message.at),
                ("SubscriptionStatusChanged", Some(t("2026-02-02T08:00:00Z"))),
                "case {n}"
            );
            assert_ne!(message.id, update.id, "case {n}: two messages");
        }
        assert_eq!(
            billing(old.as_ref(), new.as_ref()).unwrap().unwrap(),
            published,
            "case {n}: the same bytes every time"
        );
    }
}

#[test]
fn an_update_shows_the_record_without_what_is_nobodys_business() {
    let published = billing(Some(&record("ACHSENT", "", 2)), Some(&record("ERROR", "", 3))).unwrap().unwrap();
    let mut body = body(&published);
    assert_eq!(body["id"].take(), json!(published.update.unwrap().id));
    let shown = json!({
        "billing_date": "2026-02-01T00:00:00Z", "billing_amount": "14.99", "billing_status": "ERROR",
        "billing_period": "02/2026", "transaction_id": "",
        "last_run_date": "2026-02-02T08:00:00.000000000Z", "process": "INITIAL", "updated_event": "",
        "term": "MONTHLY",
        "receipt_tier_name": "Plus:v2", "receipt_payment_type": "", "pause_duration_months": 0,
    });
    let expected = json!({
        "id": null, "event": "subscription-updated", "user_id": "u-1", "subscription_id": "s-1", "version": 3,
        "previous_status": "ACHSENT",
        "return_code": "R01", "subscription": shown,
    });
    assert_eq!(body, expected);
    let detail = published.message.unwrap().detail;
    let names: Vec<&String> = detail.as_object().unwrap().keys().collect();
    let expected = [
        "billing_date",
        "billing_period",
        "id",
        "new_status",
        "occurred_at",
        "old_status",
        "process",
        "subscription_id",
        "user_id",
        "version",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_record_that_cannot_be_read_names_the_attribute_and_an_old_image_that_cannot_does_not_matter() {
    let mut bad = record("SCHEDULED", "", 2);
    bad.set_text("billing_status", "SLEEPING");
    let error = billing(Some(&record("SCHEDULED", "", 1)), Some(&bad)).unwrap_err().to_string();
    assert!(error.starts_with("billing_status of row u-1/2026-02-01T00:00:00Z: "), "{error}");
    let mended = billing(Some(&bad), Some(&record("SCHEDULED", "", 3))).unwrap().unwrap();
    assert_eq!(mended.message.unwrap().detail["old_status"], "SLEEPING");
}

fn profile(tier: Option<&str>, updated: &str) -> Item {
    let mut row =
        item(&[("PK", "USER#u-1"), ("SK", "PROFILE#u-1"), ("displayName", "Ada"), ("updatedAt", updated)]);
    if let Some(tier) = tier {
        row.set_text("tier", tier);
    }
    row
}

#[test]
fn a_changed_tier_is_published() {
    /// Before, after → the tiers on the bus.
    type Case = (Option<Item>, Option<Item>, Option<(&'static str, &'static str)>);
    let at = "2026-02-02T08:00:00Z";
    let cases: [Case; 8] = [
        (None, Some(profile(Some("SAGE"), at)), Some(("free", "SAGE"))),
        (None, Some(profile(Some("free"), at)), None),
        (None, Some(profile(None, at)), None),
        (Some(profile(None, at)), Some(profile(Some("SAGE"), at)), Some(("free", "SAGE"))),
        (Some(profile(Some("SAGE"), at)), Some(profile(Some("INITIATE"), at)), Some(("SAGE", "INITIATE"))),
        (Some(profile(Some("SAGE"), at)), Some(profile(Some("SAGE"), "2026-02-03T08:00:00Z")), None),
        (Some(profile(Some("sage"), at)), Some(profile(Some("SAGE"), at)), Some(("sage", "SAGE"))),
        (Some(profile(Some("SAGE"), at)), None, None),
    ];
    for (n, (old, new, tiers)) in cases.iter().enumerate() {
        let message = core(old.as_ref(), new.as_ref()).unwrap().and_then(|published| published.message);
        let said = message.as_ref().map(|message| {
            (message.detail["old_tier"].as_str().unwrap(), message.detail["new_tier"].as_str().unwrap())
        });
        assert_eq!(said, *tiers, "case {n}");
        if let Some(message) = &message {
            let expected = json!({"id": message.id, "user_id": "u-1", "old_tier": said.unwrap().0,
                "new_tier": said.unwrap().1, "occurred_at": at});
            assert_eq!(
                (message.detail_type, &message.detail, message.at),
                ("TierChanged", &expected, Some(t(at))),
                "case {n}"
            );
        }
    }
    let error = core(None, Some(&profile(Some("sage"), at))).unwrap_err().to_string();
    assert_eq!(error, r#"tier of row USER#u-1/PROFILE#u-1: "sage" is not a tier"#);
    let mut strange = profile(Some("SAGE"), at);
    strange.set_text("provider", "carrier pigeon");
    assert_eq!(
        core(Some(&profile(Some("SAGE"), at)), Some(&strange)).unwrap(),
        None,
        "what is not ours is not looked at"
    );
    let timeless = core(None, Some(&item(&[("PK", "USER#u-1"), ("SK", "PROFILE#u-1"), ("tier", "SAGE")])))
        .unwrap()
        .unwrap();
    assert_eq!(timeless.message.unwrap().at, None, "another service may not say when");
}

#[test]
fn incoming_credits_are_published_once_and_no_other_movement_is() {
    let (user, at) = (UserId::from("u-1"), t("2026-02-01T00:00:00Z"));
    let source = || EventId::from("evt_1");
    let grant = Movement::grant("sub_1", at, 15, at, source(), Some("pi_1".into()));
    let movements = [
        grant.clone(),
        Movement::top_up("pi_2", 20, at, source()),
        Movement::consume("k-1", dues_events::Feature::Video, at),
        Movement::take_back("re_1", &grant, at, source()),
        Movement::expire(at.timestamp(), 0, 3),
    ];
    let mut published = Vec::new();
    for movement in &movements {
        let row = movement.to_item(&user);
        let message = core(None, Some(&row)).unwrap().and_then(|published| published.message);
        assert_eq!(
            message.is_some(),
            matches!(movement.kind, MovementKind::Grant | MovementKind::TopUp),
            "{movement:?}"
        );
        published.extend(message);
        let mut touched = row.clone();
        touched.set_text("note", "seen");
        assert_eq!(core(Some(&row), Some(&touched)).unwrap(), None, "it came in before");
        assert_eq!(core(Some(&row), None).unwrap(), None);
    }
    let expected = json!({"id": published[0].id, "user_id": "u-1",
        "movement_id": "grant:sub_1:2026-02-01T00:00:00Z", "kind": "GRANT", "credits": 15,
        "payment_id": "pi_1", "occurred_at": "2026-02-01T00:00:00Z"});
    assert_eq!(
        (published[0].detail_type, &published[0].detail, published[0].at),
        ("CreditsGranted", &expected, Some(at))
    );
    assert_eq!(
        (&published[1].detail["kind"], &published[1].detail["credits"]),
        (&json!("TOP_UP"), &json!(20))
    );
}

#[test]
fn other_rows_of_a_user_publish_nothing() {
    for (partition, sort) in [
        ("USER#u-1", "CREDITS#BALANCE"),
        ("USER#u-1", "SUBSCRIPTION#ACTIVE"),
        ("GUILD#1", "PROFILE#u-1"),
        ("USER#", "PROFILE#"),
    ] {
        let row = item(&[("PK", partition), ("SK", sort), ("tier", "SAGE"), ("type", "Credits")]);
        assert_eq!(core(None, Some(&row)).unwrap(), None, "{partition} {sort}");
    }
}
