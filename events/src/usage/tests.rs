use super::*;
use serde_json::{Value as Json, json};

fn at(text: &str) -> Time {
    crate::time::parse(text).unwrap()
}

fn count(n: u64, limit: Option<u64>) -> CountedAction {
    let action = Action {
        id: format!("k-{n}").into(),
        kind: "simulation_run".into(),
        details: details(&json!({"track": "monaco", "laps": [1, 2.5], "dry": true, "pit": null})).unwrap(),
        at: at("2024-01-15T12:30:00Z"),
        plan: "free".into(),
    };
    CountedAction { feature: "ai_recommendations".into(), before: n, after: n + 1, limit, action }
}

#[test]
fn rows_have_the_attributes_of_the_seed_and_are_read_as_they_were_written() {
    let used = DailyUsage::after(&"user_123".into(), &count(1, Some(3)), at("2024-01-15T00:00:00Z"));
    let row = used.to_item();
    for (name, text) in [
        ("user_id", "user_123"),
        ("feature_date_key", "ai_recommendations_2024-01-15"),
        ("feature_name", "ai_recommendations"),
        ("reset_date", "2024-01-16"),
        ("created_at", "2024-01-15T00:00:00.000000000Z"),
        ("updated_at", "2024-01-15T12:30:00.000000000Z"),
    ] {
        assert_eq!(row.text(name), Some(text), "{name}");
    }
    assert_eq!(
        (row.get("usage_count"), row.get("limit_value")),
        (Some(&Value::number(2)), Some(&Value::number(3)))
    );
    assert_eq!(DailyUsage::from_item(row).unwrap(), used);
    let unlimited = DailyUsage { limit: None, ..used };
    assert_eq!(unlimited.to_item().get("limit_value"), None);
    assert_eq!(DailyUsage::from_item(unlimited.to_item()).unwrap(), unlimited);
}

#[test]
fn a_change_of_a_days_usage_is_a_row_of_the_log() {
    let rows = [(0, Some(3)), (1, None)].map(|(n, limit)| {
        DailyUsage::after(&"u-1".into(), &count(n, limit), at("2024-01-15T00:00:00Z")).to_item()
    });
    let first = LoggedAction::of(None, &rows[0]).unwrap().unwrap();
    assert_eq!((first.count.before, first.count.after, first.timestamp), (0, 1, at("2024-01-15T12:30:00Z")));
    let second =
        LoggedAction { expires_at: Some(9), ..LoggedAction::of(Some(&rows[0]), &rows[1]).unwrap().unwrap() };
    assert_eq!(second.count, count(1, None));
    let row = second.to_item();
    for (name, text) in [
        ("user_id", "u-1"),
        ("action_type", "simulation_run"),
        ("plan_id", "free"),
        ("timestamp", "2024-01-15T12:30:00.000000000Z"),
    ] {
        assert_eq!(row.text(name), Some(text), "{name}");
    }
    assert_eq!(
        row.get("action_details").unwrap().to_json(),
        json!({"track": "monaco", "laps": [1, 2.5], "dry": true, "pit": null})
    );
    assert_eq!(
        (row.get("usage_before"), row.get("usage_after")),
        (Some(&Value::number(1)), Some(&Value::number(2)))
    );
    assert_eq!(LoggedAction::from_item(row).unwrap(), second);
    assert_eq!(LoggedAction::of(Some(&rows[1]), &rows[1]), Ok(None), "the same action is nothing new");
}

#[test]
fn what_cannot_be_read_is_named() {
    let mut row = DailyUsage::after(&"u-1".into(), &count(0, None), at("2024-01-15T00:00:00Z")).to_item();
    row.remove(LAST_ACTION);
    assert_eq!(
        DailyUsage::from_item(row).unwrap_err().to_string(),
        "last_action of row u-1/ai_recommendations_2024-01-15: is missing or not a map"
    );
}

#[test]
fn details_are_objects_that_the_tables_can_hold() {
    assert_eq!(details(&Json::Null), Ok(Item::new()));
    let deep = (0..17).fold(json!({}), |inner, _| json!({"in": inner}));
    for (json, why) in [
        (json!([1]), "is not a JSON object"),
        (json!({"a": "x".repeat(8200)}), "has 8208 bytes, the most is 8192"),
        (deep, "is deeper than 16 levels"),
        (json!({"a": [1e300]}), "1e+300 is a number that cannot be stored"),
        (json!({"a": 1e-300}), "1e-300 is a number that cannot be stored"),
    ] {
        assert_eq!(details(&json).unwrap_err().to_string(), why);
    }
}

#[test]
fn a_day_ends_at_midnight_utc() {
    assert_eq!(reset_at(at("2024-02-28T23:59:59.9Z")), at("2024-02-29T00:00:00Z"));
    assert_eq!(reset_at(at("2024-12-31T00:00:00Z")), at("2025-01-01T00:00:00Z"));
}
