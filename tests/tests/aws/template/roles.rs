//! Each function has its own role, which allows what the function declares, what Lambda needs for it, and
//! nothing else.

use dues_lambda::Function;
use dues_lambda::permissions::{Resource, permissions, sources};
use dues_store::Table;
use dues_store::table::ALL;
use dues_tests::aws::template::{logical, model_condition};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

use super::{function_id, of, resources, template};

/// The statements of a role; a conditional one is taken as it is when its condition holds.
fn statements(role: &'static Value) -> Vec<&'static Value> {
    let policies = role["Policies"].as_array().unwrap().iter();
    let all = policies.flat_map(|policy| policy["PolicyDocument"]["Statement"].as_array().unwrap());
    all.map(|statement| statement.get("Fn::If").map_or(statement, |either| &either[1])).collect()
}

fn list(value: &'static Value) -> Vec<&'static Value> {
    value.as_array().map_or_else(|| vec![value], |all| all.iter().collect())
}

#[test]
fn no_role_allows_everything_or_all_of_anything() {
    for (name, role) in resources("AWS::IAM::Role") {
        assert!(
            role.get("ManagedPolicyArns").is_none(),
            "{name}: Amazon's own policies allow more than is needed"
        );
        for statement in statements(role) {
            assert_eq!(statement["Effect"], "Allow", "{name}");
            for action in list(&statement["Action"]) {
                assert!(!action.as_str().unwrap().contains('*'), "{name}: {action}");
            }
            for resource in list(&statement["Resource"]) {
                assert!(!resource.to_string().contains('*'), "{name}: {resource}");
            }
        }
    }
    assert_eq!(resources("AWS::IAM::Policy").count() + resources("AWS::IAM::ManagedPolicy").count(), 0);
}

#[test]
fn a_role_allows_what_its_function_has_declared_and_no_more() {
    let mut owners: BTreeMap<&str, Function> = BTreeMap::new();
    for function in Function::ALL {
        let role = of(&function_id(function))["Role"]["Fn::GetAtt"][0].as_str().unwrap();
        assert_eq!(owners.insert(role, function), None, "{role} belongs to two");
        let allowed: BTreeSet<(String, String)> = statements(of(role)).into_iter().flat_map(pairs).collect();
        let mut declared = BTreeSet::new();
        let mut declare = |actions: &[&str], resource: String| {
            declared.extend(actions.iter().map(|action| ((*action).to_owned(), resource.clone())));
        };
        let from = sources(function);
        declare(&["logs:CreateLogStream", "logs:PutLogEvents"], format!("{}Logs", logical(function.name())));
        for source in &from {
            declare(source.actions(), source_id(*source));
        }
        if from.iter().any(|source| source.hands_on()) {
            declare(&["sqs:SendMessage"], "FailuresQueue".to_owned());
        }
        for (resource, actions) in permissions(function) {
            declare(actions, resource_id(resource));
        }
        assert_eq!(allowed, declared, "{}", function.name());
    }
}

#[test]
fn rights_to_the_tables_of_a_read_model_come_with_the_read_model() {
    for (name, role) in resources("AWS::IAM::Role") {
        let statements = role["Policies"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|policy| policy["PolicyDocument"]["Statement"].as_array().unwrap());
        for statement in statements {
            let about = |table: &&&Table| {
                statement.to_string().contains(&format!(":table/${{{}Name}}", logical(table.name)))
            };
            let Some(condition) = ALL.iter().find(about).and_then(|table| model_condition(table)) else {
                continue;
            };
            assert_eq!(statement["Fn::If"][0], condition, "{name}: {statement}");
            assert_eq!(statement["Fn::If"][2]["Ref"], "AWS::NoValue", "{name}: {statement}");
        }
    }
}

fn source_id(source: dues_lambda::permissions::Source) -> String {
    use dues_lambda::permissions::Source;
    match source {
        Source::Stream(name) => format!("{}Stream", logical(name)),
        Source::Changes(table) => format!("{}Table", logical(table.name)),
        Source::Queue(name) => format!("{}Queue", logical(name)),
        Source::Events | Source::Requests => String::new(),
    }
}

fn resource_id(resource: Resource) -> String {
    match resource {
        Resource::Table(table) => format!(":table/${{{}Name}}", logical(table.name)),
        Resource::Index(table, index) => {
            format!(":table/${{{}Name}}/index/{}", logical(table.name), index.name)
        }
        Resource::Queue => "CollectionsQueue".to_owned(),
        Resource::Inbox => "StripeStream".to_owned(),
        Resource::Subscriptions => "SubscriptionsStream".to_owned(),
        Resource::Bus => "Bus".to_owned(),
        Resource::Pool => ":userpool/${UserPoolId}".to_owned(),
        Resource::StripeSecret => "StripeSecretArn".to_owned(),
        Resource::GatewaySecret => "GatewaySecretArn".to_owned(),
    }
}

/// Each action with each resource, named by the resource that it refers to.
fn pairs(statement: &'static Value) -> Vec<(String, String)> {
    let resources = list(&statement["Resource"]);
    let actions = list(&statement["Action"]);
    let each = |action: &&'static Value| {
        let action = action.as_str().unwrap().to_owned();
        resources.iter().map(|resource| (action.clone(), resource_name(resource))).collect::<Vec<_>>()
    };
    actions.iter().flat_map(each).collect()
}

fn resource_name(resource: &Value) -> String {
    if let Some(either) = resource.get("Fn::If") {
        // Our stream or an existing one: both are the same stream.
        let ours = either.as_array().unwrap().iter().find(|one| one.get("Fn::GetAtt").is_some());
        return resource_name(ours.unwrap());
    }
    if let Some(attribute) = resource.get("Fn::GetAtt") {
        return attribute[0].as_str().unwrap().to_owned();
    }
    if let Some(reference) = resource["Ref"].as_str() {
        return reference.to_owned();
    }
    let text = resource["Fn::Sub"].as_str().or_else(|| resource["Fn::Sub"][0].as_str()).unwrap();
    text[text.rfind(':').unwrap()..].to_owned()
}

#[test]
fn only_those_may_call_a_function_who_are_its_sources() {
    for (name, permission) in resources("AWS::Lambda::Permission") {
        assert!(
            permission.get("SourceArn").is_some(),
            "{name}: anybody at {} could call it",
            permission["Principal"]
        );
        let function = permission["FunctionName"]["Ref"].as_str().unwrap();
        assert_eq!(template()["Resources"][function]["Type"], "AWS::Lambda::Function", "{name}");
    }
}
