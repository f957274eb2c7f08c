//! Event sources of the functions, and the destinations for failures.

use dues_events::entitlements::credits::BALANCE_SORT;
use dues_events::entitlements::profile::PROFILE_PREFIX;
use dues_lambda::Function;
use dues_lambda::permissions::{Source, sources};
use dues_projections::serenya::profile::PROFILE;
use dues_store::TableId;
use dues_store::entitlements::EVENT_PREFIX;
use dues_tests::aws::template::logical;
use serde_json::{Value, json};

use super::{function_id, of, resources};

/// Whether a function consumes streams.
pub(crate) fn follows(function: Function) -> bool {
    sources(function).iter().any(|source| matches!(source, Source::Stream(_) | Source::Changes(_)))
}

fn mappings(function: Function) -> Vec<&'static Value> {
    let ours = move |mapping: &&Value| mapping["FunctionName"]["Ref"] == function_id(function).as_str();
    resources("AWS::Lambda::EventSourceMapping").map(|(_, mapping)| mapping).filter(ours).collect()
}

#[test]
fn every_source_has_its_mapping_and_every_mapping_its_source() {
    for function in Function::ALL {
        let read: Vec<String> = sources(function)
            .into_iter()
            .filter_map(|source| match source {
                Source::Stream(name) => Some(format!("{}Stream", logical(name))),
                Source::Changes(table) => Some(format!("{}Table", logical(table.name))),
                Source::Queue(name) => Some(format!("{}Queue", logical(name))),
                Source::Events | Source::Requests => None,
            })
            .collect();
        let mapped: Vec<String> =
            mappings(function).into_iter().map(|mapping| mapping["EventSourceArn"].to_string()).collect();
        assert_eq!(mapped.len(), read.len(), "{}: {mapped:?}", function.name());
        for source in read {
            assert!(
                mapped.iter().any(|arn| arn.contains(&format!("\"{source}\""))),
                "{} does not read {source}: {mapped:?}",
                function.name()
            );
        }
    }
}

#[test]
fn mappings_report_single_failures_and_pass_on_what_they_give_up() {
    let failures = json!({"Fn::GetAtt": ["FailuresQueue", "Arn"]});
    for (name, mapping) in resources("AWS::Lambda::EventSourceMapping") {
        assert_eq!(mapping["FunctionResponseTypes"], json!(["ReportBatchItemFailures"]), "{name}");
        if mapping.get("StartingPosition").is_none() {
            continue;
        }
        assert_eq!(
            (&mapping["BisectBatchOnFunctionError"], &mapping["StartingPosition"]),
            (&json!(true), &json!("TRIM_HORIZON")),
            "{name}"
        );
        assert!(
            mapping["MaximumRetryAttempts"].as_u64().unwrap() > 0
                && mapping["ParallelizationFactor"].as_u64().unwrap() > 0,
            "{name}"
        );
        assert!(
            mapping["MaximumRecordAgeInSeconds"].as_u64().unwrap() <= 86_400,
            "{name}: a table's stream keeps a day"
        );
        assert_eq!(mapping["DestinationConfig"]["OnFailure"]["Destination"], failures, "{name}");
    }
    for function in Function::ALL.into_iter().filter(|function| sources(*function).contains(&Source::Events))
    {
        let retries = of(&format!("{}Retries", logical(function.name())));
        assert_eq!(retries["DestinationConfig"]["OnFailure"]["Destination"], failures, "{}", function.name());
    }
    for (name, rule) in resources("AWS::Events::Rule") {
        for target in rule["Targets"].as_array().unwrap() {
            assert_eq!(target["DeadLetterConfig"]["Arn"], failures, "{name}");
        }
    }
    for (name, schedule) in resources("AWS::Scheduler::Schedule") {
        assert_eq!(schedule["Target"]["DeadLetterConfig"]["Arn"], failures, "{name}");
    }
}

#[test]
fn a_message_is_hidden_for_as_long_as_its_worker_may_take_and_given_up_in_the_end() {
    for function in [Function::CollectionsWorker, Function::BatchWorker] {
        let queue = mappings(function)[0]["EventSourceArn"]["Fn::GetAtt"][0].as_str().unwrap();
        let (queue, timeout) = (of(queue), of(&function_id(function))["Timeout"].as_u64().unwrap());
        assert!(queue["VisibilityTimeout"].as_u64().unwrap() >= 6 * timeout, "{function:?}");
        let dead = queue["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0].as_str().unwrap();
        assert_eq!(of(dead)["MessageRetentionPeriod"], 1_209_600);
    }
}

/// A filter on Kinesis would drop records that are not JSON, and those must be parked; table changes are
/// always readable.
#[test]
fn only_changes_of_tables_are_filtered() {
    for (name, mapping) in resources("AWS::Lambda::EventSourceMapping")
        .filter(|(_, mapping)| mapping.get("FilterCriteria").is_some())
    {
        assert!(mapping["EventSourceArn"].to_string().contains("Table\""), "{name}");
    }
}

#[test]
fn filters_let_through_what_the_projector_works_on() {
    let change = |table: &str, name: &str, sort: &str, by_ttl: bool| {
        lets_through(Function::Projector, table, name, ("USER#u", sort), by_ttl)
    };
    let profile = format!("{PROFILE_PREFIX}u");
    for name in ["INSERT", "MODIFY"] {
        assert!(change("billing-activity", name, "", false));
        assert!(change("gg_core", name, &profile, false));
        assert!(
            !change("gg_core", name, BALANCE_SORT, false),
            "the projector does not need movements of credits"
        );
    }
    assert!(!change("billing-activity", "REMOVE", "", false), "a record is only ever moved");
    assert!(change("gg_core", "REMOVE", BALANCE_SORT, true));
    assert!(!change("gg_core", "REMOVE", BALANCE_SORT, false));
    assert!(change("dues-entitlements", "INSERT", &format!("{EVENT_PREFIX}evt_1"), false));
    assert!(!change("dues-entitlements", "MODIFY", "HEAD", false));
    assert!(change("f1-user-usage", "INSERT", "", false) && change("f1-user-usage", "MODIFY", "", false));
    assert!(!change("f1-user-usage", "REMOVE", "", false), "what is forgotten is not logged");
    assert!(change("serenya", "REMOVE", PROFILE, true));
    assert!(!change("serenya", "REMOVE", PROFILE, false) && !change("serenya", "MODIFY", PROFILE, false));
    for name in ["INSERT", "MODIFY", "REMOVE"] {
        let forge = |partition: &str, sort: &str| {
            lets_through(Function::Projector, "figureforge", name, (partition, sort), false)
        };
        assert!(forge("IMG#i", "META") && forge("IMG#i", "REPORT#r"));
        assert!(!forge("TAG#t", "IMG#i") && !forge("USER#u", "PROFILE"), "tags follow, nothing follows them");
    }
}

#[test]
fn filters_pass_what_the_feeder_publishes() {
    let change = |table: &str, name: &str, sort: &str| {
        lets_through(Function::KinesisFeeder, table, name, ("USER#u", sort), false)
    };
    for name in ["INSERT", "MODIFY"] {
        assert!(
            change("billing-activity", name, "") && change("gg_core", name, &format!("{PROFILE_PREFIX}u"))
        );
        assert!(!change("gg_core", name, BALANCE_SORT));
    }
    assert!(change("gg_core", "INSERT", "LEDGER#m"));
    assert!(!change("gg_core", "MODIFY", "LEDGER#m"), "movements never change");
    assert!(!change("billing-activity", "REMOVE", ""), "a record is only ever moved");
}

/// Whether the filter of a function's mapping passes a change.
fn lets_through(
    function: Function,
    table: &str,
    name: &str,
    (partition, sort): (&str, &str),
    by_ttl: bool,
) -> bool {
    let (pk, sk) =
        if TableId::from_name(table) == Some(TableId::Figureforge) { ("pk", "sk") } else { ("PK", "SK") };
    let mut record =
        json!({"eventName": name, "dynamodb": {"Keys": {pk: {"S": partition}, sk: {"S": sort}}}});
    if by_ttl {
        record["userIdentity"] = json!({"type": "Service", "principalId": "dynamodb.amazonaws.com"});
    }
    let source = format!("\"{}Table\"", logical(table));
    let mapping = mappings(function)
        .into_iter()
        .find(|mapping| mapping["EventSourceArn"].to_string().contains(&source))
        .unwrap();
    let patterns = mapping["FilterCriteria"]["Filters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|filter| filter["Pattern"].as_str().unwrap());
    patterns
        .map(|pattern| serde_json::from_str::<Value>(pattern).unwrap())
        .any(|pattern| matches(&pattern, &record))
}

/// Lambda's filter patterns, as far as they are used here: a list of values or prefixes at the end of a
/// path.
fn matches(pattern: &Value, record: &Value) -> bool {
    match pattern {
        Value::Object(fields) => {
            fields.iter().all(|(name, inner)| record.get(name).is_some_and(|value| matches(inner, value)))
        }
        Value::Array(ways) => ways.iter().any(|way| match way.get("prefix").and_then(Value::as_str) {
            Some(prefix) => record.as_str().is_some_and(|text| text.starts_with(prefix)),
            None => way == record,
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
