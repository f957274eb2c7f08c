//! A company on the embedded engine with a clock that the test sets: streams in, the projector over the
//! change log, and the entitlement clock.

use dues_events::{PlanTier, Record, Time, UserId};
use dues_processors::Context;
use dues_processors::entitlements::access;
use dues_processors::entitlements::clock::{ClockReport, entitlement_clock};
use dues_processors::entitlements::groups::{Directory as _, LocalDirectory, RateLimiter};
use dues_processors::projector::Projector;
use dues_processors::read_models::ReadModels;
use dues_processors::runtime::changes::Change;
use dues_projections::entitlements::dues::TierMap;
use dues_store::Store;
use dues_store::embedded::Embedded;
use dues_tests::clock::TestClock;
use dues_tests::engines::embedded;
use dues_tests::fixtures::company::{Sent, context, counts, deliver, records};

/// A member as three readers see it: the profile, the API and the groups.
pub(super) type Seen = (PlanTier, PlanTier, Vec<String>);

pub(super) struct World {
    pub(super) engine: Embedded,
    pub(super) clock: TestClock,
    pub(super) models: ReadModels,
    position: u64,
    _folder: tempfile::TempDir,
}

impl World {
    pub(super) fn at(now: Time) -> Self {
        let (engine, folder) = embedded();
        let models = ReadModels::parse("none").unwrap();
        Self { engine, clock: TestClock::frozen(now), models, position: 0, _folder: folder }
    }

    pub(super) fn store(&self) -> Store<Embedded> {
        Store::new(self.engine.clone(), self.clock.shared())
    }

    /// Delivers records at a time, and projects what they change.
    pub(super) async fn send(&mut self, now: Time, sent: &[Sent]) {
        self.clock.set_now(now);
        let context = Context { store: self.store(), ..context(self.engine.clone()) };
        let outcomes = deliver(&context, sent, 500).await;
        assert_eq!(counts(&outcomes).failed, 0, "{outcomes:?}");
        self.project().await;
    }

    /// Runs the entitlement clock at a time, and projects what it changes.
    pub(super) async fn tick(&mut self, now: Time) -> ClockReport {
        self.clock.set_now(now);
        let report = entitlement_clock(&self.store(), &TierMap::default()).await.unwrap();
        report.check().unwrap();
        self.project().await;
        report
    }

    pub(super) async fn project(&mut self) {
        let projector = Projector {
            limiter: RateLimiter::unlimited(self.clock.shared()),
            read_models: self.models.clone(),
            ..Projector::new(self.store(), Some(LocalDirectory::new(self.engine.clone())))
        };
        loop {
            let changes = self.engine.changes(self.position, 1000).unwrap();
            let Some(last) = changes.last() else { return };
            self.position = last.seq;
            let changes: Vec<Change> = changes.into_iter().map(|change| self.change(change)).collect();
            assert_eq!(projector.project(&changes).await.first_failure(), None);
        }
    }

    fn change(&self, change: dues_store::embedded::Change) -> Change {
        let dues_store::embedded::Change { seq, table, old, new } = change;
        let arrived = dues_store::Clock::now(&self.clock);
        Change { sequence: seq.to_string(), table, old, new, arrived, by_ttl: false }
    }

    /// What a member has at a time.
    pub(super) async fn seen(&self, user: &str, now: Time) -> Seen {
        self.clock.set_now(now);
        let (store, user) = (self.store(), UserId::from(user));
        let shown = store.profile(&user).await.unwrap().map_or(PlanTier::Free, |profile| profile.tier);
        let answer = access(&store, &user).await.unwrap();
        let groups = LocalDirectory::new(self.engine.clone()).groups_of(&user, None).await.unwrap().groups;
        (shown, answer.tier, groups)
    }

    /// The record of a user that is due on that day.
    pub(super) async fn record_due(&self, user: &str, due: Time) -> Option<Record> {
        records(&self.engine, user).await.into_iter().find(|record| record.billing_date.at() == due)
    }
}

/// A member with that tier everywhere.
pub(super) fn everywhere(tier: PlanTier) -> Seen {
    let group = match tier {
        PlanTier::Free => Vec::new(),
        PlanTier::Initiate | PlanTier::Journeyman | PlanTier::Sage | PlanTier::Guildmaster => {
            vec![format!("dues-{}", tier.as_str().to_lowercase())]
        }
    };
    (tier, tier, group)
}
