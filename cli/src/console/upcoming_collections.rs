//! What the next retry run will do with failed records, by the same eligibility rules that collect.

use chrono::{NaiveDate, NaiveTime, TimeDelta};
use dues_events::Time;
use dues_events::calendar::banking_day_from;
use dues_events::collections::eligibility::{CollectionRequest, Eligibility, Reason, Trigger, eligibility};
use dues_store::billing::user_records::RECENT;

use super::Console;
use super::aggregates::Cell;
use crate::output::Error;

/// Failed records that one page load checks.
const MAX_CHECKED: u64 = 5000;
/// When failed records are retried, in hours after midnight.
const RETRY_HOUR: i64 = 7;

/// The next retry run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NextRetry {
    pub(super) at: Time,
    /// Will be presented again.
    pub(super) collected: Cell,
    /// Will be presented again on a later day.
    pub(super) planned: Cell,
    /// Not eligible, for a reason that time alone does not change.
    pub(super) left: Cell,
    /// Will become stale.
    pub(super) stale: Cell,
    /// Whether there are more failed records than [`MAX_CHECKED`].
    pub(super) is_partial: bool,
}

impl Console {
    /// Evaluates failed records, each with its member's other records.
    pub(super) async fn next_retry(&self, now: Time) -> Result<NextRetry, Error> {
        let mut retry = NextRetry { at: next_run(now), ..NextRetry::default() };
        let request = CollectionRequest::triggered_by(Trigger::Retry);
        let (mut start, mut checked) = (None, 0);
        loop {
            let page = self.store.failed_page(start).await?;
            for record in &page.records {
                if checked == MAX_CHECKED {
                    retry.is_partial = true;
                    return Ok(retry);
                }
                checked += 1;
                let others = self.store.get_recent_subscriptions(&record.user_id, RECENT).await?;
                let mut verdict = eligibility(&self.rules, &request, record, &others, retry.at);
                if matches!(verdict, Eligibility::Collect(_)) {
                    let incomes = Some(self.store.incomes(&record.user_id).await?);
                    let request = CollectionRequest { incomes, ..request.clone() };
                    verdict = eligibility(&self.rules, &request, record, &others, retry.at);
                }
                let total = match verdict {
                    Eligibility::Skip(Reason::RetryPlanned(_)) => &mut retry.planned,
                    Eligibility::Collect(_) | Eligibility::Complete => &mut retry.collected,
                    Eligibility::Stale => &mut retry.stale,
                    Eligibility::Skip(_)
                    | Eligibility::Resolve(_)
                    | Eligibility::Cancel
                    | Eligibility::Expire
                    | Eligibility::Remind => &mut retry.left,
                };
                *total = total.plus(Cell { count: 1, amount: record.plan.amount.decimal() });
            }
            match page.next {
                Some(next) => start = Some(next),
                None => return Ok(retry),
            }
        }
    }
}

/// The first retry run after `now`, on a banking day.
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
