//! The alarms of functions and tables.

use dues_lambda::Function;
use dues_lambda::permissions::{Source, sources};
use dues_store::Table;
use std::fmt::Write as _;

use super::{logical, model_condition, table_name};

pub(super) fn of_function(function: Function) -> String {
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
    let (failures, periods) = failures_until_alarm(function);
    alarm(
        "Errors",
        "Errors",
        "Sum",
        failures,
        periods,
        &format!("Invocations of {name} fail. See infra/README.md#alarms."),
    );
    alarm(
        "Throttles",
        "Throttles",
        "Sum",
        1,
        3,
        &format!("Lambda starts no more of {name}. See infra/README.md#alarms."),
    );
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

/// How many invocations may fail in five minutes, and in how many periods, before the alarm. The sweep runs
/// once an hour and repairs what nothing else does: its first failure counts.
fn failures_until_alarm(function: Function) -> (u32, u32) {
    match function {
        Function::Sweep => (1, 1),
        // It runs once in each of these periods, and the next run repairs a single failure.
        Function::EntitlementClock => (1, 2),
        Function::AchHandler
        | Function::Memberships
        | Function::StripeWebhook
        | Function::StripeWorker
        | Function::Projector
        | Function::CollectionsJob
        | Function::CollectionsWorker
        | Function::WebhookWorker
        | Function::WebhookBalanceWorker
        | Function::BatchWorker
        | Function::NotifierScheduler
        | Function::KinesisFeeder
        | Function::AppEvents
        | Function::S3Events
        | Function::UsageReset
        | Function::Api => (5, 2),
    }
}

pub(super) fn of_table(table: &'static Table) -> String {
    let (id, name, called) = (logical(table.name), table.name, table_name(table));
    let condition =
        model_condition(table).map(|condition| format!("\n    Condition: {condition}")).unwrap_or_default();
    format!(
        "  {id}ThrottlesAlarm:
    Type: AWS::CloudWatch::Alarm{condition}
    Properties:
      AlarmName: !Sub ${{AWS::StackName}}-{name}-throttles
      AlarmDescription: DynamoDB throttles {name}. See infra/README.md#alarms.
      Metrics:
        - Id: throttles
          Expression: FILL(reads, 0) + FILL(writes, 0)
          Label: {name} throttles
        - Id: reads
          ReturnData: false
          MetricStat: {{Period: 300, Stat: Sum, Metric: {{Namespace: AWS/DynamoDB, MetricName: \
          ReadThrottleEvents, Dimensions: [{{Name: TableName, Value: {called}}}]}}}}
        - Id: writes
          ReturnData: false
          MetricStat: {{Period: 300, Stat: Sum, Metric: {{Namespace: AWS/DynamoDB, MetricName: \
          WriteThrottleEvents, Dimensions: [{{Name: TableName, Value: {called}}}]}}}}
      EvaluationPeriods: 3
      Threshold: 1
      ComparisonOperator: GreaterThanOrEqualToThreshold
      TreatMissingData: notBreaching
      AlarmActions: !If [HasAlarmTopic, [!Ref AlarmTopicArn], !Ref AWS::NoValue]
"
    )
}
