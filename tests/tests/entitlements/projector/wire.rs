//! A batch of a DynamoDB stream, as Lambda delivers it, field by field.

use super::*;
use dues_events::Value;
use dues_processors::runtime::changes::{DynamoStreamEvent, Read, read_item, write_item};
use dues_store::TableNames;
use dues_store::table::BILLING_ACTIVITY;
use serde_json::{Value as Json, json};

const NOW: &str = "2026-03-02T00:00:00Z";

fn fixture() -> Vec<Json> {
    let text = include_str!("../../../fixtures/dynamodb-stream.json");
    serde_json::from_str::<DynamoStreamEvent>(text).unwrap().records
}

fn read(record: &Json) -> Read {
    Change::read(record, &TableNames::default(), t(NOW))
}

fn read_ok(record: &Json) -> Change {
    let outcome = read(record);
    let Read::Change(change) = outcome else { panic!("{outcome:?}") };
    change
}

#[test]
fn a_batch_of_lambdas_is_read_field_by_field() {
    let [inserted, modified, removed, foreign] = <[Json; 4]>::try_from(fixture()).unwrap();
    let inserted = read_ok(&inserted);
    assert_eq!(
        (inserted.table, inserted.sequence.as_str(), inserted.by_ttl),
        (&GG_CORE, "4421584500000000017450439091", false)
    );
    assert_eq!((inserted.arrived, inserted.partition()), (t("2026-03-01T12:00:00Z"), "USER#auth0|ada"));
    assert_eq!(inserted.old, None);
    let nested = Item::from_iter([("seen".into(), Value::Bool(true)), ("none".into(), Value::Null)]);
    let expected = Item::from_iter([
        ("PK".into(), Value::text("USER#auth0|ada")),
        ("SK".into(), Value::text("PROFILE#auth0|ada")),
        ("tier".into(), Value::text("SAGE")),
        ("provider".into(), Value::text("cognito")),
        ("points".into(), Value::N("-12.50".into())),
        ("avatar".into(), Value::B(vec![0, 1, 254, 255])),
        ("verified".into(), Value::Bool(false)),
        ("nickname".into(), Value::Null),
        ("visits".into(), Value::L(vec![Value::number(1), Value::text("two"), Value::L(vec![])])),
        ("settings".into(), Value::M(nested)),
        ("tags".into(), Value::Ss(vec!["guild".into(), "founder".into()])),
        ("scores".into(), Value::Ns(vec!["7".into(), "1.5".into()])),
        ("keys".into(), Value::Bs(vec![vec![1], vec![]])),
    ]);
    assert_eq!(inserted.new, Some(expected));

    let modified = read_ok(&modified);
    let status = |image: &Option<Item>| image.as_ref().unwrap().text("billing_status").unwrap().to_owned();
    assert_eq!((modified.table, modified.partition()), (&BILLING_ACTIVITY, "u-1"));
    assert_eq!(
        (status(&modified.old), status(&modified.new)),
        ("ACHSENT".to_owned(), "COMPLETED".to_owned())
    );
    assert_eq!(modified.arrived, t("2026-03-01T12:00:00.25Z"), "a part of a second is kept");

    let removed = read_ok(&removed);
    assert_eq!((removed.by_ttl, removed.new), (true, None));
    assert_eq!(removed.old.unwrap().get("balance"), Some(&Value::N("3".into())));
    assert_eq!(read(&foreign), Read::Foreign);
}

#[test]
fn only_dynamodb_itself_removes_by_ttl() {
    let record = fixture().remove(2);
    for (field, value) in [("principalId", "AIDAEXAMPLE"), ("type", "User")] {
        let mut by_hand = record.clone();
        by_hand["userIdentity"][field] = json!(value);
        assert!(!read_ok(&by_hand).by_ttl, "{field}");
    }
    let mut without_identity = record.clone();
    without_identity["userIdentity"] = json!(null);
    assert!(!read_ok(&without_identity).by_ttl);
    let mut streams_own = record;
    streams_own["userIdentity"] = json!({"PrincipalId": "dynamodb.amazonaws.com", "Type": "Service"});
    assert!(read_ok(&streams_own).by_ttl, "as the stream itself spells it");
}

#[test]
fn a_change_is_the_same_after_it_was_written_and_read() {
    for record in &fixture()[..3] {
        let whole = read_ok(record);
        let again = Change::of_table(&whole.to_json(), whole.table, whole.arrived).unwrap();
        assert_eq!(again, whole);
    }
    let mut timeless = fixture().remove(0);
    timeless["dynamodb"].as_object_mut().unwrap().remove("ApproximateCreationDateTime");
    assert_eq!(read_ok(&timeless).arrived, t(NOW));
}

#[test]
fn every_type_is_written_as_it_was_read() {
    let image = &fixture()[0]["dynamodb"]["NewImage"];
    assert_eq!(write_item(&read_item(image, "image").unwrap()), *image);
}

#[test]
fn what_is_wrong_with_a_value_names_it_and_does_not_show_it() {
    for (value, said) in [
        (json!({"S": 5}), "a.S: is not text"),
        (json!({"N": 5}), "a.N: is not a number as text"),
        (json!({"B": "secret!"}), "a.B: is not base64"),
        (json!({"BOOL": "true"}), "a.BOOL: is not true or false"),
        (json!({"NULL": null}), "a.NULL: is not true"),
        (json!({"L": {}}), "a.L: is not a list"),
        (json!({"L": [{"S": "x"}, {"N": 1}]}), "a.L[1].N: is not a number as text"),
        (json!({"M": {"b": {"M": {"c": {"SS": "x"}}}}}), "a.M.b.M.c.SS: is not a list of texts"),
        (json!({"M": []}), "a.M: is not a JSON object"),
        (json!({"NS": [1]}), "a.NS: is not a list of numbers as text"),
        (json!({"BS": ["AQ==", "?"]}), "a.BS: is not a list of base64"),
        (json!({"X": "x"}), "a.X: is a type that is not known here"),
        (json!({"S": "x", "N": "1"}), "a: is not one value with its type"),
        (json!({}), "a: is not one value with its type"),
        (json!("secret"), "a: is not one value with its type"),
    ] {
        let error = read_item(&json!({"a": value}), "image").unwrap_err();
        assert_eq!(error.to_string(), format!("image.{said}"), "{value}");
    }
}

#[test]
fn what_is_wrong_with_a_record_names_the_field() {
    let spoiled = |spoil: fn(&mut Json)| {
        let mut record = fixture().remove(1);
        spoil(&mut record);
        let outcome = read(&record);
        let Read::Unreadable { stream, error } = outcome else { panic!("{outcome:?}") };
        format!("{stream} {error}")
    };
    for (spoil, said) in [
        ((|r| r["eventSourceARN"] = json!(7)) as fn(&mut Json), "changes eventSourceARN: is not text"),
        (
            |r| r["eventSourceARN"] = json!("arn:x:table/"),
            "changes eventSourceARN: \"arn:x:table/\" names no table",
        ),
        (|r| r["eventName"] = json!(null), "billing-activity eventName: is missing"),
        (|r| r["dynamodb"] = json!([]), "billing-activity dynamodb.NewImage: is missing"),
        (|r| r["dynamodb"]["OldImage"] = json!(null), "billing-activity dynamodb.OldImage: is missing"),
        (
            |r| r["dynamodb"]["NewImage"] = json!([]),
            "billing-activity dynamodb.NewImage: is not a JSON object",
        ),
        (
            |r| r["dynamodb"]["SequenceNumber"] = json!(12),
            "billing-activity dynamodb.SequenceNumber: is not text",
        ),
        (
            |r| r["dynamodb"]["NewImage"]["user_id"] = json!({"S": ""}),
            "billing-activity dynamodb.NewImage.user_id: is not a key",
        ),
        (
            |r| r["dynamodb"]["OldImage"]["billing_date"] = json!({"N": "1"}),
            "billing-activity dynamodb.OldImage.billing_date: is not a key",
        ),
    ] {
        assert_eq!(spoiled(spoil), said);
    }
}
