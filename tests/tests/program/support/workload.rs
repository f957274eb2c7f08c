//! A generated crowd of members and their events, from a seed: input files, and the complete output of the
//! program afterwards.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::support::records::{Debit, change, plain, plus, tier};
use crate::support::run::{Dues, ndjson};

/// How many members there are.
const USERS: usize = 300;

/// A small random generator: the same seed always gives the same workload.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.roll() >> 11) as usize % n
    }

    /// A random moment within that duration.
    pub(crate) fn within(&mut self, time: Duration) -> Duration {
        let micros = usize::try_from(time.as_micros()).unwrap();
        Duration::from_micros(self.below(micros.max(1)) as u64)
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// A file, and how long an undisturbed run took to read it.
pub(crate) struct Part {
    pub(crate) stream: &'static str,
    pub(crate) lines: Vec<u8>,
    pub(crate) took: Duration,
}

/// The files in their order, and the output of an undisturbed run.
pub(crate) struct Crowd {
    pub(crate) parts: Vec<Part>,
    pub(crate) output: Output,
}

impl Crowd {
    /// Generates the files and reads each undisturbed: the later ones name records that the earlier ones
    /// create.
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let dues = Dues::new();
        let mut parts = Vec::new();
        for (n, stream) in
            ["memberships", "site-payments", "memberships", "site-payments"].into_iter().enumerate()
        {
            let lanes: Vec<Vec<Value>> = (0..USERS)
                .map(|u| {
                    let user = format!("u-{u}");
                    match n {
                        0 => joins(&mut dice, &user),
                        1 => pays(&mut dice, &dues, &user, 0, 2),
                        2 => changes(&mut dice, &user),
                        _ => pays(&mut dice, &dues, &user, 1, 3),
                    }
                })
                .collect();
            let records = shuffled(&mut dice, lanes);
            let records = with_noise(&mut dice, stream, records);
            let lines = ndjson_with_torn_lines(&mut dice, &records);
            for lines in slices(&lines) {
                let start = Instant::now();
                dues.ingest_bytes(stream, &lines);
                parts.push(Part { stream, lines, took: start.elapsed() });
            }
        }
        let output = Output::of(&dues);
        Self { parts, output }
    }
}

/// The events with which a user becomes a member.
fn joins(dice: &mut Dice, user: &str) -> Vec<Value> {
    let mut terms = plus(["2026-02-01", "2026-01-31", "2026-02-13"][dice.below(3)]);
    if dice.chance(10) {
        terms["term"] = json!("YEARLY");
    }
    let mut lane = vec![change(&format!("m-{user}-join"), "ACTIVATE", user, "2026-01-05", terms.clone())];
    match dice.below(8) {
        0 => lane.push(change(&format!("m-{user}-up"), "UPGRADE", user, "2026-01-06", tier("Pro", "29.99"))),
        1 => lane.push(change(
            &format!("m-{user}-down"),
            "DOWNGRADE",
            user,
            "2026-01-06",
            tier("Basic", "4.99"),
        )),
        2 => lane.push(change(&format!("m-{user}-again"), "ACTIVATE", user, "2026-01-07", terms)),
        3 => lane.extend([
            plain(&format!("m-{user}-c"), "CANCEL", user, "2026-01-08"),
            plain(&format!("m-{user}-r"), "RETRACT", user, "2026-01-09"),
        ]),
        4 => lane.extend([
            change(&format!("m-{user}-p"), "PAUSE", user, "2026-01-08", json!({"pause_duration_months": 2})),
            plain(&format!("m-{user}-u"), "UNPAUSE", user, "2026-01-09"),
        ]),
        _ => {}
    }
    lane
}

/// The events of the debits for a user's n-th record.
fn pays(dice: &mut Dice, dues: &Dues, user: &str, n: usize, month: u32) -> Vec<Value> {
    let records = dues.subscriptions(user);
    let Some(record) = records.get(n) else { return Vec::new() };
    let debit = Debit::new(user, record["subscription_id"].as_str().unwrap(), &format!("c-{user}-{month}-0"));
    let event = |what: &str| format!("p-{user}-{month}-{what}");
    let day = |day: u32| format!("2026-{month:02}-{day:02}");
    let mut lane = Vec::new();
    // Attempts that fail come first.
    for attempt in 0..dice.below(3) as u32 {
        let debit = debit.again(&format!("c-{user}-{month}-bad-{attempt}"));
        lane.push(debit.submitted(&event(&format!("bad-{attempt}")), &day(14 + attempt * 2)));
        lane.push(debit.returned(
            &event(&format!("back-{attempt}")),
            &day(15 + attempt * 2),
            "R01",
            "Insufficient funds",
        ));
    }
    let (sent, settled) =
        (debit.submitted(&event("sent"), &day(20)), debit.completed(&event("paid"), &day(22)));
    match dice.below(14) {
        0 => {}
        1 => lane.push(sent),
        2 => lane.extend([settled, sent]),
        3 => lane.extend([sent, settled, debit.returned(&event("late"), &day(27), "R10", "Not authorized")]),
        4 => lane.extend([sent, settled, debit.refunded(&event("refund"), &day(26))]),
        5 => lane.extend([sent, settled, debit.charged_back(&event("dispute"), &day(26))]),
        6 => lane.extend([sent, debit.again("c-unknown").completed(&event("old"), &day(21)), settled]),
        7 => lane.extend([sent, settled.clone(), debit.completed(&event("paid-too"), &day(23))]),
        8 => {
            // Parked, although it could apply after the return: it must not, however often it is delivered.
            let second =
                debit.again(&format!("c-{user}-{month}-second")).submitted(&event("second"), &day(21));
            lane.extend([
                sent,
                second,
                debit.returned(&event("back"), &day(22), "R01", "Insufficient funds"),
            ]);
        }
        9 => lane.extend([sent, debit.returned(&event("last"), &day(22), "R02", "Closed")]),
        _ => lane.extend([sent, settled]),
    }
    lane
}

/// The later changes of a membership.
fn changes(dice: &mut Dice, user: &str) -> Vec<Value> {
    let event = |what: &str| format!("m-{user}-feb-{what}");
    match dice.below(8) {
        0 => vec![change(&event("up"), "UPGRADE", user, "2026-03-01", tier("Max", "49.99"))],
        1 => vec![change(&event("down"), "DOWNGRADE", user, "2026-03-01", tier("Basic", "4.99"))],
        2 => vec![change(&event("pause"), "PAUSE", user, "2026-03-01", json!({"pause_duration_months": 3}))],
        3 => vec![plain(&event("cancel"), "CANCEL", user, "2026-02-25")],
        4 => vec![plain(&event("close"), "CLOSEACCOUNT", user, "2026-02-25")],
        5 => vec![change(&event("back"), "REACTIVATE", user, "2026-02-26", plus("2026-03-10"))],
        6 => vec![
            plain(&event("close"), "CLOSEACCOUNT", user, "2026-02-25"),
            change(&event("back"), "REACTIVATE", user, "2026-02-26", plus("2026-03-10")),
            change(&event("up"), "UPGRADE", user, "2026-03-01", tier("Max", "49.99")),
        ],
        _ => Vec::new(),
    }
}

/// Interleaves all users' records; each user's stay in order.
fn shuffled(dice: &mut Dice, lanes: Vec<Vec<Value>>) -> Vec<Value> {
    let mut waiting: Vec<_> = lanes.into_iter().map(|lane| lane.into_iter()).collect();
    let mut all = Vec::new();
    while !waiting.is_empty() {
        let n = dice.below(waiting.len());
        match waiting[n].next() {
            Some(record) => all.push(record),
            None => drop(waiting.swap_remove(n)),
        }
    }
    all
}

/// Repeats a fifth of the records later, and adds some of skipped types and some that cannot be processed.
fn with_noise(dice: &mut Dice, stream: &str, records: Vec<Value>) -> Vec<Value> {
    let mut all = records;
    for n in 0..all.len() / 5 {
        let from = dice.below(all.len());
        let to = from + 1 + dice.below(all.len() - from);
        all.insert(to, all[from].clone());
        if n % 10 == 0 {
            all.insert(
                dice.below(all.len()),
                json!({"event_id": format!("other-{n}"), "type": "SOMETHING_ELSE"}),
            );
        }
    }
    for n in 0..10 {
        let bad = match stream {
            "memberships" => plain(&format!("bad-{n}"), "CANCEL", &format!("no-such-user-{n}"), "2026-01-05"),
            _ => Debit::new(&format!("u-{n}"), "no-such-record", "c")
                .submitted(&format!("bad-{n}"), "2026-01-05"),
        };
        all.insert(dice.below(all.len()), bad);
    }
    all
}

fn ndjson_with_torn_lines(dice: &mut Dice, records: &[Value]) -> Vec<u8> {
    let mut lines = ndjson(records);
    for n in 0..3 {
        let torn = format!("{{\"event_id\":\"torn-{n}\",\"type\":\"SUBSCR\n");
        let place = dice.below(lines.len());
        let start = lines[place..]
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(lines.len(), |next| place + next + 1);
        lines.splice(start..start, torn.into_bytes());
    }
    lines
}

/// Splits a file into three.
fn slices(lines: &[u8]) -> Vec<Vec<u8>> {
    let lines: Vec<&[u8]> = lines.split_inclusive(|byte| *byte == b'\n').collect();
    lines.chunks(lines.len().div_ceil(3)).map(<[&[u8]]>::concat).collect()
}

/// The complete output of the program.
#[derive(PartialEq, Eq)]
pub(crate) struct Output {
    /// `show --json` by user.
    users: BTreeMap<String, String>,
    /// `history --json` by record.
    histories: BTreeMap<String, String>,
    /// What is parked, without time and position.
    parked: BTreeSet<String>,
}

impl Output {
    pub(crate) fn of(dues: &Dues) -> Self {
        // Each half reads its own copy: readers of one folder wait for one another.
        let half = |first: usize| {
            let dues = dues.copy();
            let mut found = (BTreeMap::new(), BTreeMap::new());
            for user in (first..USERS).step_by(2).map(|n| format!("u-{n}")) {
                let shown = dues.shown(&user);
                let answer: Value = serde_json::from_str(&shown).unwrap();
                for record in answer["subscriptions"].as_array().unwrap() {
                    let id = record["subscription_id"].as_str().unwrap();
                    let history = dues.ok(&["history", id, "--json"]);
                    assert_has_each_event_once(&history);
                    assert!(found.1.insert(id.to_owned(), history).is_none(), "{id} is there twice");
                }
                found.0.insert(user, shown);
            }
            found
        };
        let (mut users, mut histories) = (BTreeMap::new(), BTreeMap::new());
        let half = &half;
        std::thread::scope(|scope| {
            let halves = [0, 1].map(|first| scope.spawn(move || half(first)));
            for (some_users, some_histories) in halves.map(|half| half.join().unwrap()) {
                users.extend(some_users);
                histories.extend(some_histories);
            }
        });
        let parked = dues.parked().into_iter().map(|mut row| {
            for name in ["parked_at", "sequence"] {
                row.as_object_mut().unwrap().remove(name);
            }
            row.to_string()
        });
        Self { users, histories, parked: parked.collect() }
    }

    /// Where two outputs differ, if they do.
    pub(crate) fn difference(&self, reference: &Self) -> Option<String> {
        for (here, there) in [(&self.users, &reference.users), (&self.histories, &reference.histories)] {
            for (name, wanted) in there {
                match here.get(name) {
                    Some(found) if found == wanted => {}
                    found => return Some(format!("{name}:\nfound    {found:?}\nexpected {wanted:?}")),
                }
            }
            if here.len() != there.len() {
                return Some(format!("{} instead of {} users or records", here.len(), there.len()));
            }
        }
        let apart: Vec<&String> = self.parked.symmetric_difference(&reference.parked).collect();
        (!apart.is_empty()).then(|| format!("parked here or there only: {apart:#?}"))
    }

    pub(crate) fn records(&self) -> usize {
        self.histories.len()
    }
}

/// Asserts that a history's versions are consecutive, and that it has each event once. An event that was
/// parked and then applied has two rows: the first says that it was parked. A change of several records has
/// two on the record that it begins with: the first carries the pending change, the second completes it.
fn assert_has_each_event_once(history: &str) {
    let answer: Value = serde_json::from_str(history).unwrap();
    let rows = answer["rows"].as_array().unwrap();
    let (mut parked, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for (n, row) in rows.iter().enumerate() {
        let event = row["event_id"].as_str().unwrap();
        let new = match row["outcome"].as_str().unwrap().starts_with("parked: ") {
            true => !taken.contains(&(event, false)) && parked.insert(event),
            false => taken.insert((event, row["pending_change"].is_string())),
        };
        assert!(new, "{event} is there twice: {history}");
        assert_eq!(row["version"], n + 1, "{history}");
        assert_eq!(row["previous_version"], n, "{history}");
    }
}
