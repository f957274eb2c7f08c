//! Output for people, help texts, and error messages.

use crate::support::records::{Debit, activate, plain};
use crate::support::run::{Dues, assert_says, ndjson};

#[test]
fn an_unknown_stream_and_a_missing_file_fail_with_a_message() {
    let dues = Dues::new();
    let file = dues.file("payments.ndjson", b"");
    let message = dues.fails(&["ingest", "--stream", "payments", &file, "--json"]);
    assert_says(&message, &["payments", "site-payments", "memberships"]);
    let message = dues.fails(&["ingest", "--stream", "site-payments", "no-such-file.ndjson", "--json"]);
    assert_says(&message, &["no-such-file.ndjson", "No such file"]);
    assert_says(
        &dues.fails(&["ingest", "--stream", "site-payments", &dues.folder_text(), "--json"]),
        &["dues: "],
    );
    assert_says(&dues.fails(&["frobnicate"]), &["frobnicate", "Usage"]);
}

impl Dues {
    fn folder_text(&self) -> String {
        self.beside("").to_str().unwrap().to_owned()
    }
}

#[test]
fn asking_an_empty_folder_is_a_clear_error_and_leaves_it_empty() {
    let dues = Dues::new();
    for args in [
        &["show", "u-1"][..],
        &["show", "u-1", "--json"],
        &["history", "s-1"],
        &["parked"],
        &["parked", "--json"],
    ] {
        let message = dues.fails(args);
        assert_says(&message, &["no data in", dues.data().to_str().unwrap(), "--data"]);
    }
    assert!(!dues.data().exists());
}

#[test]
fn a_user_without_records_is_inactive_and_an_unknown_record_is_an_error() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    assert_eq!(dues.status("u-9"), "INACTIVE");
    assert!(dues.subscriptions("u-9").is_empty());
    assert_says(&dues.ok(&["show", "u-9"]), &["u-9", "INACTIVE", "no billing records"]);
    assert_says(&dues.fails(&["history", "s-9"]), &["no billing record s-9"]);
}

#[test]
fn every_command_prints_what_operators_need() {
    let dues = Dues::new();
    let members = dues.file(
        "members.ndjson",
        &ndjson(&[activate("m-1", "u-1"), plain("m-2", "CANCEL", "u-9", "2026-01-06")]),
    );
    let said = dues.ok(&["ingest", "--stream", "memberships", &members]);
    assert_says(
        &said,
        &["read", "applied", "duplicate", "ignored", "skipped", "parked", " 2 ", "dues parked"],
    );

    let id = dues.id("u-1", 0);
    let debit = Debit::new("u-1", &id, "c-77");
    dues.payments(&[
        debit.submitted("p-1", "2026-02-01"),
        debit.returned("p-2", "2026-02-03", "R01", "Insufficient funds"),
    ]);
    dues.members(&[plain("m-3", "CANCEL", "u-1", "2026-02-04")]);
    let shown = dues.ok(&["show", "u-1"]);
    assert_says(
        &shown,
        &[
            "u-1",
            "2026-02-01",
            "2026-03-01",
            "ERROR",
            "SCHEDULED",
            "14.99",
            "Plus:v2",
            "c-77",
            "R01 Insufficient funds",
            &id,
        ],
    );
    assert_says(&shown, &["cancels 2026-03-01"]);
    let history = dues.ok(&["history", &id]);
    assert_says(
        &history,
        &[
            "m-1",
            "memberships ACTIVATE",
            "p-1",
            "site-payments SUBSCRIPTION_SUBMITTED",
            "ACHSENT",
            "p-2",
            "ERROR",
        ],
    );
    assert_says(&history, &["applied", "R01 Insufficient funds", "2026-02-03T15:30:00"]);
    assert_says(
        &dues.ok(&["parked"]),
        &["memberships", "line 2", "m-2", "u-9", "user_id: u-9 has no billing record", "1 parked"],
    );

    let clean = Dues::new();
    clean.members(&[activate("m-1", "u-1")]);
    assert_says(&clean.ok(&["parked"]), &["no parked records"]);
}

#[test]
fn help_names_every_command_with_an_example_and_the_exit_codes() {
    let dues = Dues::new();
    let help = dues.ok(&["--help"]);
    assert_says(
        &help,
        &["ingest", "show", "history", "parked", "bench", "--data", "DUES_DATA", "Examples", "Exit codes"],
    );
    assert_says(&dues.ok(&["--version"]), &["dues 0."]);
}

#[test]
fn the_data_folder_can_be_named_by_the_environment() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    let output = std::process::Command::new(crate::support::run::program())
        .args(["show", "u-1"])
        .env("DUES_DATA", dues.data())
        .output()
        .unwrap();
    assert_says(&String::from_utf8(output.stdout).unwrap(), &["u-1: SCHEDULED"]);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    let mut child = dues
        .command(&["show", "u-1"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
