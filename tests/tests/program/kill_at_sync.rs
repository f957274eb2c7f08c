//! Every command that writes is killed at every one of its syncs; then the ordinary jobs run. Afterwards
//! each membership goes on, no member is debited twice for a period, `audit` agrees, and an export restores
//! the store.
//!
//! A new command that writes gets a scenario here.

mod judge;

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::support::kill::{Counted, Ended, KilledServer, points, run_killed};
use crate::support::records::{Debit, activate, change, plain, plus, tier};
use crate::support::run::{Dues, ndjson};
use judge::{Books, Members, audit, exported, restore, run, shown};

/// Before the first due date.
const JANUARY: &str = "2026-01-20T08:00:00Z";
/// Mondays: the first banking days on which February's and March's dues are collected.
const FEBRUARY: &str = "2026-02-02T08:00:00Z";
const MARCH: &str = "2026-03-02T08:00:00Z";
/// When the debits of 2 February have settled or were returned.
const SETTLED: &str = "2026-02-05T08:00:00Z";
const RETRIED: &str = "2026-02-20T08:00:00Z";
/// Killed runs of one command at a time: most of them wait for a killed run's lock.
const PARALLEL: usize = 8;

/// A command to be killed.
struct Scenario<'a> {
    /// The store before it, untouched.
    before: &'a Dues,
    command: Vec<String>,
    /// Repeated after the kill, as a source that was not acknowledged repeats its records.
    repeated: bool,
    /// Repeated by an operator who did not see an answer: it may say that it was done before.
    asked_again: bool,
    /// Membership changes that arrive between the kill and the jobs.
    overtaken_by: Vec<Value>,
    members: Members<'a>,
    /// When the jobs run afterwards, and when they run once more.
    days: [&'a str; 2],
}

impl<'a> Scenario<'a> {
    fn new(before: &'a Dues, command: &[&str], staying: &'a [&'a str]) -> Self {
        let command = command.iter().map(|arg| (*arg).to_owned()).collect();
        let days = [FEBRUARY, MARCH];
        let members = Members { staying, leaving: &[] };
        Self { before, command, repeated: false, asked_again: false, overtaken_by: Vec::new(), members, days }
    }

    /// The memberships that the command may end.
    fn ending(mut self, leaving: &'a [&'a str]) -> Self {
        self.members.leaving = leaving;
        self
    }

    /// Kills the command at every sync.
    #[track_caller]
    fn hold(&self) {
        self.hold_on(Counted::Syncs);
    }

    /// Kills the command at every point and judges what is left; lists every point that breaks a rule.
    #[track_caller]
    fn hold_on(&self, on: Counted) {
        let whole = self.start();
        let (ended, calls) = run_killed(&whole, &self.args(), on, 0);
        assert_eq!(ended, Ended::Exited(0), "{:?}, not killed", self.command);
        assert!(calls > 0, "{:?} never syncs: is the program linked statically?", self.command);
        assert_ne!(self.look(&whole), self.look(&self.start()), "{:?} changes nothing", self.command);
        let (points, kills) = (points(calls), AtomicUsize::new(0));
        let mut broken = broken_points(&points, |n| {
            let dues = self.start();
            let (ended, _) = run_killed(&dues, &self.args(), on, n);
            kills.fetch_add(usize::from(ended == Ended::Killed), Ordering::Relaxed);
            self.finish_and_judge(&dues)
        });
        broken.extend(self.finish_and_judge(&whole).err().map(|rule| (0, rule)));
        let kills = kills.into_inner();
        println!("{:?}: {calls} {on:?}, {kills} kills", self.command);
        // Concurrent commits share a sync now and then: a run may end before the later points.
        assert!(kills * 2 >= points.len(), "only {kills} of {} runs were killed", points.len());
        let list: Vec<String> = broken.iter().map(|(n, rule)| format!("  n = {n}: {rule}")).collect();
        assert!(
            broken.is_empty(),
            "{:?}, killed at {on:?} (0: not killed), breaks rules at {} of {} points:\n{}",
            self.command,
            broken.len(),
            points.len() + 1,
            list.join("\n")
        );
    }

    fn args(&self) -> Vec<&str> {
        self.command.iter().map(String::as_str).collect()
    }

    fn start(&self) -> Dues {
        if self.before.data().exists() { self.before.copy() } else { Dues::new() }
    }

    /// Everything that the program shows of this store.
    fn look(&self, dues: &Dues) -> Result<(Vec<Vec<Value>>, Vec<String>), String> {
        let members = self.members.staying.iter().chain(self.members.leaving);
        let shown = members.map(|member| shown(dues, member)).collect::<Result<_, _>>()?;
        Ok((shown, exported(dues)?))
    }

    fn finish_and_judge(&self, dues: &Dues) -> Result<(), String> {
        if !self.overtaken_by.is_empty() {
            let file = dues.file("changes.ndjson", &ndjson(&self.overtaken_by));
            run(dues, &["ingest", "--stream", "memberships", &file])?;
        }
        if self.repeated {
            run(dues, &self.args())?;
        }
        if self.asked_again
            && let Err(refusal) = run(dues, &self.args())
            && !refusal.contains(" already")
        {
            return Err(refusal);
        }
        let [today, later] = self.days;
        jobs(dues, today)?;
        let books = Books::read(dues, self.members)?;
        books.judge(self.members)?;
        audit(dues)?;
        restore(dues, &books)?;
        // And the membership goes on: what falls due is debited.
        let due = books.due_by(self.members, later);
        jobs(dues, later)?;
        let books = Books::read(dues, self.members)?;
        books.judge(self.members).map_err(|rule| format!("later, {rule}"))?;
        if let Some(missed) = books.missed(&due) {
            return Err(format!("later, {missed} is not debited at the bank"));
        }
        audit(dues).map_err(|rule| format!("later, {rule}"))
    }
}

/// Tries every point, some at a time, and returns those that break a rule, with the rule.
fn broken_points(
    points: &[u64],
    attempt: impl Fn(u64) -> Result<(), String> + Sync,
) -> BTreeMap<u64, String> {
    let (next, broken) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..PARALLEL {
            scope.spawn(|| {
                while let Some(n) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(rule) = attempt(*n) {
                        broken.lock().unwrap().insert(*n, rule);
                    }
                }
            });
        }
    });
    broken.into_inner().unwrap()
}

/// What runs by itself every day.
fn jobs(dues: &Dues, now: &str) -> Result<(), String> {
    let at = ["sweep", "--as-of", now];
    match sweep(dues) {
        Some(true) => drop(run(dues, &at)?),
        Some(false) => drop(run(dues, &at[..1])?),
        None => {}
    }
    for process in ["INITIAL", "RETRY", "PAUSE"] {
        run(dues, &["collect", "--process", process, "--as-of", now])?;
    }
    Ok(())
}

/// Whether the program has a sweeper, and whether that takes a time.
fn sweep(dues: &Dues) -> Option<bool> {
    static SWEEP: OnceLock<Option<bool>> = OnceLock::new();
    *SWEEP.get_or_init(|| {
        let help = dues.run(&["sweep", "--help"]);
        help.status.success().then(|| String::from_utf8_lossy(&help.stdout).contains("--as-of"))
    })
}

/// Members who joined in January and are due on 1 February.
fn january(members: &[&str]) -> Dues {
    let dues = Dues::new();
    let joined: Vec<Value> = members.iter().map(|user| activate(&format!("m-{user}"), user)).collect();
    assert_eq!(dues.members(&joined).get("applied"), Some(&(members.len() as u64)));
    dues
}

/// The same, paused in January for a month.
fn paused(member: &str) -> Dues {
    let dues = january(&[member, "u-2"]);
    let id = dues.id(member, 0);
    dues.ok(&["pause", member, &id, "--months", "1", "--as-of", "2026-01-10"]);
    dues
}

/// The same after February's debits were sent.
fn sent(members: &[&str]) -> Dues {
    let dues = january(members);
    dues.ok(&["collect", "--process", "INITIAL", "--as-of", FEBRUARY]);
    dues
}

#[test]
fn ingest_of_memberships_into_a_new_store() {
    let dues = Dues::new();
    let file = dues.file("in.ndjson", &ndjson(&[activate("m-1", "u-1"), activate("m-2", "u-2")]));
    let command = ["ingest", "--stream", "memberships", &file];
    Scenario { repeated: true, ..Scenario::new(&dues, &command, &["u-1", "u-2"]) }.hold();
}

#[test]
fn ingest_of_membership_changes() {
    let dues = january(&["u-1", "u-2", "u-3", "u-4", "u-5", "u-6"]);
    let paused = dues.id("u-3", 0);
    dues.ok(&["pause", "u-3", &paused, "--months", "1", "--as-of", "2026-01-10"]);
    let file = dues.file(
        "in.ndjson",
        &ndjson(&[
            change("c-1", "UPGRADE", "u-1", "2026-01-20", tier("Pro", "29.99")),
            change("c-2", "DOWNGRADE", "u-2", "2026-01-20", tier("Basic", "4.99")),
            plain("c-3", "UNPAUSE", "u-3", "2026-01-20"),
            plain("c-4", "CANCEL", "u-4", "2026-01-20"),
            plain("c-5", "CLOSEACCOUNT", "u-5", "2026-01-20"),
            change("c-6", "REACTIVATE", "u-6", "2026-01-20", plus("2026-02-01")),
            change("c-7", "PAUSE", "u-1", "2026-01-21", json!({"pause_duration_months": 2})),
        ]),
    );
    let command = ["ingest", "--stream", "memberships", &file];
    let scenario = Scenario::new(&dues, &command, &["u-1", "u-2", "u-3", "u-6"]).ending(&["u-4", "u-5"]);
    Scenario { repeated: true, ..scenario }.hold();
}

#[test]
fn ingest_of_payments() {
    let dues = january(&["u-1", "u-2", "u-3", "u-4"]);
    let debit = |user: &str| Debit::new(user, &dues.id(user, 0), &format!("c-{user}"));
    let mut events = Vec::new();
    for user in ["u-1", "u-2", "u-3", "u-4"] {
        events.push(debit(user).submitted(&format!("p-{user}"), "2026-01-25"));
    }
    events.push(debit("u-1").completed("p-1", "2026-01-27"));
    events.push(debit("u-2").returned("p-2", "2026-01-27", "R01", "no funds"));
    events.push(debit("u-3").completed("p-3", "2026-01-27"));
    events.push(debit("u-3").refunded("p-4", "2026-01-29"));
    events.push(debit("u-4").completed("p-5", "2026-01-27"));
    events.push(debit("u-4").charged_back("p-6", "2026-01-29"));
    let file = dues.file("in.ndjson", &ndjson(&events));
    let command = ["ingest", "--stream", "site-payments", &file];
    let scenario = Scenario::new(&dues, &command, &["u-1", "u-2", "u-3"]).ending(&["u-4"]);
    Scenario { repeated: true, ..scenario }.hold();
}

#[test]
fn collect_of_what_is_due() {
    let dues = january(&["u-1", "u-2", "u-3"]);
    dues.account("u-2", "0501");
    dues.account("u-3", "0400");
    let command = ["collect", "--process", "INITIAL", "--as-of", FEBRUARY];
    Scenario::new(&dues, &command, &["u-1", "u-2", "u-3"]).hold();
}

#[test]
fn collect_of_what_was_returned() {
    let dues = january(&["u-1", "u-2"]);
    dues.account("u-2", "0001");
    dues.ok(&["collect", "--process", "INITIAL", "--as-of", FEBRUARY]);
    dues.ok(&["sandbox", "deliver", "--as-of", SETTLED]);
    dues.account("u-2", "6789");
    let command = ["collect", "--process", "RETRY", "--as-of", RETRIED];
    Scenario { days: [RETRIED, MARCH], ..Scenario::new(&dues, &command, &["u-1", "u-2"]) }.hold();
}

#[test]
fn collect_of_pauses_that_end() {
    let dues = paused("u-1");
    let command = ["collect", "--process", "PAUSE", "--as-of", MARCH];
    let days = [MARCH, "2026-04-01T08:00:00Z"];
    Scenario { days, ..Scenario::new(&dues, &command, &["u-1", "u-2"]) }.hold();
}

#[test]
fn collect_with_torn_writes() {
    let dues = january(&["u-1", "u-2"]);
    let command = ["collect", "--process", "INITIAL", "--as-of", FEBRUARY];
    Scenario::new(&dues, &command, &["u-1", "u-2"]).hold_on(Counted::Writes);
}

/// A command on the record of `u-1`, killed.
#[track_caller]
fn command_on_record(dues: &Dues, args: &[&str], as_of: &str, days: [&str; 2], ends: bool) {
    let id = dues.id("u-1", 0);
    let command = [&args[..1], &["u-1", &id], &args[1..], &["--as-of", as_of]].concat();
    let scenario = match ends {
        true => Scenario::new(dues, &command, &["u-2"]).ending(&["u-1"]),
        false => Scenario::new(dues, &command, &["u-1", "u-2"]),
    };
    Scenario { days, ..scenario }.hold();
}

#[test]
fn clock_at_the_end_of_a_paid_period() {
    let dues = sent(&["u-1", "u-2"]);
    dues.ok(&["sandbox", "deliver", "--as-of", SETTLED]);
    let file = dues.file("cancel.ndjson", &ndjson(&[plain("x-1", "CANCEL", "u-1", "2026-02-10")]));
    dues.ok(&["ingest", "--stream", "memberships", &file, "--as-of", "2026-02-10T12:00:00Z"]);
    let command = ["clock", "--as-of", MARCH];
    let scenario = Scenario::new(&dues, &command, &["u-2"]).ending(&["u-1"]);
    Scenario { days: [MARCH, "2026-04-01"], ..scenario }.hold();
}

#[test]
fn pay() {
    command_on_record(&january(&["u-1", "u-2"]), &["pay"], FEBRUARY, [FEBRUARY, MARCH], false);
}

#[test]
fn pay_collected_at_once() {
    let dues = january(&["u-1", "u-2"]);
    dues.account("u-1", "0400");
    command_on_record(&dues, &["pay"], FEBRUARY, [FEBRUARY, MARCH], false);
}

#[test]
fn waive() {
    command_on_record(&january(&["u-1", "u-2"]), &["waive"], JANUARY, [FEBRUARY, MARCH], false);
}

#[test]
fn pause() {
    let dues = january(&["u-1", "u-2"]);
    command_on_record(&dues, &["pause", "--months", "2"], JANUARY, [FEBRUARY, MARCH], false);
}

#[test]
fn resume_before_the_due_date() {
    command_on_record(&paused("u-1"), &["resume"], JANUARY, [FEBRUARY, MARCH], false);
}

#[test]
fn resume_after_the_due_date() {
    command_on_record(&paused("u-1"), &["resume"], "2026-02-10T08:00:00Z", [MARCH, "2026-04-01"], false);
}

#[test]
fn cancel_at_the_end_of_the_period() {
    command_on_record(&january(&["u-1", "u-2"]), &["cancel"], JANUARY, [FEBRUARY, MARCH], true);
}

#[test]
fn cancel_now() {
    command_on_record(&january(&["u-1", "u-2"]), &["cancel", "--now"], JANUARY, [FEBRUARY, MARCH], true);
}

/// A killed command on `u-1`, before the jobs overtaken by a membership change.
#[track_caller]
fn overtaken(args: &[&str], as_of: &str, changed: Value, ends: bool) {
    let dues = january(&["u-1"]);
    let id = dues.id("u-1", 0);
    let command = [&args[..1], &["u-1", &id], &args[1..], &["--as-of", as_of]].concat();
    let scenario = match ends {
        true => Scenario::new(&dues, &command, &[]).ending(&["u-1"]),
        false => Scenario::new(&dues, &command, &["u-1"]),
    };
    Scenario { overtaken_by: vec![changed], days: [SETTLED, MARCH], ..scenario }.hold();
}

#[test]
fn waive_overtaken_by_an_upgrade() {
    overtaken(
        &["waive"],
        JANUARY,
        change("c-1", "UPGRADE", "u-1", "2026-01-21", tier("Pro", "29.99")),
        false,
    );
}

#[test]
fn waive_overtaken_by_a_reactivation() {
    overtaken(
        &["waive"],
        JANUARY,
        change("c-1", "REACTIVATE", "u-1", "2026-01-21", plus("2026-02-15")),
        false,
    );
}

#[test]
fn pause_overtaken_by_a_reactivation() {
    let changed = change("c-1", "REACTIVATE", "u-1", "2026-01-21", plus("2026-02-15"));
    overtaken(&["pause", "--months", "2"], JANUARY, changed, false);
}

#[test]
fn cancel_overtaken_by_its_retraction() {
    overtaken(&["cancel"], JANUARY, plain("c-1", "RETRACT", "u-1", "2026-01-21"), true);
}

#[test]
fn cancel_now_overtaken_by_a_pause() {
    let changed = change("c-1", "PAUSE", "u-1", "2026-01-21", json!({"pause_duration_months": 2}));
    overtaken(&["cancel", "--now"], JANUARY, changed, true);
}

#[test]
fn pay_overtaken_by_a_closed_account() {
    overtaken(&["pay"], FEBRUARY, plain("c-1", "CLOSEACCOUNT", "u-1", "2026-02-03"), true);
}

#[test]
fn move_to_a_later_day() {
    let days = ["2026-02-10T08:00:00Z", MARCH];
    command_on_record(&january(&["u-1", "u-2"]), &["move", "--to", "2026-02-10"], JANUARY, days, false);
}

#[test]
fn move_of_a_paused_record() {
    let days = ["2026-02-10T08:00:00Z", MARCH];
    command_on_record(&paused("u-1"), &["move", "--to", "2026-02-10"], JANUARY, days, false);
}

/// The same after February's debits have settled.
fn settled(members: &[&str]) -> Dues {
    let dues = sent(members);
    dues.ok(&["sandbox", "deliver", "--as-of", SETTLED]);
    dues
}

/// A refund of the record of `u-1`, killed, and asked for again by the operator.
#[track_caller]
fn refunded(args: &[&str]) {
    let dues = settled(&["u-1", "u-2"]);
    let id = dues.id("u-1", 0);
    let command = [&["refund", "u-1", &id, "--as-of", RETRIED], args].concat();
    let days = ["2026-02-12T08:00:00Z", MARCH];
    for asked_again in [false, true] {
        Scenario { asked_again, days, ..Scenario::new(&dues, &command, &["u-1", "u-2"]) }.hold();
    }
}

#[test]
fn refund_of_all() {
    refunded(&[]);
}

#[test]
fn refund_of_a_part() {
    refunded(&["--amount", "5.00"]);
}

/// `u-1` paid elsewhere while a debit of ours was under way: the debit's money pays for nothing. With its id.
fn paid_twice() -> (Dues, String) {
    let dues = sent(&["u-1", "u-2"]);
    let id = dues.id("u-1", 0);
    let mut elsewhere = Debit::new("u-1", &id, "c-9").completed("p-9", "2026-02-02");
    elsewhere["payment"]["payment_id"] = json!("from elsewhere");
    assert_eq!(dues.payments(&[elsewhere]).get("applied"), Some(&1));
    dues.ok(&["sandbox", "deliver", "--as-of", SETTLED]);
    let row: Value = serde_json::from_str(&dues.ok(&["money", "list", "--json"])).unwrap();
    (dues, row["id"].as_str().unwrap().to_owned())
}

/// A decision about unapplied money, killed; then the jobs, or the operator decides again.
#[track_caller]
fn decided(dues: &Dues, args: &[&str]) {
    let command = [&["money"], args, &["--as", "ada", "--as-of", RETRIED]].concat();
    let days = ["2026-02-12T08:00:00Z", MARCH];
    for asked_again in [false, true] {
        Scenario { asked_again, days, ..Scenario::new(dues, &command, &["u-1", "u-2"]) }.hold();
    }
}

#[test]
fn money_apply() {
    let (dues, money) = paid_twice();
    let next = dues.id("u-1", 1);
    decided(&dues, &["apply", &money, &next]);
}

#[test]
fn money_dismiss() {
    let (dues, money) = paid_twice();
    decided(&dues, &["dismiss", &money, "--reason", "a test"]);
}

#[test]
fn money_refund() {
    let (dues, money) = paid_twice();
    decided(&dues, &["refund", &money]);
}

/// A store in which a killed run left something for the sweeper, of two members who stay and one who leaves.
fn interrupted() -> Dues {
    let dues = january(&["u-1", "u-2", "u-3"]);
    let command = ["collect", "--process", "INITIAL", "--as-of", FEBRUARY];
    for n in 1.. {
        let dues = dues.copy();
        let (ended, _) = run_killed(&dues, &command, Counted::Syncs, n);
        assert_eq!(ended, Ended::Killed, "no point of {command:?} leaves anything to the sweeper");
        let swept: Value = serde_json::from_str(&dues.copy().ok(&["sweep", "--json"])).unwrap();
        if ["rolled_forward", "created", "followups", "removed"].iter().any(|what| swept[what] != 0) {
            return dues;
        }
    }
    unreachable!()
}

#[test]
fn sweep_after_a_crash() {
    Scenario { repeated: true, ..Scenario::new(&interrupted(), &["sweep"], &["u-1", "u-2", "u-3"]) }.hold();
}

/// An export finishes first what a crash interrupted.
#[test]
fn export_after_a_crash() {
    let dues = interrupted();
    let file = dues.beside("killed.ndjson");
    let whole = exported(&dues.copy()).unwrap();
    let (ended, calls) = run_killed(&dues.copy(), &["export", file.to_str().unwrap()], Counted::Syncs, 0);
    assert_eq!(ended, Ended::Exited(0));
    let broken = broken_points(&points(calls), |n| {
        let copy = dues.copy();
        let file = copy.beside("killed.ndjson");
        run_killed(&copy, &["export", file.to_str().unwrap()], Counted::Syncs, n);
        match exported(&copy)? == whole {
            true => audit(&copy),
            false => Err("the next export is another one".to_owned()),
        }
    });
    assert!(broken.is_empty(), "of {calls} syncs: {broken:#?}");
}

#[test]
fn notify() {
    let dues = january(&["u-1", "u-2"]);
    Scenario::new(&dues, &["notify", "--as-of", "2026-01-30"], &["u-1", "u-2"]).hold();
}

#[test]
fn parked_redrive() {
    let dues = january(&["u-2"]);
    let early = change("c-1", "PAUSE", "u-1", "2026-01-06", json!({"pause_duration_months": 1}));
    assert_eq!(dues.members(&[early]).get("parked"), Some(&1), "u-1 does not exist yet");
    dues.members(&[activate("m-u-1", "u-1")]);
    let command = ["parked", "redrive", "--all"];
    Scenario { repeated: true, ..Scenario::new(&dues, &command, &["u-1", "u-2"]) }.hold();
}

#[test]
fn sandbox_account() {
    let dues = january(&["u-1"]);
    Scenario::new(&dues, &["sandbox", "account", "u-1", "6789"], &["u-1"]).hold();
}

#[test]
fn sandbox_deliver() {
    let dues = sent(&["u-1", "u-2"]);
    let command = ["sandbox", "deliver", "--as-of", SETTLED];
    Scenario { days: [SETTLED, MARCH], ..Scenario::new(&dues, &command, &["u-1", "u-2"]) }.hold();
}

#[test]
fn sandbox_deliver_of_late_returns() {
    let dues = january(&["u-1", "u-2", "u-3"]);
    for (user, mask) in [("u-1", "0101"), ("u-2", "0200"), ("u-3", "0001")] {
        dues.account(user, mask);
    }
    dues.ok(&["collect", "--process", "INITIAL", "--as-of", FEBRUARY]);
    let command = ["sandbox", "deliver", "--as-of", MARCH];
    let days = [MARCH, "2026-04-01T08:00:00Z"];
    Scenario { days, ..Scenario::new(&dues, &command, &["u-1", "u-2", "u-3"]) }.hold();
}

#[test]
fn usage_count() {
    let dues = january(&["u-1"]);
    let command = ["usage", "count", "u-1", "simulations", "--action", "run", "--as-of", JANUARY];
    Scenario::new(&dues, &command, &["u-1"]).hold();
}

#[test]
fn usage_reset() {
    let dues = january(&["u-1"]);
    dues.ok(&["usage", "count", "u-1", "simulations", "--action", "run", "--as-of", JANUARY]);
    let dues = &dues;
    Scenario { repeated: true, ..Scenario::new(dues, &["usage", "reset", "--as-of", FEBRUARY], &["u-1"]) }
        .hold();
}

#[test]
fn replay() {
    let dues = sent(&["u-1", "u-2"]);
    let file = rusqlite::Connection::open(dues.data().join("dues.db")).unwrap();
    let lost = file.execute("DELETE FROM \"billing-activity\" WHERE pk LIKE '%u-1%' OR sk LIKE '%u-1%'", []);
    assert!(lost.unwrap() > 0, "no row was lost");
    drop(file);
    Scenario { repeated: true, ..Scenario::new(&dues, &["replay"], &["u-1", "u-2"]) }.hold();
}

/// A killed import either is finished by the next one, or is refused by it. What is refused must not pass for
/// a whole store.
#[test]
fn import() {
    let dues = sent(&["u-1", "u-2"]);
    dues.ok(&["sandbox", "deliver", "--as-of", SETTLED]);
    let file = dues.beside("all.ndjson");
    let command = ["import", file.to_str().unwrap()];
    dues.ok(&["export", command[1]]);
    let whole = exported(&dues).unwrap();
    let (ended, calls) = run_killed(&Dues::new(), &command, Counted::Syncs, 0);
    assert_eq!(ended, Ended::Exited(0));
    let broken = broken_points(&points(calls), |n| {
        let copy = Dues::new();
        run_killed(&copy, &command, Counted::Syncs, n);
        let is_finished = copy.run(&command).status.success();
        if exported(&copy).is_ok_and(|rows| rows == whole) {
            Ok(())
        } else if is_finished {
            Err("the second import finished, and the store is not the same".to_owned())
        } else if audit(&copy).is_ok() {
            Err("half a store, and audit finds nothing".to_owned())
        } else {
            Ok(())
        }
    });
    assert!(broken.is_empty(), "of {calls} syncs: {broken:#?}");
}

/// The records that are sent to the server: two members join, one pays, one changes plan and one leaves.
fn posted(dues: &Dues) -> Vec<(&'static str, Vec<Value>)> {
    let debit = Debit::new("u-1", &dues.id("u-1", 0), "c-1");
    let changes = vec![
        activate("m-u-4", "u-4"),
        change("c-1", "UPGRADE", "u-2", "2026-01-20", tier("Pro", "29.99")),
        change("c-2", "PAUSE", "u-4", "2026-01-21", json!({"pause_duration_months": 1})),
        plain("c-3", "CLOSEACCOUNT", "u-3", "2026-01-20"),
    ];
    let payments = vec![
        debit.submitted("p-1", "2026-01-25"),
        debit.completed("p-2", "2026-01-27"),
        debit.again("c-2").completed("p-3", "2026-01-28"),
    ];
    vec![("memberships", changes), ("site-payments", payments)]
}

/// Sends records until the server has processed all of them. An error says that it has ended.
fn post(serving: &mut KilledServer, records: &[(&'static str, Vec<Value>)]) -> Result<(), String> {
    for (stream, records) in records {
        for record in records {
            serving.post(&format!("/streams/{stream}"), &record.to_string())?;
        }
        serving.wait_until_processed(stream)?;
    }
    Ok(())
}

/// The server is killed at each of its syncs while it ingests; the sources repeat what was not acknowledged
/// to the next server; then the jobs run.
#[test]
fn serve_while_it_ingests() {
    let before = january(&["u-1", "u-2", "u-3"]);
    let records = posted(&before);
    let members = Members { staying: &["u-1", "u-2", "u-4"], leaving: &["u-3"] };
    let scenario = Scenario { members, ..Scenario::new(&before, &["serve"], &[]) };
    let whole = before.copy();
    let serve = |dues: &Dues, n: u64| {
        let mut serving = KilledServer::start(dues, n)?;
        post(&mut serving, &records)?;
        serving.stop(dues)
    };
    let calls = serve(&whole, 0).expect("not killed");
    assert!(calls > 0, "the server never syncs");
    let kills = AtomicUsize::new(0);
    let points = points(calls);
    let mut broken = broken_points(&points, |n| {
        let dues = before.copy();
        kills.fetch_add(usize::from(serve(&dues, n).is_err()), Ordering::Relaxed);
        serve(&dues, 0)?;
        scenario.finish_and_judge(&dues)
    });
    broken.extend(scenario.finish_and_judge(&whole).err().map(|rule| (0, rule)));
    let kills = kills.into_inner();
    println!("serve: {calls} syncs, {kills} kills");
    assert!(kills * 2 >= points.len(), "only {kills} of {} runs were killed", points.len());
    assert!(broken.is_empty(), "serve, killed at its syncs (0: not killed), breaks rules: {broken:#?}");
}

/// Every command that writes, and its tests above.
const KILLED: [(&str, &[&str]); 24] = [
    ("clock", &["clock_at_the_end_of_a_paid_period"]),
    (
        "ingest",
        &["ingest_of_memberships_into_a_new_store", "ingest_of_membership_changes", "ingest_of_payments"],
    ),
    ("parked redrive", &["parked_redrive"]),
    ("replay", &["replay"]),
    ("export", &["export_after_a_crash"]),
    ("import", &["import"]),
    ("collect", &["collect_of_what_is_due", "collect_of_what_was_returned", "collect_of_pauses_that_end"]),
    ("pay", &["pay", "pay_collected_at_once"]),
    ("waive", &["waive"]),
    ("cancel", &["cancel_at_the_end_of_the_period", "cancel_now"]),
    ("pause", &["pause"]),
    ("resume", &["resume_before_the_due_date", "resume_after_the_due_date"]),
    ("move", &["move_to_a_later_day", "move_of_a_paused_record"]),
    ("money apply", &["money_apply"]),
    ("money refund", &["money_refund"]),
    ("money dismiss", &["money_dismiss"]),
    ("refund", &["refund_of_all", "refund_of_a_part"]),
    ("sweep", &["sweep_after_a_crash"]),
    ("notify", &["notify"]),
    ("sandbox account", &["sandbox_account"]),
    ("sandbox deliver", &["sandbox_deliver", "sandbox_deliver_of_late_returns"]),
    ("usage count", &["usage_count"]),
    ("usage reset", &["usage_reset"]),
    ("serve", &["serve_while_it_ingests"]),
];

/// Commands that only read, write a file of their own, or fill a folder that they empty first.
const NOT_KILLED: [&str; 17] = [
    "demo",
    "show",
    "history",
    "parked list",
    "parked show",
    "explain",
    "attention",
    "audit",
    "backup",
    "money list",
    "money show",
    "risk",
    "tail",
    "usage who",
    "bench serve",
    "bench audit",
    "completions",
];

/// The commands of a help text.
fn commands(dues: &Dues, args: &[&str]) -> Vec<String> {
    let help = dues.ok(&[args, &["--help"]].concat());
    let list = help.split("\nCommands:\n").nth(1).unwrap_or_default();
    let list = list.split("\n\n").next().unwrap_or_default();
    let is_name = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    list.lines().filter(is_name).map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

#[test]
fn every_command_that_writes_is_killed_above() {
    let dues = Dues::new();
    let mut all = Vec::new();
    for command in commands(&dues, &[]).into_iter().filter(|name| name != "help") {
        let below = commands(&dues, &[&command]);
        let below: Vec<String> =
            below.into_iter().filter(|name| name != "help").map(|name| format!("{command} {name}")).collect();
        all.extend(if below.is_empty() { vec![command] } else { below });
    }
    let known = |name: &&String| {
        !KILLED.iter().any(|(killed, _)| killed == name) && !NOT_KILLED.contains(&name.as_str())
    };
    let missing: Vec<&String> = all.iter().filter(known).collect();
    assert!(missing.is_empty(), "no scenario kills {missing:?}");
    let names = KILLED.iter().map(|(name, _)| *name).chain(NOT_KILLED);
    let gone: Vec<&str> = names.filter(|name| !all.iter().any(|there| there == name)).collect();
    assert!(gone.is_empty(), "the program has no {gone:?}");
    let tests = include_str!("kill_at_sync.rs");
    for test in KILLED.iter().flat_map(|(_, tests)| *tests) {
        assert!(tests.contains(&format!("#[test]\nfn {test}() {{")), "there is no test {test}");
    }
}
