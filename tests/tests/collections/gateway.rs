//! The HTTP gateway against a payments service that fails in every way: on its own, and below the collector.

use dues_events::billing::event::{Answer, Paid};
use dues_events::billing::record::{Failure, Receipt, Status};
use dues_events::collections::eligibility::{CollectionRequest, Trigger};
use dues_events::{AttemptKey, Money, Record, UserId};
use dues_processors::collections::gateway::http::{HttpGateway, RetryPolicy};
use dues_processors::collections::gateway::{Debit, Gateway, OutcomeUnknown};
use dues_processors::collections::{Collector, Outcome, RecordOutcome, UserCollection};
use dues_store::embedded::Embedded;
use dues_store::table::PARKED;
use dues_store::{SharedClock, Store, SystemClock};
use dues_tests::clock::TestClock;
use dues_tests::engines;
use dues_tests::fixtures::company::{all, context, deliver, membership, monthly, records, t};
use dues_tests::gateways::http_service::{Fault, Payments, Policy};
use futures::{StreamExt as _, stream};
use std::time::Duration;

/// Long enough for a busy machine to answer, short enough to wait for.
const TIMEOUT: Duration = Duration::from_millis(400);

fn retry_policy(timeout: Duration) -> RetryPolicy {
    RetryPolicy {
        timeout,
        connect_timeout: timeout,
        max_submits: 3,
        max_lookups: 2,
        backoff: Duration::from_millis(1),
    }
}

fn gateway(service: &Payments) -> HttpGateway {
    HttpGateway::new(&service.base(), Some("t0ken"), retry_policy(TIMEOUT), SystemClock::shared()).unwrap()
}

fn debit() -> Debit {
    Debit {
        user_id: "u-1".into(),
        subscription_id: "s-1".into(),
        amount: Money::from_cents(1499),
        period: "02/2026".into(),
    }
}

fn key() -> AttemptKey {
    AttemptKey::of(&"s-1".into(), 1)
}

fn accepted() -> Result<Answer, OutcomeUnknown> {
    Ok(Answer::Accepted { transaction_id: "c-1".into() })
}

fn refused() -> Answer {
    Answer::Refused {
        transaction_id: None,
        failure: Failure::new(
            dues_events::collections::ach::ReturnCode::read("R01"),
            Some("Insufficient funds"),
        ),
    }
}

fn collected() -> Answer {
    let receipt = Receipt { account_mask: "6789".into(), payment_type: "ACH".into() };
    Answer::Collected(Paid { transaction_id: Some("c-1".into()), receipt })
}

#[tokio::test]
async fn a_debit_is_sent_as_agreed_and_every_answer_is_understood() {
    for (policy, expected) in
        [(Policy::Accept, accepted().unwrap()), (Policy::Collect, collected()), (Policy::Refuse, refused())]
    {
        let service = Payments::start().await;
        service.set_policy(policy);
        let gateway = gateway(&service);
        assert_eq!(gateway.lookup(&key()).await, Ok(None), "never seen");
        assert_eq!(gateway.submit(&debit(), &key()).await.as_ref(), Ok(&expected));
        assert_eq!(
            gateway.submit(&debit(), &key()).await.as_ref(),
            Ok(&expected),
            "again, and it is the same"
        );
        assert_eq!(gateway.lookup(&key()).await, Ok(Some(expected)));
        assert_eq!((service.counts(), service.ledger().len()), ((2, 2), 1));
        let seen = service.seen();
        let post = seen.iter().find(|request| request.method == "POST").unwrap();
        assert_eq!((post.path.as_str(), seen[0].path.as_str()), ("/v1/payments", "/v1/payments/s-1-1"));
        assert_eq!(post.headers["idempotency-key"], "s-1-1");
        assert!(seen.iter().all(|request| request.headers["authorization"] == "Bearer t0ken"));
        assert!(
            seen.iter().all(|request| request.headers["connection"] == "close"),
            "no answer can be taken for the next one's"
        );
        assert_eq!(
            service.ledger()["s-1-1"].request,
            serde_json::json!({"payment_id": "s-1-1", "subscription_id": "s-1", "user_id": "u-1",
                "amount": "14.99",
                "currency": "USD",
                "payment_type": "ACH", "period": "02/2026"})
        );
    }
}

#[tokio::test]
async fn one_fault_on_the_first_post_never_makes_a_second_debit() {
    // How often the debit was posted, and how often looked up.
    let expected = |fault| match fault {
        Fault::None | Fault::Twice => (1, 0),
        Fault::Slow(by) if by < TIMEOUT => (1, 0),
        Fault::Slow(_)
        | Fault::HangAfter
        | Fault::StatusAfter(_)
        | Fault::DropAfter
        | Fault::Garbage
        | Fault::Noise
        | Fault::Half
        | Fault::Endless
        | Fault::NoConfirmation => (1, 1),
        Fault::Status(400 | 401 | 403 | 422) => (1, 1),
        Fault::Hang | Fault::Late(_) | Fault::Status(_) | Fault::DropBefore | Fault::Redirect => (2, 1),
    };
    stream::iter(Fault::all(TIMEOUT))
        .for_each_concurrent(4, |fault| async move {
            let service = Payments::start().await;
            service.script(&[fault], &[]);
            let answer = gateway(&service).submit(&debit(), &key()).await;
            if let Fault::Status(status @ (400 | 401 | 403 | 422)) = fault {
                assert_eq!(
                    answer,
                    Err(OutcomeUnknown(format!("payments service: HTTP {status}; lookup: never seen")))
                );
                assert_eq!(service.debits().len(), 0);
            } else {
                assert_eq!(answer, accepted(), "{fault:?}");
                assert_eq!(service.debits().len(), 1, "{fault:?}");
            }
            assert_eq!(service.counts(), expected(fault), "{fault:?}");
        })
        .await;
}

#[tokio::test]
async fn what_stays_unknown_is_named_and_nothing_else_is() {
    let wait = format!("timeout after {TIMEOUT:?}");
    let closed = "connection closed before message completed";
    let cases: Vec<(Vec<Fault>, Vec<Fault>, String)> = vec![
        (vec![Fault::HangAfter], vec![Fault::Status(500); 9], format!("{wait}; lookup: HTTP 500")),
        (vec![Fault::Hang], vec![Fault::Hang; 9], format!("{wait}; lookup: {wait}")),
        (vec![Fault::Status(503); 9], vec![], "HTTP 503; lookup: never seen".into()),
        (
            vec![Fault::Status(429), Fault::DropBefore, Fault::Redirect],
            vec![],
            format!("HTTP 429, then {closed}, then HTTP 307; lookup: never seen"),
        ),
        (vec![Fault::StatusAfter(401)], vec![Fault::Status(401)], "HTTP 401; lookup: HTTP 401".into()),
        (
            vec![Fault::Garbage],
            vec![Fault::Garbage; 9],
            "HTTP 200 with an unreadable body; lookup: HTTP 200 with an unreadable body".into(),
        ),
        (
            vec![Fault::NoConfirmation],
            vec![Fault::NoConfirmation; 9],
            "HTTP 201 with an acceptance without a confirmation; lookup: HTTP 200 with an acceptance without \
             a confirmation"
                .into(),
        ),
        (
            vec![Fault::Endless],
            vec![Fault::DropAfter; 9],
            format!("HTTP 200 with an unusable body: length limit exceeded; lookup: {closed}"),
        ),
    ];
    stream::iter(cases)
        .for_each_concurrent(4, |(posts, lookups, reason)| async move {
            let service = Payments::start().await;
            service.script(&posts, &lookups);
            let Err(OutcomeUnknown(given)) = gateway(&service).submit(&debit(), &key()).await else {
                panic!("{posts:?} has an answer")
            };
            assert_eq!(given, format!("payments service: {reason}"));
            assert!(service.debits().len() <= 1);
        })
        .await;
}

#[tokio::test]
async fn bodies_and_tokens_are_in_no_reason() {
    stream::iter(Fault::all(TIMEOUT))
        .for_each_concurrent(4, |fault| async move {
            let service = Payments::start().await;
            service.script(&[fault; 9], &[fault; 9]);
            match gateway(&service).submit(&debit(), &key()).await {
                Ok(answer) => assert_eq!(Ok(answer), accepted(), "{fault:?}"),
                Err(OutcomeUnknown(reason)) => {
                    assert!(reason.starts_with("payments service: "), "{fault:?}: {reason}");
                    assert!(
                        !["SECRET", "1234", "t0ken", "{"].iter().any(|word| reason.contains(word)),
                        "{fault:?}: {reason}"
                    );
                }
            }
            assert!(service.debits().len() <= 1, "{fault:?}");
        })
        .await;
}

#[tokio::test]
async fn a_connection_that_was_refused_is_tried_again_without_a_lookup() {
    let service = Payments::start().await;
    let base = service.base();
    drop(service);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let gateway = HttpGateway::new(&base, None, retry_policy(TIMEOUT), SystemClock::shared()).unwrap();
    let Err(OutcomeUnknown(reason)) = gateway.submit(&debit(), &key()).await else {
        panic!("nothing listens there")
    };
    assert!(
        reason.starts_with("payments service: not connected: Connection refused")
            && !reason.contains("lookup"),
        "{reason}"
    );
    let Err(OutcomeUnknown(reason)) = gateway.lookup(&key()).await else { panic!("nothing listens there") };
    assert!(reason.starts_with("payments service: lookup: not connected: "), "{reason}");
}

#[tokio::test]
async fn https_is_spoken_and_a_service_that_does_not_is_never_sent_a_debit() {
    let service = Payments::start().await;
    let base = service.base().replace("http:", "https:");
    let gateway = match HttpGateway::new(&base, None, retry_policy(TIMEOUT), SystemClock::shared()) {
        Ok(gateway) => gateway,
        Err(unusable) => {
            // Without root certificates the request cannot get further than this.
            assert!(unusable.to_string().contains("certificate"), "{unusable}");
            return;
        }
    };
    let Err(OutcomeUnknown(reason)) = gateway.submit(&debit(), &key()).await else {
        panic!("that was no TLS")
    };
    assert!(reason.starts_with("payments service: "), "{reason}");
    assert_eq!((service.counts(), service.debits().len()), ((0, 0), 0), "{reason}");
}

#[tokio::test]
async fn lookups_are_repeated_until_one_is_clear() {
    let service = Payments::start().await;
    service.script(&[Fault::DropAfter], &[Fault::Status(500)]);
    assert_eq!(gateway(&service).submit(&debit(), &key()).await, accepted());
    assert_eq!(service.counts(), (1, 2));
    service.script(&[], &[Fault::Half]);
    assert_eq!(gateway(&service).lookup(&key()).await, accepted().map(Some));
    service.script(&[], &[Fault::Status(403)]);
    assert_eq!(
        gateway(&service).lookup(&key()).await,
        Err(OutcomeUnknown("payments service: lookup: HTTP 403".into()))
    );
    assert_eq!(service.counts(), (1, 5), "a lookup that is forbidden stays so");
}

/// A member with a first period due on the clock's day, and the collector for it.
struct Member {
    user: UserId,
    engine: Embedded,
    clock: SharedClock,
    service: Payments,
    gateway: HttpGateway,
}

impl Member {
    async fn new(engine: &Embedded, user: &str, timeout: Duration) -> Self {
        let joined =
            membership(&format!("m-{user}"), "ACTIVATE", user, "2026-02-25T00:00:00Z", monthly("2026-03-01"));
        deliver(&context(engine.clone()), &[joined], 1).await;
        let service = Payments::start().await;
        // A Monday.
        let clock = TestClock::real_time(t("2026-03-02T15:00:00Z")).shared();
        let gateway = HttpGateway::new(&service.base(), None, retry_policy(timeout), clock.clone()).unwrap();
        Self { user: user.into(), engine: engine.clone(), clock, service, gateway }
    }

    async fn collect(&self) -> Vec<RecordOutcome> {
        let collector =
            Collector::new(Store::new(self.engine.clone(), self.clock.clone()), self.gateway.clone());
        match collector
            .collect_user(&self.user, &CollectionRequest::triggered_by(Trigger::Initial))
            .await
            .unwrap()
        {
            UserCollection::Done(looked) => looked,
            UserCollection::Locked => panic!("no other worker runs"),
        }
    }

    async fn record(&self) -> Record {
        records(&self.engine, self.user.as_str()).await.remove(0)
    }

    /// The reasons in history for attempts in doubt.
    async fn doubts(&self) -> Vec<String> {
        let history =
            Store::new(self.engine.clone(), self.clock.clone()).history_of_user(&self.user).await.unwrap();
        let doubts = history.iter().filter(|row| row.outcome == "ignored: the gateway's answer is not known");
        doubts
            .map(|row| row.record.data.text("data_reason").expect("a doubt has its reason").to_owned())
            .collect()
    }

    /// Collects from a healthy service until nothing is in doubt. Returns the reasons for doubt on the way.
    async fn settle(&self) -> Vec<String> {
        self.service.script(&[], &[]);
        let mut reasons = Vec::new();
        for _ in 0..20 {
            if self.record().await.in_doubt().is_none() {
                return reasons;
            }
            reasons.extend(doubted(&self.collect().await));
        }
        panic!("{}: still in doubt: {reasons:?}", self.user);
    }

    /// One debit at most, recorded as the service's ledger has it.
    async fn check(&self, policy: Policy, about: &str) {
        let (record, ledger) = (self.record().await, self.service.ledger());
        assert_eq!(ledger.len(), 1, "{about}: {ledger:?}");
        let (key, entry) = ledger.iter().next().unwrap();
        assert_eq!(*key, AttemptKey::of(&record.subscription_id, 1).as_str(), "{about}");
        assert_eq!(entry.request["subscription_id"], record.subscription_id.as_str(), "{about}");
        assert_eq!(entry.is_debit, policy != Policy::Refuse, "{about}");
        let status = match policy {
            Policy::Accept => Status::AchSent,
            Policy::Collect => Status::Completed,
            Policy::Refuse => Status::Error,
        };
        let confirmation = record.state.transaction_id().map(|id| id.as_str());
        assert_eq!(
            (record.status(), confirmation),
            (status, entry.answer["confirmation_id"].as_str()),
            "{about}"
        );
        assert_eq!(record.attempts.count(), 1, "{about}");
        if policy == Policy::Refuse {
            assert_eq!(
                record.state.last_failure().unwrap().failure.text(),
                "R01 Insufficient funds",
                "{about}"
            );
        }
        assert_eq!(
            records(&self.engine, self.user.as_str()).await.len(),
            2,
            "{about}: the next period is there once"
        );
    }
}

fn doubted(looked: &[RecordOutcome]) -> Vec<String> {
    let reason = |looked: &RecordOutcome| match &looked.outcome {
        Outcome::InDoubt(reason) => Some(reason.clone()),
        Outcome::Sent
        | Outcome::Collected
        | Outcome::Refused(_)
        | Outcome::Free
        | Outcome::Cancelled
        | Outcome::Stale => None,
        Outcome::PauseExpired | Outcome::PauseEnding | Outcome::Withdrawn(_) | Outcome::Skipped(_) => None,
    };
    looked.iter().filter_map(reason).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_on_the_first_post_ends_in_one_debit() {
    let (engine, _folder) = engines::embedded();
    let engine = &engine;
    let policies = [Policy::Accept, Policy::Collect, Policy::Refuse];
    let cases =
        Fault::all(TIMEOUT).into_iter().flat_map(|fault| policies.map(|policy| (fault, policy))).enumerate();
    stream::iter(cases)
        .for_each_concurrent(8, |(n, (fault, policy))| async move {
            let about = format!("{fault:?} {policy:?}");
            let member = Member::new(engine, &format!("u-{n}"), TIMEOUT).await;
            member.service.set_policy(policy);
            // With failing lookups the doubt reaches the collector.
            member.service.script(&[fault], &[Fault::Status(500); 2]);
            let doubts = doubted(&member.collect().await);
            assert_eq!(member.doubts().await, doubts, "{about}: history has each doubt");
            assert_eq!(member.record().await.in_doubt().is_some(), !doubts.is_empty(), "{about}");
            member.settle().await;
            // A late arrival has no effect.
            if let Fault::Late(by) = fault {
                tokio::time::sleep(by).await;
            }
            member.check(policy, &about).await;
            member.collect().await;
            member.check(policy, &about).await;
        })
        .await;
    assert_eq!(all(engine, &PARKED).await.len(), 0, "nothing is parked");
}

#[tokio::test(flavor = "multi_thread")]
async fn any_mix_of_faults_ends_in_one_debit() {
    let (engine, _folder) = engines::embedded();
    let engine = &engine;
    let timeout = Duration::from_millis(60);
    let seed = std::env::var("DUES_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7_u64);
    stream::iter(0..200_u64)
        .for_each_concurrent(16, |round| async move {
            let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(1000) + round);
            let faults = Fault::all(timeout);
            let mut mix = |most: usize| {
                (0..random.usize(1..=most)).map(|_| faults[random.usize(..faults.len())]).collect::<Vec<_>>()
            };
            let (posts, lookups) = (mix(6), mix(6));
            let policy = [Policy::Accept, Policy::Collect, Policy::Refuse][random.usize(..3)];
            let about =
                format!("seed {seed}, round {round}: {policy:?}, posts {posts:?}, lookups {lookups:?}");
            let member = Member::new(engine, &format!("u-{round}"), timeout).await;
            member.service.set_policy(policy);
            member.service.script(&posts, &lookups);
            let mut reasons = Vec::new();
            for _ in 0..random.usize(1..=3) {
                reasons.extend(doubted(&member.collect().await));
            }
            let doubts = member.doubts().await;
            reasons.extend(member.settle().await);
            assert!(
                reasons.iter().all(|reason| reason.starts_with("payments service: ")),
                "{about}: {reasons:?}"
            );
            assert!(
                doubts.len() <= 1 && doubts.iter().all(|doubt| reasons.contains(doubt)),
                "{about}: {doubts:?} of {reasons:?}"
            );
            assert_eq!(doubts.is_empty() && reasons.is_empty(), member.doubts().await.is_empty(), "{about}");
            if posts.iter().any(|fault| matches!(fault, Fault::Late(_))) {
                tokio::time::sleep(timeout * 2).await;
            }
            member.check(policy, &about).await;
            member.collect().await;
            member.check(policy, &about).await;
        })
        .await;
    assert_eq!(all(engine, &PARKED).await.len(), 0, "nothing is parked");
}
