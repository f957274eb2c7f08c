//! What all billing records come to: counts and sums by status, month and day. A record is added and taken away again, so that each change costs the
//! same however many records there are.

use chrono::{Datelike as _, NaiveDate};
use dues_events::record::{Record, Status};
use dues_events::{Item, Time};
use rust_decimal::Decimal;
use std::collections::BTreeMap;

/// How many, and how much together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) count: u64,
    pub(super) amount: Decimal,
}

/// One cell for each status, in the order of [`Status::ALL`].
pub(super) type Cells = [Cell; Status::ALL.len()];

/// The sums.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// All records.
    pub(super) all: Cells,
    /// By the month in which they fall due.
    pub(super) months: BTreeMap<(i32, u32), Cells>,
    /// Those that wait for their first debit, by the day on which they fall due.
    pub(super) due: BTreeMap<NaiveDate, Cell>,
    /// Paid, and not by the first debit.
    pub(super) recovered: Cell,
    /// Whose members may not be debited any more.
    pub(super) barred: Cell,
    /// Rows that cannot be read.
    pub(super) unreadable: u64,
    /// When something last happened to a record.
    pub(super) latest: Option<Time>,
}

impl Cell {
    fn change(&mut self, amount: Decimal, more: bool) {
        if more {
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

impl Sums {
    /// The cell of a status.
    pub(super) fn of(&self, status: Status) -> Cell {
        cell(&self.all, status)
    }

    /// How many records there are.
    pub(super) fn records(&self) -> u64 {
        self.all.iter().map(|cell| cell.count).sum()
    }

    /// Counts a row that has come; gives the record.
    pub(super) fn add(&mut self, item: Item) -> Option<Record> {
        self.change(item, true)
    }

    /// Takes a row out that has gone; gives the record.
    pub(super) fn take(&mut self, item: Item) -> Option<Record> {
        self.change(item, false)
    }

    fn change(&mut self, item: Item, more: bool) -> Option<Record> {
        let Ok(record) = Record::from_item(item) else {
            self.unreadable = if more { self.unreadable + 1 } else { self.unreadable.saturating_sub(1) };
            return None;
        };
        // On its way to another due date: it is counted there.
        if record.moved_to.is_some() {
            return None;
        }
        let (amount, due) = (record.plan.amount.decimal(), record.billing_date.at().date_naive());
        let place = place(record.status());
        self.all[place].change(amount, more);
        let month = self.months.entry((due.year(), due.month())).or_default();
        month[place].change(amount, more);
        if month.iter().all(|cell| cell.count == 0) {
            self.months.remove(&(due.year(), due.month()));
        }
        if record.status() == Status::Scheduled {
            let day = self.due.entry(due).or_default();
            day.change(amount, more);
            if day.count == 0 {
                self.due.remove(&due);
            }
        }
        if record.status() == Status::Completed && record.attempts > 1 {
            self.recovered.change(amount, more);
        }
        if record.bar.is_some() {
            self.barred.change(amount, more);
        }
        if more {
            self.latest = self.latest.max(record.last_run_date.as_ref().map(dues_events::GoTime::at));
        }
        Some(record)
    }
}

/// A status's cell of ten.
pub(super) fn cell(cells: &Cells, status: Status) -> Cell {
    cells[place(status)]
}

fn place(status: Status) -> usize {
    Status::ALL.iter().position(|known| *known == status).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dues_events::attr;

    fn row(status: &str, due: &str, amount: &str) -> Item {
        let mut item = Item::new();
        for (name, value) in [
            (attr::USER_ID, "u-1"),
            (attr::BILLING_DATE, due),
            (attr::SUBSCRIPTION_ID, "s-1"),
            (attr::BILLING_AMOUNT, amount),
            (attr::BILLING_STATUS, status),
        ] {
            item.set_text(name, value);
        }
        item
    }

    #[test]
    fn a_record_is_counted_where_it_stands_and_nowhere_when_it_goes() {
        let mut sums = Sums::default();
        let waiting = row("SCHEDULED", "2026-02-01T00:00:00Z", "14.99");
        sums.add(waiting.clone());
        sums.add(row("COMPLETED", "2026-01-01T00:00:00Z", "5"));
        assert_eq!(sums.records(), 2);
        assert_eq!(sums.of(Status::Scheduled), Cell { count: 1, amount: Decimal::new(1499, 2) });
        assert_eq!(sums.due.len(), 1);
        sums.take(waiting);
        sums.add(row("ACHSENT", "2026-02-01T00:00:00Z", "14.99"));
        assert_eq!((sums.of(Status::Scheduled).count, sums.of(Status::AchSent).count, sums.due.len()), (0, 1, 0));
        assert_eq!(sums.months.len(), 2);
        sums.take(row("ACHSENT", "2026-02-01T00:00:00Z", "14.99"));
        assert_eq!(sums.months.keys().collect::<Vec<_>>(), [&(2026, 1)]);
    }

    #[test]
    fn what_cannot_be_read_is_counted_too() {
        let mut sums = Sums::default();
        let broken = row("NO SUCH STATUS", "2026-02-01T00:00:00Z", "1");
        sums.add(broken.clone());
        assert_eq!((sums.records(), sums.unreadable), (0, 1));
        sums.take(broken);
        assert_eq!(sums, Sums::default());
    }
}
