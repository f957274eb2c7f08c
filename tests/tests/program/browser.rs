//! The console in a real browser: Chromium, driven by playwright, over the program as a user runs it.
//! Screenshots are kept in the target folder.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use dues_store::embedded::Embedded;
use serde_json::{Value, json};
use xtask::browser::{find, folder_in};

use crate::support::records::{Debit, activate, plain};
use crate::support::run::Dues;
use crate::support::server::Serving;

/// The target folder of this build, where `cargo xtask test` installs playwright.
pub(crate) fn target() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let has_it = |folder: &&Path| folder_in(folder).join("node_modules").exists();
    let target = test.ancestors().find(has_it).map(Path::to_path_buf);
    target.expect("playwright is not there: run `cargo xtask test`, which installs what the tests need")
}

/// Starts a scenario of `tests/browser/console.mjs`.
fn start(scenario: &str, serving: &Serving, given: &Value) -> Child {
    let target = target();
    let shots = target.join("screenshots");
    std::fs::create_dir_all(&shots).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("browser/console.mjs");
    let chromium =
        find().expect("there is no chromium: run `cargo xtask test`, which installs what the tests need");
    let mut command = Command::new("node");
    command
        .arg(script)
        .arg(scenario)
        .env("BASE", format!("http://{}", serving.address))
        .env("MODULES", folder_in(&target));
    command.env("CHROMIUM", chromium).env("SHOTS", shots).env("GIVEN", given.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn passes(mut scenario: Child) {
    let mut said = String::new();
    scenario.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(scenario.wait().unwrap().success(), "{said}");
}

fn run(scenario: &str, serving: &Serving, given: &Value) {
    passes(start(scenario, serving, given));
}

/// A served demo company, and its summary.
struct Company {
    dues: Dues,
    summary: Value,
    serving: Serving,
}

fn company() -> Company {
    let dues = Dues::new();
    let summary = dues.json(&["demo", "--members", "60", "--months", "3"]);
    // The demo creates its own folder in the data folder.
    let demo = Dues::new();
    std::fs::rename(dues.data().join("demo"), demo.data()).unwrap();
    let serving = Serving::start(&demo);
    Company { dues: demo, summary, serving }
}

impl Company {
    /// A member with more than one COMPLETED record, and the first and last texts of their timeline.
    fn member(&self) -> Value {
        let users = (0..60).map(|n| format!("member-{n:06}"));
        let paid = |user: &String| {
            self.dues.statuses(user).iter().filter(|status| *status == "COMPLETED").count() > 1
        };
        let user = users.into_iter().find(paid).expect("a member who has paid twice");
        let records = self.dues.subscriptions(&user);
        let newest = records.iter().rev().find(|record| record["billing_status"] != "SCHEDULED").unwrap();
        json!({"user": user, "status": newest["billing_status"], "first": "was created: \\$",
            "last": "The money arrived"})
    }

    fn figures(&self) -> Value {
        json!({
            "collected": dollars(&self.summary["collected"]), "at_risk": dollars(&self.summary["at_risk"]),
            "parked": self.dues.parked().len().to_string(), "records": self.summary["records"],
        })
    }
}

/// `1234.5` as `$1,234.50`, reimplemented so that the page is not compared with its own code.
fn dollars(amount: &Value) -> String {
    let text = amount.as_str().unwrap();
    let (whole, cents) = text.split_once('.').unwrap_or((text, "00"));
    let groups: Vec<String> =
        whole.as_bytes().rchunks(3).rev().map(|group| String::from_utf8(group.to_vec()).unwrap()).collect();
    format!("${}.{cents:0<2}", groups.join(","))
}

#[test]
fn the_overview_says_what_the_company_came_to() {
    let company = company();
    run("overview", &company.serving, &company.figures());
}

#[test]
fn every_page_can_be_read_on_a_phone_and_in_both_lights() {
    let company = company();
    let member = company.member();
    run("phone", &company.serving, &member);
    run("lights", &company.serving, &member);
}

#[test]
fn a_members_page_gives_reasons_and_goes_back_in_time() {
    let company = company();
    let member = company.member();
    run("member", &company.serving, &member);
    run("slider", &company.serving, &member);
}

#[test]
fn pages_can_be_read_without_a_script_and_used_without_a_mouse() {
    let company = company();
    let mut given = company.member();
    given["collected"] = company.figures()["collected"].clone();
    run("plain", &company.serving, &given);
}

#[test]
fn search_leads_to_members_records_transactions_and_events() {
    let company = company();
    let user = company.member()["user"].as_str().unwrap().to_owned();
    let record = company.dues.subscriptions(&user).remove(0);
    let (id, transaction) =
        (record["subscription_id"].as_str().unwrap(), record["transaction_id"].as_str().unwrap());
    let history = company.dues.history(id);
    let event = history[0]["event_id"].as_str().unwrap();
    let page = format!("/console/members/{user}");
    let searches = json!([
        [user, page, "What happened"],
        [id, page, format!("Record {}", &id[..8])],
        [transaction, page, transaction],
        [event, page, event],
        [&id[..8], "/console/search", user],
    ]);
    run("search", &company.serving, &json!({"searches": searches}));
}

#[test]
fn a_parked_record_is_driven_through_again_with_a_button() {
    let dues = Dues::new();
    // A pause for a user with nothing to pause yet, and a line that is not JSON.
    dues.members(&[json!({"event_id": "m-1", "type": "PAUSE", "occurred_at": "2026-01-06T12:00:00Z",
        "user_id": "u-1", "membership": {"pause_duration_months": 2}})]);
    dues.ingest_bytes("memberships", b"no json\n");
    assert_eq!(dues.parked().len(), 2);
    dues.members(&[activate("m-0", "u-1")]);
    let serving = Serving::start(&dues);
    run("redrive", &serving, &json!({"reason": "u-1", "event": "m-1"}));
    assert_eq!(dues.statuses("u-1"), ["PAUSED"]);
    assert_eq!(dues.parked().len(), 1);
}

#[test]
fn the_overview_brings_itself_up_to_date() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1"), activate("m-2", "u-2")]);
    let serving = Serving::start(&dues);
    let mut scenario = start("live", &serving, &json!({"user": "u-3"}));
    let mut line = String::new();
    BufReader::new(scenario.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    if line == "ready\n" {
        let engine = Embedded::open(&dues.data().join("dues.db")).unwrap();
        let news = [activate("m-3", "u-3"), plain("m-4", "CANCEL", "no-such-user", "2026-01-06")];
        let records = news.iter().map(|record| (String::new(), record.to_string().into_bytes())).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime
            .block_on(engine.append("memberships", "2026-01-05T00:00:00Z".parse().unwrap(), records))
            .unwrap();
    }
    passes(scenario);
}

#[test]
fn behind_a_token_one_signs_in_works_and_signs_out() {
    const TOKEN: &str = "a-token-of-some-length";
    let dues = Dues::new();
    dues.members(&[json!({"event_id": "m-1", "type": "PAUSE", "occurred_at": "2026-01-06T12:00:00Z",
        "user_id": "u-1", "membership": {"pause_duration_months": 2}})]);
    dues.members(&[activate("m-0", "u-1"), activate("m-2", "u-2")]);
    let serving = Serving::with(&dues, &[], &[("DUES_TOKEN", TOKEN)]);
    let mut scenario = start("signed", &serving, &json!({"token": TOKEN, "user": "u-3"}));
    let mut line = String::new();
    BufReader::new(scenario.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    if line == "ready\n" {
        let bearer = ("Authorization", format!("Bearer {TOKEN}"));
        let sent = serving.ask(
            "POST",
            "/streams/memberships",
            &[(bearer.0, &bearer.1)],
            activate("m-3", "u-3").to_string().as_bytes(),
        );
        assert_eq!(sent.status, 202);
    }
    passes(scenario);
    assert_eq!(dues.statuses("u-1"), ["PAUSED"], "the button was believed");
    run("form", &serving, &json!({"token": TOKEN}));
}

#[test]
fn ids_that_are_markup_stay_text() {
    let dues = Dues::new();
    let user = "<script>alert('1')</script>\"&amp;/..";
    dues.members(&[activate("<img src=x onerror=alert(2)>", user)]);
    let debit = Debit::new(user, &dues.id(user, 0), "</code><script>alert(3)</script>");
    dues.payments(&[
        debit.submitted("<b>e</b>", "2026-02-02"),
        debit.returned("'e-2", "2026-02-04", "R01", "</p><script>alert(4)</script>"),
    ]);
    let unknown = Debit::new(user, "\"><script>alert(5)</script>", "c-2");
    dues.payments(&[unknown.submitted("</pre><script>alert(6)</script>", "2026-02-05")]);
    assert_eq!(dues.parked().len(), 1);
    let serving = Serving::start(&dues);
    run("markup", &serving, &json!({"user": user}));
}
