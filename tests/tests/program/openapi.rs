//! The OpenAPI document and the running server agree.

use dues_tests::aws::ministack::python;
use serde_json::{Value, json};
use std::process::Command;

use crate::support::run::Dues;
use crate::support::server::Serving;

/// Reports what is wrong with a document that is not OpenAPI 3.1, and duplicate names.
const VALIDATE: &str = "import json, sys; from openapi_spec_validator import OpenAPIV31SpecValidator, \
    validate; \
                        validate(json.load(open(sys.argv[1])), cls=OpenAPIV31SpecValidator)";
const TOKEN: &str = "0123456789abcdef-secret";

/// The document, as a client with that token reads it.
fn document(serving: &Serving, token: Option<&str>) -> Value {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<(&str, &str)> = bearer.iter().map(|bearer| ("Authorization", bearer.as_str())).collect();
    let answer = serving.ask("GET", "/openapi.json", &headers, b"");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

fn assert_is_valid(dues: &Dues, document: &Value) {
    let file = dues.file("openapi.json", document.to_string().as_bytes());
    let output = Command::new(python()).args(["-c", VALIDATE, &file]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_described_path_of_the_server_is_answered() {
    let dues = Dues::new();
    let serving = Serving::start(&dues);
    let document = document(&serving, None);
    let paths = document["paths"].as_object().unwrap();
    let there = [
        "/streams/{name}",
        "/{user_id}/explain",
        "/webhooks/stripe",
        "/models/serenya/users/{user_id}/payments",
    ];
    assert!(there.iter().all(|path| paths.contains_key(*path)), "{paths:?}");
    for (path, item) in paths {
        let id = |segment: &str| match segment {
            "{name}" => "memberships".to_owned(),
            "{feature}" => "simulations".to_owned(),
            named if named.starts_with('{') => "u-1".to_owned(),
            literal => literal.to_owned(),
        };
        let asked = path.split('/').map(id).collect::<Vec<_>>().join("/");
        for method in item.as_object().unwrap().keys() {
            let answer = serving.ask(&method.to_uppercase(), &asked, &[], b"");
            assert!(
                item[method]["responses"].get(answer.status.to_string()).is_some(),
                "{method} {path}: {answer:?}"
            );
            assert!(!answer.body.contains("no_such_path"), "{method} {path}: {answer:?}");
            assert!(answer.status < 500, "{method} {path}: {answer:?}");
        }
        let other = serving.ask("PATCH", &asked, &[], b"");
        assert_eq!(other.status, 405, "{path}: {other:?}");
    }
}

#[test]
fn the_document_is_openapi_3_1() {
    let dues = Dues::new();
    let open = document(&Serving::start(&dues), None);
    assert_eq!(open["openapi"], "3.1.0");
    assert_is_valid(&dues, &open);
    assert_eq!(open.get("security"), None, "local clients need no token");
    let serving = Serving::with(&dues, &[], &[("DUES_TOKEN", TOKEN), ("DUES_READ_MODELS", "usage")]);
    let guarded = document(&serving, Some(TOKEN));
    assert_is_valid(&dues, &guarded);
    assert_eq!(guarded["security"], json!([{"token": []}]));
    let models = |document: &Value| {
        document["paths"].as_object().unwrap().keys().filter(|path| path.starts_with("/models/")).count()
    };
    assert!(models(&open) > models(&guarded) && models(&guarded) == 5, "only the read models that there are");
    // The validator must reject a broken document.
    let mut twice = open;
    twice["paths"]["/ready"]["get"]["operationId"] = "get_health".into();
    let file = dues.file("openapi.json", twice.to_string().as_bytes());
    let output = Command::new(python()).args(["-c", VALIDATE, &file]).output().unwrap();
    assert!(
        !output.status.success() && String::from_utf8_lossy(&output.stderr).contains("get_health"),
        "{output:?}"
    );
}
