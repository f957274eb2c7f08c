//! A membership change over records in any status: planned until nothing is left to do, and then done.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use dues_events::billing::decide::{Followup, followups};
use dues_events::billing::idempotency::IdempotencyToken;
use dues_events::billing::membership::{Change, ChangePlan, MembershipEvent, NewMembership, Step, plan};
use dues_events::billing::record::{Closed, FailedAttempt, Failure, Pause, Payment, Plan, TierName};
use dues_events::calendar::Term;
use dues_events::collections::ach::ReturnCode;
use dues_events::{
    Event, EventId, GoTime, ParkedEvents, Record, Rejection, State, Status, SubscriptionId, Time, decide,
};

fn t(text: &str) -> Time {
    dues_events::time::parse(text).unwrap()
}

fn new_membership(date: &str) -> NewMembership {
    NewMembership {
        plan: Plan { amount: "14.99".parse().unwrap(), tier: TierName::new("Plus", "v2") },
        term: Term::Monthly,
        billing_date: t(date),
        billing_week: None,
        provider: None,
    }
}

fn change(id: &str, at: &str, change: Change) -> MembershipEvent {
    let id = EventId::from(id);
    MembershipEvent {
        token: IdempotencyToken::new(&id, &[]),
        id,
        at: t(at),
        user_id: "u-1".into(),
        source: "test".into(),
        change,
    }
}

/// A record due on that day, in that status, with its attempt.
fn record(status: Status, due: &str) -> Record {
    let membership = change("mem-1", "2025-06-01T00:00:00Z", Change::Activate(new_membership(due)));
    let ChangePlan::Next(Step::Create(first, event)) = plan(&[], &membership, ParkedEvents::Keep).unwrap()
    else {
        panic!("not a new record")
    };
    let at = Some(GoTime::trimmed(t(due)));
    let failure = Failure::new(ReturnCode::read("R01"), None);
    let failed = FailedAttempt { transaction_id: Some("c-1".into()), failure };
    let closed = Closed { at: at.clone(), last: None };
    let payment = Payment { transaction_id: Some("c-1".into()), at: at.clone() };
    let pause = Pause { months: 2, last: None };
    let state = match status {
        Status::Scheduled => State::Scheduled,
        Status::AchSent => State::AchSent(Some("c-1".into())),
        Status::Completed => State::Completed(payment),
        Status::Error => State::Error(failed),
        Status::Waived => State::Waived(closed),
        Status::Cancelled => State::Cancelled(closed),
        Status::Paused => State::Paused(pause),
        Status::PausedSkipped => State::PausedSkipped(pause, closed),
        Status::Refunded => State::Refunded(payment),
        Status::Stale => State::Stale(closed),
    };
    let mut record = first.in_state(state);
    record.subscription_id = format!("s-{}", &due[..10]).into();
    record.initial_run_date =
        matches!(status, Status::AchSent | Status::Completed | Status::Error).then_some(at).flatten();
    record.version = 1;
    record.applied.push(event.token);
    record
}

/// The member's records in memory, changed as the store does.
struct Member(Vec<Record>);

impl Member {
    fn get(&mut self, id: &SubscriptionId) -> &mut Record {
        self.0.iter_mut().find(|record| record.subscription_id == *id).unwrap()
    }

    fn commit(&mut self, id: &SubscriptionId, event: &Event) -> Result<(), Rejection> {
        let before = self.get(id);
        let mut after = decide(before, event)?.record;
        after.version = before.version + 1;
        after.applied = before.applied.clone();
        after.applied.push(event.token);
        *before = after;
        Ok(())
    }

    /// Follow-ups that do not exist yet.
    fn follow_up(&mut self) {
        for record in self.0.clone() {
            for followup in followups(&record) {
                match followup {
                    Followup::CreateNext(next, event) => {
                        let later = |r: &Record| {
                            matches!(r.status(), Status::Scheduled | Status::Paused)
                                && r.billing_date.at() > record.billing_date.at()
                        };
                        let is_there =
                            self.0.iter().any(|r| r.subscription_id == next.subscription_id || later(r));
                        if !is_there {
                            self.create(*next, &event);
                        }
                    }
                    Followup::Apply(event) => self.commit(&record.subscription_id, &event).unwrap(),
                }
            }
        }
    }

    fn create(&mut self, mut record: Record, event: &Event) {
        let date = record.billing_date.clone();
        assert!(self.0.iter().all(|r| r.billing_date != date), "two records at {}", date.text());
        record.version = 1;
        record.applied.push(event.token);
        self.0.push(record);
    }

    /// Plans and commits until the change is done. Returns the number of steps.
    fn make(&mut self, event: &MembershipEvent) -> Result<u32, Rejection> {
        for steps in 0..20 {
            self.follow_up();
            match plan(&self.0, event, ParkedEvents::Keep)? {
                ChangePlan::Done => return Ok(steps),
                ChangePlan::Parked => panic!("parked"),
                ChangePlan::Next(Step::Change { id, version, event }) => {
                    assert_eq!(self.get(&id).version, version);
                    self.commit(&id, &event)?;
                }
                ChangePlan::Next(Step::Create(record, event)) => self.create(*record, &event),
            }
        }
        panic!("{}: is never done", event.id)
    }

    fn open(&self) -> Vec<&Record> {
        let is_open =
            |r: &&Record| r.superseded_by.is_none() && (r.is_open() || r.status() == Status::AchSent);
        self.0.iter().filter(is_open).collect()
    }
}

const AT: &str = "2026-02-10T00:00:00Z";

/// Two records of one chain in all statuses: the older one due, the newer one in a month.
fn members() -> impl Iterator<Item = Member> {
    Status::ALL.into_iter().flat_map(|old| {
        Status::ALL.into_iter().map(move |new| {
            let mut old = record(old, "2026-02-01T00:00:00Z");
            let new = record(new, "2026-03-01T00:00:00Z");
            old.next = Some(new.subscription_id.clone());
            Member(vec![old, new])
        })
    })
}

fn statuses(member: &Member) -> String {
    member.0.iter().map(|r| r.status().to_string()).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_reactivation_is_whole_whatever_it_finds() {
    for date in ["2026-02-01T00:00:00Z", "2026-02-12T00:00:00Z", "2026-03-01T00:00:00Z"] {
        for mut member in members() {
            let what = format!("{} reactivated for {date}", statuses(&member));
            let event = change("re", AT, Change::Reactivate(new_membership(date)));
            member.make(&event).unwrap_or_else(|rejection| panic!("{what}: {rejection}"));
            assert!(member.make(&event) == Ok(0), "{what}: done is done");
            let open = member.open();
            assert_eq!(open.len(), 1, "{what}: {}", statuses(&member));
            assert_eq!(open[0].status(), Status::Scheduled, "{what}");
            assert_eq!(open[0].since(), Some(t(AT)), "{what}");
            // It falls due on its own date, except where money in flight has that date.
            let collides =
                member.0.iter().any(|r| r.status() == Status::AchSent && r.billing_date.at() == t(date));
            let hour = if collides { 1 } else { 0 };
            assert_eq!(open[0].billing_date.at(), t(date) + chrono::TimeDelta::hours(hour), "{what}");
        }
    }
}

#[test]
fn a_closed_account_has_nothing_that_is_billed_on() {
    for mut member in members() {
        let what = statuses(&member);
        let event = change("close", AT, Change::CloseAccount);
        member.make(&event).unwrap_or_else(|rejection| panic!("{what}: {rejection}"));
        assert_eq!(member.make(&event), Ok(0), "{what}");
        for open in member.open() {
            assert_eq!((open.status(), open.cancel_at.is_some()), (Status::AchSent, true), "{what}");
        }
    }
}

#[test]
fn a_cancellation_reaches_every_record_and_its_retraction_too() {
    for mut member in members() {
        let what = statuses(&member);
        let cancel = change("cancel", AT, Change::Cancel);
        member.make(&cancel).unwrap_or_else(|rejection| panic!("{what}: {rejection}"));
        for open in member.open() {
            assert!(open.cancel_at.is_some(), "{what}: {} is not cancelled", open.status());
        }
        let retract = change("retract", "2026-02-11T00:00:00Z", Change::Retract);
        member.make(&retract).unwrap_or_else(|rejection| panic!("{what}: {rejection}"));
        assert!(member.0.iter().all(|r| r.cancel_at.is_none()), "{what}");
        assert_eq!(member.make(&retract), Ok(0), "{what}");
    }
}

/// Each of the others ends, and is rejected only where it would be lost.
#[test]
fn the_other_changes_end() {
    let pro = Plan { amount: "39.99".parse().unwrap(), tier: TierName::new("Pro", "v1") };
    for (name, kind) in [
        ("activate", Change::Activate(new_membership("2026-03-15T00:00:00Z"))),
        ("pause", Change::Pause { months: 2 }),
        ("unpause", Change::Unpause),
        ("upgrade", Change::Upgrade(pro.clone())),
        ("downgrade", Change::Downgrade(pro)),
    ] {
        for mut member in members() {
            let what = format!("{name}: {}", statuses(&member));
            let event = change(name, AT, kind.clone());
            match member.make(&event) {
                Ok(_) => assert_eq!(member.make(&event), Ok(0), "{what}"),
                Err(Rejection::NothingOpen(_)) => {
                    assert!(matches!(name, "pause" | "upgrade" | "downgrade"), "{what}")
                }
                Err(rejection) => panic!("{what}: {rejection}"),
            }
            if name == "activate" {
                assert!(!member.open().is_empty(), "{what}");
            }
        }
    }
}
