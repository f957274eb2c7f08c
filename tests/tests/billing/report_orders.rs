//! The bank's reports about one record, in every order, repeated, and cut into any batches: the record ends
//! the same, and as a table says that is written for this test.
//!
//! `REPORT_ORDERS=all` draws ten times as many sets, `REPORT_ORDERS_SEED=n` other ones. A failure names its
//! set and order: `REPORT_ORDER=set-17/0213` delivers that one alone, one report at a time, and shows the
//! record after each.

use dues_events::Item;
use dues_store::table::{BILLING_ACTIVITY, EMBEDDED, Table};
use dues_store::{Condition, Engine};
use dues_tests::clock::TestClock;
use dues_tests::engines::memory::Memory;
use dues_tests::engines::stepped::{Stage, Stepped, short};
use dues_tests::fixtures::company::{Sent, all, membership, monthly, t};
use dues_tests::gateways::stepped::SteppedGateway;
use dues_tests::judge::{Books, text};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::interleavings::permutations;
use crate::interleavings::system::{System, USER, deliver};

const NOW: &str = "2026-02-03T08:00:00Z";
/// What the record costs.
const PRICE: &str = "14.99";

/// What the bank says, in the order of rank for equal times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Sent,
    Settled,
    Returned,
    Refunded,
    ChargedBack,
}

/// How a report names its attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    Transaction,
    /// Our own attempt, by its key.
    Key,
    Nothing,
}

/// One report about transaction `T1`, `T2` or `T3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Report {
    kind: Kind,
    transaction: usize,
    names: Names,
    /// The hour of its time, counted from 4 February.
    hour: u32,
    amount: &'static str,
    currency: &'static str,
    code: &'static str,
}

/// Reports about one record.
#[derive(Debug, Clone)]
struct Set {
    name: String,
    /// Whether our own debit is under way before: it is `T1`.
    own_debit: bool,
    reports: Vec<Report>,
}

/// What the reports leave behind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Observed {
    status: String,
    transaction: String,
    error: String,
    refunded: String,
    barred: bool,
    parked: usize,
    /// Rows of other tables, such as unapplied money.
    others: Vec<String>,
}

/// What a table says about a record; `None` where it leaves more than one answer.
#[derive(Debug, Default)]
struct Expected {
    /// The possible statuses.
    statuses: Vec<&'static str>,
    transactions: Option<Vec<usize>>,
    error: Option<&'static str>,
    refunded: Option<String>,
    barred: Option<bool>,
}

impl Report {
    const fn new(kind: Kind, transaction: usize, hour: u32) -> Self {
        let code = match kind {
            Kind::Returned => "R01",
            Kind::ChargedBack => "R10",
            Kind::Sent | Kind::Settled | Kind::Refunded => "",
        };
        Self { kind, transaction, names: Names::Transaction, hour, amount: PRICE, currency: "USD", code }
    }

    const fn of(self, amount: &'static str, currency: &'static str) -> Self {
        Self { amount, currency, ..self }
    }

    /// As the stream delivers it.
    fn wire(&self, record: &str, key: &str, n: usize) -> Value {
        let (kind, status) = match self.kind {
            Kind::Sent => ("SUBMITTED", "PENDING"),
            Kind::Settled => ("COMPLETED", "COMPLETED"),
            Kind::Returned => ("RETURNED", "FAILED"),
            Kind::Refunded => ("REFUNDED", "REFUNDED"),
            Kind::ChargedBack => ("CHARGED_BACK", "CHARGED_BACK"),
        };
        let (confirmation, payment) = match self.names {
            Names::Transaction => (Some(transaction_id(self.transaction, key)), format!("p-{n}")),
            Names::Key => (None, key.to_owned()),
            Names::Nothing => (None, format!("p-{n}")),
        };
        let at = t("2026-02-04T00:00:00Z") + chrono::TimeDelta::hours(self.hour.into());
        let code = (!self.code.is_empty()).then_some(self.code);
        json!({"event_id": format!("e-{n}"), "type": format!("SUBSCRIPTION_{kind}"),
            "occurred_at": at.format("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "payment": {"payment_id": payment, "subscription_id": record, "user_id": USER, "status": status,
                "amount": self.amount, "currency": self.currency, "processor": "JPM",
                "confirmation_id": confirmation, "payment_type": "ACH", "account_mask": "6789",
                "return_code": code, "message": null}})
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, transaction, names, hour, amount, currency, code } = self;
        write!(f, "hour {hour:>3}: T{} {kind:?} {amount} {currency} {code}", transaction + 1)?;
        match names {
            Names::Transaction => Ok(()),
            Names::Key => f.write_str(" (named by our key)"),
            Names::Nothing => f.write_str(" (names nothing)"),
        }
    }
}

/// `T1` is our own attempt where there is one.
fn transaction_id(n: usize, key: &str) -> String {
    if n == 0 && !key.is_empty() { format!("conf-{key}") } else { format!("T{}", n + 1) }
}

fn cents(text: &str) -> u32 {
    let (whole, part) = text.split_once('.').unwrap();
    whole.parse::<u32>().unwrap() * 100 + part.parse::<u32>().unwrap()
}

/// The table: an attempt comes to its latest report, a record to its attempts together.
fn expected(set: &Set) -> Expected {
    let mut attempts: BTreeMap<usize, Vec<&Report>> = BTreeMap::new();
    if set.own_debit {
        attempts.entry(0).or_default();
    }
    for report in &set.reports {
        attempts.entry(report.transaction).or_default().push(report);
    }
    let (mut paid, mut under_way, mut refunded, mut failed) = (vec![], vec![], vec![], vec![]);
    let (mut partly_back, mut unapplied, mut barred, mut unclear) = (0, false, false, false);
    for (transaction, reports) in &mut attempts {
        reports.sort_by_key(|report| (report.hour, report.kind));
        let pays = |report: &&Report| report.currency == "USD" && cents(report.amount) >= cents(PRICE);
        let settled = reports.iter().rev().find(|report| report.kind == Kind::Settled);
        let back: u32 =
            reports.iter().filter(|report| report.kind == Kind::Refunded).map(|r| cents(r.amount)).sum();
        let fails = |report: &&&Report| matches!(report.kind, Kind::Returned | Kind::ChargedBack);
        let is_refund_last = reports.last().is_some_and(|last| last.kind == Kind::Refunded);
        // A refund of what had been returned by then: only the order must not matter.
        unclear |= is_refund_last && reports.iter().any(|report| fails(&report));
        match reports.last() {
            None => under_way.push(*transaction),
            Some(last) => match last.kind {
                Kind::Sent => under_way.push(*transaction),
                Kind::Settled if pays(last) => paid.push(*transaction),
                Kind::Settled => unapplied = true,
                Kind::Refunded if back >= settled.map_or(cents(PRICE), |settled| cents(settled.amount)) => {
                    refunded.push(*transaction)
                }
                Kind::Refunded => {
                    paid.push(*transaction);
                    partly_back = back;
                }
                Kind::Returned | Kind::ChargedBack => {
                    barred |= last.code == "R10";
                    failed.push(**last);
                }
            },
        }
    }
    let error = failed.iter().max_by_key(|report| (report.hour, report.kind)).map(|report| report.code);
    let could_bar = set.reports.iter().any(|report| report.code == "R10");
    let mut expected = Expected {
        // Reported once and taken back later: the table does not say whether the bar stays.
        barred: (barred || !could_bar).then_some(barred),
        ..Expected::default()
    };
    if unclear {
        expected.statuses = vec!["COMPLETED", "REFUNDED", "ERROR", "ACHSENT"];
        expected.barred = None;
    } else if !paid.is_empty() {
        expected.statuses = vec!["COMPLETED"];
        expected.error = Some("");
        if paid.len() == 1 {
            let back = format!("{}.{:02}", partly_back / 100, partly_back % 100);
            expected.refunded = Some(if partly_back > 0 { back } else { String::new() });
        }
        expected.transactions = Some(paid);
    } else if !under_way.is_empty() {
        expected.statuses = vec!["ACHSENT"];
        expected.transactions = (under_way.len() == 1 && !set.own_debit).then_some(under_way);
    } else if !refunded.is_empty() {
        expected.statuses = vec!["REFUNDED"];
        expected.transactions = Some(refunded);
    } else if error.is_some() {
        expected.statuses = vec!["ERROR"];
        expected.error = error;
    } else {
        assert!(unapplied, "a set has reports");
        // Money arrived that pays nothing.
        expected.statuses = vec!["SCHEDULED", "ACHSENT", "ERROR"];
    }
    expected
}

impl Expected {
    fn problems(&self, observed: &Observed, key: &str) -> Vec<String> {
        let mut problems = Vec::new();
        let mut check = |holds: bool, what: &str, wanted: &dyn std::fmt::Debug, is: &dyn std::fmt::Debug| {
            if !holds {
                problems.push(format!("{what} is {is:?} instead of {wanted:?}"));
            }
        };
        check(self.statuses.contains(&observed.status.as_str()), "status", &self.statuses, &observed.status);
        if let Some(transactions) = &self.transactions {
            let wanted: Vec<String> = transactions.iter().map(|n| transaction_id(*n, key)).collect();
            check(wanted.contains(&observed.transaction), "transaction", &wanted, &observed.transaction);
        }
        if let Some(error) = self.error {
            let holds =
                if error.is_empty() { observed.error.is_empty() } else { observed.error.contains(error) };
            check(holds, "usio_error", &error, &observed.error);
        }
        if let Some(refunded) = &self.refunded {
            let is = if observed.refunded == "0" { "" } else { observed.refunded.as_str() };
            check(refunded == is, "refunded amount", refunded, &observed.refunded);
        }
        if let Some(barred) = self.barred {
            check(barred == observed.barred, "bar", &barred, &observed.barred);
        }
        check(observed.parked == 0, "number of parked reports", &0, &observed.parked);
        problems
    }
}

/// A record that is due, alone or with our debit under way.
struct Prepared {
    rows: Vec<(&'static Table, Item)>,
    record: String,
    /// The key of our debit; empty if there is none.
    key: String,
}

impl Prepared {
    async fn new(own_debit: bool) -> Self {
        let (engine, clock) = (Memory::default(), TestClock::manual(t(NOW)));
        let begin = membership("m-1", "ACTIVATE", USER, "2026-01-05T00:00:00Z", monthly("2026-02-01"));
        deliver(&engine, &clock, &[begin]).await;
        let record = text(&all(&engine, &BILLING_ACTIVITY).await[0], "subscription_id").to_owned();
        let stage = Stage::free(Vec::new());
        if own_debit {
            let gateway = SteppedGateway(Stepped::new(engine.clone(), stage.clone(), 0));
            System::new(engine.clone(), gateway, &clock).collect(None).await;
        }
        let key = stage.debits().first().map(|debit| debit.key.clone()).unwrap_or_default();
        assert_eq!(key.is_empty(), !own_debit);
        let mut rows = Vec::new();
        for table in EMBEDDED {
            rows.extend(all(&engine, table).await.into_iter().map(|row| (table, row)));
        }
        Self { rows, record, key }
    }

    async fn engine(&self) -> Memory {
        let engine = Memory::default();
        for (table, row) in &self.rows {
            engine.put(table, row.clone(), Condition::Always).await.unwrap();
        }
        engine
    }

    /// Delivers these reports of a set in batches.
    async fn deliver(&self, engine: &Memory, set: &Set, batches: &[Vec<usize>]) -> Observed {
        let clock = TestClock::manual(t("2026-04-01T08:00:00Z"));
        for batch in batches.iter().filter(|batch| !batch.is_empty()) {
            let wire = |n: &usize| set.reports[*n].wire(&self.record, &self.key, *n);
            let batch: Vec<Sent> = batch.iter().map(|n| ("site-payments", wire(n))).collect();
            deliver(engine, &clock, &batch).await;
        }
        self.observe(engine).await
    }

    async fn observe(&self, engine: &Memory) -> Observed {
        let books = Books::read(engine, Vec::new()).await;
        let row = books.billing.iter().find(|row| text(row, "subscription_id") == self.record).unwrap();
        let mut others: Vec<String> = books
            .others
            .iter()
            .map(|(table, row)| format!("{table} {} {}", text(row, "amount"), text(row, "transaction_id")))
            .collect();
        others.sort();
        Observed {
            status: text(row, "billing_status").to_owned(),
            transaction: text(row, "transaction_id").to_owned(),
            error: text(row, "usio_error").to_owned(),
            refunded: text(row, "refunded_amount").to_owned(),
            barred: !text(row, "collection_bar").is_empty(),
            parked: books.parked.len(),
            others,
        }
    }
}

/// The sets that broke in the field.
fn known() -> Vec<Set> {
    use Kind::{ChargedBack, Refunded, Returned, Sent, Settled};
    let r = Report::new;
    let sets: [(&str, bool, Vec<Report>); 10] = [
        ("settled-before-sent", false, vec![r(Sent, 0, 1), r(Settled, 0, 50)]),
        (
            "old-attempt-settles",
            false,
            vec![r(Sent, 0, 1), r(Returned, 0, 30), r(Sent, 1, 40), r(Settled, 0, 45), r(Returned, 1, 70)],
        ),
        (
            "late-r10",
            false,
            vec![r(Sent, 0, 1), r(Settled, 0, 50), Report { code: "R10", ..r(Returned, 0, 400) }],
        ),
        ("charged-back", false, vec![r(Sent, 0, 1), r(Settled, 0, 50), r(ChargedBack, 0, 400)]),
        ("one-yen-cent", false, vec![r(Sent, 0, 1), r(Settled, 0, 50).of("0.01", "JPY")]),
        (
            "refund-of-a-dollar",
            false,
            vec![r(Sent, 0, 1), r(Settled, 0, 50), r(Refunded, 0, 90).of("1.00", "USD")],
        ),
        (
            "refunds-add-up",
            false,
            vec![
                r(Settled, 0, 50),
                r(Refunded, 0, 90).of("5.00", "USD"),
                r(Refunded, 0, 95).of("9.99", "USD"),
            ],
        ),
        ("surplus", false, vec![r(Sent, 0, 1), r(Settled, 0, 50), r(Sent, 1, 2), r(Settled, 1, 51)]),
        (
            "by-key",
            true,
            vec![
                Report { names: Names::Key, ..r(Settled, 0, 50) },
                Report { names: Names::Key, ..r(Refunded, 0, 90) },
            ],
        ),
        ("names-nothing", false, vec![r(Sent, 0, 1), Report { names: Names::Nothing, ..r(Settled, 0, 50) }]),
    ];
    let sets = sets.into_iter();
    sets.map(|(name, own_debit, reports)| Set { name: name.to_owned(), own_debit, reports }).collect()
}

/// A set drawn by seed. Refunds follow the settlement that they give back; a report that names nothing is
/// only drawn where one attempt is under way at its time.
fn drawn(n: u64, seed: u64) -> Set {
    let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(1_000_003).wrapping_add(n));
    let size = 2 + (n as usize) % 5;
    let own_debit = random.u32(0..4) == 0;
    let transactions = random.usize(1..4);
    let mut hours: Vec<u32> = (1..600).collect();
    random.shuffle(&mut hours);
    let mut hour = || hours.pop().unwrap();
    let mut reports: Vec<Report> = Vec::new();
    // One attempt may not have that many different reports.
    for _ in 0..200 {
        if reports.len() == size {
            break;
        }
        let transaction = random.usize(0..transactions);
        let of_it =
            |kind: Kind| move |report: &&Report| report.transaction == transaction && report.kind == kind;
        let kind =
            [Kind::Sent, Kind::Settled, Kind::Settled, Kind::Returned, Kind::Refunded, Kind::ChargedBack]
                [random.usize(0..6)];
        let mut report = Report::new(kind, transaction, hour());
        match kind {
            Kind::Refunded => {
                let Some(settled) = reports.iter().find(of_it(Kind::Settled)) else { continue };
                if settled.amount != PRICE || settled.currency != "USD" {
                    continue;
                }
                report.hour = settled.hour + 1 + random.u32(0..40);
                let before =
                    reports.iter().filter(of_it(Kind::Refunded)).map(|r| r.amount).collect::<Vec<_>>();
                report.amount = match before.as_slice() {
                    [] => ["5.00", PRICE][random.usize(0..2)],
                    ["5.00"] => "9.99",
                    _ => continue,
                };
            }
            Kind::Sent | Kind::Settled | Kind::Returned | Kind::ChargedBack => {
                // The table speaks of one report of a kind about an attempt.
                if reports.iter().any(|known| of_it(kind)(&known)) {
                    continue;
                }
                match (kind, random.u32(0..10)) {
                    (Kind::Settled, 0) => report = report.of("0.01", "JPY"),
                    (Kind::Settled, 1) => report = report.of("5.00", "USD"),
                    (Kind::Settled, 2) => report = report.of("20.00", "USD"),
                    (Kind::Returned, 0 | 1) => report.code = "R10",
                    _ => {}
                }
            }
        }
        if transactions == 1 && random.u32(0..2) == 0 {
            report.names = Names::Nothing;
        } else if own_debit && transaction == 0 && random.u32(0..3) == 0 {
            report.names = Names::Key;
        }
        reports.push(report);
    }
    let all = reports.clone();
    for report in reports.iter_mut().filter(|report| report.names == Names::Nothing) {
        // It is about the attempt that is under way at its time.
        let before = |kinds: &[Kind]| {
            all.iter().any(|other| {
                kinds.contains(&other.kind) && other.hour < report.hour && other.names != Names::Nothing
            })
        };
        let ends = [Kind::Settled, Kind::Returned, Kind::Refunded, Kind::ChargedBack];
        let is_end = matches!(report.kind, Kind::Settled | Kind::Returned);
        let others = all.iter().filter(|other| other.names == Names::Nothing).count();
        if !is_end || !(own_debit || before(&[Kind::Sent])) || before(&ends) || others > 1 {
            report.names = Names::Transaction;
        }
    }
    Set { name: format!("set-{n}"), own_debit, reports }
}

/// The orders in which a set is delivered: all up to five reports, 120 drawn ones of six.
fn orders(reports: usize, random: &mut fastrand::Rng) -> Vec<Vec<usize>> {
    if reports <= 5 {
        return permutations(reports);
    }
    let mut orders = vec![(0..reports).collect::<Vec<_>>(), (0..reports).rev().collect()];
    while orders.len() < 120 {
        let mut order: Vec<usize> = (0..reports).collect();
        random.shuffle(&mut order);
        orders.push(order);
    }
    orders
}

/// Repeats some reports later in the order, and cuts it into batches.
fn repeat_and_cut(order: &[usize], random: &mut fastrand::Rng) -> Vec<Vec<usize>> {
    let mut order = order.to_vec();
    for _ in 0..random.usize(0..3) {
        let from = random.usize(0..order.len());
        let to = random.usize(from + 1..=order.len());
        order.insert(to, order[from]);
    }
    let mut batches = vec![Vec::new()];
    for n in order {
        if random.u32(0..3) == 0 {
            batches.push(Vec::new());
        }
        batches.last_mut().unwrap().push(n);
    }
    batches
}

/// How often something was observed, and one order and cutting that gave it.
struct Example {
    count: usize,
    order: Vec<usize>,
    batches: Vec<Vec<usize>>,
}

/// Delivers a set in all orders. Returns what is wrong.
async fn check(set: &Set, prepared: &Prepared, seed: u64) -> Option<String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let expected = expected(set);
    let mut seen: BTreeMap<Observed, Example> = BTreeMap::new();
    for order in orders(set.reports.len(), &mut random) {
        let one_by_one: Vec<Vec<usize>> = order.iter().map(|n| vec![*n]).collect();
        for batches in [one_by_one, repeat_and_cut(&order, &mut random)] {
            let observed = prepared.deliver(&prepared.engine().await, set, &batches).await;
            let example = || Example { count: 0, order: order.clone(), batches };
            seen.entry(observed).or_insert_with(example).count += 1;
        }
    }
    let wrong = seen.keys().filter(|observed| !expected.problems(observed, &prepared.key).is_empty()).count();
    if seen.len() == 1 && wrong == 0 {
        return None;
    }
    let digits = |order: &[usize]| order.iter().map(ToString::to_string).collect::<String>();
    let mut out = format!("{}{}:\n", set.name, if set.own_debit { ", T1 is our own debit" } else { "" });
    for (n, report) in set.reports.iter().enumerate() {
        writeln!(out, "  {n}. {report}").unwrap();
    }
    let mut ends: Vec<_> = seen.iter().collect();
    ends.sort_by_key(|(_, example)| std::cmp::Reverse(example.count));
    for (observed, Example { count, order, batches }) in ends.into_iter().take(6) {
        let Observed { status, transaction, error, refunded, barred, parked, others } = observed;
        writeln!(
            out,
            "  {count} times {status} {} error={error:?} refunded={refunded:?} \
             barred={barred} parked={parked} {others:?}",
            short(transaction)
        )
        .unwrap();
        writeln!(out, "    as with {batches:?}: REPORT_ORDER={}/{}", set.name, digits(order)).unwrap();
        for problem in expected.problems(observed, &prepared.key) {
            writeln!(out, "    {}", short(&problem)).unwrap();
        }
    }
    Some(out)
}

/// Shows the record after each report of one order.
async fn trace(set: &Set, prepared: &Prepared, order: &[usize]) {
    let engine = prepared.engine().await;
    println!("{}: {:?}", set.name, prepared.observe(&engine).await);
    for n in order {
        let observed = prepared.deliver(&engine, set, &[vec![*n]]).await;
        println!("  {n}. {}\n     {observed:?}", set.reports[*n]);
    }
    let problems = expected(set).problems(&prepared.observe(&engine).await, &prepared.key);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

async fn check_all(sets: Vec<Set>, seed: u64) {
    let prepared = [Prepared::new(false).await, Prepared::new(true).await];
    let of = |set: &Set| &prepared[usize::from(set.own_debit)];
    if let Ok(wanted) = std::env::var("REPORT_ORDER") {
        let (name, order) = wanted.split_once('/').expect("REPORT_ORDER is a set and an order");
        let order: Vec<usize> = order.chars().map(|n| n.to_digit(10).unwrap() as usize).collect();
        for set in sets.iter().filter(|set| set.name == name) {
            trace(set, of(set), &order).await;
        }
        return;
    }
    let mut wrong = Vec::new();
    for set in &sets {
        if let Some(problem) = check(set, of(set), seed).await {
            wrong.push((set.reports.len(), problem));
        }
    }
    wrong.sort_by_key(|(size, _)| *size);
    println!("{} of {} sets of reports depend on their order, or end wrong", wrong.len(), sets.len());
    let shown: Vec<&str> = wrong.iter().take(10).map(|(_, problem)| problem.as_str()).collect();
    let (wrong, all) = (wrong.len(), sets.len());
    assert!(
        wrong == 0,
        "REPORT_ORDERS_SEED={seed}: {wrong} of {all} sets, the smallest:\n{}",
        shown.join("\n")
    );
}

fn seed() -> u64 {
    std::env::var("REPORT_ORDERS_SEED")
        .map_or(1, |seed| seed.parse().expect("REPORT_ORDERS_SEED is a number"))
}

#[tokio::test]
async fn known_sets_in_any_order() {
    check_all(known(), seed()).await;
}

#[tokio::test]
async fn drawn_sets_in_any_order() {
    let count = if std::env::var("REPORT_ORDERS").as_deref() == Ok("all") { 400 } else { 40 };
    check_all((0..count).map(|n| drawn(n, seed())).collect(), seed()).await;
}

/// The table of this test, checked by hand.
#[test]
fn the_table_says_what_the_known_sets_come_to() {
    let wanted = [
        ("settled-before-sent", "COMPLETED", Some(vec![0]), Some(""), Some(""), Some(false)),
        ("old-attempt-settles", "COMPLETED", Some(vec![0]), Some(""), Some(""), Some(false)),
        ("late-r10", "ERROR", None, Some("R10"), None, Some(true)),
        ("charged-back", "ERROR", None, Some("R10"), None, Some(true)),
        ("one-yen-cent", "SCHEDULED", None, None, None, Some(false)),
        ("refund-of-a-dollar", "COMPLETED", Some(vec![0]), Some(""), Some("1.00"), Some(false)),
        ("refunds-add-up", "REFUNDED", Some(vec![0]), None, None, Some(false)),
        ("surplus", "COMPLETED", Some(vec![0, 1]), Some(""), None, Some(false)),
        ("by-key", "REFUNDED", Some(vec![0]), None, None, Some(false)),
        ("names-nothing", "COMPLETED", Some(vec![0]), Some(""), Some(""), Some(false)),
    ];
    for (set, (name, status, transactions, error, refunded, barred)) in known().iter().zip(wanted) {
        let expected = expected(set);
        assert_eq!(set.name, name);
        assert_eq!(expected.statuses[0], status, "{name}");
        assert_eq!(expected.transactions, transactions, "{name}");
        assert_eq!((expected.error, expected.refunded.as_deref()), (error, refunded), "{name}");
        assert_eq!(expected.barred, barred, "{name}");
    }
}
