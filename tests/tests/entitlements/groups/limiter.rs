//! The limiter: never faster than the rate, first come first served, and cancelled callers are not waited
//! for.

use super::*;
use dues_processors::entitlements::groups::{DEFAULT_CALLS_PER_SECOND, MAX_CALLS_PER_SECOND};
use dues_store::Clock as _;
use dues_tests::clock::TestClock;
use dues_tests::fixtures::company::t;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn manual() -> TestClock {
    TestClock::manual(t("2026-03-02T12:00:00Z"))
}

/// Which caller has had a turn, and when.
type Turns = Arc<Mutex<Vec<(usize, Duration)>>>;

/// Requests a turn.
fn ask(limiter: &RateLimiter, clock: &TestClock, turns: &Turns, who: usize) -> tokio::task::JoinHandle<()> {
    let (limiter, clock, turns) = (limiter.clone(), clock.clone(), turns.clone());
    tokio::spawn(async move {
        limiter.acquire().await;
        turns.lock().unwrap().push((who, clock.uptime()));
    })
}

/// Lets every task that can proceed do so.
async fn settle() {
    // Waking up, handing the turn on and sleeping again are three steps.
    for _ in 0..5 {
        tokio::task::yield_now().await;
    }
}

/// The most turns in any second, wherever it starts.
fn most_in_a_second(times: &[Duration]) -> usize {
    times
        .iter()
        .map(|start| times.iter().filter(|time| (*start..*start + SECOND).contains(*time)).count())
        .max()
        .unwrap_or(0)
}

#[tokio::test]
async fn a_hundred_calls_never_exceed_the_rate_and_take_their_turns_in_order() {
    for (asked_for, rate) in [(DEFAULT_CALLS_PER_SECOND, 20), (7, 7), (MAX_CALLS_PER_SECOND + 1, 24)] {
        let (clock, turns) = (manual(), Turns::default());
        let limiter = RateLimiter::new(clock.shared(), asked_for);
        for who in 0..100 {
            drop(ask(&limiter, &clock, &turns, who));
        }
        settle().await;
        assert_eq!(turns.lock().unwrap().len(), 1, "the first goes at once, alone");
        let start = clock.uptime();
        while turns.lock().unwrap().len() < 100 {
            clock.advance(MILLI);
            settle().await;
            assert!(clock.uptime() - start < SECOND * 20, "they have to come to an end");
        }
        let (order, times): (Vec<usize>, Vec<Duration>) = turns.lock().unwrap().iter().copied().unzip();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
        assert!(most_in_a_second(&times) <= rate, "{} at {rate}", most_in_a_second(&times));
        // Each waits no longer than its interval, plus the clock's granularity.
        assert!(*times.last().unwrap() - start <= (SECOND / u32::try_from(rate).unwrap() + MILLI) * 99);
    }
}

#[tokio::test]
async fn a_quiet_hour_saves_up_nothing() {
    let (clock, turns) = (manual(), Turns::default());
    let limiter = RateLimiter::with_default_rate(clock.shared());
    ask(&limiter, &clock, &turns, 0).await.unwrap();
    clock.advance(SECOND * 3600);
    for who in 1..10 {
        drop(ask(&limiter, &clock, &turns, who));
    }
    settle().await;
    assert_eq!(turns.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_caller_that_stops_waiting_takes_no_turn() {
    let (clock, turns) = (manual(), Turns::default());
    let limiter = RateLimiter::new(clock.shared(), 1);
    let waiting: Vec<_> = (0..5).map(|who| ask(&limiter, &clock, &turns, who)).collect();
    settle().await;
    // The next in line, and two behind it.
    waiting[1..4].iter().for_each(tokio::task::JoinHandle::abort);
    settle().await;
    clock.advance(SECOND);
    settle().await;
    let order: Vec<usize> = turns.lock().unwrap().iter().map(|(who, _)| *who).collect();
    assert_eq!(order, [0, 4]);
}

#[tokio::test]
async fn no_caller_waits_when_there_is_no_limit() {
    let (clock, turns) = (manual(), Turns::default());
    let limiter = RateLimiter::unlimited(clock.shared());
    for who in 0..100 {
        drop(ask(&limiter, &clock, &turns, who));
    }
    settle().await;
    assert_eq!(turns.lock().unwrap().len(), 100);
}

/// Pages and retries count too, and two tasks share one bucket.
#[tokio::test]
async fn every_call_that_reaches_cognito_waited_for_its_turn() {
    let (clock, times) = (TestClock::skipping(), Arc::<Mutex<Vec<Duration>>>::default());
    let (seen, noted) = (clock.clone(), times.clone());
    let pool = pool(&["admins", JOURNEYMAN], move |asked| {
        noted.lock().unwrap().push(seen.uptime());
        match (asked.number % 5, asked.operation.as_str()) {
            (4, _) => Mischief::Refuse(400, "TooManyRequestsException"),
            (_, LIST) => Mischief::Pages(1),
            (_, _) => Mischief::None,
        }
    })
    .await;
    let limiter = RateLimiter::with_default_rate(clock.shared());
    let mut calls = 0;
    for round in 0..20 {
        let wanted = [SAGE, JOURNEYMAN][round % 2];
        let names = GroupNames::default();
        calls += sync_groups(&pool.directory, &limiter, &names, &ada(), Some(wanted)).await.unwrap().calls;
    }
    let times = times.lock().unwrap().clone();
    assert_eq!(times.len(), calls as usize);
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= MILLI * 50), "{times:?}");
    assert!(most_in_a_second(&times) <= 20);
}
