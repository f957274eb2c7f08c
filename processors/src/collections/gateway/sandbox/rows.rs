//! The rows of the sandbox's table: what happens to a debit or a refund, and how much of it was published.

use chrono::{NaiveDate, NaiveTime};
use dues_events::calendar::{banking_day_from, banking_days_after};
use dues_events::{GoTime, Item, Money, Time, Value};
use dues_store::table::{PENDING, SANDBOX};
use dues_store::{Condition, Edit, StoreError};

use super::{DebitFate, draw};

/// The time of day of every event but refunds that were asked for.
const MORNING: Option<NaiveTime> = NaiveTime::from_hms_opt(6, 0, 0);
/// Before a return or chargeback of the same day, which takes back what the refund left.
const REFUNDS: Option<NaiveTime> = NaiveTime::from_hms_opt(5, 59, 59);

/// What happens to a debit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepKind {
    Completed,
    Returned,
    Refunded,
    ChargedBack,
}

impl StepKind {
    const ALL: [Self; 4] = [Self::Completed, Self::Returned, Self::Refunded, Self::ChargedBack];

    /// The event type's last part.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "COMPLETED",
            Self::Returned => "RETURNED",
            Self::Refunded => "REFUNDED",
            Self::ChargedBack => "CHARGED_BACK",
        }
    }

    pub(super) fn payment_status(self) -> &'static str {
        match self {
            Self::Returned => "FAILED",
            Self::Completed | Self::Refunded | Self::ChargedBack => self.as_str(),
        }
    }
}

/// One event to come, or past.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) at: Time,
    pub(super) kind: StepKind,
    pub(super) code: Option<String>,
}

/// A refund of a debit, as the debit's row lists it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Booked {
    pub(super) at: Time,
    pub(super) amount: Money,
}

/// The transaction id of the debit with that key.
pub(super) fn transaction_of(key: &str) -> String {
    format!("sbx-{:016x}", draw(0, key))
}

/// The events of a debit in order: time, type and code.
pub(super) fn steps(fate: DebitFate, submitted: Time) -> Vec<String> {
    let second = banking_days_after(banking_day_from(submitted.date_naive()), 2);
    let later = |days: u64| on(banking_day_from(second + chrono::Days::new(days)));
    let settled = step_text(on(second), StepKind::Completed, "");
    match fate {
        DebitFate::Settles => vec![settled],
        DebitFate::Returned(code) => vec![step_text(on(second), StepKind::Returned, code.as_str())],
        DebitFate::ReturnedLate(code) => {
            vec![settled, step_text(later(21), StepKind::Returned, code.as_str())]
        }
        DebitFate::Refunded => vec![settled, step_text(later(5), StepKind::Refunded, "")],
        DebitFate::ChargedBack => vec![settled, step_text(later(30), StepKind::ChargedBack, "R10")],
        DebitFate::AtOnce | DebitFate::Refused(_) => Vec::new(),
    }
}

fn on(day: NaiveDate) -> Time {
    day.and_time(MORNING.unwrap_or_default()).and_utc()
}

/// When a refund that was asked for now has gone back: on the next banking day that has not begun.
pub(super) fn refund_time(now: Time) -> Time {
    let at = |day: NaiveDate| day.and_time(REFUNDS.unwrap_or_default()).and_utc();
    let today = at(banking_day_from(now.date_naive()));
    if today > now { today } else { at(banking_days_after(today.date_naive(), 1)) }
}

pub(super) fn step_text(at: Time, kind: StepKind, code: &str) -> String {
    format!("{} {} {code}", GoTime::nine_digits(at).text(), kind.as_str()).trim_end().to_owned()
}

/// The edits that announce a row's next event, or clear it after the last one.
pub(super) fn next_event(row: &Item, published: u64) -> Result<[Edit; 2], StoreError> {
    Ok(match nth_step(row, published)? {
        Some(step) => [
            Edit::Set("next_at", Value::text(GoTime::nine_digits(step.at).text())),
            Edit::Set(PENDING.partition, Value::text("1")),
        ],
        None => [Edit::Remove("next_at"), Edit::Remove(PENDING.partition)],
    })
}

/// Announces the first event of a row that is not stored yet.
pub(super) fn announce(row: &mut Item) -> Result<(), StoreError> {
    for edit in next_event(row, 0)? {
        match edit {
            Edit::Set(name, value) => row.set(name, value),
            Edit::Remove(name) => drop(row.remove(name)),
            Edit::Add(..) => {}
        }
    }
    Ok(())
}

pub(super) fn nth_step(row: &Item, n: u64) -> Result<Option<Step>, StoreError> {
    usize::try_from(n).ok().and_then(|n| texts(row, "steps").nth(n)).map(read_step).transpose()
}

pub(super) fn all_steps(row: &Item) -> Result<Vec<Step>, StoreError> {
    texts(row, "steps").map(read_step).collect()
}

fn read_step(text: &str) -> Result<Step, StoreError> {
    let mut fields = text.split(' ');
    let step = (|| {
        let at = dues_events::time::parse(fields.next()?).ok()?;
        let name = fields.next()?;
        let kind = StepKind::ALL.into_iter().find(|kind| kind.as_str() == name)?;
        Some(Step { at, kind, code: fields.next().map(str::to_owned) })
    })();
    step.ok_or_else(|| unreadable(text))
}

/// The refunds that a debit's row lists.
pub(super) fn refunds(row: &Item) -> Result<Vec<Booked>, StoreError> {
    let read = |text: &str| {
        let (at, amount) = text.split_once(' ')?;
        Some(Booked { at: dues_events::time::parse(at).ok()?, amount: amount.parse().ok()? })
    };
    texts(row, "refunds").map(|text| read(text).ok_or_else(|| unreadable(text))).collect()
}

/// The row's refunds and one more.
pub(super) fn with_refund(row: &Item, at: Time, amount: Money) -> Value {
    let more = format!("{} {amount}", GoTime::nine_digits(at).text());
    Value::L(texts(row, "refunds").map(str::to_owned).chain([more]).map(Value::text).collect())
}

/// How much money an event moves: a return, refund or chargeback of a settled debit takes what earlier
/// refunds have left.
pub(super) fn amount_of(row: &Item, kind: StepKind) -> Result<Money, StoreError> {
    let amount = amount(row)?;
    match kind {
        StepKind::Completed => Ok(amount),
        StepKind::Returned | StepKind::Refunded | StepKind::ChargedBack => {
            refunds(row)?.iter().try_fold(amount, |left, refund| subtract(left, refund.amount))
        }
    }
}

pub(super) fn amount(row: &Item) -> Result<Money, StoreError> {
    let text = row.text("amount").unwrap_or_default();
    text.parse().map_err(|_| unreadable(text))
}

pub(super) fn subtract(from: Money, amount: Money) -> Result<Money, StoreError> {
    from.checked_sub(amount).map_err(|error| StoreError::Invalid(format!("{}: {error}", SANDBOX.name)))
}

/// Holds while no event of the row was published and no refund booked since it was read.
pub(super) fn unchanged(row: &Item) -> Condition {
    let same = |name: &'static str| match row.get(name) {
        Some(value) => Condition::Equals(name, value.clone()),
        None => Condition::Missing(name),
    };
    Condition::All(vec![same("told"), same("refunds")])
}

pub(super) fn number(row: &Item, name: &str) -> u64 {
    match row.get(name) {
        Some(Value::N(number)) => number.parse().unwrap_or(0),
        Some(_) | None => 0,
    }
}

fn texts<'a>(row: &'a Item, name: &str) -> impl Iterator<Item = &'a str> {
    let list = match row.get(name) {
        Some(Value::L(list)) => list.as_slice(),
        Some(_) | None => &[],
    };
    list.iter().filter_map(Value::as_text)
}

fn unreadable(text: &str) -> StoreError {
    StoreError::Invalid(format!("{}: unreadable {text:?}", SANDBOX.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refunds_go_back_on_the_next_banking_day() {
        let t = |text: &str| dues_events::time::parse(text).unwrap();
        for (asked, back) in [
            // Wednesday, before and after the run; Friday; Saturday; the day before Christmas.
            ("2026-02-04T05:00:00Z", "2026-02-04T05:59:59Z"),
            ("2026-02-04T06:00:00Z", "2026-02-05T05:59:59Z"),
            ("2026-02-06T12:00:00Z", "2026-02-09T05:59:59Z"),
            ("2026-02-07T12:00:00Z", "2026-02-09T05:59:59Z"),
            ("2026-12-24T12:00:00Z", "2026-12-28T05:59:59Z"),
        ] {
            assert_eq!(refund_time(t(asked)), t(back), "{asked}");
        }
    }
}
