//! The event of a history row: every kind goes into the row and comes back; what cannot be read is named; an
//! older schema version is read as today's.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::wildcard_enum_match_arm)]

use dues_events::billing::attempts::Resolution;
use dues_events::billing::event::{
    Answer, AttemptName, CancelTime, Creation, Ignored, Paid, Report, ReportKind,
};
use dues_events::billing::event_codec::{EventError, decode, encode};
use dues_events::billing::membership::{Change, ChangePlan, MembershipEvent, NewMembership, Step, plan};
use dues_events::billing::record::{Failure, History, Plan, Process, Provider, Receipt, TierName};
use dues_events::calendar::{BillingWeek, Term};
use dues_events::money::Currency;
use dues_events::{Event, EventId, EventKind, IdempotencyToken, ParkedEvents, Record, Time, attributes};

fn t(text: &str) -> Time {
    dues_events::time::parse(text).unwrap()
}

fn terms() -> NewMembership {
    NewMembership {
        plan: Plan { amount: "14.99".parse().unwrap(), tier: TierName::new("Plus", "v2") },
        term: Term::Yearly,
        billing_date: t("2026-01-31T00:00:00Z"),
        billing_week: BillingWeek::new(3),
        provider: Some(Provider::Cognito),
    }
}

fn record() -> Record {
    let id = EventId::from("mem-1");
    let membership = MembershipEvent {
        token: IdempotencyToken::new(&id, &[]),
        id,
        at: t("2026-01-05T00:00:00Z"),
        user_id: "u-1".into(),
        source: "test".into(),
        change: Change::Activate(terms()),
    };
    match plan(&[], &membership, ParkedEvents::Keep).unwrap() {
        ChangePlan::Next(Step::Create(record, _)) => *record,
        other => panic!("not a new record: {other:?}"),
    }
}

fn kinds() -> Vec<EventKind> {
    let money = |amount: &str, code: &str| (amount.parse().unwrap(), Currency::read(code).unwrap());
    let failure = || Failure::from_text("R01 Insufficient \"funds\"".into());
    let receipt = || Receipt { account_mask: "6789".into(), payment_type: "ACH".into() };
    let plan = || Plan { amount: "29.99".parse().unwrap(), tier: TierName::new("Pro", "v3") };
    let mut reports =
        vec![ReportKind::Sent, ReportKind::Returned(failure()), ReportKind::ChargedBack(failure())];
    for (amount, currency) in [money("14.99", "USD"), money("1499", "JPY")] {
        reports.push(ReportKind::Settled { amount, currency, receipt: receipt() });
        reports.push(ReportKind::Settled { amount, currency, receipt: Receipt::default() });
        reports.push(ReportKind::Refunded { amount, currency });
    }
    let names = [
        AttemptName::default(),
        AttemptName::numbered(2),
        AttemptName { transaction_id: Some("c-1".into()), number: Some(1) },
    ];
    let mut kinds: Vec<EventKind> = Vec::new();
    for attempt in names {
        for kind in reports.clone() {
            kinds.push(EventKind::Reported(Report { attempt: attempt.clone(), kind }));
        }
        for resolution in [
            Resolution::AppliedTo("s-2".into()),
            Resolution::RefundRequested,
            Resolution::RefundRefused,
            Resolution::Dismissed,
        ] {
            kinds.push(EventKind::MoneyResolved { attempt: attempt.clone(), resolution });
        }
    }
    for transaction_id in [None, Some("c-1".into())] {
        let paid = Paid { transaction_id: transaction_id.clone(), receipt: receipt() };
        kinds.push(EventKind::Answered { number: 1, answer: Answer::Collected(paid) });
        let refused = Answer::Refused { transaction_id, failure: failure() };
        kinds.push(EventKind::Answered { number: 3, answer: refused });
    }
    let accepted = Answer::Accepted { transaction_id: "c-1".into() };
    kinds.extend(Ignored::ALL.map(EventKind::NoChange));
    kinds.extend([
        EventKind::Answered { number: 1, answer: accepted },
        EventKind::Intended { number: 1 },
        EventKind::Withdrawn { number: 2 },
        EventKind::Free,
        EventKind::NewAccount,
        EventKind::Paused { months: 12 },
        EventKind::Unpaused,
        EventKind::PauseExpired,
        EventKind::Waived,
        EventKind::Cancelled,
        EventKind::TooOld,
        EventKind::Moved { to: t("2026-03-15T00:00:00.5Z") },
        EventKind::PauseEnding,
        EventKind::DueSoon,
        EventKind::PlanChanged(plan()),
        EventKind::DowngradeRequested(plan()),
        EventKind::CancelRequested(CancelTime::PeriodEnd),
        EventKind::CancelRequested(CancelTime::Now),
        EventKind::CancelRetracted,
        EventKind::Superseded("s-2".into()),
        EventKind::ChangeCompleted,
        EventKind::Created(Creation::Began(Box::new(terms()))),
        EventKind::Created(Creation::NextOf("s-1".into())),
    ]);
    kinds
}

fn row_of(event: &Event, key: Time) -> History {
    let mut row = History::of(record(), 3, event, "applied".into());
    row.link(key, event, None);
    row
}

#[test]
fn every_kind_goes_into_the_row_and_comes_back() {
    let at = t("2026-02-03T08:00:00.123456789Z");
    for kind in kinds() {
        for key in [at, at + chrono::TimeDelta::nanoseconds(1)] {
            for process in [None, Some(Process::Retry), Some(Process::read("LEGACY"))] {
                let event = Event::internal_at("e-1".into(), at, "test", process, kind.clone());
                let event = event.by(Some("ada"));
                let row = row_of(&event, key);
                let stored = History::from_item(row.to_item()).unwrap();
                assert_eq!(stored, row);
                assert_eq!(decode(&stored).unwrap(), Some(event), "{:?}", row.record.data);
            }
        }
    }
}

/// What is taken over or written as given is the row's own record.
#[test]
fn given_records_are_those_of_their_rows() {
    let given: [fn(Record) -> EventKind; 2] = [
        |record| EventKind::Created(Creation::Imported(Box::new(record))),
        |record| EventKind::Replaced(Box::new(record)),
    ];
    for of in given {
        let at = t("2026-02-03T08:00:00Z");
        let row = row_of(&Event::internal("e-1".into(), at, "test", of(record())), at);
        let decoded = decode(&row).unwrap().unwrap();
        assert_eq!(decoded.kind, of(row.record.clone()));
    }
}

fn stored(text: &str) -> History {
    let at = t("2026-02-03T00:00:00Z");
    let mut row = row_of(&Event::internal("e-1".into(), at, "test", EventKind::Waived), at);
    row.record.data.set_text(attributes::DATA_EVENT, text);
    row
}

/// Version 1 stored what the bank reports without a currency.
#[test]
fn an_amount_of_schema_version_1_is_in_us_dollars() {
    let settled = |currency: &str| {
        let amount = "14.99".parse().unwrap();
        let receipt = Receipt { account_mask: "6789".into(), payment_type: "ACH".into() };
        let currency = Currency::read(currency).unwrap();
        let attempt = AttemptName { transaction_id: Some("c-1".into()), number: None };
        EventKind::Reported(Report { attempt, kind: ReportKind::Settled { amount, currency, receipt } })
    };
    let kind = |text: &str| decode(&stored(text)).map(|event| event.unwrap().kind);
    let v1 = r#"{"v":1,"k":"settled","t":"c-1","a":"14.99","m":"6789","y":"ACH"}"#;
    assert_eq!(kind(v1).unwrap(), settled("USD"));
    let v2 = r#"{"v":2,"k":"settled","t":"c-1","a":"14.99 CAD","m":"6789","y":"ACH"}"#;
    assert_eq!(kind(v2).unwrap(), settled("CAD"));
    let refunded = kind(r#"{"v":1,"k":"refunded","t":"c-1","a":"1.00"}"#).unwrap();
    let EventKind::Reported(Report { kind: ReportKind::Refunded { currency, .. }, .. }) = refunded else {
        panic!("{refunded:?}")
    };
    assert_eq!(currency, Currency::USD);
    // A plan has no currency in any version.
    let plan = kind(r#"{"v":1,"k":"plan","a":"14.99","l":"Plus:v2"}"#).unwrap();
    assert_eq!(plan, EventKind::PlanChanged(terms().plan));
    let bare = r#"{"v":2,"k":"settled","t":"c-1","a":"14.99"}"#;
    assert!(matches!(kind(bare), Err(EventError::Invalid { field: "a", .. })), "version 2 names it");
}

#[test]
fn what_cannot_be_read_is_named() {
    for (text, words) in [
        ("", "data_event: EOF"),
        ("[]", "no schema version"),
        (r#"{"k":"waived"}"#, "no schema version"),
        (r#"{"v":0,"k":"waived"}"#, "schema version 0 is not 1 to 2"),
        (r#"{"v":3,"k":"waived"}"#, "schema version 3 is not 1 to 2"),
        (r#"{"v":18446744073709551615,"k":"waived"}"#, "schema version 18446744073709551615"),
        (r#"{"v":2}"#, r#"unknown kind """#),
        (r#"{"v":2,"k":"vanished"}"#, r#"unknown kind "vanished""#),
        (r#"{"v":2,"k":"waived","z":1}"#, "unknown field `z`"),
        (r#"{"v":2,"k":"paused"}"#, "paused without months"),
        (r#"{"v":2,"k":"paused","months":-1}"#, "invalid value"),
        (r#"{"v":2,"k":"intended"}"#, "intended without n"),
        (r#"{"v":2,"k":"settled","a":"lots USD"}"#, r#"a of settled: "lots USD" is not an amount"#),
        (r#"{"v":2,"k":"moved","to":"soon"}"#, r#"to of moved: "soon" is not an RFC 3339 time"#),
        (r#"{"v":2,"k":"none","why":"because"}"#, r#"why of none: "because" is not a known reason"#),
        (r#"{"v":2,"k":"waived","b":true}"#, "the row has no pending_change"),
        (
            r#"{"v":2,"k":"began","a":"1","l":"P","term":"MONTHLY","to":"2026-01-01T00:00:00Z","week":9}"#,
            "week",
        ),
    ] {
        let error = decode(&stored(text)).expect_err(text).to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
    let at = t("2026-02-03T00:00:00Z");
    assert_eq!(
        encode(&Event::internal("e-1".into(), at, "test", EventKind::Waived), at),
        r#"{"v":2,"k":"waived"}"#,
        "the time is the row's key"
    );
}
