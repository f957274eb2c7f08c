//! The judge of one member's billing: raw rows in, problems out. Shares no code with the system.

use dues_events::{Item, Value};
use dues_store::Engine;
use dues_store::table::{BILLING_ACTIVITY, EMBEDDED, HISTORY, LOCKS, PARKED, SANDBOX};
use std::collections::{BTreeMap, BTreeSet};

use crate::engines::stepped::{Debited, short};
use crate::fixtures::company::all;

/// Everything that is on record about one member, and at the bank.
#[derive(Debug, Clone, Default)]
pub struct Books {
    /// Rows of `billing-activity`, by due date.
    pub billing: Vec<Item>,
    /// Rows of its history.
    pub history: Vec<Item>,
    /// Parked events.
    pub parked: Vec<Item>,
    /// Rows of other tables, such as unapplied money, with the table's name.
    pub others: Vec<(&'static str, Item)>,
    /// Debits at the gateway.
    pub debits: Vec<Debited>,
}

impl Books {
    /// Reads all tables. A store under test holds one member.
    pub async fn read<E: Engine>(engine: &E, debits: Vec<Debited>) -> Self {
        let mut books = Self { debits, ..Self::default() };
        for table in EMBEDDED {
            let rows = all(engine, table).await;
            match table.id {
                id if id == BILLING_ACTIVITY.id => books.billing = rows,
                id if id == HISTORY.id => books.history = rows,
                id if id == PARKED.id => books.parked = rows,
                id if id == LOCKS.id || id == SANDBOX.id => {}
                _ => books.others.extend(rows.into_iter().filter(is_current).map(|row| (table.name, row))),
            }
        }
        books.billing.sort_by_key(|row| text(row, "billing_date").to_owned());
        books
    }

    /// Without the records that a withdrawn debit had promised: cancelled, never presented, and so is the
    /// record that promised them.
    #[must_use]
    pub fn without_abandoned_records(&self) -> Self {
        let never_presented =
            |row: &Item| status(row) == "CANCELLED" && text(row, "transaction_id").is_empty();
        // A barred member's record waits again, and so does the one that it had promised.
        let is_barred = self.billing.iter().any(is_barred);
        let waits_barred = |row: &Item| is_barred && waits(row);
        let promised_in_vain = |row: &Item| {
            let promises =
                |other: &&Item| text(other, "next_subscription_id") == text(row, "subscription_id");
            let promiser = self.billing.iter().find(promises);
            (never_presented(row) && promiser.is_some_and(never_presented))
                || (waits_barred(row) && promiser.is_some_and(waits_barred))
        };
        let billing = self.billing.iter().filter(|row| !promised_in_vain(row)).cloned().collect();
        Self { billing, ..self.clone() }
    }

    /// The view without the hours by which one of two records with the same due date made room.
    pub fn view_by_day(&self) -> Vec<String> {
        let by_day = |line: &str| match line.split_once('T') {
            Some((day, rest)) if day.len() == 10 => format!("{day} {}", rest.get(9..).unwrap_or_default()),
            Some(_) | None => line.to_owned(),
        };
        let mut lines: Vec<String> = self.view().lines().map(by_day).collect();
        lines.sort();
        lines
    }

    /// What the member and the operators see: no versions, no times of processing, no history keys.
    pub fn view(&self) -> String {
        let mut lines: Vec<String> = self.billing.iter().map(|row| short(&record_view(row))).collect();
        let barred = self.billing.iter().any(is_barred);
        lines.extend(barred.then(|| "the member is barred".to_owned()));
        let mut rest: Vec<String> = self
            .debits
            .iter()
            .map(|debit| format!("debit {} ${}", short(&debit.key), debit.amount))
            .collect();
        rest.extend(self.others.iter().map(|(table, row)| format!("{table}: {}", short(&other_view(row)))));
        rest.extend((!self.parked.is_empty()).then(|| format!("{} parked", self.parked.len())));
        rest.sort();
        lines.extend(rest);
        lines.join("\n")
    }
}

/// The text of an attribute; empty when it is missing.
pub fn text<'a>(row: &'a Item, name: &str) -> &'a str {
    match row.get(name) {
        Some(Value::S(text) | Value::N(text)) => text,
        Some(_) | None => "",
    }
}

fn status(row: &Item) -> &str {
    text(row, "billing_status")
}

/// Adapt here when the record's attributes change: what a record says, apart from its transactions.
fn record_view(row: &Item) -> String {
    let mut view = format!(
        "{} {} ${} {}",
        text(row, "billing_date"),
        status(row),
        text(row, "billing_amount"),
        text(row, "receipt_tier_name")
    );
    for name in
        ["cancel_at", "pending_tier_name", "pending_amount", "superseded_by", "usio_error", "refunded_amount"]
    {
        if !text(row, name).is_empty() {
            view += &format!(" {name}={}", text(row, name));
        }
    }
    if matches!(row.get("is_pending_downgrade"), Some(Value::Bool(true))) {
        view += " downgrade pending";
    }
    if status(row).starts_with("PAUSED") {
        view += &format!(" for {} months", text(row, "pause_duration_months"));
    }
    view + &transactions_view(row)
}

/// Adapt here when attempts are stored in another way: which transactions settled, are under way, or ended.
fn transactions_view(row: &Item) -> String {
    let now = match status(row) {
        "COMPLETED" => "settled",
        "ACHSENT" => "under way",
        _ => "last",
    };
    let mut view = String::new();
    if !text(row, "transaction_id").is_empty() {
        view += &format!(" {now}={}", text(row, "transaction_id"));
    }
    if let Some(Value::L(earlier)) = row.get("earlier_transaction_ids") {
        let earlier: BTreeSet<&str> = earlier.iter().filter_map(Value::as_text).collect();
        view += &format!(" earlier={earlier:?}");
    }
    view
}

/// Adapt here when unapplied money gets its table: what a row of another table says.
fn other_view(row: &Item) -> String {
    let shown = ["subscription_id", "transaction_id", "amount", "currency", "money_status", "reason"];
    shown.map(|name| text(row, name)).join(" ")
}

/// Adapt here when unapplied money gets its table: money that went back by itself needs no decision.
fn is_current(row: &Item) -> bool {
    text(row, "money_status") != "GONE"
}

/// Adapt here when a bar is stored in another way.
fn is_barred(row: &Item) -> bool {
    !text(row, "collection_bar").is_empty()
}

fn is_superseded(row: &Item) -> bool {
    !text(row, "superseded_by").is_empty()
}

fn is_marked(row: &Item) -> bool {
    !text(row, "cancel_at").is_empty()
}

fn is_open(row: &Item) -> bool {
    matches!(status(row), "SCHEDULED" | "ERROR" | "PAUSED")
}

fn waits(row: &Item) -> bool {
    matches!(status(row), "SCHEDULED" | "PAUSED")
}

fn id(row: &Item) -> String {
    format!("{} ({})", short(text(row, "subscription_id")), text(row, "billing_date"))
}

/// What is wrong with these books, after those acts and the ordinary follow-up. `now` is the time of the
/// acts, as text.
pub fn judge(acts: &[&str], books: &Books, now: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    debits(books, now, &mut wrong);
    chains(books, &mut wrong);
    whole_changes(acts, books, now, &mut wrong);
    history(books, &mut wrong);
    wrong
}

/// Every debit is on record before it happens, at the record's amount, at most one under way for a record,
/// and none after a change that its collector could see.
fn debits(books: &Books, now: &str, wrong: &mut Vec<String>) {
    let mut of_record: BTreeMap<&str, u32> = BTreeMap::new();
    for debit in &books.debits {
        *of_record.entry(&debit.subscription).or_default() += 1;
        let key = short(&debit.key);
        if !debit.on_record {
            wrong.push(format!("debit: {key} was submitted before history had it"));
        }
        match &debit.row {
            None => wrong.push(format!("debit: {key} belongs to no record")),
            Some(row) if text(row, "billing_amount") != debit.amount => wrong.push(format!(
                "debit: {key} took ${}, its record said ${}",
                debit.amount,
                text(row, "billing_amount")
            )),
            Some(_) => {}
        }
        if debit.known.iter().any(is_barred) {
            wrong.push(format!("debit: {key} of a member who was barred before"));
        }
        let of_debit = |row: &&Item| text(row, "subscription_id") == debit.subscription;
        let Some(known) = debit.known.iter().find(of_debit) else { continue };
        let cancelled = is_marked(known) && text(known, "cancel_at") <= now;
        if is_superseded(known) || cancelled || !matches!(status(known), "ACHSENT" | "SCHEDULED" | "ERROR") {
            wrong.push(format!(
                "debit: {key} was submitted although its record was {}{}{} before",
                status(known),
                if cancelled { ", cancelled" } else { "" },
                if is_superseded(known) { ", superseded" } else { "" }
            ));
        }
    }
    for (record, count) in of_record {
        if count > 1 {
            wrong.push(format!("debit: {count} debits for record {}", short(record)));
        }
    }
}

/// An active membership has exactly one waiting record, and only one membership is billed.
fn chains(books: &Books, wrong: &mut Vec<String>) {
    let live: Vec<&Item> = books.billing.iter().filter(|row| !is_superseded(row)).collect();
    let waiting: Vec<String> = live.iter().filter(|row| waits(row)).map(|row| id(row)).collect();
    let barred = books.billing.iter().any(is_barred);
    // A barred member is not active.
    if waiting.len() > 1 && !barred {
        wrong.push(format!("chains: {} records wait: {}", waiting.len(), waiting.join(", ")));
    }
    let billed = live.iter().filter(|row| is_open(row) || status(row) == "ACHSENT");
    let memberships: BTreeSet<&str> = billed.map(|row| text(row, "member_since")).collect();
    if memberships.len() > 1 {
        wrong.push(format!("chains: {} memberships are billed", memberships.len()));
    }
    let newest = live.iter().map(|row| text(row, "member_since")).max().unwrap_or_default();
    let ended = live
        .iter()
        .filter(|row| text(row, "member_since") == newest)
        .any(|row| is_marked(row) || status(row) == "CANCELLED");
    if !ended && !barred && waiting.is_empty() {
        wrong.push("silence: the membership is active and no record waits".to_owned());
    }
}

/// A change is done for every record, or for none.
fn whole_changes(acts: &[&str], books: &Books, now: &str, wrong: &mut Vec<String>) {
    let has = |wanted: &[&str]| acts.iter().any(|act| wanted.contains(act));
    let live = || books.billing.iter().filter(|row| !is_superseded(row));
    let begins_again = has(&["ACTIVATE", "REACTIVATE", "REACTIVATE on its date", "RETRACT"]);
    if has(&["CLOSEACCOUNT"]) && !begins_again {
        // A debit in flight settles first; what it leaves open ends with the next run, on the same day.
        let ends_today = |row: &Item| is_marked(row) && text(row, "cancel_at").get(..10) <= now.get(..10);
        for row in live().filter(|row| (is_open(row) || status(row) == "ACHSENT") && !ends_today(row)) {
            wrong.push(format!("half: the account is closed, and {} is {}", id(row), status(row)));
        }
    }
    if has(&["CANCEL", "cancel"]) && !begins_again {
        for row in live().filter(|row| (is_open(row) || status(row) == "ACHSENT") && !is_marked(row)) {
            wrong.push(format!("half: cancelled, and {} is {} without the mark", id(row), status(row)));
        }
    }
    if has(&["RETRACT"]) && !has(&["CANCEL", "cancel", "CLOSEACCOUNT"]) {
        for row in live().filter(|row| is_marked(row)) {
            wrong.push(format!("half: retracted, and {} still carries the cancellation", id(row)));
        }
    }
}

/// The history rows of a record are exactly the events that its primary row has applied, and the last of
/// them is the primary row.
fn history(books: &Books, wrong: &mut Vec<String>) {
    let mut of_record: BTreeMap<&str, Vec<&Item>> = BTreeMap::new();
    for row in &books.history {
        of_record.entry(text(row, "subscription_id")).or_default().push(row);
    }
    for (record, rows) in &of_record {
        let record_id = short(record);
        let primary = books.billing.iter().find(|row| text(row, "subscription_id") == *record);
        let Some(primary) = primary else {
            wrong.push(format!("history: {record_id} has history and no row"));
            continue;
        };
        let applied = applied_tokens(primary);
        let mut versions: BTreeMap<u64, &Item> = BTreeMap::new();
        for row in rows {
            let version = text(row, "version").parse().unwrap_or(0);
            let event = text(row, "event_id");
            if token(row).is_none_or(|token| !applied.contains(&token)) {
                wrong.push(format!("history: row v{version} ({event}) of {record_id} never happened"));
            } else if let Some(other) = versions.insert(version, row) {
                let other = text(other, "event_id");
                wrong.push(format!("history: {record_id} has two rows v{version}: {event} and {other}"));
            }
        }
        let in_history: BTreeSet<Vec<u8>> = rows.iter().filter_map(|row| token(row)).collect();
        let lost = applied.difference(&in_history).count();
        if lost > 0 {
            wrong.push(format!("history: {record_id} has applied {lost} events that history does not have"));
            continue;
        }
        let Some((version, last)) = versions.last_key_value() else { continue };
        if version.to_string() != text(primary, "version") || record_view(last) != record_view(primary) {
            wrong.push(format!(
                "history: {record_id} ends as v{version} {}, its row is v{} {}",
                record_view(last),
                text(primary, "version"),
                record_view(primary)
            ));
        }
    }
    for row in &books.billing {
        if !of_record.contains_key(text(row, "subscription_id")) {
            wrong.push(format!("history: {} has a row and no history", id(row)));
        }
    }
}

/// Adapt here when tokens change: 16 bytes each, the last one holds flags.
fn applied_tokens(row: &Item) -> BTreeSet<Vec<u8>> {
    match row.get("applied") {
        Some(Value::B(bytes)) => bytes.chunks(16).map(|token| token[..15].to_vec()).collect(),
        Some(_) | None => BTreeSet::new(),
    }
}

/// Adapt here when tokens change: the event of a history row.
fn token(row: &Item) -> Option<Vec<u8>> {
    match row.get("stamp") {
        Some(Value::B(bytes)) => Some(bytes[..15].to_vec()),
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "cb4a067c-c274-5ab6-98c4-49fe7d635f71";

    fn row(id: &str, date: &str, status: &str, version: u64) -> Item {
        let mut row = Item::new();
        for (name, text) in [
            ("subscription_id", id),
            ("billing_date", date),
            ("billing_status", status),
            ("billing_amount", "14.99"),
            ("receipt_tier_name", "Plus:v2"),
            ("member_since", "2026-01-05T00:00:00Z"),
        ] {
            row.set_text(name.to_owned(), text);
        }
        row.set("version", Value::number(version));
        row
    }

    fn with(mut row: Item, name: &'static str, text: &str) -> Item {
        row.set_text(name, text);
        row
    }

    /// The row with the tokens of that many events.
    fn applied(mut row: Item, events: u8) -> Item {
        row.set("applied", Value::B((1..=events).flat_map(|event| [event; 16]).collect()));
        row
    }

    fn event(mut row: Item, event: u8) -> Item {
        row.set("stamp", Value::B(vec![event; 16]));
        row
    }

    /// A member with a record that waits, after one event.
    fn healthy() -> Books {
        let record = row(ID, "2026-02-01T00:00:00Z", "SCHEDULED", 1);
        Books {
            billing: vec![applied(record.clone(), 1)],
            history: vec![event(record, 1)],
            ..Books::default()
        }
    }

    fn kinds(acts: &[&str], books: &Books) -> Vec<String> {
        let problems = judge(acts, books, "2026-02-03T08:00:00Z");
        problems.iter().map(|problem| problem.split(':').next().unwrap().to_owned()).collect()
    }

    fn debit(books: &Books) -> Debited {
        Debited {
            actor: 0,
            key: format!("{ID}-1"),
            subscription: ID.to_owned(),
            amount: "14.99".to_owned(),
            on_record: true,
            row: books.billing.first().cloned(),
            known: books.billing.clone(),
        }
    }

    #[test]
    fn healthy_books_have_no_problems() {
        let mut books = healthy();
        assert_eq!(kinds(&["UPGRADE"], &books), [""; 0]);
        books.debits.push(debit(&books));
        assert_eq!(kinds(&["debit"], &books), [""; 0]);
    }

    #[test]
    fn a_stray_a_missing_and_a_differing_history_row_are_found() {
        let mut stray = healthy();
        stray.history.push(event(row(ID, "2026-02-01T00:00:00Z", "PAUSED", 2), 2));
        assert_eq!(kinds(&[], &stray), ["history"]);
        let mut missing = healthy();
        missing.history.clear();
        assert_eq!(kinds(&[], &missing), ["history"]);
        let mut lost = healthy();
        let record = row(ID, "2026-02-01T00:00:00Z", "PAUSED", 2);
        lost.billing = vec![applied(record, 2)];
        assert_eq!(kinds(&[], &lost), ["history"]);
        let mut differs = healthy();
        differs.billing[0].set_text("billing_amount", "39.99");
        assert_eq!(kinds(&[], &differs), ["history"]);
    }

    #[test]
    fn silence_two_chains_and_half_changes_are_found() {
        let books = |rows: Vec<Item>| Books { billing: rows, ..Books::default() };
        let chains = |acts: &[&str], rows: Vec<Item>| {
            let mut kinds = kinds(acts, &books(rows));
            kinds.retain(|kind| kind != "history");
            kinds
        };
        let paid = row(ID, "2026-02-01T00:00:00Z", "COMPLETED", 2);
        let next = row("next", "2026-03-01T00:00:00Z", "SCHEDULED", 1);
        let anew =
            with(row("new", "2026-02-10T00:00:00Z", "SCHEDULED", 1), "member_since", "2026-02-03T08:00:00Z");
        let marked = with(next.clone(), "cancel_at", "2026-03-01T00:00:00Z");
        assert_eq!(chains(&[], vec![paid.clone()]), ["silence"]);
        assert_eq!(chains(&[], vec![with(paid.clone(), "collection_bar", "R10")]), [""; 0]);
        assert_eq!(chains(&["REACTIVATE"], vec![next.clone(), anew.clone()]), ["chains", "chains"]);
        assert_eq!(chains(&["REACTIVATE"], vec![with(next.clone(), "superseded_by", "new"), anew]), [""; 0]);
        assert_eq!(chains(&["CANCEL"], vec![paid.clone(), next.clone()]), ["half"]);
        assert_eq!(chains(&["CANCEL"], vec![paid.clone(), marked.clone()]), [""; 0]);
        assert_eq!(chains(&["CLOSEACCOUNT"], vec![paid.clone(), marked.clone()]), ["half"]);
        assert_eq!(chains(&["RETRACT"], vec![paid, marked]), ["half"]);
    }

    #[test]
    fn wrong_debits_are_found() {
        let found = |change: &dyn Fn(&mut Debited)| {
            let mut books = healthy();
            let mut debit = debit(&books);
            change(&mut debit);
            books.debits.push(debit);
            kinds(&["debit"], &books)
        };
        assert_eq!(found(&|debit| debit.on_record = false), ["debit"]);
        assert_eq!(found(&|debit| debit.amount = "39.99".to_owned()), ["debit"]);
        assert_eq!(found(&|debit| debit.row = None), ["debit"]);
        let known = |name: &'static str, text: &'static str| {
            found(&move |debit| debit.known = vec![with(debit.known[0].clone(), name, text)])
        };
        assert_eq!(known("superseded_by", "new"), ["debit"]);
        assert_eq!(known("billing_status", "PAUSED"), ["debit"]);
        assert_eq!(known("collection_bar", "R10"), ["debit"]);
        assert_eq!(known("cancel_at", "2026-02-01T00:00:00Z"), ["debit"]);
        assert_eq!(known("cancel_at", "2026-03-01T00:00:00Z"), [""; 0]);
        let mut twice = healthy();
        twice.debits = vec![debit(&twice), Debited { key: format!("{ID}-2"), ..debit(&twice) }];
        assert_eq!(kinds(&["debit"], &twice), ["debit"]);
    }
}
