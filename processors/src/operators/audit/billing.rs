//! Billing records: every history is folded and compared with its row.

use dues_events::billing::decide::{Followup, followups};
use dues_events::billing::record::{History, Record};
use dues_events::{Item, SubscriptionId, UserId, attributes};
use dues_projections::billing::record::{is_committed, replay};
use dues_store::table::{BILLING_ACTIVITY, HISTORY};
use std::collections::BTreeMap;

use super::{Audit, FindingKind, differences};
use crate::operators::replay::billing::in_order;

/// Audits all history and records of a user. Returns the history that can be decoded, grouped by record,
/// each in order.
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
    let mut told = read(audit, history);
    in_order(&mut told);
    if whole {
        debts(audit, &records);
    }
    for rows in told.chunk_by(|a, b| a.record.subscription_id == b.record.subscription_id) {
        let id = &rows[0].record.subscription_id;
        let record = records.remove(id);
        let derived = record.as_ref().and_then(|record| columns.get(&key(record)));
        compare(audit, user, id, rows, record.clone(), whole);
        if let (Some(record), Some(derived)) = (&record, derived)
            && record.version > 0
            && replay(rows).as_ref() == Some(record)
            && *derived != derived_columns(&record.to_item())
        {
            let detail = differences(derived, &derived_columns(&record.to_item()));
            audit.find(FindingKind::Differs, &BILLING_ACTIVITY, key(record), detail);
        }
    }
    for (id, record) in records {
        audit.find(
            FindingKind::Unexplained,
            &BILLING_ACTIVITY,
            key(&record),
            format!("no history tells of record {id}"),
        );
    }
    told
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

fn read(audit: &mut Audit, history: Vec<Item>) -> Vec<History> {
    let mut rows = Vec::with_capacity(history.len());
    for item in history {
        match History::from_item(item) {
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
    id: &SubscriptionId,
    rows: &[History],
    record: Option<Record>,
    whole: bool,
) {
    holes(audit, user, rows);
    let Some(folded) = replay(rows) else { return };
    let Some(record) = record else {
        // A row that could not be decoded may be this one.
        if whole {
            let detail =
                format!("history tells of record {id}, {} since version {}", folded.status(), folded.version);
            audit.find(FindingKind::Missing, &BILLING_ACTIVITY, key(&folded), detail);
        }
        return;
    };
    if record.moved_to.is_some() {
        return;
    }
    for row in rows.iter().filter(|row| !is_committed(row, &record)) {
        let (found, version) = (row.previous_version, record.version);
        if found < version {
            let detail = format!(
                "event {} builds on version {found}, and was not committed: `dues sweep` removes the row",
                row.event_id.as_ref().map_or("", |id| id.as_str())
            );
            audit.find(FindingKind::Ahead, &HISTORY, history_key(user, row), detail);
        }
    }
    let folded = replay(
        rows.iter().filter(|row| is_committed(row, &record) || row.previous_version >= record.version),
    );
    let Some(folded) = folded.filter(|folded| *folded != record) else { return };
    // Fold only up to the row's version: what follows is an interrupted commit.
    let known = rows.iter().filter(|row| row.record.version <= record.version);
    if record.version < folded.version && replay(known).as_ref() == Some(&record) {
        let detail =
            format!("version {} is in history, the row is at version {}", folded.version, record.version);
        return audit.find(FindingKind::Ahead, &BILLING_ACTIVITY, key(&record), detail);
    }
    audit.find(
        FindingKind::Differs,
        &BILLING_ACTIVITY,
        key(&record),
        differences(&record.to_item(), &folded.to_item()),
    );
}

/// Each change must build on the one before it. Rows of older writers do not name the version they build
/// on.
fn holes(audit: &mut Audit, user: &UserId, rows: &[History]) {
    let mut version = rows.first().map_or(0, |row| row.previous_version);
    if version > 0 && rows.first().is_some_and(|row| row.token.is_some()) {
        audit.find(
            FindingKind::Gap,
            &HISTORY,
            history_key(user, &rows[0]),
            format!("its history begins after version {version}"),
        );
    }
    for row in rows.iter().filter(|row| row.token.is_some()) {
        if row.previous_version > version {
            let detail =
                format!("it builds on version {}, and history has {version} before it", row.previous_version);
            audit.find(FindingKind::Gap, &HISTORY, history_key(user, row), detail);
        }
        version = version.max(row.record.version);
    }
}

/// Finds missing successors.
fn debts(audit: &mut Audit, records: &BTreeMap<SubscriptionId, Record>) {
    for record in records.values() {
        for debt in followups(record) {
            let Followup::CreateNext(next, _) = debt else { continue };
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
