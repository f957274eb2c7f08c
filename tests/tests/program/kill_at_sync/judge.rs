//! The judge of a store: what must hold after a kill and the ordinary jobs. It shares no code with the
//! program, and reads what `show`, `export` and `audit` print.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Output, Stdio};

use crate::support::kill::LEASE;
use crate::support::run::Dues;

/// Members of a store.
#[derive(Debug, Clone, Copy)]
pub(super) struct Members<'a> {
    /// Members who must still be billed.
    pub(super) staying: &'a [&'a str],
    /// Members who may have left.
    pub(super) leaving: &'a [&'a str],
}

pub(super) fn run(dues: &Dues, args: &[&str]) -> Result<Output, String> {
    let output = dues.command(args).env(LEASE.0, LEASE.1).stdin(Stdio::null()).output().unwrap();
    match output.status.success() {
        true => Ok(output),
        false => Err(format!(
            "{args:?}: {} {}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

pub(super) fn audit(dues: &Dues) -> Result<(), String> {
    run(dues, &["audit"]).map(drop)
}

/// The rows of an export, without the first line, which has the time.
pub(super) fn exported(dues: &Dues) -> Result<Vec<String>, String> {
    Ok(export(dues)?.lines().skip(1).map(str::to_owned).collect())
}

fn export(dues: &Dues) -> Result<String, String> {
    Ok(String::from_utf8(run(dues, &["export", "-"])?.stdout).unwrap())
}

/// The rows of billing as they are stored: primary rows, history, unapplied money.
fn stored(dues: &Dues) -> Vec<(String, String, String, Vec<u8>)> {
    let file = rusqlite::Connection::open(dues.data().join("dues.db")).unwrap();
    let mut rows = Vec::new();
    for table in ["billing-activity", "billing-activity-history", "dues-unapplied-money"] {
        let query = format!("SELECT pk, sk, item FROM \"{table}\" ORDER BY pk, sk");
        let mut query = file.prepare(&query).unwrap();
        let row = |row: &rusqlite::Row<'_>| {
            Ok((table.to_owned(), row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get(2)?))
        };
        rows.extend(query.query_map([], row).unwrap().map(Result::unwrap));
    }
    rows
}

/// An import of the export is the same store: the rows that are exported, the records derived from them, and
/// the bytes of both in the file.
pub(super) fn restore(dues: &Dues, books: &Books) -> Result<(), String> {
    let copy = Dues::new();
    let file = copy.file("export.ndjson", books.export.as_bytes());
    run(&copy, &["import", &file])?;
    let after = export(&copy)?;
    let rows = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    let (before, after) = (rows(&books.export), rows(&after));
    if let Some((one, other)) = before.iter().zip(&after).find(|(one, other)| one != other) {
        return Err(format!("the import of an export differs: {one} became {other}"));
    }
    if before.len() != after.len() {
        return Err(format!("the import of an export has {} rows of {}", after.len(), before.len()));
    }
    for (member, records) in &books.records {
        let restored = shown(&copy, member)?;
        if restored != *records {
            return Err(format!("imported, {member} has {restored:?} instead of {records:?}"));
        }
    }
    let (live, restored) = (stored(dues), stored(&copy));
    let differs = live.iter().zip(&restored).find(|(one, other)| one != other);
    match differs {
        Some(((table, pk, sk, _), _)) => Err(format!("imported, {table} {pk} {sk} is another row")),
        None if live.len() != restored.len() => {
            Err(format!("imported, billing has {} rows instead of {}", restored.len(), live.len()))
        }
        None => Ok(()),
    }
}

pub(super) fn shown(dues: &Dues, member: &str) -> Result<Vec<Value>, String> {
    let output = run(dues, &["show", member, "--json"])?;
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    Ok(shown["subscriptions"].as_array().unwrap().clone())
}

/// What the program says about members and money.
pub(super) struct Books {
    export: String,
    /// The records of each member.
    records: BTreeMap<String, Vec<Value>>,
    /// The debits at the bank that were not returned: member, period, key.
    debits: Vec<(String, String, String)>,
    /// The records that were debited.
    debited: BTreeSet<String>,
    /// Members with a returned payment.
    charged_back: BTreeSet<String>,
    /// Transactions with money that awaits a decision.
    undecided: BTreeSet<String>,
    /// By transaction at the bank: cents collected, and cents that were refunded.
    refunds: BTreeMap<String, (i64, i64)>,
}

/// `14.99` as 1499.
fn cents(amount: &str) -> i64 {
    amount.replace('.', "").parse().unwrap()
}

fn text<'a>(row: &'a Value, name: &str) -> &'a str {
    row[name].as_str().unwrap_or_default()
}

impl Books {
    pub(super) fn read(dues: &Dues, members: Members<'_>) -> Result<Self, String> {
        let mut books = Self {
            export: export(dues)?,
            records: BTreeMap::new(),
            debits: Vec::new(),
            debited: BTreeSet::new(),
            charged_back: BTreeSet::new(),
            undecided: BTreeSet::new(),
            refunds: BTreeMap::new(),
        };
        for member in members.staying.iter().chain(members.leaving) {
            books.records.insert((*member).to_owned(), shown(dues, member)?);
        }
        let rows: Vec<Value> = books.export.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of = |table: &str| {
            rows.iter().filter(move |row| row["table"] == table).map(|row| &row["item"]).collect::<Vec<_>>()
        };
        let mut periods = BTreeMap::new();
        for row in of("billing-activity-history") {
            let field = |name: &str| text(&row[name], "S").to_owned();
            periods.insert(field("subscription_id"), field("billing_period"));
            if field("source").ends_with("CHARGED_BACK") {
                books.charged_back.insert(field("user_id"));
            }
        }
        for row in of("dues-sandbox").into_iter().filter(|row| row["submitted_at"].is_object()) {
            let field = |name: &str| text(&row[name], "S").to_owned();
            let id = field("subscription_id");
            let steps = row["steps"]["L"].as_array().cloned().unwrap_or_default();
            let returned = steps.iter().any(|step| text(step, "S").contains("RETURNED"));
            if !returned && !field("answer").starts_with('R') {
                let period = periods.get(&id).cloned().unwrap_or_default();
                books.debits.push((field("user_id"), period, field("key")));
            }
            books.debited.insert(id);
            books.refunds.entry(field("transaction_id")).or_default().0 += cents(&field("amount"));
        }
        for row in of("dues-sandbox").into_iter().filter(|row| row["refund_id"].is_object()) {
            let field = |name: &str| text(&row[name], "S");
            let transaction = books.refunds.entry(field("transaction_id").to_owned()).or_default();
            transaction.1 += cents(field("amount"));
        }
        for row in of("dues-unapplied-money") {
            if text(&row["money_status"], "S") == "OPEN" {
                books.undecided.insert(text(&row["transaction_id"], "S").to_owned());
            }
        }
        Ok(books)
    }

    pub(super) fn judge(&self, members: Members<'_>) -> Result<(), String> {
        for (member, records) in &self.records {
            let statuses: Vec<&str> = records.iter().map(|record| text(record, "billing_status")).collect();
            let waiting = waiting(records);
            let has_ended = members.leaving.contains(&member.as_str())
                && (statuses.contains(&"CANCELLED") || self.charged_back.contains(member));
            match waiting.len() {
                1 => {}
                0 if has_ended => {}
                0 => return Err(format!("{member} is silent: {statuses:?}, and no record waits")),
                _ => return Err(format!("{member} is billed {} times: {statuses:?}", waiting.len())),
            }
        }
        let mut seen = BTreeMap::new();
        for (member, period, key) in &self.debits {
            if let Some(first) = seen.insert((member, period), key) {
                return Err(format!("{member} was debited twice for {period}: {first} and {key}"));
            }
        }
        self.judge_money()
    }

    /// A transaction pays one record, and is not refunded beyond what it brought. Money that pays a record
    /// does not await a decision.
    fn judge_money(&self) -> Result<(), String> {
        let mut paid = BTreeSet::new();
        let records = self.records.values().flatten();
        for record in records.filter(|record| text(record, "billing_status") == "COMPLETED") {
            let transaction = text(record, "transaction_id");
            if !paid.insert(transaction) {
                return Err(format!("{transaction} pays two records"));
            }
            if self.undecided.contains(transaction) {
                return Err(format!("{transaction} pays a record, and awaits a decision"));
            }
        }
        for (transaction, (collected, refunded)) in &self.refunds {
            if refunded > collected {
                return Err(format!("{transaction} brought {collected} cents, and {refunded} went back"));
            }
        }
        Ok(())
    }

    /// What was to be debited, and is not at the bank: of those records, and of all that say that a debit of
    /// ours was sent.
    pub(super) fn missed(&self, due: &BTreeSet<String>) -> Option<String> {
        let sent = self.records.values().flatten().filter(|record| {
            let transaction = text(record, "transaction_id");
            text(record, "billing_status") == "ACHSENT"
                && (transaction.is_empty() || transaction.starts_with("sbx-"))
        });
        let sent = sent.map(|record| text(record, "subscription_id"));
        sent.chain(due.iter().map(String::as_str)).find(|id| !self.debited.contains(*id)).map(str::to_owned)
    }

    /// The records of members who stay that wait and fall due by then.
    pub(super) fn due_by(&self, members: Members<'_>, now: &str) -> BTreeSet<String> {
        let staying = self.records.iter().filter(|(member, _)| members.staying.contains(&member.as_str()));
        let due = |record: &&Value| {
            text(record, "billing_status") == "SCHEDULED" && text(record, "billing_date") <= now
        };
        let records = staying.flat_map(|(_, records)| records.iter().filter(due));
        records.map(|record| text(record, "subscription_id").to_owned()).collect()
    }
}

/// The records that are still to be billed. A record under way may promise one that is not there yet; a
/// closed one may not: the jobs have run, and nothing else will look at it.
fn waiting(records: &[Value]) -> BTreeSet<&str> {
    let there: BTreeSet<&str> = records.iter().map(|record| text(record, "subscription_id")).collect();
    let mut waiting = BTreeSet::new();
    for record in records {
        match text(record, "billing_status") {
            "SCHEDULED" | "PAUSED" => waiting.insert(text(record, "subscription_id")),
            "ACHSENT" | "ERROR" => {
                let next = text(record, "next_subscription_id");
                !next.is_empty() && !there.contains(next) && waiting.insert(next)
            }
            _ => false,
        };
    }
    waiting
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const MEMBERS: Members<'static> = Members { staying: &["u-1"], leaving: &["u-2"] };

    /// A member's records: id, status, the next one's id.
    fn books(member: &str, records: &[(&str, &str, &str)]) -> Books {
        let record = |(id, status, next): &(&str, &str, &str)| {
            json!({"subscription_id": id, "billing_status": status, "next_subscription_id": next,
                   "billing_date": "2026-03-01T00:00:00Z"})
        };
        Books {
            export: String::new(),
            records: BTreeMap::from([(member.to_owned(), records.iter().map(record).collect())]),
            debits: Vec::new(),
            debited: BTreeSet::new(),
            charged_back: BTreeSet::new(),
            undecided: BTreeSet::new(),
            refunds: BTreeMap::new(),
        }
    }

    #[test]
    fn the_judge_notices_silence_and_two_chains() {
        let verdict = |member: &str, records: &[(&str, &str, &str)]| {
            let verdict = books(member, records).judge(MEMBERS);
            verdict.err().map(|rule| rule.split(':').next().unwrap_or_default().to_owned())
        };
        let silent = |member: &str| Some(format!("{member} is silent"));
        assert_eq!(verdict("u-1", &[("a", "SCHEDULED", "")]), None);
        assert_eq!(verdict("u-1", &[("a", "ACHSENT", "b"), ("b", "SCHEDULED", "")]), None);
        assert_eq!(verdict("u-1", &[("a", "ACHSENT", "b")]), None, "promised by a record under way");
        assert_eq!(verdict("u-1", &[("a", "WAIVED", "b"), ("b", "PAUSED", "")]), None);
        for closed in ["WAIVED", "COMPLETED", "STALE", "PAUSED_SKIPPED", "REFUNDED", "CANCELLED"] {
            assert_eq!(verdict("u-1", &[("a", closed, "b")]), silent("u-1"), "{closed}");
        }
        assert_eq!(verdict("u-1", &[]), silent("u-1"));
        assert_eq!(verdict("u-2", &[("a", "CANCELLED", "")]), None);
        assert_eq!(verdict("u-2", &[("a", "WAIVED", "b")]), silent("u-2"), "it was not cancelled");
        assert_eq!(
            verdict("u-1", &[("a", "SCHEDULED", ""), ("b", "PAUSED", "")]),
            Some("u-1 is billed 2 times".to_owned())
        );
    }

    #[test]
    fn the_judge_notices_second_and_missing_debits() {
        let mut books = books("u-1", &[("a", "ACHSENT", ""), ("b", "SCHEDULED", "")]);
        let debit = |period: &str, key: &str| ("u-1".to_owned(), period.to_owned(), key.to_owned());
        books.debits = vec![debit("02/2026", "a-1"), debit("03/2026", "b-1")];
        assert_eq!(books.judge(MEMBERS), Ok(()));
        books.debits.push(debit("02/2026", "x-1"));
        assert_eq!(books.judge(MEMBERS), Err("u-1 was debited twice for 02/2026: a-1 and x-1".to_owned()));
        let due = books.due_by(MEMBERS, "2026-03-02");
        assert_eq!(due, BTreeSet::from(["b".to_owned()]));
        assert_eq!(books.missed(&due), Some("a".to_owned()));
        books.debited.insert("a".to_owned());
        assert_eq!(books.missed(&due), Some("b".to_owned()));
        books.debited.insert("b".to_owned());
        assert_eq!(books.missed(&due), None);
    }

    #[test]
    fn the_judge_notices_money_that_is_used_twice() {
        let paid =
            |id: &str| json!({"subscription_id": id, "billing_status": "COMPLETED", "transaction_id": "t"});
        let mut books = books("u-1", &[("b", "SCHEDULED", "")]);
        books.records.get_mut("u-1").unwrap().push(paid("a"));
        books.refunds.insert("t".to_owned(), (1499, 1499));
        assert_eq!(books.judge(MEMBERS), Ok(()));
        books.refunds.insert("t".to_owned(), (1499, 1500));
        assert_eq!(books.judge(MEMBERS), Err("t brought 1499 cents, and 1500 went back".to_owned()));
        books.undecided.insert("t".to_owned());
        assert_eq!(books.judge(MEMBERS), Err("t pays a record, and awaits a decision".to_owned()));
        books.undecided.clear();
        books.records.get_mut("u-1").unwrap().push(paid("c"));
        assert_eq!(books.judge(MEMBERS), Err("t pays two records".to_owned()));
    }
}
