//! Records as table rows: attribute names and types of billing-activity, rows of older writers, unknown
//! attributes.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use dues_events::billing::record::{History, INACTIVE, membership_status};
use dues_events::{Item, Record, Status, Value, attributes};

/// A row as a Go writer's `attributevalue` encodes it: empty strings, zero times, trimmed fractions, `nil`
/// pointers, no version.
fn row_of_go(status: &str) -> Item {
    let text = |name: &'static str, value: &str| (name.into(), Value::text(value));
    [
        text(attributes::USER_ID, "u-1"),
        text(attributes::BILLING_DATE, "2025-03-31T00:00:00.1Z"),
        text(attributes::SUBSCRIPTION_ID, "1b4e28ba-2fa1-11d2-883f-0016d3cca427"),
        text(attributes::BILLING_AMOUNT, "4.99"),
        text(attributes::BILLING_STATUS, status),
        text(attributes::BILLING_PERIOD, "03/2025"),
        text(attributes::TRANSACTION_ID, "c-1"),
        text(attributes::USIO_ERROR, "R01: NSF"),
        text(attributes::INITIAL_RUN_DATE, "2025-03-31T08:00:00.123Z"),
        text(attributes::COMPLETION_DATE, "0001-01-01T00:00:00Z"),
        text(attributes::LAST_RUN_DATE, "2025-04-02T08:00:00.15Z"),
        text(attributes::CREATED_DATE, "2025-02-28T08:00:00+02:00"),
        text(attributes::PROCESS, "RETRY"),
        text(attributes::UPDATED_EVENT, ""),
        text(attributes::TERM, "MONTHLY"),
        text(attributes::RECEIPT_ACCOUNT_MASK, ""),
        text(attributes::RECEIPT_TIER_NAME, "Plus:v2"),
        text(attributes::RECEIPT_PAYMENT_TYPE, "ACH"),
        (attributes::BILLING_WEEK.into(), Value::Null),
        (attributes::PAUSE_DURATION_MONTHS.into(), Value::number(0)),
        text("legacy_note", "kept"),
        (
            "legacy_map".into(),
            Value::M([("a".into(), Value::L(vec![Value::number(1)]))].into_iter().collect()),
        ),
        text("data_raw", "history only"),
    ]
    .into_iter()
    .collect()
}

#[test]
fn every_attribute_of_the_seed_has_its_name_and_type() {
    let mut record = Record::from_item(row_of_go("PAUSED")).unwrap();
    record.billing_week = dues_events::calendar::BillingWeek::new(2);
    record.downgrade = Some(record.plan.clone());
    let item = record.to_item();
    for name in attributes::BILLING_ACTIVITY_ATTRIBUTES {
        let value = item.get(name);
        match name {
            attributes::BILLING_WEEK | attributes::PAUSE_DURATION_MONTHS => {
                assert!(matches!(value, Some(Value::N(_))), "{name}: {value:?}")
            }
            attributes::IS_PENDING_DOWNGRADE => assert_eq!(value, Some(&Value::Bool(true))),
            // Go's zero time: not set, so not written.
            attributes::COMPLETION_DATE => assert_eq!(value, None),
            _ => assert!(matches!(value, Some(Value::S(_))), "{name}: {value:?}"),
        }
    }
}

#[test]
fn rows_of_older_writers_are_read_and_written_back_with_everything_they_had() {
    for status in Status::ALL {
        let row = row_of_go(status.as_str());
        let record = Record::from_item(row.clone()).unwrap();
        // A failed attempt and nothing else is ERROR, whatever an older writer called it.
        let is_failed = matches!(status, Status::Scheduled | Status::Error);
        assert_eq!((record.status(), record.version), (if is_failed { Status::Error } else { status }, 0));
        let mut expected = row;
        // The only differences are unset values, `nil` and values that the state leaves empty. `data_`
        // fields are never written to the primary table.
        for name in [attributes::COMPLETION_DATE, attributes::BILLING_WEEK, "data_raw"] {
            expected.remove(name);
        }
        if matches!(status, Status::AchSent | Status::Completed | Status::Refunded) {
            expected.set_text(attributes::USIO_ERROR, "");
        }
        expected.set_text(attributes::BILLING_STATUS, record.status().as_str());
        // What the row has of its attempt, in the words of the attempts' own attribute. Other writers ignore
        // it; a time that the row does not have is that of its latest update.
        let log = match status {
            Status::AchSent => r#"[{"t":"c-1"}]"#,
            Status::Completed => r#"[{"t":"c-1","p":["2025-04-02T08:00:00.15Z","4.99"]}]"#,
            Status::Refunded => {
                r#"[{"t":"c-1","p":["2025-04-02T08:00:00.15Z","4.99"],"f":["2025-04-02T08:00:00.15Z",["4.99"]]}]"#
            }
            Status::Scheduled
            | Status::Error
            | Status::Waived
            | Status::Cancelled
            | Status::Paused
            | Status::PausedSkipped
            | Status::Stale => r#"[{"t":"c-1","r":["2025-04-02T08:00:00.15Z","R01: NSF"]}]"#,
        };
        expected.set_text(attributes::ATTEMPT_LOG, log);
        if status == Status::Refunded {
            expected.set_text(attributes::REFUNDED_AMOUNT, "4.99");
        }
        // Paid on the day of its latest update, where the row has no day of its own.
        if matches!(status, Status::Completed | Status::Refunded) {
            expected.set_text(attributes::COMPLETION_DATE, "2025-04-02T08:00:00.15Z");
        }
        assert_eq!(record.to_item(), expected, "{status}");
        assert_eq!(record.billing_date.text(), "2025-03-31T00:00:00.1Z", "a key is kept to the letter");
        assert_eq!(record.data.text("data_raw"), Some("history only"));
    }
}

#[test]
fn optional_attributes_are_left_out() {
    let item = Record::from_item(row_of_go("SCHEDULED")).unwrap().to_item();
    for name in [
        attributes::BILLING_WEEK,
        attributes::IS_PENDING_DOWNGRADE,
        attributes::VERSION,
        attributes::APPLIED,
        attributes::CANCEL_AT,
    ] {
        assert_eq!(item.get(name), None, "{name}");
    }
}

#[test]
fn history_rows_keep_data_fields_and_the_event() {
    let record = Record::from_item(row_of_go("ERROR")).unwrap();
    let id = dues_events::EventId::from("pay-1");
    let row = History {
        record,
        token: Some(dues_events::IdempotencyToken::new(&id, &["x"])),
        event_id: Some(id),
        source: "site-payments SUBSCRIPTION_RETURNED".into(),
        previous_version: 3,
        outcome: "applied".into(),
        chain: None,
    };
    let item = row.to_item();
    assert_eq!(
        (item.text("data_raw"), item.text("event_id"), item.get(attributes::APPLIED)),
        (Some("history only"), Some("pay-1"), None)
    );
    assert_eq!(History::from_item(item).unwrap(), row);
    let old = History::from_item(row_of_go("ERROR")).unwrap();
    assert_eq!(
        (old.event_id.as_ref(), old.previous_version, old.changed()),
        (None, 0, true),
        "an older writer's row names no event"
    );
}

#[test]
fn what_cannot_be_read_names_the_attribute_and_the_row() {
    let error = |name: &'static str, value: Value| {
        let mut row = row_of_go("ERROR");
        row.set(name, value);
        Record::from_item(row).unwrap_err().to_string()
    };
    let row = "of row u-1/2025-03-31T00:00:00.1Z:";
    for (name, value, message) in [
        (
            attributes::BILLING_AMOUNT,
            Value::text("4.999"),
            format!("billing_amount {row} 4.999 has more than two decimals"),
        ),
        (
            attributes::BILLING_AMOUNT,
            Value::N("4.99".into()),
            format!("billing_amount {row} is a number, not a string"),
        ),
        (
            attributes::BILLING_STATUS,
            Value::text("INACTIVE"),
            format!("billing_status {row} \"INACTIVE\" is not a billing status"),
        ),
        (attributes::BILLING_WEEK, Value::number(6), format!("billing_week {row} 6 is not 1 to 5")),
        (attributes::TERM, Value::text("WEEKLY"), format!("term {row} \"WEEKLY\" is not MONTHLY or YEARLY")),
        (attributes::VERSION, Value::text("1"), format!("version {row} is a string, not a number")),
        (attributes::APPLIED, Value::B(vec![1]), format!("applied {row} is not a whole number of tokens")),
        (attributes::BILLING_STATUS, Value::text(""), format!("billing_status {row} is missing")),
    ] {
        assert_eq!(error(name, value), message);
    }
}

#[test]
fn a_user_without_an_active_record_is_inactive() {
    let of = |status: &str| Record::from_item(row_of_go(status)).unwrap();
    assert_eq!(membership_status(&[]), INACTIVE);
    assert_eq!(membership_status(&[of("CANCELLED"), of("STALE"), of("REFUNDED")]), INACTIVE);
    assert_eq!(membership_status(&[of("CANCELLED"), of("COMPLETED")]), "COMPLETED");
}
