//! Refunds at the HTTP gateway, against a payments service that fails in every way: at most one refund per
//! key, and no refund is lost.

use dues_events::{Money, RefundKey};
use dues_processors::collections::gateway::http::{HttpGateway, RetryPolicy};
use dues_processors::collections::gateway::{Gateway, OutcomeUnknown, Refund, RefundAnswer};
use dues_store::SystemClock;
use dues_tests::gateways::http_service::{Fault, Payments, Policy};
use futures::{StreamExt as _, stream};
use std::time::Duration;

/// Long enough for a busy machine to answer, short enough to wait for.
const TIMEOUT: Duration = Duration::from_millis(400);

fn gateway(service: &Payments, timeout: Duration) -> HttpGateway {
    let retry = RetryPolicy {
        timeout,
        connect_timeout: timeout,
        max_submits: 3,
        max_lookups: 2,
        backoff: Duration::from_millis(1),
    };
    HttpGateway::new(&service.base(), Some("t0ken"), retry, SystemClock::shared()).unwrap()
}

fn refund() -> Refund {
    Refund { transaction_id: "c-991".into(), amount: Money::from_cents(500), user_id: "u-1".into() }
}

fn key() -> RefundKey {
    RefundKey::of(&"c-991".into(), 1)
}

fn refunded() -> RefundAnswer {
    RefundAnswer::Refunded { refund_id: "r-1".into() }
}

fn refused(reason: &str) -> RefundAnswer {
    RefundAnswer::Refused { reason: reason.into() }
}

fn expected(policy: Policy) -> RefundAnswer {
    match policy {
        Policy::Accept | Policy::Collect => refunded(),
        Policy::Refuse => refused("Refunded before"),
    }
}

#[tokio::test]
async fn a_refund_is_sent_as_agreed_and_every_answer_is_understood() {
    for policy in [Policy::Accept, Policy::Refuse] {
        let service = Payments::start().await;
        service.set_policy(policy);
        let gateway = gateway(&service, TIMEOUT);
        assert_eq!(gateway.lookup_refund(&key()).await, Ok(None), "never seen");
        assert_eq!(gateway.refund(&refund(), &key()).await, Ok(expected(policy)));
        assert_eq!(
            gateway.refund(&refund(), &key()).await,
            Ok(expected(policy)),
            "again, and it is the same"
        );
        assert_eq!(gateway.lookup_refund(&key()).await, Ok(Some(expected(policy))));
        assert_eq!((service.counts(), service.ledger().len()), ((2, 2), 1));
        let seen = service.seen();
        let post = seen.iter().find(|request| request.method == "POST").unwrap();
        assert_eq!(post.path, "/v1/refunds");
        assert_eq!(seen[0].path, format!("/v1/refunds/{}", key()));
        assert_eq!(post.headers["idempotency-key"], key().as_str());
        assert!(seen.iter().all(|request| request.headers["authorization"] == "Bearer t0ken"));
        assert_eq!(
            service.ledger()[key().as_str()].request,
            serde_json::json!({"refund_key": key().as_str(), "confirmation_id": "c-991", "user_id": "u-1",
                "amount": "5.00", "currency": "USD"})
        );
    }
}

#[tokio::test]
async fn one_fault_on_the_first_post_never_makes_a_second_refund() {
    // How often the refund was posted, and how often looked up.
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
        | Fault::NoConfirmation
        | Fault::Status(400 | 401 | 403 | 422) => (1, 1),
        Fault::Hang | Fault::Late(_) | Fault::Status(_) | Fault::DropBefore | Fault::Redirect => (2, 1),
    };
    stream::iter(Fault::all(TIMEOUT))
        .for_each_concurrent(4, |fault| async move {
            let service = Payments::start().await;
            service.script(&[fault], &[]);
            let answer = gateway(&service, TIMEOUT).refund(&refund(), &key()).await;
            if let Fault::Status(status @ (400 | 401 | 403 | 422)) = fault {
                assert_eq!(answer, Ok(refused(&format!("HTTP {status}"))));
                assert_eq!(service.refunds().len(), 0);
            } else {
                assert_eq!(answer, Ok(refunded()), "{fault:?}");
                assert_eq!(service.refunds().len(), 1, "{fault:?}");
            }
            assert_eq!(service.counts(), expected(fault), "{fault:?}");
            assert_eq!(service.debits().len(), 0, "{fault:?}");
        })
        .await;
}

#[tokio::test]
async fn a_rejection_is_not_believed_while_an_earlier_request_may_be_queued() {
    let service = Payments::start().await;
    service.script(&[Fault::Late(TIMEOUT * 2), Fault::Status(422)], &[]);
    let answer = gateway(&service, TIMEOUT).refund(&refund(), &key()).await;
    let reason = format!("payments service: timeout after {TIMEOUT:?}, then HTTP 422; lookup: never seen");
    assert_eq!(answer, Err(OutcomeUnknown(reason)));
    tokio::time::sleep(TIMEOUT * 2).await;
    assert_eq!(service.refunds().len(), 1, "it was queued");
    assert_eq!(gateway(&service, TIMEOUT).lookup_refund(&key()).await, Ok(Some(refunded())));
}

#[tokio::test]
async fn a_lookup_that_fails_leaves_the_refund_unknown() {
    for (posts, lookups, reason) in [
        (Fault::StatusAfter(422), Fault::Status(500), "HTTP 422; lookup: HTTP 500"),
        (Fault::StatusAfter(401), Fault::Status(401), "HTTP 401; lookup: HTTP 401"),
        (
            Fault::NoConfirmation,
            Fault::NoConfirmation,
            "HTTP 201 with a refund without an id; lookup: HTTP 200 with a refund without an id",
        ),
    ] {
        let service = Payments::start().await;
        service.script(&[posts], &[lookups; 9]);
        let answer = gateway(&service, TIMEOUT).refund(&refund(), &key()).await;
        assert_eq!(answer, Err(OutcomeUnknown(format!("payments service: {reason}"))));
        assert_eq!(service.refunds().len(), 1);
    }
}

#[tokio::test]
async fn bodies_and_tokens_are_in_no_reason() {
    stream::iter(Fault::all(TIMEOUT))
        .for_each_concurrent(4, |fault| async move {
            let service = Payments::start().await;
            service.script(&[fault; 9], &[fault; 9]);
            let reason = match gateway(&service, TIMEOUT).refund(&refund(), &key()).await {
                Ok(RefundAnswer::Refunded { .. }) => return,
                Ok(RefundAnswer::Refused { reason }) | Err(OutcomeUnknown(reason)) => reason,
            };
            assert!(
                !["SECRET", "1234", "t0ken", "{"].iter().any(|word| reason.contains(word)),
                "{fault:?}: {reason}"
            );
        })
        .await;
}

/// Asks as every caller must: in doubt it waits until nothing can be queued, looks up, and repeats under the
/// same key only what was never seen. Returns the answer, and how often it was in doubt.
async fn settle(service: &Payments, timeout: Duration) -> (RefundAnswer, usize) {
    let gateway = gateway(service, timeout);
    let mut answer = gateway.refund(&refund(), &key()).await;
    for doubts in 0..40 {
        match answer {
            Ok(answer) => return (answer, doubts),
            Err(OutcomeUnknown(reason)) => {
                assert!(reason.starts_with("payments service: "), "{reason}");
            }
        }
        tokio::time::sleep(timeout * 3).await;
        answer = match gateway.lookup_refund(&key()).await {
            Ok(Some(found)) => Ok(found),
            Ok(None) => gateway.refund(&refund(), &key()).await,
            Err(unknown) => Err(unknown),
        };
    }
    panic!("still in doubt: {answer:?}");
}

/// The answer and the service's ledger agree; late arrivals included.
async fn check(service: &Payments, policy: Policy, answer: &RefundAnswer, timeout: Duration, about: &str) {
    tokio::time::sleep(timeout * 3).await;
    let made = service.refunds();
    match answer {
        RefundAnswer::Refunded { refund_id } => {
            assert_eq!(made.len(), 1, "{about}: {made:?}");
            assert_eq!(made[key().as_str()].answer["refund_id"], refund_id.as_str(), "{about}");
        }
        RefundAnswer::Refused { reason } => {
            assert_eq!(made.len(), 0, "{about}: {made:?}");
            assert!(policy == Policy::Refuse || reason.starts_with("HTTP 4"), "{about}: {reason}");
        }
    }
    assert!(service.ledger().len() <= 1, "{about}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_on_the_first_post_ends_in_one_refund() {
    let cases = Fault::all(TIMEOUT)
        .into_iter()
        .flat_map(|fault| [Policy::Accept, Policy::Refuse].map(|it| (fault, it)));
    stream::iter(cases)
        .for_each_concurrent(16, |(fault, policy)| async move {
            let about = format!("{fault:?} {policy:?}");
            let service = Payments::start().await;
            service.set_policy(policy);
            // With failing lookups the doubt reaches the caller.
            service.script(&[fault], &[Fault::Status(500); 2]);
            let (answer, _) = settle(&service, TIMEOUT).await;
            assert_eq!(answer, expected(policy), "{about}");
            check(&service, policy, &answer, TIMEOUT, &about).await;
            assert_eq!(settle(&service, TIMEOUT).await, (answer.clone(), 0), "{about}: again");
            check(&service, policy, &answer, Duration::ZERO, &about).await;
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_mix_of_faults_ends_in_one_refund() {
    let timeout = Duration::from_millis(60);
    let seed = std::env::var("DUES_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7_u64);
    let doubts = stream::iter(0..200_u64)
        .map(|round| async move {
            let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(1000) + round);
            let faults = Fault::all(timeout);
            let mut mix = |most: usize| {
                (0..random.usize(1..=most)).map(|_| faults[random.usize(..faults.len())]).collect::<Vec<_>>()
            };
            let (posts, lookups) = (mix(6), mix(6));
            let policy = [Policy::Accept, Policy::Refuse][random.usize(..2)];
            let about =
                format!("seed {seed}, round {round}: {policy:?}, posts {posts:?}, lookups {lookups:?}");
            let service = Payments::start().await;
            service.set_policy(policy);
            service.script(&posts, &lookups);
            let (answer, doubts) = settle(&service, timeout).await;
            check(&service, policy, &answer, timeout, &about).await;
            doubts
        })
        .buffer_unordered(16)
        .fold(0, |sum, doubts| async move { sum + doubts })
        .await;
    assert!(doubts >= 50, "seed {seed}: only {doubts} doubts");
}
