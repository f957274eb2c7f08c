//! A made-up company: members join, pay, fail to pay, pause, change tier and leave, all by the roll of a seeded die.

use chrono::{Days, Months, NaiveDate, TimeDelta};
use dues_events::calendar::{banking_day_from, banking_days_after};
use dues_events::record::Record;
use dues_events::{GoTime, Time};
use fastrand::Rng;
use serde_json::json;

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

pub(super) struct Company {
    members: u32,
    die: Rng,
    events: u64,
}

impl Company {
    pub(super) fn new(members: u32, seed: u64) -> Self {
        Self { members, die: Rng::with_seed(seed), events: 0 }
    }

    /// The first moment of a month.
    pub(super) fn month(&self, n: u32) -> Time {
        START.checked_add_months(Months::new(n)).unwrap_or(START)
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

    /// One month: what is due is sent, settled or returned; some members change their minds; some records come twice, or broken.
    pub(super) fn live_through(&mut self, month: u32, due: &[Record]) -> Vec<(&'static str, Vec<String>)> {
        let mut payments = Vec::new();
        for record in due.iter().filter(|record| record.cancel_at.is_none() && record.bar.is_none()) {
            self.collect(record, &mut payments);
        }
        // A stream delivers at least once.
        for n in (0..payments.len()).rev() {
            if self.die.u32(..50) == 0 {
                payments.push(payments[n].clone());
            }
        }
        if self.die.bool() {
            payments.push(r#"{"event_id":"broken","type":"SUBSCRIPTION_COMPLETED","occurred_at":"soon"}"#.to_owned());
        }
        let changes = (0..self.members / 20 + 1).filter_map(|_| self.change(self.month(month) + TimeDelta::days(25))).collect();
        vec![("site-payments", payments), ("memberships", changes)]
    }

    fn collect(&mut self, record: &Record, out: &mut Vec<String>) {
        let mut sent = banking_day_from(record.billing_date.at().date_naive());
        for attempt in 1..=3 {
            let transaction = format!("c-{}-{attempt}", &record.subscription_id.as_str()[..8]);
            out.push(self.payment("SUBMITTED", "PENDING", record, &transaction, sent, None));
            let settled = banking_days_after(sent, 2);
            match self.die.u32(..1000) {
                0..70 => {
                    out.push(self.payment("RETURNED", "FAILED", record, &transaction, settled, Some(("R01", "Insufficient funds"))));
                    sent = banking_days_after(settled, 3);
                    continue;
                }
                70..74 => out.push(self.payment("RETURNED", "FAILED", record, &transaction, settled, Some(("R03", "No account")))),
                74..78 => out.push(self.payment("RETURNED", "FAILED", record, &transaction, settled, Some(("R10", "Not authorised")))),
                roll => {
                    out.push(self.payment("COMPLETED", "COMPLETED", record, &transaction, settled, None));
                    let later = settled + Days::new(20);
                    match roll {
                        990..994 => out.push(self.payment(
                            "RETURNED",
                            "FAILED",
                            record,
                            &transaction,
                            later,
                            Some(("R07", "Authorisation revoked")),
                        )),
                        994..997 => out.push(self.payment("REFUNDED", "REFUNDED", record, &transaction, later, None)),
                        997..1000 => {
                            out.push(self.payment("CHARGED_BACK", "CHARGED_BACK", record, &transaction, later, Some(("R10", "Disputed"))))
                        }
                        _ => {}
                    }
                }
            }
            return;
        }
    }

    fn change(&mut self, at: Time) -> Option<String> {
        let user = format!("member-{:06}", self.die.u32(..self.members));
        let at = at + TimeDelta::seconds(self.die.i64(0..86_400));
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
        Some(self.membership(kind, &user, at, terms))
    }

    fn membership(&mut self, kind: &str, user: &str, at: Time, terms: serde_json::Value) -> String {
        self.events += 1;
        json!({"event_id": format!("mem-{}", self.events), "type": kind, "occurred_at": text(at), "user_id": user, "membership": terms})
            .to_string()
    }

    fn payment(
        &mut self,
        kind: &str,
        status: &str,
        record: &Record,
        transaction: &str,
        day: NaiveDate,
        why: Option<(&str, &str)>,
    ) -> String {
        self.events += 1;
        let at = day.and_time(chrono::NaiveTime::MIN).and_utc() + TimeDelta::seconds(28_800 + self.die.i64(0..3600));
        json!({
            "event_id": format!("pay-{}", self.events), "type": format!("SUBSCRIPTION_{kind}"), "occurred_at": text(at),
            "payment": {
                "payment_id": format!("p-{transaction}"), "subscription_id": record.subscription_id.as_str(), "user_id": record.user_id.as_str(),
                "status": status, "amount": record.plan.amount.to_string(), "currency": "USD", "processor": "JPM", "confirmation_id": transaction,
                "payment_type": "ACH", "account_mask": format!("{:04}", self.events % 10_000), "return_code": why.map(|w| w.0), "message": why.map(|w| w.1),
            },
        })
        .to_string()
    }
}

fn text(time: Time) -> String {
    GoTime::trimmed(time).text()
}
