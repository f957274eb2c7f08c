//! The bank of the hostile year: takes debits and refunds over HTTP with the faults of networks, and reports
//! what became of them weeks late, twice, out of order, with other amounts and in other currencies.
//!
//! What becomes of a debit follows from the seed and its key, so concurrent requests do not change a year.

use dues_tests::gateways::http_service::{Fault, Payments, Policy, Seen};
use fastrand::Rng;
use rusqlite::{Connection, OpenFlags, params};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::runtime::Runtime;

use crate::calendar::{amount, cents, date, day_number};

/// A debit of ours at the bank.
#[derive(Debug, Clone)]
pub(crate) struct Debit {
    pub(crate) key: String,
    pub(crate) user: String,
    pub(crate) record: String,
    pub(crate) cents: i64,
    /// The first request, and the first one that was performed.
    pub(crate) requested: String,
    pub(crate) performed: Option<String>,
    pub(crate) refused: bool,
    /// Whether history and record had the attempt when the first request came in.
    pub(crate) on_record: bool,
}

/// A report about a transaction. `delivered` is when it first arrived.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    pub(crate) transaction: String,
    pub(crate) user: String,
    pub(crate) record: String,
    pub(crate) kind: &'static str,
    pub(crate) at: String,
    pub(crate) cents: i64,
    pub(crate) currency: &'static str,
    pub(crate) code: &'static str,
    pub(crate) delivered: Option<String>,
    /// The days on which it is delivered: more than one for duplicates.
    days: Vec<i64>,
    wire: Value,
}

/// Everything the bank knows.
#[derive(Default)]
struct State {
    seed: u64,
    now: String,
    is_down: bool,
    store: PathBuf,
    debits: BTreeMap<String, Debit>,
    requests: BTreeMap<String, u64>,
    refunds: BTreeMap<String, Policy>,
    reports: Vec<Report>,
    /// Lookups and posts that failed while the service was down.
    failed_while_down: u64,
}

pub(crate) struct Bank {
    payments: Payments,
    state: Arc<Mutex<State>>,
    /// Dropped last.
    _runtime: Runtime,
}

/// A generator of its own for everything with a name.
pub(crate) fn rng(seed: u64, name: &str) -> Rng {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64 ^ seed, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Rng::with_seed(hash)
}

impl Bank {
    pub(crate) fn open(seed: u64, store: &Path) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let payments = runtime.block_on(Payments::start());
        let state = Arc::new(Mutex::new(State { seed, store: store.to_owned(), ..State::default() }));
        let shared = state.clone();
        payments.set_rule(move |request| shared.lock().unwrap().take(request));
        Self { payments, state, _runtime: runtime }
    }

    pub(crate) fn url(&self) -> String {
        self.payments.base()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Sets the time of the requests that follow, and whether the service is down.
    pub(crate) fn set(&self, now: &str, is_down: bool) {
        let mut state = self.state();
        (state.now, state.is_down) = (now.to_owned(), is_down);
    }

    pub(crate) fn debits(&self) -> Vec<Debit> {
        self.state().debits.values().cloned().collect()
    }

    pub(crate) fn reports(&self) -> Vec<Report> {
        self.state().reports.clone()
    }

    pub(crate) fn failed_while_down(&self) -> u64 {
        self.state().failed_while_down
    }

    /// The records for `site-payments` that arrive on a day, shuffled.
    pub(crate) fn deliver(&self, day: i64, at: &str) -> Vec<Value> {
        self.state().deliver(|due| due == day, day, at)
    }

    /// All that has not arrived yet, with its duplicates.
    pub(crate) fn deliver_the_rest(&self, day: i64, at: &str) -> Vec<Value> {
        self.state().deliver(|due| due >= day, day, at)
    }
}

impl State {
    fn deliver(&mut self, is_due: impl Fn(i64) -> bool, day: i64, at: &str) -> Vec<Value> {
        let mut records = Vec::new();
        for report in &mut self.reports {
            for _ in report.days.iter().filter(|due| is_due(**due)) {
                report.delivered.get_or_insert_with(|| at.to_owned());
                records.push(report.wire.clone());
            }
        }
        rng(self.seed, &format!("deliver {day}")).shuffle(&mut records);
        records
    }

    fn take(&mut self, request: &Seen) -> (Fault, Policy) {
        let key = match request.method.as_str() {
            "POST" => request.headers["idempotency-key"].clone(),
            _ => request.path.rsplit('/').next().unwrap().to_owned(),
        };
        let name = format!("{} {key}", request.method);
        let count = self.requests.entry(name.clone()).or_default();
        *count += 1;
        let mut rng = rng(self.seed, &format!("{name} {count}"));
        if request.method != "POST" {
            self.failed_while_down += u64::from(self.is_down);
            let is_lost = self.is_down || rng.u32(..100) < 5;
            return (if is_lost { Fault::Status(503) } else { Fault::None }, Policy::Accept);
        }
        let fault = match rng.u32(..100) {
            _ if self.is_down && rng.bool() => Fault::Status(503),
            _ if self.is_down => Fault::StatusAfter(503),
            0..4 => Fault::StatusAfter(500),
            4..7 => Fault::DropAfter,
            7..10 => Fault::DropBefore,
            10..12 => Fault::Garbage,
            12..14 => Fault::Status(503),
            14..16 => Fault::NoConfirmation,
            16..18 => Fault::Half,
            _ => Fault::None,
        };
        self.failed_while_down += u64::from(self.is_down);
        let is_performed = !matches!(fault, Fault::Status(_) | Fault::DropBefore);
        let policy = match request.path.ends_with("/refunds") {
            true => self.refund(&key, &request.json(), is_performed),
            false => self.debit(&key, &request.json(), is_performed),
        };
        (fault, policy)
    }

    fn debit(&mut self, key: &str, body: &Value, is_performed: bool) -> Policy {
        let text = |name: &str| body[name].as_str().unwrap().to_owned();
        let mut rng = rng(self.seed, key);
        let policy = match rng.u32(..100) {
            0..4 => Policy::Refuse,
            4..8 => Policy::Collect,
            _ => Policy::Accept,
        };
        if !self.debits.contains_key(key) {
            let debit = Debit {
                key: key.to_owned(),
                user: text("user_id"),
                record: text("subscription_id"),
                cents: cents(&text("amount")),
                requested: self.now.clone(),
                performed: None,
                refused: policy == Policy::Refuse,
                on_record: is_on_record(&self.store, &text("user_id"), &text("subscription_id"), key),
            };
            self.debits.insert(key.to_owned(), debit);
        }
        let debit = self.debits.get_mut(key).unwrap();
        if is_performed && debit.performed.is_none() {
            debit.performed = Some(self.now.clone());
            let debit = debit.clone();
            match policy {
                Policy::Refuse => {}
                Policy::Collect => self.settles(&debit, &mut rng, 0),
                Policy::Accept => self.decide(&debit, &mut rng),
            }
        }
        policy
    }

    /// Gives back what is there: never more than is left of a settled transaction.
    fn refund(&mut self, key: &str, body: &Value, is_performed: bool) -> Policy {
        let text = |name: &str| body[name].as_str().unwrap().to_owned();
        let transaction = text("confirmation_id");
        if let Some(policy) = self.refunds.get(key) {
            return *policy;
        }
        let wanted = cents(&text("amount"));
        let so_far: Vec<&Report> = self
            .reports
            .iter()
            .filter(|r| r.transaction == transaction && r.at <= self.now && !r.code.starts_with('C'))
            .collect();
        let sum = |kind: &str| so_far.iter().filter(|r| r.kind == kind).map(|r| r.cents).sum::<i64>();
        let is_back = so_far.iter().any(|r| matches!(r.kind, "RETURNED" | "CHARGED_BACK"));
        let is_dollars = so_far.iter().all(|r| r.currency == "USD");
        let left = sum("COMPLETED") - sum("REFUNDED");
        let is_refused = is_back || !is_dollars || wanted > left || rng(self.seed, key).u32(..20) == 0;
        let policy = if is_refused { Policy::Refuse } else { Policy::Accept };
        if is_performed {
            self.refunds.insert(key.to_owned(), policy);
            if !is_refused {
                // Refunds that the bank was to make on its own are replaced by this one.
                let now = self.now.clone();
                // Once all of it is back, there is nothing left to return.
                let is_replaced = |r: &Report| r.kind == "REFUNDED" || wanted == left;
                self.reports.retain(|r| r.transaction != transaction || r.at <= now || !is_replaced(r));
                let of = self.reports.iter().find(|r| r.transaction == transaction).unwrap().clone();
                let mut rng = rng(self.seed, &format!("report {key}"));
                let source = Source { key: None, ..Source::of(&of) };
                let day = day_number(&now[..10]) + 1;
                self.report(&source, "REFUNDED", (day, 5), wanted, "", &mut rng);
            }
        }
        policy
    }

    /// Settles on a day after the request.
    fn settles(&mut self, debit: &Debit, rng: &mut Rng, after: i64) {
        let day = day_number(&debit.performed.as_ref().unwrap()[..10]) + after;
        // A debit that is collected at once settles in the hour of its request.
        let hour = if after == 0 { 9 } else { 3 };
        self.report(&Source::ours(debit), "COMPLETED", (day, hour), debit.cents, "", rng);
    }

    /// What becomes of an accepted debit.
    fn decide(&mut self, debit: &Debit, rng: &mut Rng) {
        let day = day_number(&debit.performed.as_ref().unwrap()[..10]);
        let (ours, full) = (Source::ours(debit), debit.cents);
        let settled = day + rng.i64(2..5);
        let later = settled + rng.i64(3..45);
        if rng.u32(..3) == 0 {
            self.report(&ours, "SUBMITTED", (day, 10), full, "", rng);
        }
        let code = |rng: &mut Rng, codes: &[&'static str]| *rng.choice(codes).unwrap();
        match rng.u32(..1000) {
            0..150 => {
                let code = code(rng, &["R01", "R01", "R01", "R09"]);
                self.report(&ours, "RETURNED", (settled, 3), full, code, rng);
            }
            150..180 => {
                let code = code(rng, &["R02", "R03", "R04", "R08", "R11", "R16", "R20"]);
                self.report(&ours, "RETURNED", (settled, 3), full, code, rng);
            }
            180..188 => {
                let code = code(rng, &["R05", "R07", "R10", "R29"]);
                self.report(&ours, "RETURNED", (settled, 3), full, code, rng);
            }
            188..240 => {
                // The settlement often arrives after the return.
                let days = if rng.bool() { vec![later + rng.i64(1..20)] } else { vec![settled] };
                self.report_on(&ours, "COMPLETED", (settled, 3), full, "", rng, days);
                let code = code(rng, &["R01", "R01", "R09", "R02", "R10"]);
                self.report(&ours, "RETURNED", (later, 4), full, code, rng);
            }
            240..252 => {
                self.report(&ours, "COMPLETED", (settled, 3), full, "", rng);
                self.report(&ours, "CHARGED_BACK", (later, 4), full, "R10", rng);
            }
            252..282 => {
                let first = rng.i64(1..full);
                self.report(&ours, "COMPLETED", (settled, 3), full, "", rng);
                self.report(&ours, "REFUNDED", (later, 4), first, "", rng);
                self.report(&ours, "REFUNDED", (later + 2, 4), full - first, "", rng);
            }
            282..312 => {
                self.report(&ours, "COMPLETED", (settled, 3), full, "", rng);
                self.report(&ours, "REFUNDED", (later, 4), rng.i64(1..full), "", rng);
            }
            312..332 => self.report(&ours, "COMPLETED", (settled, 3), rng.i64(1..full), "", rng),
            332..352 => {
                let more = full + rng.i64(1..20_000);
                self.report(&ours, "COMPLETED", (settled, 3), more, "", rng);
                if rng.bool() {
                    self.report(&ours, "REFUNDED", (later, 4), rng.i64(1..more), "", rng);
                }
            }
            352..364 => {
                let yen = Source { currency: "JPY", ..ours };
                self.report(&yen, "COMPLETED", (settled, 3), full * 100, "", rng);
            }
            364..394 => {
                // Another service collected the same period.
                let other = Source { transaction: format!("x-{}", debit.key), key: None, ..ours.clone() };
                self.report(&ours, "COMPLETED", (settled, 3), full, "", rng);
                self.report(&other, "COMPLETED", (settled + 1, 3), full, "", rng);
                if rng.u32(..3) == 0 {
                    self.report(&other, "RETURNED", (later, 4), full, "R01", rng);
                }
            }
            394..404 => {
                let record = format!("{}-unknown", &debit.record[..8]);
                let transaction = format!("y-{}", debit.key);
                let lost = Source { transaction, record, key: None, ..ours.clone() };
                self.report(&ours, "COMPLETED", (settled, 3), full, "", rng);
                self.report(&lost, "COMPLETED", (settled + 1, 3), full, "", rng);
            }
            404..414 => {
                let code = code(rng, &["C01", "C02", "C05"]);
                self.report(&ours, "RETURNED", (settled - 1, 3), full, code, rng);
                self.report(&ours, "COMPLETED", (settled, 3), full, "", rng);
            }
            _ => self.report(&ours, "COMPLETED", (settled, 3), full, "", rng),
        }
    }

    /// Adds a report that arrives on the same day or the next, or weeks later, or more than once.
    fn report(
        &mut self,
        source: &Source,
        kind: &'static str,
        time: (i64, i64),
        cents: i64,
        code: &'static str,
        rng: &mut Rng,
    ) {
        let mut days = vec![time.0 + if rng.u32(..10) == 0 { rng.i64(14..45) } else { rng.i64(0..2) }];
        if rng.u32(..8) == 0 {
            days.push(days[0] + rng.i64(0..30));
        }
        self.report_on(source, kind, time, cents, code, rng, days);
    }

    #[allow(clippy::too_many_arguments)]
    fn report_on(
        &mut self,
        source: &Source,
        kind: &'static str,
        (day, hour): (i64, i64),
        cents: i64,
        code: &'static str,
        rng: &mut Rng,
        days: Vec<i64>,
    ) {
        let at = format!("{}T{hour:02}:{:02}:{:02}Z", date(day), rng.u32(..60), rng.u32(..60));
        let number = self.reports.iter().filter(|r| r.transaction == source.transaction).count();
        let status = match kind {
            "SUBMITTED" => "PENDING",
            "RETURNED" => "FAILED",
            other => other,
        };
        // A report names its debit by the bank's id, by our key, or by both.
        let by_key = source.key.as_ref().filter(|_| rng.u32(..6) > 0);
        let by_id = by_key.is_none() || rng.u32(..6) > 0;
        let wire = json!({"event_id": format!("{}:{number}", source.transaction),
            "type": format!("SUBSCRIPTION_{kind}"), "occurred_at": at, "payment": {
            "payment_id": by_key, "subscription_id": source.record, "user_id": source.user, "status": status,
            "amount": amount(cents), "currency": source.currency, "processor": "BANK",
            "confirmation_id": by_id.then_some(&source.transaction), "payment_type": "ACH",
            "account_mask": "6789", "return_code": Some(code).filter(|code| !code.is_empty()),
            "message": null}});
        self.reports.push(Report {
            transaction: source.transaction.clone(),
            user: source.user.clone(),
            record: source.record.clone(),
            kind,
            at,
            cents,
            currency: source.currency,
            code,
            delivered: None,
            // Nothing arrives before today's delivery.
            days: days.into_iter().map(|due| due.max(day_number(&self.now[..10]) + 1)).collect(),
            wire,
        });
    }
}

/// What a report is about.
#[derive(Debug, Clone)]
struct Source {
    transaction: String,
    user: String,
    record: String,
    /// Our attempt key.
    key: Option<String>,
    currency: &'static str,
}

impl Source {
    fn ours(debit: &Debit) -> Self {
        Self {
            transaction: format!("c-{}", debit.key),
            user: debit.user.clone(),
            record: debit.record.clone(),
            key: Some(debit.key.clone()),
            currency: "USD",
        }
    }

    fn of(report: &Report) -> Self {
        Self {
            transaction: report.transaction.clone(),
            user: report.user.clone(),
            record: report.record.clone(),
            key: None,
            currency: report.currency,
        }
    }
}

/// Whether the attempt is on record at this moment: its history row, and ACHSENT in the primary row. Reads
/// the bytes of the rows.
fn is_on_record(store: &Path, user: &str, record: &str, key: &str) -> bool {
    let database = Connection::open_with_flags(store, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let id: Vec<u8> = record
        .replace('-', "")
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect();
    let attempt = key.rsplit('-').next().unwrap();
    let is_there = |table: &str, parts: &[String]| {
        let wanted: String =
            parts.iter().map(|part| format!(" AND instr(item, CAST('{part}' AS BLOB)) > 0")).collect();
        let query = format!("SELECT count(*) FROM \"{table}\" WHERE pk = ?1 AND p0 = ?2{wanted}");
        let count: i64 = database.query_row(&query, params![user, id], |row| row.get(0)).unwrap();
        count > 0
    };
    is_there("billing-activity-history", &["\"k\":\"intended\"".into(), format!("\"n\":{attempt}")])
        && is_there("billing-activity", &["ACHSENT".into()])
}
