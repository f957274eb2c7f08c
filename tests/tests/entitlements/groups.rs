//! Groups follow the tier: in Cognito on ministack and in the local table, through throttling, lost answers
//! and crashes, and within the rate limit.

mod calls;
mod crash;
mod limiter;
mod local;
mod trouble;

use dues_events::UserId;
use dues_processors::aws::clients::cognito_groups::Cognito;
use dues_processors::entitlements::groups::{
    Directory, DirectoryError, GroupChanges, GroupNames, RateLimiter, sync_groups,
};
use dues_tests::aws::cognito_pool::{
    ADD, GUILDMASTER, INITIATE, JOURNEYMAN, LIST, Pool, REMOVE, SAGE, TIERS, ada, nothing, sorted,
};
use dues_tests::aws::recording_proxy::{Asked, Mischief};

fn changes(added: &[&str], removed: &[&str], calls: u32) -> GroupChanges {
    let owned = |groups: &[&str]| groups.iter().map(|group| (*group).to_owned()).collect();
    GroupChanges { added: owned(added), removed: owned(removed), calls }
}

/// A pool with Ada in these groups.
async fn pool(groups: &[&str], hook: impl Fn(&Asked) -> Mischief + Send + Sync + 'static) -> Pool {
    Pool::new(groups, hook).await
}

/// Makes Ada's groups equal to the wanted one.
async fn run(pool: &Pool, wanted: Option<&str>) -> Result<GroupChanges, DirectoryError> {
    sync_groups(&pool.directory, &pool.limiter, &GroupNames::default(), &ada(), wanted).await
}
