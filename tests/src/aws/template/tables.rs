//! The tables: parameters, conditions, names and resources.

use dues_lambda::env::table_variable;
use dues_store::Table;
use dues_store::table::Index;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{is_per_environment, logical, may_exist, model_condition, table_name};

pub(super) fn parameters(table: &'static Table) -> String {
    let (id, name) = (logical(table.name), table.name);
    let (default, otherwise) = if is_per_environment(table) {
        ("''", format!(", if not {name}-{{Environment}}"))
    } else {
        (name, String::new())
    };
    let mut text = format!(
        "  {id}Name:
    Type: String
    Default: {default}
    Description: What the table {name} is called{otherwise}.
"
    );
    if may_exist(table) {
        let _ = write!(
            text,
            "  {id}Exists:
    Type: String
    Default: 'false'
    AllowedValues: ['true', 'false']
    Description: Whether {name} is there already, and is taken over as it is.
"
        );
    }
    if may_exist(table) && table.stream {
        let _ = write!(
            text,
            "  {id}StreamArn:
    Type: String
    Default: ''
    Description: The change stream of {name}, with old and new images, if the table is there already.
"
        );
    }
    text
}

pub(super) fn conditions(table: &'static Table) -> String {
    let id = logical(table.name);
    let mut text = String::new();
    if may_exist(table) {
        let _ =
            writeln!(text, "  {id}IsOurs: {}", wanted(table, format!("!Equals [!Ref {id}Exists, 'false']")));
    }
    if may_exist(table) && table.stream {
        let _ = writeln!(text, "  {id}HasStream: !Not [!Equals [!Ref {id}StreamArn, '']]");
        let _ = writeln!(
            text,
            "  {id}IsFollowed: {}",
            wanted(table, format!("!Or [!Condition {id}IsOurs, !Condition {id}HasStream]"))
        );
    }
    if is_per_environment(table) {
        let _ = writeln!(text, "  {id}IsNamed: !Not [!Equals [!Ref {id}Name, '']]");
    }
    text
}

/// Adds the condition of the table's read model, if it belongs to one.
fn wanted(table: &Table, condition: String) -> String {
    match model_condition(table) {
        Some(model) => format!("!And [!Condition {model}, {condition}]"),
        None => condition,
    }
}

pub(super) fn name(table: &'static Table) -> String {
    format!("        {}: {}\n", table_variable(table), table_name(table))
}

pub(super) fn resource(table: &'static Table) -> String {
    let id = logical(table.name);
    let mut text = format!("  {id}Table:\n    Type: AWS::DynamoDB::Table\n");
    if may_exist(table) {
        let _ = writeln!(text, "    Condition: {id}IsOurs");
    }
    let _ = write!(
        text,
        "    DeletionPolicy: Retain
    UpdateReplacePolicy: Retain
    Properties:
      TableName: {}
      BillingMode: PAY_PER_REQUEST
      DeletionProtectionEnabled: true
      PointInTimeRecoverySpecification:
        PointInTimeRecoveryEnabled: true
      SSESpecification:
        SSEEnabled: true
      AttributeDefinitions:
",
        table_name(table)
    );
    let mut defined = BTreeSet::new();
    for name in table.key_attributes().filter(|name| defined.insert(*name)) {
        let kind = if table.is_numeric(name) { "N" } else { "S" };
        let _ = writeln!(text, "        - {{AttributeName: {name}, AttributeType: {kind}}}");
    }
    let _ = write!(text, "      KeySchema:\n{}", key_schema(8, table.partition, table.sort));
    if !table.indexes.is_empty() {
        text.push_str("      GlobalSecondaryIndexes:\n");
        table.indexes.iter().for_each(|index| text.push_str(&secondary(index)));
    }
    if table.stream {
        text.push_str("      StreamSpecification:\n        StreamViewType: NEW_AND_OLD_IMAGES\n");
    }
    if let Some(ttl) = table.ttl {
        let _ = write!(
            text,
            "      TimeToLiveSpecification:
        AttributeName: {ttl}
        Enabled: true
"
        );
    }
    text
}

fn key_schema(indent: usize, partition: &str, sort: Option<&str>) -> String {
    let line =
        |name: &str, kind: &str| format!("{:indent$}- {{AttributeName: {name}, KeyType: {kind}}}\n", "");
    line(partition, "HASH") + &sort.map(|sort| line(sort, "RANGE")).unwrap_or_default()
}

fn secondary(index: &Index) -> String {
    let keys = key_schema(12, index.partition, index.sort);
    format!(
        "        - IndexName: {}
          KeySchema:
{keys}          Projection: {{ProjectionType: ALL}}
",
        index.name
    )
}
