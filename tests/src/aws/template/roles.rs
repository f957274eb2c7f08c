//! A log group and a role per function: its declared permissions, those that Lambda needs, and no others.

use dues_lambda::Function;
use dues_lambda::permissions::{Resource, Source, permissions, sources};
use dues_store::{Table, TableId};

use super::{is_per_environment, logical, may_exist, model_condition, table_name};

pub(super) fn role(function: Function) -> String {
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
    let mut allow = |actions: &[&str], resource: String, condition: Option<String>| {
        text.push_str(&statement(actions, &resource, condition))
    };
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
        let (arn, condition) = arn(resource);
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

/// The ARN of an event source, and the condition for it.
fn source_arn(source: Source) -> (String, Option<String>) {
    match source {
        Source::Stream(dues_processors::entitlements::stripe_worker::STREAM) => {
            ("!GetAtt StripeStream.Arn".to_owned(), None)
        }
        Source::Stream(name) => {
            let id = logical(name);
            (format!("!If [{id}IsOurs, !GetAtt {id}Stream.Arn, !Ref {id}StreamArn]"), None)
        }
        Source::Changes(table) if may_exist(table) => {
            let id = logical(table.name);
            (
                format!("!If [{id}HasStream, !Ref {id}StreamArn, !GetAtt {id}Table.StreamArn]"),
                Some(format!("{id}IsFollowed")),
            )
        }
        Source::Changes(table) => (format!("!GetAtt {}Table.StreamArn", logical(table.name)), None),
        Source::Queue(name) => (format!("!GetAtt {}Queue.Arn", logical(name)), None),
        Source::Events | Source::Requests => (String::new(), None),
    }
}

fn arn(resource: Resource) -> (String, Option<String>) {
    match resource {
        Resource::Table(table) => (table_arn(table, ""), of_model(table)),
        Resource::Index(table, index) => {
            (table_arn(table, &format!("/index/{}", index.name)), of_model(table))
        }
        Resource::Queue => ("!GetAtt CollectionsQueue.Arn".to_owned(), None),
        Resource::Inbox => ("!GetAtt StripeStream.Arn".to_owned(), None),
        Resource::Subscriptions => (
            "!If [SubscriptionsIsOurs, !GetAtt SubscriptionsStream.Arn, !Ref SubscriptionsStreamArn]"
                .to_owned(),
            None,
        ),
        Resource::Bus => ("!GetAtt Bus.Arn".to_owned(), None),
        Resource::Pool => (
            "!Sub arn:${AWS::Partition}:cognito-idp:${AWS::Region}:${AWS::AccountId}:userpool/${UserPoolId}"
                .to_owned(),
            Some("HasPool".to_owned()),
        ),
        Resource::StripeSecret => ("!Ref StripeSecretArn".to_owned(), None),
        Resource::GatewaySecret => ("!Ref GatewaySecretArn".to_owned(), None),
    }
}

/// The condition for a table of a read model.
fn of_model(table: &Table) -> Option<String> {
    model_condition(table).map(str::to_owned)
}

/// A table's ARN, in the region that the settings of billing-activity may set for it.
fn table_arn(table: &Table, behind: &str) -> String {
    let id = logical(table.name);
    let elsewhere = match table.id {
        TableId::BillingActivity | TableId::History => Some(("TablesAreElsewhere", "TableRegion")),
        TableId::Locks => Some(("LocksAreElsewhere", "LockRegion")),
        TableId::Parked
        | TableId::Sandbox
        | TableId::Groups
        | TableId::GgCore
        | TableId::Entitlements
        | TableId::Journal
        | TableId::UserSubscriptions
        | TableId::UserUsage
        | TableId::ActionsLog
        | TableId::Figureforge
        | TableId::Serenya
        | TableId::UnappliedMoney => None,
    };
    let arn = |region: &str| {
        format!(
            "arn:${{AWS::Partition}}:dynamodb:${{{region}}}:${{AWS::AccountId}}:table/${{{id}Name}}{behind}"
        )
    };
    match elsewhere {
        Some((condition, region)) => format!(
            "!Sub ['{}', {{Region: !If [{condition}, !Ref {region}, !Ref AWS::Region]}}]",
            arn("Region")
        ),
        None if is_per_environment(table) => {
            format!("!Sub ['{}', {{{id}Name: {}}}]", arn("AWS::Region"), table_name(table))
        }
        None => format!("!Sub {}", arn("AWS::Region")),
    }
}
