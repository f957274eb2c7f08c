//! The only lines of these tests that construct parts of the system: adapt them when a constructor changes.

use chrono::TimeDelta;
use dues_events::collections::eligibility::{CollectionRequest, Trigger};
use dues_events::{SubscriptionId, UserId};
use dues_processors::billing::ach_handler::AchHandler;
use dues_processors::billing::memberships::Memberships;
use dues_processors::collections::commands::{Command, command};
use dues_processors::collections::gateway::Gateway;
use dues_processors::collections::{Collector, UserCollection};
use dues_processors::{Context, Delivery, Outcome, process};
use dues_store::{CommitError, Engine, Store};
use dues_tests::clock::TestClock;
use dues_tests::fixtures::company::{Sent, t};

/// The only member of a store under test.
pub(crate) const USER: &str = "u-1";

/// How an actor failed: what it had to do is not done.
pub(crate) const FAILED: &str = "FAILED: ";

/// How a collector ended that found the member's lock held.
pub(crate) const LOCKED: &str = "Locked";

/// The system as one actor sees it.
pub(crate) struct System<E, G> {
    pub(crate) engine: E,
    pub(crate) gateway: G,
    pub(crate) clock: TestClock,
}

impl<E: Engine, G: Gateway> System<E, G> {
    pub(crate) fn new(engine: E, gateway: G, clock: &TestClock) -> Self {
        Self { engine, gateway, clock: clock.clone() }
    }

    fn collector(&self) -> Collector<E, G> {
        Collector::new(Store::new(self.engine.clone(), self.clock.shared()), self.gateway.clone())
    }

    /// Collects all records that are due, failed ones too, or only one record.
    pub(crate) async fn collect(&self, only: Option<&str>) -> String {
        let only = only.map(Into::into);
        let request = CollectionRequest { only, ..CollectionRequest::triggered_by(Trigger::Batch) };
        match self.collector().collect_user(&USER.into(), &request).await {
            Ok(done) => format!("{done:?}"),
            Err(error) => format!("{FAILED}{error}"),
        }
    }

    /// The scheduled jobs. On a day when banks are closed they debit nothing, and only follow up.
    pub(crate) async fn follow_up(&self) {
        let swept = self.collector().store.sweep(|_| {}).await;
        swept.expect("the sweep runs");
        for trigger in [Trigger::Initial, Trigger::Retry, Trigger::Pause] {
            let request = CollectionRequest::triggered_by(trigger);
            let done = self.collector().collect_user(&USER.into(), &request).await;
            assert_ne!(done.expect("the follow-up runs"), UserCollection::Locked, "an actor kept its lock");
        }
    }

    /// An operator's command.
    pub(crate) async fn operate(&self, verb: &str, record: &str) -> String {
        let wanted = match verb {
            "pay" => Command::Pay { new_account: false, authorised: false },
            "waive" => Command::Waive,
            "cancel" => Command::Cancel { now: false },
            "pause" => Command::Pause { months: 2 },
            "resume" => Command::Resume,
            "move" => Command::Move { to: self.clock.shared().now() + TimeDelta::days(2) },
            other => panic!("no command {other}"),
        };
        let (user, record) = (UserId::from(USER), SubscriptionId::from(record));
        match command(&self.collector(), &user, &record, wanted, "ops").await {
            Ok(_) => "done".to_owned(),
            Err(CommitError::Rejected(rejection)) => format!("refused: {rejection}"),
            Err(CommitError::Store(error)) => format!("{FAILED}{error}"),
        }
    }
}

/// Delivers a batch of one stream. The records arrived long ago: none is held.
pub(crate) async fn deliver<E: Engine>(engine: &E, clock: &TestClock, batch: &[Sent]) -> Vec<Outcome> {
    let context = Context::new(Store::new(engine.clone(), clock.shared()));
    let deliveries: Vec<Delivery> = batch
        .iter()
        .enumerate()
        .map(|(n, (_, record))| Delivery {
            sequence: n.to_string(),
            arrived: t("2026-01-01T00:00:00Z"),
            data: record.to_string().into_bytes(),
        })
        .collect();
    let report = match batch[0].0 {
        "memberships" => process::<Memberships, E>(&context, &deliveries).await,
        _ => process::<AchHandler, E>(&context, &deliveries).await,
    };
    report.outcomes
}
