//! The template, the Rust definitions and the one-file program's schema have the same tables.

use dues_store::Table;
use dues_store::table::{ALL, EMBEDDED};
use dues_tests::aws::template::{is_per_environment, logical};
use dues_tests::engines::embedded;
use serde_json::{Value, json};
use std::collections::BTreeSet;

use super::{of, resources, template};

fn keys(partition: &str, sort: Option<&str>) -> Value {
    let mut keys = vec![json!({"AttributeName": partition, "KeyType": "HASH"})];
    keys.extend(sort.map(|sort| json!({"AttributeName": sort, "KeyType": "RANGE"})));
    Value::Array(keys)
}

#[test]
fn the_template_has_every_table_and_no_other() {
    let deployed: BTreeSet<&String> = resources("AWS::DynamoDB::Table").map(|(name, _)| name).collect();
    let wanted: Vec<String> = ALL.iter().map(|table| format!("{}Table", logical(table.name))).collect();
    assert_eq!(deployed, wanted.iter().collect());
}

#[test]
fn keys_indexes_streams_and_ttl_are_those_of_the_definitions() {
    for table in ALL {
        let id = logical(table.name);
        let deployed = of(&format!("{id}Table"));
        assert_eq!(deployed["KeySchema"], keys(table.partition, table.sort), "{}", table.name);
        let indexes: Vec<Value> = table
            .indexes
            .iter()
            .map(|index| {
                json!({"IndexName": index.name, "KeySchema": keys(index.partition, index.sort),
                    "Projection": {"ProjectionType": "ALL"}})
            })
            .collect();
        assert_eq!(
            deployed["GlobalSecondaryIndexes"].as_array().cloned().unwrap_or_default(),
            indexes,
            "{}",
            table.name
        );
        let defined = deployed["AttributeDefinitions"].as_array().unwrap().iter();
        let defined: BTreeSet<_> = defined
            .map(|one| (one["AttributeName"].as_str().unwrap(), one["AttributeType"] == "N"))
            .collect();
        let wanted = table.key_attributes().map(|name| (name, table.is_numeric(name)));
        assert_eq!(defined, wanted.collect(), "{}", table.name);
        let stream = table.stream.then_some("NEW_AND_OLD_IMAGES");
        assert_eq!(deployed["StreamSpecification"]["StreamViewType"].as_str(), stream, "{}", table.name);
        assert_eq!(
            deployed["TimeToLiveSpecification"]["AttributeName"].as_str(),
            table.ttl,
            "{}",
            table.name
        );
        assert_eq!(
            deployed["TimeToLiveSpecification"]["Enabled"].as_bool(),
            table.ttl.map(|_| true),
            "{}",
            table.name
        );
        let name = &deployed["TableName"];
        if is_per_environment(table) {
            assert_eq!(name["Fn::If"][2], json!({"Fn::Sub": format!("{}-${{Environment}}", table.name)}));
            assert_eq!(template()["Parameters"][name["Fn::If"][1]["Ref"].as_str().unwrap()]["Default"], "");
        } else {
            assert_eq!(template()["Parameters"][name["Ref"].as_str().unwrap()]["Default"], table.name);
        }
    }
}

#[test]
fn no_table_can_be_lost_by_accident() {
    for (name, table) in resources("AWS::DynamoDB::Table") {
        assert_eq!(table["BillingMode"], "PAY_PER_REQUEST", "{name}");
        assert_eq!(table["DeletionProtectionEnabled"], true, "{name}");
        assert_eq!(table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"], true, "{name}");
        assert_eq!(table["SSESpecification"]["SSEEnabled"], true, "{name}");
        let resource = &template()["Resources"][name];
        assert_eq!(
            (&resource["DeletionPolicy"], &resource["UpdateReplacePolicy"]),
            (&json!("Retain"), &json!("Retain")),
            "{name}"
        );
    }
}

#[test]
fn the_file_of_the_program_has_the_same_tables_and_indexes() {
    let (engine, folder) = embedded();
    drop(engine);
    let file = rusqlite::Connection::open(folder.path().join("dues.db")).unwrap();
    let names = |kind: &str| -> BTreeSet<String> {
        let mut read = file.prepare("SELECT name FROM sqlite_master WHERE type = ?1").unwrap();
        let names = read.query_map([kind], |row| row.get(0)).unwrap();
        names.map(Result::unwrap).collect()
    };
    let (tables, indexes) = (names("table"), names("index"));
    let on = |table: &Table| -> Vec<String> {
        table.indexes.iter().map(|index| format!("{}/{}", table.name, index.name)).collect()
    };
    for table in ALL {
        assert!(EMBEDDED.contains(&table) && tables.contains(table.name), "{}", table.name);
        assert!(on(table).iter().all(|index| indexes.contains(index)), "{}: {indexes:?}", table.name);
    }
    let known: BTreeSet<String> = EMBEDDED.iter().flat_map(|table| on(table)).collect();
    let secondary: BTreeSet<String> =
        indexes.into_iter().filter(|index| index.contains('/') && !index.ends_with("/key")).collect();
    assert_eq!(secondary, known);
}
