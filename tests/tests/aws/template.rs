//! The template agrees with the Rust definitions: tables, roles, sources, settings. No deployment is needed:
//! the SAM translator and the linter check it here.

mod roles;
mod sources;
mod tables;

use dues_lambda::{Clients, Env, Function, start};
use dues_store::SystemClock;
use dues_tests::aws::ministack::python;
use dues_tests::aws::template::{logical, path, renewed, translated};
use serde_json::{Map, Value};
use std::process::Command;
use std::sync::OnceLock;

/// The template that CloudFormation receives.
fn template() -> &'static Value {
    static TEMPLATE: OnceLock<Value> = OnceLock::new();
    TEMPLATE.get_or_init(|| translated("s3://artifacts/bootstrap.zip").1)
}

/// Name and properties of every resource of a type.
fn resources(kind: &str) -> impl Iterator<Item = (&'static String, &'static Value)> {
    let all = template()["Resources"].as_object().unwrap().iter();
    all.filter(move |(_, resource)| resource["Type"] == kind)
        .map(|(name, resource)| (name, &resource["Properties"]))
}

fn of(name: &str) -> &'static Value {
    &template()["Resources"][name]["Properties"]
}

/// The logical id of a function's resource.
fn function_id(function: Function) -> String {
    format!("{}Function", logical(function.name()))
}

#[test]
fn what_is_made_from_rust_is_up_to_date() {
    let template = std::fs::read_to_string(path()).unwrap();
    let renewed = renewed(&template);
    if std::env::var_os("DUES_BLESS").is_some() {
        std::fs::write(path(), &renewed).unwrap();
        return;
    }
    let differs = template.lines().zip(renewed.lines()).find(|(is, should)| is != should);
    assert!(
        template == renewed,
        "DUES_BLESS=1 cargo nextest run -p dues-tests --test aws template updates it; the first difference: \
            {differs:?}"
    );
}

#[test]
fn the_linter_finds_nothing() {
    let lint = "from cfnlint.runner import main; main()";
    let output = Command::new(python()).args(["-c", lint]).arg(path()).output().unwrap();
    assert!(
        output.status.success() && output.stdout.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn every_handler_has_a_function_and_every_function_a_handler() {
    let mut deployed: Vec<(&str, &str)> = resources("AWS::Lambda::Function")
        .map(|(name, function)| (name.as_str(), function["Handler"].as_str().unwrap()))
        .collect();
    let ids: Vec<String> = Function::ALL.into_iter().map(function_id).collect();
    let mut wanted: Vec<(&str, &str)> =
        ids.iter().map(String::as_str).zip(Function::ALL.map(Function::name)).collect();
    deployed.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(deployed, wanted);
    for (name, function) in resources("AWS::Lambda::Function") {
        assert_eq!(
            (&function["Runtime"], &function["Code"]["S3Key"]),
            (&"provided.al2023".into(), &"bootstrap.zip".into()),
            "{name}"
        );
    }
}

fn variables(function: Function) -> &'static Map<String, Value> {
    of(&function_id(function))["Environment"]["Variables"].as_object().unwrap()
}

#[test]
fn every_function_starts_with_the_settings_that_it_is_given() {
    for function in Function::ALL {
        let mut set: Vec<(String, String)> =
            variables(function).keys().map(|name| (name.clone(), example(name).to_owned())).collect();
        for by_lambda in ["AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
            set.push((by_lambda.to_owned(), "eu-central-1".to_owned()));
        }
        let env = Env::of(move |wanted| {
            set.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone())
        });
        let clients = Clients::new(&env, dues_lambda::clients::https()).unwrap();
        if let Err(unset) = start(function, &env, &clients, SystemClock::shared()) {
            panic!("{}: {unset}", function.name());
        }
    }
}

fn example(variable: &str) -> &'static str {
    match variable {
        "GATEWAY_URL" => "https://payments.example.com",
        "OLD_SUBSCRIPTION_DAYS" => "90",
        "INCOME_FROM" => "75.00",
        "DUES_TIERS" => "Plus=SAGE",
        "DUES_READ_MODELS" => "usage,serenya",
        "DUES_PLANS" => "free:simulations=3;pro:*=*",
        "DUES_PLAN_TIERS" => "*=pro",
        "DUES_ACTION_LOG_DAYS" => "90",
        "DUES_FIGUREFORGE" => "auto_block_reports=5",
        "DUES_SERENYA" => "{}",
        _ => "something",
    }
}

#[test]
fn no_secret_stands_in_an_environment() {
    for function in Function::ALL {
        for (name, value) in variables(function) {
            let secret = ["SECRET", "TOKEN", "PASSWORD", "KEY"].iter().any(|word| name.contains(word));
            // The ARN of a secret is not a secret.
            assert!(
                !secret || (name.ends_with("_ARN") && value["Ref"].as_str().unwrap().ends_with("Arn")),
                "{}: {name}",
                function.name()
            );
        }
    }
}

#[test]
fn the_webhook_is_the_only_route_that_asks_for_no_authorisation() {
    let open: Vec<&str> = resources("AWS::ApiGatewayV2::Route")
        .filter(|(_, route)| !["AWS_IAM", "JWT", "CUSTOM"].contains(&authorisation(route).as_str()))
        .map(|(_, route)| route["RouteKey"].as_str().unwrap())
        .collect();
    assert_eq!(open, [format!("POST {}", dues_processors::entitlements::stripe_webhook::PATH)]);
    assert_eq!(resources("AWS::ApiGatewayV2::Route").count(), 2);
    // A function URL would bypass the API's authorisation.
    assert_eq!(resources("AWS::Lambda::Url").count(), 0);
}

/// The authorisation of a route. A parameter may choose the kind; none of its allowed values is NONE.
fn authorisation(route: &Value) -> String {
    match route["AuthorizationType"]["Ref"].as_str() {
        Some(parameter) => {
            let parameter = &template()["Parameters"][parameter];
            let allowed: Vec<&str> = parameter["AllowedValues"]
                .as_array()
                .unwrap()
                .iter()
                .map(|way| way.as_str().unwrap())
                .collect();
            assert_eq!(allowed, ["AWS_IAM", "JWT"]);
            parameter["Default"].as_str().unwrap().to_owned()
        }
        None => route["AuthorizationType"].as_str().unwrap_or("NONE").to_owned(),
    }
}

#[test]
fn every_tier_has_its_group() {
    let names = dues_processors::entitlements::groups::GroupNames::default();
    let groups: Vec<&str> = resources("AWS::Cognito::UserPoolGroup")
        .map(|(_, group)| group["GroupName"].as_str().unwrap())
        .collect();
    assert!(groups.iter().all(|group| names.contains(group)), "{groups:?}");
    let tiers = dues_events::PlanTier::ALL.map(dues_events::PlanTier::as_str);
    let wanted = tiers.iter().filter_map(|tier| names.of_tier(tier)).count();
    assert_eq!((groups.len(), wanted > 0), (wanted, true));
}

#[test]
fn everything_that_can_go_wrong_has_its_alarm() {
    let watched = |namespace: &str, metric: &str| {
        let all = resources("AWS::CloudWatch::Alarm").map(|(_, alarm)| alarm.to_string());
        all.filter(|alarm| {
            alarm.contains(namespace) && alarm.contains(&format!("\"MetricName\":\"{metric}\""))
        })
        .count()
    };
    let followers = Function::ALL.into_iter().filter(|function| sources::follows(*function)).count();
    assert_eq!(watched("AWS/Lambda", "IteratorAge"), followers);
    assert_eq!(watched("AWS/Lambda", "Throttles"), Function::ALL.len());
    assert_eq!(watched("AWS/DynamoDB", "WriteThrottleEvents"), dues_store::table::ALL.len());
    assert_eq!(watched("AWS/SQS", "ApproximateNumberOfMessagesVisible"), 3);
    for metric in ["parked", "unapplied_money", "returned", "unauthorised", "administrative"] {
        assert_eq!(watched("AWS::StackName", metric), 1, "{metric}");
        assert!(
            dues_lambda::log::METRICS.iter().any(|(known, _)| *known == metric),
            "no function logs {metric}"
        );
    }
    let readme = std::fs::read_to_string(path().with_file_name("README.md")).unwrap();
    for (name, alarm) in resources("AWS::CloudWatch::Alarm") {
        assert!(
            alarm["AlarmDescription"].as_str().unwrap().ends_with("See infra/README.md#alarms."),
            "{name}"
        );
    }
    assert!(readme.contains("\n## Alarms\n"));
}

#[test]
fn the_dashboard_is_json_and_shows_only_logged_metrics() {
    let body = of("Dashboard")["DashboardBody"]["Fn::Sub"].as_str().unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let widgets = body["widgets"].as_array().unwrap();
    let is_logged = |name: &str| dues_lambda::log::METRICS.iter().any(|(known, _)| *known == name);
    let mut shown = 0;
    for widget in widgets {
        for metric in
            widget["properties"]["metrics"].as_array().unwrap().iter().filter(|metric| metric[0].is_string())
        {
            // In a dashboard `.` repeats the namespace above, `...` everything but the last field.
            if let Some(name) =
                metric[1].as_str().filter(|_| metric[0] == "." || metric[0] == "${AWS::StackName}")
            {
                assert!(is_logged(name), "no function logs {name}");
                shown += 1;
            }
        }
    }
    assert!(shown >= 10, "{shown}");
}
