//! localstripe, a Stripe emulator in a process of its own, delivers its webhooks to the program.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use dues_events::entitlements::stripe::wire::{decode, types};
use dues_tests::aws::ministack::python;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::run::Dues;
use crate::support::server::{Answer, SECRET, Serving, head, until};

/// A running localstripe. It ends with this value, or with this process.
struct StandIn {
    child: Child,
    address: SocketAddr,
    folder: TempDir,
}

impl StandIn {
    fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let child = Command::new(python())
            .args(["-m", "localstripe", "--from-scratch", "--port", &address.port().to_string()])
            // Otherwise it would listen on every interface, and leave a file behind.
            .env("PYTHONPATH", Path::new(env!("CARGO_MANIFEST_DIR")).join("stripe/alone"))
            .env("TMPDIR", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut started = Self { child, address, folder };
        until("localstripe answers", || {
            assert_eq!(started.child.try_wait().unwrap(), None, "{}", started.log());
            TcpStream::connect(address).is_ok()
        });
        started
    }

    /// Its log: the requests that it received, and the results of its webhooks.
    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Sends a form request, as Stripe's API expects it.
    fn ask(&self, method: &str, path: &str, form: &[(&str, &str)]) -> Value {
        let form: Vec<String> = form.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let form = form.join("&").replace('[', "%5B").replace(']', "%5D");
        let headers =
            [("Authorization", "Bearer sk_test_1"), ("Content-Type", "application/x-www-form-urlencoded")];
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all((head(method, path, &headers, form.len()) + &form).as_bytes()).unwrap();
        let answer = Answer::read(&mut stream);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        if answer.body.is_empty() { Value::Null } else { answer.json() }
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        // Both fail only when the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How many webhooks the log reports as delivered, by type.
fn delivered(log: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in
        log.lines().filter(|line| line.starts_with("webhook ") && line.ends_with("successfully delivered"))
    {
        *counts.entry(line.split('"').nth(1).unwrap().to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn webhooks_of_a_stand_in_for_stripe_arrive_and_only_ours_are_kept() {
    let dues = Dues::new();
    let (serving, stripe) = (Serving::start(&dues), StandIn::start());
    let url = format!("http://{}/webhooks/stripe", serving.address);
    stripe.ask("POST", "/_config/webhooks/dues", &[("url", &url), ("secret", SECRET)]);
    stripe.ask(
        "POST",
        "/v1/plans",
        &[
            ("id", "plus"),
            ("amount", "1499"),
            ("currency", "usd"),
            ("interval", "month"),
            ("product[name]", "Plus"),
        ],
    );
    let customer =
        stripe.ask("POST", "/v1/customers", &[("email", "ada@example.com"), ("metadata[user_id]", "u-1")]);
    let customer = customer["id"].as_str().unwrap();
    let card = [
        ("object", "card"),
        ("number", "4242424242424242"),
        ("exp_month", "12"),
        ("exp_year", "2040"),
        ("cvc", "123"),
    ];
    let card = card.map(|(name, value)| (format!("source[{name}]"), value));
    let card: Vec<(&str, &str)> = card.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    stripe.ask("POST", &format!("/v1/customers/{customer}/sources"), &card);
    let about =
        [("metadata[user_id]", "u-1"), ("metadata[planTier]", "SAGE"), ("metadata[provider]", "cognito")];
    let wanted: Vec<(&str, &str)> =
        [("customer", customer), ("items[0][plan]", "plus")].into_iter().chain(about).collect();
    let subscription = stripe.ask("POST", "/v1/subscriptions", &wanted);
    let subscription = subscription["id"].as_str().unwrap();
    // The whole path: profile, access and group. No credits: unlike Stripe, the emulator does not give an
    // invoice's billing reason.
    until("the tier is there", || {
        stands(&dues) == ("SAGE".to_owned(), "subscription".into(), 0, vec!["dues-sage".to_owned()])
    });
    stripe.ask("DELETE", &format!("/v1/subscriptions/{subscription}"), &[]);
    let ours = [
        "customer.subscription.created",
        "customer.subscription.deleted",
        "invoice.payment_succeeded",
        "payment_intent.succeeded",
    ];
    let others =
        ["customer.created", "customer.source.created", "invoice.created", "plan.created", "product.created"];
    // Each was answered with 200: handled types and skipped ones.
    let all: BTreeMap<String, usize> =
        ours.iter().chain(&others).map(|kind| ((*kind).to_owned(), 1)).collect();
    until("every webhook is delivered", || delivered(&stripe.log()).len() >= all.len());
    assert_eq!(delivered(&stripe.log()), all, "{}", stripe.log());

    let status = || dues.json(&["show", "u-1"])["stripe_subscriptions"][0]["status"].clone();
    until("the subscription is cancelled", || status() == "canceled");
    assert_eq!(
        stands(&dues),
        ("SAGE".to_owned(), "subscription".into(), 0, vec!["dues-sage".to_owned()]),
        "cancelled, and paid for until the month ends: profile, access and group agree"
    );
    let inbox = dues.inbox();
    let mut kept: Vec<String> = inbox.iter().map(|(_, body)| kind(body)).collect();
    kept.sort();
    assert_eq!(kept, ours);
    assert!(ours.iter().all(|ours| types().any(|kind| kind == *ours)));
    for (key, body) in &inbox {
        let about_us = kind(body).starts_with("customer.subscription.");
        assert_eq!(key, if about_us { "u-1" } else { customer }, "{}", kind(body));
        if about_us {
            assert!(decode(body).unwrap().is_some(), "it can be read");
        }
    }
}

/// Tier of the profile, source of the access, credits and groups, as `dues show` has them.
fn stands(dues: &Dues) -> (String, String, i64, Vec<String>) {
    let shown: Value = serde_json::from_str(&dues.ok(&["show", "u-1", "--json"])).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let groups = shown["groups"].as_array().unwrap().iter().map(text).collect();
    (
        text(&shown["profile"]["tier"]),
        text(&shown["access"]["source"]),
        shown["credits"]["balance"].as_i64().unwrap(),
        groups,
    )
}

fn kind(body: &[u8]) -> String {
    let event: Value = serde_json::from_slice(body).unwrap();
    event["type"].as_str().unwrap().to_owned()
}
