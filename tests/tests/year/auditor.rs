//! The auditor of the hostile year: invariants 1 to 3, from the bank's ledger, what was delivered, what
//! operators did, and the rows of the tables. Its own calendar, its own arithmetic, its own reckoning of
//! memberships.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

use crate::bank::{Debit, Report};
use crate::books::{Findings, check_history};
use crate::calendar::{Schedule, amount, cents, date, day_number, is_closed, months_later};
use crate::company::{Change, Operation, Year, ends_pauses, text};

const BARS: [&str; 4] = ["R05", "R07", "R10", "R29"];

pub(crate) fn audit(year: &Year) -> Findings {
    let mut found = Findings::default();
    let books = Books::of(year);
    count(year, &mut found);
    money(year, &books, &mut found);
    debits(year, &books, &mut found);
    for (user, memberships) in &books.memberships {
        for (n, membership) in memberships.iter().enumerate() {
            let events = Events::of(&books, user, membership, memberships.get(n + 1));
            changes(&books, membership, &events, &mut found);
            chain(&books, membership, &events, &mut found);
        }
    }
    silence(year, &books, &mut found);
    check_history(&year.records, &year.history, &mut found);
    found
}

/// The year, by record and by user.
struct Books<'a> {
    records: BTreeMap<&'a str, &'a Value>,
    /// By record, in the order of their first requests.
    debits: BTreeMap<&'a str, Vec<&'a Debit>>,
    /// By transaction.
    reports: BTreeMap<&'a str, Vec<&'a Report>>,
    changes: BTreeMap<&'a str, Vec<&'a Change>>,
    operations: BTreeMap<&'a str, Vec<&'a Operation>>,
    /// By user, in the order in which they began.
    memberships: BTreeMap<&'a str, Vec<Membership<'a>>>,
    /// When a record became too old, or its pause ended.
    closed: BTreeMap<&'a str, &'a str>,
    /// When a report first barred a user.
    barred: BTreeMap<&'a str, &'a str>,
}

/// One membership: since when, and its records by due date.
struct Membership<'a> {
    change: &'a Change,
    records: Vec<&'a Value>,
}

impl<'a> Books<'a> {
    fn of(year: &'a Year) -> Self {
        let mut books = Self {
            records: year.records.iter().map(|row| (text(row, "subscription_id"), row)).collect(),
            debits: BTreeMap::new(),
            reports: BTreeMap::new(),
            changes: BTreeMap::new(),
            operations: BTreeMap::new(),
            memberships: BTreeMap::new(),
            closed: BTreeMap::new(),
            barred: BTreeMap::new(),
        };
        for debit in &year.debits {
            books.debits.entry(&debit.record).or_default().push(debit);
        }
        books.debits.values_mut().for_each(|debits| debits.sort_by_key(|debit| &debit.requested));
        for report in &year.reports {
            books.reports.entry(&report.transaction).or_default().push(report);
            let bars = report.kind == "CHARGED_BACK" || BARS.contains(&report.code);
            if let (true, Some(at)) = (bars, &report.delivered) {
                let since = books.barred.entry(&report.user).or_insert(at);
                *since = (*since).min(at);
            }
        }
        for operation in &year.operations {
            books.operations.entry(&operation.user).or_default().push(operation);
        }
        for row in year.history.iter().filter(|row| text(row, "outcome") == "applied") {
            if ["STALE", "PAUSED_SKIPPED"].contains(&text(row, "billing_status")) {
                let at = text(row, "last_run_date");
                let first = books.closed.entry(text(row, "subscription_id")).or_insert(at);
                *first = (*first).min(at);
            }
        }
        let mut of_membership: BTreeMap<(&str, &str), Vec<&Value>> = BTreeMap::new();
        for row in &year.records {
            let key = (text(row, "user_id"), text(row, "member_since"));
            of_membership.entry(key).or_default().push(row);
        }
        let mut changes: Vec<&Change> = year.changes.iter().filter(|c| c.kind != "DUPLICATE").collect();
        changes.sort_by_key(|change| &change.delivered);
        for change in changes {
            let user = change.user.as_str();
            books.changes.entry(user).or_default().push(change);
            let known = books.memberships.entry(user).or_default();
            let begins = match change.kind {
                "REACTIVATE" => known.iter().all(|m| m.change.at <= change.at),
                // A second activation begins a membership only if there is none.
                "ACTIVATE" => known.is_empty() || of_membership.contains_key(&(user, change.at.as_str())),
                _ => false,
            };
            if begins {
                let mut records = of_membership.remove(&(user, change.at.as_str())).unwrap_or_default();
                records.sort_by_key(|row| scheduled(row));
                known.push(Membership { change, records });
            }
        }
        books
    }

    /// What the bank had reported about a transaction by then.
    fn outcome(&self, transaction: &str, by: &str) -> Outcome {
        let delivered = |r: &&&Report| r.delivered.as_deref().is_some_and(|at| at <= by);
        let reports = self.reports.get(transaction).map_or(&[][..], Vec::as_slice);
        Outcome::of(reports.iter().filter(delivered).copied())
    }
}

/// The due date before an operator moved it.
fn scheduled(row: &Value) -> &str {
    let original = text(row, "original_due_date");
    if original.is_empty() { text(row, "billing_date") } else { original }
}

/// What one transaction comes to: its latest report.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    last: &'static str,
    code: &'static str,
    currency: &'static str,
    settled: i64,
    refunded: i64,
}

impl Outcome {
    fn of<'a>(reports: impl Iterator<Item = &'a Report>) -> Self {
        let reports: Vec<&Report> = reports.filter(|r| !r.code.starts_with('C')).collect();
        let sum = |kind: &str| reports.iter().filter(|r| r.kind == kind).map(|r| r.cents).sum::<i64>();
        let (settled, refunded) = (sum("COMPLETED"), sum("REFUNDED"));
        let rank = |kind: &str| {
            ["SUBMITTED", "COMPLETED", "RETURNED", "REFUNDED", "CHARGED_BACK"].iter().position(|k| *k == kind)
        };
        // A refund ends a transaction once all of it went back.
        let counts = |r: &&&Report| r.kind != "REFUNDED" || settled > 0 && refunded >= settled;
        let last = reports.iter().filter(counts).max_by_key(|r| (&r.at, rank(r.kind)));
        Self {
            last: last.map_or("", |r| r.kind),
            code: last.map_or("", |r| r.code),
            currency: reports.iter().find(|r| r.kind == "COMPLETED").map_or("USD", |r| r.currency),
            settled,
            refunded,
        }
    }

    fn is_under_way(&self) -> bool {
        self.last.is_empty() || self.last == "SUBMITTED"
    }

    /// The money of it that is at the bank.
    fn held(&self) -> i64 {
        if self.last == "COMPLETED" { self.settled - self.refunded } else { 0 }
    }
}

/// At the end of the year, when every report has arrived.
const END: &str = "9999";

fn count(year: &Year, found: &mut Findings) {
    for debit in &year.debits {
        found.see("debits");
        if debit.performed.as_deref() != Some(&debit.requested) {
            found.see("requests repeated after a failure");
        }
    }
    for report in &year.reports {
        found.see(match (report.kind, report.currency) {
            ("COMPLETED", "USD") => "settled",
            ("COMPLETED", _) => "settled in another currency",
            ("RETURNED", _) if report.code.starts_with('C') => "notifications of change",
            ("RETURNED", _) => "returned",
            ("REFUNDED", _) => "refunds",
            ("CHARGED_BACK", _) => "charged back",
            _ => "submitted",
        });
        let late = report.delivered.as_deref().map_or(0, |at| day_number(at) - day_number(&report.at));
        if late > 10 {
            found.see("reported weeks late");
        }
    }
    for change in &year.changes {
        found.see(match change.kind {
            "ACTIVATE" => "activated",
            "REACTIVATE" => "reactivated",
            "CANCEL" => "cancelled",
            "RETRACT" => "retracted",
            "CLOSEACCOUNT" => "accounts closed",
            "PAUSE" => "paused",
            "UNPAUSE" => "resumed",
            "UPGRADE" => "upgraded",
            "DOWNGRADE" => "downgraded",
            _ => "changes delivered twice",
        });
    }
    for operation in &year.operations {
        found.see(operation.kind);
    }
    for row in &year.records {
        let is_yearly = text(row, "term") == "YEARLY";
        if is_yearly {
            found.see("yearly records");
        }
        if !row["billing_week"].is_null() {
            found.see("Friday records");
        }
        if text(row, "billing_date").starts_with("2029-02-28") && is_yearly {
            found.see("yearly records after a leap day");
        }
        if text(row, "billing_status") == "STALE" {
            found.see("too old");
        }
    }
    for row in &year.money {
        found.see(match text(row, "money_status") {
            "OPEN" => "money open",
            "APPLIED" => "money applied",
            "REFUNDING" => "money being refunded",
            "DISMISSED" => "money dismissed",
            _ => "money gone",
        });
    }
    *found.seen.entry("requests failed while the service was down").or_default() = year.failed_while_down;
}

/// Money at the bank = COMPLETED − refunds + unapplied, for each record and currency, and in sum. Records
/// that money was moved between count together.
fn money(year: &Year, books: &Books<'_>, found: &mut Findings) {
    let together = Together::of(year);
    let mut at_bank: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    let mut paying: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (transaction, reports) in &books.reports {
        let outcome = books.outcome(transaction, END);
        let record = reports[0].record.as_str();
        *at_bank.entry((together.first(record), outcome.currency)).or_default() += outcome.held();
        let due = books.records.get(record).map_or(i64::MAX, |row| cents(text(row, "billing_amount")));
        let pays = outcome.held() > 0 && outcome.currency == "USD" && outcome.settled >= due;
        if transaction.starts_with("c-") && pays {
            paying.entry(record).or_default().push(transaction);
        }
    }
    let mut in_books: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for (id, row) in &books.records {
        if text(row, "billing_status") == "COMPLETED" {
            let refunded = Some(text(row, "refunded_amount")).filter(|amount| !amount.is_empty());
            let paid = cents(text(row, "billing_amount")) - refunded.map_or(0, cents);
            *in_books.entry((together.first(id), "USD")).or_default() += paid;
        }
    }
    for row in &year.money {
        if ["OPEN", "REFUNDING", "DISMISSED"].contains(&text(row, "money_status")) {
            let key = (together.first(text(row, "subscription_id")), text(row, "currency"));
            *in_books.entry(key).or_default() += cents(text(row, "amount"));
        }
    }
    let keys: BTreeSet<_> = at_bank.keys().chain(in_books.keys()).copied().collect();
    let mut sums = (0, 0);
    for key in keys {
        let (bank, books_say) =
            (at_bank.get(&key).copied().unwrap_or(0), in_books.get(&key).copied().unwrap_or(0));
        sums = (sums.0 + bank, sums.1 + books_say);
        if bank != books_say {
            let status = books.records.get(key.0).map_or("unknown", |row| text(row, "billing_status"));
            found.wrong(format!(
                "record {} is {status}: {bank} cents {} at the bank, the books say {books_say}",
                key.0, key.1
            ));
        }
    }
    if sums.0 != sums.1 {
        found.wrong(format!("the bank holds {} cents, the books say {}", sums.0, sums.1));
    }
    for (record, transactions) in paying.iter().filter(|(_, transactions)| transactions.len() > 1) {
        found.wrong(format!("record {record} was paid by several debits of ours: {transactions:?}"));
    }
    found.collected = amount(sums.0);
}

/// Records between which operators have applied money: one transaction pays several of them.
struct Together<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Together<'a> {
    fn of(year: &'a Year) -> Self {
        let mut together = Self(BTreeMap::new());
        for operation in year.operations.iter().filter(|operation| operation.kind == "apply") {
            let from = together.first(operation.money.split(':').next().unwrap());
            let to = together.first(&operation.record);
            if from != to {
                together.0.insert(to, from);
            }
        }
        together
    }

    /// The record that stands for those that belong together.
    fn first<'b>(&self, mut record: &'b str) -> &'b str
    where
        'a: 'b,
    {
        while let Some(other) = self.0.get(record) {
            record = other;
        }
        record
    }
}

/// Every debit: on record before it happened, for the right member, at most three for a record, none while
/// one is under way, paid or undecided, none after a bar or a code that stops, only when banks are open.
fn debits(year: &Year, books: &Books<'_>, found: &mut Findings) {
    let empty = Vec::new();
    for debit in &year.debits {
        if !debit.on_record {
            found.wrong(format!("debit {} was requested before it was on record", debit.key));
        }
        let Some(at) = &debit.performed else { continue };
        let operations = books.operations.get(debit.user.as_str()).unwrap_or(&empty);
        let is_manual = |kind: &str| {
            operations.iter().any(|o| o.at == *at && o.record == debit.record && o.kind.starts_with(kind))
        };
        if is_closed(&at[..10]) && !is_manual("pay") {
            found.wrong(format!("debit {} was made on {at}, when banks are closed", debit.key));
        }
        if books.barred.get(debit.user.as_str()).is_some_and(|since| *since < at.as_str()) {
            found.wrong(format!("{} was debited after a bar: {}", debit.user, debit.key));
        }
        match books.records.get(debit.record.as_str()) {
            None => found.wrong(format!("debit {} belongs to no record", debit.key)),
            Some(record) if text(record, "user_id") != debit.user => {
                found.wrong(format!("debit {} took another member's money", debit.key));
            }
            Some(record) if &at[..10] < text(record, "billing_date").get(..10).unwrap() => {
                found.wrong(format!("debit {} was made before it fell due", debit.key));
            }
            Some(_) => {}
        }
        let stops = stops(books, debit, at);
        if let Some((code, needs)) = stops
            && !is_manual(needs)
        {
            found.wrong(format!("record {} was presented again after {code}: {}", debit.record, debit.key));
        }
        // The money of the record, as it was known then.
        for (transaction, reports) in &books.reports {
            if reports[0].record != debit.record || *transaction == format!("c-{}", debit.key) {
                continue;
            }
            let outcome = books.outcome(transaction, at);
            let money = format!("{}:{transaction}", debit.record);
            let is_decided = || operations.iter().any(|o| o.money == money && o.at < *at);
            if outcome.held() > 0 && !is_decided() {
                found.wrong(format!(
                    "record {} was debited with {} cents of its own at the bank: {}",
                    debit.record,
                    outcome.held(),
                    debit.key
                ));
            }
        }
    }
    for (record, of_record) in &books.debits {
        if of_record.len() > 3 {
            found.wrong(format!("record {record} was presented {} times", of_record.len()));
        }
        let (first, last) = (&of_record[0], &of_record[of_record.len() - 1]);
        if day_number(&last.requested) - day_number(&first.requested) > 180 {
            found.wrong(format!("record {record} was presented again after 180 days"));
        }
        if of_record.len() > 1 {
            found.see("presented again");
        }
        for pair in of_record.windows(2) {
            let outcome = books.outcome(&format!("c-{}", pair[0].key), &pair[1].requested);
            if outcome.is_under_way() && !pair[0].refused {
                found.wrong(format!("record {record} was debited with one under way: {}", pair[1].key));
            }
            if pair[0].cents != pair[1].cents {
                found.wrong(format!("record {record} was presented again with another amount"));
            }
        }
    }
}

/// The code of an earlier return of the record that stops this debit, and the command that lifts it.
fn stops(books: &Books<'_>, debit: &Debit, at: &str) -> Option<(&'static str, &'static str)> {
    let of_record = books.debits.get(debit.record.as_str())?;
    of_record.iter().filter(|earlier| earlier.key != debit.key).find_map(|earlier| {
        let outcome = books.outcome(&format!("c-{}", earlier.key), at);
        let paid_since = || {
            let others = books.reports.values().filter(|r| r[0].user == debit.user);
            others.flat_map(|r| r.iter()).any(|r| r.kind == "COMPLETED" && r.at.as_str() < at)
        };
        match (outcome.last, outcome.code) {
            ("RETURNED", "R16" | "R20") => Some((outcome.code, "nothing")),
            ("RETURNED", "R08" | "R11") => Some((outcome.code, "pay")),
            ("RETURNED", "R02" | "R03" | "R04") if !paid_since() => Some((outcome.code, "pay new account")),
            _ => None,
        }
    })
}

/// What concerned one membership after it began, in the order of delivery.
struct Events<'a> {
    /// Time, kind, cents, months, the time at which it occurred, the record that a command named.
    all: Vec<Event<'a>>,
    superseded: Option<&'a str>,
}

struct Event<'a> {
    at: &'a str,
    kind: &'a str,
    cents: i64,
    months: i64,
    occurred: &'a str,
    record: &'a str,
}

impl<'a> Events<'a> {
    fn of(books: &Books<'a>, user: &str, membership: &Membership<'a>, next: Option<&Membership<'a>>) -> Self {
        let since = membership.change.at.as_str();
        let mut all: Vec<Event<'a>> = Vec::new();
        for change in books.changes.get(user).into_iter().flatten() {
            if change.at.as_str() >= since && change.delivered > membership.change.delivered
                || change.at.as_str() > since && change.delivered == membership.change.delivered
            {
                all.push(Event {
                    at: &change.delivered,
                    kind: change.kind,
                    cents: change.cents,
                    months: change.months,
                    occurred: &change.at,
                    record: "",
                });
            }
        }
        for operation in books.operations.get(user).into_iter().flatten() {
            if membership.records.iter().any(|row| text(row, "subscription_id") == operation.record) {
                all.push(Event {
                    at: &operation.at,
                    kind: operation.kind,
                    cents: operation.cents,
                    months: operation.months,
                    occurred: &operation.at,
                    record: &operation.record,
                });
            }
        }
        all.sort_by_key(|event| event.at);
        Self { all, superseded: next.map(|next| next.change.delivered.as_str()) }
    }

    fn first(&self, kinds: &[&str]) -> Option<&'a str> {
        self.all.iter().find(|event| kinds.contains(&event.kind)).map(|event| event.at)
    }
}

/// No debit after a closed account or a reactivation; after a cancellation no record is presented for the
/// first time, and none beyond the period that was paid for or presented.
fn changes(books: &Books<'_>, membership: &Membership<'_>, events: &Events<'_>, found: &mut Findings) {
    let closed = events.first(&["CLOSEACCOUNT", "cancel now"]);
    let of_membership = membership.records.iter().map(|row| text(row, "subscription_id"));
    for id in of_membership {
        let of_record = books.debits.get(id).map_or(&[][..], Vec::as_slice);
        for debit in of_record {
            let Some(at) = debit.performed.as_deref() else { continue };
            if closed.is_some_and(|closed| at > closed) {
                found
                    .wrong(format!("{} was debited after the account was closed: {}", debit.user, debit.key));
            }
            if events.superseded.is_some_and(|superseded| at > superseded) {
                found.wrong(format!("{} was debited for a superseded membership: {}", debit.user, debit.key));
            }
            if let Some(cancelled) = cancelled_at(events, at) {
                let due = text(books.records[id], "billing_date");
                let schedule = membership.change.schedule.as_ref().unwrap();
                if of_record[0].requested.as_str() > cancelled {
                    found.wrong(format!("{} was debited after a cancellation: {}", debit.user, debit.key));
                } else if at[..10] > *schedule.next(due, due) {
                    found.wrong(format!("{} was debited beyond a cancellation: {}", debit.user, debit.key));
                }
            }
        }
    }
}

/// When a cancellation was delivered that stood at that time.
fn cancelled_at<'a>(events: &Events<'a>, at: &str) -> Option<&'a str> {
    let mut cancelled = None;
    for event in events.all.iter().filter(|event| event.at < at) {
        match event.kind {
            "CANCEL" | "cancel" => cancelled = cancelled.or(Some(event.at)),
            "RETRACT" => cancelled = None,
            _ => {}
        }
    }
    cancelled
}

/// Due dates, amounts and pauses of a membership's records, one after the other.
fn chain(books: &Books<'_>, membership: &Membership<'_>, events: &Events<'_>, found: &mut Findings) {
    let begun = membership.change;
    let user = &begun.user;
    let mut schedule = begun.schedule.clone().unwrap();
    let (mut amount, mut expected) = (begun.cents, schedule.anchor.clone());
    let mut since = begun.delivered.as_str();
    if membership.records.is_empty() {
        return found.wrong(format!("{user}: the membership since {} has no record", begun.at));
    }
    for row in &membership.records {
        let id = text(row, "subscription_id");
        let moved = books.operations.get(user.as_str()).into_iter().flatten();
        let moved = moved.filter(|o| o.kind == "move" && o.record == id).map(|o| o.to.as_str()).next_back();
        let due = moved.unwrap_or(&expected).to_owned();
        if text(row, "billing_date")[..10] != due {
            return found.wrong(format!(
                "{user}: due on {}, the calendar says {due}",
                &text(row, "billing_date")[..10]
            ));
        }
        found.see("due dates checked");
        let left = left_at(books, events, id);
        let walked = walk(events, since, left, &due);
        let left = walked.resumed.map_or(left, |event| event.at);
        if let Some(changed) = walked.amount {
            amount = changed;
        }
        for debit in books.debits.get(id).into_iter().flatten() {
            if debit.cents != amount && !walked.is_ambiguous {
                found.wrong(format!("debit {} took {} cents for {amount}", debit.key, debit.cents));
            }
            let requested = debit.requested.as_str();
            if walked.pauses.iter().any(|(from, until)| requested > *from && requested < *until) {
                found.wrong(format!("record {id} was debited during a pause: {}", debit.key));
            }
        }
        amount = walked.pending.unwrap_or(cents(text(row, "billing_amount")));
        let from = match text(row, "billing_status") {
            "PAUSED_SKIPPED" => {
                let expires = months_later(&due, walked.months);
                let resumed = walked.resumed.map_or(&*expires, |event| &event.occurred[..10]);
                let resumed = resumed.to_owned().min(expires.clone());
                if schedule.yearly {
                    schedule = Schedule { anchor: resumed.clone(), ..schedule };
                    (expected, since) = (resumed, left);
                    continue;
                }
                resumed
            }
            // Days that had passed when it became too old are not billed.
            "STALE" if !books.debits.contains_key(id) => date(day_number(&books.closed[id][..10]) + 1),
            _ => due.clone().max(expected.clone()),
        };
        (expected, since) = (schedule.next(&from, &expected), left);
    }
}

/// When a record stopped waiting for its first debit, unless a member resumed it.
fn left_at<'a>(books: &Books<'a>, events: &Events<'a>, id: &str) -> &'a str {
    let debited = books.debits.get(id).map(|debits| debits[0].requested.as_str());
    let commanded =
        events.all.iter().find(|e| e.record == id && ["waive", "apply"].contains(&e.kind)).map(|e| e.at);
    let closed = books.closed.get(id).copied();
    [debited, commanded, closed, events.superseded].into_iter().flatten().min().unwrap_or(END)
}

/// What happened to a record while it waited for its first debit.
#[derive(Default)]
struct Walked<'e, 'a> {
    /// An upgrade's amount.
    amount: Option<i64>,
    /// A downgrade's amount, for the next record.
    pending: Option<i64>,
    months: i64,
    pauses: Vec<(&'a str, &'a str)>,
    /// The event with which the member resumed after the due date: the record is skipped.
    resumed: Option<&'e Event<'a>>,
    /// A change of the plan arrived together with what ended the wait.
    is_ambiguous: bool,
}

fn walk<'e, 'a>(events: &'e Events<'a>, since: &str, left: &str, due: &str) -> Walked<'e, 'a> {
    let mut walked = Walked::default();
    let mut paused: Option<&str> = None;
    for event in events.all.iter().filter(|event| event.at >= since) {
        let is_plan = ["UPGRADE", "DOWNGRADE"].contains(&event.kind);
        walked.is_ambiguous |= is_plan && (event.at == since || event.at == left);
        // A resumption closes a record at the time when it occurred, before it arrived.
        let resumes = paused.is_some() && ["UNPAUSE", "resume"].contains(&event.kind);
        if event.at > left && !(resumes && event.occurred[..19] <= left[..left.len().min(19)]) {
            continue;
        }
        match event.kind {
            "UPGRADE" => (walked.amount, walked.pending) = (Some(event.cents), None),
            "DOWNGRADE" => walked.pending = Some(event.cents),
            "PAUSE" | "pause" if paused.is_none() => {
                (paused, walked.months) = (Some(event.at), event.months);
            }
            "UNPAUSE" | "resume" if resumes => {
                let expires = months_later(due, walked.months);
                if &event.occurred[..10] < due {
                    walked.pauses.extend(paused.take().map(|from| (from, event.at)));
                } else if !(day_number(&expires)..day_number(event.at)).any(ends_pauses) {
                    walked.resumed = Some(event);
                    break;
                }
            }
            _ => {}
        }
    }
    walked.pauses.extend(paused.map(|from| (from, END)));
    walked
}

/// At each month's end every active membership has exactly one record that waits or is promised; one that has
/// ended has none.
fn silence(year: &Year, books: &Books<'_>, found: &mut Findings) {
    for (day, records) in &year.month_ends {
        let at = format!("{day}T23:00:00Z");
        let mut of_user: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for row in records {
            of_user.entry(text(row, "user_id")).or_default().push(row);
        }
        for (user, memberships) in &books.memberships {
            let Some(n) = memberships.iter().rposition(|m| m.change.delivered < at) else { continue };
            let events = Events::of(books, user, &memberships[n], None);
            let rows = of_user.get(user).map_or(&[][..], Vec::as_slice);
            let waiting = waiting(rows);
            let is_of_this = |row: &&&Value| text(row, "member_since") == memberships[n].change.at;
            let is_barred = books.barred.get(user).is_some_and(|since| *since < at.as_str());
            let closed = events.first(&["CLOSEACCOUNT", "cancel now"]).is_some_and(|c| c < at.as_str());
            let was_cancelled = events.first(&["CANCEL", "cancel"]).is_some_and(|c| c < at.as_str());
            let took_effect =
                || rows.iter().filter(is_of_this).any(|row| text(row, "billing_status") == "CANCELLED");
            let counts = match (closed, cancelled_at(&events, &at)) {
                (true, _) => 0..=0,
                (false, Some(_)) => 0..=1,
                (false, None) if was_cancelled && took_effect() => 0..=1,
                (false, None) if is_barred => 0..=1,
                (false, None) => {
                    found.see("active memberships checked");
                    1..=1
                }
            };
            if !counts.contains(&waiting.len()) {
                let statuses: Vec<_> = rows.iter().map(|row| text(row, "billing_status")).collect();
                found.wrong(format!(
                    "{user} has {} waiting records on {day} instead of {counts:?}: {statuses:?}",
                    waiting.len()
                ));
            }
            for row in &waiting {
                if text(row, "member_since") != memberships[n].change.at {
                    found.wrong(format!("{user} is billed for an older membership on {day}"));
                }
                let late = day_number(day) - day_number(text(row, "billing_date"));
                let is_cancelled = cancelled_at(&events, &at).is_some();
                if text(row, "billing_status") == "SCHEDULED" && late > if is_cancelled { 6 } else { 95 } {
                    found.wrong(format!("{user} has waited for {late} days on {day}"));
                }
            }
        }
    }
}

/// The records that are still to be billed: the last of each chain, and those that promise one that is not
/// there. A record that was presented and has money of its own waits too, but the next one has followed it.
fn waiting<'a>(rows: &[&'a Value]) -> Vec<&'a Value> {
    let there: BTreeSet<&str> = rows.iter().map(|row| text(row, "subscription_id")).collect();
    let waits = |row: &&&Value| {
        let next = text(row, "next_subscription_id");
        match text(row, "billing_status") {
            "SCHEDULED" | "PAUSED" => !there.contains(next),
            "ACHSENT" | "ERROR" => !next.is_empty() && !there.contains(next),
            _ => false,
        }
    };
    rows.iter().filter(waits).copied().collect()
}

/// Breaks one rule; `false` when there is nothing to break.
type Breakage = fn(&mut Year) -> bool;

/// One broken rule each, and what the auditor has to say about it.
pub(crate) fn breakages() -> Vec<(&'static str, &'static str, Breakage)> {
    fn with(rows: &mut [Value], is: impl Fn(&Value) -> bool, change: impl Fn(&mut Value)) -> bool {
        rows.iter_mut().find(|row| is(row)).map(change).is_some()
    }
    fn is_paid(row: &Value) -> bool {
        text(row, "billing_status") == "COMPLETED"
    }
    /// Changes a debit that was made.
    fn debit(year: &mut Year, is: impl Fn(&Debit) -> bool, change: impl Fn(&mut Debit)) -> bool {
        year.debits.iter_mut().find(|d| d.performed.is_some() && is(d)).map(change).is_some()
    }
    /// Moves a debit to another time.
    fn made_at(debit: &mut Debit, at: &str) {
        (debit.requested, debit.performed) = (at.to_owned(), Some(at.to_owned()));
    }
    /// Delivers a change to the member of a debit, just before it.
    fn just_before(year: &mut Year, kind: &'static str, is_again: bool) -> bool {
        let presented_again = |d: &&Debit| !is_again || d.key.ends_with("-2");
        let Some(debit) = year.debits.iter().rev().filter(presented_again).find(|d| {
            let since = year.changes.iter().rfind(|c| c.user == d.user && c.schedule.is_some());
            let before = since.is_some_and(|c| c.delivered < d.requested);
            before && d.performed.as_deref() == Some(&d.requested)
        }) else {
            return false;
        };
        let time = format!("{}T05:00:00Z", &debit.requested[..10]);
        let like = year.changes.iter().rfind(|c| c.user == debit.user && c.schedule.is_some()).unwrap();
        let change = Change { kind, delivered: time.clone(), at: time, cents: 7, months: 3, ..like.clone() };
        year.changes.push(change);
        true
    }
    vec![
        ("a lost settlement", "at the bank, the books say", |year| {
            with(&mut year.records, is_paid, |row| row["billing_status"] = "ERROR".into())
        }),
        ("a settlement that never was", "at the bank, the books say", |year| {
            let failed = |row: &Value| text(row, "billing_status") == "ERROR";
            with(&mut year.records, failed, |row| row["billing_status"] = "COMPLETED".into())
        }),
        ("a cent too much", "at the bank, the books say", |year| {
            with(&mut year.records, is_paid, |row| {
                row["billing_amount"] = amount(cents(text(row, "billing_amount")) + 1).into();
            })
        }),
        ("a refund that is not on record", "at the bank, the books say", |year| {
            let is_refunded = |row: &Value| is_paid(row) && row["refunded_amount"].is_string();
            with(&mut year.records, is_refunded, |row| row["refunded_amount"] = Value::Null)
        }),
        ("a refund of the excess as one of the payment", "at the bank, the books say", |year| {
            let is_whole = |row: &Value| is_paid(row) && !row["refunded_amount"].is_string();
            with(&mut year.records, is_whole, |row| row["refunded_amount"] = "0.01".into())
        }),
        ("unapplied money that is not listed", "at the bank, the books say", |year| {
            let open = |row: &Value| text(row, "money_status") == "OPEN";
            year.money.iter().position(open).map(|n| year.money.remove(n)).is_some()
        }),
        ("unapplied money in another currency", "at the bank, the books say", |year| {
            let yen = |row: &Value| text(row, "currency") == "JPY" && text(row, "money_status") != "GONE";
            with(&mut year.money, yen, |row| row["currency"] = "USD".into())
        }),
        ("money that an operator applied and that is still open", "at the bank, the books say", |year| {
            let applied = |row: &Value| text(row, "money_status") == "APPLIED";
            with(&mut year.money, applied, |row| row["money_status"] = "OPEN".into())
        }),
        ("a period paid twice", "was paid by several debits of ours", |year| {
            let Some(paid) = year.reports.iter().find(|r| r.kind == "COMPLETED") else { return false };
            let mut again = paid.clone();
            again.transaction.push('0');
            year.reports.push(again);
            true
        }),
        ("a debit that was not on record", "before it was on record", |year| {
            debit(year, |_| true, |d| d.on_record = false)
        }),
        ("another member's money", "took another member's money", |year| {
            debit(year, |_| true, |d| d.user = "another".into())
        }),
        ("a debit of no record", "belongs to no record", |year| {
            debit(year, |_| true, |d| d.record = "none".into())
        }),
        ("a debit on a holiday", "when banks are closed", |year| {
            debit(year, |d| d.requested.starts_with("2028-07"), |d| made_at(d, "2028-07-04T08:00:00Z"))
        }),
        ("a debit on a Sunday", "when banks are closed", |year| {
            debit(year, |d| d.requested.starts_with("2028-07"), |d| made_at(d, "2028-07-09T08:00:00Z"))
        }),
        ("a debit before the due date", "before it fell due", |year| {
            debit(year, |_| true, |d| made_at(d, "2028-01-03T08:00:00Z"))
        }),
        ("a debit after a bar", "was debited after a bar", |year| {
            let bar = year.reports.iter().find(|r| r.kind == "CHARGED_BACK").map(|r| r.user.clone());
            let Some(user) = bar else { return false };
            debit(year, |d| d.user == user, |d| made_at(d, "2028-12-29T08:00:00Z"))
        }),
        ("a fourth presentment", "was presented 4 times", |year| {
            let of = |d: &&Debit| d.key.ends_with("-1") && d.performed.is_some();
            let Some(first) = year.debits.iter().find(of).cloned() else { return false };
            year.debits.retain(|d| d.record != first.record);
            for n in 1..=4 {
                let key = format!("{}-{n}", first.record);
                year.debits.push(Debit { key, ..first.clone() });
            }
            true
        }),
        ("a second debit at once", "with one under way", |year| {
            let is_settled = |d: &&Debit| d.performed.is_some() && !d.refused;
            let Some(mut again) = year.debits.iter().find(is_settled).cloned() else { return false };
            again.key = format!("{}-9", again.record);
            year.debits.push(again);
            true
        }),
        ("a debit of a record that is paid", "of its own at the bank", |year| {
            let paid = |r: &&Report| r.kind == "COMPLETED" && r.transaction.starts_with("c-");
            let Some(paid) = year.reports.iter().find(paid).cloned() else { return false };
            let first = year.debits.iter().find(|d| format!("c-{}", d.key) == paid.transaction);
            let mut again = first.unwrap().clone();
            again.key = format!("{}-9", again.record);
            made_at(&mut again, "2028-12-29T08:00:00Z");
            year.debits.push(again);
            true
        }),
        ("another amount when presented again", "presented again with another amount", |year| {
            debit(year, |d| d.key.ends_with("-2"), |d| d.cents += 1)
        }),
        ("a debit after R16 or R20", "was presented again after R", |year| {
            let stopped = |r: &&Report| ["R16", "R20"].contains(&r.code) && r.transaction.ends_with("-1");
            let Some(stopped) = year.reports.iter().find(stopped).cloned() else { return false };
            let first = year.debits.iter().find(|d| format!("c-{}", d.key) == stopped.transaction);
            let mut again = first.unwrap().clone();
            again.key = format!("{}-9", again.record);
            made_at(&mut again, "2028-12-29T08:00:00Z");
            year.debits.push(again);
            true
        }),
        ("a debit after 180 days", "again after 180 days", |year| {
            let again = |d: &Debit| d.key.ends_with("-2") && d.requested.as_str() < "2028-06";
            debit(year, again, |d| made_at(d, "2028-12-29T08:00:00Z"))
        }),
        ("a first debit after a cancellation", "was debited after a cancellation", |year| {
            just_before(year, "CANCEL", false)
        }),
        ("a debit long after a cancellation", "was debited beyond a cancellation", |year| {
            let is_early = |d: &&mut Debit| d.key.ends_with("-2") && d.requested.as_str() < "2028-09";
            let Some(late) = year.debits.iter_mut().find(is_early) else { return false };
            late.performed = Some("2028-12-29T08:00:00Z".to_owned());
            let cancelled = format!("{}T05:00:00Z", date(day_number(&late.requested) + 2));
            let row = year.records.iter().find(|row| text(row, "subscription_id") == late.record).unwrap();
            let begun = |c: &&Change| c.user == late.user && c.at == text(row, "member_since");
            let Some(begun) = year.changes.iter().find(begun).cloned() else { return false };
            // Nothing else happens to this membership.
            year.changes.retain(|c| c.user != begun.user || c.at == begun.at);
            let (delivered, at) = (cancelled.clone(), cancelled);
            year.changes.push(Change { kind: "CANCEL", delivered, at, ..begun });
            true
        }),
        ("a debit after a closed account", "after the account was closed", |year| {
            just_before(year, "CLOSEACCOUNT", true)
        }),
        ("a debit for a superseded membership", "for a superseded membership", |year| {
            just_before(year, "REACTIVATE", true)
        }),
        ("a debit during a pause", "during a pause", |year| just_before(year, "PAUSE", false)),
        ("a debit of the old amount", "cents for", |year| just_before(year, "UPGRADE", false)),
        ("a membership without records", "has no record", |year| {
            let Some(like) = year.changes.iter().find(|c| c.kind == "ACTIVATE").cloned() else {
                return false;
            };
            year.changes.push(Change { user: "nowhere".into(), ..like });
            true
        }),
        ("a wrong due date", "the calendar says", |year| {
            let second = |row: &Value| row["billing_date"] != row["anchor_date"] && is_paid(row);
            with(&mut year.records, second, |row| {
                let next = date(day_number(text(row, "billing_date")) + 1);
                row["billing_date"] = format!("{next}T00:00:00Z").into();
                row["original_due_date"] = Value::Null;
            })
        }),
        ("a missing period", "the calendar says", |year| {
            let between = |row: &Value| is_paid(row) && text(row, "term") == "MONTHLY";
            year.records.iter().position(between).map(|n| year.records.remove(n)).is_some()
        }),
        ("silence", "waiting records on", |year| {
            let waits = |row: &Value| text(row, "billing_status") == "SCHEDULED";
            let (_, records) = year.month_ends.last_mut().unwrap();
            let count = records.len();
            records.retain(|row| !waits(row));
            records.len() < count
        }),
        ("two chains", "waiting records on", |year| {
            let (_, records) = year.month_ends.last_mut().unwrap();
            let waits = |row: &&Value| text(row, "billing_status") == "SCHEDULED";
            let mut other = records.iter().find(waits).unwrap().clone();
            other["subscription_id"] = "other".into();
            records.push(other);
            true
        }),
        ("a bill for an older membership", "for an older membership", |year| {
            let (_, records) = year.month_ends.last_mut().unwrap();
            let waits = |row: &Value| text(row, "billing_status") == "SCHEDULED";
            with(records, waits, |row| row["member_since"] = "2027-01-01T00:00:00Z".into())
        }),
        ("a record that is forgotten", "has waited for", |year| {
            let (_, records) = year.month_ends.last_mut().unwrap();
            let waits = |row: &Value| text(row, "billing_status") == "SCHEDULED";
            with(records, waits, |row| row["billing_date"] = "2028-01-01T00:00:00Z".into())
        }),
        ("a missing history row", "has versions", |year| {
            let of_third = |row: &&Value| row["version"] == 3;
            let Some(third) = year.history.iter().find(of_third) else { return false };
            let id = third["subscription_id"].clone();
            let second = |row: &Value| row["version"] == 2 && row["subscription_id"] == id;
            year.history.iter().position(second).map(|n| year.history.remove(n)).is_some()
        }),
    ]
}
