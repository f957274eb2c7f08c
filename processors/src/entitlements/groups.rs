//! Groups follow the tier: a user is in the group of the effective tier and in no other tier's group.
//! Cognito on AWS, a table in the local program.
//!
//! Cognito allows about 25 requests a second, not adjustable, so the groups are read first and only
//! differences are written. Groups are for display in tokens; authorisation always reads the tables.

mod local;
mod rate_limit;
pub(crate) mod tier_changes;

pub use local::LocalDirectory;
pub use rate_limit::{DEFAULT_CALLS_PER_SECOND, MAX_CALLS_PER_SECOND, RateLimiter};

use dues_events::UserId;
use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

/// Attempts per call.
const MAX_ATTEMPTS: u32 = 6;
/// Longest first pause; it doubles with each retry.
const INITIAL_BACKOFF: Duration = Duration::from_millis(200);

/// A directory of users and their groups. Each call is one request; [`sync_groups`] retries and throttles.
pub trait Directory: Clone + Send + Sync + 'static {
    /// A page of a user's groups, from the start or from a cursor.
    fn groups_of(
        &self,
        user: &UserId,
        start: Option<&str>,
    ) -> impl Future<Output = Result<GroupPage, DirectoryError>> + Send;

    /// Adds a user to a group. Idempotent.
    fn add(&self, user: &UserId, group: &str) -> impl Future<Output = Result<(), DirectoryError>> + Send;

    /// Removes a user from a group. Idempotent.
    fn remove(&self, user: &UserId, group: &str) -> impl Future<Output = Result<(), DirectoryError>> + Send;
}

/// A page of a user's groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupPage {
    /// Their names.
    pub groups: Vec<String>,
    /// Where the next page starts; `None` at the end.
    pub next: Option<String>,
}

/// A directory call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryError {
    /// The user does not exist.
    #[error("no such user")]
    NoSuchUser,
    /// The group does not exist.
    #[error("no such group: {0}")]
    NoSuchGroup(String),
    /// Too many requests.
    #[error("throttled: {0}")]
    Throttled(String),
    /// No response, or an ambiguous one.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// The request is invalid or not permitted.
    #[error("refused: {0}")]
    Refused(String),
}

impl DirectoryError {
    /// Whether a retry can succeed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Throttled(_) | Self::Unavailable(_) => true,
            Self::NoSuchUser | Self::NoSuchGroup(_) | Self::Refused(_) => false,
        }
    }
}

/// The group of each tier. Other groups are never touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupNames(BTreeMap<String, String>);

impl GroupNames {
    /// From pairs of tier and group.
    pub fn new<T: Into<String>, G: Into<String>>(names: impl IntoIterator<Item = (T, G)>) -> Self {
        Self(names.into_iter().map(|(tier, group)| (tier.into(), group.into())).collect())
    }

    /// The group of a tier. Tiers that are not listed, such as `free`, have none.
    #[must_use]
    pub fn of_tier(&self, tier: &str) -> Option<&str> {
        self.0.get(tier).map(String::as_str)
    }

    /// Whether a group belongs to a tier.
    #[must_use]
    pub fn contains(&self, group: &str) -> bool {
        self.0.values().any(|known| known == group)
    }
}

impl Default for GroupNames {
    fn default() -> Self {
        Self::new([
            ("INITIATE", "dues-initiate"),
            ("JOURNEYMAN", "dues-journeyman"),
            ("SAGE", "dues-sage"),
            ("GUILDMASTER", "dues-guildmaster"),
        ])
    }
}

/// The changes made to a user's groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupChanges {
    /// Groups the user was added to.
    pub added: Vec<String>,
    /// Groups the user was removed from.
    pub removed: Vec<String>,
    /// Directory calls, with retries.
    pub calls: u32,
}

/// Puts a user into the wanted tier group and removes all other tier groups; with `None`, all of them.
///
/// Adds before it removes, so that a member is never without a group, and is safe to repeat after a crash.
/// Callers serialise calls per user: two concurrent runs may leave the groups of both.
///
/// # Errors
/// The directory's error after retries. Some changes may have been made.
pub async fn sync_groups<D: Directory>(
    directory: &D,
    limiter: &RateLimiter,
    names: &GroupNames,
    user: &UserId,
    wanted: Option<&str>,
) -> Result<GroupChanges, DirectoryError> {
    if let Some(group) = wanted.filter(|group| !names.contains(group)) {
        return Err(DirectoryError::Refused(format!("group {group} belongs to no tier")));
    }
    let mut calls = DirectoryCalls { limiter, calls: 0 };
    let current = calls.groups_of(directory, user).await?;
    let mut changes = GroupChanges::default();
    if let Some(group) = wanted.filter(|wanted| current.iter().all(|group| group != wanted)) {
        calls.call(|| directory.add(user, group)).await?;
        changes.added.push(group.to_owned());
    }
    for group in current.into_iter().filter(|group| names.contains(group) && wanted != Some(group)) {
        match calls.call(|| directory.remove(user, &group)).await {
            // A deleted group has no members.
            Ok(()) | Err(DirectoryError::NoSuchGroup(_)) => changes.removed.push(group),
            Err(error) => return Err(error),
        }
    }
    changes.calls = calls.calls;
    Ok(changes)
}

/// All groups of a user, including those of no tier.
pub async fn groups_of<D: Directory>(
    directory: &D,
    limiter: &RateLimiter,
    user: &UserId,
) -> Result<Vec<String>, DirectoryError> {
    DirectoryCalls { limiter, calls: 0 }.groups_of(directory, user).await
}

/// Rate-limited directory calls; transient errors are retried.
struct DirectoryCalls<'a> {
    limiter: &'a RateLimiter,
    calls: u32,
}

impl DirectoryCalls<'_> {
    async fn groups_of<D: Directory>(
        &mut self,
        directory: &D,
        user: &UserId,
    ) -> Result<Vec<String>, DirectoryError> {
        let (mut all, mut start) = (Vec::new(), None);
        loop {
            let page = self.call(|| directory.groups_of(user, start.as_deref())).await?;
            all.extend(page.groups);
            match page.next {
                Some(next) => start = Some(next),
                None => return Ok(all),
            }
        }
    }

    async fn call<T, F>(&mut self, call: impl Fn() -> F) -> Result<T, DirectoryError>
    where
        F: Future<Output = Result<T, DirectoryError>>,
    {
        let mut longest = INITIAL_BACKOFF;
        for _ in 1..MAX_ATTEMPTS {
            match self.once(&call).await {
                Err(error) if error.is_transient() => {
                    tracing::debug!(%error, "retrying directory call")
                }
                answer => return answer,
            }
            self.limiter.clock().sleep(jittered(longest)).await;
            longest *= 2;
        }
        self.once(&call).await
    }

    async fn once<T, F>(&mut self, call: &impl Fn() -> F) -> Result<T, DirectoryError>
    where
        F: Future<Output = Result<T, DirectoryError>>,
    {
        self.limiter.acquire().await;
        self.calls += 1;
        call().await
    }
}

/// Half to all of the pause at random, so that throttled callers spread out.
fn jittered(longest: Duration) -> Duration {
    let half = longest / 2;
    let rest = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX);
    half + Duration::from_nanos(fastrand::u64(0..=rest))
}
