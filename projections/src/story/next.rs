//! What comes next, and when: the very rules that collect are asked, day by day.

use chrono::{Days, NaiveTime, TimeDelta};
use dues_events::calendar::banking_days_after;
use dues_events::collect::{Ask, Reason, Rules, Run, Verdict, judge};
use dues_events::decide::resume_date;
use dues_events::record::{Record, State};
use dues_events::{GoTime, SubscriptionId, Time};

/// How many days ahead are looked at: a year's dues and a pause of a year.
const AHEAD: u64 = 400;
/// When the jobs run, in hours after midnight.
const RETRY_HOUR: i64 = 7;
const INITIAL_HOUR: i64 = 8;
/// How many banking days an ordinary return may take.
const SETTLING: u32 = 2;

/// Something that will happen, or will not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    /// When; `None` when it depends on somebody.
    pub at: Option<Time>,
    /// Which record.
    pub record: SubscriptionId,
    /// What, in a sentence.
    pub sentence: String,
}

/// What comes next for a member with these records.
#[must_use]
pub fn next(records: &[Record], rules: &Rules, now: Time) -> Vec<Next> {
    let mut all: Vec<Next> = records.iter().filter_map(|record| of_record(record, records, rules, now)).collect();
    all.sort_by_key(|next| (next.at.is_none(), next.at));
    all
}

fn of_record(record: &Record, of_user: &[Record], rules: &Rules, now: Time) -> Option<Next> {
    let told = |at: Option<Time>, sentence: String| Some(Next { at, record: record.subscription_id.clone(), sentence });
    match &record.state {
        State::Scheduled(_) => match first(Run::Initial, INITIAL_HOUR, record, of_user, rules, now) {
            Ok((at, verdict)) => told(Some(at), will(record, &verdict)),
            Err(reason) => told(None, format!("It will not be collected: {reason}.")),
        },
        State::Error(_) => match first(Run::Retry, RETRY_HOUR, record, of_user, rules, now) {
            Ok((at, verdict)) => told(Some(at), will(record, &verdict)),
            Err(reason) => told(None, format!("It will not be presented again: {reason}.")),
        },
        State::AchSent(Some(_)) => {
            let sent = record.last_run_date.as_ref().map_or(now, GoTime::at);
            let by = banking_days_after(sent.date_naive(), SETTLING).and_time(NaiveTime::MIN).and_utc();
            told(Some(by.max(now)), format!("The bank settles or returns ${} by then.", record.plan.amount))
        }
        State::AchSent(None) => told(None, "The gateway is asked what became of the debit, with the next run.".to_owned()),
        State::Paused(_) => {
            let resume = resume_date(record)?;
            told(Some(resume.max(now)), "The pause ends, and the next period's record takes over.".to_owned())
        }
        State::Completed(_) | State::Waived(_) | State::Cancelled(_) | State::PausedSkipped(..) | State::Refunded(_) | State::Stale(_) => {
            None
        }
    }
}

/// The first run that will do something about a record, and what; or why none will.
fn first(run: Run, hour: i64, record: &Record, of_user: &[Record], rules: &Rules, now: Time) -> Result<(Time, Verdict), Reason> {
    let ask = Ask::of(run);
    let mut reason = Reason::Superseded;
    for day in 0..AHEAD {
        let Some(day) = now.date_naive().checked_add_days(Days::new(day)) else { break };
        let at = day.and_time(NaiveTime::MIN).and_utc() + TimeDelta::hours(hour);
        if at < now {
            continue;
        }
        match judge(rules, &ask, record, of_user, at) {
            Verdict::Leave(why @ (Reason::NotDue(_) | Reason::BanksClosed(_))) => reason = why,
            Verdict::Leave(why) => return Err(why),
            verdict @ (Verdict::Collect(_)
            | Verdict::Complete
            | Verdict::Resolve(_)
            | Verdict::Cancel
            | Verdict::Stale
            | Verdict::Expire
            | Verdict::Remind) => return Ok((at, verdict)),
        }
    }
    Err(reason)
}

fn will(record: &Record, verdict: &Verdict) -> String {
    match verdict {
        Verdict::Collect(_) if record.attempts > 0 => {
            format!("${} are presented to the bank again, for the {} time.", record.plan.amount, nth(record.attempts + 1))
        }
        Verdict::Collect(_) => format!("${} for {} are debited.", record.plan.amount, record.plan.tier.as_str()),
        Verdict::Complete => "Nothing is to pay: the period is completed.".to_owned(),
        Verdict::Cancel => "The cancellation takes effect.".to_owned(),
        Verdict::Stale => "It has become too old to be collected.".to_owned(),
        Verdict::Resolve(_) => "The gateway is asked what became of the debit.".to_owned(),
        Verdict::Expire => "The pause ends.".to_owned(),
        Verdict::Remind => "The member is told that the pause ends.".to_owned(),
        Verdict::Leave(reason) => format!("Nothing: {reason}."),
    }
}

fn nth(n: u32) -> String {
    match n {
        2 => "second".to_owned(),
        3 => "third".to_owned(),
        n => format!("{n}th"),
    }
}
