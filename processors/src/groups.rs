//! Groups follow the tier: whoever has a tier is in its group, and in no other tier's group. Cognito on AWS, a table in one program.
//!
//! A user directory takes few requests (Cognito about 25 a second, not adjustable), so the groups are read first and only what differs is
//! called. Groups tell a token what to show; who may do what is always answered from the tables.

#[cfg(feature = "aws")]
pub mod cognito;

mod limiter;
mod local;

pub use limiter::{DEFAULT_RATE, HIGHEST_RATE, Limiter};
pub use local::LocalDirectory;

use dues_events::UserId;
use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

/// How often a call is made before it is given up.
const TRIES: u32 = 6;
/// The first pause is at the most this long; each one is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// A directory of users and the groups that they are in. Each call is one request: no retries, no pauses; [`make_equal`] sees to those.
pub trait Directory: Clone + Send + Sync + 'static {
    /// A page of the groups that a user is in, from the start or from where the page before ended.
    fn groups_of(&self, user: &UserId, start: Option<&str>) -> impl Future<Output = Result<GroupPage, DirectoryError>> + Send;

    /// Puts a user into a group. A user who is in it stays in it.
    fn add(&self, user: &UserId, group: &str) -> impl Future<Output = Result<(), DirectoryError>> + Send;

    /// Takes a user out of a group. A user who is not in it stays out of it.
    fn remove(&self, user: &UserId, group: &str) -> impl Future<Output = Result<(), DirectoryError>> + Send;
}

/// Some of the groups that a user is in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupPage {
    /// Their names.
    pub groups: Vec<String>,
    /// Where the next page starts; `None` at the end.
    pub next: Option<String>,
}

/// Why a directory did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryError {
    /// It does not know the user.
    #[error("no such user")]
    NoSuchUser,
    /// It knows the user, but has no group of that name.
    #[error("no such group: {0}")]
    NoSuchGroup(String),
    /// Too many requests.
    #[error("throttled: {0}")]
    Throttled(String),
    /// No answer, or one that does not tell whether it was done.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// The request itself is wrong, or not allowed.
    #[error("refused: {0}")]
    Refused(String),
}

impl DirectoryError {
    /// Whether the same call can succeed later without anybody's help.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Throttled(_) | Self::Unavailable(_) => true,
            Self::NoSuchUser | Self::NoSuchGroup(_) | Self::Refused(_) => false,
        }
    }
}

/// Which group stands for which tier. Groups that are not named here belong to somebody else, and are never touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupNames(BTreeMap<String, String>);

impl GroupNames {
    /// The groups of these tiers, each as tier and group.
    pub fn new<T: Into<String>, G: Into<String>>(names: impl IntoIterator<Item = (T, G)>) -> Self {
        Self(names.into_iter().map(|(tier, group)| (tier.into(), group.into())).collect())
    }

    /// The group of a tier, without its version. A tier that is not named, such as `free`, has none.
    #[must_use]
    pub fn of_tier(&self, tier: &str) -> Option<&str> {
        self.0.get(tier).map(String::as_str)
    }

    /// Whether a group stands for some tier.
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

/// What was done to a user's groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Groups that the user was put into.
    pub added: Vec<String>,
    /// Groups that the user was taken out of.
    pub removed: Vec<String>,
    /// How many calls it took, with those that were repeated.
    pub calls: u32,
}

/// Makes a user be in the wanted group, and in no other group that stands for a tier; with `None`, in none of them.
///
/// It adds before it removes, so that nobody is without a group in between, and can be run again after a crash anywhere. Two runs for the
/// same user at once may end with the groups of both: whoever calls it does so for one user at a time.
///
/// # Errors
/// What the directory could not do, after transient errors were tried again. Some changes may have been made.
pub async fn make_equal<D: Directory>(
    directory: &D,
    limiter: &Limiter,
    names: &GroupNames,
    user: &UserId,
    wanted: Option<&str>,
) -> Result<Changes, DirectoryError> {
    if let Some(group) = wanted.filter(|group| !names.contains(group)) {
        return Err(DirectoryError::Refused(format!("group {group} stands for no tier")));
    }
    let mut line = Line { limiter, calls: 0 };
    let has = line.groups_of(directory, user).await?;
    let mut changes = Changes::default();
    if let Some(group) = wanted.filter(|wanted| has.iter().all(|group| group != wanted)) {
        line.call(|| directory.add(user, group)).await?;
        changes.added.push(group.to_owned());
    }
    for group in has.into_iter().filter(|group| names.contains(group) && wanted != Some(group)) {
        match line.call(|| directory.remove(user, &group)).await {
            // A group that is gone has nobody in it.
            Ok(()) | Err(DirectoryError::NoSuchGroup(_)) => changes.removed.push(group),
            Err(error) => return Err(error),
        }
    }
    changes.calls = line.calls;
    Ok(changes)
}

/// All groups that a user is in, also those that stand for no tier.
///
/// # Errors
/// What the directory could not do, after transient errors were tried again.
pub async fn groups_of<D: Directory>(directory: &D, limiter: &Limiter, user: &UserId) -> Result<Vec<String>, DirectoryError> {
    Line { limiter, calls: 0 }.groups_of(directory, user).await
}

/// The way to the directory: each call waits for its turn, and what may pass is called again.
struct Line<'a> {
    limiter: &'a Limiter,
    calls: u32,
}

impl Line<'_> {
    async fn groups_of<D: Directory>(&mut self, directory: &D, user: &UserId) -> Result<Vec<String>, DirectoryError> {
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
        let mut longest = FIRST_PAUSE;
        for _ in 1..TRIES {
            match self.once(&call).await {
                Err(error) if error.is_transient() => tracing::debug!(%error, "a directory call is made again"),
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
        self.limiter.turn().await;
        self.calls += 1;
        call().await
    }
}

/// A pause between half of that and all of it: those who were throttled together do not come back together.
fn jittered(longest: Duration) -> Duration {
    let half = longest / 2;
    let rest = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX);
    half + Duration::from_nanos(fastrand::u64(0..=rest))
}
