//! Every cell of the state table, and the rules around it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use dues_events::billing::decide::{Disposition, Followup, followups, resume_date};
use dues_events::billing::event::{CancelTime, Ignored, Paid};
use dues_events::billing::idempotency::IdempotencyToken;
use dues_events::billing::membership::{Change, ChangePlan, MembershipEvent, NewMembership, Step, plan};
use dues_events::billing::record::{
    Closed, FailedAttempt, Failure, Pause, Payment, Plan, Receipt, TierName, UpdatedEvent,
};
use dues_events::decide;
use dues_events::{
    Event, EventId, EventKind, GoTime, Outcome, Record, Rejection, State, Status, Time, TransactionId,
};

/// The table, cell by cell. `–` is a rejection.
const TABLE: &str = "
               | sent    | at once   | failed  | settled   | refunded | charged   | paused | unpaused  | expired        | waived | cancelled | too old
SCHEDULED      | ACHSENT | COMPLETED | ERROR   | –         | –        | –         | PAUSED | –         | –              | WAIVED | CANCELLED | STALE
ACHSENT        | –       | –         | ERROR   | COMPLETED | REFUNDED | ERROR+bar | –      | –         | –              | –      | –         | –
ERROR          | ACHSENT | COMPLETED | ERROR   | COMPLETED | REFUNDED | ERROR+bar | PAUSED | –         | –              | WAIVED | CANCELLED | STALE
PAUSED         | –       | –         | –       | –         | –        | –         | –      | SCHEDULED | PAUSED_SKIPPED | WAIVED | CANCELLED | STALE
COMPLETED      | –       | –         | ERROR   | same      | REFUNDED | ERROR+bar | –      | –         | –              | –      | –         | –
WAIVED         | –       | –         | –       | –         | –        | –         | –      | –         | –              | –      | –         | –
CANCELLED      | –       | –         | –       | –         | –        | –         | –      | –         | –              | –      | –         | –
PAUSED_SKIPPED | –       | –         | –       | –         | –        | –         | –      | –         | –              | –      | –         | –
REFUNDED       | –       | –         | –       | –         | –        | –         | –      | –         | –              | –      | –         | –
STALE          | –       | –         | –       | –         | –        | –         | –      | –         | –              | –      | –         | –
";

fn t(text: &str) -> Time {
    dues_events::time::parse(text).unwrap()
}

fn transaction(id: &str) -> Option<TransactionId> {
    Some(id.into())
}

fn event(id: &str, at: &str, kind: EventKind) -> Event {
    Event::internal(id.into(), t(at), "test", kind)
}

fn failure() -> Failure {
    Failure::new(dues_events::collections::ach::ReturnCode::read("R01"), Some("Insufficient funds"))
}

fn paid(id: &str) -> Paid {
    Paid {
        transaction_id: transaction(id),
        receipt: Receipt { account_mask: "6789".into(), payment_type: "ACH".into() },
    }
}

/// The event kind of a column; `id` is its transaction id.
fn kind(column: &str, id: &str) -> EventKind {
    match column {
        "sent" => EventKind::Sent { transaction_id: transaction(&format!("{id}-new")), key: None },
        "at once" => EventKind::CollectedAtOnce(paid(id)),
        "failed" => EventKind::Failed { transaction_id: transaction(id), failure: failure() },
        "settled" => EventKind::Settled(paid(id)),
        "refunded" => EventKind::Refunded { transaction_id: transaction(id) },
        "charged" => EventKind::ChargedBack {
            transaction_id: transaction(id),
            failure: Failure::new(None, Some("charged back")),
        },
        "paused" => EventKind::Paused { months: 2 },
        "unpaused" => EventKind::Unpaused,
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
    let ChangePlan::Steps(steps) = plan(&[], &membership, dues_events::ParkedEvents::Keep).unwrap() else {
        panic!("no steps")
    };
    let [Step::Create(record, _)] = steps.as_slice() else { panic!("not one new record: {steps:?}") };
    (**record).clone()
}

fn plan_of(tier: &str, amount: &str) -> Plan {
    Plan { amount: amount.parse().unwrap(), tier: TierName::new(tier, "v2") }
}

fn record_in(status: Status) -> Record {
    let at = Some(GoTime::trimmed(t("2026-02-03T00:00:00Z")));
    let failed = FailedAttempt { transaction_id: transaction("c-1"), failure: failure() };
    let closed = Closed { at: at.clone(), last: None };
    let payment = Payment { transaction_id: transaction("c-1"), at };
    let state = match status {
        Status::Scheduled => State::Scheduled(None),
        Status::AchSent => State::AchSent(transaction("c-1")),
        Status::Completed => State::Completed(payment),
        Status::Error => State::Error(failed),
        Status::Waived => State::Waived(closed),
        Status::Cancelled => State::Cancelled(closed),
        Status::Paused => State::Paused(Pause { months: 2, last: None }),
        Status::PausedSkipped => State::PausedSkipped(Pause { months: 2, last: None }, closed),
        Status::Refunded => State::Refunded(payment),
        Status::Stale => State::Stale(closed),
    };
    let attempted = !matches!(
        status,
        Status::Scheduled | Status::Paused | Status::Waived | Status::Cancelled | Status::Stale
    );
    let initial_run_date = attempted.then(|| GoTime::trimmed(t("2026-02-01T00:00:00Z")));
    Record { state, initial_run_date, ..fresh() }
}

#[test]
fn every_cell_of_the_state_table() {
    let mut lines = TABLE
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let columns = lines.next().unwrap();
    let mut cells = 0;
    for line in lines {
        let from = Status::read(line[0]).unwrap();
        for (column, cell) in columns.iter().zip(&line).skip(1) {
            let record = record_in(from);
            let decision = decide(&record, &event("e", "2026-02-05T00:00:00Z", kind(column, "c-1")));
            let (status, bar) = match decision {
                Err(_) if *cell == "–" => ("–", false),
                Ok(done) if *cell == "same" => {
                    assert_eq!(done.outcome, Outcome::Ignored(Ignored::AlreadySettled), "{from} × {column}");
                    assert_eq!(done.record, record, "{from} × {column} changes nothing");
                    ("same", false)
                }
                Ok(done) => {
                    assert_eq!(done.outcome, Outcome::Applied, "{from} × {column}");
                    (done.record.status().as_str(), done.record.bar.is_some())
                }
                Err(rejection) => panic!("{from} × {column}: {rejection}, the table says {cell}"),
            };
            assert_eq!(
                if bar { format!("{status}+bar") } else { status.to_owned() },
                *cell,
                "{from} × {column}"
            );
            cells += 1;
        }
    }
    assert_eq!(cells, 120);
}

#[test]
fn each_dash_has_its_reason() {
    let reason = |status, column| {
        decide(&record_in(status), &event("e", "2026-02-05T00:00:00Z", kind(column, "c-1"))).unwrap_err()
    };
    for column in ["settled", "refunded", "charged"] {
        assert_eq!(reason(Status::Scheduled, column), Rejection::NotYetSent);
    }
    assert_eq!(reason(Status::AchSent, "sent"), Rejection::AlreadySent);
    assert_eq!(reason(Status::AchSent, "at once"), Rejection::AlreadySent);
    for column in ["paused", "waived", "cancelled", "too old"] {
        assert_eq!(reason(Status::AchSent, column), Rejection::InFlight);
    }
    for column in ["sent", "at once", "failed", "settled", "refunded", "charged", "paused"] {
        assert_eq!(reason(Status::Paused, column), Rejection::OnPause);
    }
    for column in ["sent", "at once", "paused", "waived", "cancelled", "too old"] {
        assert_eq!(reason(Status::Completed, column), Rejection::AlreadyPaid);
    }
    for status in [Status::Scheduled, Status::AchSent, Status::Error, Status::Completed] {
        assert_eq!(reason(status, "unpaused"), Rejection::NotPaused(status));
        assert_eq!(reason(status, "expired"), Rejection::NotPaused(status));
    }
    assert_eq!(reason(Status::Stale, "settled"), Rejection::Final(Status::Stale));
    assert_eq!(Rejection::NotYetSent.disposition(), Disposition::Hold);
    assert_eq!(Rejection::AlreadySent.disposition(), Disposition::Park);
}

#[test]
fn a_settlement_of_another_transaction_is_an_old_attempt_unless_the_money_arrived() {
    for (status, column, expected) in [
        (Status::AchSent, "failed", Err(Ignored::OldAttempt)),
        (Status::AchSent, "settled", Err(Ignored::OldAttempt)),
        (Status::AchSent, "refunded", Err(Ignored::OldAttempt)),
        (Status::AchSent, "charged", Err(Ignored::OldAttempt)),
        (Status::Error, "failed", Err(Ignored::OldAttempt)),
        (Status::Error, "refunded", Err(Ignored::OldAttempt)),
        (Status::Error, "settled", Ok(Status::Completed)),
        (Status::Completed, "failed", Err(Ignored::OldAttempt)),
        (Status::Completed, "settled", Err(Ignored::OldAttempt)),
    ] {
        let record = record_in(status);
        let done = decide(&record, &event("e", "2026-02-05T00:00:00Z", kind(column, "c-0"))).unwrap();
        match expected {
            Ok(status) => assert_eq!((done.record.status(), done.outcome), (status, Outcome::Applied)),
            Err(reason) => {
                assert_eq!(done.outcome, Outcome::Ignored(reason), "{status} × {column}");
                assert_eq!(done.record, record);
            }
        }
    }
    let late = decide(&record_in(Status::Error), &event("e", "2026-02-05T00:00:00Z", kind("settled", "c-0")))
        .unwrap()
        .record;
    assert_eq!(
        (late.state.transaction_id(), late.earlier.as_slice()),
        (transaction("c-0").as_ref(), ["c-1".into()].as_slice())
    );
}

#[test]
fn a_submission_that_comes_after_its_own_return_does_not_open_the_record_again() {
    let returned =
        decide(&record_in(Status::Scheduled), &event("a", "2026-02-05T00:00:00Z", kind("failed", "c-7")))
            .unwrap()
            .record;
    let sent = EventKind::Sent { transaction_id: transaction("c-7"), key: None };
    let done = decide(&returned, &event("b", "2026-02-04T00:00:00Z", sent)).unwrap();
    assert_eq!(
        (done.record.status(), done.outcome),
        (Status::Error, Outcome::Ignored(Ignored::AttemptKnown))
    );
}

#[test]
fn completion_sets_the_receipt_and_clears_the_error() {
    let sent = decide(&record_in(Status::Error), &event("a", "2026-02-05T00:00:00Z", kind("sent", "c-2")))
        .unwrap()
        .record;
    assert_eq!((sent.attempts, sent.earlier.as_slice()), (1, ["c-1".into()].as_slice()));
    let done =
        decide(&sent, &event("b", "2026-02-07T10:00:00.5Z", kind("settled", "c-2-new"))).unwrap().record;
    let item = done.to_item();
    for (name, text) in [
        ("billing_status", "COMPLETED"),
        ("transaction_id", "c-2-new"),
        ("usio_error", ""),
        ("completion_date", "2026-02-07T10:00:00.5Z"),
        ("receipt_account_mask", "6789"),
        ("receipt_payment_type", "ACH"),
        ("last_run_date", "2026-02-07T10:00:00.500000000Z"),
    ] {
        assert_eq!(item.text(name), Some(text), "{name}");
    }
    let late = decide(&done, &event("c", "2026-03-20T00:00:00Z", kind("failed", "c-2-new"))).unwrap().record;
    assert_eq!(late.to_item().text("usio_error"), Some("R01 Insufficient funds"));
    assert_eq!(late.to_item().get("completion_date"), None, "a late return takes the completion back");
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
        let failure = Failure::new(dues_events::collections::ach::ReturnCode::read(code), None);
        let done = decide(
            &record_in(Status::AchSent),
            &event("e", "2026-02-05T00:00:00Z", EventKind::Failed { transaction_id: None, failure }),
        )
        .unwrap();
        assert_eq!((done.record.status(), done.record.bar.is_some()), (Status::Error, bar), "{code}");
    }
    for status in Status::ALL {
        let failure =
            Failure::new(dues_events::collections::ach::ReturnCode::read("C03"), Some("wrong name"));
        let record = record_in(status);
        let done = decide(
            &record,
            &event("e", "2026-02-05T00:00:00Z", EventKind::Failed { transaction_id: None, failure }),
        )
        .unwrap();
        assert_eq!((done.outcome, done.record), (Outcome::Ignored(Ignored::NotificationOfChange), record));
    }
}

/// The next period's record, after each way out of SCHEDULED.
#[test]
fn the_first_attempt_promises_the_next_record_and_no_later_one_does() {
    for (column, next) in [
        ("sent", true),
        ("at once", true),
        ("failed", true),
        ("waived", true),
        ("paused", false),
        ("cancelled", false),
        ("too old", false),
    ] {
        let done =
            decide(&record_in(Status::Scheduled), &event("e", "2026-02-01T00:00:00Z", kind(column, "c-1")))
                .unwrap()
                .record;
        assert_eq!(done.next.is_some(), next, "{column}");
        let owed = followups(&done);
        assert_eq!(owed.len(), usize::from(next), "{column}");
        for debt in owed {
            let Followup::CreateNext(record, event) = debt else { panic!("{debt:?}") };
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
        if column == "sent" {
            let settled = decide(&done, &event("f", "2026-02-03T00:00:00Z", kind("settled", "c-1-new")))
                .unwrap()
                .record;
            assert_eq!(settled.next, done.next, "promised once");
            let next = dues_events::billing::decide::next_record(&settled).unwrap();
            let after =
                decide(&next, &event("g", "2026-03-02T00:00:00Z", kind("sent", "c-9"))).unwrap().record;
            assert_eq!(
                dues_events::billing::decide::next_record(&after).unwrap().billing_date.text(),
                "2026-03-31T00:00:00Z",
                "back to the 31st"
            );
        }
    }
    assert_eq!(
        decide(&record_in(Status::Error), &event("e", "2026-02-05T00:00:00Z", kind("sent", "c-1")))
            .unwrap()
            .record
            .next,
        None
    );
}

#[test]
fn an_expired_pause_goes_on_after_the_pause() {
    let done =
        decide(&record_in(Status::Paused), &event("e", "2026-04-01T00:00:00Z", EventKind::PauseExpired))
            .unwrap()
            .record;
    assert_eq!(done.updated_event, Some(UpdatedEvent::PauseSkipped));
    assert_eq!(resume_date(&done), Some(t("2026-03-31T00:00:00Z")));
    let debts = followups(&done);
    let [Followup::CreateNext(next, _)] = debts.as_slice() else { panic!("no next record") };
    assert_eq!(next.billing_date.text(), "2026-03-31T00:00:00Z");
    let yearly = Record { term: dues_events::calendar::Term::Yearly, ..record_in(Status::Paused) };
    let done = decide(&yearly, &event("e", "2026-04-01T00:00:00Z", EventKind::PauseExpired)).unwrap().record;
    let debts = followups(&done);
    let [Followup::CreateNext(next, _)] = debts.as_slice() else { panic!("no next record") };
    assert_eq!(
        next.billing_date.text(),
        "2026-03-31T00:00:00Z",
        "a yearly membership does not lose the year"
    );
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
    let sent = decide(&pending, &event("f", "2026-02-01T00:00:00Z", kind("sent", "c-1"))).unwrap().record;
    assert_eq!(sent.to_item().get("is_pending_downgrade"), None, "applied, and omitted when false");
    assert_eq!(dues_events::billing::decide::next_record(&sent).unwrap().plan, small);
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
    assert_eq!(
        (in_flight.status(), followups(&in_flight)),
        (Status::AchSent, vec![]),
        "money in flight is not moved"
    );
    let settled =
        decide(&in_flight, &event("f", "2026-02-03T00:00:00Z", kind("settled", "c-1"))).unwrap().record;
    assert_eq!((settled.status(), followups(&settled)), (Status::Completed, vec![]));
    let returned =
        decide(&in_flight, &event("f", "2026-02-03T00:00:00Z", kind("failed", "c-1"))).unwrap().record;
    let debts = followups(&returned);
    let [Followup::Apply(step)] = debts.as_slice() else { panic!("the cancellation is forgotten") };
    assert_eq!(decide(&returned, step).unwrap().record.status(), Status::Cancelled);
}
