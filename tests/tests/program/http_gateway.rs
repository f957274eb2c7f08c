//! `dues collect` through a payments service on a real socket, which fails in many ways.

use dues_tests::gateways::http_service::{Fault, Payments, Policy};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;

use crate::sandbox_ledger::tally;
use crate::support::records::{Debit, activate};
use crate::support::run::{Dues, assert_has, assert_says, counts, texts};

/// A Monday, the day after the first due date.
const FIRST: &str = "2026-02-02T08:00:00Z";
/// The day after.
const LATER: &str = "2026-02-03T08:00:00Z";
/// After every day on which a refusal of the first day can be planned to be presented again.
const PLANNED: &str = "2026-02-20T08:00:00Z";
const TOKEN: &str = "s3cret-t0ken-of-the-service";

/// The service, and the runtime that serves it concurrent with the test.
struct Service {
    payments: Payments,
    /// Dropped last.
    _runtime: Runtime,
}

impl Service {
    fn start() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self { payments: runtime.block_on(Payments::start()), _runtime: runtime }
    }

    fn with(policy: Policy) -> Self {
        let service = Self::start();
        service.payments.set_policy(policy);
        service
    }
}

/// A port that is taken but has no listener.
struct Nowhere(TcpSocket);

impl Nowhere {
    fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        Self(socket)
    }

    fn base(&self) -> String {
        format!("http://{}/v1", self.0.local_addr().unwrap())
    }
}

fn members(n: usize) -> Dues {
    let dues = Dues::new();
    let members: Vec<Value> = (0..n).map(|n| activate(&format!("m-{n}"), &format!("u-{n}"))).collect();
    dues.members(&members);
    dues
}

impl Dues {
    fn collect_at(&self, base: &str, process: &str, as_of: &str) -> BTreeMap<String, u64> {
        let summary = self.json(&["collect", "--process", process, "--as-of", as_of, "--gateway", base]);
        assert_eq!(summary["sandbox"], Value::Null, "the made-up network has no part in it");
        tally(&summary)
    }

    fn first(&self, user: &str) -> Value {
        self.subscriptions(user)[0].clone()
    }
}

#[test]
fn what_the_service_answers_is_what_becomes_of_the_record() {
    for (policy, counted, wanted) in [
        (
            Policy::Accept,
            "sent",
            json!({"billing_status": "ACHSENT", "transaction_id": "c-1", "usio_error": ""}),
        ),
        (
            Policy::Collect,
            "collected",
            json!({"billing_status": "COMPLETED", "transaction_id": "c-1", "receipt_account_mask": "6789"}),
        ),
        (
            Policy::Refuse,
            "refused",
            json!({"billing_status": "ERROR", "usio_error": "R01 Insufficient funds"}),
        ),
    ] {
        let (dues, service) = (members(1), Service::with(policy));
        let base = service.payments.base();
        assert_eq!(dues.collect_at(&base, "INITIAL", FIRST), counts([(counted, 1)]));
        let record = dues.first("u-0");
        assert_has(&record, &wanted);
        assert_has(&record, &json!({"process": "INITIAL", "attempts": 1}));
        let id = record["subscription_id"].as_str().unwrap();
        let ledger = service.payments.ledger();
        assert_eq!(ledger.keys().collect::<Vec<_>>(), [&format!("{id}-1")]);
        assert_eq!(
            ledger[&format!("{id}-1")].request,
            json!({"payment_id": format!("{id}-1"), "subscription_id": id, "user_id": "u-0",
                "amount": "14.99", "currency": "USD",
                "payment_type": "ACH", "period": "02/2026"})
        );
        assert_eq!(dues.collect_at(&base, "INITIAL", FIRST), counts([]));
        assert_eq!(service.payments.counts(), (1, 0), "once, and no questions asked");
        assert_eq!(dues.books(), [], "the made-up network has no part in it");
        assert_eq!(dues.statuses("u-0").len(), 2);
    }
}

#[test]
fn a_refused_debit_is_presented_again_under_the_next_key_and_settles_by_its_confirmation() {
    let (dues, service) = (members(1), Service::with(Policy::Refuse));
    let base = service.payments.base();
    assert_eq!(dues.collect_at(&base, "INITIAL", FIRST), counts([("refused", 1)]));
    service.payments.set_policy(Policy::Accept);
    assert_eq!(dues.collect_at(&base, "RETRY", PLANNED), counts([("sent", 1)]));
    let id = dues.id("u-0", 0);
    assert_eq!(service.payments.debits().into_keys().collect::<Vec<_>>(), [format!("{id}-2")]);
    let confirmation = dues.first("u-0")["transaction_id"].as_str().unwrap().to_owned();
    assert_eq!(
        dues.payments(&[Debit::new("u-0", &id, &confirmation).completed("p-1", "2026-02-24")]),
        counts([("applied", 1)])
    );
    assert_eq!(dues.statuses("u-0"), ["COMPLETED", "SCHEDULED"]);
}

#[test]
fn one_record_is_paid_through_the_service() {
    let (dues, service, nowhere) = (members(2), Service::start(), Nowhere::new());
    let id = dues.id("u-0", 0);
    let paid = dues
        .json_with(&["pay", "u-0", &id, "--as-of", FIRST], &[("DUES_GATEWAY_URL", &service.payments.base())]);
    assert_has(
        &paid,
        &json!({"billing_status": "ACHSENT", "process": "MANUAL_REPAYMENT", "transaction_id": "c-1"}),
    );
    assert_eq!(service.payments.debits().into_keys().collect::<Vec<_>>(), [format!("{id}-1")]);
    let said = dues.run(&["pay", "u-1", &dues.id("u-1", 0), "--as-of", FIRST, "--gateway", &nowhere.base()]);
    assert!(said.status.success(), "the attempt is made, and found out about later");
    assert_says(&String::from_utf8(said.stderr).unwrap(), &["not known yet", "payments service"]);
    assert_says(&String::from_utf8(said.stdout).unwrap(), &["ACHSENT (awaiting the gateway's answer)"]);
}

#[test]
fn a_service_that_fails_in_every_way_makes_one_debit_for_each_record() {
    const MEMBERS: usize = 24;
    let (dues, service) = (members(MEMBERS), Service::start());
    let base = service.payments.base();
    let faults = [
        Fault::Status(500),
        Fault::StatusAfter(500),
        Fault::Status(503),
        Fault::StatusAfter(503),
        Fault::Status(429),
        Fault::DropBefore,
        Fault::DropAfter,
        Fault::Garbage,
        Fault::Noise,
        Fault::Half,
        Fault::Twice,
        Fault::Redirect,
        Fault::NoConfirmation,
        Fault::Status(400),
        Fault::StatusAfter(409),
    ];
    // Some posts fail more than once, and so do some of the lookups that follow.
    service.payments.script(&faults.repeat(2), &faults[..8].repeat(2));
    let first = dues.collect_at(&base, "INITIAL", FIRST);
    assert_eq!(first.values().sum::<u64>(), MEMBERS as u64, "{first:?}");
    assert!(first["in_doubt"] > 0 && first["sent"] > 0, "{first:?}");
    let mut all = first["sent"];
    for round in 0.. {
        let summary = dues.collect_at(&base, "INITIAL", LATER);
        all += summary.get("sent").copied().unwrap_or(0);
        if summary.is_empty() {
            break;
        }
        assert!(round < 5, "{summary:?}");
    }
    assert_eq!(all, MEMBERS as u64);
    let debits = service.payments.debits();
    let records = dues.records();
    for n in 0..MEMBERS {
        let mine: Vec<_> =
            records.iter().filter(|record| record.user_id.as_str() == format!("u-{n}")).collect();
        assert_eq!(mine.len(), 2, "one next record");
        let record = mine.iter().find(|record| !record.attempts.is_empty()).unwrap();
        assert_eq!((record.status().as_str(), record.attempts.count()), ("ACHSENT", 1));
        let debit = &debits[&format!("{}-1", record.subscription_id)];
        assert_eq!(debit.answer["confirmation_id"], record.state.transaction_id().unwrap().as_str());
    }
    assert_eq!(debits.len(), MEMBERS);
    assert_eq!(service.payments.ledger().len(), MEMBERS, "no key but the records' own");
}

#[test]
fn a_service_that_is_down_leaves_records_in_doubt_and_the_next_run_makes_the_same_debits() {
    let (dues, service, nowhere) = (members(3), Service::start(), Nowhere::new());
    assert_eq!(dues.collect_at(&nowhere.base(), "INITIAL", FIRST), counts([("in_doubt", 3)]));
    let record = dues.first("u-0");
    let key = format!("{}-1", record["subscription_id"].as_str().unwrap());
    assert_has(&record, &json!({"billing_status": "ACHSENT", "transaction_id": "", "attempts": 1}));
    assert_says(&dues.ok(&["show", "u-0"]), &["ACHSENT (awaiting the gateway's answer)"]);
    let rows = dues.history(record["subscription_id"].as_str().unwrap());
    assert_says(rows.last().unwrap()["data_reason"].as_str().unwrap(), &["payments service: "]);
    assert_says(
        &dues.ok(&["collect", "--process", "RETRY", "--as-of", FIRST, "--gateway", &nowhere.base()]),
        &["awaiting the gateway's answer", " 3 "],
    );

    assert_eq!(
        dues.collect_at(&service.payments.base(), "RETRY", LATER),
        counts([("sent", 3)]),
        "any run finds out"
    );
    assert_eq!(dues.collect_at(&service.payments.base(), "INITIAL", LATER), counts([]));
    assert_eq!(service.payments.debits().len(), 3);
    assert!(service.payments.debits().contains_key(&key), "under the key of the first attempt");
    assert_eq!(service.payments.counts(), (3, 3), "asked for each, then made");
    let records = dues.subscriptions("u-0");
    assert_eq!(texts(&records, "billing_status"), ["ACHSENT", "SCHEDULED"]);
    assert_eq!((&records[0]["attempts"], &records[0]["process"]), (&json!(1), &json!("INITIAL")));
    assert!(!dues.ok(&["show", "u-0"]).contains("awaiting the gateway"));
}

#[test]
fn a_debit_with_a_lost_answer_is_found_and_not_repeated() {
    let (dues, service) = (members(1), Service::start());
    let base = service.payments.base();
    service.payments.script(&[Fault::DropAfter], &[Fault::Status(500); 3]);
    assert_eq!(dues.collect_at(&base, "INITIAL", FIRST), counts([("in_doubt", 1)]));
    assert_eq!(service.payments.debits().len(), 1);
    assert_eq!(dues.collect_at(&base, "INITIAL", LATER), counts([("sent", 1)]));
    assert_eq!((service.payments.counts(), service.payments.debits().len()), ((1, 4), 1), "posted once");
    assert_eq!(dues.first("u-0")["transaction_id"], "c-1");
}

#[test]
fn a_debit_in_doubt_is_not_made_after_the_member_has_left() {
    let (dues, service, nowhere) = (members(2), Service::start(), Nowhere::new());
    assert_eq!(dues.collect_at(&nowhere.base(), "INITIAL", FIRST), counts([("in_doubt", 2)]));
    dues.ok(&["cancel", "u-0", &dues.id("u-0", 0), "--now", "--as-of", "2026-02-02T12:00:00Z"]);
    // The gateway's queue may still hold the request: in doubt until a day has passed since the last submit.
    assert_eq!(
        dues.collect_at(&service.payments.base(), "INITIAL", "2026-02-02T20:00:00Z"),
        counts([("sent", 1), ("in_doubt", 1)])
    );
    assert_eq!(dues.first("u-0")["billing_status"], "ACHSENT");
    assert_eq!(
        dues.collect_at(&service.payments.base(), "INITIAL", "2026-02-04T08:00:00Z"),
        counts([("withdrawn", 1)])
    );
    assert_eq!(
        service.payments.debits().into_keys().collect::<Vec<_>>(),
        [format!("{}-1", dues.id("u-1", 0))]
    );
    assert_eq!(dues.first("u-0")["billing_status"], "CANCELLED");
}

#[test]
fn an_address_that_cannot_be_one_is_a_clear_error_and_touches_nothing() {
    let dues = members(1);
    for (address, why) in [
        ("payments.example.com", "has to begin with https:// or http://"),
        ("ftp://payments.example.com", "has to begin with https:// or http://"),
        ("https://ops:hunter2@payments.example.com", "must not hold a user or a password"),
        ("http://127.0.0.1:99999", "port"),
        ("", "cannot be read"),
    ] {
        let args = ["collect", "--process", "INITIAL", "--as-of", FIRST, "--gateway", address];
        assert_eq!(dues.run(&args).status.code(), Some(1), "{address}");
        let message = dues.fails(&args);
        assert_says(&message, &["--gateway", "the payments service's address", why]);
        assert!(!message.contains("hunter2"), "{message}");
    }
    assert_eq!(dues.only("u-0")["billing_status"], "SCHEDULED");
    assert_eq!(dues.books(), []);
}

#[test]
fn the_token_reaches_the_service_and_no_log() {
    let (dues, service, nowhere) = (members(2), Service::start(), Nowhere::new());
    service.payments.script(&[Fault::Status(401)], &[]);
    let mut printed = Vec::new();
    for (base, args) in [
        (service.payments.base(), &["collect", "--process", "INITIAL", "--as-of", FIRST][..]),
        (service.payments.base(), &["collect", "--process", "INITIAL", "--as-of", LATER, "--json"]),
        (nowhere.base(), &["collect", "--process", "INITIAL", "--as-of", "2026-03-02T08:00:00Z"]),
        ("ftp://nowhere".to_owned(), &["collect", "--process", "INITIAL", "--as-of", LATER]),
        (service.payments.base(), &["collect", "--help"]),
        (service.payments.base(), &["pay", "--help"]),
        (service.payments.base(), &["collect", "--process", "NONE"]),
    ] {
        let output = dues
            .command(args)
            .env("DUES_GATEWAY_URL", base)
            .env("DUES_GATEWAY_TOKEN", TOKEN)
            .output()
            .unwrap();
        printed.extend([output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()));
    }
    assert_eq!(service.payments.debits().len(), 2);
    let seen = service.payments.seen();
    assert!(seen.len() >= 3, "{seen:#?}");
    assert!(
        seen.iter().all(|request| request.headers["authorization"] == format!("Bearer {TOKEN}")),
        "{seen:#?}"
    );
    for n in 0..2 {
        printed.push(dues.shown(&format!("u-{n}")));
        printed.push(dues.ok(&["history", &dues.id(&format!("u-{n}"), 0), "--json"]));
    }
    assert!(printed.iter().any(|text| text.contains("HTTP 401")), "the reason is printed: {printed:#?}");
    for text in &printed {
        assert!(!text.contains(TOKEN), "{text}");
        assert!(!text.contains("SECRET"), "what the service said beside its answer: {text}");
    }
}
