//! The cost of counting an action on DynamoDB: requests and capacity units, counted. The plan follows the
//! user's access: besides the plan's rows, the head is read, and for a user without one the profile.

use dues_processors::Outcome;
use dues_processors::usage::{Settings, count};
use dues_store::table::usage::USER_USAGE;
use dues_store::usage::count::CountOutcome;
use dues_tests::engines;
use dues_tests::engines::dynoxide::{Call, Dynoxide};
use dues_tests::fixtures::company::t;
use dues_tests::fixtures::usage::{asked, at, dynamo_changes, projector};

/// The reads of a user's plan: its rows, the head, and the profile of a user without a head.
const PLAN: [&str; 3] = ["Query", "GetItem", "GetItem"];

/// The requests since the last call, and their read and write units.
fn cost(server: &Dynoxide, what: &str) -> (Vec<String>, f64, f64) {
    let calls = server.calls();
    server.reset_calls();
    let is_read = |call: &&Call| matches!(call.operation.as_str(), "GetItem" | "Query");
    let units = |reads: bool| {
        calls.iter().filter(|call| is_read(call) == reads).filter_map(|call| call.capacity).sum()
    };
    let cost = (calls.iter().map(|call| call.operation.clone()).collect(), units(true), units(false));
    println!("{what}: {cost:?}");
    cost
}

#[tokio::test]
async fn counting_reads_the_plan_and_the_access_and_writes_once() {
    let (engine, server) = engines::dynoxide().await;
    let (store, settings) = (at(&engine, t("2026-01-05T12:00:00Z")), Settings::default());
    let run = async |key: &str| {
        count(&store, &settings, &asked("ada", "simulations", "simulation_run", key)).await.unwrap()
    };
    server.reset_calls();

    // The first of a day: the assumed count is right.
    assert!(matches!(run("k-0").await, CountOutcome::Done(_)));
    let (requests, read, write) = cost(&server, "the first of a day");
    assert_eq!(requests, [&PLAN[..], &["TransactWriteItems"]].concat());
    // Two rows of a transaction are two units each; the usage row is in two indexes.
    assert!(read <= 3.0 && write <= 6.0, "{read} {write}");

    // Another: the refused first write returns the count, and the second updates it.
    assert!(matches!(run("k-1").await, CountOutcome::Done(_)));
    let (requests, read, write) = cost(&server, "another");
    assert_eq!(requests, [&PLAN[..], &["TransactWriteItems"; 2]].concat(), "the count is never read");
    assert!(read <= 3.0 && write <= 10.0, "{read} {write}");

    // A known key, and a reached limit: one write that is refused.
    assert!(matches!(run("k-0").await, CountOutcome::Done(_)));
    assert_eq!(cost(&server, "a known key").0, [&PLAN[..], &["TransactWriteItems"]].concat());
    assert!(matches!(run("k-2").await, CountOutcome::Done(_)));
    server.reset_calls();
    assert_eq!(run("k-3").await, CountOutcome::AtLimit { used: 3, limit: 3 });
    assert_eq!(cost(&server, "at the limit").0, [&PLAN[..], &["TransactWriteItems"]].concat());

    // The log: one put for each action, its type listed once.
    let changes = dynamo_changes(&server, &USER_USAGE);
    server.reset_calls();
    assert_eq!(projector(&store).project(&changes).await.outcomes, [const { Outcome::Applied }; 3]);
    let (requests, read, write) = cost(&server, "three rows of the log, at one instant");
    // All happened at one instant here: the second tries one nanosecond later, the third two.
    assert_eq!(requests, ["PutItem"; 7]);
    assert!(read <= 0.0 && write <= 1.0 + 3.0 * 3.0 + 3.0, "{read} {write}");
}
