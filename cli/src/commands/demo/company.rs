//! The simulated company: members join, pay, fail to pay, pause, change tier and leave, driven by a seeded
//! random generator.

use chrono::{Days, Months, NaiveDate, TimeDelta};
use dues_events::{GoTime, Time};
use fastrand::Rng;
use serde_json::json;
use std::collections::BTreeSet;

/// The company opens on 1 January 2026.
pub(super) const START: Time = match NaiveDate::from_ymd_opt(2026, 1, 1) {
    Some(day) => match day.and_hms_opt(0, 0, 0) {
        Some(time) => time.and_utc(),
        None => Time::UNIX_EPOCH,
    },
    None => Time::UNIX_EPOCH,
};

/// Tier, version, monthly amount.
const TIERS: [(&str, &str, &str); 4] =
    [("Basic", "v1", "4.99"), ("Plus", "v2", "14.99"), ("Pro", "v1", "39.99"), ("Founder", "v1", "99.00")];

/// Source of a signal.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stream {
    Income,
    Balance,
}

pub(super) struct Company {
    members: u32,
    rng: Rng,
    events: u64,
}

impl Company {
    pub(super) fn new(members: u32, seed: u64) -> Self {
        Self { members, rng: Rng::with_seed(seed), events: 0 }
    }

    /// The days of the first `months` months, each at midnight.
    pub(super) fn days(months: u32) -> impl ExactSizeIterator<Item = Time> {
        let end = START.checked_add_months(Months::new(months)).unwrap_or(START);
        let days = usize::try_from((end - START).num_days()).unwrap_or(0);
        (0..days).map(|n| START + Days::new(n as u64))
    }

    /// All members join on the first day; some bill on Fridays, some yearly.
    pub(super) fn join(&mut self) -> Vec<String> {
        (0..self.members)
            .map(|n| {
                let (tier, version, amount) = self.rng.choice(TIERS).unwrap_or(TIERS[0]);
                let joined = START + TimeDelta::minutes(i64::from(n % 1440));
                let due = START + Days::new(self.rng.u64(1..31));
                let week = (self.rng.u32(..10) == 0).then(|| self.rng.u32(1..=5));
                let term = if self.rng.u32(..20) == 0 { "YEARLY" } else { "MONTHLY" };
                let provider = if self.rng.bool() { "cognito" } else { "local" };
                let terms = json!({"tier": tier, "version": version, "term": term, "amount": amount,
                    "billing_date": text(due), "billing_week": week, "provider": provider});
                self.membership("ACTIVATE", &format!("member-{n:06}"), joined, terms)
            })
            .collect()
    }

    /// A day's membership changes, in order.
    pub(super) fn changes(&mut self, day: Time) -> Vec<String> {
        // One in twenty members per month.
        let remainder = u32::from(self.rng.u32(..600) < self.members % 600);
        let mut changes: Vec<(Time, String)> =
            (0..self.members / 600 + remainder).filter_map(|_| self.change(day)).collect();
        changes.sort_by_key(|(at, _)| *at);
        changes.into_iter().map(|(_, change)| change).collect()
    }

    /// The day's settlements as a stream delivers them: some twice, and occasionally a malformed one.
    pub(super) fn deliver(&mut self, mut records: Vec<String>) -> Vec<String> {
        for n in (0..records.len()).rev() {
            if self.rng.u32(..50) == 0 {
                records.push(records[n].clone());
            }
        }
        if self.rng.u32(..60) == 0 {
            self.events += 1;
            let id = self.events;
            records.push(format!(
                r#"{{"event_id":"broken-{id}","type":"SUBSCRIPTION_COMPLETED","occurred_at":"soon"}}"#
            ));
        }
        records
    }

    /// Signals that a member can pay: an income or a balance, sometimes of a new account; at most one per
    /// member and day.
    pub(super) fn signals(&mut self, day: Time) -> Vec<(Stream, String)> {
        let remainder = u32::from(self.rng.u32(..40) < self.members % 40);
        let users: BTreeSet<u32> =
            (0..self.members / 40 + remainder).map(|_| self.rng.u32(..self.members)).collect();
        users.into_iter().map(|user| self.signal(&format!("member-{user:06}"), day)).collect()
    }

    fn signal(&mut self, user: &str, day: Time) -> (Stream, String) {
        self.events += 1;
        let id = format!("sig-{}", self.events);
        let amount = format!("{}.00", self.rng.u32(20..2000));
        if self.rng.bool() {
            (
                Stream::Income,
                json!({"event_id": id, "user_id": user, "amount": amount, "detected_at": text(day)})
                    .to_string(),
            )
        } else {
            let new_account = self.rng.u32(..3) == 0;
            let balance = json!({"event_id": id, "user_id": user, "available": amount,
                "observed_at": text(day), "new_account": new_account});
            (Stream::Balance, balance.to_string())
        }
    }

    fn change(&mut self, day: Time) -> Option<(Time, String)> {
        let user = format!("member-{:06}", self.rng.u32(..self.members));
        let at = day + TimeDelta::seconds(self.rng.i64(0..21_600));
        let (tier, version, amount) = self.rng.choice(TIERS)?;
        let plan = json!({"tier": tier, "version": version, "amount": amount});
        let kind = self.rng.choice([
            "UPGRADE",
            "DOWNGRADE",
            "PAUSE",
            "UNPAUSE",
            "CANCEL",
            "RETRACT",
            "REACTIVATE",
            "CLOSEACCOUNT",
        ])?;
        let terms = match kind {
            "UPGRADE" | "DOWNGRADE" => plan,
            "PAUSE" => json!({"pause_duration_months": self.rng.u32(1..=3)}),
            "REACTIVATE" => {
                json!({"tier": tier, "version": version, "amount": amount, "term": "MONTHLY",
                    "billing_date": text(at + Days::new(10))})
            }
            _ => json!(null),
        };
        Some((at, self.membership(kind, &user, at, terms)))
    }

    fn membership(&mut self, kind: &str, user: &str, at: Time, terms: serde_json::Value) -> String {
        self.events += 1;
        json!({"event_id": format!("mem-{}", self.events), "type": kind, "occurred_at": text(at),
            "user_id": user, "membership": terms})
        .to_string()
    }
}

fn text(time: Time) -> String {
    GoTime::trimmed(time).text()
}
