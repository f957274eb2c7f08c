//! Collecting with the program, and the ledger of the simulated network behind it.

use dues_events::{Item, Record};
use dues_store::embedded::Embedded;
use dues_store::table::{BILLING_ACTIVITY, LOCKS, SANDBOX, Table};
use dues_store::{Condition, Engine as _};
use serde_json::Value;
use std::collections::BTreeMap;

use crate::support::run::Dues;

/// The counts of a run that are outcomes of records and members.
const COUNTS: [&str; 12] = [
    "sent",
    "collected",
    "refused",
    "in_doubt",
    "free",
    "cancelled",
    "stale",
    "pause_expired",
    "pause_ending",
    "locked",
    "failed",
    "withdrawn",
];

/// A debit in the network's ledger.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Booked {
    pub(crate) submitted: String,
    pub(crate) key: String,
    pub(crate) user: String,
    pub(crate) subscription: String,
    pub(crate) amount: String,
    pub(crate) transaction: String,
    /// `accepted`, `collected`, or the code with which it was refused.
    pub(crate) answer: String,
}

impl Dues {
    /// A run of the job; see [`tally`].
    pub(crate) fn collect(&self, process: &str, as_of: &str) -> BTreeMap<String, u64> {
        self.collect_with(process, as_of, &[], &[])
    }

    pub(crate) fn collect_with(
        &self,
        process: &str,
        as_of: &str,
        more: &[&str],
        settings: &[(&str, &str)],
    ) -> BTreeMap<String, u64> {
        tally(
            &self.json_with(&[&["collect", "--process", process, "--as-of", as_of], more].concat(), settings),
        )
    }

    /// Gives a member an account; its last four digits determine the outcome of debits.
    pub(crate) fn account(&self, user: &str, mask: &str) {
        self.ok(&["sandbox", "account", user, mask]);
    }

    /// Ingests the network's events, and returns how many there were. None may be parked, ignored or a
    /// duplicate.
    pub(crate) fn deliver(&self, as_of: &str) -> u64 {
        let summary = self.json(&["sandbox", "deliver", "--as-of", as_of]);
        for outcome in ["parked", "ignored", "duplicate"] {
            assert_eq!(summary[outcome], 0, "{summary}");
        }
        summary["applied"].as_u64().unwrap()
    }

    /// All debits requested from the network, in order of time. Only while no program has the data open.
    pub(crate) fn books(&self) -> Vec<Booked> {
        let text =
            |row: &Item, name: &str| row.text(name).unwrap_or_else(|| panic!("{name} of {row:?}")).to_owned();
        let debits = self.rows(&SANDBOX).into_iter().filter(|row| row.text("submitted_at").is_some());
        let mut booked: Vec<Booked> = debits
            .map(|row| Booked {
                submitted: text(&row, "submitted_at"),
                key: text(&row, SANDBOX.partition),
                user: text(&row, "user_id"),
                subscription: text(&row, "subscription_id"),
                amount: text(&row, "amount"),
                transaction: text(&row, "transaction_id"),
                answer: text(&row, "answer"),
            })
            .collect();
        booked.sort();
        booked
    }

    /// The keys of a member's debits, in order of time.
    pub(crate) fn debits(&self, user: &str) -> Vec<String> {
        self.books().into_iter().filter(|booked| booked.user == user).map(|booked| booked.key).collect()
    }

    /// Every billing record.
    pub(crate) fn records(&self) -> Vec<Record> {
        self.rows(&BILLING_ACTIVITY).into_iter().map(|row| Record::from_item(row).unwrap()).collect()
    }

    /// The data, opened with the library.
    pub(crate) fn engine(&self) -> Embedded {
        Embedded::open(&self.data().join("dues.db")).unwrap()
    }

    fn rows(&self, table: &'static Table) -> Vec<Item> {
        let engine = self.engine();
        let all = async {
            let (mut rows, mut start) = (Vec::new(), None);
            loop {
                let page = engine.scan(table, start, 1000).await.unwrap();
                rows.extend(page.items);
                match page.next {
                    Some(next) => start = Some(next),
                    None => return rows,
                }
            }
        };
        wait_for(all)
    }

    /// Leaves a lock as a killed program does: it may still be held for a second.
    pub(crate) fn hold(&self, key: &str) {
        let mut row = Item::new();
        row.set_text(LOCKS.partition, key);
        row.set_text("ownerName", "dead");
        row.set_text("leaseDuration", "1s");
        row.set_text("recordVersionNumber", "7");
        wait_for(self.engine().put(&LOCKS, row, Condition::NoItem)).unwrap();
    }
}

/// Runs a future of the library to completion.
pub(crate) fn wait_for<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// The result of a run: the counts that are not zero, with `left.…` for skipped records.
pub(crate) fn tally(summary: &Value) -> BTreeMap<String, u64> {
    let count = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("no count in {summary}"));
    let mut counts: BTreeMap<String, u64> =
        COUNTS.iter().map(|name| ((*name).to_owned(), count(&summary[name]))).collect();
    counts.extend(
        summary["left"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(reason, left)| (format!("left.{reason}"), count(left))),
    );
    counts.retain(|_, count| *count > 0);
    counts
}
