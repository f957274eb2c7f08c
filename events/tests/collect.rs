//! Eligibility: every state against every run, and every rule that rejects a collection.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::wildcard_enum_match_arm)]

use dues_events::billing::attempts::Attempts;
use dues_events::billing::decide::Outcome;
use dues_events::billing::event::{Answer, AttemptName, Ignored, Paid, Report, ReportKind};
use dues_events::billing::record::{
    Closed, ClosedAs, FailedAttempt, Failure, Pause, Payment, Plan, Process, Receipt, Standing, TierName,
    UpdatedEvent,
};
use dues_events::collections::ach::ReturnCode;
use dues_events::collections::eligibility::{
    CollectionRequest, Eligibility, Reason, Rules, Trigger, eligibility, may_still_debit,
};
use dues_events::decide;
use dues_events::money::Currency;
use dues_events::{Event, EventKind, GoTime, Item, Money, Record, State, Time};
use rust_decimal::Decimal;

const RUNS: [Trigger; 7] = [
    Trigger::Initial,
    Trigger::Retry,
    Trigger::Pause,
    Trigger::Income,
    Trigger::Balance,
    Trigger::Batch,
    Trigger::Manual,
];

fn t(text: &str) -> Time {
    dues_events::time::parse(text).unwrap()
}

/// A Tuesday on which banks are open, two days after the due date.
fn now() -> Time {
    t("2026-02-03T08:00:00Z")
}

fn record(state: State) -> Record {
    let record = Record {
        user_id: "u-1".into(),
        billing_date: GoTime::trimmed(t("2026-02-01T00:00:00Z")),
        subscription_id: "s-1".into(),
        plan: Plan { amount: Money::from_cents(1499), tier: TierName::new("Plus", "v2") },
        term: dues_events::calendar::Term::Monthly,
        billing_week: None,
        standing: Standing::Open,
        attempts: Attempts::default(),
        state: State::Scheduled,
        process: Process::Initial,
        updated_event: None,
        created_date: Some(GoTime::trimmed(t("2026-01-05T00:00:00Z"))),
        initial_run_date: None,
        last_run_date: Some(GoTime::nine_digits(t("2026-01-05T00:00:00Z"))),
        receipt: Receipt::default(),
        anchor: None,
        member_since: None,
        provider: None,
        due_notice: None,
        next: None,
        cancel_at: None,
        downgrade: None,
        bar: None,
        correction: Default::default(),
        superseded_by: None,
        pending_change: None,
        pause_passed_on: None,
        original_due_date: None,
        moved_to: None,
        chain: None,
        version: 1,
        applied: Default::default(),
        data: Item::new(),
        extra: Item::new(),
    };
    record.in_state(state)
}

/// The record with these attempts of our own behind it, all returned with that code.
fn returned_times(times: u32, code: &str) -> Record {
    let failure = Failure::new(dues_events::collections::ach::ReturnCode::read(code), Some("why"));
    let mut record = record(State::Scheduled);
    for number in 1..=times {
        let at = t(&format!("2026-02-0{number}T08:00:00Z"));
        record.attempts.submit(number, at);
        let attempt =
            AttemptName { transaction_id: Some(format!("c-{number}").into()), number: Some(number) };
        let report = Report { attempt, kind: ReportKind::Returned(failure.clone()) };
        assert!(record.attempts.take(&report, at, record.plan.amount));
        record.initial_run_date.get_or_insert(GoTime::trimmed(at));
        record.last_run_date = Some(GoTime::nine_digits(at));
    }
    record.derive_state();
    record
}

/// The record while the gateway's answer to our attempt with that number is awaited, after the returns of
/// the attempts before it.
fn in_doubt(number: u32) -> Record {
    let mut record = returned_times(number - 1, "R01");
    record.attempts.submit(number, now());
    record.derive_state();
    record
}

fn scheduled() -> Record {
    record(State::Scheduled)
}

fn failed(code: &str) -> Record {
    let failure = Failure::new(dues_events::collections::ach::ReturnCode::read(code), Some("why"));
    Record {
        initial_run_date: Some(GoTime::trimmed(t("2026-02-01T08:00:00Z"))),
        last_run_date: Some(GoTime::nine_digits(t("2026-02-02T08:00:00Z"))),
        ..record(State::Error(FailedAttempt { transaction_id: Some("c-1".into()), failure }))
    }
}

fn verdict(record: &Record, run: Trigger) -> Eligibility {
    eligibility(
        &Rules::default(),
        &CollectionRequest::triggered_by(run),
        record,
        std::slice::from_ref(record),
        now(),
    )
}

fn reason(record: &Record, run: Trigger) -> &'static str {
    match verdict(record, run) {
        Eligibility::Skip(reason) => reason.code(),
        other => panic!("not left alone: {other:?}"),
    }
}

/// One character per run, in the order of [`RUNS`]: c collect, r resolve, e expire, . skip.
#[test]
fn every_state_against_every_run() {
    let closed = || Closed { at: None, last: None };
    let payment = || Payment { transaction_id: None, at: None };
    let paused = Record {
        billing_date: GoTime::trimmed(t("2026-01-01T00:00:00Z")),
        ..record(State::Paused(Pause { months: 1, last: None }))
    };
    for (record, expected) in [
        (scheduled(), "c....cc"),
        (failed("R01"), ".c.cccc"),
        (in_doubt(1), "rr.rrrr"),
        (in_doubt(3), "rr.rrrr"),
        (record(State::AchSent(None)), "......."),
        (record(State::AchSent(Some("c-1".into()))), "......."),
        (paused, "..e...."),
        (record(State::Completed(payment())), "......."),
        (record(State::Refunded(payment())), "......."),
        (record(State::Waived(closed())), "......."),
        (record(State::Cancelled(closed())), "......."),
        (record(State::Stale(closed())), "......."),
        (record(State::PausedSkipped(Pause { months: 1, last: None }, closed())), "......."),
    ] {
        let letters: String = RUNS
            .iter()
            .map(|run| match verdict(&record, *run) {
                Eligibility::Collect(_) => 'c',
                Eligibility::Resolve(_) => 'r',
                Eligibility::Expire => 'e',
                Eligibility::Skip(_) => '.',
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(letters, expected, "{}", record.status());
    }
}

#[test]
fn an_attempt_has_one_key_for_every_caller() {
    assert_eq!(verdict(&scheduled(), Trigger::Initial), Eligibility::Collect("s-1-1".into()));
    for run in [Trigger::Retry, Trigger::Income, Trigger::Balance, Trigger::Batch, Trigger::Manual] {
        assert_eq!(verdict(&returned_times(1, "R01"), run), Eligibility::Collect("s-1-2".into()));
        // Another service's attempt has no number of ours.
        assert_eq!(verdict(&failed("R01"), run), Eligibility::Collect("s-1-1".into()));
    }
}

#[test]
fn what_says_no_before_a_debit() {
    let superseded = Record { superseded_by: Some("s-2".into()), ..scheduled() };
    assert_eq!(reason(&superseded, Trigger::Initial), "superseded");
    let due_later =
        Record { billing_date: GoTime::trimmed(t("2026-02-03T08:00:00.000000001Z")), ..scheduled() };
    assert_eq!(reason(&due_later, Trigger::Initial), "not_due");
    let due_now = Record { billing_date: GoTime::trimmed(now()), ..scheduled() };
    assert!(matches!(verdict(&due_now, Trigger::Initial), Eligibility::Collect(_)));
    let barred = Record { bar: Some("R10".into()), ..scheduled() };
    assert_eq!(reason(&barred, Trigger::Manual), "barred");
    let third = returned_times(3, "R01");
    for run in [Trigger::Retry, Trigger::Income, Trigger::Balance, Trigger::Batch, Trigger::Manual] {
        assert_eq!(reason(&third, run), "exhausted", "two re-presentments, for every caller");
    }
    let mut others = failed("R01");
    for id in ["x-2", "x-3"] {
        let attempt = AttemptName { transaction_id: Some(id.into()), number: None };
        let failure = Failure::new(dues_events::collections::ach::ReturnCode::read("R01"), None);
        let report = Report { attempt, kind: ReportKind::Returned(failure) };
        others.attempts.take(&report, now(), others.plan.amount);
    }
    others.derive_state();
    assert_eq!(reason(&others, Trigger::Retry), "exhausted", "also where others presented it");
    let second = returned_times(2, "R09");
    assert_eq!(reason(&second, Trigger::Retry), "retry_planned", "the job waits for the planned date");
    for run in [Trigger::Income, Trigger::Balance, Trigger::Batch, Trigger::Manual] {
        assert_eq!(
            verdict(&second, run),
            Eligibility::Collect("s-1-3".into()),
            "signals and people act at once"
        );
    }
    let long_ago =
        Record { initial_run_date: Some(GoTime::trimmed(t("2025-08-01T00:00:00Z"))), ..failed("R01") };
    assert_eq!(reason(&long_ago, Trigger::Retry), "window_passed");
    let free = Record { plan: Plan { amount: Money::ZERO, ..scheduled().plan }, ..scheduled() };
    assert_eq!(verdict(&free, Trigger::Initial), Eligibility::Complete, "nothing to debit");
}

#[test]
fn a_bar_on_any_record_of_the_user_counts() {
    let other =
        Record { subscription_id: "s-0".into(), bar: Some("R10 not authorised".into()), ..failed("R10") };
    let verdict = eligibility(
        &Rules::default(),
        &CollectionRequest::triggered_by(Trigger::Initial),
        &scheduled(),
        &[other, scheduled()],
        now(),
    );
    assert_eq!(verdict, Eligibility::Skip(Reason::Barred("R10 not authorised".into())));
}

#[test]
fn cancellations_and_age_come_before_debits() {
    let cancels = Record { cancel_at: Some(GoTime::trimmed(t("2026-02-01T00:00:00Z"))), ..scheduled() };
    assert_eq!(verdict(&cancels, Trigger::Initial), Eligibility::Cancel);
    assert_eq!(verdict(&cancels, Trigger::Manual), Eligibility::Cancel);
    let cancels_later = Record { cancel_at: Some(GoTime::trimmed(t("2026-02-04T00:00:00Z"))), ..scheduled() };
    assert!(matches!(verdict(&cancels_later, Trigger::Initial), Eligibility::Collect(_)));
    // 90 days before now is 5 November.
    let just_in_time = Record { billing_date: GoTime::trimmed(t("2025-11-05T08:00:00Z")), ..scheduled() };
    assert!(matches!(verdict(&just_in_time, Trigger::Initial), Eligibility::Collect(_)));
    let too_old = Record { billing_date: GoTime::trimmed(t("2025-11-05T07:59:59Z")), ..scheduled() };
    assert_eq!(verdict(&too_old, Trigger::Initial), Eligibility::Stale);
    let too_old = Record { billing_date: too_old.billing_date, bar: Some("R10".into()), ..failed("R10") };
    assert_eq!(
        verdict(&too_old, Trigger::Retry),
        Eligibility::Stale,
        "also when it could not be collected anyway"
    );
}

#[test]
fn banks_are_closed_for_jobs_and_signals_and_open_for_people() {
    let on = |day: &str, run| {
        eligibility(
            &Rules::default(),
            &CollectionRequest::triggered_by(run),
            &scheduled(),
            &[scheduled()],
            t(day),
        )
    };
    assert_eq!(on("2026-02-07T08:00:00Z", Trigger::Initial), Eligibility::Skip(Reason::BanksClosed(None)));
    let presidents = on("2026-02-16T08:00:00Z", Trigger::Initial);
    let Eligibility::Skip(reason) = presidents else { panic!("{presidents:?}") };
    assert_eq!(reason.to_string(), "banks are closed: Presidents' Day");
    assert!(
        matches!(on("2026-02-07T08:00:00Z", Trigger::Manual), Eligibility::Collect(_)),
        "the debit waits at the bank"
    );
}

#[test]
fn return_codes_stop_until_something_changes() {
    for code in ["R02", "R03", "R04", "R08", "R16", "R20", "R99"] {
        assert_eq!(reason(&failed(code), Trigger::Retry), "stopped", "{code}");
        let next = eligibility(
            &Rules::default(),
            &CollectionRequest::triggered_by(Trigger::Initial),
            &scheduled(),
            &[failed(code), scheduled()],
            now(),
        );
        let other = Record { subscription_id: "s-0".into(), ..failed(code) };
        let next_of_other = eligibility(
            &Rules::default(),
            &CollectionRequest::triggered_by(Trigger::Initial),
            &scheduled(),
            &[other, scheduled()],
            now(),
        );
        assert!(matches!(next, Eligibility::Collect(_)), "its own earlier self is not another record");
        assert!(
            matches!(next_of_other, Eligibility::Skip(Reason::Stopped(_))),
            "the next period meets the same account: {code}"
        );
    }
    for code in ["R01", "R09"] {
        assert!(matches!(verdict(&failed(code), Trigger::Retry), Eligibility::Collect(_)), "{code}");
    }
    assert!(
        matches!(verdict(&failed("no code"), Trigger::Retry), Eligibility::Collect(_)),
        "a refusal without a code may be tried again"
    );
}

#[test]
fn what_lifts_a_stop() {
    let judged = |ask: CollectionRequest, record: &Record, others: &[Record]| {
        matches!(eligibility(&Rules::default(), &ask, record, others, now()), Eligibility::Collect(_))
    };
    let new_account = |run| CollectionRequest { new_account: true, ..CollectionRequest::triggered_by(run) };
    let authorised = |run| CollectionRequest { authorised: true, ..CollectionRequest::triggered_by(run) };
    assert!(judged(new_account(Trigger::Balance), &failed("R03"), &[]));
    assert!(!judged(authorised(Trigger::Manual), &failed("R03"), &[]));
    assert!(judged(authorised(Trigger::Manual), &failed("R08"), &[]));
    assert!(!judged(new_account(Trigger::Balance), &failed("R08"), &[]));
    assert!(
        !judged(CollectionRequest { authorised: true, ..new_account(Trigger::Manual) }, &failed("R16"), &[]),
        "stop is stop"
    );
    // A later payment shows that the account works again.
    let paid = |at: &str| Record {
        subscription_id: "s-2".into(),
        ..record(State::Completed(Payment { transaction_id: None, at: Some(GoTime::trimmed(t(at))) }))
    };
    assert!(judged(
        CollectionRequest::triggered_by(Trigger::Retry),
        &failed("R03"),
        &[paid("2026-02-02T09:00:00Z")]
    ));
    assert!(
        !judged(
            CollectionRequest::triggered_by(Trigger::Retry),
            &failed("R03"),
            &[paid("2026-01-02T09:00:00Z")]
        ),
        "that was before"
    );
    for code in ["R08", "R16"] {
        let paid = paid("2026-02-02T09:00:00Z");
        assert!(
            !judged(CollectionRequest::triggered_by(Trigger::Retry), &failed(code), &[paid]),
            "{code} asks for more than another debit that went through"
        );
    }
    // A newer membership has its own account.
    let old = Record { subscription_id: "s-0".into(), ..failed("R03") };
    let anew = Record { member_since: Some(GoTime::trimmed(t("2026-02-02T12:00:00Z"))), ..scheduled() };
    assert!(judged(CollectionRequest::triggered_by(Trigger::Initial), &anew, &[old]));
}

#[test]
fn a_balance_has_to_cover_what_is_due() {
    let balance = |cents| CollectionRequest {
        available: Some(Decimal::new(cents, 2)),
        ..CollectionRequest::triggered_by(Trigger::Balance)
    };
    let judged = |cents| eligibility(&Rules::default(), &balance(cents), &failed("R01"), &[], now());
    assert_eq!(judged(1498), Eligibility::Skip(Reason::NotCovered));
    assert_eq!(judged(-1), Eligibility::Skip(Reason::NotCovered));
    assert!(matches!(judged(1499), Eligibility::Collect(_)));
}

#[test]
fn pauses_are_announced_once_and_then_expire() {
    let paused = Record {
        billing_date: GoTime::trimmed(t("2026-01-09T00:00:00Z")),
        ..record(State::Paused(Pause { months: 1, last: None }))
    };
    let on = |day: &str, record: &Record| {
        eligibility(&Rules::default(), &CollectionRequest::triggered_by(Trigger::Pause), record, &[], t(day))
    };
    assert_eq!(on("2026-02-01T23:59:59Z", &paused), Eligibility::Skip(Reason::OnPause));
    assert_eq!(on("2026-02-02T00:00:00Z", &paused), Eligibility::Remind);
    let announced = Record { updated_event: Some(UpdatedEvent::PausePendingResume), ..paused.clone() };
    assert_eq!(on("2026-02-03T00:00:00Z", &announced), Eligibility::Skip(Reason::OnPause));
    assert_eq!(on("2026-02-09T00:00:00Z", &announced), Eligibility::Expire);
    let cancels = Record { cancel_at: Some(GoTime::trimmed(t("2026-01-20T00:00:00Z"))), ..paused };
    assert_eq!(on("2026-02-09T00:00:00Z", &cancels), Eligibility::Cancel);
}

#[test]
fn an_attempt_that_never_arrived_is_not_made_after_a_bar_or_a_cancellation() {
    let sent = in_doubt(1);
    assert_eq!(may_still_debit(&sent, &[], now()), Ok(()));
    let barred = Record { bar: Some("R10".into()), ..failed("R10") };
    assert!(may_still_debit(&sent, &[barred], now()).unwrap_err().contains("barred"));
    let cancelled = Record { cancel_at: Some(GoTime::trimmed(now())), ..sent.clone() };
    assert!(may_still_debit(&cancelled, &[], now()).is_err());
    assert!(may_still_debit(&Record { superseded_by: Some("s-2".into()), ..sent }, &[], now()).is_err());
}

fn answered(record: &Record, number: u32, answer: Answer) -> (Record, Outcome) {
    let kind = EventKind::Answered { number, answer };
    let transition = decide(record, &Event::internal("answer".into(), now(), "dues gateway", kind)).unwrap();
    (transition.record, transition.outcome)
}

fn reported(record: &Record, transaction: &str, at: &str, kind: ReportKind) -> (Record, Outcome) {
    let attempt = AttemptName { transaction_id: Some(transaction.into()), number: None };
    let kind = EventKind::Reported(Report { attempt, kind });
    let transition = decide(record, &Event::internal("e".into(), t(at), "test", kind)).unwrap();
    (transition.record, transition.outcome)
}

fn settled() -> ReportKind {
    ReportKind::Settled {
        amount: Money::from_cents(1499),
        currency: Currency::USD,
        receipt: Receipt::default(),
    }
}

fn returned() -> ReportKind {
    ReportKind::Returned(Failure::new(dues_events::collections::ach::ReturnCode::read("R01"), None))
}

/// An answer is about the attempt with its number, whenever it comes.
#[test]
fn the_gateways_answer_counts_for_its_own_attempt() {
    let accepted = |id: &str| Answer::Accepted { transaction_id: id.into() };
    let refused = || Answer::Refused {
        transaction_id: None,
        failure: Failure::new(dues_events::collections::ach::ReturnCode::read("R01"), None),
    };
    let collected =
        |id: &str| Answer::Collected(Paid { transaction_id: Some(id.into()), receipt: Receipt::default() });
    let sent = in_doubt(2);

    let (after, outcome) = answered(&sent, 2, accepted("c-9"));
    assert_eq!((after.state.clone(), outcome), (State::AchSent(Some("c-9".into())), Outcome::Applied));
    assert_eq!(answered(&after, 2, accepted("c-9")).1, Outcome::Ignored(Ignored::ReportKnown));
    assert!(matches!(answered(&sent, 2, collected("c-9")).0.state, State::Completed(_)));
    assert!(matches!(answered(&sent, 2, refused()).0.state, State::Error(_)));
    // A worker that was suspended for a whole attempt: the second one is still in doubt.
    assert_eq!(answered(&sent, 1, accepted("c-1")).1, Outcome::Ignored(Ignored::ReportKnown));
    let (late, _) = answered(&sent, 1, refused());
    assert_eq!((late.status().as_str(), late.in_doubt()), ("ACHSENT", Some("s-1-2".into())));
    // The return of 1 February was faster than the worker's answer of 3 February: the later report counts.
    let (paid, outcome) = answered(&returned_times(1, "R01"), 1, collected("c-1"));
    assert_eq!((paid.status().as_str(), outcome), ("COMPLETED", Outcome::Applied));
    assert_eq!(
        answered(&returned_times(1, "R01"), 1, accepted("c-1")).1,
        Outcome::Ignored(Ignored::ReportKnown)
    );
}

#[test]
fn an_answer_that_was_withdrawn_meanwhile_makes_its_attempt_known_again() {
    let withdrawn =
        decide(&in_doubt(1), &Event::internal("w".into(), now(), "test", EventKind::Withdrawn { number: 1 }))
            .unwrap()
            .record;
    assert_eq!((withdrawn.status().as_str(), withdrawn.attempts.count()), ("SCHEDULED", 0));
    let (after, _) = answered(&withdrawn, 1, Answer::Accepted { transaction_id: "c-1".into() });
    assert_eq!((after.status().as_str(), after.attempts.count()), ("ACHSENT", 1));
}

/// "Never submitted" can be said only of an attempt without a report; its number is used up.
#[test]
fn withdrawn_attempts_count_for_nothing() {
    let withdraw = |record: &Record, number| {
        let kind = EventKind::Withdrawn { number };
        decide(record, &Event::internal("w".into(), now(), "test", kind)).unwrap()
    };
    let back = withdraw(&in_doubt(1), 1).record;
    assert_eq!((back.status().as_str(), back.initial_run_date.as_ref()), ("SCHEDULED", None));
    assert_eq!(verdict(&back, Trigger::Initial), Eligibility::Collect("s-1-2".into()));
    let back = withdraw(&in_doubt(3), 3).record;
    assert_eq!(verdict(&back, Trigger::Income), Eligibility::Collect("s-1-4".into()), "two were presented");
    assert_eq!(back.initial_run_date, in_doubt(3).initial_run_date);

    let (named, _) = answered(&in_doubt(1), 1, Answer::Accepted { transaction_id: "c-1".into() });
    assert_eq!(withdraw(&named, 1).outcome, Outcome::Ignored(Ignored::NoLongerTrue));
    assert_eq!(withdraw(&scheduled(), 1).outcome, Outcome::Ignored(Ignored::NoLongerTrue));
    assert_eq!(withdraw(&returned_times(1, "R01"), 1).outcome, Outcome::Ignored(Ignored::NoLongerTrue));
}

/// While our attempt is in doubt, a report under a transaction unknown so far is another attempt
/// until the gateway says that the two are one.
#[test]
fn reports_that_are_faster_than_the_gateways_answer() {
    let sent = in_doubt(2);
    let (again, outcome) = reported(&sent, "c-1", "2026-02-01T08:00:00Z", returned());
    assert_eq!(
        outcome,
        Outcome::Ignored(Ignored::ReportKnown),
        "the first attempt's return, delivered again"
    );
    assert_eq!(again, sent);

    let (returned, _) = reported(&sent, "c-2", "2026-02-03T07:00:00Z", returned());
    assert_eq!((returned.status().as_str(), returned.attempts.count()), ("ACHSENT", 3));
    let (known, _) = answered(&returned, 2, Answer::Accepted { transaction_id: "c-2".into() });
    assert_eq!((known.status().as_str(), known.attempts.count()), ("ERROR", 2), "the two are one");

    let (paid, _) = reported(&sent, "c-2", "2026-02-03T07:00:00Z", settled());
    assert_eq!((paid.status().as_str(), paid.attempts.count()), ("COMPLETED", 3));
    let (known, _) = answered(&paid, 2, Answer::Accepted { transaction_id: "c-2".into() });
    assert_eq!((known.status().as_str(), known.attempts.count()), ("COMPLETED", 2));
    assert_eq!(known.unapplied_money(), []);
}

#[test]
fn a_record_with_unapplied_money_of_its_own_is_not_debited() {
    let too_little = ReportKind::Settled {
        amount: Money::from_cents(1498),
        currency: Currency::USD,
        receipt: Receipt::default(),
    };
    let (record, _) = reported(&scheduled(), "x-1", "2026-02-02T08:00:00Z", too_little.clone());
    assert_eq!(record.status().as_str(), "SCHEDULED");
    for run in [Trigger::Initial, Trigger::Batch, Trigger::Manual] {
        assert_eq!(reason(&record, run), "unapplied_money");
    }
    let (doubtful, _) = reported(&in_doubt(1), "x-1", "2026-02-02T08:00:00Z", too_little);
    assert!(may_still_debit(&doubtful, &[], now()).unwrap_err().contains("pays for nothing"));
    let dismissed = EventKind::MoneyResolved {
        attempt: AttemptName { transaction_id: Some("x-1".into()), number: None },
        resolution: dues_events::billing::attempts::Resolution::Dismissed,
    };
    let resolved =
        decide(&record, &Event::internal("d".into(), now(), "dues money", dismissed)).unwrap().record;
    assert!(
        matches!(verdict(&resolved, Trigger::Initial), Eligibility::Collect(_)),
        "an operator has decided"
    );
}

#[test]
fn a_paused_or_closed_record_is_not_submitted_again() {
    let sent = in_doubt(1);
    let paused = Record { standing: Standing::Paused { months: 2 }, ..sent.clone() };
    assert!(may_still_debit(&paused, &[], now()).unwrap_err().contains("paused"));
    for closed_as in [ClosedAs::Waived, ClosedAs::Cancelled, ClosedAs::PausedSkipped, ClosedAs::Stale] {
        let closed = Record { standing: Standing::Closed { closed_as, at: None, months: 0 }, ..sent.clone() };
        assert!(may_still_debit(&closed, &[], now()).is_err(), "{closed_as:?}");
    }
}

/// Feb 3 plus 60 days is Apr 4.
#[test]
fn r11_is_corrected_by_an_operator_once_within_sixty_days() {
    let report = |record: &Record, transaction: &str, at: &str, code: &str| {
        let kind = ReportKind::Returned(Failure::new(ReturnCode::read(code), None));
        reported(record, transaction, at, kind).0
    };
    let verdict = |record: &Record, authorised: bool, at: &str| {
        let rules = Rules { old_days: 365, ..Rules::default() };
        let ask = CollectionRequest { authorised, ..CollectionRequest::triggered_by(Trigger::Manual) };
        eligibility(&rules, &ask, record, std::slice::from_ref(record), t(at))
    };
    let r11 = Eligibility::Skip(Reason::Stopped(ReturnCode::read("R11").unwrap()));
    let first = report(&scheduled(), "c-1", "2026-02-03T08:00:00Z", "R11");
    assert_eq!(first.bar, None);
    assert_eq!(verdict(&first, false, "2026-02-04T08:00:00Z"), r11);
    assert!(matches!(verdict(&first, true, "2026-04-04T08:00:00Z"), Eligibility::Collect(_)));
    assert_eq!(verdict(&first, true, "2026-04-04T08:00:01Z"), r11);
    let corrected = report(&first, "c-2", "2026-02-10T08:00:00Z", "R01");
    assert_eq!(verdict(&corrected, true, "2026-02-12T08:00:00Z"), r11);
}
