//! Followers: whichever command makes a change, the projector has processed it and the feeder has published
//! it when the command ends.

use dues_events::{GroupsEffect, Item, PlanTier};
use dues_store::table::{GG_CORE, GROUPS};
use dues_store::{Condition, Engine as _, Key, Query};

use crate::sandbox_ledger::wait_for;
use crate::support::records::activate;
use crate::support::run::{Dues, counts};

/// A Monday, the day after the first due date.
const FIRST: &str = "2026-02-02T08:00:00Z";
const LATER: &str = "2026-02-05T08:00:00Z";

impl Dues {
    /// The checkpoint of the projector and the feeder. Both must be at the end of the log, and the log must
    /// have grown since `since`.
    #[track_caller]
    fn caught_up(&self, since: u64) -> u64 {
        let engine = self.engine();
        let at = engine.checkpoint("projector", "changes").unwrap();
        assert!(at > since, "nothing has changed since {since}");
        assert_eq!(engine.checkpoint("kinesis-feeder", "changes").unwrap(), at);
        assert_eq!(engine.last_change().unwrap(), at);
        at
    }

    /// Writes a profile as another service does.
    pub(crate) fn profile(&self, user: &str, tier: &str, provider: &str) {
        let mut item = Item::new();
        for (name, text) in [
            ("PK", format!("USER#{user}")),
            ("SK", format!("PROFILE#{user}")),
            ("tier", tier.into()),
            ("provider", provider.into()),
        ] {
            item.set_text(name, text);
        }
        wait_for(self.engine().put(&GG_CORE, item, Condition::Always)).unwrap();
    }

    pub(crate) fn groups(&self, user: &str) -> Vec<String> {
        let page = wait_for(self.engine().query(Query::partition(&GROUPS, user))).unwrap();
        page.items.iter().map(|row| row.text("group").unwrap().to_owned()).collect()
    }

    fn groups_effect(&self, user: &str) -> Option<GroupsEffect> {
        let key = Key { partition: format!("USER#{user}"), sort: Some("EFFECT#GROUPS".into()) };
        wait_for(self.engine().get(&GG_CORE, key)).unwrap().map(|row| GroupsEffect::from_item(row).unwrap())
    }
}

#[test]
fn every_command_that_changes_something_catches_up() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1"), activate("m-2", "u-2"), activate("m-3", "u-3")]);
    let mut at = dues.caught_up(0);
    assert_eq!(dues.collect("INITIAL", FIRST), counts([("sent", 3)]));
    at = dues.caught_up(at);
    assert_eq!(dues.deliver(LATER), 3);
    at = dues.caught_up(at);
    // The second record of each: the first is paid.
    for (verb, user, as_of, more) in [
        ("pause", "u-1", LATER, &["--months", "2"] as &[&str]),
        ("resume", "u-1", LATER, &[]),
        ("pay", "u-1", "2026-03-02T08:00:00Z", &[]),
        ("waive", "u-2", LATER, &[]),
        ("cancel", "u-3", LATER, &["--now"]),
    ] {
        let id = dues.id(user, 1);
        dues.json(&[&[verb, user, &id, "--as-of", as_of], more].concat());
        at = dues.caught_up(at);
    }
}

#[test]
fn groups_follow_profiles_that_others_have_written() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    dues.profile("u-1", "JOURNEYMAN", "cognito");
    dues.profile("u-2", "SAGE", "local");
    dues.profile("u-1", "SAGE", "cognito");
    assert_eq!(dues.groups("u-1"), Vec::<String>::new(), "no follower has run yet");
    dues.members(&[]);
    assert_eq!((dues.groups("u-1"), dues.groups("u-2")), (vec!["dues-sage".to_owned()], vec![]));
    let effect = dues.groups_effect("u-1").unwrap();
    assert!(effect.is_applied_for(PlanTier::Sage) && effect.calls == 2, "{effect:?}");
    assert_eq!(dues.groups_effect("u-2"), None);
    dues.members(&[activate("m-2", "u-2")]);
    assert_eq!(dues.groups_effect("u-1"), Some(effect), "what was seen is not looked at again");
    assert_eq!(dues.parked(), Vec::<serde_json::Value>::new());
}
