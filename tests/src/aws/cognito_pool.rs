//! A Cognito user pool on ministack: the tiers' groups, one user, and a fault-injecting proxy.

use dues_events::UserId;
use dues_processors::aws::clients::cognito_groups::Cognito;
use dues_processors::entitlements::groups::{Directory, RateLimiter, groups_of};

use crate::aws::ministack::new_account;
use crate::aws::recording_proxy::{Asked, Meddler, Mischief};
use crate::clock::TestClock;

/// The group of the first paid tier.
pub const INITIATE: &str = "dues-initiate";
/// The group of the second paid tier.
pub const JOURNEYMAN: &str = "dues-journeyman";
/// The group of the third paid tier.
pub const SAGE: &str = "dues-sage";
/// The group of the highest tier.
pub const GUILDMASTER: &str = "dues-guildmaster";
/// The groups of all paid tiers.
pub const TIERS: [&str; 4] = [INITIATE, JOURNEYMAN, SAGE, GUILDMASTER];

/// The operation that lists a user's groups.
pub const LIST: &str = "AdminListGroupsForUser";
/// The operation that adds a user to a group.
pub const ADD: &str = "AdminAddUserToGroup";
/// The operation that removes a user from a group.
pub const REMOVE: &str = "AdminRemoveUserFromGroup";

/// The user that exists in every pool.
pub fn ada() -> UserId {
    "auth0|ada".into()
}

/// A hook that injects no faults.
pub fn nothing(_: &Asked) -> Mischief {
    Mischief::None
}

/// A pool with the tiers' groups, `admins` and Ada, and a proxy between it and the directory.
pub struct Pool {
    /// The proxy.
    pub meddler: Meddler,
    /// The clock of rate limits and backoff.
    pub clock: TestClock,
    /// An unlimited rate limiter.
    pub limiter: RateLimiter,
    /// The directory under test, behind the proxy.
    pub directory: Cognito,
    /// A client without faults.
    pub client: aws_sdk_cognitoidentityprovider::Client,
    /// The pool id.
    pub id: String,
}

impl Pool {
    /// A pool in which Ada is a member of `groups`.
    pub async fn new(groups: &[&str], hook: impl Fn(&Asked) -> Mischief + Send + Sync + 'static) -> Self {
        let (meddler, clock, account) = (Meddler::new(hook), TestClock::skipping(), new_account());
        let client = Meddler::new(nothing).cognito(&account);
        let made = client.create_user_pool().pool_name("members").send().await.unwrap();
        let id = made.user_pool().unwrap().id().unwrap().to_owned();
        let (limiter, directory) =
            (RateLimiter::unlimited(clock.shared()), Cognito::new(&meddler.cognito(&account), &id));
        let pool = Self { meddler, clock, limiter, directory, client, id };
        for group in TIERS.iter().chain(&["admins"]) {
            pool.create_group(group).await;
        }
        pool.create_user(&ada()).await;
        for group in groups {
            pool.quiet().add(&ada(), group).await.unwrap();
        }
        pool
    }

    /// Creates a group.
    pub async fn create_group(&self, group: &str) {
        self.client.create_group().user_pool_id(&self.id).group_name(group).send().await.unwrap();
    }

    /// Creates a user.
    pub async fn create_user(&self, user: &UserId) {
        self.client.admin_create_user().user_pool_id(&self.id).username(user.as_str()).send().await.unwrap();
    }

    /// The directory without faults.
    pub fn quiet(&self) -> Cognito {
        Cognito::new(&self.client, &self.id)
    }

    /// Ada's groups, sorted.
    pub async fn groups(&self) -> Vec<String> {
        sorted(&self.quiet(), &ada()).await
    }

    /// The recorded operations, each with its group, if any.
    pub fn asked(&self) -> Vec<(String, Option<String>)> {
        let group = |asked: &Asked| asked.entries[0]["GroupName"].as_str().map(str::to_owned);
        self.meddler.asked().iter().map(|asked| (asked.operation.clone(), group(asked))).collect()
    }
}

/// All groups of a user, sorted.
pub async fn sorted(directory: &impl Directory, user: &UserId) -> Vec<String> {
    let mut groups =
        groups_of(directory, &RateLimiter::unlimited(TestClock::skipping().shared()), user).await.unwrap();
    groups.sort();
    groups
}
