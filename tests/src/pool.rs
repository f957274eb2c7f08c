//! A Cognito user pool on ministack: the tiers' groups, one user, and somebody on the line.

use dues_events::UserId;
use dues_processors::groups::cognito::Cognito;
use dues_processors::groups::{Directory, Limiter, groups_of};

use crate::edges::{Asked, Meddler, Mischief};
use crate::impatient::Impatient;
use crate::ministack::new_account;

/// The group of the first paid tier.
pub const INITIATE: &str = "dues-initiate";
/// Of the second.
pub const JOURNEYMAN: &str = "dues-journeyman";
/// Of the third.
pub const SAGE: &str = "dues-sage";
/// Of the highest.
pub const GUILDMASTER: &str = "dues-guildmaster";
/// Every group that stands for a tier.
pub const TIERS: [&str; 4] = [INITIATE, JOURNEYMAN, SAGE, GUILDMASTER];

/// The calls, as Cognito names them.
pub const LIST: &str = "AdminListGroupsForUser";
/// Puts a user into a group.
pub const ADD: &str = "AdminAddUserToGroup";
/// Takes a user out of a group.
pub const REMOVE: &str = "AdminRemoveUserFromGroup";

/// The user who is in every pool.
pub fn ada() -> UserId {
    "auth0|ada".into()
}

/// Leaves every request alone.
pub fn nothing(_: &Asked) -> Mischief {
    Mischief::None
}

/// A pool with the tiers' groups, `admins` and Ada, and who stands between it and the directory.
pub struct Pool {
    /// Who stands there.
    pub meddler: Meddler,
    /// What pauses are slept on.
    pub clock: Impatient,
    /// As fast as can be.
    pub limiter: Limiter,
    /// The directory under test.
    pub directory: Cognito,
    /// Nobody stands between this client and the pool.
    pub client: aws_sdk_cognitoidentityprovider::Client,
    /// The pool's id.
    pub id: String,
}

impl Pool {
    /// A pool in which Ada is in these groups.
    pub async fn new(groups: &[&str], hook: impl Fn(&Asked) -> Mischief + Send + Sync + 'static) -> Self {
        let (meddler, clock, account) = (Meddler::new(hook), Impatient::default(), new_account());
        let client = Meddler::new(nothing).cognito(&account);
        let made = client.create_user_pool().pool_name("members").send().await.unwrap();
        let id = made.user_pool().unwrap().id().unwrap().to_owned();
        let (limiter, directory) = (Limiter::unlimited(clock.shared()), Cognito::new(&meddler.cognito(&account), &id));
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

    /// One more group.
    pub async fn create_group(&self, group: &str) {
        self.client.create_group().user_pool_id(&self.id).group_name(group).send().await.unwrap();
    }

    /// One more user.
    pub async fn create_user(&self, user: &UserId) {
        self.client.admin_create_user().user_pool_id(&self.id).username(user.as_str()).send().await.unwrap();
    }

    /// The directory, with nobody on the line.
    pub fn quiet(&self) -> Cognito {
        Cognito::new(&self.client, &self.id)
    }

    /// Ada's groups in the order of their names.
    pub async fn groups(&self) -> Vec<String> {
        sorted(&self.quiet(), &ada()).await
    }

    /// What was asked for, with the group, if one was named.
    pub fn asked(&self) -> Vec<(String, Option<String>)> {
        let group = |asked: &Asked| asked.entries[0]["GroupName"].as_str().map(str::to_owned);
        self.meddler.asked().iter().map(|asked| (asked.operation.clone(), group(asked))).collect()
    }
}

/// All groups of a user in the order of their names.
pub async fn sorted(directory: &impl Directory, user: &UserId) -> Vec<String> {
    let mut groups = groups_of(directory, &Limiter::unlimited(Impatient::default().shared()), user).await.unwrap();
    groups.sort();
    groups
}
