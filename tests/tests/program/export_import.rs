//! Moving all data: by export and import, and by backup.

use serde_json::{Value, json};
use std::process::Command;

use crate::support::run::{Dues, assert_says, program};

/// A small company with data: dues that were paid and returned, Stripe's events, credits, something parked.
fn company() -> Dues {
    let dues = Dues::new();
    dues.ok(&["demo", "--members", "40", "--months", "2", "--headless"]);
    dues
}

/// A command on the demo's data, or on another folder.
fn on(folder: &std::path::Path, args: &[&str]) -> Value {
    let output = Command::new(program())
        .args(["--data", folder.to_str().unwrap()])
        .args(args)
        .arg("--json")
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A few members as shown, and what is parked.
fn looks(folder: &std::path::Path) -> Vec<Value> {
    let members = (0..40).step_by(7).map(|n| on(folder, &["show", &format!("member-{n:06}")]));
    members.chain([on(folder, &["parked"])]).collect()
}

#[test]
fn an_export_is_imported_into_an_empty_folder_and_everything_is_there_again() {
    let dues = company();
    let (from, to) = (dues.data().join("demo"), dues.beside("elsewhere"));
    let file = dues.beside("all.ndjson");
    let exported = on(&from, &["export", file.to_str().unwrap()]);
    let imported = on(&to, &["import", file.to_str().unwrap()]);
    assert_eq!(exported["rows"], imported["rows"]);
    assert!(imported["rows"].as_u64().unwrap() > 300, "{imported}");
    assert_eq!(looks(&to), looks(&from));
    let audited = on(&to, &["audit"]);
    assert_eq!(audited["findings"], json!([]));
    assert!(audited["events"].as_u64().unwrap() > 300, "{audited}");
    assert_eq!(on(&to, &["replay", "--dry-run"])["replayed"][0]["differences"], json!([]));
    // Imported changes are not published again.
    let output = Command::new(program())
        .args(["--data", to.to_str().unwrap(), "tail", "subscriptions", "--all", "--json"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "");

    let again = Command::new(program())
        .args(["--data", to.to_str().unwrap(), "import", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(again.status.code(), Some(1));
    assert_says(&String::from_utf8_lossy(&again.stderr), &["is not empty"]);
    let spoiled = std::fs::read_to_string(&file).unwrap().replacen(
        "\"table\":\"billing-activity\"",
        "\"table\":\"nonsense\"",
        1,
    );
    let spoiled = dues.file("spoiled.ndjson", spoiled.as_bytes());
    let third = dues.beside("third");
    let refused = Command::new(program())
        .args(["--data", third.to_str().unwrap(), "import", &spoiled])
        .output()
        .unwrap();
    assert_says(&String::from_utf8_lossy(&refused.stderr), &["line 2: unknown table \"nonsense\""]);
}

#[test]
fn a_backup_is_the_same_data_in_one_file() {
    let dues = company();
    let (from, to) = (dues.data().join("demo"), dues.beside("restored"));
    std::fs::create_dir_all(&to).unwrap();
    let file = to.join("dues.db");
    assert!(on(&from, &["backup", file.to_str().unwrap()])["bytes"].as_u64().unwrap() > 10_000);
    assert_eq!(looks(&to), looks(&from));
    assert_eq!(on(&to, &["audit"])["findings"], json!([]));
    let again = Command::new(program())
        .args(["--data", from.to_str().unwrap(), "backup", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert_says(&String::from_utf8_lossy(&again.stderr), &["already exists"]);
}
