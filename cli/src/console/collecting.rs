//! What will be collected: asked of the same rules that collect, about as many failed records as one page can ask about.

use chrono::{NaiveDate, NaiveTime, TimeDelta};
use dues_events::Time;
use dues_events::calendar::banking_day_from;
use dues_events::collect::{Ask, Run, Verdict, judge};
use dues_store::user::RECENT;

use super::Console;
use super::sums::Cell;
use crate::output::Error;

/// How many failed records are asked about, at the most.
const MOST: u64 = 5000;
/// When failed records are presented again, in hours after midnight.
const RETRY_HOUR: i64 = 7;

/// What becomes of failed records at the next run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Failed {
    /// When the next run is.
    pub(super) at: Time,
    /// Presented to the bank again.
    pub(super) again: Cell,
    /// Left, for a reason that time alone does not change.
    pub(super) left: Cell,
    /// Given up for their age.
    pub(super) stale: Cell,
    /// Whether there are more than were asked about.
    pub(super) more: bool,
}

impl Console {
    /// Asks about failed records, each with its member's other records.
    pub(super) async fn failed(&self, now: Time) -> Result<Failed, Error> {
        let mut failed = Failed { at: next_run(now), ..Failed::default() };
        let ask = Ask::of(Run::Retry);
        let (mut start, mut seen) = (None, 0);
        loop {
            let page = self.store.failed_page(start).await?;
            for record in &page.records {
                if seen == MOST {
                    failed.more = true;
                    return Ok(failed);
                }
                seen += 1;
                let others = self.store.get_recent_subscriptions(&record.user_id, RECENT).await?;
                let cell = Cell { count: 1, amount: record.plan.amount.decimal() };
                match judge(&self.rules, &ask, record, &others, failed.at) {
                    Verdict::Collect(_) | Verdict::Complete => failed.again = failed.again.plus(cell),
                    Verdict::Stale => failed.stale = failed.stale.plus(cell),
                    Verdict::Leave(_) | Verdict::Resolve(_) | Verdict::Cancel | Verdict::Expire | Verdict::Remind => {
                        failed.left = failed.left.plus(cell);
                    }
                }
            }
            match page.next {
                Some(next) => start = Some(next),
                None => return Ok(failed),
            }
        }
    }
}

/// The first run after a time, on a day on which banks are open.
fn next_run(now: Time) -> Time {
    let run = |day: NaiveDate| day.and_time(NaiveTime::MIN).and_utc() + TimeDelta::hours(RETRY_HOUR);
    let today = banking_day_from(now.date_naive());
    if run(today) > now { run(today) } else { run(today.succ_opt().map_or(today, banking_day_from)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_run_is_on_a_banking_day() {
        let at = |text: &str| dues_events::time::parse(text).unwrap();
        for (now, next) in [
            ("2026-04-30T06:00:00Z", "2026-04-30T07:00:00Z"),
            ("2026-04-30T07:00:00Z", "2026-05-01T07:00:00Z"),
            ("2026-05-01T22:00:00Z", "2026-05-04T07:00:00Z"),
            ("2026-05-23T12:00:00Z", "2026-05-26T07:00:00Z"),
        ] {
            assert_eq!(next_run(at(now)), at(next), "after {now}");
        }
    }
}
