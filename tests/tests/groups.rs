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
use dues_processors::groups::{Changes, Directory, DirectoryError, GroupNames, Limiter, make_equal};
use dues_tests::edges::{Asked, Mischief};
use dues_tests::impatient::Impatient;
use dues_tests::pool::{ADD, GUILDMASTER, INITIATE, JOURNEYMAN, LIST, Pool, REMOVE, SAGE, TIERS, ada, nothing, sorted};

fn changes(added: &[&str], removed: &[&str], calls: u32) -> Changes {
    let owned = |groups: &[&str]| groups.iter().map(|group| (*group).to_owned()).collect();
    Changes { added: owned(added), removed: owned(removed), calls }
}

/// A pool in which Ada is in these groups.
async fn pool(groups: &[&str], hook: impl Fn(&Asked) -> Mischief + Send + Sync + 'static) -> Pool {
    Pool::new(groups, hook).await
}

/// Makes Ada's groups equal.
async fn run(pool: &Pool, wanted: Option<&str>) -> Result<Changes, DirectoryError> {
    make_equal(&pool.directory, &pool.limiter, &GroupNames::default(), &ada(), wanted).await
}
