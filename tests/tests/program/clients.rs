//! Clients generated from the served OpenAPI document, without a warning: a Python one that calls the server,
//! and TypeScript types under `tsc --strict`.

use dues_tests::aws::ministack::python;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use xtask::browser::folder_in;

use crate::browser::target;
use crate::support::api_fixtures;
use crate::support::run::Dues;
use crate::support::server::Serving;

/// Runs a command and returns its standard output; its failure shows everything it printed.
fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}\n{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    printed
}

/// A server with one member, and its document as a file.
fn served() -> (Dues, Serving, String) {
    let dues = Dues::new();
    let serving = Serving::start(&dues);
    api_fixtures::member(&dues, &serving);
    let document = serving.ask("GET", "/openapi.json", &[], b"").json();
    let file = dues.file("openapi.json", document.to_string().as_bytes());
    (dues, serving, file)
}

#[test]
fn a_generated_python_client_calls_the_server() {
    let (dues, serving, document) = served();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients");
    let folder = dues.beside("");
    let bin = Path::new(&python()).parent().unwrap().to_path_buf();
    let path = std::env::join_paths(
        std::iter::once(bin).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    succeeds(
        Command::new(python())
            .args(["-m", "openapi_python_client", "generate", "--meta", "none", "--fail-on-warning"])
            .args(["--path", &document, "--output-path"])
            .arg(folder.join("client"))
            .arg("--config")
            .arg(scripts.join("config.yml"))
            // Its formatter is installed next to it.
            .env("PATH", path.unwrap()),
    );

    let id = dues.id("u-1", 0);
    let base = format!("http://{}", serving.address);
    let printed =
        succeeds(Command::new(python()).arg(scripts.join("calls.py")).arg(&folder).args([&base, "u-1", &id]));
    let calls: Value = serde_json::from_str(&printed).unwrap();
    let calls = calls.as_object().unwrap();
    assert_eq!(calls.len(), 12);
    for (name, call) in calls {
        let is_missing = name == "missing";
        assert_eq!(call["status"], if is_missing { 404 } else { 200 }, "{name}");
        assert_eq!(call["type"] == "Error", is_missing, "{name}");
    }
    let record = &calls["get_subscription"]["body"];
    assert_eq!((&record["subscription_id"], &record["billing_status"]), (&id.into(), &"SCHEDULED".into()));
    assert_eq!(calls["usage_get_user"]["body"]["user_id"], "u-1");
}

#[test]
fn generated_typescript_types_are_strict() {
    let (dues, _serving, document) = served();
    let tools = folder_in(&target()).join("node_modules/.bin");
    let types = dues.beside("").join("api.d.ts");
    succeeds(Command::new(tools.join("openapi-typescript")).arg(&document).arg("--output").arg(&types));
    let used = dues.file(
        "client.ts",
        br#"import type { components, operations } from "./api";
type BillingRecord = components["schemas"]["Record"];
export const status = (record: BillingRecord): string => record.billing_status;
export type Listed = operations["list_subscriptions"]["responses"][200]["content"]["application/json"];
"#,
    );
    succeeds(Command::new(tools.join("tsc")).args(["--strict", "--noEmit", &used]));
}
