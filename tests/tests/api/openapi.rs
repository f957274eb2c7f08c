//! The OpenAPI document and the API have the same paths.

use dues_processors::api::document::Document;
use dues_processors::api::{Api, declare};
use dues_processors::collections::gateway::sandbox::Sandbox;
use dues_processors::read_models::{ReadModel, ReadModels};
use dues_store::embedded::Embedded;
use serde_json::Value;
use std::collections::BTreeSet;

use crate::{Office, error, office};

fn document(api: &Api<Embedded, Sandbox<Embedded>>) -> Value {
    declare::<Embedded, Sandbox<Embedded>, _>(&api.read_models, Document::new("1")).finish(&[])
}

const METHODS: [&str; 5] = ["GET", "PUT", "POST", "DELETE", "PATCH"];

/// The documented methods and paths.
fn documented(document: &Value) -> Vec<(String, String)> {
    let paths = document["paths"].as_object().unwrap();
    paths
        .iter()
        .flat_map(|(path, item)| {
            item.as_object().unwrap().keys().map(|method| (method.to_uppercase(), path.clone()))
        })
        .collect()
}

/// Replaces the path's parameter names with ids.
fn filled(office: &Office, path: &str) -> String {
    let id = |segment: &str| match segment {
        "{subscription_id}" => office.record.subscription_id.to_string(),
        "{feature}" => "simulations".to_owned(),
        named if named.starts_with('{') => "u-1".to_owned(),
        literal => literal.to_owned(),
    };
    path.split('/').map(id).collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn every_path_that_is_described_is_answered_and_every_other_is_not() {
    let office = office("u-1", "6789").await;
    let document = document(&office.api);
    let documented = documented(&document);
    for (method, path) in &documented {
        let asked = filled(&office, path);
        let response = office.send(method, &asked, "").await;
        let answers = &document["paths"][path][method.to_lowercase()]["responses"];
        assert!(
            answers.get(response.status.to_string()).is_some(),
            "{method} {path} is not described to answer {response:?}"
        );
        assert_ne!(response.body["error"]["code"], "no_such_path", "{method} {path}");
        for other in METHODS {
            if !documented.contains(&(other.to_owned(), path.clone())) {
                assert_eq!(
                    error(&office.send(other, &asked, "").await),
                    (405, "method_not_allowed"),
                    "{other} {path}"
                );
            }
        }
    }
    for end in
        ["", "/", "subscription", "subscriptions/s-1/forgive", "credits/grant", "profile", "explain/why"]
    {
        assert_eq!(
            error(&office.send("GET", &format!("/u-1/{end}"), "").await),
            (404, "no_such_path"),
            "{end}"
        );
    }
}

#[tokio::test]
async fn only_the_read_models_that_there_are_are_described() {
    let mut office = office("u-1", "6789").await;
    let mut below = |models: ReadModels| -> BTreeSet<String> {
        office.api.read_models = models;
        let document = document(&office.api);
        let names = documented(&document)
            .into_iter()
            .filter_map(|(_, path)| path.strip_prefix("/models/")?.split('/').next().map(str::to_owned));
        let tags = document["tags"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tag| tag["name"].as_str().unwrap().to_owned())
            .collect::<BTreeSet<_>>();
        let shapes = document["components"]["schemas"].to_string();
        let names: BTreeSet<String> = names.collect();
        for model in ReadModel::ALL.map(ReadModel::name) {
            let capital = format!("\"{}{}", model[..1].to_uppercase(), &model[1..]);
            assert_eq!(
                (tags.contains(model), shapes.contains(&capital)),
                (names.contains(model), names.contains(model)),
                "{model}"
            );
        }
        names
    };
    assert_eq!(below(ReadModels::default()), ReadModel::ALL.map(|model| model.name().to_owned()).into());
    assert_eq!(below([ReadModel::Serenya].into_iter().collect()), ["serenya".to_owned()].into());
    assert!(below(ReadModels::parse("none").unwrap()).is_empty());
}

/// Generated clients name functions by operationId and files by tag, and resolve schema references.
#[tokio::test]
async fn operations_have_names_of_their_own_and_shapes_are_there_and_used() {
    let document = document(&office("u-1", "6789").await.api);
    let mut names = BTreeSet::new();
    for (method, path) in documented(&document) {
        let operation = &document["paths"][&path][method.to_lowercase()];
        let name = operation["operationId"].as_str().unwrap();
        assert!(names.insert(name.to_owned()), "{name} is there twice");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        assert_eq!(operation["tags"].as_array().unwrap().len(), 1, "{name}");
        assert!(operation["summary"].as_str().unwrap().ends_with('.'), "{name}");
    }
    let text = document.to_string();
    let named: BTreeSet<&str> =
        text.split("#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let there: BTreeSet<&str> =
        document["components"]["schemas"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(named, there);
}
