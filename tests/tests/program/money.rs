//! Money that arrives and pays for nothing: it is listed, and an operator applies, refunds or dismisses it,
//! by command, over HTTP and on the console. Amounts are added up here in cents, without the program's types.

use serde_json::{Value, json};

use crate::support::records::{Debit, activate};
use crate::support::run::{Dues, assert_has, assert_says, counts, texts};
use crate::support::server::{Answer, Serving};

/// A record that does not exist.
const UNKNOWN: &str = "11111111-2222-5333-8444-555555555555";
/// A Monday, the day after the first due date.
const FIRST: &str = "2026-02-02T08:00:00Z";
/// The debits of that day have settled.
const SETTLED: &str = "2026-02-05T08:00:00Z";
/// Long after every refund that is requested while the test runs.
const LATER: &str = "2099-01-01T00:00:00Z";

fn cents(amount: &str) -> i64 {
    let (whole, cents) = amount.split_once('.').unwrap();
    assert_eq!(cents.len(), 2, "{amount}");
    format!("{whole}{cents}").parse().unwrap()
}

/// A settlement of that amount.
fn settled(debit: &Debit, event: &str, amount: &str, currency: &str) -> Value {
    let mut record = debit.completed(event, "2026-02-03");
    record["payment"]["amount"] = json!(amount);
    record["payment"]["currency"] = json!(currency);
    record
}

/// Six members, each with money that pays for nothing, for each reason that there is.
struct Wrong {
    dues: Dues,
    /// First records of `u-1` to `u-6`.
    ids: Vec<String>,
}

impl Wrong {
    fn new() -> Self {
        let dues = Dues::new();
        let members: Vec<Value> = (1..=6).map(|n| activate(&format!("m-{n}"), &format!("u-{n}"))).collect();
        dues.members(&members);
        let ids: Vec<String> = (1..=6).map(|n| dues.id(&format!("u-{n}"), 0)).collect();
        let debit = |n: usize, confirmation: &str| Debit::new(&format!("u-{n}"), &ids[n - 1], confirmation);
        dues.ok(&["waive", "u-5", &ids[4], "--as-of", FIRST]);
        let payments = [
            settled(&debit(1, "c-1"), "p-1", "14.99", "USD"),
            settled(&debit(1, "c-2"), "p-2", "14.99", "USD"),
            settled(&debit(2, "c-3"), "p-3", "20.00", "USD"),
            settled(&debit(3, "c-4"), "p-4", "1499.00", "JPY"),
            settled(&Debit::new("u-4", UNKNOWN, "c-5"), "p-5", "30.00", "USD"),
            settled(&debit(5, "c-6"), "p-6", "14.99", "USD"),
            settled(&debit(6, "c-7"), "p-7", "10.00", "USD"),
        ];
        assert_eq!(dues.payments(&payments), counts([("applied", 7)]));
        // A redelivery changes nothing.
        assert_eq!(dues.payments(&payments), counts([("duplicate", 7)]));
        assert_eq!(dues.parked(), Vec::<Value>::new());
        Self { dues, ids }
    }

    /// The id of the money that this transaction brought.
    fn money(&self, transaction: &str) -> String {
        let record = match transaction {
            "c-1" | "c-2" => &self.ids[0],
            "c-3" => &self.ids[1],
            "c-4" => &self.ids[2],
            "c-5" => UNKNOWN,
            "c-6" => &self.ids[4],
            "c-7" => &self.ids[5],
            other => panic!("{other}"),
        };
        format!("{record}:{transaction}")
    }

    /// Dollars on COMPLETED records, and dollars that await a decision.
    fn books(&self) -> (i64, i64) {
        let records = (1..=6).flat_map(|n| self.dues.subscriptions(&format!("u-{n}")));
        let paid = records
            .filter(|record| record["billing_status"] == "COMPLETED")
            .map(|record| cents(record["billing_amount"].as_str().unwrap()))
            .sum();
        let open = self.dues.money("OPEN");
        let dollars = open.iter().filter(|row| row["currency"] == "USD");
        (paid, dollars.map(|row| cents(row["amount"].as_str().unwrap())).sum())
    }
}

impl Dues {
    /// Unapplied money with that status.
    fn money(&self, status: &str) -> Vec<Value> {
        let lines = self.ok(&["money", "list", "--status", status, "--json"]);
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Serving {
    fn decide(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, &[], body.to_string().as_bytes())
    }

    fn form(&self, path: &str, body: &str) -> Answer {
        self.ask("POST", path, &[("Content-Type", "application/x-www-form-urlencoded")], body.as_bytes())
    }
}

/// As one segment of a path.
fn segment(id: &str) -> String {
    id.replace(':', "%3A").replace('#', "%23")
}

#[test]
fn every_amount_that_pays_for_nothing_is_listed_with_its_reason() {
    let wrong = Wrong::new();
    let mut listed: Vec<[String; 4]> = wrong
        .dues
        .money("OPEN")
        .iter()
        .map(|row| {
            ["transaction_id", "amount", "currency", "reason"]
                .map(|name| row[name].as_str().unwrap().to_owned())
        })
        .collect();
    listed.sort();
    assert_eq!(
        listed,
        [
            ["c-2", "14.99", "USD", "the period was paid by another transaction"],
            ["c-3", "5.01", "USD", "more than the amount due"],
            ["c-4", "1499.00", "JPY", "not in US dollars"],
            ["c-5", "30.00", "USD", "no billing record has that id"],
            ["c-6", "14.99", "USD", "the record was closed without a payment"],
            ["c-7", "10.00", "USD", "less than the amount due"],
        ]
    );
    // 14.99 + 14.99 + 20.00 + 30.00 + 14.99 + 10.00 dollars are at the bank.
    let (paid, open) = wrong.books();
    assert_eq!((paid, paid + open), (2 * 1499, 10_497));
    let status = |n: usize| wrong.dues.subscriptions(&format!("u-{n}"))[0]["billing_status"].clone();
    assert_eq!([1, 2, 3, 5, 6].map(status), ["COMPLETED", "COMPLETED", "SCHEDULED", "WAIVED", "SCHEDULED"]);
    // A record with open money of its own is not debited; only u-4 has an amount due and no such money.
    wrong.dues.ok(&["collect", "--process", "INITIAL", "--as-of", FIRST]);
    assert_eq!([3, 4, 6].map(status), ["SCHEDULED", "ACHSENT", "SCHEDULED"]);
    assert_eq!(wrong.dues.run(&["audit"]).status.code(), Some(0));
    let text = wrong.dues.ok(&["explain", "u-1", "--at", "2026-02-10"]);
    assert_says(
        &text,
        &["$14.99 arrived that pays for nothing: the period was paid by another transaction."],
    );
    let text = wrong.dues.ok(&["explain", "u-3", "--at", "2026-02-10"]);
    assert_says(&text, &["1499.00 JPY arrived that pays for nothing: not in US dollars."]);
}

#[test]
fn surplus_pays_the_next_record_and_a_decision_has_its_actor() {
    let wrong = Wrong::new();
    let (dues, next) = (&wrong.dues, wrong.dues.id("u-1", 1));
    let before = wrong.books();
    let (surplus, yen) = (wrong.money("c-2"), wrong.money("c-4"));
    for (id, to, why) in [
        (&surplus, &wrong.ids[5], "is a record of another member"),
        (&surplus, &wrong.ids[0], "COMPLETED"),
        (&wrong.money("c-7"), &wrong.ids[5], "10.00 USD do not pay 14.99 USD"),
        (&yen, &wrong.ids[2], "1499.00 JPY do not pay 14.99 USD"),
    ] {
        assert_says(&dues.fails(&["money", "apply", id, to]), &[why]);
    }
    assert_eq!(wrong.books(), before);
    assert_says(&dues.ok(&["money", "apply", &surplus, &next, "--as", "ada"]), &["APPLIED"]);
    assert_has(
        &dues.subscriptions("u-1")[1],
        &json!({"billing_status": "COMPLETED", "transaction_id": "c-2", "billing_amount": "14.99"}),
    );
    assert_eq!(wrong.books(), (before.0 + 1499, before.1 - 1499), "the same money, now applied");
    assert_says(&dues.fails(&["money", "apply", &surplus, &next]), &["is APPLIED already"]);

    dues.ok(&["money", "dismiss", &yen, "--reason", "a test transfer", "--as", "grace"]);
    assert_eq!(texts(&dues.money("DISMISSED"), "id"), [yen.as_str()]);
    let rows = dues.history(&wrong.ids[2]);
    assert_has(
        rows.last().unwrap(),
        &json!({"data_actor": "grace", "data_reason": "dismissed: a test transfer"}),
    );
    let text = dues.ok(&["explain", "u-3"]);
    assert_says(&text, &["grace decided about 1499.00 JPY of unapplied money: dismissed: a test transfer."]);
    let text = dues.ok(&["explain", "u-1"]);
    assert_says(&text, &[&format!("ada decided about $14.99 of unapplied money: applied to {next}.")]);
    assert_eq!(dues.run(&["audit"]).status.code(), Some(0));
}

/// A member with a debit at the sandbox that settles after another payment: the debit's money is surplus, and
/// its id is returned.
fn paid_twice(dues: &Dues) -> String {
    dues.members(&[activate("m-1", "u-1")]);
    let id = dues.id("u-1", 0);
    dues.ok(&["collect", "--process", "INITIAL", "--as-of", FIRST]);
    let mut other = Debit::new("u-1", &id, "c-9").completed("p-9", "2026-02-02");
    other["payment"]["payment_id"] = json!("from elsewhere");
    dues.payments(&[other]);
    dues.ok(&["sandbox", "deliver", "--as-of", SETTLED]);
    let open = dues.money("OPEN");
    assert_eq!(open.len(), 1, "{open:?}");
    assert_has(&open[0], &json!({"amount": "14.99", "user_id": "u-1", "subscription_id": id}));
    open[0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn surplus_goes_back_through_the_sandbox() {
    let dues = Dues::new();
    let money = paid_twice(&dues);
    assert_says(&dues.ok(&["money", "refund", &money, "--as", "ada"]), &["REFUNDING"]);
    assert_eq!(dues.money("OPEN"), Vec::<Value>::new());
    // Asking again is the same refund.
    dues.ok(&["money", "refund", &money, "--as", "ada"]);
    dues.ok(&["sandbox", "deliver", "--as-of", LATER]);
    assert_eq!(texts(&dues.money("GONE"), "id"), [money.as_str()], "the bank has reported it, once");
    assert_has(
        &dues.subscriptions("u-1")[0],
        &json!({"billing_status": "COMPLETED", "transaction_id": "c-9"}),
    );
    assert_says(
        &dues.ok(&["explain", "u-1", "--at", LATER]),
        &[
            "ada decided about $14.99 of unapplied money: refund requested.",
            "$14.99 of unapplied money went back.",
        ],
    );
    assert_eq!(dues.run(&["audit"]).status.code(), Some(0));
}

#[test]
fn decisions_over_http() {
    let wrong = Wrong::new();
    let serving = Serving::start(&wrong.dues);
    let path = |transaction: &str| format!("/money/{}", segment(&wrong.money(transaction)));
    let listed = |status: &str| {
        let answer = serving.ask("GET", &format!("/money{status}"), &[], b"");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["money"].as_array().unwrap().len()
    };
    assert_eq!((listed(""), listed("?status=OPEN"), listed("?status=GONE")), (6, 6, 0));
    assert_has(
        &serving.ask("GET", &path("c-5"), &[], b"").json(),
        &json!({"status": "OPEN", "user_id": "u-4", "subscription_id": UNKNOWN, "transaction_id": "c-5",
                "amount": "30.00", "currency": "USD", "settled_at": "2026-02-03T15:30:00Z", "actor": null}),
    );
    let metric = |count: usize| {
        let page = serving.ask("GET", "/metrics", &[], b"").body;
        assert_says(
            &page,
            &["# TYPE dues_unapplied_money_open gauge\n", &format!("dues_unapplied_money_open {count}\n")],
        );
    };
    metric(6);

    // A member called `money` cannot be read: the path is the list's.
    for path in ["/money/subscriptions", "/money/none", "/money/a/subscriptions/b", "/money/a/b/explain"] {
        assert_eq!(serving.ask("GET", path, &[], b"").refusal(), (404, "not_found".to_owned()), "{path}");
    }
    assert_eq!(serving.ask("GET", "/money?status=open", &[], b"").refusal().0, 422);
    assert_eq!(serving.ask("POST", "/money", &[], b"").status, 405);

    let refused = |path: String, body: Value, status: u16, words: &[&str]| {
        let answer = serving.decide(&path, &body);
        assert_eq!(answer.status, status, "{path} {body}: {answer:?}");
        assert_says(answer.json()["error"]["message"].as_str().unwrap(), words);
    };
    let (next, other) = (wrong.dues.id("u-1", 1), wrong.dues.id("u-6", 0));
    refused(path("c-2") + "/apply", json!({}), 422, &["subscription_id", "is missing"]);
    refused(path("c-2") + "/apply", json!({"subscription_id": UNKNOWN}), 422, &["subscription_id"]);
    refused(path("c-2") + "/apply", json!({"subscription_id": other}), 409, &["another member"]);
    refused(path("c-7") + "/apply", json!({"subscription_id": other}), 409, &["do not pay"]);
    refused("/money/none/apply".to_owned(), json!({"subscription_id": other}), 404, &["none"]);
    refused(path("c-4") + "/refund", json!({}), 409, &["JPY"]);
    refused(path("c-6") + "/refund", json!({}), 402, &["the gateway refused the refund"]);
    refused(path("c-4") + "/dismiss", json!({}), 422, &["reason", "is missing"]);
    refused(path("c-4") + "/dismiss", json!({"reason": "  "}), 422, &["reason", "is empty"]);
    assert_eq!(listed(""), 6, "nothing was decided");

    let applied = serving.decide(&(path("c-2") + "/apply"), &json!({"subscription_id": next}));
    assert_eq!((applied.status, &applied.json()["status"]), (200, &json!("APPLIED")), "{applied:?}");
    assert_eq!(wrong.dues.subscriptions("u-1")[1]["billing_status"], "COMPLETED");
    let dismissed = serving.decide(&(path("c-5") + "/dismiss"), &json!({"reason": "for another shop"}));
    assert_eq!(dismissed.status, 200, "{dismissed:?}");
    assert_has(
        &dismissed.json(),
        &json!({"status": "DISMISSED", "actor": "api", "note": "dismissed: for another shop"}),
    );
    refused(path("c-5") + "/dismiss", json!({"reason": "again"}), 409, &["DISMISSED already"]);
    assert_eq!((listed(""), listed("?status=DISMISSED"), listed("?status=APPLIED")), (4, 1, 1));
    metric(4);
    let rows = wrong.dues.history(&wrong.ids[0]);
    assert_eq!(rows.last().unwrap()["data_actor"], "api");
}

#[test]
fn records_are_refunded_and_moved_over_http() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    let (id, path) = (dues.id("u-1", 0), |id: &str, verb: &str| format!("/u-1/subscriptions/{id}/{verb}"));
    dues.ok(&["collect", "--process", "INITIAL", "--as-of", FIRST]);
    dues.ok(&["sandbox", "deliver", "--as-of", SETTLED]);
    let next = dues.id("u-1", 1);
    let serving = Serving::start(&dues);
    let refused = |id: &str, verb: &str, body: Value, status: u16, words: &[&str]| {
        let answer = serving.decide(&path(id, verb), &body);
        assert_eq!(answer.status, status, "{verb} {body}: {answer:?}");
        assert_says(answer.json()["error"]["message"].as_str().unwrap(), words);
    };
    for amount in ["0.00", "15.00", "x", "-1.00"] {
        refused(&id, "refund", json!({"amount": amount}), 422, &["amount"]);
    }
    refused(&id, "refund", json!({"amount": 1}), 422, &["amount", "is not text"]);
    refused(&next, "refund", json!({}), 409, &["SCHEDULED is not paid"]);
    refused(UNKNOWN, "refund", json!({}), 404, &["has no subscription"]);
    refused(UNKNOWN, "move", json!({"to": "2026-03-10"}), 404, &["has no subscription"]);
    refused(&id, "move", json!({"to": "2026-03-10"}), 409, &[]);
    refused(&next, "move", json!({}), 422, &["to", "is missing"]);
    refused(&next, "move", json!({"to": "soon"}), 422, &["to", "2026-02-01"]);

    let moved = serving.decide(&path(&next, "move"), &json!({"to": "2026-03-10"}));
    assert_eq!(moved.status, 200, "{moved:?}");
    assert_has(&moved.json(), &json!({"outcome": "moved", "billing_date": "2026-03-10T00:00:00Z"}));
    let refund = serving.decide(&path(&id, "refund"), &json!({"amount": "1.00"}));
    assert_eq!(refund.status, 202, "{refund:?}");
    assert_has(&refund.json(), &json!({"outcome": "refund_requested", "billing_status": "COMPLETED"}));
    drop(serving);

    dues.ok(&["sandbox", "deliver", "--as-of", LATER]);
    assert_has(
        &dues.subscriptions("u-1")[0],
        &json!({"billing_status": "COMPLETED", "refunded_amount": "1.00"}),
    );
    assert_says(
        &dues.ok(&["explain", "u-1", "--at", LATER]),
        &[
            "api decided: refund of 1.00 requested.",
            "$1.00 went back to the member; $13.99 stay paid.",
            "The due date moved from 2026-03-01 to 2026-03-10.",
        ],
    );
}

#[test]
fn a_gateway_without_an_answer_leaves_the_refund_in_doubt() {
    let dues = Dues::new();
    let money = paid_twice(&dues);
    // A port that is taken and does not listen.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let base = format!("http://{}/v1", socket.local_addr().unwrap());
    let serving = Serving::with(&dues, &[], &[("DUES_GATEWAY_URL", &base)]);
    let path = format!("/money/{}/refund", segment(&money));
    for _ in 0..2 {
        assert_eq!(serving.decide(&path, &json!({})).refusal(), (503, "in_doubt".to_owned()));
    }
    assert_eq!(texts(&dues.money("REFUNDING"), "id"), [money.as_str()]);
}

#[test]
fn the_console_lists_it_and_takes_decisions() {
    let wrong = Wrong::new();
    let mut refund = Debit::new("u-1", &wrong.ids[0], "c-1").refunded("p-8", "2026-02-09");
    refund["payment"]["amount"] = json!("1.00");
    assert_eq!(wrong.dues.payments(&[refund]), counts([("applied", 1)]));
    let serving = Serving::start(&wrong.dues);
    let page = |path: &str| {
        let answer = serving.ask("GET", path, &[], b"");
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.body
    };
    let next = wrong.dues.id("u-1", 1);
    let list = page("/console/money");
    assert_says(
        &list,
        &[
            "6 amounts",
            "<h2>$5.01: more than the amount due</h2>",
            "<h2>1499.00 JPY: not in US dollars</h2>",
            "<h2>$30.00: no billing record has that id</h2>",
            "href=\"/console/members/u-1\"",
            &format!("<option value=\"{next}\">SCHEDULED, $14.99, due 2026-03-01</option>"),
            "2026-02-03 15:30",
            "<button>Apply</button>",
            "<button>Refund</button>",
            "<button>Dismiss</button>",
        ],
    );
    assert_says(&page("/"), &["Money arrived that pays for nothing", "6 decisions"]);
    assert_says(
        &page("/console/members/u-1"),
        &[
            "Unapplied money",
            "(refunded $1.00) (unapplied: 14.99 USD)",
            "the period was paid by another transaction",
        ],
    );
    let path = |transaction: &str, decision: &str| {
        format!("/console/money/{}/{decision}", segment(&wrong.money(transaction)))
    };
    for (path, form, says) in [
        (path("c-4", "dismiss"), "reason=", "Give a reason"),
        (path("c-2", "apply"), "to=", "Name the record"),
        (path("c-2", "apply"), "to=none", "none"),
        (path("c-6", "refund"), "", "the gateway refused the refund"),
    ] {
        let answer = serving.form(&path, form);
        assert_eq!(answer.status, 409, "{path}: {answer:?}");
        assert_says(&answer.body, &[says, "role=\"alert\""]);
    }
    assert_eq!(serving.form("/console/money/none/refund", "").status, 404);
    assert_eq!(serving.form(&path("c-2", "eat"), "").status, 404);
    assert_eq!(serving.form(&path("c-2", "apply"), &"x".repeat(5000)).status, 413);
    let origin = [("Origin", "https://evil.example")];
    assert_eq!(serving.ask("POST", &path("c-4", "refund"), &origin, b"").status, 403);
    assert_eq!(wrong.dues.money("OPEN").len(), 6);

    let applied = serving.form(&path("c-2", "apply"), &format!("to={next}"));
    assert_eq!(applied.status, 303, "{applied:?}");
    assert_says(&applied.head, &["location: /console/money?decided="]);
    let dismissed = serving.form(&path("c-4", "dismiss"), "reason=a+test%3A+%3Cb%3E");
    assert_eq!(dismissed.status, 303, "{dismissed:?}");
    let decided = page(&format!("/console/money?decided={}", segment(&wrong.money("c-2"))));
    assert_says(&decided, &["role=\"status\"", "$14.99, applied.", "4 amounts"]);
    assert_says(&page("/console/money?status=DISMISSED"), &["1499.00 JPY", "1 amount<"]);
    assert_says(&page("/console/money?status=GONE"), &["0 amounts", "<p class=\"note\">No money was"]);
    assert_eq!(serving.ask("GET", "/console/money?status=x", &[], b"").status, 404);
    let row = wrong.dues.history(&wrong.ids[2]).pop().unwrap();
    assert_has(&row, &json!({"data_actor": "console", "data_reason": "dismissed: a test: <b>"}));

    let empty = Dues::new();
    let answer = Serving::start(&empty).ask("GET", "/console/money", &[], b"");
    assert_says(&answer.body, &["No unapplied money"]);
}

/// What the bank says about money concerns the record that it was applied to, also when the report names the
/// debit by our key alone, when the excess was applied to a third record, and when no record has the id.
#[test]
fn reports_follow_the_money_to_the_record_that_it_was_applied_to() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1"), activate("m-2", "u-2")]);
    dues.ok(&["collect", "--process", "INITIAL", "--as-of", FIRST]);
    let (id, unknown) = (dues.id("u-1", 0), Debit::new("u-2", UNKNOWN, "c-5"));
    let mine = Debit::new("u-1", &id, dues.subscriptions("u-1")[0]["transaction_id"].as_str().unwrap());
    dues.payments(&[settled(&mine, "p-1", "50.00", "USD"), settled(&unknown, "p-2", "14.99", "USD")]);
    let apply = |record: &str, transaction: &str, to: &str| {
        let money = format!("{record}:{transaction}");
        dues.ok(&["money", "apply", &money, to, "--as", "ada", "--as-of", SETTLED]);
    };
    let second = dues.id("u-1", 1);
    apply(&id, &mine.confirmation, &second);
    let third = dues.id("u-1", 2);
    apply(&second, &mine.confirmation, &third);
    apply(UNKNOWN, "c-5", &dues.id("u-2", 1));
    assert_eq!(dues.statuses("u-1")[..3], ["COMPLETED", "COMPLETED", "COMPLETED"]);
    assert_eq!(dues.statuses("u-2")[..2], ["ACHSENT", "COMPLETED"]);

    let mut returned = mine.returned("p-3", "2026-02-20", "R01", "no funds");
    returned["payment"]["payment_id"] = json!(format!("{id}-1"));
    returned["payment"]["confirmation_id"] = Value::Null;
    let late = unknown.returned("p-4", "2026-02-20", "R01", "no funds");
    for outcome in ["applied", "duplicate"] {
        assert_eq!(dues.payments(&[returned.clone(), late.clone()]), counts([(outcome, 2)]));
        assert_eq!(dues.statuses("u-1")[..3], ["ERROR", "ERROR", "ERROR"]);
        assert_eq!(dues.statuses("u-2")[..2], ["ACHSENT", "ERROR"]);
    }
    assert_eq!(dues.money("OPEN"), Vec::<Value>::new());
    assert_eq!(dues.run(&["audit"]).status.code(), Some(0));
}

/// Refunds add up, and a redelivery is the same refund, also of money without a record.
#[test]
fn a_refund_of_money_without_a_record_counts_once() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    let unknown = Debit::new("u-1", UNKNOWN, "c-5");
    let mut refund = unknown.refunded("p-2", "2026-02-10");
    refund["payment"]["amount"] = json!("4.00");
    dues.payments(&[settled(&unknown, "p-1", "14.99", "USD"), refund.clone()]);
    assert_eq!(dues.payments(&[refund.clone()]), counts([("duplicate", 1)]));
    assert_eq!(texts(&dues.money("OPEN"), "amount"), ["10.99"]);
    refund["event_id"] = json!("p-3");
    assert_eq!(dues.payments(&[refund]), counts([("applied", 1)]));
    assert_eq!(texts(&dues.money("OPEN"), "amount"), ["6.99"]);
}

/// What went back beyond the amount due was never part of the payment.
#[test]
fn an_excess_goes_back_before_the_payment() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    let debit = Debit::new("u-1", &dues.id("u-1", 0), "c-1");
    dues.payments(&[settled(&debit, "p-1", "20.00", "USD")]);
    for (event, amount, refunded, open) in [
        ("p-2", "3.00", Value::Null, vec!["2.01"]),
        ("p-3", "2.01", Value::Null, Vec::new()),
        ("p-4", "1.00", json!("1.00"), Vec::new()),
    ] {
        let mut refund = debit.refunded(event, "2026-02-10");
        refund["payment"]["amount"] = json!(amount);
        dues.payments(&[refund]);
        let record = &dues.subscriptions("u-1")[0];
        assert_eq!(record["billing_status"], "COMPLETED");
        assert_eq!(record["refunded_amount"], refunded, "after {event}");
        assert_eq!(texts(&dues.money("OPEN"), "amount"), open, "after {event}");
    }
    assert_eq!(dues.run(&["audit"]).status.code(), Some(0));
}
