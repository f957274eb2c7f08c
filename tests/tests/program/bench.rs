//! `dues bench`: the numbers are present and plausible.

use crate::support::run::{Dues, alone};

#[test]
fn the_benchmark_prints_its_numbers_and_leaves_nothing_behind() {
    let _alone = alone();
    let dues = Dues::new();
    let report = dues.json(&["bench", "--events", "20000", "--rows", "20000"]);
    let number =
        |name: &str| report[name].as_f64().unwrap_or_else(|| panic!("{name} is missing in {report}"));
    assert_eq!(report["events"], 20_000);
    assert!(number("events_per_s") > 100.0 && number("raw_sqlite_events_per_s") > 100.0, "{report}");
    assert!(number("flat") > 0.2, "a store that holds rows already is much slower: {report}");
    // A loose bound: machines are noisy, and other tests run concurrently.
    assert!(number("ratio") > 0.2, "{report}");
    assert!(number("peak_memory_mb") > 0.0 && number("peak_memory_mb") < 300.0, "{report}");
    assert!(!dues.data().exists(), "the folder of the measurement was left behind");
}

#[test]
fn the_benchmark_leaves_the_data_beside_it_alone() {
    let _alone = alone();
    let dues = Dues::new();
    dues.members(&[crate::support::records::activate("m-1", "u-1")]);
    let shown = dues.ok(&["show", "u-1", "--json"]);
    let said = dues.ok(&["bench", "--events", "1000"]);
    assert!(
        said.contains("settlements/s") && said.contains("ratio") && said.contains("peak memory"),
        "{said}"
    );
    assert_eq!(dues.ok(&["show", "u-1", "--json"]), shown);
    let mut left: Vec<String> = std::fs::read_dir(dues.data())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    left.retain(|name| !name.starts_with("dues.db"));
    assert!(left.is_empty(), "{left:?} was left behind");
}

#[test]
fn the_benchmark_of_the_server_measures_both_sides_in_one_run() {
    let _alone = alone();
    let dues = Dues::new();
    let report = dues.json(&["bench", "serve", "--events", "10000"]);
    let number =
        |name: &str| report[name].as_f64().unwrap_or_else(|| panic!("{name} is missing in {report}"));
    // Loose bounds: machines are noisy, and other tests run concurrently. The required numbers are measured
    // by hand, on a quiet machine.
    assert!(number("bench_events_per_s") > 100.0 && number("share") > 0.2, "{report}");
    assert!(number("acknowledged_p50_ms") > 0.0 && number("acknowledged_p99_ms") < 1000.0, "{report}");
    assert!(number("acknowledged_p50_ms") <= number("acknowledged_p99_ms"), "{report}");
    let memory = report["memory_mb"].as_array().unwrap();
    assert_eq!(memory.len(), 11, "at the start and after each tenth");
    assert!(number("peak_memory_mb") > 0.0 && number("peak_memory_mb") < 300.0, "{report}");
    assert_eq!(report["refused"], 0);
    assert!(!dues.data().exists(), "the folder of the measurement was left behind");
}

#[test]
fn the_benchmark_of_audits_folds_every_event_of_a_company() {
    let _alone = alone();
    let dues = Dues::new();
    let report = dues.json(&["bench", "audit", "--members", "40", "--months", "2"]);
    let number =
        |name: &str| report[name].as_f64().unwrap_or_else(|| panic!("{name} is missing in {report}"));
    assert!(number("audit_events") > 1000.0 && number("replay_events") > 1000.0, "{report}");
    // Replay folds no entitlements.
    assert!(number("replay_events") < number("audit_events"), "{report}");
    // A loose bound: the goal is a hundred times this, on a quiet machine.
    assert!(number("audit_events_per_s") > 1000.0 && number("replay_events_per_s") > 1000.0, "{report}");
    assert!(!dues.data().exists(), "the folder of the measurement was left behind");
}
