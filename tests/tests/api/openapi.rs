//! The description of the REST API, and the API itself: neither has a path that the other does not.

use dues_processors::api::openapi::document;
use dues_processors::api::template;
use serde_json::Value;

use crate::{error, office};

/// The documented methods and paths.
fn documented(document: &Value) -> Vec<(String, String)> {
    let paths = document["paths"].as_object().unwrap();
    paths.iter().flat_map(|(path, item)| item.as_object().unwrap().keys().map(|method| (method.to_uppercase(), path.clone()))).collect()
}

#[tokio::test]
async fn every_path_that_is_described_is_answered_and_every_other_is_not() {
    let office = office("u-1", "6789").await;
    let document = document(office.api.described(), "1", &[]);
    let documented = documented(&document);
    assert_eq!(documented.len(), 13, "{documented:?}");
    for (method, path) in &documented {
        let asked = path.replace("{user_id}", "u-1").replace("{subscription_id}", office.record.subscription_id.as_str());
        let response = office.send(method, &asked, "").await;
        let answers = &document["paths"][path][method.to_lowercase()]["responses"];
        assert!(answers.get(response.status.to_string()).is_some(), "{method} {path} is not described to answer {response:?}");
        assert_ne!(response.body["error"]["code"], "no_such_path", "{method} {path}");
        assert_eq!(template(&asked), Some(path.as_str()), "metrics name it so too");
        let other = if method == "GET" { "POST" } else { "GET" };
        if !documented.contains(&(other.to_owned(), path.clone())) {
            assert_eq!(error(&office.send(other, &asked, "").await), (405, "method_not_allowed"), "{other} {path}");
        }
    }
    for end in ["", "/", "subscription", "subscriptions/s-1/refund", "credits/grant", "profile", "explain/why"] {
        assert_eq!(error(&office.send("GET", &format!("/u-1/{end}"), "").await), (404, "no_such_path"), "{end}");
    }
}
