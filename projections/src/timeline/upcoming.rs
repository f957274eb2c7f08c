//! What comes next, and when: evaluates the eligibility rules of collections day by day.

use chrono::{Days, NaiveTime, TimeDelta};
use dues_events::billing::decide::resume_date;
use dues_events::billing::record::{Record, State};
use dues_events::calendar::banking_days_after;
use dues_events::collections::eligibility::{
    CollectionRequest, Eligibility, Reason, Rules, Trigger, eligibility,
};
use dues_events::collections::incomes::Incomes;
use dues_events::collections::retry_plan::{RetryPlan, retry_plan};
use dues_events::{GoTime, SubscriptionId, Time};

/// How many days to look ahead: enough for a year's dues and for a pause of a year.
const AHEAD: u64 = 400;
/// When the jobs run, in hours after midnight UTC.
const RETRY_HOUR: i64 = 7;
const INITIAL_HOUR: i64 = 8;
/// How many banking days an ordinary return may take.
const SETTLING: u32 = 2;

/// Something that will happen, or will not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upcoming {
    /// When; `None` if no time is known.
    pub at: Option<Time>,
    /// The record.
    pub record: SubscriptionId,
    /// What, in a sentence.
    pub sentence: String,
}

/// What comes next for a member with these records.
#[must_use]
pub fn next(records: &[Record], incomes: &Incomes, rules: &Rules, now: Time) -> Vec<Upcoming> {
    let member = Member { records, incomes, rules };
    let mut all: Vec<Upcoming> =
        records.iter().filter_map(|record| of_record(record, &member, now)).collect();
    all.sort_by_key(|next| (next.at.is_none(), next.at));
    all
}

/// What the rules look at.
struct Member<'a> {
    records: &'a [Record],
    incomes: &'a Incomes,
    rules: &'a Rules,
}

fn of_record(record: &Record, member: &Member<'_>, now: Time) -> Option<Upcoming> {
    let upcoming = |at: Option<Time>, sentence: String| {
        Some(Upcoming { at, record: record.subscription_id.clone(), sentence })
    };
    match &record.state {
        State::Scheduled => match first(Trigger::Initial, INITIAL_HOUR, record, member, now) {
            Ok((at, verdict)) => upcoming(Some(at), will(record, &verdict)),
            Err(reason) => upcoming(None, format!("It will not be collected: {reason}.")),
        },
        State::Error(_) => match first(Trigger::Retry, RETRY_HOUR, record, member, now) {
            Ok((at, verdict @ Eligibility::Collect(_))) => {
                let plan = retry_plan(member.rules, record, Some(member.incomes));
                let planned = plan.filter(|plan| plan.at.date_naive() == at.date_naive());
                upcoming(
                    Some(at),
                    planned.map_or_else(|| will(record, &verdict), |plan| again(record, &plan)),
                )
            }
            Ok((at, verdict)) => upcoming(Some(at), will(record, &verdict)),
            Err(reason) => upcoming(None, format!("It will not be presented again: {reason}.")),
        },
        State::AchSent(Some(_)) => {
            let sent = record.last_run_date.as_ref().map_or(now, GoTime::at);
            let by = banking_days_after(sent.date_naive(), SETTLING).and_time(NaiveTime::MIN).and_utc();
            upcoming(
                Some(by.max(now)),
                format!("The bank settles or returns ${} by then.", record.plan.amount),
            )
        }
        State::AchSent(None) => {
            upcoming(None, "The gateway is asked what became of the debit, with the next run.".to_owned())
        }
        State::Paused(_) => {
            let resume = resume_date(record)?;
            upcoming(
                Some(resume.max(now)),
                "The pause ends, and the next period's record takes over.".to_owned(),
            )
        }
        State::Completed(_)
        | State::Waived(_)
        | State::Cancelled(_)
        | State::PausedSkipped(..)
        | State::Refunded(_)
        | State::Stale(_) => None,
    }
}

/// The first run that acts on a record, and its verdict; or the reason why none will.
fn first(
    run: Trigger,
    hour: i64,
    record: &Record,
    member: &Member<'_>,
    now: Time,
) -> Result<(Time, Eligibility), Reason> {
    let incomes = Some(member.incomes.clone());
    let request = CollectionRequest { incomes, ..CollectionRequest::triggered_by(run) };
    let mut reason = Reason::Superseded;
    for day in 0..AHEAD {
        let Some(day) = now.date_naive().checked_add_days(Days::new(day)) else { break };
        let at = day.and_time(NaiveTime::MIN).and_utc() + TimeDelta::hours(hour);
        if at < now {
            continue;
        }
        match eligibility(member.rules, &request, record, member.records, at) {
            Eligibility::Skip(
                why @ (Reason::NotDue(_) | Reason::BanksClosed(_) | Reason::RetryPlanned(_)),
            ) => reason = why,
            Eligibility::Skip(why) => return Err(why),
            verdict @ (Eligibility::Collect(_)
            | Eligibility::Complete
            | Eligibility::Resolve(_)
            | Eligibility::Cancel
            | Eligibility::Stale
            | Eligibility::Expire
            | Eligibility::Remind) => return Ok((at, verdict)),
        }
    }
    Err(reason)
}

fn will(record: &Record, verdict: &Eligibility) -> String {
    match verdict {
        Eligibility::Collect(_) if !record.attempts.is_empty() => format!("{}.", presented_again(record)),
        Eligibility::Collect(_) => {
            format!("${} for {} are debited.", record.plan.amount, record.plan.tier.as_str())
        }
        Eligibility::Complete => "Nothing is to pay: the period is completed.".to_owned(),
        Eligibility::Cancel => "The cancellation takes effect.".to_owned(),
        Eligibility::Stale => "It has become too old to be collected.".to_owned(),
        Eligibility::Resolve(_) => "The gateway is asked what became of the debit.".to_owned(),
        Eligibility::Expire => "The pause ends.".to_owned(),
        Eligibility::Remind => "The member is notified that the pause ends.".to_owned(),
        Eligibility::Skip(reason) => format!("Nothing: {reason}."),
    }
}

/// A planned presentment, with its day and the reason.
fn again(record: &Record, plan: &RetryPlan) -> String {
    format!("{}, {plan}.", presented_again(record))
}

fn presented_again(record: &Record) -> String {
    let (amount, nth) = (record.plan.amount, nth(record.attempts.count() + 1));
    format!("${amount} are presented to the bank again, for the {nth} time")
}

fn nth(n: u32) -> String {
    match n {
        2 => "second".to_owned(),
        3 => "third".to_owned(),
        n => format!("{n}th"),
    }
}
