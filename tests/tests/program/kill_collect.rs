//! `dues collect` is killed while it works, runs twice at once, and collects from very many members: each
//! record is debited once.

use dues_events::{Record, Status};
use dues_processors::billing::ach_handler::STREAM;
use dues_processors::collections::gateway::sandbox::{Odds, Sandbox};
use dues_store::{Store, SystemClock};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::kill_ingest::said;
use crate::sandbox_ledger::{tally, wait_for};
use crate::support::records::{change, plus};
use crate::support::run::{Dues, alone, counts, ndjson};
use crate::support::workload::Dice;

const FIRST: &str = "2026-02-02T08:00:00Z";
/// A lease of one second.
const SHORT: &str = "1";
const USUAL: &str = "60";
/// How many members the killed runs debit.
const MEMBERS: usize = 400;
/// How many kills must hit a running program.
const KILLS: usize = 24;
/// Kills per folder. Finished work stays finished, so later runs find less to do.
const KILLS_A_FOLDER: usize = 6;

/// Members with ids spread over the key space, due since 1 February 2026.
fn due(members: usize) -> Dues {
    let dues = Dues::new();
    let joined: Vec<Value> = (0..members as u64)
        .map(|n| {
            let user = format!("u-{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            change(&format!("m-{n}"), "ACTIVATE", &user, "2026-01-05", plus("2026-02-01"))
        })
        .collect();
    assert_eq!(dues.ingest_bytes("memberships", &ndjson(&joined)), counts([("applied", members as u64)]));
    dues
}

/// A run with a lease of this many seconds. Short leases are for runs that are killed: a busy machine may
/// delay a living run's heartbeats for a second.
fn start(dues: &Dues, lease: &str) -> Child {
    let mut command = dues.command(&["collect", "--process", "INITIAL", "--as-of", FIRST, "--json"]);
    command
        .env("DUES_LOCK_LEASE_SECONDS", lease)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The counts of a run that is left alive, and whether it found another run's locks.
fn finish(child: Child) -> (BTreeMap<String, u64>, bool) {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{}: {said}", output.status);
    (tally(&serde_json::from_slice(&output.stdout).unwrap()), met_locks(&said))
}

/// Whether a run found locks of a killed run.
fn met_locks(said: &str) -> bool {
    said.contains("members are locked by another worker")
}

/// One debit for each member, recorded with its confirmation, and one next record.
fn assert_each_debited_once(dues: &Dues, members: usize, what: &str) {
    let books = dues.books();
    assert_eq!(books.len(), members, "debits: {what}");
    let mut records: BTreeMap<String, Vec<Record>> = BTreeMap::new();
    for record in dues.records() {
        records.entry(record.user_id.to_string()).or_default().push(record);
    }
    assert_eq!(records.len(), members);
    for booked in books {
        let mut mine = records
            .remove(&booked.user)
            .unwrap_or_else(|| panic!("{booked:?} is the second of its member: {what}"));
        mine.sort_by_key(|record| record.billing_date.at());
        assert_eq!(
            mine.iter().map(Record::status).collect::<Vec<_>>(),
            [Status::AchSent, Status::Scheduled],
            "{what}"
        );
        let sent = &mine[0];
        assert_eq!(
            sent.state.transaction_id().map(ToString::to_string),
            Some(booked.transaction.clone()),
            "{what}"
        );
        assert_eq!(
            (sent.subscription_id.as_str(), sent.attempts.count()),
            (booked.subscription.as_str(), 1),
            "{what}"
        );
        assert_eq!(sent.next.as_ref(), Some(&mine[1].subscription_id), "{what}");
    }
}

#[test]
fn kills_at_any_moment_leave_one_debit_for_each_member() {
    let _alone = alone();
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mut dice = Dice::new(seed);
    let undisturbed = due(MEMBERS);
    let begun = Instant::now();
    assert_eq!(finish(start(&undisturbed, USUAL)), (counts([("sent", MEMBERS as u64)]), false));
    let mut took = begun.elapsed();
    assert_each_debited_once(&undisturbed, MEMBERS, "undisturbed");

    let (mut kills, mut met, mut in_doubt) = (0, 0, 0);
    for folder in 0.. {
        if kills >= KILLS {
            break;
        }
        assert!(folder < KILLS, "only {kills} kills in {folder} folders hit a running program");
        let dues = due(MEMBERS);
        for n in 0..KILLS_A_FOLDER {
            // Every other run lives long enough to take over the locks of the one before it.
            let lease = Duration::from_secs(if n % 2 == 1 { 1 } else { 0 });
            // Not in the first eighth: that would only hit the program's start.
            let mut child = start(&dues, SHORT);
            let outlived = outlives(&mut child, lease + took / 8 + dice.within(took));
            met += usize::from(met_locks(&said(&mut child)));
            match outlived {
                None => kills += 1,
                // The machine is faster than before.
                Some(life) if n == 0 => took = life,
                Some(_) => break,
            }
        }
        in_doubt += dues.records().iter().filter(|record| record.in_doubt().is_some()).count();
        let (summary, has_met_locks) = finish(start(&dues, USUAL));
        met += usize::from(has_met_locks);
        assert_eq!(summary.get("locked"), None, "all were taken over: {summary:?}");
        assert!(summary.keys().all(|name| name == "sent"), "{summary:?}");
        assert_eq!(finish(start(&dues, USUAL)), (counts([]), false), "nothing is left to do");
        assert_each_debited_once(&dues, MEMBERS, &format!("seed {seed}, folder {folder}"));
    }
    println!(
        "{kills} kills; {met} runs met locks of one that was killed; {in_doubt} debits were in doubt before \
            a last run"
    );
    assert!(met * 8 >= kills, "seed {seed}: only {met} of {kills} kills hit a visit");
}

/// Kills a program after this long, unless it ends before: then returns how long it took.
fn outlives(child: &mut Child, life: Duration) -> Option<Duration> {
    let begun = Instant::now();
    while begun.elapsed() < life {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            return Some(begun.elapsed());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert!(status.success() || status.code().is_none(), "{status}");
    status.success().then(|| begun.elapsed())
}

#[test]
fn kills_while_news_comes_in_leave_each_debit_settled_once() {
    let _alone = alone();
    let dues = due(MEMBERS);
    assert_eq!(finish(start(&dues, USUAL)).0, counts([("sent", MEMBERS as u64)]));
    let deliver = |dues: &Dues| {
        dues.command(&["sandbox", "deliver", "--as-of", "2026-02-05", "--json"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let settled = |dues: &Dues| -> Vec<Record> {
        dues.records().into_iter().filter(|record| record.status() == Status::Completed).collect()
    };
    let undisturbed = dues.copy();
    let mut took = outlives(&mut deliver(&undisturbed), Duration::from_secs(60)).unwrap();
    let expected = settled(&undisturbed);
    assert_eq!(expected.len(), MEMBERS);
    let mut dice = Dice::new(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs());
    let mut kills = 0;
    for round in 0.. {
        if kills >= 8 {
            break;
        }
        assert!(round < 80, "only {kills} kills in {round} rounds hit a running program");
        let dues = dues.copy();
        match outlives(&mut deliver(&dues), took / 8 + dice.within(took)) {
            None => kills += 1,
            // The machine is faster than before.
            Some(life) => took = life,
        }
        dues.json(&["sandbox", "deliver", "--as-of", "2026-02-05"]);
        assert_eq!(dues.deliver("2026-02-05"), 0, "nothing is left to deliver");
        assert_eq!(dues.parked(), Vec::<Value>::new());
        let found = settled(&dues);
        assert_eq!(found.len(), MEMBERS, "settled after {kills} kills");
        assert_eq!(found, expected, "versions and all");
    }
}

#[test]
fn news_that_a_killed_run_left_on_the_stream_is_brought_in_by_the_next() {
    let dues = due(3);
    assert_eq!(finish(start(&dues, USUAL)).0, counts([("sent", 3)]));
    // The state left by a run that is killed once the network's events are on the stream.
    let killed = async {
        let store = Store::new(dues.engine(), SystemClock::shared());
        let network = Sandbox::new(store.clone(), Odds::NONE);
        let now = dues_tests::fixtures::company::t("2026-02-05T00:00:00Z");
        let news = network.due_events(now).await.unwrap();
        assert_eq!(news.len(), 3);
        let records =
            news.iter().map(|outcome| (String::new(), outcome.record.clone().into_bytes())).collect();
        store.engine.append(STREAM, now, records).await.unwrap();
        network.mark_published(news).await.unwrap();
    };
    wait_for(killed);
    assert_eq!(dues.deliver("2026-02-05"), 3);
    assert!(dues.records().iter().all(|record| record.status() != Status::AchSent));
}

#[test]
fn two_runs_at_once_make_one_debit_for_each_member() {
    let _alone = alone();
    for round in 0..3 {
        let dues = due(MEMBERS);
        let summaries = [start(&dues, USUAL), start(&dues, USUAL)].map(finish);
        let sent: u64 = summaries.iter().filter_map(|(counts, _)| counts.get("sent")).sum();
        assert!(summaries.iter().all(|(counts, _)| !counts.contains_key("locked")), "{summaries:?}");
        assert_eq!(sent, MEMBERS as u64, "round {round}: {summaries:?}");
        assert_each_debited_once(&dues, MEMBERS, &format!("round {round}: {summaries:?}"));
    }
}

#[test]
fn five_times_as_many_members_need_no_more_memory() {
    let _alone = alone();
    let [small, large] = [20_000, 100_000].map(|members| {
        let dues = due(members);
        let begun = Instant::now();
        let mut child = start(&dues, USUAL);
        let mut peak = 0;
        while child.try_wait().unwrap().is_none() {
            peak = peak.max(peak_memory(child.id()));
            std::thread::sleep(Duration::from_millis(20));
        }
        println!("{members} members: {:?}, {peak} kB", begun.elapsed());
        assert_eq!(finish(child), (counts([("sent", members as u64)]), false));
        assert_each_debited_once(&dues, members, &format!("{members} members"));
        peak
    });
    assert!(small > 1024, "{small} kB is no peak");
    assert!(large * 2 < small * 3, "{large} kB for five times as many as {small} kB were enough for");
}

/// The peak memory of a process, in kB; 0 once it is gone.
fn peak_memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn a_member_whom_another_worker_has_is_left_alone_or_waited_for() {
    let dues = due(2);
    let users: Vec<String> = dues.records().iter().map(|record| record.user_id.to_string()).collect();
    dues.hold(&format!("subscription-billing:user_id:{}", users[0]));
    let args = ["collect", "--process", "INITIAL", "--as-of", FIRST];
    assert_eq!(
        tally(&dues.json(&[&args[..], &["--no-wait"]].concat())),
        counts([("sent", 1), ("locked", 1)])
    );
    assert_eq!(dues.statuses(&users[0]), ["SCHEDULED"]);
    assert_eq!(
        finish(start(&dues, USUAL)),
        (counts([("sent", 1)]), true),
        "its holder is dead: the lease passes"
    );
    assert_each_debited_once(&dues, 2, "taken over");
}
