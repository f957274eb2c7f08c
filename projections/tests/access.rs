//! `access` as a table: each source, each boundary to the second. The expected times are written out, not
//! computed.

#![allow(clippy::unwrap_used)]

use dues_events::entitlements::stripe::{Purchase, SubscriptionStatus};
use dues_events::{PlanTier, Time};
use dues_projections::entitlements::access::{access, access_or_profile};
use dues_projections::entitlements::dues::{DuesState, PaidPeriod};
use dues_projections::entitlements::effective_tier::{EffectiveTier, HeldPass, HeldSubscription};

use PlanTier::{Free, Guildmaster, Initiate, Journeyman, Sage};

fn t(text: &str) -> Time {
    text.parse().unwrap()
}

fn period(record: &str, due: &str, state: DuesState) -> PaidPeriod {
    PaidPeriod {
        record: record.into(),
        due: due.into(),
        version: 1,
        state,
        next: None,
        barred: false,
        months: 0,
        provider: None,
    }
}

fn paid(record: &str, due: &str, until: &str, tier: PlanTier, next: Option<&str>) -> PaidPeriod {
    let state = DuesState::Paid { tier, until: until.into(), settled: None, waived: false };
    PaidPeriod { next: next.map(Into::into), ..period(record, due, state) }
}

/// January, paid to 28 February, with the renewal `feb` promised.
fn january() -> PaidPeriod {
    paid("jan", "2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z", Journeyman, Some("feb"))
}

fn february(state: DuesState) -> PaidPeriod {
    period("feb", "2026-02-28T00:00:00Z", state)
}

fn failed(at: &str, again: bool) -> DuesState {
    DuesState::Failed { at: at.into(), again, cancel_at: None }
}

fn dues(periods: impl IntoIterator<Item = PaidPeriod>) -> EffectiveTier {
    EffectiveTier { paid_periods: periods.into_iter().collect(), ..EffectiveTier::new() }
}

fn stripe(id: &str, tier: PlanTier, status: SubscriptionStatus, end: Option<&str>) -> HeldSubscription {
    HeldSubscription {
        id: id.into(),
        tier,
        status,
        period_end: end.map(t),
        cancel_at_period_end: false,
        overdue: false,
    }
}

fn subscribed(held: impl IntoIterator<Item = HeldSubscription>) -> EffectiveTier {
    EffectiveTier { subscriptions: held.into_iter().collect(), stripe_known: true, ..EffectiveTier::new() }
}

fn pass(kind: Purchase, tier: PlanTier) -> HeldPass {
    HeldPass { tier, kind, payment: "pi_1".into(), purchased_at: t("2026-01-01T00:00:00Z") }
}

/// Asserts the tiers at some times, each with the `until` that is named there.
fn is(case: &str, head: &EffectiveTier, expected: &[(&str, PlanTier, Option<&str>)]) {
    for (at, tier, until) in expected {
        let found = access(head, t(at));
        assert_eq!(
            (found.tier, found.until.as_ref().map(|until| until.text())),
            (*tier, until.map(str::to_owned)),
            "{case} at {at}: {}",
            found.why
        );
    }
}

#[test]
fn paid_dues_last_from_their_due_date_to_the_last_second_before_the_next() {
    let alone = PaidPeriod { next: None, ..january() };
    let boundaries = [
        ("2026-01-30T23:59:59Z", Free, Some("2026-01-31T00:00:00Z")),
        ("2026-01-31T00:00:00Z", Journeyman, Some("2026-02-28T00:00:00Z")),
        ("2026-02-27T23:59:59Z", Journeyman, Some("2026-02-28T00:00:00Z")),
        ("2026-02-28T00:00:00Z", Free, None),
    ];
    is("paid", &dues([alone.clone()]), &boundaries);
    let state = DuesState::Paid {
        tier: Journeyman,
        until: "2026-02-28T00:00:00Z".into(),
        settled: None,
        waived: true,
    };
    is("waived", &dues([PaidPeriod { state, ..alone.clone() }]), &boundaries);
    for state in
        [DuesState::TakenBack, DuesState::Ended, DuesState::Open, failed("2026-02-10T00:00:00Z", true)]
    {
        let gone = PaidPeriod { state, ..alone.clone() };
        is("not paid", &dues([gone]), &[("2026-02-10T00:00:00Z", Free, None)]);
    }
}

#[test]
fn a_renewal_goes_on_while_it_is_tried() {
    let on = [("2026-02-27T23:59:59Z", Journeyman, None), ("2026-05-01T00:00:00Z", Journeyman, None)];
    is("expected", &dues([january()]), &on);
    is("open again", &dues([january(), february(DuesState::Open)]), &on);
    is("presented again", &dues([january(), february(DuesState::Retried)]), &on);
    is(
        "failed, and may be presented again: fourteen days",
        &dues([january(), february(failed("2026-03-04T12:00:00Z", true))]),
        &[
            ("2026-03-04T12:00:00Z", Journeyman, Some("2026-03-18T12:00:00Z")),
            ("2026-03-18T11:59:59Z", Journeyman, Some("2026-03-18T12:00:00Z")),
            ("2026-03-18T12:00:00Z", Free, None),
        ],
    );
    let cancelled = DuesState::Failed {
        at: "2026-03-04T12:00:00Z".into(),
        again: true,
        cancel_at: Some("2026-03-10T00:00:00Z".into()),
    };
    is(
        "failed, and cancelled before its grace is over",
        &dues([january(), february(cancelled)]),
        &[("2026-03-09T23:59:59Z", Journeyman, Some("2026-03-10T00:00:00Z"))],
    );
}

#[test]
fn a_renewal_that_is_not_tried_ends_with_what_is_paid() {
    let ends = [
        ("2026-02-27T23:59:59Z", Journeyman, Some("2026-02-28T00:00:00Z")),
        ("2026-02-28T00:00:00Z", Free, None),
    ];
    is("cancelled, paused, stale", &dues([january(), february(DuesState::Ended)]), &ends);
    is("refunded", &dues([january(), february(DuesState::TakenBack)]), &ends);
    is("stopped or exhausted", &dues([january(), february(failed("2026-03-04T12:00:00Z", false))]), &ends);
    let barred = PaidPeriod { barred: true, ..period("dec", "2025-12-31T00:00:00Z", DuesState::TakenBack) };
    is("barred by another record", &dues([barred, january()]), &ends);
}

#[test]
fn a_moved_due_date_extends_the_period_before_it() {
    let moved = |state| period("feb", "2026-03-10T00:00:00Z", state);
    let ends = [
        ("2026-03-09T23:59:59Z", Journeyman, Some("2026-03-10T00:00:00Z")),
        ("2026-03-10T00:00:00Z", Free, None),
    ];
    is("moved, then paused", &dues([january(), moved(DuesState::Ended)]), &ends);
    is("moved", &dues([january(), moved(DuesState::Open)]), &[("2026-03-09T23:59:59Z", Journeyman, None)]);
}

#[test]
fn a_period_that_was_paid_and_returned_is_gone_and_the_one_before_has_its_grace() {
    let december = paid("dec", "2025-12-31T00:00:00Z", "2026-01-31T00:00:00Z", Initiate, Some("jan"));
    let returned = PaidPeriod { state: failed("2026-02-20T00:00:00Z", true), next: None, ..january() };
    is(
        "returned late",
        &dues([december, returned]),
        &[
            ("2026-02-20T00:00:00Z", Initiate, Some("2026-03-06T00:00:00Z")),
            ("2026-03-06T00:00:00Z", Free, None),
        ],
    );
}

#[test]
fn stripe_is_trusted_to_the_end_of_the_period() {
    use SubscriptionStatus::{
        Active, Canceled, Incomplete, IncompleteExpired, PastDue, Paused, Trialing, Unpaid,
    };
    let end = Some("2026-03-01T00:00:00Z");
    for status in [Active, Trialing] {
        let held = stripe("sub_1", Sage, status, end);
        is(
            "three days for the renewal's event",
            &subscribed([held.clone()]),
            &[
                ("2026-03-01T00:00:00Z", Sage, Some("2026-03-04T00:00:00Z")),
                ("2026-03-03T23:59:59Z", Sage, Some("2026-03-04T00:00:00Z")),
                ("2026-03-04T00:00:00Z", Free, None),
            ],
        );
        let ends = HeldSubscription { cancel_at_period_end: true, ..held };
        is("no renewal to wait for", &subscribed([ends]), &[("2026-03-01T00:00:00Z", Free, None)]);
        is(
            "no period",
            &subscribed([stripe("sub_1", Sage, status, None)]),
            &[("2030-01-01T00:00:00Z", Sage, None)],
        );
    }
    is(
        "while Stripe says so",
        &subscribed([stripe("sub_1", Sage, PastDue, end)]),
        &[("2027-01-01T00:00:00Z", Sage, None)],
    );
    is(
        "canceled",
        &subscribed([stripe("sub_1", Sage, Canceled, end)]),
        &[("2026-02-28T23:59:59Z", Sage, Some("2026-03-01T00:00:00Z")), ("2026-03-01T00:00:00Z", Free, None)],
    );
    for status in [Unpaid, Paused, Incomplete, IncompleteExpired] {
        is(
            status.as_str(),
            &subscribed([stripe("sub_1", Sage, status, end)]),
            &[("2026-02-01T00:00:00Z", Free, None)],
        );
    }
}

#[test]
fn the_highest_counts_and_the_answer_changes_where_the_tier_does() {
    let both = EffectiveTier {
        subscriptions: vec![stripe(
            "sub_1",
            Sage,
            SubscriptionStatus::Canceled,
            Some("2026-02-10T00:00:00Z"),
        )],
        ..dues([PaidPeriod { next: None, ..january() }])
    };
    is(
        "Stripe above dues",
        &both,
        &[
            ("2026-02-09T23:59:59Z", Sage, Some("2026-02-10T00:00:00Z")),
            ("2026-02-10T00:00:00Z", Journeyman, Some("2026-02-28T00:00:00Z")),
            ("2026-02-28T00:00:00Z", Free, None),
        ],
    );
    let lower = EffectiveTier {
        subscriptions: vec![stripe(
            "sub_1",
            Initiate,
            SubscriptionStatus::Canceled,
            Some("2026-02-10T00:00:00Z"),
        )],
        ..dues([january()])
    };
    is("the end of a lower one changes nothing", &lower, &[("2026-02-01T00:00:00Z", Journeyman, None)]);
    let founder = EffectiveTier { founder_passes: vec![pass(Purchase::FoundingMember, Sage)], ..both };
    is("for life", &founder, &[("2026-02-01T00:00:00Z", Sage, None), ("2040-01-01T00:00:00Z", Sage, None)]);
    let first = EffectiveTier {
        founder_passes: vec![pass(Purchase::FoundingMember, Sage)],
        ..subscribed([stripe("sub_1", Guildmaster, SubscriptionStatus::PastDue, None)])
    };
    is("a pass comes before everything", &first, &[("2026-02-01T00:00:00Z", Sage, None)]);
}

#[test]
fn the_profile_of_a_member_without_facts_is_another_writers() {
    let now = t("2026-02-01T00:00:00Z");
    let (unknown, known) =
        (EffectiveTier::new(), subscribed([stripe("s", Sage, SubscriptionStatus::Unpaid, None)]));
    let found = access_or_profile(&unknown, Some(Initiate), now);
    assert_eq!((found.tier, found.source.as_str()), (Initiate, "profile"));
    assert_eq!(access_or_profile(&unknown, None, now).source.as_str(), "default");
    assert_eq!(access_or_profile(&known, Some(Initiate), now).tier, Free);
}

#[test]
fn a_head_of_an_earlier_version_can_be_read() {
    let old = r#"{"subscribed":"SAGE","passes":"free","notes":[{"record":"jan","due":"2026-01-31T00:00:00Z",
        "version":3,"standing":{"paid":{"tier":"JOURNEYMAN","until":"2026-02-28T00:00:00Z"}}},
        {"record":"dec","due":"2025-12-31T00:00:00Z","version":3,"standing":"taken_back"}]}"#;
    let head: EffectiveTier = serde_json::from_str(old).unwrap();
    assert!(head.is_outdated() && head.has_facts());
    assert_eq!(access(&head, t("2026-02-01T00:00:00Z")).tier, Sage);
    let new = EffectiveTier {
        shown: Some(Sage),
        ..dues([january(), february(failed("2026-03-04T12:00:00Z", true))])
    };
    let text = serde_json::to_string(&new).unwrap();
    assert_eq!(serde_json::from_str::<EffectiveTier>(&text).unwrap(), new);
}

#[test]
fn a_timer_is_the_first_moment_that_needs_a_booking() {
    let now = t("2026-02-01T00:00:00Z");
    assert_eq!(dues([january()]).timer(now), None, "a member who goes on paying costs nothing");
    assert_eq!(dues([PaidPeriod { next: None, ..january() }]).timer(now), Some(t("2026-02-28T00:00:00Z")));
    // A founder's tier does not change when a subscription is overdue, but an operator has to look at it.
    let overdue = EffectiveTier {
        founder_passes: vec![pass(Purchase::GuildBuilder, Guildmaster)],
        ..subscribed([stripe("sub_1", Sage, SubscriptionStatus::Active, Some("2026-03-01T00:00:00Z"))])
    };
    assert_eq!(overdue.timer(now), Some(t("2026-03-04T00:00:00Z")));
    let mut listed = overdue.clone();
    listed.mark_overdue(t("2026-03-04T00:00:00Z"));
    assert!(listed.subscriptions[0].overdue);
    assert_eq!(listed.timer(t("2026-03-04T00:00:00Z")), None, "listed once");
}

#[test]
fn a_paid_year_brings_eleven_more_months_of_credits() {
    let state = DuesState::Paid {
        tier: Journeyman,
        until: "2027-01-31T00:00:00Z".into(),
        settled: Some("2026-02-03T00:00:00Z".into()),
        waived: false,
    };
    let mut head =
        dues([PaidPeriod { next: Some("y2".into()), ..period("y1", "2026-01-31T00:00:00Z", state) }]);
    assert_eq!(head.timer(t("2026-02-03T00:00:00Z")), Some(t("2026-02-28T00:00:00Z")));
    let months = head.months_due(t("2026-04-30T00:00:00Z"));
    let begun: Vec<(u32, Time)> = months.iter().map(|month| (month.month, month.at)).collect();
    assert_eq!(
        begun,
        [(1, t("2026-02-28T00:00:00Z")), (2, t("2026-03-31T00:00:00Z")), (3, t("2026-04-30T00:00:00Z"))]
    );
    head.count_months(&months);
    assert_eq!(head.timer(t("2026-04-30T00:00:00Z")), Some(t("2026-05-31T00:00:00Z")));
    let rest = head.months_due(t("2030-01-01T00:00:00Z"));
    assert_eq!((rest.len(), rest.last().unwrap().at), (8, t("2026-12-31T00:00:00Z")));
    head.count_months(&rest);
    assert_eq!(head.timer(t("2027-01-01T00:00:00Z")), None);
}
