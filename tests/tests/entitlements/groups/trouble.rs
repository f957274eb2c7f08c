//! Throttling, faults and lost answers: the groups end correct, after a bounded number of calls.

use super::*;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Mutex;

/// Applies the fault to the first few calls of each operation.
fn first(times: u32, mischief: &Mischief) -> impl Fn(&Asked) -> Mischief + Send + Sync + 'static {
    let (seen, mischief) = (Mutex::new(BTreeMap::<String, u32>::new()), mischief.clone());
    move |asked| {
        let mut seen = seen.lock().unwrap();
        let count = seen.entry(asked.operation.clone()).or_default();
        *count += 1;
        if *count <= times { mischief.clone() } else { Mischief::None }
    }
}

/// Pauses grow, and each is between half of its maximum and all of it.
fn check_pauses(pauses: &[u64]) {
    const LONGEST: [RangeInclusive<u64>; 5] = [100..=200, 200..=400, 400..=800, 800..=1600, 1600..=3200];
    for (pause, range) in pauses.iter().zip(LONGEST) {
        assert!(range.contains(pause), "{pauses:?}");
    }
}

#[tokio::test]
async fn what_may_pass_is_called_again_and_ends_right() {
    let passing = [
        Mischief::Refuse(400, "TooManyRequestsException"),
        Mischief::Refuse(400, "ThrottlingException"),
        Mischief::Refuse(429, "SomethingNew"),
        Mischief::Refuse(500, "InternalErrorException"),
        Mischief::Refuse(503, "ServiceUnavailable"),
        Mischief::LoseAnswer,
    ];
    for mischief in passing {
        let pool = pool(&["admins", JOURNEYMAN], first(2, &mischief)).await;
        assert_eq!(run(&pool, Some(SAGE)).await, Ok(changes(&[SAGE], &[JOURNEYMAN], 9)), "{mischief:?}");
        assert_eq!(pool.groups().await, ["admins", SAGE], "{mischief:?}");
        assert_eq!(pool.meddler.asked().len(), 9, "{mischief:?}: the client does not retry by itself");
        let pauses = pool.clock.sleeps_ms();
        assert_eq!(pauses.len(), 6, "{mischief:?}");
        pauses.chunks(2).for_each(check_pauses);
    }
}

#[tokio::test]
async fn what_does_not_pass_is_given_up_after_six_calls() {
    let throttled = pool(&[JOURNEYMAN], |_| Mischief::Refuse(400, "TooManyRequestsException")).await;
    assert_eq!(
        run(&throttled, Some(SAGE)).await,
        Err(DirectoryError::Throttled("TooManyRequestsException: no".into()))
    );
    assert_eq!(throttled.meddler.asked().len(), 6);
    assert_eq!(throttled.clock.sleeps_ms().len(), 5);
    check_pauses(&throttled.clock.sleeps_ms());

    let silent = pool(&[JOURNEYMAN], first(u32::MAX, &Mischief::LoseAnswer)).await;
    let error = run(&silent, Some(SAGE)).await.unwrap_err();
    assert!(
        matches!(&error, DirectoryError::Unavailable(why) if why.contains("the answer was lost")),
        "{error}"
    );
    assert_eq!(silent.meddler.asked().len(), 6);

    let broken = pool(&[JOURNEYMAN], |asked| match asked.operation.as_str() {
        ADD => Mischief::Refuse(500, "InternalErrorException"),
        _ => Mischief::None,
    })
    .await;
    assert_eq!(
        run(&broken, Some(SAGE)).await,
        Err(DirectoryError::Unavailable("InternalErrorException: no".into()))
    );
    assert_eq!((broken.meddler.asked().len(), broken.groups().await), (7, vec![JOURNEYMAN.to_owned()]));
}

#[tokio::test]
async fn pauses_differ() {
    let pool = pool(&[], |_| Mischief::Refuse(400, "TooManyRequestsException")).await;
    for _ in 0..5 {
        run(&pool, None).await.unwrap_err();
    }
    let last: std::collections::BTreeSet<u64> =
        pool.clock.sleeps_ms().into_iter().skip(4).step_by(5).collect();
    assert!(last.len() > 1, "five pauses of up to 3.2 s are not all the same: {last:?}");
}

#[tokio::test]
async fn what_is_refused_stays_refused() {
    for code in ["NotAuthorizedException", "InvalidParameterException", "AccessDeniedException"] {
        let pool = pool(&[JOURNEYMAN], move |_| Mischief::Refuse(400, code)).await;
        assert_eq!(run(&pool, Some(SAGE)).await, Err(DirectoryError::Refused(format!("{code}: no"))));
        assert_eq!((pool.meddler.asked().len(), pool.clock.sleeps_ms()), (1, vec![]));
    }
}

#[test]
fn only_throttling_and_silence_pass() {
    let text = String::new;
    assert!(
        DirectoryError::Throttled(text()).is_transient()
            && DirectoryError::Unavailable(text()).is_transient()
    );
    for lasting in
        [DirectoryError::NoSuchUser, DirectoryError::NoSuchGroup(text()), DirectoryError::Refused(text())]
    {
        assert!(!lasting.is_transient(), "{lasting}");
    }
}
