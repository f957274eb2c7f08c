//! A made-up company: members join, pay, fail to pay, pause, change tier and leave, all by the roll of a seeded die.

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

/// Where a sign comes from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stream {
    Income,
    Balance,
}

pub(super) struct Company {
    members: u32,
    die: Rng,
    events: u64,
}

impl Company {
    pub(super) fn new(members: u32, seed: u64) -> Self {
        Self { members, die: Rng::with_seed(seed), events: 0 }
    }

    /// The first moments of the days of so many months.
    pub(super) fn days(months: u32) -> impl ExactSizeIterator<Item = Time> {
        let end = START.checked_add_months(Months::new(months)).unwrap_or(START);
        let days = usize::try_from((end - START).num_days()).unwrap_or(0);
        (0..days).map(|n| START + Days::new(n as u64))
    }

    /// Everybody joins in the first days of January; some pay on Fridays, some for a year.
    pub(super) fn join(&mut self) -> Vec<String> {
        (0..self.members)
            .map(|n| {
                let (tier, version, amount) = self.die.choice(TIERS).unwrap_or(TIERS[0]);
                let joined = START + TimeDelta::minutes(i64::from(n % 1440));
                let due = START + Days::new(self.die.u64(1..31));
                let week = (self.die.u32(..10) == 0).then(|| self.die.u32(1..=5));
                let term = if self.die.u32(..20) == 0 { "YEARLY" } else { "MONTHLY" };
                let provider = if self.die.bool() { "cognito" } else { "local" };
                let terms = json!({"tier": tier, "version": version, "term": term, "amount": amount, "billing_date": text(due), "billing_week": week, "provider": provider});
                self.membership("ACTIVATE", &format!("member-{n:06}"), joined, terms)
            })
            .collect()
    }

    /// What the members do in the small hours of a day, in order.
    pub(super) fn changes(&mut self, day: Time) -> Vec<String> {
        // Over a month, one in twenty.
        let odd = u32::from(self.die.u32(..600) < self.members % 600);
        let mut changes: Vec<(Time, String)> = (0..self.members / 600 + odd).filter_map(|_| self.change(day)).collect();
        changes.sort_by_key(|(at, _)| *at);
        changes.into_iter().map(|(_, change)| change).collect()
    }

    /// The day's settlements as the stream delivers them: some twice, and now and then one that is broken.
    pub(super) fn deliver(&mut self, mut records: Vec<String>) -> Vec<String> {
        for n in (0..records.len()).rev() {
            if self.die.u32(..50) == 0 {
                records.push(records[n].clone());
            }
        }
        if self.die.u32(..60) == 0 {
            self.events += 1;
            let id = self.events;
            records.push(format!(r#"{{"event_id":"broken-{id}","type":"SUBSCRIPTION_COMPLETED","occurred_at":"soon"}}"#));
        }
        records
    }

    /// Signs that members can pay: an income, a balance, sometimes of a new account. No more than one a day from each.
    pub(super) fn signals(&mut self, day: Time) -> Vec<(Stream, String)> {
        let odd = u32::from(self.die.u32(..40) < self.members % 40);
        let users: BTreeSet<u32> = (0..self.members / 40 + odd).map(|_| self.die.u32(..self.members)).collect();
        users.into_iter().map(|user| self.signal(&format!("member-{user:06}"), day)).collect()
    }

    fn signal(&mut self, user: &str, day: Time) -> (Stream, String) {
        self.events += 1;
        let id = format!("sig-{}", self.events);
        let amount = format!("{}.00", self.die.u32(20..2000));
        if self.die.bool() {
            (Stream::Income, json!({"event_id": id, "user_id": user, "amount": amount, "detected_at": text(day)}).to_string())
        } else {
            let new_account = self.die.u32(..3) == 0;
            let balance =
                json!({"event_id": id, "user_id": user, "available": amount, "observed_at": text(day), "new_account": new_account});
            (Stream::Balance, balance.to_string())
        }
    }

    fn change(&mut self, day: Time) -> Option<(Time, String)> {
        let user = format!("member-{:06}", self.die.u32(..self.members));
        let at = day + TimeDelta::seconds(self.die.i64(0..21_600));
        let (tier, version, amount) = self.die.choice(TIERS)?;
        let plan = json!({"tier": tier, "version": version, "amount": amount});
        let kind = self.die.choice(["UPGRADE", "DOWNGRADE", "PAUSE", "UNPAUSE", "CANCEL", "RETRACT", "REACTIVATE", "CLOSEACCOUNT"])?;
        let terms = match kind {
            "UPGRADE" | "DOWNGRADE" => plan,
            "PAUSE" => json!({"pause_duration_months": self.die.u32(1..=3)}),
            "REACTIVATE" => {
                json!({"tier": tier, "version": version, "amount": amount, "term": "MONTHLY", "billing_date": text(at + Days::new(10))})
            }
            _ => json!(null),
        };
        Some((at, self.membership(kind, &user, at, terms)))
    }

    fn membership(&mut self, kind: &str, user: &str, at: Time, terms: serde_json::Value) -> String {
        self.events += 1;
        json!({"event_id": format!("mem-{}", self.events), "type": kind, "occurred_at": text(at), "user_id": user, "membership": terms})
            .to_string()
    }
}

fn text(time: Time) -> String {
    GoTime::trimmed(time).text()
}
