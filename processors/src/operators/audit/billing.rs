//! Billing records: every history is folded and compared with its row.

use dues_events::billing::decide::{Followup, followups};
use dues_events::billing::record::{History, Record};
use dues_events::billing::replay::{Fault, Replay, RowFault, StoredRow, check_successors, roll_forward};
use dues_events::{Item, SubscriptionId, UserId, attributes};
use dues_store::table::{BILLING_ACTIVITY, HISTORY};
use std::collections::BTreeMap;

use super::{Audit, FindingKind, differences};
use crate::operators::replay::billing::{in_order, replays};

/// Audits all history and records of a user: every decision is taken again. Returns the history that has
/// happened and can be decoded, grouped by record, each in order.
pub(super) fn check(audit: &mut Audit, user: &UserId, history: Vec<Item>, rows: Vec<Item>) -> Vec<History> {
    audit.events += history.len() as u64;
    audit.rows += rows.len() as u64;
    let mut records: BTreeMap<SubscriptionId, Record> = BTreeMap::new();
    let mut whole = true;
    let mut columns: BTreeMap<String, Item> = BTreeMap::new();
    for item in rows {
        let derived = derived_columns(&item);
        match Record::from_item(item) {
            Ok(record) => {
                columns.insert(key(&record), derived);
                add(audit, &mut records, record);
            }
            Err(error) => {
                whole = false;
                audit.find(FindingKind::Unreadable, &BILLING_ACTIVITY, &error.key, error.to_string());
            }
        }
    }
    let mut stored = read(audit, history);
    in_order(&mut stored);
    if whole {
        missing_successors(audit, &records);
    }
    let live: Vec<Record> = records.values().cloned().collect();
    let replays = replays(&stored, &live);
    for (n, fault) in check_successors(&replays) {
        find_fault(audit, user, &replays[n], &fault);
    }
    let mut happened = Vec::with_capacity(stored.len());
    for replay in &replays {
        let Some(folded) = &replay.record else {
            replay.ahead.iter().for_each(|stored| find_ahead(audit, user, replay, stored));
            continue;
        };
        let record = records.remove(&folded.subscription_id);
        let derived = record.as_ref().and_then(|record| columns.get(&key(record)));
        compare(audit, user, replay, folded, record.as_ref(), whole);
        if let (Some(record), Some(derived)) = (&record, derived)
            && record.version > 0
            && folded == record
            && *derived != derived_columns(&record.to_item())
        {
            let detail = differences(derived, &derived_columns(&record.to_item()));
            audit.find(FindingKind::Differs, &BILLING_ACTIVITY, key(record), detail);
        }
        happened.extend(replay.happened.iter().map(|stored| stored.row.clone()));
    }
    for (id, record) in records {
        audit.find(
            FindingKind::Unexplained,
            &BILLING_ACTIVITY,
            key(&record),
            format!("record {id} has no history"),
        );
    }
    happened
}

/// What is written for other readers and for the index, and follows from the attempts when it is read.
fn derived_columns(item: &Item) -> Item {
    use dues_events::attributes::*;
    let names = [BILLING_STATUS, TRANSACTION_ID, USIO_ERROR, COMPLETION_DATE, REFUNDED_AMOUNT];
    names.into_iter().filter_map(|name| Some((name.into(), item.get(name)?.clone()))).collect()
}

/// A record that is being moved to another date has two rows for a moment; one of them has `moved_to`.
fn add(audit: &mut Audit, records: &mut BTreeMap<SubscriptionId, Record>, record: Record) {
    match records.get_mut(&record.subscription_id) {
        None => drop(records.insert(record.subscription_id.clone(), record)),
        Some(known) if known.moved_to.is_some() => *known = record,
        Some(_) if record.moved_to.is_some() => {}
        Some(known) => {
            let detail =
                format!("record {} also stands at {}", record.subscription_id, known.billing_date.text());
            audit.find(FindingKind::Twice, &BILLING_ACTIVITY, key(&record), detail);
        }
    }
}

fn read(audit: &mut Audit, history: Vec<Item>) -> Vec<StoredRow> {
    let mut rows = Vec::with_capacity(history.len());
    for item in history {
        match StoredRow::read(item) {
            Ok(row) => rows.push(row),
            Err(error) => audit.find(FindingKind::Unreadable, &HISTORY, &error.key, error.to_string()),
        }
    }
    rows
}

/// Compares one record's history with its row.
fn compare(
    audit: &mut Audit,
    user: &UserId,
    replay: &Replay<'_>,
    folded: &Record,
    record: Option<&Record>,
    whole: bool,
) {
    replay.faults.iter().for_each(|fault| find_fault(audit, user, replay, fault));
    let Some(record) = record else {
        // A row that could not be decoded may be this one.
        if whole {
            let id = &folded.subscription_id;
            let detail =
                format!("history has record {id}, {} since version {}", folded.status(), folded.version);
            audit.find(FindingKind::Missing, &BILLING_ACTIVITY, key(folded), detail);
        }
        return;
    };
    if record.moved_to.is_some() {
        return;
    }
    for stored in &replay.overtaken {
        let row = &stored.row;
        let detail = format!(
            "event {} builds on version {}, and was not committed: `dues sweep` removes the row",
            row.event_id.as_ref().map_or("", |id| id.as_str()),
            row.previous_version
        );
        audit.find(FindingKind::Ahead, &HISTORY, history_key(user, row), detail);
    }
    replay.ahead.iter().for_each(|stored| find_ahead(audit, user, replay, stored));
    if folded != record {
        let detail = differences(&record.to_item(), &folded.to_item());
        audit.find(FindingKind::Differs, &BILLING_ACTIVITY, key(record), detail);
    }
}

/// A row that builds on the record as it is: an interrupted commit, or a row that no event decided.
fn find_ahead(audit: &mut Audit, user: &UserId, replay: &Replay<'_>, stored: &StoredRow) {
    let (row, version) = (&stored.row, replay.record.as_ref().map_or(0, |record| record.version));
    if row.previous_version == version
        && let Err(fault) = roll_forward(replay.record.as_ref(), stored)
    {
        let fault = RowFault {
            key: row.record.last_run_date.clone(),
            version: row.record.version,
            event_id: row.event_id.clone(),
            fault,
        };
        return find_fault(audit, user, replay, &fault);
    }
    let detail = format!("version {} is in history, the row is at version {version}", row.record.version);
    let key = replay.record.as_ref().map_or_else(|| history_key(user, row), key);
    audit.find(FindingKind::Ahead, &BILLING_ACTIVITY, key, detail);
}

/// Names the record, the row, and what is wrong with it.
fn find_fault(audit: &mut Audit, user: &UserId, replay: &Replay<'_>, fault: &RowFault) {
    let kind = match &fault.fault {
        Fault::Unreadable(_) => FindingKind::Unreadable,
        Fault::WrongDecision(_)
        | Fault::Rejected(_)
        | Fault::Reopened { .. }
        | Fault::OtherChange
        | Fault::NoPredecessor(_) => FindingKind::WrongDecision,
        Fault::NotLinked | Fault::OtherHead => FindingKind::Chain,
        Fault::Removed(_) | Fault::NoBeginning(_) | Fault::Gap { .. } => FindingKind::Gap,
    };
    let id = replay.record.as_ref().map_or("", |record| record.subscription_id.as_str());
    let event = fault.event_id.as_ref().map_or(String::new(), |id| format!(", event {id}"));
    let at = fault.key.as_ref().map_or_else(|| attributes::LAST_RUN_DATE.to_owned(), |at| at.text());
    let detail = format!("record {id}, version {}{event}: {}", fault.version, fault.fault);
    audit.find(kind, &HISTORY, format!("{user}/{at}"), detail);
}

/// Finds missing successors.
fn missing_successors(audit: &mut Audit, records: &BTreeMap<SubscriptionId, Record>) {
    for record in records.values() {
        for followup in followups(record) {
            let Followup::CreateNext(next, _) = followup else { continue };
            let there = records.contains_key(&next.subscription_id);
            // Another writer may have created a successor.
            let stands_in =
                |other: &Record| other.is_open() && other.billing_date.at() > record.billing_date.at();
            if !there && !records.values().any(stands_in) {
                let detail = format!(
                    "record {} promises {}, due {}",
                    record.subscription_id,
                    next.subscription_id,
                    next.billing_date.text()
                );
                audit.find(FindingKind::Followup, &BILLING_ACTIVITY, key(&next), detail);
            }
        }
    }
}

fn key(record: &Record) -> String {
    format!("{}/{}", record.user_id, record.billing_date.text())
}

fn history_key(user: &UserId, row: &History) -> String {
    let at = row
        .record
        .last_run_date
        .as_ref()
        .map_or_else(|| attributes::LAST_RUN_DATE.to_owned(), |at| at.text());
    format!("{user}/{at}")
}
