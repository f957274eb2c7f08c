//! A crash after any call, before or after its effect: a second run ends in the same groups, and the user is
//! never without a group in between.

use super::*;
use dues_processors::entitlements::groups::{GroupPage, LocalDirectory};
use dues_store::SystemClock;
use dues_tests::engines::memory::Memory;
use std::sync::{Arc, Mutex};

/// A directory with a caller that dies at some call.
#[derive(Clone)]
struct Deadly<D> {
    inner: D,
    /// How many calls are left, and whether the last one still takes effect.
    left: Arc<Mutex<u32>>,
    done: bool,
}

const DEAD: &str = "the caller has died";

impl<D: Directory> Deadly<D> {
    fn new(inner: &D, calls: u32, done: bool) -> Self {
        Self { inner: inner.clone(), left: Arc::new(Mutex::new(calls)), done }
    }

    /// Performs the call, or drops it, or performs it and dies before the answer.
    async fn call<T>(
        &self,
        call: impl Future<Output = Result<T, DirectoryError>>,
    ) -> Result<T, DirectoryError> {
        let lives = {
            let mut left = self.left.lock().unwrap();
            *left = left.saturating_sub(1);
            *left > 0
        };
        if lives {
            return call.await;
        }
        if self.done {
            call.await?;
        }
        Err(DirectoryError::Refused(DEAD.into()))
    }
}

impl<D: Directory> Directory for Deadly<D> {
    async fn groups_of(&self, user: &UserId, start: Option<&str>) -> Result<GroupPage, DirectoryError> {
        self.call(self.inner.groups_of(user, start)).await
    }

    async fn add(&self, user: &UserId, group: &str) -> Result<(), DirectoryError> {
        self.call(self.inner.add(user, group)).await
    }

    async fn remove(&self, user: &UserId, group: &str) -> Result<(), DirectoryError> {
        self.call(self.inner.remove(user, group)).await
    }
}

/// Dies at that call, checks the groups, runs again. Returns whether it died.
async fn die_and_repeat<D: Directory>(
    directory: &D,
    user: &UserId,
    wanted: Option<&str>,
    call: u32,
    done: bool,
) -> bool {
    let (limiter, names) = (RateLimiter::unlimited(SystemClock::shared()), GroupNames::default());
    let before = sorted(directory, user).await;
    let cut_short = sync_groups(&Deadly::new(directory, call, done), &limiter, &names, user, wanted).await;
    let between = sorted(directory, user).await;
    let tier = |groups: &[String]| groups.iter().any(|group| names.contains(group));
    assert!(
        wanted.is_none() || !tier(&before) || tier(&between),
        "without a group: {before:?} → {wanted:?}, call {call}"
    );

    sync_groups(directory, &limiter, &names, user, wanted).await.unwrap();
    let mut expected: Vec<String> = before.into_iter().filter(|group| !names.contains(group)).collect();
    expected.extend(wanted.map(str::to_owned));
    expected.sort();
    assert_eq!(sorted(directory, user).await, expected, "call {call}, done {done}");
    assert_eq!(
        sync_groups(directory, &limiter, &names, user, wanted).await,
        Ok(changes(&[], &[], 1)),
        "and then there is nothing to do"
    );
    match cut_short {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error, DirectoryError::Refused(DEAD.into()));
            true
        }
    }
}

/// Every set of groups, every tier, every call.
#[tokio::test]
async fn after_any_prefix_of_its_calls_it_ends_the_same() {
    let mut deaths = 0;
    for set in 0..1_usize << TIERS.len() {
        for wanted in TIERS.map(Some).into_iter().chain([None]) {
            for (call, done) in (1..=7).flat_map(|call| [(call, false), (call, true)]) {
                let directory = LocalDirectory::new(Memory::default());
                directory.add(&ada(), "admins").await.unwrap();
                for (_, group) in TIERS.iter().enumerate().filter(|(n, _)| set & (1 << n) != 0) {
                    directory.add(&ada(), group).await.unwrap();
                }
                deaths += u32::from(die_and_repeat(&directory, &ada(), wanted, call, done).await);
            }
        }
    }
    // By hand: 80 pairs of set and tier; each is one list, and over all of them 32 adds and 128 removes; the
    // caller dies at each call in two ways.
    assert_eq!(deaths, 2 * (80 + 32 + 128));
}

#[tokio::test]
async fn in_cognito_too() {
    for (call, done) in (1..=4).flat_map(|call| [(call, false), (call, true)]) {
        let pool = pool(&["admins", INITIATE, GUILDMASTER], nothing).await;
        assert!(die_and_repeat(&pool.directory, &ada(), Some(SAGE), call, done).await);
        assert_eq!(pool.groups().await, ["admins", SAGE]);
    }
}
