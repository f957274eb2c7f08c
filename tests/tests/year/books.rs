//! The auditor. Plain JSON in, problems out.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

use crate::calendar::{cents, day_number, due_day, is_closed, month_number};
use crate::company::text;

/// The data to audit.
#[derive(Clone)]
pub(crate) struct Books {
    /// The gateway's own ledger: one row for each debit.
    pub(crate) debits: Vec<Value>,
    /// `billing-activity`.
    pub(crate) records: Vec<Value>,
    /// `billing-activity-history`.
    pub(crate) history: Vec<Value>,
}

#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) problems: Vec<String>,
    /// How often each case occurred.
    pub(crate) seen: BTreeMap<&'static str, u64>,
    /// The sum of COMPLETED records, as text.
    pub(crate) collected: String,
}

const UNAUTHORISED: [&str; 4] = ["R05", "R07", "R10", "R29"];

/// A debit as the gateway has reported it so far.
struct Debit<'a> {
    key: &'a str,
    user: &'a str,
    record: &'a str,
    cents: i64,
    submitted: &'a str,
    /// Time, kind, code.
    reports: Vec<(&'a str, &'a str, &'a str)>,
}

/// How many steps of a debit the sandbox has published: the column keeps its name.
const PUBLISHED: &str = "told";

/// The steps of a debit that the sandbox has published.
fn published(row: &Value) -> impl Iterator<Item = &str> {
    let count = usize::try_from(row[PUBLISHED].as_u64().unwrap()).unwrap();
    row["steps"].as_array().into_iter().flatten().take(count).map(|step| step.as_str().unwrap())
}

impl<'a> Debit<'a> {
    fn read(row: &'a Value) -> Self {
        let text = |name: &str| row[name].as_str().unwrap_or_default();
        let reports = published(row).map(|step| {
            let mut words = step.split(' ');
            (words.next().unwrap(), words.next().unwrap(), words.next().unwrap_or(""))
        });
        Self {
            key: text("key"),
            user: text("user_id"),
            record: text("subscription_id"),
            cents: cents(text("amount")),
            submitted: text("submitted_at"),
            reports: reports.collect(),
        }
    }

    fn has(&self, what: &str) -> bool {
        self.reports.iter().any(|(_, kind, _)| *kind == what)
    }

    /// Whether the company has the money.
    fn holds(&self) -> bool {
        self.has("COMPLETED") && !self.has("RETURNED") && !self.has("CHARGED_BACK")
    }
}

pub(crate) fn audit(books: &Books) -> Findings {
    let mut found = Findings::default();
    let debits: Vec<Debit<'_>> = books.debits.iter().map(Debit::read).collect();
    let records: BTreeMap<&str, &Value> =
        books.records.iter().map(|row| (row["subscription_id"].as_str().unwrap(), row)).collect();
    money(&debits, &records, &mut found);
    let mut of_record: BTreeMap<&str, Vec<&Debit<'_>>> = BTreeMap::new();
    for debit in &debits {
        of_record.entry(debit.record).or_default().push(debit);
    }
    presentments(&of_record, &records, &mut found);
    bars(&debits, &mut found);
    let mut history: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for row in &books.history {
        history.entry(row["subscription_id"].as_str().unwrap()).or_default().push(row);
    }
    for (id, rows) in &mut history {
        rows.sort_by_key(|row| row["version"].as_u64());
        changes_hold(id, rows, of_record.get(id).map_or(&[], Vec::as_slice), &mut found);
    }
    check_history(&books.records, &books.history, &mut found);
    periods(&books.records, &mut found);
    count_history(&books.history, &mut found);
    found
}

impl Findings {
    pub(crate) fn wrong(&mut self, problem: String) {
        self.problems.push(problem);
    }

    pub(crate) fn see(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }
}

/// Money at the gateway = COMPLETED + REFUNDED − REFUNDED, in sum and record by record.
fn money(debits: &[Debit<'_>], records: &BTreeMap<&str, &Value>, found: &mut Findings) {
    let (mut kept, mut refunded) = (BTreeMap::<&str, i64>::new(), BTreeMap::<&str, i64>::new());
    for debit in debits {
        found.see("debits");
        for (what, name) in
            [("COMPLETED", "settled"), ("REFUNDED", "refunded"), ("CHARGED_BACK", "charged back")]
        {
            if debit.has(what) {
                found.see(name);
            }
        }
        if debit.has("RETURNED") {
            found.see(if debit.has("COMPLETED") { "returned late" } else { "returned" });
        }
        if debit.holds() {
            *kept.entry(debit.record).or_default() += debit.cents;
        }
        if debit.has("REFUNDED") {
            *refunded.entry(debit.record).or_default() += debit.cents;
        }
        match records.get(debit.record) {
            None => found.wrong(format!("debit {} belongs to no record", debit.key)),
            Some(record) if text(record, "user_id") != debit.user => {
                found.wrong(format!("debit {} took another member's money", debit.key))
            }
            Some(record) if cents(text(record, "billing_amount")) != debit.cents => found.wrong(format!(
                "debit {} took {} cents for {}",
                debit.key,
                debit.cents,
                text(record, "billing_amount")
            )),
            Some(_) => {}
        }
    }
    let (mut in_records, mut at_gateway) = (0, 0);
    for (id, record) in records {
        let due = cents(text(record, "billing_amount"));
        let (paid, back) = (kept.get(id).copied().unwrap_or(0), refunded.get(id).copied().unwrap_or(0));
        at_gateway += paid - back;
        let (should_be_paid, should_be_back) = match text(record, "billing_status") {
            "COMPLETED" => (due, 0),
            "REFUNDED" => (due, due),
            _ => (0, 0),
        };
        in_records += should_be_paid - should_be_back;
        if (paid, back) != (should_be_paid, should_be_back) {
            let status = text(record, "billing_status");
            found.wrong(format!(
                "record {id} is {status}, but the gateway has {paid} cents of it and gave {back} back"
            ));
        }
    }
    if in_records != at_gateway {
        found.wrong(format!("the gateway holds {at_gateway} cents, the records say {in_records}"));
    }
    found.collected = format!("{}.{:02}", in_records / 100, in_records % 100);
}

/// At most three debits a record, 180 days from the first, one at a time, never after a code that stops,
/// only when banks are open.
fn presentments(
    of_record: &BTreeMap<&str, Vec<&Debit<'_>>>,
    records: &BTreeMap<&str, &Value>,
    found: &mut Findings,
) {
    for debit in of_record.values().flatten() {
        let day = &debit.submitted[..10];
        if is_closed(day) {
            found.wrong(format!("debit {} was made on {day}, when banks are closed", debit.key));
        }
    }
    for (id, debits) in of_record {
        let mut debits = debits.clone();
        debits.sort_by_key(|debit| debit.submitted);
        if debits.len() > 3 {
            found.wrong(format!("record {id} was presented {} times", debits.len()));
        }
        if debits.len() > 1 {
            found.see("presented again");
        }
        if day_number(&debits[debits.len() - 1].submitted[..10]) - day_number(&debits[0].submitted[..10])
            > 180
        {
            found.wrong(format!("record {id} was presented again after 180 days"));
        }
        if let Some(record) = records.get(id)
            && &debits[0].submitted[..10] < text(record, "billing_date").get(..10).unwrap()
        {
            found.wrong(format!("record {id} was debited before it fell due"));
        }
        for pair in debits.windows(2) {
            let ended = pair[0].reports.iter().find(|(_, what, _)| *what == "RETURNED");
            match ended {
                Some((at, _, code)) if *at < pair[1].submitted => {
                    if ["R08", "R11", "R16", "R20"].contains(code) || UNAUTHORISED.contains(code) {
                        found.wrong(format!("record {id} was presented again after {code}"));
                    }
                }
                Some(_) | None => found
                    .wrong(format!("record {id} was debited while a debit was under way: {}", pair[1].key)),
            }
        }
    }
}

/// No member is debited after an unauthorised return or a chargeback.
fn bars(debits: &[Debit<'_>], found: &mut Findings) {
    let mut barred: BTreeMap<&str, &str> = BTreeMap::new();
    for debit in debits {
        for (at, what, code) in &debit.reports {
            if *what == "CHARGED_BACK" || (*what == "RETURNED" && UNAUTHORISED.contains(code)) {
                let since = barred.entry(debit.user).or_insert(at);
                *since = (*since).min(at);
            }
        }
    }
    for debit in debits {
        if barred.get(debit.user).is_some_and(|since| debit.submitted > *since) {
            found.wrong(format!("{} was debited after a bar: {}", debit.user, debit.key));
        }
    }
    *found.seen.entry("members barred").or_default() += barred.len() as u64;
}

/// No debit of a record after its member closed the account, after a cancellation took effect, while it is
/// paused, or once it is closed.
fn changes_hold(id: &str, rows: &[&Value], debits: &[&Debit<'_>], found: &mut Findings) {
    for (n, row) in rows.iter().enumerate() {
        let (from, until) =
            (text(row, "last_run_date"), rows.get(n + 1).map_or("9999", |next| text(next, "last_run_date")));
        let cancelled_from = text(row, "cancel_at");
        for debit in debits {
            let during = debit.submitted > from && debit.submitted < until;
            let status = text(row, "billing_status");
            if during && !["SCHEDULED", "ERROR", "ACHSENT"].contains(&status) {
                found.wrong(format!("record {id} was debited while it was {status}: {}", debit.key));
            }
            // One instant may be written with and without a fraction: compare up to the second.
            if during
                && !cancelled_from.is_empty()
                && status != "ACHSENT"
                && debit.submitted[..19] >= cancelled_from[..19]
            {
                found.wrong(format!("record {id} was debited after its cancellation: {}", debit.key));
            }
        }
    }
}

/// Every record has a history without gaps that ends as the record.
pub(crate) fn check_history(records: &[Value], history: &[Value], found: &mut Findings) {
    let records: BTreeMap<&str, &Value> =
        records.iter().map(|row| (text(row, "subscription_id"), row)).collect();
    let mut of_record: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for row in history {
        of_record.entry(text(row, "subscription_id")).or_default().push(row);
    }
    for (id, rows) in &mut of_record {
        rows.sort_by_key(|row| row["version"].as_u64());
        ends_as_its_record(id, rows, records.get(id).copied(), found);
    }
    for id in records.keys().filter(|id| !of_record.contains_key(*id)) {
        found.wrong(format!("record {id} has no history"));
    }
}

/// The last history row equals the record.
fn ends_as_its_record(id: &str, rows: &[&Value], record: Option<&Value>, found: &mut Findings) {
    let Some(record) = record else {
        return found.wrong(format!("there is a history of record {id}, and no record"));
    };
    let versions: Vec<u64> = rows.iter().map(|row| row["version"].as_u64().unwrap()).collect();
    if versions != (1..=versions.len() as u64).collect::<Vec<_>>() {
        found.wrong(format!("the history of record {id} has versions {versions:?}"));
    }
    let changed = rows.iter().rev().find(|row| text(row, "outcome") == "applied");
    for name in [
        "billing_status",
        "billing_amount",
        "billing_date",
        "transaction_id",
        "usio_error",
        "receipt_tier_name",
        "process",
    ] {
        if changed.is_none_or(|row| row[name] != record[name]) {
            found.wrong(format!(
                "{name} of record {id} is {}, its history says {:?}",
                record[name],
                changed.map(|row| &row[name])
            ));
        }
    }
}

/// Every period of a membership has one record, due on the calendar's day; only pauses and records that were
/// too old to collect skip periods.
fn periods(records: &[Value], found: &mut Findings) {
    let mut memberships: BTreeMap<(&str, &str, &str), Vec<&Value>> = BTreeMap::new();
    for record in records {
        let of = (text(record, "user_id"), text(record, "member_since"), text(record, "anchor_date"));
        memberships.entry(of).or_default().push(record);
    }
    for ((user, _, anchor), mut of_one) in memberships {
        of_one.sort_by_key(|record| text(record, "billing_date"));
        let months: Vec<i64> =
            of_one.iter().map(|record| month_number(text(record, "billing_date"))).collect();
        if months.iter().collect::<BTreeSet<_>>().len() != months.len() {
            found.wrong(format!("{user} has two records for one period"));
        }
        for (n, record) in of_one.iter().enumerate() {
            let yearly = text(record, "term") == "YEARLY";
            let due = &text(record, "billing_date")[..10];
            let right = due_day(&anchor[..10], month_number(due), record["billing_week"].as_i64());
            // The first record falls due on the anchor itself, whatever the week.
            if due != right && due != &anchor[..10] {
                found.wrong(format!("{user}: due on {due}, the calendar says {right}"));
            }
            let Some(next) = of_one.get(n + 1) else { continue };
            let step = month_number(text(next, "billing_date")) - month_number(due);
            let paused = text(record, "billing_status") == "PAUSED_SKIPPED";
            // A record that was never presented and is too old after 90 days is followed by the first due
            // date from then on: the months between are not billed.
            let stale =
                text(record, "billing_status") == "STALE" && text(record, "transaction_id").is_empty();
            let expected = if yearly { 12 } else { 1 };
            if !(step == expected || paused && step >= 1 || stale && (3..=4).contains(&step)) {
                found
                    .wrong(format!("{user}: {step} months between {due} and {}", text(next, "billing_date")));
            }
        }
    }
}

fn count_history(history: &[Value], found: &mut Findings) {
    for row in history.iter().filter(|row| text(row, "outcome") == "applied") {
        match (text(row, "source"), text(row, "billing_status")) {
            ("memberships PAUSE", _) => found.see("paused"),
            ("dues pause", "PAUSED_SKIPPED") => found.see("pauses run out"),
            ("memberships REACTIVATE", "SCHEDULED") => found.see("reactivated"),
            ("memberships UPGRADE" | "memberships DOWNGRADE", _) => found.see("plans changed"),
            (_, "CANCELLED") => found.see("cancelled"),
            (_, _) => {}
        }
    }
}

/// Breaks one rule; `false` when there is nothing to break.
type Breakage = fn(&mut Books) -> bool;

/// One broken rule each.
pub(crate) fn breakages() -> Vec<(&'static str, Breakage)> {
    fn find(rows: &mut [Value], is: impl Fn(&Value) -> bool) -> Option<&mut Value> {
        rows.iter_mut().find(|row| is(row))
    }
    fn completed(books: &mut Books) -> Option<&mut Value> {
        find(&mut books.records, |row| {
            row["billing_status"] == "COMPLETED" && row["billing_amount"] != "0.00"
        })
    }
    /// Adds another debit like an existing one.
    fn again(books: &mut Books, is: impl Fn(&Value) -> bool, submitted: &str) -> bool {
        let Some(mut debit) = books.debits.iter().find(|row| is(row)).cloned() else { return false };
        debit["key"] = json!(format!("{}-again", debit["key"].as_str().unwrap()));
        debit["submitted_at"] = json!(submitted);
        debit[PUBLISHED] = json!(0);
        books.debits.push(debit);
        true
    }
    fn reported(row: &Value, what: &str) -> bool {
        published(row).any(|step| step.contains(what))
    }
    vec![
        ("a charge that is not on record", |books| {
            completed(books).is_some_and(|row| {
                row["billing_status"] = json!("SCHEDULED");
                true
            })
        }),
        ("a lost settlement", |books| {
            books.records.iter_mut().find(|row| row["billing_status"] == "ERROR").is_some_and(|row| {
                row["billing_status"] = json!("COMPLETED");
                true
            })
        }),
        ("another amount", |books| {
            completed(books).is_some_and(|row| {
                row["billing_amount"] = json!("1.00");
                true
            })
        }),
        ("a refund that is not on record", |books| {
            find(&mut books.records, |row| row["billing_status"] == "REFUNDED").is_some_and(|row| {
                row["billing_status"] = json!("COMPLETED");
                true
            })
        }),
        ("another member's money", |books| {
            completed(books).is_some_and(|row| {
                row["user_id"] = json!("another-member");
                true
            })
        }),
        ("a second debit at once", |books| {
            again(books, |row| !reported(row, "RETURNED"), "2026-08-28T08:00:00.000000000Z")
        }),
        ("a debit on a holiday", |books| {
            books.debits[0]["submitted_at"] = json!("2026-01-19T08:00:00.000000000Z");
            true
        }),
        ("a debit on a Saturday", |books| {
            books.debits[0]["submitted_at"] = json!("2026-01-24T08:00:00.000000000Z");
            true
        }),
        ("a debit before the due date", |books| {
            books.debits[0]["submitted_at"] = json!("2025-12-30T08:00:00.000000000Z");
            true
        }),
        ("a fourth presentment", |books| {
            (0..3).all(|n| {
                again(
                    books,
                    |row| reported(row, "RETURNED R01"),
                    &format!("2026-08-{:02}T08:00:00.000000000Z", 25 + n),
                )
            })
        }),
        ("a debit after R16", |books| {
            again(books, |row| reported(row, "RETURNED R16"), "2026-08-28T08:00:00.000000000Z")
        }),
        ("a debit after a bar", |books| {
            let Some(user) = books
                .debits
                .iter()
                .find(|row| reported(row, "CHARGED_BACK") || reported(row, "RETURNED R10"))
                .map(|row| row["user_id"].clone())
            else {
                return false;
            };
            books.debits[0]["user_id"] = user;
            books.debits[0]["submitted_at"] = json!("2026-08-28T08:00:00.000000000Z");
            true
        }),
        ("a debit after a cancellation", |books| {
            let Some(id) = find(&mut books.records, |row| row["billing_status"] == "CANCELLED")
                .map(|row| row["subscription_id"].clone())
            else {
                return false;
            };
            books.debits[0]["subscription_id"] = id;
            books.debits[0]["submitted_at"] = json!("2026-08-28T08:00:00.000000000Z");
            books.debits[0][PUBLISHED] = json!(0);
            true
        }),
        ("a period twice", |books| {
            let Some(mut twice) = completed(books).cloned() else { return false };
            twice["subscription_id"] = json!("twice");
            twice["billing_status"] = json!("SCHEDULED");
            books.records.push(twice);
            true
        }),
        ("a wrong due date", |books| {
            find(&mut books.records, |row| row["billing_date"] != row["anchor_date"]).is_some_and(|row| {
                let moved = format!("{}-29T00:00:00Z", &row["billing_date"].as_str().unwrap()[..7]);
                let same = row["billing_date"] == json!(moved);
                row["billing_date"] = json!(if same { moved.replace("-29T", "-28T") } else { moved });
                true
            })
        }),
        ("a missing period", |books| {
            let gone = books.records.iter().position(|row| {
                row["billing_status"] == "CANCELLED"
                    || (row["billing_status"] == "COMPLETED" && row["next_subscription_id"].is_string())
            });
            gone.map(|n| books.records.remove(n)).is_some()
        }),
        ("a missing history row", |books| {
            books
                .history
                .iter()
                .position(|row| row["version"] == 2)
                .map(|n| books.history.remove(n))
                .is_some()
        }),
        ("a history of something else", |books| {
            let Some(record) = completed(books).cloned() else { return false };
            for row in
                books.history.iter_mut().filter(|row| row["subscription_id"] == record["subscription_id"])
            {
                row["transaction_id"] = json!("another");
            }
            true
        }),
    ]
}
