//! Entitlements from Stripe events: every rule, and independence of order and repetition.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use dues_events::billing::record::Provider;
use dues_events::entitlements::stripe::{
    Amount, BillingReason, ChargeRefunded, Checkout, CheckoutMode, CheckoutState, Dispute, DisputeState,
    Fact, Invoice, PaymentIntent, Period, Purchase, Refund, RefundStatus, StripeEvent, Subscription,
    SubscriptionStatus,
};
use dues_events::entitlements::tier::PlanTier;
use dues_events::{IdempotencyToken, Money, Time};
use dues_projections::entitlements::access::access;
use dues_projections::entitlements::effective_tier::EffectiveTier;
use dues_projections::entitlements::stripe;
use dues_projections::entitlements::stripe::Entitlement;
use proptest::prelude::*;

fn at(second: i64) -> Time {
    Time::from_timestamp(1_770_000_000 + second, 0).unwrap()
}

/// Folds as of the first second, when a pass has granted its first month's credits.
fn fold<'a>(events: impl IntoIterator<Item = &'a StripeEvent>) -> Entitlement {
    stripe::fold(events, at(0))
}

fn event(id: &str, second: i64, fact: Fact) -> StripeEvent {
    let id = id.into();
    StripeEvent {
        token: IdempotencyToken::new(&id, &[]),
        id,
        created: at(second),
        livemode: false,
        api_version: None,
        source: "test",
        fact,
    }
}

fn dollars(cents: u32) -> Amount {
    Amount::Usd(Money::from_cents(cents))
}

const MONTH: i64 = 30 * 86_400;

fn period(n: i64) -> Period {
    Period { start: at(n * MONTH), end: at((n + 1) * MONTH) }
}

fn subscription(id: &str, second: i64, tier: &str, status: SubscriptionStatus, n: i64) -> StripeEvent {
    let fact = Fact::Subscription(Subscription {
        id: "sub_1".into(),
        customer: Some("cus_1".into()),
        user: Some("u-1".into()),
        provider: Some(Provider::Cognito),
        tier: Some(tier.into()),
        status,
        period: Some(period(n)),
        cancel_at_period_end: false,
        created_at: at(0),
        ended: false,
    });
    event(id, second, fact)
}

fn invoice(id: &str, second: i64, n: i64) -> StripeEvent {
    let fact = Fact::InvoicePaid(Invoice {
        invoice: format!("in_{n}").into(),
        subscription: Some("sub_1".into()),
        customer: Some("cus_1".into()),
        user: Some("u-1".into()),
        provider: None,
        tier: None,
        billing_reason: Some(if n == 0 {
            BillingReason::SubscriptionCreate
        } else {
            BillingReason::SubscriptionCycle
        }),
        amount_paid: dollars(1500),
        amount_due: dollars(1500),
        period: Some(period(n)),
        payment_intent: None,
        charge: None,
    });
    event(id, second, fact)
}

/// The payment intent of an invoice; since 2025 the intent names the invoice.
fn payment(id: &str, second: i64, n: i64) -> StripeEvent {
    let fact = Fact::PaymentIntent(PaymentIntent {
        id: format!("pi_{n}").into(),
        succeeded: true,
        customer: Some("cus_1".into()),
        user: None,
        provider: None,
        purchase: None,
        invoice: Some(format!("in_{n}").into()),
        amount: dollars(1500),
    });
    event(id, second, fact)
}

fn bought(id: &str, second: i64, purchase: Purchase, cents: u32, state: CheckoutState) -> StripeEvent {
    let fact = Fact::Checkout(Checkout {
        session: "cs_1".into(),
        mode: CheckoutMode::Payment,
        state,
        payment_intent: Some("pi_buy".into()),
        subscription: None,
        customer: None,
        user: Some("u-1".into()),
        provider: Some(Provider::Local),
        purchase: Some(purchase),
        amount_total: Some(dollars(cents)),
    });
    event(id, second, fact)
}

fn refund(id: &str, second: i64, payment: &str, cents: u32, status: RefundStatus) -> StripeEvent {
    let fact = Fact::Refund(Refund {
        id: format!("re_{payment}").into(),
        payment_intent: Some(payment.into()),
        charge: None,
        amount: dollars(cents),
        status,
    });
    event(id, second, fact)
}

fn dispute(id: &str, second: i64, payment: &str, state: DisputeState) -> StripeEvent {
    let fact = Fact::Dispute(Dispute {
        id: "dp_1".into(),
        charge: None,
        payment_intent: Some(payment.into()),
        amount: dollars(1500),
        state,
    });
    event(id, second, fact)
}

/// The tier on the first day of the first period.
fn tier_of(entitlement: &Entitlement) -> PlanTier {
    access(&EffectiveTier::of_facts(entitlement, []), at(0)).tier
}

fn credits(entitlement: &Entitlement) -> u64 {
    entitlement.grants.values().map(|grant| grant.stands).sum()
}

#[test]
fn a_subscription_gives_its_tier_while_it_is_paid_or_still_collected() {
    use SubscriptionStatus as S;
    for (status, tier) in [
        (S::Active, PlanTier::Sage),
        (S::Trialing, PlanTier::Sage),
        (S::PastDue, PlanTier::Sage),
        (S::Incomplete, PlanTier::Free),
        (S::Unpaid, PlanTier::Free),
        (S::Paused, PlanTier::Free),
        (S::IncompleteExpired, PlanTier::Free),
        // Paid for until its period ends.
        (S::Canceled, PlanTier::Sage),
    ] {
        assert_eq!(tier_of(&fold(&[subscription("e-1", 0, "SAGE", status, 0)])), tier, "{status}");
    }
    assert_eq!(fold(&[]), Entitlement::default());
}

#[test]
fn the_latest_event_counts_and_in_one_second_the_higher_rank() {
    let active = subscription("e-9", 5, "JOURNEYMAN", SubscriptionStatus::Active, 0);
    let created = subscription("e-1", 5, "JOURNEYMAN", SubscriptionStatus::Incomplete, 0);
    assert_eq!(tier_of(&fold(&[active.clone(), created.clone()])), PlanTier::Journeyman);
    let later = subscription("e-0", 6, "SAGE", SubscriptionStatus::Active, 0);
    assert_eq!(tier_of(&fold(&[later, active, created])), PlanTier::Sage);
}

#[test]
fn a_period_brings_its_credits_once() {
    let sage = subscription("e-1", 0, "SAGE", SubscriptionStatus::Active, 0);
    let twice = [sage.clone(), invoice("e-2", 1, 0), invoice("e-3", 1, 0)];
    let folded = fold(&twice);
    assert_eq!(
        (credits(&folded), folded.grants.len()),
        (15, 1),
        "invoice.paid and invoice.payment_succeeded"
    );
    let year: Vec<StripeEvent> =
        (0..12).map(|n| invoice(&format!("e-{n}"), 12 * MONTH, n)).chain([sage]).collect();
    let folded = fold(&year);
    assert_eq!(
        (credits(&folded), folded.grants.len()),
        (180, 12),
        "a year of missed webhooks, each month once"
    );
}

#[test]
fn a_later_change_of_tier_does_not_make_an_earlier_month_worth_more() {
    let events = [
        subscription("e-1", 0, "JOURNEYMAN", SubscriptionStatus::Active, 0),
        invoice("e-2", 1, 0),
        subscription("e-3", 9, "SAGE", SubscriptionStatus::Active, 0),
        invoice("e-4", MONTH, 1),
    ];
    assert_eq!(credits(&fold(&events)), 5 + 15);
}

#[test]
fn an_invoice_for_something_else_brings_none() {
    let mut by_hand = invoice("e-1", 1, 0);
    let mut free = invoice("e-2", 1, 1);
    if let (Fact::InvoicePaid(a), Fact::InvoicePaid(b)) = (&mut by_hand.fact, &mut free.fact) {
        a.billing_reason = Some(BillingReason::SubscriptionUpdate);
        b.amount_paid = dollars(0);
    }
    assert_eq!(
        credits(&fold(&[subscription("e-0", 0, "SAGE", SubscriptionStatus::Active, 0), by_hand, free])),
        0
    );
}

#[test]
fn top_ups_and_passes_wait_for_the_money() {
    for (state, tier, passes) in
        [(CheckoutState::Pending, 0, 0), (CheckoutState::Failed, 0, 0), (CheckoutState::Paid, 10, 1)]
    {
        assert_eq!(credits(&fold(&[bought("e-1", 0, Purchase::Credits, 500, state)])), tier);
        assert_eq!(fold(&[bought("e-1", 0, Purchase::FoundingMember, 19900, state)]).passes.len(), passes);
    }
    let later = [
        bought("e-2", 9, Purchase::Credits, 1000, CheckoutState::Paid),
        bought("e-1", 0, Purchase::Credits, 1000, CheckoutState::Pending),
    ];
    assert_eq!(credits(&fold(&later)), 20);
}

#[test]
fn what_went_back_takes_back_what_it_granted() {
    let journeyman = subscription("e-1", 0, "JOURNEYMAN", SubscriptionStatus::Active, 1);
    let paid =
        [journeyman, invoice("e-2", 1, 0), payment("e-3", 1, 0), invoice("e-4", 2, 1), payment("e-5", 2, 1)];
    let and = |more: &[StripeEvent]| fold(paid.iter().chain(more));
    assert_eq!(credits(&and(&[])), 10);
    let taken = and(&[refund("e-6", 9, "pi_0", 1500, RefundStatus::Succeeded)]);
    assert_eq!(credits(&taken), 5, "of that month only");
    let causes: Vec<&str> =
        taken.grants.values().filter_map(|grant| grant.taken_back_by.as_deref()).collect();
    assert_eq!(causes, ["re_pi_0"], "and it says why");
    assert_eq!(
        credits(&and(&[refund("e-6", 9, "pi_0", 1500, RefundStatus::Pending)])),
        10,
        "not before it is through"
    );
    assert_eq!(
        credits(&and(&[refund("e-6", 9, "pi_0", 700, RefundStatus::Succeeded)])),
        10,
        "a part of the price"
    );
    let failed = [
        refund("e-6", 9, "pi_0", 1500, RefundStatus::Succeeded),
        refund("e-7", 10, "pi_0", 1500, RefundStatus::Failed),
    ];
    assert_eq!(credits(&and(&failed)), 10, "the bank sent the refund back");
    for (state, stands) in [
        (DisputeState::Open, 10),
        (DisputeState::Lost, 5),
        (DisputeState::Won, 10),
        (DisputeState::Reinstated, 10),
    ] {
        let opened = dispute("e-6", 9, "pi_1", DisputeState::Open);
        assert_eq!(credits(&and(&[dispute("e-7", 10, "pi_1", state), opened])), stands, "{state:?}");
    }
}

#[test]
fn a_charge_that_was_refunded_says_so_too() {
    let bought = bought("e-1", 0, Purchase::GuildBuilder, 99900, CheckoutState::Paid);
    let charge = |refunded| {
        let fact = Fact::ChargeRefunded(ChargeRefunded {
            charge: "ch_1".into(),
            payment_intent: Some("pi_buy".into()),
            customer: None,
            amount_refunded: dollars(99900),
            refunded,
        });
        event("e-2", 5, fact)
    };
    assert_eq!(fold(&[bought.clone(), charge(false)]).passes.len(), 1);
    assert_eq!(fold(&[bought, charge(true)]).passes.len(), 0, "a pass that was paid back is gone");
}

#[test]
fn a_part_of_a_top_up_that_goes_back_takes_its_part() {
    let bought = bought("e-1", 0, Purchase::Credits, 2000, CheckoutState::Paid);
    assert_eq!(credits(&fold(&[bought, refund("e-2", 5, "pi_buy", 500, RefundStatus::Succeeded)])), 30);
}

/// A full history of Stripe events: all of the above, with equal timestamps.
fn life() -> Vec<StripeEvent> {
    let mut events = vec![
        subscription("e-01", 0, "JOURNEYMAN", SubscriptionStatus::Incomplete, 0),
        subscription("e-02", 0, "JOURNEYMAN", SubscriptionStatus::Active, 0),
        subscription("e-03", MONTH, "JOURNEYMAN", SubscriptionStatus::PastDue, 1),
        subscription("e-04", MONTH, "SAGE", SubscriptionStatus::Active, 1),
        bought("e-05", 7, Purchase::Credits, 1000, CheckoutState::Pending),
        bought("e-06", 7, Purchase::Credits, 1000, CheckoutState::Paid),
        refund("e-07", 8, "pi_buy", 500, RefundStatus::Pending),
        refund("e-08", 8, "pi_buy", 500, RefundStatus::Succeeded),
        dispute("e-09", 2 * MONTH, "pi_1", DisputeState::Open),
        dispute("e-10", 2 * MONTH, "pi_1", DisputeState::Lost),
    ];
    for n in 0..4 {
        events.push(invoice(&format!("e-2{n}"), n * MONTH, n));
        events.push(invoice(&format!("e-3{n}"), n * MONTH, n));
        events.push(payment(&format!("e-4{n}"), n * MONTH, n));
    }
    events
}

proptest! {
    #[test]
    fn neither_order_nor_repeats_matter(mut order in Just(life()).prop_shuffle(),
        repeats in prop::collection::vec(0usize..22, 0..30)) {
        let expected = fold(&life());
        prop_assert_eq!(credits(&expected), 3 * 5 + 10,
            "the months at their tier, but for the one that was lost, and the rest of the top-up");
        for n in repeats {
            let again = order[n % order.len()].clone();
            order.insert(n % (order.len() + 1), again);
        }
        prop_assert_eq!(fold(&order), expected);
    }
}
