//! The effect of each kind of event, on every engine.

use dues_events::{Feature, PlanTier};
use dues_processors::Outcome;
use dues_processors::entitlements::{access, consume};
use dues_store::{Consumed, Engine};
use dues_tests::fixtures::company::{Sent, deliver};
use dues_tests::fixtures::stripe::{checkout, invoice, invoice_payment, payment_of, refund, subscription};

use super::{USER, at, credits, rows, tier, user};

dues_tests::on_engines! {
    a_period_is_granted_once_however_often_stripe_says_that_it_is_paid,
    a_year_of_missed_webhooks_grants_each_month_once,
    a_refund_takes_back_exactly_what_its_payment_granted,
    a_founder_pass_brings_credits_every_month_for_life_and_none_expire,
    a_pass_of_years_ago_brings_all_its_months,
    a_tier_that_there_is_not_is_parked,
    one_id_with_two_contents_is_parked,
    others_keep_their_own_in_the_profile,
}

const JANUARY: &str = "2026-01-01T00:00:00Z";

fn active(id: &str, tier: &str) -> Sent {
    subscription(id, "created", JANUARY, USER, tier, "active", JANUARY)
}

async fn a_period_is_granted_once_however_often_stripe_says_that_it_is_paid<E: Engine>(engine: E) {
    let context = at(&engine, JANUARY);
    let both = [
        active("e-1", "SAGE"),
        invoice("e-2", "payment_succeeded", JANUARY, USER, JANUARY),
        invoice("e-3", "paid", JANUARY, USER, JANUARY),
    ];
    assert_eq!(deliver(&context, &both, 1).await, [Outcome::Applied, Outcome::Applied, Outcome::Applied]);
    assert_eq!(
        deliver(&context, &both, 3).await,
        [Outcome::Duplicate, Outcome::Duplicate, Outcome::Duplicate]
    );
    assert_eq!((credits(&context.store).await, context.store.ledger(&user()).await.unwrap().len()), (15, 1));
}

async fn a_year_of_missed_webhooks_grants_each_month_once<E: Engine>(engine: E) {
    let mut year = vec![subscription(
        "s",
        "created",
        "2025-01-01T00:00:00Z",
        USER,
        "INITIATE",
        "active",
        "2025-01-01T00:00:00Z",
    )];
    for n in 1..=12 {
        let month = format!("2025-{n:02}-01T00:00:00Z");
        year.push(invoice(&format!("a-{n}"), "paid", &month, USER, &month));
        year.push(invoice(&format!("b-{n}"), "payment_succeeded", &month, USER, &month));
    }
    year.reverse();
    let context = at(&engine, "2026-06-01T00:00:00Z");
    deliver(&context, &year, 7).await;
    assert_eq!(credits(&context.store).await, 24, "also those of more than a year ago");
    let ledger = context.store.ledger(&user()).await.unwrap();
    let months: Vec<String> = ledger.iter().map(|movement| movement.id.to_string()).collect();
    let expected: Vec<String> =
        (1..=12).map(|n| format!("grant:sub_{USER}:2025-{n:02}-01T00:00:00Z")).collect();
    assert_eq!(months, expected, "one by one");
}

async fn a_refund_takes_back_exactly_what_its_payment_granted<E: Engine>(engine: E) {
    let context = at(&engine, "2026-03-01T00:00:00Z");
    let february = "2026-02-01T00:00:00Z";
    let paid = [
        active("e-1", "JOURNEYMAN"),
        invoice("e-2", "paid", JANUARY, USER, JANUARY),
        invoice_payment("e-3", JANUARY, USER, JANUARY),
        invoice("e-4", "paid", february, USER, february),
        invoice_payment("e-5", february, USER, february),
        checkout("e-6", february, USER, "CREDITS", 500, "pi_top", "paid"),
    ];
    deliver(&context, &paid, 10).await;
    assert_eq!(credits(&context.store).await, 20);
    for n in 0..6 {
        assert!(matches!(
            consume(&context.store, &user(), Feature::Video, &format!("v-{n}")).await.unwrap(),
            Consumed::Taken(_)
        ));
    }
    let payment = payment_of(USER, JANUARY);
    deliver(
        &context,
        &[refund("e-7", "created", "2026-02-20T00:00:00Z", "re_1", &payment, 1500, "succeeded")],
        1,
    )
    .await;
    assert_eq!(credits(&context.store).await, 20 - 18 - 5, "the balance may become negative");
    let ledger = context.store.ledger(&user()).await.unwrap();
    let back = ledger.iter().find(|movement| movement.amount == -5).unwrap();
    assert_eq!(back.takes_back.as_ref().unwrap().as_str(), format!("grant:sub_{USER}:{JANUARY}"));
    assert_eq!((back.source.as_str(), back.payment.as_deref()), ("e-7", Some(payment.as_str())));
    deliver(
        &context,
        &[refund("e-8", "failed", "2026-02-21T00:00:00Z", "re_1", &payment, 1500, "failed")],
        1,
    )
    .await;
    assert_eq!(credits(&context.store).await, 2, "the refund came to nothing");
    deliver(
        &context,
        &[refund("e-9", "created", "2026-02-22T00:00:00Z", "re_2", &payment, 1500, "succeeded")],
        1,
    )
    .await;
    assert_eq!(credits(&context.store).await, -3);
}

async fn a_founder_pass_brings_credits_every_month_for_life_and_none_expire<E: Engine>(engine: E) {
    let bought = checkout("e-1", "2026-01-31T12:00:00Z", USER, "GUILD_BUILDER", 99900, "pi_1", "paid");
    let first = at(&engine, "2026-01-31T12:00:05Z");
    deliver(&first, std::slice::from_ref(&bought), 1).await;
    assert_eq!((credits(&first.store).await, tier(&first.store).await), (15, PlanTier::Guildmaster));
    // Years later, without a read in between.
    let later = at(&engine, "2028-03-01T00:00:00Z");
    assert_eq!(credits(&later.store).await, 15, "none has expired");
    let months = 1 + 25;
    assert_eq!(
        dues_processors::entitlements::credits(&later.store, &user()).await.unwrap().balance,
        months * 15
    );
    assert_eq!(credits(&later.store).await, months * 15);
    let answer = access(&later.store, &user()).await.unwrap();
    assert_eq!(
        (answer.tier, answer.source.as_str(), answer.until),
        (PlanTier::Guildmaster, "founder_pass", None)
    );
    // When the balance is too low, the pending grants are booked first.
    let next = at(&engine, "2028-04-01T00:00:00Z");
    for n in 0..months * 15 / 5 + 3 {
        let taken = consume(&next.store, &user(), Feature::MirrorReport, &format!("k-{n}")).await.unwrap();
        assert!(matches!(taken, Consumed::Taken(_)), "{n}: {taken:?}");
    }
    assert_eq!(
        consume(&next.store, &user(), Feature::MentorFeedback, "one more").await.unwrap(),
        Consumed::NotEnough(0)
    );
    // A refund removes the pass and every credit that it granted; spent credits leave a negative balance.
    deliver(
        &next,
        &[refund("e-2", "created", "2028-04-01T00:00:00Z", "re_1", "pi_1", 99900, "succeeded")],
        1,
    )
    .await;
    assert_eq!((credits(&next.store).await, tier(&next.store).await), (-(months + 1) * 15, PlanTier::Free));
    assert!(!rows(&engine).await.contains_key("FOUNDER#GUILD_BUILDER"));
}

async fn a_pass_of_years_ago_brings_all_its_months<E: Engine>(engine: E) {
    let context = at(&engine, "2026-01-01T00:00:00Z");
    deliver(
        &context,
        &[checkout("e-1", "2016-01-01T00:00:00Z", USER, "FOUNDING_MEMBER", 19900, "pi_1", "paid")],
        1,
    )
    .await;
    let months = 10 * 12 + 1;
    assert_eq!(credits(&context.store).await, months * 15, "more than one transaction holds");
    assert_eq!(context.store.ledger(&user()).await.unwrap().len(), usize::try_from(months).unwrap());
}

async fn a_tier_that_there_is_not_is_parked<E: Engine>(engine: E) {
    let context = at(&engine, JANUARY);
    assert_eq!(deliver(&context, &[active("e-1", "GOLD")], 1).await, [Outcome::Parked]);
    let parked = context.store.parked().await.unwrap().remove(0);
    assert_eq!(
        (parked.code.as_str(), parked.event_id.as_deref(), parked.user_id.as_deref()),
        ("malformed", Some("e-1"), Some(USER))
    );
    assert_eq!(parked.reason, "data.object.metadata.planTier: \"GOLD\" is not the name of a tier");
    assert_eq!(rows(&engine).await.len(), 0);
}

async fn one_id_with_two_contents_is_parked<E: Engine>(engine: E) {
    let context = at(&engine, JANUARY);
    assert_eq!(
        deliver(&context, &[active("e-1", "SAGE"), active("e-1", "INITIATE")], 2).await,
        [Outcome::Applied, Outcome::Parked]
    );
    assert_eq!(deliver(&context, &[active("e-1", "INITIATE")], 2).await, [Outcome::Parked]);
    assert_eq!(
        (tier(&context.store).await, context.store.parked().await.unwrap()[0].code.as_str()),
        (PlanTier::Sage, "different_content")
    );
}

async fn others_keep_their_own_in_the_profile<E: Engine>(engine: E) {
    let mut theirs = dues_events::Item::new();
    for (name, text) in [
        ("PK", "USER#u-1"),
        ("SK", "PROFILE#u-1"),
        ("tier", "free"),
        ("displayName", "A. Member"),
        ("createdAt", "2020-01-01T00:00:00Z"),
    ] {
        theirs.set_text(name, text);
    }
    engine.put(&dues_store::table::GG_CORE, theirs, dues_store::Condition::NoItem).await.unwrap();
    let context = at(&engine, JANUARY);
    deliver(&context, &[active("e-1", "SAGE")], 1).await;
    let profile = rows(&engine).await.remove("PROFILE#u-1").unwrap();
    assert_eq!(
        (&profile["tier"], &profile["displayName"], &profile["createdAt"]),
        (&"SAGE".into(), &"A. Member".into(), &"2020-01-01T00:00:00Z".into())
    );
    assert_eq!((&profile["provider"], &profile["updatedAt"]), (&"cognito".into(), &JANUARY.into()));
}
