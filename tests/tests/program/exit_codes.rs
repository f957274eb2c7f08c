//! Exit codes, as docs/exit-codes.md lists them.

use crate::support::records::activate;
use crate::support::run::Dues;

#[test]
fn zero_is_done_one_is_failed_two_is_wrong_usage() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    dues.ingest_bytes("memberships", b"no json\n");
    let id = dues.id("u-1", 0);
    let (parked, taken) =
        (dues.parked()[0]["parked_id"].as_str().unwrap().to_owned(), dues.file("taken", b"kept"));
    let count = ["usage", "count", "u-1", "strategies", "--action", "made"];
    let rows: &[(&[&str], i32)] = &[
        (&["--help"], 0),
        (&["ingest", "--help"], 0),
        (&["audit"], 0),
        (&["replay", "--dry-run"], 0),
        (&["show", "no-such-user"], 0),
        (&["explain", "no-such-user"], 1),
        (&["explain", "u-1"], 0),
        (&["history", "nothing"], 1),
        (&["parked", "show", &parked], 0),
        (&["parked", "show", "nothing"], 1),
        (&["parked", "redrive", &parked], 0),
        (&["parked", "redrive", "nothing"], 1),
        (&["collect", "--process", "INITIAL", "--as-of", "2026-02-01"], 0),
        (&["waive", "u-1", "nothing"], 1),
        (&["resume", "u-1", &id], 1),
        (&["risk"], 0),
        (&["notify"], 0),
        (&count, 0),
        (&count, 1),
        (&["usage", "who", "nothing"], 1),
        (&["export", &taken], 1),
        (&["backup", &taken], 1),
        (&["import", &taken], 1),
        (&["ingest", "--stream", "memberships", "nowhere"], 1),
        (&["serve", "--host", "0.0.0.0"], 1),
        (&["completions", "bash"], 0),
        (&[], 2),
        (&["frobnicate"], 2),
        (&["audit", "--deep"], 2),
        (&["explain", "u-1", "--at", "soon"], 2),
        (&["ingest", "--stream", "nothing", "-"], 2),
        (&["parked", "redrive"], 2),
        (&["serve", "--schedule", "retry=25:00"], 2),
    ];
    for (args, code) in rows {
        let output = dues.run(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{args:?}: {said}");
        assert_eq!(said.starts_with("dues: "), *code == 1, "{args:?}: {said}");
    }
    assert_eq!(std::fs::read(taken).unwrap(), b"kept");
}

#[test]
fn rows_that_differ_fail_the_audit_and_a_dry_run_until_they_are_repaired() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    let database = rusqlite::Connection::open(dues.data().join("dues.db")).unwrap();
    // A record with history but no primary row.
    assert_eq!(database.execute(r#"DELETE FROM "billing-activity""#, []).unwrap(), 1);
    let code = |args: &[&str]| dues.run(args).status.code();
    assert_eq!(
        [&["audit"][..], &["replay", "--dry-run"], &["replay"], &["audit"]].map(code),
        [Some(1), Some(1), Some(0), Some(0)]
    );
}
