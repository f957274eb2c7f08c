//! Several projectors at once, as when Lambda gives up on a slow one and starts another: the last tier's
//! groups remain.

use super::*;
use dues_tests::aws::cognito_pool::{JOURNEYMAN, SAGE};
use futures::future::join_all;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

dues_tests::on_engines! {
    two_projectors_on_a_restless_profile_end_with_its_last_tier,
    a_slow_projector_does_not_undo_a_faster_one,
    a_slow_projector_that_dies_after_a_faster_one_is_repaired_by_redelivery,
}

const NAMES: [&str; 5] = ["free", "INITIATE", "JOURNEYMAN", "SAGE", "GUILDMASTER"];

/// A directory with slow answers.
#[derive(Clone)]
struct Dawdling<D>(D);

impl<D> Dawdling<D> {
    async fn dawdle(&self) {
        tokio::time::sleep(Duration::from_micros(fastrand::u64(0..300))).await;
    }
}

impl<D: Directory> Directory for Dawdling<D> {
    async fn groups_of(&self, user: &UserId, start: Option<&str>) -> Result<GroupPage, DirectoryError> {
        let page = self.0.groups_of(user, start).await;
        self.dawdle().await;
        page
    }

    async fn add(&self, user: &UserId, group: &str) -> Result<(), DirectoryError> {
        self.dawdle().await;
        self.0.add(user, group).await
    }

    async fn remove(&self, user: &UserId, group: &str) -> Result<(), DirectoryError> {
        self.dawdle().await;
        self.0.remove(user, group).await
    }
}

async fn two_projectors_on_a_restless_profile_end_with_its_last_tier<E: Engine>(engine: E) {
    for round in 0..8 {
        let user = UserId::from(format!("u-{round}"));
        let (senders, runs): (Vec<_>, Vec<_>) = (0..2)
            .map(|_| {
                let (sender, mut changes) = mpsc::unbounded_channel::<Change>();
                let projector = over(&engine, Dawdling(LocalDirectory::new(engine.clone())));
                let run = tokio::spawn(async move {
                    while let Some(change) = changes.recv().await {
                        // Redelivered until it succeeds.
                        while matches!(project_one(&projector, &change).await, Outcome::Failed(_)) {}
                    }
                });
                (sender, run)
            })
            .unzip();
        let mut tiers = Vec::new();
        for n in 0..20 {
            let tier = NAMES[fastrand::usize(..NAMES.len())];
            let change = save(&engine, &user, tier, "cognito", &n.to_string()).await;
            senders.iter().for_each(|sender| sender.send(change.clone()).unwrap());
            tiers.push(tier);
            tokio::time::sleep(Duration::from_micros(fastrand::u64(0..500))).await;
        }
        drop(senders);
        join_all(runs).await.into_iter().for_each(Result::unwrap);
        let last = dues_events::PlanTier::read(tiers.last().unwrap()).unwrap();
        let group = dues_processors::entitlements::groups::GroupNames::default()
            .of_tier(last.as_str())
            .map(str::to_owned);
        assert_eq!(local_groups(&engine, &user).await, Vec::from_iter(group), "{tiers:?}");
        let row = effect(&engine, &user).await.unwrap();
        assert!(row.is_applied_for(last), "{tiers:?}: {row:?}");
    }
}

/// A directory that blocks before its first change until it is released, or that dies after it.
#[derive(Clone)]
struct Stopping<D> {
    inner: D,
    stopped: Arc<Semaphore>,
    go: Arc<Semaphore>,
    dies: bool,
}

impl<D: Directory> Directory for Stopping<D> {
    async fn groups_of(&self, user: &UserId, start: Option<&str>) -> Result<GroupPage, DirectoryError> {
        self.inner.groups_of(user, start).await
    }

    async fn add(&self, user: &UserId, group: &str) -> Result<(), DirectoryError> {
        self.stopped.add_permits(1);
        let _leave = self.go.acquire().await.unwrap();
        self.inner.add(user, group).await?;
        if self.dies { Err(DirectoryError::Unavailable("it has died".into())) } else { Ok(()) }
    }

    async fn remove(&self, user: &UserId, group: &str) -> Result<(), DirectoryError> {
        if self.dies {
            Err(DirectoryError::Unavailable("it has died".into()))
        } else {
            self.inner.remove(user, group).await
        }
    }
}

/// One projector blocks while it applies SAGE; the tier becomes JOURNEYMAN, and another projector applies
/// that; then the first proceeds. Returns the first one's outcome and its change.
async fn overtaken<E: Engine>(engine: &E, dies: bool) -> (Outcome, Change) {
    let directory = Stopping {
        inner: LocalDirectory::new(engine.clone()),
        stopped: Arc::new(Semaphore::new(0)),
        go: Arc::new(Semaphore::new(0)),
        dies,
    };
    let first = save(engine, &ada(), "SAGE", "cognito", "1").await;
    let (slow, change) = (over(engine, directory.clone()), first.clone());
    let slow = tokio::spawn(async move { project_one(&slow, &change).await });
    drop(directory.stopped.acquire().await.unwrap());
    let second = save(engine, &ada(), "JOURNEYMAN", "cognito", "2").await;
    assert_eq!(project_one(&projector(engine, accepts_all), &second).await, Outcome::Applied);
    assert_eq!(local_groups(engine, &ada()).await, [JOURNEYMAN]);
    directory.go.add_permits(1);
    (slow.await.unwrap(), first)
}

async fn a_slow_projector_does_not_undo_a_faster_one<E: Engine>(engine: E) {
    let (outcome, _) = overtaken(&engine, false).await;
    assert_eq!(
        (outcome, local_groups(&engine, &ada()).await),
        (Outcome::Applied, vec![JOURNEYMAN.to_owned()])
    );
    assert!(effect(&engine, &ada()).await.unwrap().is_applied_for(dues_events::PlanTier::Journeyman));
}

async fn a_slow_projector_that_dies_after_a_faster_one_is_repaired_by_redelivery<E: Engine>(engine: E) {
    let (outcome, first) = overtaken(&engine, true).await;
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    assert_eq!(local_groups(&engine, &ada()).await, [JOURNEYMAN, SAGE], "what the dead one left");
    // The row says JOURNEYMAN, as the profile does; but also that a delivery has begun and not ended.
    assert_eq!(project_one(&projector(&engine, accepts_all), &first).await, Outcome::Applied);
    assert_eq!(local_groups(&engine, &ada()).await, [JOURNEYMAN]);
    assert!(effect(&engine, &ada()).await.unwrap().is_applied_for(dues_events::PlanTier::Journeyman));
}
