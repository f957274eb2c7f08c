//! The company of the hostile year: members of every kind of plan, changes at any moment, operators who work
//! beside the jobs, and a payments service that is down now and then. Everything goes through the program.

use dues_store::embedded::Embedded;
use dues_store::table::{BILLING_ACTIVITY, HISTORY, Table, UNAPPLIED_MONEY};
use dues_tests::fixtures::company::all;
use fastrand::Rng;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

use crate::bank::{Bank, Debit, Report};
use crate::calendar::{Schedule, amount, cents, date, day_number, days_in, is_closed, month_number, weekday};

/// A leap year in which two holidays are Saturdays.
const FIRST_DAY: &str = "2028-01-01";
const TIERS: [(&str, i64); 4] = [("Basic", 499), ("Plus", 1499), ("Pro", 3999), ("Founder", 9900)];

/// A membership change that was delivered.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) delivered: String,
    pub(crate) at: String,
    pub(crate) user: String,
    pub(crate) kind: &'static str,
    pub(crate) cents: i64,
    pub(crate) schedule: Option<Schedule>,
    pub(crate) months: i64,
}

/// A command of an operator that was accepted; `pay` also if it was not.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) at: String,
    pub(crate) user: String,
    /// The record, or the one that money was applied to.
    pub(crate) record: String,
    pub(crate) kind: &'static str,
    pub(crate) months: i64,
    /// The new due date of a move.
    pub(crate) to: String,
    /// The id of unapplied money, and how much of it there was.
    pub(crate) money: String,
    pub(crate) cents: i64,
}

/// All that there is to audit.
#[derive(Clone)]
pub(crate) struct Year {
    pub(crate) debits: Vec<Debit>,
    pub(crate) reports: Vec<Report>,
    pub(crate) changes: Vec<Change>,
    pub(crate) operations: Vec<Operation>,
    /// `billing-activity` at each month's end.
    pub(crate) month_ends: Vec<(String, Vec<Value>)>,
    pub(crate) records: Vec<Value>,
    pub(crate) history: Vec<Value>,
    pub(crate) money: Vec<Value>,
    /// Requests that failed while the payments service was down.
    pub(crate) failed_while_down: u64,
}

pub(crate) struct Company {
    rng: Rng,
    folder: TempDir,
    bank: Bank,
    members: usize,
    /// Users and kinds of changes by the day on which they occur.
    planned: BTreeMap<i64, Vec<(usize, &'static str)>>,
    /// Changes by the day on which they arrive.
    arriving: BTreeMap<i64, Vec<(Change, Value)>>,
    joins_on: BTreeMap<usize, i64>,
    changes: Vec<Change>,
    operations: Vec<Operation>,
    /// Transactions with a refund that an operator requested.
    refunded: BTreeSet<String>,
    down_on: BTreeSet<i64>,
    events: u64,
}

impl Company {
    /// Runs the company for some months from 1 January 2028 on.
    pub(crate) fn run(members: usize, months: i64, seed: u64) -> Year {
        // In memory where there is such a folder: this is not about syncs.
        let folder = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
        let bank = Bank::open(seed, &folder.path().join("data").join("dues.db"));
        let mut company = Self {
            rng: Rng::with_seed(seed),
            folder,
            bank,
            members,
            planned: BTreeMap::new(),
            arriving: BTreeMap::new(),
            joins_on: BTreeMap::new(),
            changes: Vec::new(),
            operations: Vec::new(),
            refunded: BTreeSet::new(),
            down_on: BTreeSet::new(),
            events: 0,
        };
        company.run_months(months)
    }

    fn run_months(&mut self, months: i64) -> Year {
        let first = day_number(FIRST_DAY);
        let first_month = month_number(FIRST_DAY);
        let last = first + (first_month..first_month + months).map(days_in).sum::<i64>();
        self.plan_joins(first, last);
        let mut start = first + 20;
        while start < last {
            self.down_on.extend(start..start + self.rng.i64(1..4));
            start += self.rng.i64(25..50);
        }
        let mut month_ends = Vec::new();
        for day in first..last {
            self.run_day(day);
            let today = date(day);
            if month_number(&today) != month_number(&date(day + 1)) {
                self.ok(&["sweep"]);
                month_ends.push((today, self.rows(&BILLING_ACTIVITY)));
            }
        }
        // Whatever the bank has still to report arrives at the end.
        let records = self.bank.deliver_the_rest(last, &format!("{}T06:00:00Z", date(last)));
        self.ingest("site-payments", &records);
        self.ok(&["replay", "--dry-run", "--read-model", "billing"]);
        Year {
            debits: self.bank.debits(),
            reports: self.bank.reports(),
            changes: std::mem::take(&mut self.changes),
            operations: std::mem::take(&mut self.operations),
            month_ends,
            records: self.rows(&BILLING_ACTIVITY),
            history: self.rows(&HISTORY),
            money: self.rows(&UNAPPLIED_MONEY),
            failed_while_down: self.bank.failed_while_down(),
        }
    }

    fn run_day(&mut self, day: i64) {
        let today = date(day);
        let at = |hour: u32| format!("{today}T{hour:02}:00:00Z");
        self.plan_changes(day);
        let arrived = self.arriving.remove(&day).unwrap_or_default();
        let (changes, records): (Vec<Change>, Vec<Value>) = arrived.into_iter().unzip();
        self.ingest("memberships", &records);
        self.changes.extend(changes);
        if self.changes.is_empty() {
            return;
        }
        let reports = self.bank.deliver(day, &at(6));
        self.ingest("site-payments", &reports);
        let is_down = self.down_on.contains(&day);
        // The scheduler misses a day now and then; on a closed day it finds that banks are closed.
        if weekday(&today) < 5 && self.rng.u32(..30) > 0 || self.rng.u32(..4) == 0 {
            for (process, hour) in [("RETRY", 7), ("INITIAL", 8)] {
                self.bank.set(&at(hour), is_down);
                self.collect(process, &at(hour));
            }
        }
        self.bank.set(&at(12), is_down);
        if !is_closed(&today) {
            for _ in 0..(self.members / 100).max(1) {
                self.operate(day, &at(12));
            }
            if weekday(&today) == 1 {
                self.decide_about_money(&at(12));
            }
        }
        if ends_pauses(day) {
            self.collect("PAUSE", &at(22));
        }
    }

    fn collect(&self, process: &str, now: &str) {
        let url = self.bank.url();
        let args = ["collect", "--process", process, "--as-of", now, "--gateway", &url];
        let output = self.dues(&args, &[]);
        // In so small a company a fifth of a run is often too old: an operator says that it is right.
        if String::from_utf8_lossy(&output.stderr).contains("too old to collect") {
            self.ok(&[&args[..], &["--force"]].concat());
        } else {
            assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }

    fn plan_joins(&mut self, first: i64, last: i64) {
        for user in 0..self.members {
            let day = match self.rng.u32(..10) {
                0..7 => first + self.rng.i64(1..8),
                _ => first + self.rng.i64(8..(last - first) * 3 / 4),
            };
            self.joins_on.insert(user, day);
            self.planned.entry(day).or_default().push((user, "ACTIVATE"));
        }
    }

    /// The changes that occur on a day arrive on the next one, or some days later.
    fn plan_changes(&mut self, day: i64) {
        let mut today = self.planned.remove(&day).unwrap_or_default();
        for user in 0..self.members {
            if self.joins_on[&user] + 3 < day && self.rng.u32(..90) == 0 {
                let kind = *self
                    .rng
                    .choice(&[
                        "UPGRADE",
                        "UPGRADE",
                        "DOWNGRADE",
                        "PAUSE",
                        "PAUSE",
                        "UNPAUSE",
                        "CANCEL",
                        "CANCEL",
                        "RETRACT",
                        "REACTIVATE",
                        "CLOSEACCOUNT",
                        "ACTIVATE AGAIN",
                    ])
                    .unwrap();
                today.push((user, kind));
            }
        }
        for (user, kind) in today {
            self.change(day, user, kind);
        }
    }

    fn change(&mut self, day: i64, member: usize, kind: &'static str) {
        let user = name(member);
        let second = self.rng.u32(..86_400);
        let at = format!("{}T{:02}:{:02}:{:02}Z", date(day), second / 3600, second / 60 % 60, second % 60);
        let is_late = kind != "ACTIVATE" && self.rng.u32(..12) == 0;
        let arrives = day + 1 + if is_late { self.rng.i64(1..4) } else { 0 };
        let (tier, cents) = *self.rng.choice(&TIERS).unwrap();
        let mut change = Change {
            delivered: format!("{}T05:00:00Z", date(arrives)),
            at: at.clone(),
            user: user.clone(),
            kind: kind.split(' ').next().unwrap(),
            cents,
            schedule: None,
            months: self.rng.i64(1..4),
        };
        let terms = match change.kind {
            "ACTIVATE" | "REACTIVATE" => {
                let schedule = self.schedule(day);
                let terms = json!({"tier": tier, "version": "v1", "amount": amount(cents),
                    "term": if schedule.yearly { "YEARLY" } else { "MONTHLY" },
                    "billing_date": format!("{}T00:00:00Z", schedule.anchor), "billing_week": schedule.week,
                    "provider": "cognito"});
                change.schedule = Some(schedule);
                terms
            }
            "UPGRADE" | "DOWNGRADE" => json!({"tier": tier, "version": "v2", "amount": amount(cents)}),
            "PAUSE" => json!({"pause_duration_months": change.months}),
            _ => Value::Null,
        };
        self.plan_what_follows(day, member, change.kind);
        self.events += 1;
        let record = json!({"event_id": format!("mem-{}", self.events), "type": change.kind,
            "occurred_at": at, "user_id": user, "membership": terms});
        let again = self.rng.u32(..10) == 0;
        let of_day = self.arriving.entry(arrives).or_default();
        of_day.push((change, record.clone()));
        if again {
            // A redelivery: the same fact, and no new change.
            self.ingest_later(arrives + 3, record);
        }
    }

    fn ingest_later(&mut self, day: i64, record: Value) {
        let again = Change {
            delivered: format!("{}T05:00:00Z", date(day)),
            at: record["occurred_at"].as_str().unwrap().to_owned(),
            user: record["user_id"].as_str().unwrap().to_owned(),
            kind: "DUPLICATE",
            cents: 0,
            schedule: None,
            months: 0,
        };
        self.arriving.entry(day).or_default().push((again, record));
    }

    /// Most members who leave come back; some cancellations and pauses are withdrawn.
    fn plan_what_follows(&mut self, day: i64, member: usize, kind: &str) {
        let (after, kind) = match (kind, self.rng.u32(..10)) {
            ("CANCEL", 0..3) => (self.rng.i64(1..20), "RETRACT"),
            ("CANCEL" | "CLOSEACCOUNT", 3..9) => (self.rng.i64(1..70), "REACTIVATE"),
            ("PAUSE", 0..4) => (self.rng.i64(1..80), "UNPAUSE"),
            _ => return,
        };
        self.planned.entry(day + after).or_default().push((member, kind));
    }

    /// Terms with the due dates that calendars get wrong.
    fn schedule(&mut self, day: i64) -> Schedule {
        let yearly = self.rng.u32(..8) == 0;
        let week = (self.rng.u32(..4) == 0).then(|| self.rng.i64(1..6));
        let mut anchor = date(day + self.rng.i64(3..40));
        match self.rng.u32(..8) {
            // The last days of a month; with a leap day, for those who join in time.
            0 | 1 => {
                let month = month_number(&anchor);
                anchor = format!("{}{}", &anchor[..8], days_in(month));
            }
            2 if date(day).as_str() < "2028-02-20" => anchor = "2028-02-29".to_owned(),
            _ => {}
        }
        Schedule { anchor, yearly, week }
    }

    /// One command of an operator, on a member who is chosen at random.
    fn operate(&mut self, day: i64, now: &str) {
        let member = self.rng.usize(..self.members);
        if self.joins_on[&member] + 1 > day {
            return;
        }
        let user = name(member);
        let shown: Value = serde_json::from_str(&self.ok(&["show", &user, "--json"])).unwrap();
        let records = shown["subscriptions"].as_array().unwrap().clone();
        let with = |statuses: &[&str]| {
            let is = |r: &&Value| statuses.contains(&text(r, "billing_status"));
            records.iter().rev().find(is).cloned()
        };
        let (kind, record) = match self.rng.u32(..20) {
            0..3 => ("waive", with(&["SCHEDULED"])),
            3..5 => ("pause", with(&["SCHEDULED"])),
            5..8 => ("resume", with(&["PAUSED"])),
            8 => ("cancel", with(&["SCHEDULED", "PAUSED"])),
            9 => ("cancel now", with(&["SCHEDULED", "PAUSED"])),
            10..12 => ("move", with(&["SCHEDULED"])),
            12..16 => ("pay", with(&["ERROR"]).or_else(|| with(&["SCHEDULED"]))),
            _ => ("refund", with(&["COMPLETED"])),
        };
        let Some(record) = record else { return };
        let due = day_number(text(&record, "billing_date"));
        let to = date((due + self.rng.i64(-10..13)).max(day + 1));
        let months = self.rng.i64(1..4);
        let (to_arg, months_arg) = (to.clone(), months.to_string());
        let cents = self.rng.i64(1..cents(text(&record, "billing_amount")) + 1);
        let (part, url) = (amount(cents), self.bank.url());
        let mut more: Vec<&str> = match kind {
            "pause" => vec!["--months", &months_arg],
            "cancel now" => vec!["--now"],
            "move" => vec!["--to", &to_arg],
            "pay" | "refund" => vec!["--gateway", &url],
            _ => Vec::new(),
        };
        if kind == "pay" && self.rng.bool() {
            more.push("--new-account");
        }
        if kind == "refund" {
            let transaction = text(&record, "transaction_id").to_owned();
            if transaction.is_empty() || !self.refunded.insert(transaction) {
                return;
            }
            if self.rng.bool() {
                more.extend(["--amount", &part]);
            }
        }
        let id = text(&record, "subscription_id").to_owned();
        let verb = kind.split(' ').next().unwrap();
        let args = [&[verb, &user, &id, "--as", "ada", "--as-of", now], more.as_slice()].concat();
        let is_done = self.dues(&args, &[]).status.success();
        if !is_done && kind != "pay" {
            return;
        }
        let kind = if more.contains(&"--new-account") { "pay new account" } else { kind };
        if kind.starts_with("cancel") && self.rng.u32(..10) < 7 {
            let after = self.rng.i64(1..60);
            self.planned.entry(day + after).or_default().push((member, "REACTIVATE"));
        }
        let at = now.to_owned();
        let (money, cents) = (String::new(), 0);
        self.operations.push(Operation { at, user, record: id, kind, months, to, money, cents });
    }

    /// Operators decide about half of the money that pays for nothing.
    fn decide_about_money(&mut self, now: &str) {
        let lines = self.ok(&["money", "list", "--json"]);
        let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for row in rows {
            let field = |name: &str| text(&row, name).to_owned();
            let (id, user, transaction) = (field("id"), field("user_id"), field("transaction_id"));
            let mut kind = match self.rng.u32(..6) {
                0 => "apply",
                1 => "money refund",
                2 => "dismiss",
                _ => continue,
            };
            let records: Value = serde_json::from_str(&self.ok(&["show", &user, "--json"])).unwrap();
            let records = records["subscriptions"].as_array().unwrap();
            let due = |r: &&Value| {
                text(r, "billing_status") == "SCHEDULED"
                    && cents(text(r, "billing_amount")) <= cents(text(&row, "amount"))
            };
            let target = records.iter().find(due).map(|r| text(r, "subscription_id").to_owned());
            if kind == "apply" && target.is_none() {
                kind = "dismiss";
            }
            if kind == "money refund" && !self.refunded.insert(transaction) {
                continue;
            }
            let (to, url) = (target.unwrap_or_default(), self.bank.url());
            let args: Vec<&str> = match kind {
                "apply" => vec!["money", "apply", &id, &to],
                "money refund" => vec!["money", "refund", &id, "--gateway", &url],
                _ => vec!["money", "dismiss", &id, "--reason", "a test"],
            };
            let args = [args.as_slice(), &["--as", "ada", "--as-of", now]].concat();
            // A refund may have been made although its answer was lost.
            if self.dues(&args, &[]).status.success() || kind == "money refund" {
                let cents = cents(text(&row, "amount"));
                let record = if kind == "apply" { to } else { field("subscription_id") };
                let (at, to) = (now.to_owned(), String::new());
                self.operations.push(Operation { at, user, record, kind, months: 0, to, money: id, cents });
            }
        }
    }

    fn ingest(&self, stream: &str, records: &[Value]) {
        if records.is_empty() {
            return;
        }
        let lines: String = records.iter().map(|record| format!("{record}\n")).collect();
        let output = self.dues(&["ingest", "--stream", stream, "-"], lines.as_bytes());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn ok(&self, args: &[&str]) -> String {
        let output = self.dues(args, &[]);
        assert!(
            output.status.success(),
            "{args:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn dues(&self, args: &[&str], input: &[u8]) -> Output {
        let mut command = Command::new(crate::program());
        command.arg("--data").arg(self.data()).args(args);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("DUES_")) {
            command.env_remove(name);
        }
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap()
    }

    fn rows(&self, table: &'static Table) -> Vec<Value> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let engine = Embedded::open(&self.data().join("dues.db")).unwrap();
        runtime.block_on(all(&engine, table)).iter().map(dues_events::Item::to_json).collect()
    }
}

/// Whether the job that ends pauses runs on a day.
pub(crate) fn ends_pauses(day: i64) -> bool {
    weekday(&date(day)) % 3 == 0
}

fn name(member: usize) -> String {
    format!("member-{member:04}")
}

pub(crate) fn text<'a>(row: &'a Value, name: &str) -> &'a str {
    row[name].as_str().unwrap_or_default()
}
