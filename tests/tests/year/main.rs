//! Two years, each checked by an independent auditor.
//!
//! The demo's year has five thousand members; `books` audits it from the sandbox's ledger and the rows of
//! the tables. The hostile year has fewer members and goes wrong in every way there is: `company` runs the
//! program for its members and operators, `bank` is its payments service, `auditor` checks invariants 1 to
//! 3.
//!
//! Both auditors take plain rows and have a calendar, holidays and return codes of their own (`calendar`).
//! They share no code with the engine, and are themselves tested: every rule is broken once, and they must
//! notice.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod auditor;
mod bank;
mod books;
mod calendar;
mod company;

use books::{Books, audit};
use dues_store::embedded::Embedded;
use dues_store::table::{BILLING_ACTIVITY, HISTORY, SANDBOX};
use dues_tests::fixtures::company::all;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The program under test.
fn program() -> std::ffi::OsString {
    std::env::var_os("DUES_BIN").expect("DUES_BIN names the program: `cargo xtask test` sets it")
}

/// Runs the demo in a folder and reads everything that it left.
async fn year(members: &str, months: &str, seed: &str) -> (Books, Value) {
    let folder = tempfile::TempDir::new().unwrap();
    let ran = Command::new(program())
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

/// The hostile year; another one with `DUES_YEAR_SEED=N`.
fn hostile(members: usize, months: i64, seed: u64) -> company::Year {
    let seed = std::env::var("DUES_YEAR_SEED").map_or(seed, |seed| seed.parse().unwrap());
    println!("the hostile year with DUES_YEAR_SEED={seed}");
    company::Company::run(members, months, seed)
}

#[test]
fn the_hostile_year_adds_up() {
    let year = hostile(300, 12, 7);
    let found = auditor::audit(&year);
    println!("{:#?}\ncollected {}", found.seen, found.collected);
    assert!(
        found.problems.is_empty(),
        "{} problems, the first: {:#?}",
        found.problems.len(),
        &found.problems[..found.problems.len().min(20)]
    );
    // A year in which something never happened proves nothing about it.
    for (what, least) in [
        ("debits", 1500),
        ("settled", 1000),
        ("returned", 200),
        ("presented again", 80),
        ("charged back", 5),
        ("refunds", 100),
        ("notifications of change", 5),
        ("settled in another currency", 5),
        ("reported weeks late", 150),
        ("requests repeated after a failure", 20),
        ("requests failed while the service was down", 100),
        ("Friday records", 200),
        ("yearly records", 50),
        ("yearly records after a leap day", 1),
        ("upgraded", 50),
        ("downgraded", 30),
        ("paused", 80),
        ("resumed", 50),
        ("cancelled", 80),
        ("retracted", 50),
        ("accounts closed", 30),
        ("reactivated", 80),
        ("changes delivered twice", 50),
        ("too old", 10),
        ("waive", 20),
        ("pause", 10),
        ("resume", 2),
        ("cancel", 8),
        ("cancel now", 8),
        ("move", 15),
        ("pay", 15),
        ("pay new account", 15),
        ("refund", 30),
        ("apply", 8),
        ("dismiss", 20),
        ("money refund", 15),
        ("active memberships checked", 1500),
        ("due dates checked", 1500),
    ] {
        let seen = found.seen.get(what).copied().unwrap_or(0);
        assert!(seen >= least, "{what}: {seen}, expected {least} or more: {:?}", found.seen);
    }
    for (name, problem, breakage) in auditor::breakages() {
        let mut broken = year.clone();
        assert!(breakage(&mut broken), "{name}: nothing to break in this year");
        let problems = auditor::audit(&broken).problems;
        assert!(problems.iter().any(|found| found.contains(problem)), "{name} went unnoticed: {problems:?}");
    }
}
