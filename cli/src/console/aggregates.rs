//! Counts and amounts of all billing records by status, month and day. A change removes the old image and
//! adds the new one, so its cost does not depend on the number of records.

use chrono::{Datelike as _, NaiveDate};
use dues_events::billing::record::{Record, Status};
use dues_events::{Item, Time};
use rust_decimal::Decimal;
use std::collections::BTreeMap;

/// A number of records and their total amount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) count: u64,
    pub(super) amount: Decimal,
}

/// One cell for each status, in the order of [`Status::ALL`].
pub(super) type Cells = [Cell; Status::ALL.len()];

/// The totals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Aggregates {
    /// All records.
    pub(super) all: Cells,
    /// By due month.
    pub(super) months: BTreeMap<(i32, u32), Cells>,
    /// Scheduled records by due date.
    pub(super) due: BTreeMap<NaiveDate, Cell>,
    /// Paid after more than one attempt.
    pub(super) recovered: Cell,
    /// Barred from further debits.
    pub(super) barred: Cell,
    /// Unreadable rows.
    pub(super) unreadable: u64,
    /// The latest event of any record.
    pub(super) latest: Option<Time>,
}

impl Cell {
    fn change(&mut self, amount: Decimal, is_added: bool) {
        if is_added {
            self.count += 1;
            self.amount = self.amount.saturating_add(amount);
        } else {
            self.count = self.count.saturating_sub(1);
            self.amount = self.amount.saturating_sub(amount);
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { count: self.count + other.count, amount: self.amount.saturating_add(other.amount) }
    }
}

impl Aggregates {
    /// All records of a status.
    pub(super) fn of(&self, status: Status) -> Cell {
        cell(&self.all, status)
    }

    /// The number of records.
    pub(super) fn records(&self) -> u64 {
        self.all.iter().map(|cell| cell.count).sum()
    }

    /// Adds a row; returns its record.
    pub(super) fn add(&mut self, item: Item) -> Option<Record> {
        self.change(item, true)
    }

    /// Removes a row; returns its record.
    pub(super) fn remove(&mut self, item: Item) -> Option<Record> {
        self.change(item, false)
    }

    fn change(&mut self, item: Item, is_added: bool) -> Option<Record> {
        let Ok(record) = Record::from_item(item) else {
            self.unreadable = if is_added { self.unreadable + 1 } else { self.unreadable.saturating_sub(1) };
            return None;
        };
        // Moved to another due date: counted there.
        if record.moved_to.is_some() {
            return None;
        }
        let (amount, due) = (record.plan.amount.decimal(), record.billing_date.at().date_naive());
        let index = index(record.status());
        self.all[index].change(amount, is_added);
        let month = self.months.entry((due.year(), due.month())).or_default();
        month[index].change(amount, is_added);
        if month.iter().all(|cell| cell.count == 0) {
            self.months.remove(&(due.year(), due.month()));
        }
        if record.status() == Status::Scheduled {
            let day = self.due.entry(due).or_default();
            day.change(amount, is_added);
            if day.count == 0 {
                self.due.remove(&due);
            }
        }
        if record.status() == Status::Completed && record.attempts.count() > 1 {
            self.recovered.change(amount, is_added);
        }
        if record.bar.is_some() {
            self.barred.change(amount, is_added);
        }
        if is_added {
            self.latest = self.latest.max(record.last_run_date.as_ref().map(dues_events::GoTime::at));
        }
        Some(record)
    }
}

/// The cell of a status.
pub(super) fn cell(cells: &Cells, status: Status) -> Cell {
    cells[index(status)]
}

fn index(status: Status) -> usize {
    Status::ALL.iter().position(|known| *known == status).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dues_events::attributes;

    fn row(status: &str, due: &str, amount: &str) -> Item {
        let mut item = Item::new();
        for (name, value) in [
            (attributes::USER_ID, "u-1"),
            (attributes::BILLING_DATE, due),
            (attributes::SUBSCRIPTION_ID, "s-1"),
            (attributes::BILLING_AMOUNT, amount),
            (attributes::BILLING_STATUS, status),
        ] {
            item.set_text(name, value);
        }
        item
    }

    #[test]
    fn records_are_added_and_removed() {
        let mut aggregates = Aggregates::default();
        let waiting = row("SCHEDULED", "2026-02-01T00:00:00Z", "14.99");
        aggregates.add(waiting.clone());
        aggregates.add(row("COMPLETED", "2026-01-01T00:00:00Z", "5"));
        assert_eq!(aggregates.records(), 2);
        assert_eq!(aggregates.of(Status::Scheduled), Cell { count: 1, amount: Decimal::new(1499, 2) });
        assert_eq!(aggregates.due.len(), 1);
        aggregates.remove(waiting);
        aggregates.add(row("ACHSENT", "2026-02-01T00:00:00Z", "14.99"));
        assert_eq!(
            (
                aggregates.of(Status::Scheduled).count,
                aggregates.of(Status::AchSent).count,
                aggregates.due.len()
            ),
            (0, 1, 0)
        );
        assert_eq!(aggregates.months.len(), 2);
        aggregates.remove(row("ACHSENT", "2026-02-01T00:00:00Z", "14.99"));
        assert_eq!(aggregates.months.keys().collect::<Vec<_>>(), [&(2026, 1)]);
    }

    #[test]
    fn unreadable_rows_are_counted() {
        let mut aggregates = Aggregates::default();
        let broken = row("NO SUCH STATUS", "2026-02-01T00:00:00Z", "1");
        aggregates.add(broken.clone());
        assert_eq!((aggregates.records(), aggregates.unreadable), (0, 1));
        aggregates.remove(broken);
        assert_eq!(aggregates, Aggregates::default());
    }
}
