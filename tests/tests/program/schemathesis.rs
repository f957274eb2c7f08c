//! schemathesis generates requests from the OpenAPI document and sends them to the running server. Every
//! response must match the document, and none may be a server error.
//!
//! Each part of the document is tested with ids that do not exist and with ids that do, so that both kinds
//! of response are checked.

use dues_tests::aws::ministack::python;
use std::process::Command;

use crate::support::api_fixtures;
use crate::support::run::{Dues, alone};
use crate::support::server::{SECRET, Serving};

/// Bounded, and the same in every run.
const EXAMPLES: &str = "30";
const SEED: &str = "7";
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
                      response_schema_conformance,unsupported_method,allow_header_conformance";
/// Runs schemathesis, which has no `-m` entry point; it knows no NDJSON by itself.
const PROGRAM: &str = "\
import schemathesis
from schemathesis.cli import schemathesis as run
schemathesis.serializer('application/x-ndjson')(
    lambda context, value: value if isinstance(value, bytes) else str(value).encode('utf-8', 'replace'))
run()";
/// The key that signs image URLs.
const SIGNER: [(&str, &str); 4] = [
    ("DUES_FIGUREFORGE_BUCKET", "pictures"),
    ("AWS_REGION", "us-east-1"),
    ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
    ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
];
/// An operation that found no data was not tested: that is a failure too, where data exists.
const STRICT: &str = "[warnings]\nfail-on = [\"missing_test_data\"]\n\n";

#[test]
fn billing_and_the_server_answer_as_they_are_described() {
    let server = ["server", "webhooks", "billing", "entitlements"];
    asked(&server, "", |dues, serving| {
        api_fixtures::member(dues, serving);
        let money = api_fixtures::unapplied_money(dues, serving);
        parameters(&[("user_id", "u-1"), ("subscription_id", &dues.id("u-1", 0)), ("money_id", &money)])
    });
}

#[test]
fn usage_answers_as_it_is_described() {
    asked(&["usage"], STRICT, |dues, serving| {
        api_fixtures::usage(dues, serving);
        "[parameters]\nuser_id = \"ada\"\nfeature = \"simulations\"\n".to_owned()
    });
}

#[test]
fn figureforge_answers_as_it_is_described() {
    asked(&["figureforge"], STRICT, |dues, serving| {
        api_fixtures::figureforge(dues, serving);
        let purge = "\n[[operations]]\ninclude-path \
            = \"/models/figureforge/images/{image_id}/purge\"\nparameters = { image_id = \"i-2\" }\n";
        let ids = [
            ("user_id", "ada"),
            ("stripe_sub_id", "sub_ada"),
            ("job_id", "j-1"),
            ("image_id", "i-1"),
            ("report_id", "r-1"),
            ("plan_id", "SAGE"),
            ("flag_name", "video"),
            ("tag", "pose:standing"),
        ];
        parameters(&ids) + purge
    });
}

#[test]
fn serenya_answers_as_it_is_described() {
    asked(&["serenya"], STRICT, |dues, serving| {
        api_fixtures::serenya(dues, serving);
        parameters(&[
            ("user_id", "ada"),
            ("payment_id", "p-1"),
            ("file_name", "a.pdf"),
            ("config_key", "app"),
        ])
    });
}

fn parameters(ids: &[(&str, &str)]) -> String {
    ids.iter().fold("[parameters]\n".to_owned(), |all, (name, id)| all + &format!("{name} = \"{id}\"\n"))
}

/// Tests the operations with these tags: without data, then with the fixtures that `made` creates and
/// returns the ids of.
fn asked(tags: &[&str], strict: &str, made: impl Fn(&Dues, &Serving) -> String) {
    let _alone = alone();
    let dues = Dues::new();
    let secrets = dues.file("secrets", format!("{SECRET}\n").as_bytes());
    let serving = Serving::with(&dues, &["--stripe-secret-file", &secrets], &SIGNER);
    let document = serving.ask("GET", "/openapi.json", &[], b"").json();
    let operations =
        document["paths"].as_object().unwrap().values().flat_map(|item| item.as_object().unwrap().values());
    let count = operations.filter(|operation| tags.iter().any(|tag| operation["tags"][0] == *tag)).count();
    dues.file("schemathesis.toml", b"");
    fuzzed(&dues, &serving, tags, count);
    let ids = made(&dues, &serving);
    dues.file("schemathesis.toml", format!("{strict}{ids}").as_bytes());
    fuzzed(&dues, &serving, tags, count);
    assert_eq!(dues.run(&["audit"]).status.code(), Some(0));
}

/// Runs schemathesis on this many operations; it must find nothing.
fn fuzzed(dues: &Dues, serving: &Serving, tags: &[&str], operations: usize) {
    let url = format!("http://{}/openapi.json", serving.address);
    let mut command = Command::new(python());
    command.args([
        "-c",
        PROGRAM,
        "run",
        &url,
        "--checks",
        CHECKS,
        "--max-examples",
        EXAMPLES,
        "--seed",
        SEED,
    ]);
    command.args([
        "--phases",
        "examples,coverage,fuzzing",
        "--generation-deterministic",
        "--request-timeout",
        "20",
        "--no-color",
    ]);
    for tag in tags {
        command.args(["--include-tag", tag]);
    }
    let output = command.current_dir(dues.beside("")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{said}");
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        said.contains(&format!("{operations} selected /"))
            && said.contains(&format!("Tested: {operations}\n")),
        "{said}"
    );
}
