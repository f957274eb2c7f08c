//! The parts of `infra/template.yaml` that say again what Rust has declared: tables, roles, and an alarm for each of them. They are made here, and
//! stand in the template between two marks; a test compares them, and `DUES_BLESS=1` writes them.

use dues_lambda::Function;
use dues_lambda::env::table_variable;
use dues_lambda::permissions::{Permission, Resource, Source, permissions, sources};
use dues_store::Table;
use dues_store::table::{ALL, BILLING_ACTIVITY, HISTORY, Index, LOCKS};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ministack::python;

/// Where the template is.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/template.yaml")
}

/// The template as it is written, and as CloudFormation gets it from the SAM translator, with the artifact at that place in S3.
///
/// # Panics
/// The translator finds something wrong with it.
pub fn translated(code: &str) -> (Value, Value) {
    let script = include_str!("translate.py");
    let output =
        Command::new(python()).args(["-c", script]).arg(path()).arg(code).env("AWS_DEFAULT_REGION", "eu-central-1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut both: Value = serde_json::from_slice(&output.stdout).unwrap();
    (both["written"].take(), both["translated"].take())
}

/// Every part, by the name that its marks have.
pub fn parts() -> Vec<(&'static str, String)> {
    vec![
        ("table parameters", all(table_parameters)),
        ("table conditions", all(table_conditions)),
        ("table names", all(table_name)),
        ("tables", all(table)),
        ("roles", functions(role)),
        ("alarms of functions", functions(function_alarms)),
        ("alarms of tables", all(table_alarm)),
    ]
}

/// The template with its parts made anew.
///
/// # Panics
/// A mark is missing.
pub fn renewed(template: &str) -> String {
    let mut text = template.to_owned();
    for (name, part) in parts() {
        let (begin, end) = (format!("# begin: {name}"), format!("# end: {name}"));
        let from = text.find(&begin).unwrap_or_else(|| panic!("the template has no line {begin:?}"));
        let from = from + text[from..].find('\n').unwrap() + 1;
        let to = text.find(&end).unwrap_or_else(|| panic!("the template has no line {end:?}"));
        let to = text[..to].rfind('\n').unwrap() + 1;
        text.replace_range(from..to, &part);
    }
    text
}

/// `billing-activity` as `BillingActivity`.
pub fn logical(name: &str) -> String {
    let words = name.split(['-', '_']).map(|word| word[..1].to_uppercase() + &word[1..]);
    words.collect()
}

/// Whether a table may be there already. Those whose names begin with ours are nobody else's.
pub fn may_exist(table: &Table) -> bool {
    !table.name.starts_with("dues-")
}

fn all(part: impl Fn(&'static Table) -> String) -> String {
    ALL.into_iter().map(part).collect()
}

fn functions(part: impl Fn(Function) -> String) -> String {
    Function::ALL.into_iter().map(part).collect()
}

fn table_parameters(table: &'static Table) -> String {
    let (id, name) = (logical(table.name), table.name);
    let mut text = format!(
        "  {id}Name:
    Type: String
    Default: {name}
    Description: What the table {name} is called.
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

fn table_conditions(table: &'static Table) -> String {
    let id = logical(table.name);
    let mut text = String::new();
    if may_exist(table) {
        let _ = writeln!(text, "  {id}IsOurs: !Equals [!Ref {id}Exists, 'false']");
    }
    if may_exist(table) && table.stream {
        let _ = writeln!(text, "  {id}HasStream: !Not [!Equals [!Ref {id}StreamArn, '']]");
        let _ = writeln!(text, "  {id}IsFollowed: !Or [!Condition {id}IsOurs, !Condition {id}HasStream]");
    }
    text
}

fn table_name(table: &'static Table) -> String {
    format!("        {}: !Ref {}Name\n", table_variable(table), logical(table.name))
}

fn table(table: &'static Table) -> String {
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
      TableName: !Ref {id}Name
      BillingMode: PAY_PER_REQUEST
      DeletionProtectionEnabled: true
      PointInTimeRecoverySpecification:
        PointInTimeRecoveryEnabled: true
      SSESpecification:
        SSEEnabled: true
      AttributeDefinitions:
"
    );
    let mut defined = std::collections::BTreeSet::new();
    for name in table.key_attributes().filter(|name| defined.insert(*name)) {
        let _ = writeln!(text, "        - {{AttributeName: {name}, AttributeType: S}}");
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
    let line = |name: &str, kind: &str| format!("{:indent$}- {{AttributeName: {name}, KeyType: {kind}}}\n", "");
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

fn role(function: Function) -> String {
    let (id, name) = (logical(function.name()), function.name());
    let mut text = format!(
        "  {id}Logs:
    Type: AWS::Logs::LogGroup
    DeletionPolicy: Delete
    UpdateReplacePolicy: Delete
    Properties:
      LogGroupName: !Sub /aws/lambda/${{AWS::StackName}}-{name}
      RetentionInDays: !Ref LogDays
  {id}Role:
    Type: AWS::IAM::Role
    Properties:
      AssumeRolePolicyDocument:
        Version: '2012-10-17'
        Statement:
          - Effect: Allow
            Principal: {{Service: lambda.amazonaws.com}}
            Action: sts:AssumeRole
      Policies:
        - PolicyName: {name}
          PolicyDocument:
            Version: '2012-10-17'
            Statement:
"
    );
    let mut allow =
        |actions: &[&str], resource: String, condition: Option<String>| text.push_str(&statement(actions, &resource, condition));
    allow(&["logs:CreateLogStream", "logs:PutLogEvents"], format!("!GetAtt {id}Logs.Arn"), None);
    let from = sources(function);
    for source in &from {
        if !source.actions().is_empty() {
            let (resource, condition) = source_arn(*source);
            allow(source.actions(), resource, condition);
        }
    }
    if from.iter().any(|source| source.hands_on()) {
        allow(&["sqs:SendMessage"], "!GetAtt FailuresQueue.Arn".to_owned(), None);
    }
    for (resource, actions) in permissions(function) {
        let (arn, condition) = arn((resource, actions));
        allow(actions, arn, condition);
    }
    text
}

fn statement(actions: &[&str], resource: &str, condition: Option<String>) -> String {
    match condition {
        None => format!(
            "              - Effect: Allow
                Action: [{}]
                Resource: {resource}
",
            actions.join(", ")
        ),
        Some(condition) => format!(
            "              - !If
                - {condition}
                - Effect: Allow
                  Action: [{}]
                  Resource: {resource}
                - !Ref AWS::NoValue
",
            actions.join(", ")
        ),
    }
}

/// What a source is called in IAM, and the condition under which there is one.
fn source_arn(source: Source) -> (String, Option<String>) {
    match source {
        Source::Stream(dues_processors::stripe::STREAM) => ("!GetAtt StripeStream.Arn".to_owned(), None),
        Source::Stream(name) => {
            let id = logical(name);
            (format!("!If [{id}IsOurs, !GetAtt {id}Stream.Arn, !Ref {id}StreamArn]"), None)
        }
        Source::Changes(table) if may_exist(table) => {
            let id = logical(table.name);
            (format!("!If [{id}HasStream, !Ref {id}StreamArn, !GetAtt {id}Table.StreamArn]"), Some(format!("{id}IsFollowed")))
        }
        Source::Changes(table) => (format!("!GetAtt {}Table.StreamArn", logical(table.name)), None),
        Source::Queue(name) => (format!("!GetAtt {}Queue.Arn", logical(name)), None),
        Source::Events | Source::Requests => (String::new(), None),
    }
}

fn arn((resource, _): Permission) -> (String, Option<String>) {
    match resource {
        Resource::Table(table) => (table_arn(table, ""), None),
        Resource::Index(table, index) => (table_arn(table, &format!("/index/{}", index.name)), None),
        Resource::Queue => ("!GetAtt CollectionsQueue.Arn".to_owned(), None),
        Resource::Inbox => ("!GetAtt StripeStream.Arn".to_owned(), None),
        Resource::Bus => ("!GetAtt Bus.Arn".to_owned(), None),
        Resource::Pool => (
            "!Sub arn:${AWS::Partition}:cognito-idp:${AWS::Region}:${AWS::AccountId}:userpool/${UserPoolId}".to_owned(),
            Some("HasPool".to_owned()),
        ),
        Resource::StripeSecret => ("!Ref StripeSecretArn".to_owned(), None),
        Resource::GatewaySecret => ("!Ref GatewaySecretArn".to_owned(), None),
    }
}

/// A table's ARN, in the region that the settings of seed 001 may name for it.
fn table_arn(table: &Table, behind: &str) -> String {
    let id = logical(table.name);
    let elsewhere = match table.name {
        name if name == BILLING_ACTIVITY.name || name == HISTORY.name => Some(("TablesAreElsewhere", "TableRegion")),
        name if name == LOCKS.name => Some(("LocksAreElsewhere", "LockRegion")),
        _ => None,
    };
    let arn = |region: &str| format!("arn:${{AWS::Partition}}:dynamodb:${{{region}}}:${{AWS::AccountId}}:table/${{{id}Name}}{behind}");
    match elsewhere {
        Some((condition, region)) => format!("!Sub ['{}', {{Region: !If [{condition}, !Ref {region}, !Ref AWS::Region]}}]", arn("Region")),
        None => format!("!Sub {}", arn("AWS::Region")),
    }
}

fn function_alarms(function: Function) -> String {
    let (id, name) = (logical(function.name()), function.name());
    let mut text = String::new();
    let mut alarm = |kind: &str, metric: &str, statistic: &str, threshold: u32, periods: u32, means: &str| {
        let _ = write!(
            text,
            "  {id}{kind}Alarm:
    Type: AWS::CloudWatch::Alarm
    Properties:
      AlarmName: !Sub ${{AWS::StackName}}-{name}-{}
      AlarmDescription: {means}
      Namespace: AWS/Lambda
      MetricName: {metric}
      Dimensions: [{{Name: FunctionName, Value: !Ref {id}Function}}]
      Statistic: {statistic}
      Period: 300
      EvaluationPeriods: {periods}
      Threshold: {threshold}
      ComparisonOperator: GreaterThanOrEqualToThreshold
      TreatMissingData: notBreaching
      AlarmActions: !If [HasAlarmTopic, [!Ref AlarmTopicArn], !Ref AWS::NoValue]
",
            kind.to_lowercase()
        );
    };
    alarm("Errors", "Errors", "Sum", 5, 2, &format!("Invocations of {name} fail. See infra/README.md#alarms."));
    alarm("Throttles", "Throttles", "Sum", 1, 3, &format!("Lambda starts no more of {name}. See infra/README.md#alarms."));
    if sources(function).iter().any(|source| matches!(source, Source::Stream(_) | Source::Changes(_))) {
        alarm(
            "Age",
            "IteratorAge",
            "Maximum",
            300_000,
            2,
            &format!("{name} is five minutes behind its stream. See infra/README.md#alarms."),
        );
    }
    text
}

fn table_alarm(table: &'static Table) -> String {
    let (id, name) = (logical(table.name), table.name);
    format!(
        "  {id}ThrottlesAlarm:
    Type: AWS::CloudWatch::Alarm
    Properties:
      AlarmName: !Sub ${{AWS::StackName}}-{name}-throttles
      AlarmDescription: DynamoDB throttles {name}. See infra/README.md#alarms.
      Metrics:
        - Id: throttles
          Expression: FILL(reads, 0) + FILL(writes, 0)
          Label: {name} throttles
        - Id: reads
          ReturnData: false
          MetricStat: {{Period: 300, Stat: Sum, Metric: {{Namespace: AWS/DynamoDB, MetricName: ReadThrottleEvents, Dimensions: [{{Name: TableName, Value: !Ref {id}Name}}]}}}}
        - Id: writes
          ReturnData: false
          MetricStat: {{Period: 300, Stat: Sum, Metric: {{Namespace: AWS/DynamoDB, MetricName: WriteThrottleEvents, Dimensions: [{{Name: TableName, Value: !Ref {id}Name}}]}}}}
      EvaluationPeriods: 3
      Threshold: 1
      ComparisonOperator: GreaterThanOrEqualToThreshold
      TreatMissingData: notBreaching
      AlarmActions: !If [HasAlarmTopic, [!Ref AlarmTopicArn], !Ref AWS::NoValue]
"
    )
}
