//! The OpenAPI document and the running server agree, asked by a program that makes requests from the document: schemathesis.

use dues_tests::ministack::python;
use serde_json::Value;
use std::process::Command;

use crate::records::activate;
use crate::run::{Dues, alone};
use crate::serving::Serving;
use crate::streams::processed;

/// Bounded, and the same in every run.
const EXAMPLES: &str = "30";
const SEED: &str = "7";
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance,unsupported_method";
/// Runs schemathesis, which has no `-m` of its own.
const PROGRAM: &str = "from schemathesis.cli import schemathesis; schemathesis()";

#[test]
fn every_described_path_of_the_server_is_answered() {
    let dues = Dues::new();
    let serving = Serving::start(&dues);
    let answer = serving.ask("GET", "/openapi.json", &[], b"");
    assert_eq!((answer.status, answer.json()["openapi"].clone()), (200, Value::from("3.1.0")));
    let document = answer.json();
    let paths = document["paths"].as_object().unwrap();
    assert!(
        paths.contains_key("/streams/{name}") && paths.contains_key("/{user_id}/explain") && paths.contains_key("/webhooks/stripe"),
        "{paths:?}"
    );
    for (path, item) in paths {
        let asked = path.replace("{name}", "memberships").replace("{user_id}", "u-1").replace("{subscription_id}", "s-1");
        for method in item.as_object().unwrap().keys() {
            let answer = serving.ask(&method.to_uppercase(), &asked, &[], b"");
            assert!(item[method]["responses"].get(answer.status.to_string()).is_some(), "{method} {path}: {answer:?}");
            assert!(!answer.body.contains("no_such_path"), "{method} {path}: {answer:?}");
            assert!(answer.status < 500, "{method} {path}: {answer:?}");
        }
        let other = serving.ask("PUT", &asked, &[], b"");
        assert_eq!(other.status, 405, "{path}: {other:?}");
    }
}

#[test]
fn whatever_the_document_allows_is_answered_as_it_says_and_nothing_breaks() {
    let _alone = alone();
    let dues = Dues::new();
    let serving = Serving::start(&dues);
    assert_eq!(serving.ask("POST", "/streams/memberships", &[], activate("m-1", "u-1").to_string().as_bytes()).status, 202);
    processed(&dues, "memberships");
    // All of them but the document itself, which it has read.
    let operations = serving.ask("GET", "/openapi.json", &[], b"").json()["paths"].as_object().unwrap().len() - 1;
    // Whatever the ids, of which hardly one is known; and then those of a member, so that there is something to answer with.
    let id = dues.id("u-1", 0);
    for ids in [String::new(), format!("[parameters]\nuser_id = \"u-1\"\nsubscription_id = \"{id}\"\n")] {
        dues.file("schemathesis.toml", ids.as_bytes());
        let said = fuzzed(&dues, &serving);
        println!("{said}");
        assert!(said.contains(&format!("{operations} selected / {operations} total")), "{said}");
    }
    assert_eq!(dues.run(&["audit"]).status.code(), Some(0));
}

/// Lets schemathesis ask, which must find nothing, and gives what it says.
fn fuzzed(dues: &Dues, serving: &Serving) -> String {
    let url = format!("http://{}/openapi.json", serving.address);
    let told = Command::new(python())
        .args(["-c", PROGRAM, "run", &url, "--checks", CHECKS, "--max-examples", EXAMPLES, "--seed", SEED])
        .args(["--phases", "examples,coverage,fuzzing", "--generation-deterministic", "--request-timeout", "20", "--no-color"])
        .current_dir(dues.beside(""))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.status.success(), "{said}\n{}", String::from_utf8_lossy(&told.stderr));
    said
}
