//! A year of five thousand members, checked by an independent auditor.
//!
//! `books` is the auditor: it takes the gateway's ledger and the rows of the tables as plain JSON, and has
//! its own calendar, holidays and return codes. It shares no code with the engine, and is itself tested:
//! every rule is broken once, and it must notice.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod books;

use books::{Books, audit};
use dues_store::embedded::Embedded;
use dues_store::table::{BILLING_ACTIVITY, HISTORY, SANDBOX};
use dues_tests::fixtures::company::all;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Runs the demo in a folder and reads everything that it left.
async fn year(members: &str, months: &str, seed: &str) -> (Books, Value) {
    let folder = tempfile::TempDir::new().unwrap();
    let program =
        std::env::var_os("DUES_BIN").expect("DUES_BIN names the program: `cargo xtask test` sets it");
    let ran = Command::new(program)
        .args([
            "--data",
            folder.path().to_str().unwrap(),
            "demo",
            "--members",
            members,
            "--months",
            months,
            "--seed",
            seed,
            "--json",
        ])
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let summary = serde_json::from_slice(&ran.stdout).unwrap();
    let engine = Embedded::open(&Path::new(folder.path()).join("demo").join("dues.db")).unwrap();
    let rows =
        async |table| all(&engine, table).await.iter().map(dues_events::Item::to_json).collect::<Vec<_>>();
    let debits = rows(&SANDBOX).await.into_iter().filter(|row| row["submitted_at"].is_string()).collect();
    (Books { debits, records: rows(&BILLING_ACTIVITY).await, history: rows(&HISTORY).await }, summary)
}

#[tokio::test]
async fn the_money_of_a_year_adds_up() {
    let (books, summary) = year("5000", "12", "2026").await;
    let found = audit(&books);
    assert!(
        found.problems.is_empty(),
        "{} problems, the first: {:#?}",
        found.problems.len(),
        &found.problems[..found.problems.len().min(5)]
    );
    // Every kind of event occurred in this year.
    for (what, least) in [
        ("debits", 40_000),
        ("settled", 35_000),
        ("returned", 1_000),
        ("returned late", 30),
        ("charged back", 20),
        ("refunded", 100),
        ("presented again", 500),
        ("paused", 50),
        ("pauses run out", 20),
        ("cancelled", 300),
        ("reactivated", 100),
        ("plans changed", 200),
        ("members barred", 50),
    ] {
        let seen = found.seen.get(what).copied().unwrap_or(0);
        assert!(seen >= least, "{what}: {seen}, expected {least} or more: {:?}", found.seen);
    }
    assert_eq!(summary["differences"], 0);
    assert_eq!(summary["collected"].as_str().unwrap(), found.collected, "the program's own sum");
    assert_eq!(summary["debits"].as_u64().unwrap(), found.seen["debits"]);
}

/// A small year, with one thing wrong at a time: an auditor that finds nothing is worth nothing.
#[tokio::test]
async fn the_auditor_notices_every_broken_rule() {
    let (books, _) = year("150", "8", "11").await;
    assert_eq!(audit(&books).problems, Vec::<String>::new());
    for (name, breakage) in books::breakages() {
        let mut broken = books.clone();
        assert!(breakage(&mut broken), "{name}: nothing to break in this year");
        assert!(!audit(&broken).problems.is_empty(), "{name} went unnoticed");
    }
}
