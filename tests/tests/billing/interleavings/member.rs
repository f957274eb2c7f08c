//! Prepared members, and what actors do to them.

use chrono::TimeDelta;
use dues_events::{Item, Time};
use dues_processors::Outcome;
use dues_processors::collections::gateway::Gateway;
use dues_store::table::{BILLING_ACTIVITY, EMBEDDED, Table};
use dues_store::{Condition, Engine};
use dues_tests::clock::TestClock;
use dues_tests::engines::memory::Memory;
use dues_tests::engines::stepped::{Stage, Stepped};
use dues_tests::explorer::{Ended, World};
use dues_tests::fixtures::company::{Sent, all, membership, monthly, t};
use dues_tests::gateways::stepped::SteppedGateway;
use dues_tests::judge::{Books, text};
use futures::future::BoxFuture;
use serde_json::json;

use super::system::{FAILED, System, USER, deliver};

/// A prepared member: its rows before the actors start.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) name: &'static str,
    rows: Vec<(&'static Table, Item)>,
    /// When the actors act.
    pub(super) now: Time,
    /// The record that the bank reports on: the oldest one.
    reported: String,
    /// The transaction that the bank has named so far.
    transaction: Option<&'static str>,
    /// The record that operators name: the oldest open one.
    open: String,
    /// The record after the oldest one; empty if there is none.
    second: String,
    /// Whether locks exclude actors.
    pub(super) has_locks: bool,
}

/// What an actor does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Act {
    pub(super) kind: &'static str,
    /// Makes the ids of events different.
    pub(super) n: usize,
    /// The time of an event, after eight o'clock.
    pub(super) minute: usize,
}

/// The names of the prepared members.
pub(super) const MEMBERS: [&str; 7] =
    ["scheduled", "sent", "failed", "paused", "completed", "cancelling", "two_due"];

impl Member {
    pub(super) async fn new(name: &'static str) -> Self {
        let engine = Memory::default();
        let clock = TestClock::manual(t("2026-02-03T00:00:00Z"));
        let on = |at: &str| format!("2026-02-02T{at}:00Z");
        let change = |kind: &str, at: &str, terms| membership(&format!("p-{kind}"), kind, USER, at, terms);
        let begin = change("ACTIVATE", "2026-01-05T00:00:00Z", monthly("2026-02-01"));
        deliver(&engine, &clock, &[begin]).await;
        let reported = text(&all(&engine, &BILLING_ACTIVITY).await[0], "subscription_id").to_owned();
        let report = |kind: &str, at: &str| payment(&format!("p-{kind}"), kind, &reported, "c-1", &on(at));
        let before: Vec<Sent> = match name {
            "scheduled" => vec![],
            "sent" => vec![report("SUBMITTED", "08:00")],
            "failed" | "two_due" => vec![report("SUBMITTED", "08:00"), report("RETURNED", "20:00")],
            "paused" => vec![change("PAUSE", "2026-01-20T00:00:00Z", json!({"pause_duration_months": 2}))],
            "completed" => vec![report("SUBMITTED", "08:00"), report("COMPLETED", "20:00")],
            "cancelling" => vec![
                report("SUBMITTED", "08:00"),
                report("COMPLETED", "20:00"),
                change("CANCEL", &on("21:00"), json!(null)),
            ],
            other => panic!("no member {other}"),
        };
        for sent in &before {
            let outcomes = deliver(&engine, &clock, std::slice::from_ref(sent)).await;
            assert_eq!(outcomes, [Outcome::Applied], "{sent:?}");
        }
        let mut rows = Vec::new();
        for table in EMBEDDED {
            rows.extend(all(&engine, table).await.into_iter().map(|row| (table, row)));
        }
        let mut billing = all(&engine, &BILLING_ACTIVITY).await;
        billing.sort_by_key(|row| text(row, "billing_date").to_owned());
        let is_open = |row: &&Item| !matches!(text(row, "billing_status"), "COMPLETED" | "CANCELLED");
        let open = billing.iter().find(is_open).map(|row| text(row, "subscription_id").to_owned()).unwrap();
        let now = t(if name == "two_due" { "2026-03-03T08:00:00Z" } else { "2026-02-03T08:00:00Z" });
        let transaction = (before.len() > 1 || name == "sent").then_some("c-1");
        let second = billing.get(1).map(|row| text(row, "subscription_id").to_owned()).unwrap_or_default();
        Self { name, rows, now, reported, transaction, open, second, has_locks: true }
    }

    /// The banks are closed on the Saturday after: nothing is debited.
    fn saturday(&self) -> Time {
        self.now + TimeDelta::days(4)
    }

    /// The acts as actors on a fresh copy of the member's rows.
    pub(super) async fn world(&self, acts: &[Act], traced: bool) -> World<Memory> {
        self.world_on(Memory::default(), acts, traced).await
    }

    /// The acts as actors on an empty engine, which gets the member's rows.
    pub(super) async fn world_on<E: Engine>(&self, tables: E, acts: &[Act], traced: bool) -> World<E> {
        for (table, row) in &self.rows {
            tables.put(table, row.clone(), Condition::Always).await.unwrap();
        }
        let clock = TestClock::manual(self.now);
        let stage = Stage::new(acts.len(), traced);
        let mut actors: Vec<BoxFuture<'static, String>> = Vec::new();
        for (actor, act) in acts.iter().copied().enumerate() {
            if act.kind == "pay" || act.kind.starts_with("debit") {
                stage.may_debit(actor);
            }
            let engine = Stepped::new(tables.clone(), stage.clone(), actor);
            let engine = if self.has_locks { engine } else { engine.with_own_locks() };
            let system = System::new(engine.clone(), SteppedGateway(engine), &clock);
            let member = self.clone();
            actors.push(Box::pin(async move { member.act(&system, act).await }));
        }
        World { stage, clock, actors, tables }
    }

    /// Performs one act; says how it ended.
    async fn act<E: Engine, G: Gateway>(&self, system: &System<E, G>, act: Act) -> String {
        match act.kind {
            "debit" => system.collect(None).await,
            "debit of one" => system.collect(Some(&self.reported)).await,
            "debit of the other" => system.collect(Some(&self.second)).await,
            "pay" | "waive" | "move" | "cancel" | "pause" | "resume" => {
                system.operate(act.kind, &self.open).await
            }
            _ => {
                let mut outcome = Outcome::Skipped;
                // A stream delivers a failed record again.
                for _ in 0..5 {
                    let sent = [self.event(act)];
                    outcome = deliver(&system.engine, &system.clock, &sent).await.remove(0);
                    if !matches!(outcome, Outcome::Failed(_)) {
                        return format!("{outcome:?}");
                    }
                }
                format!("{FAILED}{outcome:?}")
            }
        }
    }

    /// The event of an actor, as its stream delivers it.
    fn event(&self, Act { kind, n, minute }: Act) -> Sent {
        let at = format!("{}T08:{:02}:00Z", self.now.format("%Y-%m-%d"), minute);
        let event_id = format!("e-{kind}-{n}");
        let day = |days: i64| (self.now + TimeDelta::days(days)).format("%Y-%m-%d").to_string();
        match kind {
            "SUBMITTED" if matches!(self.name, "failed" | "two_due") => {
                payment(&event_id, kind, &self.reported, "c-2", &at)
            }
            "SUBMITTED" | "COMPLETED" | "RETURNED" | "REFUNDED" | "CHARGED_BACK" => {
                payment(&event_id, kind, &self.reported, self.transaction.unwrap_or("c-2"), &at)
            }
            "ACTIVATE" => membership(&event_id, kind, USER, &at, monthly(&day(9))),
            "REACTIVATE" => membership(&event_id, kind, USER, &at, monthly(&day(7))),
            // Due when the oldest record is: one of the two has to make room.
            "REACTIVATE on its date" => membership(&event_id, "REACTIVATE", USER, &at, monthly("2026-02-01")),
            "PAUSE" => membership(&event_id, kind, USER, &at, json!({"pause_duration_months": 2})),
            "UPGRADE" => {
                membership(&event_id, kind, USER, &at, json!({"tier":"Pro","version":"v1","amount":"39.99"}))
            }
            "DOWNGRADE" => {
                membership(&event_id, kind, USER, &at, json!({"tier":"Basic","version":"v1","amount":"4.99"}))
            }
            _ => membership(&event_id, kind, USER, &at, json!(null)),
        }
    }

    /// The books after the ordinary follow-up: a run of the collector on a day when nothing is debited.
    pub(super) async fn books<E: Engine>(&self, ended: &Ended<E>) -> Books {
        let stage = Stage::free(ended.stage.debits());
        let gateway = SteppedGateway(Stepped::new(ended.tables.clone(), stage.clone(), 0));
        let clock = TestClock::manual(self.saturday());
        System::new(ended.tables.clone(), gateway, &clock).follow_up().await;
        Books::read(&ended.tables, stage.debits()).await
    }
}

fn payment(event_id: &str, kind: &str, record: &str, transaction: &str, at: &str) -> Sent {
    let (status, code) = match kind {
        "SUBMITTED" => ("PENDING", None),
        "COMPLETED" => ("COMPLETED", None),
        "RETURNED" => ("FAILED", Some("R01")),
        "REFUNDED" => ("REFUNDED", None),
        "CHARGED_BACK" => ("CHARGED_BACK", Some("R10")),
        other => panic!("no payment {other}"),
    };
    let record = json!({"event_id": event_id, "type": format!("SUBSCRIPTION_{kind}"), "occurred_at": at,
        "payment": {"payment_id": format!("p-{transaction}"), "subscription_id": record, "user_id": USER,
            "status": status, "amount": "14.99", "currency": "USD", "processor": "JPM",
            "confirmation_id": transaction, "payment_type": "ACH", "account_mask": "6789",
            "return_code": code, "message": null}});
    ("site-payments", record)
}
