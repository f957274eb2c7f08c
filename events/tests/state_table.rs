//! Every cell of the state tables, and the rules around them.
//!
//! The expected values are written by hand from the specification; nothing here computes them.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use dues_events::billing::decide::{Followup, followups, next_record, resume_date};
use dues_events::billing::event::{Answer, AttemptName, CancelTime, Ignored, Paid, Report, ReportKind};
use dues_events::billing::idempotency::IdempotencyToken;
use dues_events::billing::membership::{Change, ChangePlan, MembershipEvent, NewMembership, Step, plan};
use dues_events::billing::record::{
    Closed, FailedAttempt, Failure, Pause, Payment, Plan, Receipt, TierName, UpdatedEvent,
};
use dues_events::collections::ach::ReturnCode;
use dues_events::decide;
use dues_events::money::Currency;
use dues_events::{
    Event, EventId, EventKind, GoTime, Outcome, Record, Rejection, State, Status, Time, TransactionId,
};

/// What the attempts of a record come to. Each report is `transaction kind day [argument]`, with days of
/// February 2026 and 14.99 USD unless it says otherwise; `-` is a report without a name. After the status
/// come the transaction of the record, its refunded amount and the money that pays for nothing.
const ATTEMPTS: &str = "
-- no attempt
                                                                    | SCHEDULED |    |      |
-- one attempt: its latest report
a sent 1                                                            | ACHSENT   | a  |      |
a settled 3                                                         | COMPLETED | a  |      |
a returned 3                                                        | ERROR     | a  |      |
a charged 3                                                         | ERROR+bar | a  |      |
a refunded 3                                                        | REFUNDED  | a  |14.99 |
a sent 1, a settled 3                                               | COMPLETED | a  |      |
a sent 1, a returned 3                                              | ERROR     | a  |      |
a settled 3, a returned 5                                           | ERROR     | a  |      |
a settled 3, a refunded 5                                           | REFUNDED  | a  |14.99 |
a settled 3, a charged 5                                            | ERROR+bar | a  |      |
a returned 3, a settled 5                                           | COMPLETED | a  |      |
a returned 3, a sent 5                                              | ACHSENT   | a  |      |
a settled 3, a refunded 5, a charged 7                              | ERROR+bar | a  |      |
a settled 7, a returned 20                                          | ERROR     | a  |      |
-- at the same time the rank decides: sent, settled, returned, refunded, charged back
a sent 3, a settled 3                                               | COMPLETED | a  |      |
a settled 3, a returned 3                                           | ERROR     | a  |      |
a returned 3, a refunded 3                                          | REFUNDED  | a  |14.99 |
a refunded 3, a charged 3                                           | ERROR+bar | a  |      |
-- one stands settled
a settled 3, b sent 4                                               | COMPLETED | a  |      |
a settled 3, b returned 4                                           | COMPLETED | a  |      |
a settled 3, b settled 4, b refunded 5                              | COMPLETED | a  |      |
a settled 3, b charged 4                                            | COMPLETED+bar | a |   |
a returned 2, b sent 3, a settled 4                                 | COMPLETED | a  |      |
a returned 2, b sent 3, a settled 4, b returned 5                   | COMPLETED | a  |      |
-- and another one too: the first to settle pays, the other is surplus
a settled 3, b settled 4                                            | COMPLETED | a  |      | b 14.99 USD surplus
a settled 4, b settled 3                                            | COMPLETED | b  |      | a 14.99 USD surplus
a settled 3, b settled 4, a returned 5                              | COMPLETED | b  |      |
a settled 3, b settled 4, a refunded 5                              | COMPLETED | b  |      |
a settled 3, b settled 4, c settled 5                               | COMPLETED | a  |      | b 14.99 USD surplus, c 14.99 USD surplus
-- none settled, one under way
a returned 2, b sent 3                                              | ACHSENT   | b  |      |
a sent 2, b returned 3                                              | ACHSENT   | a  |      |
a settled 2, a refunded 3, b sent 4                                 | ACHSENT   | b  |      |
a charged 2, b sent 3                                               | ACHSENT+bar | b |     |
-- none of these, one refunded: not collected again, also if a later one failed
a settled 2, a refunded 3, b returned 4                             | REFUNDED  | a  |14.99 |
a returned 1, b settled 2, b refunded 3                             | REFUNDED  | b  |14.99 |
a settled 2, a refunded 3, b charged 4                              | REFUNDED+bar | a |14.99 |
-- none of these, one failed: the latest failure
a returned 2 R01, b returned 3 R09                                  | ERROR R09 | b  |      |
a returned 3 R09, b returned 2 R01                                  | ERROR R09 | a  |      |
a returned 2 R10, b returned 3 R01                                  | ERROR+bar R01 | b |   |
a settled 2, a returned 20 R10                                      | ERROR+bar R10 | a |   |
-- amounts: the amount due, or more, in US dollars pays
a settled 3 15.00                                                   | COMPLETED | a  |      | a 0.01 USD excess
a settled 3 29.99                                                   | COMPLETED | a  |      | a 15 USD excess
a settled 3 14.98                                                   | SCHEDULED |    |      | a 14.98 USD too little
a settled 3 0.01 JPY                                                | SCHEDULED |    |      | a 0.01 JPY other currency
a settled 3 14.99 CAD                                               | SCHEDULED |    |      | a 14.99 CAD other currency
a settled 3 1499 JPY                                                | SCHEDULED |    |      | a 1499 JPY other currency
a settled 3 14.98, b sent 4                                         | ACHSENT   | b  |      | a 14.98 USD too little
a settled 3 14.98, b returned 4                                     | ERROR     | b  |      | a 14.98 USD too little
a settled 3 14.98, b settled 4                                      | COMPLETED | b  |      | a 14.98 USD too little
a settled 3 7.50, b settled 4 7.49                                  | SCHEDULED |    |      | a 7.5 USD too little, b 7.49 USD too little
a settled 3 20.00, b settled 4 14.99                                | COMPLETED | a  |      | a 5.01 USD excess, b 14.99 USD surplus
a settled 3 14.98, a returned 4                                     | ERROR     | a  |      |
-- refunds add up
a settled 3, a refunded 5 1.00                                      | COMPLETED | a  |1     |
a settled 3, a refunded 5 14.98                                     | COMPLETED | a  |14.98 |
a settled 3, a refunded 5 10.00, a refunded 6 4.98                  | COMPLETED | a  |14.98 |
a settled 3, a refunded 5 10.00, a refunded 6 4.99                  | REFUNDED  | a  |14.99 |
a settled 3, a refunded 5 10.00, a refunded 6 9.99                  | REFUNDED  | a  |19.99 |
a settled 3, a refunded 5 14.99 CAD                                 | COMPLETED | a  |      |
a settled 3 20.00, a refunded 5 14.99                               | COMPLETED | a  |9.98  |
a settled 3 20.00, a refunded 5 3.00                                | COMPLETED | a  |      | a 2.01 USD excess
a settled 3 20.00, a refunded 5 20.00                               | REFUNDED  | a  |14.99 |
a settled 3, b settled 4, b refunded 5 10.00                        | COMPLETED | a  |      | b 4.99 USD surplus
a settled 3 10.00, a refunded 5 4.00                                | SCHEDULED |    |      | a 6 USD too little
a settled 3 100 CAD, a refunded 5 60 CAD                            | SCHEDULED |    |      | a 40 CAD other currency
-- a report without a name is about the one under way, else about the only one
a sent 1, - settled 3                                               | COMPLETED | a  |      |
a returned 1, b sent 2, - settled 3                                 | COMPLETED | b  |      |
a returned 1, b sent 2, - returned 3 R09                            | ERROR R09 | b  |      |
a settled 2, - refunded 3                                           | REFUNDED  | a  |14.99 |
- sent 1                                                            | ACHSENT   |    |      |
- settled 3                                                         | COMPLETED |    |      |
- sent 1, - settled 3                                               | COMPLETED |    |      |
- sent 1, a settled 3                                               | COMPLETED | a  |      |
";

/// What members, operators and jobs do, in every status. `–` is a rejection. UNPAUSE depends on the due
/// date: still ahead, or passed.
const CHANGES: &str = "
               | intended | paused | unpaused ahead | unpaused passed | expired        | waived | cancelled | too old
SCHEDULED      | ACHSENT  | PAUSED | –              | –               | –              | WAIVED | CANCELLED | STALE
ERROR          | ACHSENT  | PAUSED | –              | –               | –              | WAIVED | CANCELLED | STALE
PAUSED         | –        | –      | SCHEDULED      | PAUSED_SKIPPED  | PAUSED_SKIPPED | WAIVED | CANCELLED | STALE
ACHSENT        | –        | –      | –              | –               | –              | –      | –         | –
COMPLETED      | –        | –      | –              | –               | –              | –      | –         | –
REFUNDED       | –        | –      | –              | –               | –              | –      | –         | –
WAIVED         | –        | –      | –              | –               | –              | –      | –         | –
CANCELLED      | –        | –      | –              | –               | –              | –      | –         | –
PAUSED_SKIPPED | –        | –      | –              | –               | –              | –      | –         | –
STALE          | –        | –      | –              | –               | –              | –      | –         | –
";

/// A report of transaction `b` in every status; statuses of another writer know `a`. `!` is money that pays
/// for nothing.
const REPORTS: &str = "
               | sent      | settled        | returned       | refunded       | charged
SCHEDULED      | ACHSENT   | COMPLETED      | ERROR          | REFUNDED       | ERROR+bar
ERROR          | ACHSENT   | COMPLETED      | ERROR          | REFUNDED       | ERROR+bar
ACHSENT        | ACHSENT   | COMPLETED      | ACHSENT        | ACHSENT        | ACHSENT+bar
PAUSED         | ACHSENT   | COMPLETED      | ERROR          | REFUNDED       | ERROR+bar
COMPLETED      | COMPLETED | COMPLETED!     | COMPLETED      | COMPLETED      | COMPLETED+bar
REFUNDED       | ACHSENT   | COMPLETED      | REFUNDED       | REFUNDED       | REFUNDED+bar
WAIVED         | WAIVED    | WAIVED!        | WAIVED         | WAIVED         | WAIVED+bar
CANCELLED      | CANCELLED | CANCELLED!     | CANCELLED      | CANCELLED      | CANCELLED+bar
PAUSED_SKIPPED | PAUSED_SKIPPED | PAUSED_SKIPPED! | PAUSED_SKIPPED | PAUSED_SKIPPED | PAUSED_SKIPPED+bar
STALE          | STALE     | STALE!         | STALE          | STALE          | STALE+bar
";

fn t(text: &str) -> Time {
    dues_events::time::parse(text).unwrap()
}

fn day(day: &str) -> Time {
    t(&format!("2026-02-{day:0>2}T00:00:00Z"))
}

fn transaction(id: &str) -> Option<TransactionId> {
    Some(id.into())
}

fn event(id: &str, at: &str, kind: EventKind) -> Event {
    Event::internal(id.into(), t(at), "test", kind)
}

fn failure(code: &str) -> Failure {
    Failure::new(ReturnCode::read(code), Some("why"))
}

fn receipt() -> Receipt {
    Receipt { account_mask: "6789".into(), payment_type: "ACH".into() }
}

fn settled(amount: &str, currency: &str) -> ReportKind {
    ReportKind::Settled {
        amount: amount.parse().unwrap(),
        currency: Currency::read(currency).unwrap(),
        receipt: receipt(),
    }
}

/// The report of that name, for 14.99 USD or R01 unless the arguments say otherwise.
fn report_kind(name: &str, arguments: &[&str]) -> ReportKind {
    let first = arguments.first().copied();
    let currency = arguments.get(1).copied().unwrap_or("USD");
    match name {
        "sent" => ReportKind::Sent,
        "settled" => settled(first.unwrap_or("14.99"), currency),
        "returned" => ReportKind::Returned(failure(first.unwrap_or("R01"))),
        "refunded" => ReportKind::Refunded {
            amount: first.unwrap_or("14.99").parse().unwrap(),
            currency: Currency::read(currency).unwrap(),
        },
        "charged" => ReportKind::ChargedBack(Failure::new(None, Some("charged back"))),
        other => panic!("no report {other}"),
    }
}

fn reported(transaction_id: Option<TransactionId>, kind: ReportKind) -> EventKind {
    EventKind::Reported(Report { attempt: AttemptName { transaction_id, number: None }, kind })
}

/// A report of the table, such as `a settled 3 15.00`.
fn report_event(text: &str) -> Event {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [name, kind, on, ..] = words.as_slice() else { panic!("not a report: {text}") };
    let id = (*name != "-").then(|| TransactionId::from(*name));
    Event::internal(text.into(), day(on), "test", reported(id, report_kind(kind, &words[3..])))
}

/// The event kind of a column.
fn change(column: &str, record: &Record) -> EventKind {
    match column {
        "intended" => EventKind::Intended { number: record.attempts.next_number() },
        "paused" => EventKind::Paused { months: 2 },
        "unpaused ahead" | "unpaused passed" => EventKind::Unpaused,
        "expired" => EventKind::PauseExpired,
        "waived" => EventKind::Waived,
        "cancelled" => EventKind::Cancelled,
        "too old" => EventKind::TooOld,
        other => panic!("no column {other}"),
    }
}

/// A record that was activated on 5 January for 31 January and never attempted.
fn fresh() -> Record {
    let id = EventId::from("mem-1");
    let membership = MembershipEvent {
        token: IdempotencyToken::new(&id, &[]),
        id,
        at: t("2026-01-05T00:00:00Z"),
        user_id: "u-1".into(),
        source: "test".into(),
        change: Change::Activate(NewMembership {
            plan: plan_of("Plus", "14.99"),
            term: dues_events::calendar::Term::Monthly,
            billing_date: t("2026-01-31T00:00:00Z"),
            billing_week: None,
            provider: None,
        }),
    };
    let first = plan(&[], &membership, dues_events::ParkedEvents::Keep).unwrap();
    let ChangePlan::Next(Step::Create(record, _)) = first else { panic!("not a new record: {first:?}") };
    *record
}

fn plan_of(tier: &str, amount: &str) -> Plan {
    Plan { amount: amount.parse().unwrap(), tier: TierName::new(tier, "v2") }
}

/// A record of another writer in that status; its attempt is `a`, of 1 February, closed on 3 February.
fn record_in(status: Status) -> Record {
    let at = Some(GoTime::trimmed(day("3")));
    let failed = FailedAttempt { transaction_id: transaction("a"), failure: failure("R01") };
    let closed = Closed { at: at.clone(), last: None };
    let payment = Payment { transaction_id: transaction("a"), at };
    let state = match status {
        Status::Scheduled => State::Scheduled,
        Status::AchSent => State::AchSent(transaction("a")),
        Status::Completed => State::Completed(payment),
        Status::Error => State::Error(failed),
        Status::Waived => State::Waived(closed),
        Status::Cancelled => State::Cancelled(closed),
        Status::Paused => State::Paused(Pause { months: 2, last: None }),
        Status::PausedSkipped => State::PausedSkipped(Pause { months: 2, last: None }, closed),
        Status::Refunded => State::Refunded(payment),
        Status::Stale => State::Stale(closed),
    };
    let attempted = matches!(
        status,
        Status::AchSent | Status::Completed | Status::Error | Status::PausedSkipped | Status::Refunded
    );
    let initial_run_date = attempted.then(|| GoTime::trimmed(day("1")));
    let record = Record { initial_run_date, ..fresh() }.in_state(state);
    assert_eq!(record.status(), status, "a record of another writer keeps its status");
    record
}

/// The rows of a table; its first line names the columns.
fn rows(table: &'static str) -> (Vec<&'static str>, Vec<Vec<&'static str>>) {
    let cells = |line: &'static str| line.split('|').map(str::trim).collect::<Vec<_>>();
    let mut lines = table.lines().filter(|line| !line.is_empty()).map(cells);
    (lines.next().unwrap(), lines.collect())
}

fn with_bar(record: &Record) -> String {
    let bar = if record.bar.is_some() { "+bar" } else { "" };
    format!("{}{bar}", record.status())
}

fn unapplied(record: &Record) -> String {
    let one = |money: &dues_events::billing::attempts::UnappliedMoney| {
        let reason = match money.reason.as_str() {
            "the period was paid by another transaction" => "surplus",
            "more than the amount due" => "excess",
            "less than the amount due" => "too little",
            "not in US dollars" => "other currency",
            "the record was closed without a payment" => "closed",
            other => panic!("{other}"),
        };
        let id = money.transaction_id.as_ref().map_or("-", TransactionId::as_str);
        format!("{id} {} {} {reason}", money.amount.decimal().normalize(), money.currency)
    };
    record.unapplied_money().iter().map(one).collect::<Vec<_>>().join(", ")
}

/// All orders of up to four reports; of more, the rotations of the list and of its reverse.
fn orders(reports: &[Event]) -> Vec<Vec<Event>> {
    fn all(reports: &[Event]) -> Vec<Vec<Event>> {
        if reports.is_empty() {
            return vec![Vec::new()];
        }
        let mut found = Vec::new();
        for n in 0..reports.len() {
            let mut rest = reports.to_vec();
            let first = rest.remove(n);
            found.extend(all(&rest).into_iter().map(|tail| [vec![first.clone()], tail].concat()));
        }
        found
    }
    assert!(reports.len() <= 4, "the table has no longer rows");
    all(reports)
}

/// What a row of [`ATTEMPTS`] says about a record.
fn summary(record: &Record) -> [String; 4] {
    let code = record.state.last_failure().and_then(|failed| failed.failure.code());
    let refunded = record.refunded_amount().decimal();
    let shown = if refunded.is_zero() { String::new() } else { refunded.normalize().to_string() };
    [
        format!("{} {}", with_bar(record), code.map(|code| code.to_string()).unwrap_or_default()),
        record.state.transaction_id().map(ToString::to_string).unwrap_or_default(),
        shown,
        unapplied(record),
    ]
}

#[test]
fn every_row_of_the_attempts_table_in_every_order_of_arrival() {
    let mut checked = 0;
    for line in ATTEMPTS.lines().filter(|line| !line.is_empty() && !line.starts_with("--")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [reports, status, transaction, refunded, money] = cells.as_slice() else { panic!("{line}") };
        let reports: Vec<Event> =
            reports.split(',').filter(|text| !text.trim().is_empty()).map(report_event).collect();
        let is_named = |event: &Event| matches!(&event.kind, EventKind::Reported(r) if r.attempt.transaction_id.is_some());
        // Which attempt a nameless report is about depends on what was known when it came.
        let orders = if reports.iter().all(is_named) { orders(&reports) } else { vec![reports.clone()] };
        for order in orders {
            let mut record = fresh();
            for report in &order {
                record = decide(&record, report).unwrap().record;
            }
            let [has_status, has_transaction, has_refunded, has_money] = summary(&record);
            let reports: Vec<&str> = order.iter().map(|event| event.id.as_str().trim()).collect();
            // Codes are compared where the row names one.
            let has_status = has_status.trim();
            let is_status = if status.contains(' ') {
                has_status == *status
            } else {
                has_status.split(' ').next() == Some(status)
            };
            assert!(is_status, "{reports:?}: {has_status}, the table says {status}");
            assert_eq!(has_transaction, *transaction, "{reports:?}");
            assert_eq!(has_refunded, *refunded, "{reports:?}");
            assert_eq!(has_money, *money, "{reports:?}");
            // Delivered again, nothing changes: refunds add up, but one fact is taken once, by its id.
            for report in order.iter().filter(|report| !report.id.as_str().contains("refunded")) {
                let again = decide(&record, report).unwrap();
                if is_named(report) {
                    assert_eq!(again.outcome, Outcome::Ignored(Ignored::ReportKnown), "{reports:?}");
                    assert_eq!(again.record, record, "{reports:?}");
                }
            }
            // The row keeps all of it.
            assert_eq!(Record::from_item(record.to_item()).unwrap(), record, "{reports:?}");
            checked += 1;
        }
    }
    assert_eq!(checked, 204, "rows and orders");
}

/// The status of a paused record follows from the pause only where no attempt says otherwise. Once another
/// service has collected it, the pause goes over to the next record.
#[test]
fn the_attempts_table_of_a_paused_record() {
    for (reports, status) in [
        ("a settled 3 14.98", "PAUSED"),
        ("a returned 3", "ERROR"),
        ("a sent 3", "ACHSENT"),
        ("a settled 3", "COMPLETED"),
        ("a settled 3, a refunded 4", "REFUNDED"),
        ("a settled 3, a returned 4", "ERROR"),
    ] {
        let mut record =
            decide(&fresh(), &event("p", "2026-01-20T00:00:00Z", EventKind::Paused { months: 2 }))
                .unwrap()
                .record;
        for report in reports.split(',') {
            record = decide(&record, &report_event(report)).unwrap().record;
        }
        // A row without a version is another writer's: its pause is known from its status alone.
        record.version = 2;
        assert_eq!(record.status().as_str(), status, "{reports}");
        assert_eq!(
            Record::from_item(record.to_item()).unwrap(),
            record,
            "{reports}: the row keeps the pause"
        );
    }
}

/// Money for a closed record pays for nothing, whatever its amount; the record stays closed.
#[test]
fn the_attempts_table_of_a_closed_record() {
    for status in [Status::Waived, Status::Cancelled, Status::PausedSkipped, Status::Stale] {
        for (reports, money) in [
            ("a sent 4", ""),
            ("a returned 4", ""),
            ("a settled 4", "a 14.99 USD closed"),
            ("a settled 4 20.00", "a 20 USD closed"),
            ("a settled 4 1.00", "a 1 USD closed"),
            ("a settled 4 14.99 CAD", "a 14.99 CAD closed"),
            ("a settled 4, b settled 5", "a 14.99 USD closed, b 14.99 USD closed"),
            ("a settled 4, a refunded 5 10.00", "a 4.99 USD closed"),
            ("a settled 4, a refunded 5", ""),
            ("a settled 4, a returned 5", ""),
        ] {
            let mut record = record_in(status);
            let next = record.next.clone();
            for report in reports.split(',') {
                record = decide(&record, &report_event(report)).unwrap().record;
            }
            assert_eq!((record.status(), unapplied(&record).as_str()), (status, money), "{reports}");
            assert_eq!(record.state.closed_at(), Some(&GoTime::trimmed(day("3"))), "{reports}");
            assert_eq!(
                (status == Status::Cancelled).then_some(next),
                (status == Status::Cancelled).then_some(record.next.clone()),
                "a cancelled membership stays silent"
            );
            assert_eq!(Record::from_item(record.to_item()).unwrap(), record, "{status}: {reports}");
        }
    }
}

#[test]
fn every_cell_of_the_table_of_reports() {
    let (columns, rows) = rows(REPORTS);
    let mut cells = 0;
    for line in rows {
        let from = Status::read(line[0]).unwrap();
        for (column, cell) in columns.iter().zip(&line).skip(1) {
            let kind = reported(transaction("b"), report_kind(column, &[]));
            let done = decide(&record_in(from), &event("e", "2026-02-05T00:00:00Z", kind)).unwrap();
            assert_eq!(done.outcome, Outcome::Applied, "{from} × {column}: a new transaction is news");
            let unapplied = if done.record.unapplied_money().is_empty() { "" } else { "!" };
            assert_eq!(format!("{}{unapplied}", with_bar(&done.record)), *cell, "{from} × {column}");
            cells += 1;
        }
    }
    assert_eq!(cells, 50);
}

#[test]
fn every_cell_of_the_table_of_changes() {
    let (columns, rows) = rows(CHANGES);
    let mut cells = 0;
    for line in rows {
        let from = Status::read(line[0]).unwrap();
        for (column, cell) in columns.iter().zip(&line).skip(1) {
            let record = record_in(from);
            // The due date is 31 January.
            let at =
                if *column == "unpaused ahead" { "2026-01-30T23:59:59Z" } else { "2026-02-05T00:00:00Z" };
            match decide(&record, &event("e", at, change(column, &record))) {
                Err(_) => assert_eq!(*cell, "–", "{from} × {column}"),
                Ok(done) => {
                    assert_eq!(done.outcome, Outcome::Applied, "{from} × {column}");
                    assert_eq!(with_bar(&done.record), *cell, "{from} × {column}");
                }
            }
            cells += 1;
        }
    }
    assert_eq!(cells, 80);
}

#[test]
fn each_dash_has_its_reason() {
    let reason = |status, column| {
        let record = record_in(status);
        decide(&record, &event("e", "2026-02-05T00:00:00Z", change(column, &record))).unwrap_err()
    };
    assert_eq!(reason(Status::AchSent, "intended"), Rejection::AlreadySent);
    for column in ["paused", "waived", "cancelled", "too old"] {
        assert_eq!(reason(Status::AchSent, column), Rejection::InFlight);
    }
    for column in ["intended", "paused"] {
        assert_eq!(reason(Status::Paused, column), Rejection::OnPause);
    }
    for column in ["intended", "paused", "waived", "cancelled", "too old"] {
        assert_eq!(reason(Status::Completed, column), Rejection::AlreadyPaid);
    }
    for status in [Status::Scheduled, Status::AchSent, Status::Error, Status::Completed] {
        assert_eq!(reason(status, "unpaused passed"), Rejection::NotPaused(status));
        assert_eq!(reason(status, "expired"), Rejection::NotPaused(status));
    }
    for status in [Status::Waived, Status::Cancelled, Status::PausedSkipped, Status::Refunded, Status::Stale]
    {
        for column in ["intended", "paused", "unpaused passed", "expired", "waived", "cancelled", "too old"] {
            assert_eq!(reason(status, column), Rejection::Final(status), "{column}");
        }
    }
}

/// An intent names the next number, or the attempt in doubt once more.
#[test]
fn an_intent_has_one_number() {
    let intend = |record: &Record, number| {
        decide(record, &event("i", "2026-02-05T00:00:00Z", EventKind::Intended { number }))
    };
    assert_eq!(intend(&fresh(), 2).unwrap_err(), Rejection::AlreadySent);
    let first = intend(&fresh(), 1).unwrap().record;
    assert_eq!(
        (first.status(), first.in_doubt()),
        (Status::AchSent, Some(format!("{}-1", first.subscription_id).into()))
    );
    assert!(intend(&first, 1).is_ok(), "in doubt: submitted again under the same key");
    assert_eq!(intend(&first, 2).unwrap_err(), Rejection::AlreadySent);
    let answer = Answer::Accepted { transaction_id: "a".into() };
    let named =
        decide(&first, &event("n", "2026-02-05T00:00:00Z", EventKind::Answered { number: 1, answer }))
            .unwrap()
            .record;
    assert_eq!(intend(&named, 1).unwrap_err(), Rejection::AlreadySent, "no longer in doubt");
    assert_eq!(intend(&named, 2).unwrap_err(), Rejection::AlreadySent);
}

/// The case that debited a member three times: T1 returned, T2 sent, T1 settles after all, T2 returned.
#[test]
fn a_first_attempt_that_settles_after_all_keeps_the_record_paid() {
    let mut record = fresh();
    for (report, status) in [
        ("t1 sent 1", Status::AchSent),
        ("t1 returned 2", Status::Error),
        ("t2 sent 3", Status::AchSent),
        ("t1 settled 4", Status::Completed),
        ("t2 returned 5", Status::Completed),
    ] {
        record = decide(&record, &report_event(report)).unwrap().record;
        assert_eq!(record.status(), status, "{report}");
    }
    assert_eq!(record.state.transaction_id(), transaction("t1").as_ref());
}

#[test]
fn an_older_settlement_does_not_undo_a_later_return() {
    let mut record = fresh();
    for report in ["a returned 20 R10", "a settled 7"] {
        record = decide(&record, &report_event(report)).unwrap().record;
    }
    assert_eq!((record.status(), record.bar.is_some()), (Status::Error, true));
    assert_eq!(record.receipt, Receipt::default(), "no receipt of a payment that did not stay");
}

#[test]
fn completion_sets_the_receipt_and_clears_the_error() {
    let sent = decide(&record_in(Status::Error), &report_event("b sent 5")).unwrap().record;
    assert_eq!((sent.status(), sent.attempts.count()), (Status::AchSent, 2));
    let kind = reported(transaction("b"), settled("14.99", "USD"));
    let done = decide(&sent, &event("b", "2026-02-07T10:00:00.5Z", kind)).unwrap().record;
    let item = done.to_item();
    for (name, text) in [
        ("billing_status", "COMPLETED"),
        ("transaction_id", "b"),
        ("usio_error", ""),
        ("completion_date", "2026-02-07T10:00:00.5Z"),
        ("receipt_account_mask", "6789"),
        ("receipt_payment_type", "ACH"),
        ("last_run_date", "2026-02-07T10:00:00.500000000Z"),
    ] {
        assert_eq!(item.text(name), Some(text), "{name}");
    }
    assert_eq!(item.get("refunded_amount"), None);
    let part = decide(&done, &report_event("b refunded 9 1.00")).unwrap().record.to_item();
    assert_eq!(
        (part.text("billing_status"), part.text("refunded_amount"), part.text("completion_date")),
        (Some("COMPLETED"), Some("1.00"), Some("2026-02-07T10:00:00.5Z"))
    );
    let late = reported(transaction("b"), ReportKind::Returned(failure("R01")));
    let late = decide(&done, &event("c", "2026-03-20T00:00:00Z", late)).unwrap().record;
    assert_eq!(late.to_item().text("usio_error"), Some("R01 why"));
    assert_eq!(late.to_item().get("completion_date"), None, "a late return takes the completion back");
}

#[test]
fn the_gateways_answers_name_and_settle_an_attempt() {
    let intended = decide(&fresh(), &event("i", "2026-02-01T00:00:00Z", EventKind::Intended { number: 1 }))
        .unwrap()
        .record;
    let answered = |answer| {
        decide(&intended, &event("n", "2026-02-01T00:00:01Z", EventKind::Answered { number: 1, answer }))
            .unwrap()
            .record
    };
    let paid = answered(Answer::Collected(Paid { transaction_id: transaction("a"), receipt: receipt() }));
    assert_eq!((paid.status(), &paid.receipt), (Status::Completed, &receipt()));
    assert_eq!(paid.state.transaction_id(), transaction("a").as_ref());
    let refused = answered(Answer::Refused { transaction_id: None, failure: failure("R03") });
    assert_eq!((refused.status(), refused.state.transaction_id()), (Status::Error, None));
    assert_eq!(refused.attempts.count(), 1, "a refusal is a presentment");
    let barred = answered(Answer::Refused { transaction_id: None, failure: failure("R10") });
    assert_eq!(barred.bar.as_deref(), Some("R10 why"));
}

/// A zero amount is completed without a debit, and costs no number.
#[test]
fn a_free_period_is_completed() {
    let free = Record { plan: plan_of("Plus", "0"), ..fresh() };
    let done = decide(&free, &event("f", "2026-02-01T00:00:00Z", EventKind::Free)).unwrap().record;
    assert_eq!((done.status(), done.unapplied_money().len()), (Status::Completed, 0));
    assert_eq!(done.receipt.payment_type, "NONE");
    assert!(done.next.is_some());
    for status in [Status::AchSent, Status::Completed, Status::Paused, Status::Refunded, Status::Stale] {
        assert!(decide(&record_in(status), &event("f", "2026-02-01T00:00:00Z", EventKind::Free)).is_err());
    }
}

#[test]
fn return_codes_decide_the_bar_and_notices_change_nothing() {
    for (code, bar) in [
        ("R01", false),
        ("R03", false),
        ("R08", false),
        ("R16", false),
        ("R05", true),
        ("R07", true),
        ("R10", true),
        ("R29", true),
    ] {
        let kind = reported(None, ReportKind::Returned(failure(code)));
        let done = decide(&record_in(Status::AchSent), &event("e", "2026-02-05T00:00:00Z", kind)).unwrap();
        assert_eq!((done.record.status(), done.record.bar.is_some()), (Status::Error, bar), "{code}");
    }
    for status in Status::ALL {
        let record = record_in(status);
        let kind = reported(None, ReportKind::Returned(failure("C03")));
        let done = decide(&record, &event("e", "2026-02-05T00:00:00Z", kind)).unwrap();
        assert_eq!((done.outcome, done.record), (Outcome::Ignored(Ignored::NotificationOfChange), record));
    }
}

/// A member stays barred whatever is reported afterwards, and in whatever order.
#[test]
fn a_bar_does_not_depend_on_the_order_of_arrival() {
    for reports in [
        ["a returned 3 R10", "a returned 5 R01", "a sent 1"],
        ["a returned 3 R10", "a settled 5", "a sent 1"],
        ["a returned 3 R10", "a charged 5", "b returned 2 R07"],
    ] {
        let events: Vec<Event> = reports.into_iter().map(report_event).collect();
        for order in orders(&events) {
            let end = order.iter().fold(fresh(), |record, event| decide(&record, event).unwrap().record);
            let reports: Vec<&str> = order.iter().map(|event| event.id.as_str()).collect();
            assert!(end.bar.is_some(), "{reports:?}");
            let again = decide(&end, &order[0]).unwrap();
            assert_eq!(again.outcome, Outcome::Ignored(Ignored::ReportKnown), "{reports:?}");
        }
    }
}

/// The next period's record, after each way out of SCHEDULED.
#[test]
fn the_first_attempt_promises_the_next_record_and_no_later_one_does() {
    let report = |name| reported(transaction("a"), report_kind(name, &[]));
    for (what, kind, next) in [
        ("intended", EventKind::Intended { number: 1 }, true),
        ("sent", report("sent"), true),
        ("settled", report("settled"), true),
        ("returned", report("returned"), true),
        ("waived", EventKind::Waived, true),
        // STALE closes the record, and the membership goes on.
        ("too old", EventKind::TooOld, true),
        ("paused", EventKind::Paused { months: 2 }, false),
        ("cancelled", EventKind::Cancelled, false),
    ] {
        let done = decide(&fresh(), &event("e", "2026-02-01T00:00:00Z", kind)).unwrap().record;
        assert_eq!(done.next.is_some(), next, "{what}");
        let next_steps = followups(&done);
        assert_eq!(next_steps.len(), usize::from(next), "{what}");
        for followup in next_steps {
            let Followup::CreateNext(record, event) = followup else { panic!("{followup:?}") };
            assert_eq!(Some(&record.subscription_id), done.next.as_ref());
            assert_eq!(
                record.billing_date.text(),
                "2026-02-28T00:00:00Z",
                "counted from the anchor, clipped"
            );
            assert_eq!(
                (record.status(), event.id.as_str()),
                (Status::Scheduled, format!("next:{}", done.subscription_id).as_str())
            );
        }
        if what == "sent" {
            let settled = decide(&done, &report_event("a settled 3")).unwrap().record;
            assert_eq!(settled.next, done.next, "promised once");
            let next = next_record(&settled).unwrap();
            let sent = event("g", "2026-03-02T00:00:00Z", report("sent"));
            let after = decide(&next, &sent).unwrap().record;
            assert_eq!(
                next_record(&after).unwrap().billing_date.text(),
                "2026-03-31T00:00:00Z",
                "back to the 31st"
            );
        }
    }
    // Money that pays for nothing is no attempt to collect the period.
    let unpaid = decide(&fresh(), &report_event("a settled 3 1.00")).unwrap().record;
    assert_eq!((unpaid.status(), unpaid.next), (Status::Scheduled, None));
    // The row of another writer names no next record: it is promised by the next event.
    let retried = decide(&record_in(Status::Error), &report_event("b sent 5")).unwrap().record;
    assert!(retried.next.is_some());
}

/// STALE: the next record falls due at the first due date from then on; what was missed is not billed.
#[test]
fn a_stale_record_is_followed_from_now_on() {
    for (at, due) in [
        ("2026-05-02T00:00:00Z", "2026-05-31T00:00:00Z"),
        ("2026-05-31T00:00:00Z", "2026-05-31T00:00:00Z"),
        ("2026-05-31T00:00:01Z", "2026-06-30T00:00:00Z"),
        ("2026-01-20T00:00:00Z", "2026-02-28T00:00:00Z"),
    ] {
        let done = decide(&fresh(), &event("e", at, EventKind::TooOld)).unwrap().record;
        assert_eq!(next_record(&done).unwrap().billing_date.text(), due, "{at}");
        assert_ne!(done.next, Some(done.subscription_id.clone()));
    }
    // One that was presented has promised its next record already.
    let failed = decide(&fresh(), &report_event("a returned 3")).unwrap().record;
    let stale = decide(&failed, &event("e", "2026-05-02T00:00:00Z", EventKind::TooOld)).unwrap().record;
    assert_eq!((stale.status(), &stale.next), (Status::Stale, &failed.next));
}

#[test]
fn an_expired_pause_goes_on_after_the_pause() {
    let done =
        decide(&record_in(Status::Paused), &event("e", "2026-04-01T00:00:00Z", EventKind::PauseExpired))
            .unwrap()
            .record;
    assert_eq!(done.updated_event, Some(UpdatedEvent::PauseSkipped));
    assert_eq!(resume_date(&done), Some(t("2026-03-31T00:00:00Z")));
    let next_steps = followups(&done);
    let [Followup::CreateNext(next, _)] = next_steps.as_slice() else { panic!("no next record") };
    assert_eq!(next.billing_date.text(), "2026-03-31T00:00:00Z");
    let yearly = Record { term: dues_events::calendar::Term::Yearly, ..record_in(Status::Paused) };
    let done = decide(&yearly, &event("e", "2026-04-01T00:00:00Z", EventKind::PauseExpired)).unwrap().record;
    let next_steps = followups(&done);
    let [Followup::CreateNext(next, _)] = next_steps.as_slice() else { panic!("no next record") };
    assert_eq!(
        next.billing_date.text(),
        "2026-03-31T00:00:00Z",
        "a yearly membership does not lose the year"
    );
}

/// UNPAUSE after the due date: the first due date on or after the day of resuming. Months of the pause are
/// never billed.
#[test]
fn resuming_after_the_due_date_skips_the_pause() {
    for (at, due) in [
        ("2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z"),
        ("2026-02-10T12:00:00Z", "2026-02-28T00:00:00Z"),
        ("2026-02-28T23:00:00Z", "2026-02-28T00:00:00Z"),
        ("2026-03-01T00:00:00Z", "2026-03-31T00:00:00Z"),
    ] {
        let done = decide(&record_in(Status::Paused), &event("e", at, EventKind::Unpaused)).unwrap().record;
        assert_eq!(
            (done.status(), &done.updated_event),
            (Status::PausedSkipped, &Some(UpdatedEvent::PauseResume))
        );
        let next = next_record(&done).unwrap();
        assert_eq!(next.billing_date.text(), due, "resumed {at}");
        assert_eq!(done.next, Some(next.subscription_id));
    }
    let ahead = decide(&record_in(Status::Paused), &event("e", "2026-01-30T00:00:00Z", EventKind::Unpaused))
        .unwrap()
        .record;
    assert_eq!((ahead.status(), &ahead.updated_event), (Status::Scheduled, &Some(UpdatedEvent::PauseResume)));
    assert_eq!(ahead.next, None);
    // Resuming in the very moment of the due date is no reason to fall silent, on any term.
    for term in [dues_events::calendar::Term::Monthly, dues_events::calendar::Term::Yearly] {
        let paused = Record { term, ..record_in(Status::Paused) };
        let done = decide(&paused, &event("e", "2026-01-31T00:00:00Z", EventKind::Unpaused)).unwrap().record;
        let next = next_record(&done).unwrap();
        assert_ne!(next.subscription_id, done.subscription_id, "{term:?}");
    }
}

/// A record that was moved bills the same period; the next one follows in the period after it.
#[test]
fn a_moved_record_is_followed_by_the_next_period() {
    for (to, due) in [
        ("2026-01-20T00:00:00Z", "2026-02-28T00:00:00Z"),
        ("2026-02-05T00:00:00Z", "2026-02-28T00:00:00Z"),
        // Never due before the record that it follows.
        ("2026-03-05T00:00:00Z", "2026-03-31T00:00:00Z"),
    ] {
        let moved = decide(&fresh(), &event("m", "2026-01-10T00:00:00Z", EventKind::Moved { to: t(to) }))
            .unwrap()
            .record;
        assert_eq!((moved.billing_date.text(), moved.status()), (to.to_owned(), Status::Scheduled));
        let sent = reported(transaction("a"), ReportKind::Sent);
        let sent = decide(&moved, &event("s", to, sent)).unwrap().record;
        assert_eq!(next_record(&sent).unwrap().billing_date.text(), due, "moved to {to}");
    }
    let in_flight = record_in(Status::AchSent);
    let moved = event("m", "2026-02-05T00:00:00Z", EventKind::Moved { to: day("9") });
    assert_eq!(decide(&in_flight, &moved).unwrap_err(), Rejection::InFlight);
}

#[test]
fn a_downgrade_waits_for_the_next_record() {
    let small = plan_of("Basic", "4.99");
    let pending =
        decide(&fresh(), &event("e", "2026-01-10T00:00:00Z", EventKind::DowngradeRequested(small.clone())))
            .unwrap()
            .record;
    assert_eq!(pending.to_item().get("is_pending_downgrade"), Some(&dues_events::Value::Bool(true)));
    assert_eq!(pending.plan, plan_of("Plus", "14.99"));
    let sent = decide(&pending, &report_event("a sent 1")).unwrap().record;
    assert_eq!(sent.to_item().get("is_pending_downgrade"), None, "applied, and omitted when false");
    assert_eq!(next_record(&sent).unwrap().plan, small);
    let upgraded = decide(
        &pending,
        &event("g", "2026-01-11T00:00:00Z", EventKind::PlanChanged(plan_of("Pro", "39.99"))),
    )
    .unwrap()
    .record;
    assert_eq!((upgraded.plan, upgraded.downgrade), (plan_of("Pro", "39.99"), None));
}

#[test]
fn a_cancellation_waits_for_the_periods_end_and_for_money_in_flight() {
    let ask = |record: &Record, at: &str, time| {
        decide(record, &event("e", at, EventKind::CancelRequested(time))).unwrap().record
    };
    let pending = ask(&fresh(), "2026-01-10T00:00:00Z", CancelTime::PeriodEnd);
    assert_eq!(
        (pending.status(), pending.cancel_at.as_ref().map(GoTime::text).as_deref()),
        (Status::Scheduled, Some("2026-01-31T00:00:00Z"))
    );
    let back =
        decide(&pending, &event("f", "2026-01-11T00:00:00Z", EventKind::CancelRetracted)).unwrap().record;
    assert_eq!(back.cancel_at, None);
    assert_eq!(
        ask(&fresh(), "2026-02-01T00:00:00Z", CancelTime::PeriodEnd).status(),
        Status::Cancelled,
        "the period has ended"
    );

    let in_flight = ask(&record_in(Status::AchSent), "2026-02-02T00:00:00Z", CancelTime::Now);
    let applies = |record: &Record| {
        followups(record).into_iter().find_map(|followup| match followup {
            Followup::Apply(step) => Some(step),
            Followup::CreateNext(..) => None,
        })
    };
    assert_eq!(
        (in_flight.status(), applies(&in_flight)),
        (Status::AchSent, None),
        "money in flight is not moved"
    );
    let settled = decide(&in_flight, &report_event("a settled 3")).unwrap().record;
    assert_eq!((settled.status(), applies(&settled)), (Status::Completed, None));
    let returned = decide(&in_flight, &report_event("a returned 3")).unwrap().record;
    let step = applies(&returned).expect("the cancellation is forgotten");
    assert_eq!(decide(&returned, &step).unwrap().record.status(), Status::Cancelled);
}

/// RETRACT withdraws the cancellation from every record that carries it, settled ones too.
#[test]
fn a_cancellation_is_retracted_from_a_settled_record() {
    let ask = event("e", "2026-02-02T00:00:00Z", EventKind::CancelRequested(CancelTime::PeriodEnd));
    let asked = decide(&record_in(Status::AchSent), &ask).unwrap().record;
    let settled = decide(&asked, &report_event("a settled 3")).unwrap().record;
    assert_eq!(settled.cancel_at.as_ref().map(GoTime::text).as_deref(), Some("2026-02-28T00:00:00Z"));
    assert_eq!(next_record(&settled).unwrap().cancel_at, settled.cancel_at, "inherited");
    let retract = event("r", "2026-02-04T00:00:00Z", EventKind::CancelRetracted);
    let back = decide(&settled, &retract).unwrap().record;
    assert_eq!((back.status(), back.cancel_at.as_ref()), (Status::Completed, None));
    assert_eq!(next_record(&back).unwrap().cancel_at, None);
    assert_eq!(
        decide(&fresh(), &retract).unwrap().outcome,
        Outcome::Ignored(Ignored::NoPendingCancel),
        "nothing to withdraw"
    );
}

/// A superseded record in flight keeps its outcome; it promises nothing more, and is not collected again.
#[test]
fn a_superseded_record_in_flight_keeps_its_outcome() {
    let by = |record: &Record| {
        let kind = EventKind::Superseded("s-new".into());
        decide(record, &event("x", "2026-02-02T00:00:00Z", kind)).unwrap().record
    };
    let waiting = by(&fresh());
    assert_eq!((waiting.status(), waiting.next), (Status::Cancelled, None), "never presented: closed");
    let in_flight = by(&record_in(Status::AchSent));
    for (report, status) in [("a settled 3", Status::Completed), ("a returned 3", Status::Error)] {
        let done = decide(&in_flight, &report_event(report)).unwrap().record;
        assert_eq!((done.status(), &done.next), (status, &None));
    }
    let failed = by(&record_in(Status::Error));
    assert_eq!((failed.status(), failed.superseded_by), (Status::Error, Some("s-new".into())));
}
