//! Users' plans: every rule for dues, and independence of order, repetition and restarts.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use dues_events::entitlements::stripe::{Period, Subscription, SubscriptionStatus};
use dues_events::{Item, Time};
use dues_projections::model::{Model as _, Recorded};
use dues_projections::usage::{Dues, DuesPlanState, Fact, State, Subscribed, Usage};
use proptest::prelude::*;

const DAY: i64 = 86_400;

fn at(second: i64) -> Time {
    Time::from_timestamp(1_770_000_000 + second, 0).unwrap()
}

/// A subscription's status at a second. Several may share one: Stripe's timestamps are whole seconds.
fn subscribed(
    n: usize,
    subscription: u8,
    second: i64,
    status: SubscriptionStatus,
    month: i64,
) -> Recorded<Fact> {
    let subscription = Subscription {
        id: format!("sub_{subscription}").into(),
        customer: None,
        user: None,
        provider: None,
        tier: Some("SAGE".into()),
        status,
        period: Some(Period { start: at(month * 30 * DAY), end: at((month + 1) * 30 * DAY) }),
        cancel_at_period_end: false,
        created_at: at(0),
        ended: status == SubscriptionStatus::Canceled,
    };
    Recorded {
        id: format!("e-{n}").into(),
        at: at(second),
        fact: Fact::Stripe(Subscribed { subscription, plan: "pro".into() }),
    }
}

/// The state of a month's record in one version.
fn dues(month: u8, version: u64, state: DuesPlanState) -> Recorded<Fact> {
    let start = i64::from(month) * 30 * DAY;
    let dues = Dues {
        record: format!("r-{month}").into(),
        // Older writers did not record when a record was created.
        created: (month > 0).then(|| at(start - 20 * DAY)),
        version,
        since: at(-DAY),
        period: Period { start: at(start), end: at(start + 30 * DAY) },
        plan: format!("plan-{month}").into(),
        state,
    };
    Recorded {
        id: format!("r-{month}@{version}").into(),
        at: at(start + i64::try_from(version).unwrap()),
        fact: Fact::Dues(dues),
    }
}

fn merged<'a>(facts: impl IntoIterator<Item = &'a Recorded<Fact>>) -> State {
    let mut state = State::default();
    facts.into_iter().for_each(|fact| Usage::merge(&mut state, fact));
    state
}

fn rows(state: &State) -> Vec<Item> {
    Usage::rows("u-1", state).into_iter().map(|(_, item)| item).collect()
}

const STANDINGS: [DuesPlanState; 6] = [
    DuesPlanState::Paid,
    DuesPlanState::Failed,
    DuesPlanState::Refunded,
    DuesPlanState::Ended,
    DuesPlanState::Resting,
    DuesPlanState::Open,
];
const STATUSES: [SubscriptionStatus; 5] = [
    SubscriptionStatus::Incomplete,
    SubscriptionStatus::Active,
    SubscriptionStatus::PastDue,
    SubscriptionStatus::Trialing,
    SubscriptionStatus::Canceled,
];

/// Events of three subscriptions, and versions of a year's records: more than the state keeps.
fn facts() -> impl Strategy<Value = Vec<Recorded<Fact>>> {
    let stripe = prop::collection::vec((0..3_u8, 0..6_i64, 0..STATUSES.len(), 0..3_i64), 0..12);
    let records = prop::collection::btree_map((0..12_u8, 2..7_u64), 0..STANDINGS.len(), 0..40);
    (stripe, records).prop_map(|(stripe, records)| {
        let stripe = stripe.into_iter().enumerate();
        let stripe =
            stripe.map(|(n, (id, second, status, month))| subscribed(n, id, second, STATUSES[status], month));
        let records =
            records.into_iter().map(|((month, version), state)| dues(month, version, STANDINGS[state]));
        stripe.chain(records).collect()
    })
}

fn shuffled() -> impl Strategy<Value = (Vec<Recorded<Fact>>, Vec<Recorded<Fact>>, usize)> {
    facts().prop_flat_map(|facts| {
        let repeated: Vec<_> = facts.iter().chain(facts.iter().step_by(3)).cloned().collect();
        let cut = 0..=repeated.len();
        (Just(facts), Just(repeated).prop_shuffle(), cut)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn every_order_repetition_and_cutting_gives_the_same_rows((facts, sent, cut) in shuffled()) {
        let expected = merged(&facts);
        let state = merged(&sent);
        prop_assert_eq!(rows(&state), rows(&expected));
        // Cut: the state is serialized to JSON, parsed, and continued.
        let first = merged(&sent[..cut]);
        let mut read: State = serde_json::from_str(&serde_json::to_string(&first).unwrap()).unwrap();
        sent[cut..].iter().for_each(|fact| Usage::merge(&mut read, fact));
        prop_assert_eq!(&read, &state);
        prop_assert_eq!(state, expected);
    }

    #[test]
    fn a_state_stays_small(months in 1..200_u8) {
        let sent: Vec<_> = (0..months).map(|month| dues(month, 3, DuesPlanState::Paid)).collect();
        prop_assert!(serde_json::to_string(&merged(&sent)).unwrap().len() < 4096);
    }
}

fn state(facts: &[Recorded<Fact>]) -> Option<(String, String)> {
    let rows = rows(&merged(facts));
    assert!(rows.len() <= 1);
    let text = |name: &str| rows.first().and_then(|row| row.text(name)).map(str::to_owned);
    text("status").zip(text("plan_id"))
}

#[test]
fn what_the_newest_records_come_to() {
    use DuesPlanState::{Ended, Failed, Open, Paid, Refunded, Resting};
    for (facts, expected) in [
        (vec![dues(1, 2, Open)], None),
        (vec![dues(1, 2, Failed)], Some(("incomplete", "plan-1"))),
        (vec![dues(1, 2, Paid)], Some(("active", "plan-1"))),
        (vec![dues(1, 2, Paid), dues(2, 2, Open)], Some(("active", "plan-1"))),
        (vec![dues(1, 2, Paid), dues(2, 2, Failed)], Some(("past_due", "plan-1"))),
        (vec![dues(1, 2, Paid), dues(2, 2, Failed), dues(2, 3, Open)], Some(("active", "plan-1"))),
        (vec![dues(1, 2, Paid), dues(2, 2, Failed), dues(2, 4, Paid)], Some(("active", "plan-2"))),
        (vec![dues(1, 2, Paid), dues(1, 3, Failed)], Some(("unpaid", "plan-1"))),
        (vec![dues(1, 2, Paid), dues(1, 3, Refunded)], Some(("canceled", "plan-1"))),
        (vec![dues(1, 2, Paid), dues(2, 2, Paid), dues(1, 3, Refunded)], Some(("active", "plan-2"))),
        (vec![dues(1, 2, Paid), dues(2, 2, Ended)], Some(("canceled", "plan-1"))),
        (vec![dues(1, 2, Paid), dues(2, 2, Resting)], Some(("paused", "plan-1"))),
        (vec![dues(1, 2, Paid), dues(2, 2, Resting), dues(2, 3, Open)], Some(("active", "plan-1"))),
        (vec![dues(0, 9, Ended), dues(1, 2, Paid)], Some(("active", "plan-1"))),
    ] {
        let expected = expected.map(|(status, plan)| (status.to_owned(), plan.to_owned()));
        assert_eq!(state(&facts), expected, "{facts:?}");
    }
}
