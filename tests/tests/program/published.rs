//! Published changes: whichever command makes a change, it is on the local streams when the command ends,
//! and a killed program loses nothing.

use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::sandbox_ledger::wait_for;
use crate::support::records::{activate, change, plain, plus};
use crate::support::run::{Dues, alone, assert_has, counts, ndjson};
use crate::support::server::{Serving, TIMEOUT};
use crate::support::workload::Dice;

const FIRST: &str = "2026-02-02T08:00:00Z";
const LATER: &str = "2026-02-05T08:00:00Z";
/// How many members the killed runs change.
const MEMBERS: usize = 600;
/// How many kills must hit a running program.
const KILLS: usize = 12;
/// Kills per folder. Finished work stays finished, so later runs find less to do.
const KILLS_A_FOLDER: usize = 3;

impl Dues {
    /// The messages of a stream, without repeats; repeats must be identical.
    fn published_on(&self, stream: &str) -> Vec<Value> {
        let mut known: HashMap<String, Value> = HashMap::new();
        let mut messages = Vec::new();
        for mut record in self.tail(stream, &["--all"]) {
            let message = record["data"].take();
            let id = message["id"].as_str().unwrap().to_owned();
            match known.insert(id, message.clone()) {
                Some(before) => assert_eq!(before, message, "a repeat is another message"),
                None => messages.push(message),
            }
        }
        messages
    }

    /// The bus messages: type and short content.
    fn bus(&self) -> Vec<(String, String)> {
        let short = |message: &Value| {
            let (kind, detail) = (message["detail-type"].as_str().unwrap(), &message["detail"]);
            assert_eq!((&detail["id"], &message["source"]), (&message["id"], &json!("dues")));
            let names: &[&str] = match kind {
                "SubscriptionStatusChanged" => &["user_id", "old_status", "new_status"],
                "TierChanged" => &["user_id", "old_tier", "new_tier"],
                "CreditsGranted" => &["user_id", "kind", "credits"],
                _ => &["user_id"],
            };
            let words: Vec<String> =
                names.iter().map(|name| detail[*name].to_string().replace('"', "")).collect();
            (kind.to_owned(), words.join(" "))
        };
        self.published_on("events").iter().map(short).collect()
    }
}

#[test]
fn every_change_is_published_once() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1"), activate("m-2", "u-2")]);
    let updates = dues.published_on("subscriptions");
    assert_eq!(updates.len(), 2);
    let record = dues.only("u-1");
    let first = updates.iter().find(|update| update["user_id"] == "u-1").unwrap();
    assert_has(
        first,
        &json!({"event": "subscription-updated", "subscription_id": record["subscription_id"], "version": 1}),
    );
    assert_has(
        &first["subscription"],
        &json!({"billing_status": "SCHEDULED", "billing_date": record["billing_date"],
            "billing_amount": "14.99"}),
    );
    let changed = |words: &str| ("SubscriptionStatusChanged".to_owned(), words.to_owned());
    assert_eq!(dues.bus(), [changed("u-1 null SCHEDULED"), changed("u-2 null SCHEDULED")]);

    // The same facts again publish nothing, and neither does a command with nothing to do.
    let before = (dues.tail("subscriptions", &["--all"]), dues.tail("events", &["--all"]));
    dues.members(&[activate("m-1", "u-1"), activate("m-2", "u-2")]);
    dues.json(&["collect", "--process", "RETRY", "--as-of", FIRST]);
    assert_eq!((dues.tail("subscriptions", &["--all"]), dues.tail("events", &["--all"])), before);
}

#[test]
fn a_payment_is_published_from_the_debit_to_the_credits() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    assert_eq!(dues.collect("INITIAL", FIRST), counts([("sent", 1)]));
    assert_eq!(dues.deliver(LATER), 1);
    let published = dues.bus();
    let has = |kind: &str, words: &str| published.contains(&(kind.to_owned(), words.to_owned()));
    for words in ["u-1 null SCHEDULED", "u-1 SCHEDULED ACHSENT", "u-1 ACHSENT COMPLETED"] {
        assert!(has("SubscriptionStatusChanged", words), "{words} in {published:?}");
    }
    assert!(
        has("TierChanged", "u-1 free JOURNEYMAN") && has("CreditsGranted", "u-1 GRANT 5"),
        "{published:?}"
    );

    dues.members(&[
        change("m-2", "PAUSE", "u-1", "2026-02-06", json!({"pause_duration_months": 1})),
        plain("m-3", "UNPAUSE", "u-1", "2026-02-07"),
    ]);
    let events: Vec<Value> =
        dues.published_on("subscriptions").iter().map(|update| update["event"].clone()).collect();
    assert_eq!(events.last(), Some(&json!("pause-resume")), "{events:?}");
    let versions = versions(&dues);
    for record in dues.subscriptions("u-1") {
        let id = record["subscription_id"].as_str().unwrap();
        assert_eq!(versions[id], (1..=record["version"].as_u64().unwrap()).collect::<Vec<_>>());
    }
}

/// The published versions of each billing record, in order.
fn versions(dues: &Dues) -> BTreeMap<String, Vec<u64>> {
    let mut versions: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for update in dues.published_on("subscriptions") {
        versions
            .entry(update["subscription_id"].as_str().unwrap().to_owned())
            .or_default()
            .push(update["version"].as_u64().unwrap());
    }
    versions
}

#[test]
fn a_program_that_is_killed_loses_no_message_and_swaps_none() {
    let _alone = alone();
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    println!("seed {seed} (the moments of the kills differ)");
    let mut dice = Dice::new(seed);
    let calm = Dues::new();
    let start = Instant::now();
    ingest(&calm).output().unwrap();
    let took = start.elapsed();
    let (mut kills, mut cut_short) = (0, 0);
    while kills < KILLS {
        let dues = Dues::new();
        for _ in 0..KILLS_A_FOLDER {
            let mut child = ingest(&dues).spawn().unwrap();
            std::thread::sleep(took / 4 + dice.within(took * 3 / 4));
            kills += usize::from(child.try_wait().unwrap().is_none());
            child.kill().unwrap();
            child.wait().unwrap();
            cut_short += usize::from(behind(&dues));
        }
        assert!(ingest(&dues).status().unwrap().success());
        let versions = versions(&dues);
        assert_eq!(versions.len(), MEMBERS, "seed {seed}");
        for record in dues.records() {
            let seen = &versions[record.subscription_id.as_str()];
            assert_eq!(
                *seen,
                (1..=record.version).collect::<Vec<_>>(),
                "seed {seed}: {} of {}",
                record.subscription_id,
                record.user_id
            );
        }
        for stream in ["subscriptions", "events"] {
            assert_eq!(ids(&dues, stream), ids(&calm, stream), "seed {seed}: {stream}");
        }
    }
    println!("{kills} kills, {cut_short} of them before everything was published");
    assert!(cut_short > 0, "seed {seed}: no kill interrupted publishing");
}

/// Ingests members who join, pause and resume.
fn ingest(dues: &Dues) -> Command {
    let lines: Vec<Value> = (0..MEMBERS)
        .flat_map(|n| {
            let (user, event) = (format!("u-{n}"), |kind: &str| format!("{kind}-{n}"));
            [
                change(&event("a"), "ACTIVATE", &user, "2026-01-05", plus("2026-02-01")),
                change(&event("p"), "PAUSE", &user, "2026-01-06", json!({"pause_duration_months": 2})),
                plain(&event("u"), "UNPAUSE", &user, "2026-01-07"),
            ]
        })
        .collect();
    let file = dues.file("members.ndjson", &ndjson(&lines));
    let mut command = dues.command(&["ingest", "--stream", "memberships", &file]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Whether there are unpublished changes.
fn behind(dues: &Dues) -> bool {
    let engine = dues.engine();
    !engine.changes(engine.checkpoint("kinesis-feeder", "changes").unwrap(), 1).unwrap().is_empty()
}

fn ids(dues: &Dues, stream: &str) -> Vec<String> {
    let mut ids: Vec<String> =
        dues.published_on(stream).iter().map(|message| message["id"].to_string()).collect();
    ids.sort();
    ids
}

#[test]
fn each_follower_reads_all_changes() {
    let ahead = |name: &str| {
        let dues = Dues::new();
        dues.members(&[activate("m-1", "u-1")]);
        dues.profile("u-1", "SAGE", "cognito");
        let engine = dues.engine();
        let last = engine.changes(0, 10).unwrap().pop().unwrap().seq;
        wait_for(engine.set_checkpoint(name, "changes", last)).unwrap();
        drop(engine);
        dues.members(&[activate("m-2", "u-2")]);
        let engine = dues.engine();
        for follower in ["projector", "kinesis-feeder"] {
            assert_eq!(
                engine.checkpoint(follower, "changes").unwrap(),
                engine.last_change().unwrap(),
                "{follower} has seen everything"
            );
        }
        dues
    };
    let published = ahead("projector").bus();
    assert!(published.contains(&("TierChanged".to_owned(), "u-1 free SAGE".to_owned())), "{published:?}");
    assert_eq!(ahead("kinesis-feeder").groups("u-1"), ["dues-sage"]);
}

#[test]
fn a_server_publishes_while_it_serves() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    let id = dues.id("u-1", 0);
    let server = Serving::start(&dues);
    let answer = server.ask("POST", &format!("/u-1/subscriptions/{id}/waive"), &[], b"");
    assert_eq!(answer.status, 200, "{answer:?}");
    let deadline = Instant::now() + TIMEOUT;
    while !dues.bus().contains(&("SubscriptionStatusChanged".to_owned(), "u-1 SCHEDULED WAIVED".to_owned())) {
        assert!(Instant::now() < deadline, "published: {:?}", dues.bus());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(versions(&dues)[&id], [1, 2]);
}
