//! Groups follow the tier: in Cognito on ministack, in the local table, through throttling, lost answers and crashes, and never too fast.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "groups/calls.rs"]
mod calls;
#[path = "groups/crash.rs"]
mod crash;
#[path = "groups/limiter.rs"]
mod limiter;
#[path = "groups/local.rs"]
mod local;
#[path = "groups/trouble.rs"]
mod trouble;

use dues_events::UserId;
use dues_processors::groups::cognito::Cognito;
use dues_processors::groups::{Changes, Directory, DirectoryError, GroupNames, Limiter, groups_of, make_equal};
use dues_tests::edges::{Asked, Meddler, Mischief};
use dues_tests::impatient::Impatient;
use dues_tests::ministack::new_account;

const INITIATE: &str = "dues-initiate";
const JOURNEYMAN: &str = "dues-journeyman";
const SAGE: &str = "dues-sage";
const GUILDMASTER: &str = "dues-guildmaster";
/// Every group that stands for a tier.
const TIERS: [&str; 4] = [INITIATE, JOURNEYMAN, SAGE, GUILDMASTER];

const LIST: &str = "AdminListGroupsForUser";
const ADD: &str = "AdminAddUserToGroup";
const REMOVE: &str = "AdminRemoveUserFromGroup";

fn ada() -> UserId {
    "auth0|ada".into()
}

fn changes(added: &[&str], removed: &[&str], calls: u32) -> Changes {
    let owned = |groups: &[&str]| groups.iter().map(|group| (*group).to_owned()).collect();
    Changes { added: owned(added), removed: owned(removed), calls }
}

fn nothing(_: &Asked) -> Mischief {
    Mischief::None
}

/// A pool with the tiers' groups, `admins` and Ada, and who stands between it and the directory.
struct Pool {
    meddler: Meddler,
    clock: Impatient,
    limiter: Limiter,
    directory: Cognito,
    /// Nobody stands between this client and the pool.
    client: aws_sdk_cognitoidentityprovider::Client,
    id: String,
}

/// A pool in which Ada is in these groups.
async fn pool(groups: &[&str], hook: impl Fn(&Asked) -> Mischief + Send + Sync + 'static) -> Pool {
    let (meddler, clock, account) = (Meddler::new(hook), Impatient::default(), new_account());
    let client = Meddler::new(nothing).cognito(&account);
    let made = client.create_user_pool().pool_name("members").send().await.unwrap();
    let id = made.user_pool().unwrap().id().unwrap().to_owned();
    let (limiter, directory) = (Limiter::unlimited(clock.shared()), Cognito::new(&meddler.cognito(&account), &id));
    let pool = Pool { meddler, clock, limiter, directory, client, id };
    for group in TIERS.iter().chain(&["admins"]) {
        pool.create_group(group).await;
    }
    pool.create_user(&ada()).await;
    for group in groups {
        pool.quiet().add(&ada(), group).await.unwrap();
    }
    pool
}

impl Pool {
    async fn create_group(&self, group: &str) {
        self.client.create_group().user_pool_id(&self.id).group_name(group).send().await.unwrap();
    }

    async fn create_user(&self, user: &UserId) {
        self.client.admin_create_user().user_pool_id(&self.id).username(user.as_str()).send().await.unwrap();
    }

    fn quiet(&self) -> Cognito {
        Cognito::new(&self.client, &self.id)
    }

    /// Makes Ada's groups equal.
    async fn run(&self, wanted: Option<&str>) -> Result<Changes, DirectoryError> {
        make_equal(&self.directory, &self.limiter, &GroupNames::default(), &ada(), wanted).await
    }

    /// Ada's groups in the order of their names.
    async fn groups(&self) -> Vec<String> {
        sorted(&self.quiet(), &ada()).await
    }

    /// What was asked for, with the group, if one was named.
    fn asked(&self) -> Vec<(String, Option<String>)> {
        let group = |asked: &Asked| asked.entries[0]["GroupName"].as_str().map(str::to_owned);
        self.meddler.asked().iter().map(|asked| (asked.operation.clone(), group(asked))).collect()
    }
}

/// All groups of a user in the order of their names.
async fn sorted(directory: &impl Directory, user: &UserId) -> Vec<String> {
    let mut groups = groups_of(directory, &Limiter::unlimited(Impatient::default().shared()), user).await.unwrap();
    groups.sort();
    groups
}
