//! The console over HTTP: access, headers, refused requests, and shutdown.

use std::io::{Read as _, Write as _};

use dues_store::embedded::Embedded;
use serde_json::{Value, json};

use crate::support::records::{Debit, activate, change, plain, plus};
use crate::support::run::{Dues, assert_says};
use crate::support::server::{Answer, Serving, until};

const PAGES: [&str; 6] = [
    "/",
    "/console/calendar",
    "/console/money",
    "/console/parked",
    "/console/search?q=u",
    "/console/members/u-1",
];

#[test]
fn pages_come_with_headers_that_keep_others_out() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    let serving = Serving::start(&dues);
    for path in PAGES.iter().chain(&["/console/console.css", "/console/console.js", "/console/icon.svg"]) {
        let page = serving.ask("GET", path, &[], b"");
        assert_eq!(page.status, 200, "{path}");
        assert_says(
            &page.head,
            &[
                "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'",
                "nosniff",
                "no-store",
            ],
        );
        assert!(!page.head.contains("unsafe-inline"), "{path}");
        // Nothing that the content security policy would block, and nothing from other origins.
        for never in ["style=\"", "onclick", "http://", "https://"] {
            let inside = page.body.replace("http://www.w3.org/2000/svg", "");
            assert!(!inside.contains(never), "{path} has {never}");
        }
        assert_eq!(serving.ask("HEAD", path, &[], b"").status, 200, "{path}");
        assert_eq!(serving.ask("DELETE", path, &[], b"").status, 405, "{path}");
        for headers in [&[("Host", "evil.example")][..], &[("Origin", "https://evil.example")]] {
            assert_eq!(
                serving.ask("GET", path, headers, b"").refusal(),
                (403, "not_local".to_owned()),
                "{path}"
            );
        }
    }
    assert_eq!(serving.ask("GET", "/console", &[], b"").status, 303);
    for path in [
        "/console/nowhere",
        "/console/members/",
        "/console/members/no-such-user",
        "/console/members/%ff",
        "/console/members/u-1?at=soon",
    ] {
        let missing = serving.ask("GET", path, &[], b"");
        assert_eq!((missing.status, missing.body.contains("<h1>Not found</h1>")), (404, true), "{path}");
    }
}

#[test]
fn a_page_of_another_site_cannot_press_the_button() {
    let dues = Dues::new();
    dues.ingest_bytes("memberships", b"no json\n");
    let id = dues.parked()[0]["parked_id"].as_str().unwrap().to_owned();
    let serving = Serving::start(&dues);
    let path = format!("/console/parked/memberships/{id}/redrive");
    assert_eq!(
        serving.ask("POST", &path, &[("Origin", "https://evil.example")], b"").refusal(),
        (403, "not_local".to_owned())
    );
    assert_eq!(serving.ask("GET", &path, &[], b"").status, 404, "and looking presses nothing");
    let own = format!("http://{}", serving.address);
    let pressed =
        serving.ask("POST", &path, &[("Host", &serving.address.to_string()), ("Origin", &own)], b"");
    assert_eq!(pressed.status, 303);
    assert_says(&pressed.head, &[&format!("location: /console/parked?redriven={id}&fate=parked")]);
    for gone in [
        "/console/parked/memberships/none/redrive",
        "/console/parked/redrive",
        "/console/parked/memberships/x",
    ] {
        assert_eq!(serving.ask("POST", gone, &[], b"").status, 404, "{gone}");
    }
}

#[test]
fn an_empty_store_says_how_to_begin() {
    let dues = Dues::new();
    let serving = Serving::start(&dues);
    assert_says(&serving.ask("GET", "/", &[], b"").body, &["There are no billing records yet", "dues demo"]);
    assert_eq!(serving.ask("GET", "/console/calendar", &[], b"").status, 200);
}

#[test]
fn listeners_get_updates_at_once_and_do_not_keep_the_server_running() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    let serving = Serving::start(&dues);
    let listen = || {
        let mut stream = serving.connect();
        stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut text = String::new();
        let mut bytes = [0; 4096];
        while !text.contains("\"records\":\"1\"") {
            let read = stream.read(&mut bytes).unwrap();
            assert!(read > 0, "{text}");
            text += &String::from_utf8_lossy(&bytes[..read]);
        }
        assert_says(&text.to_lowercase(), &["200 ok", "content-type: text/event-stream", "data: {"]);
        stream
    };
    let mut listeners: Vec<_> = (0..64).map(|_| listen()).collect();
    assert_eq!(serving.ask("GET", "/events", &[], b"").status, 503, "there is an end to how many");
    serving.signal("-TERM");
    for stream in &mut listeners {
        // The stream ends.
        Answer::read(stream);
    }
    assert_eq!(serving.ended().0.code(), Some(0));
}

/// The figures of the first message that has all of them, without those that depend on the current second.
fn figures(serving: &Serving) -> Value {
    let mut stream = serving.connect();
    stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let (mut text, mut bytes) = (String::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut bytes).unwrap();
        assert!(read > 0, "{text}");
        text += &String::from_utf8_lossy(&bytes[..read]);
        // A message ends with an empty line; chunked encoding adds lines between them.
        let whole = text
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .filter_map(|data| serde_json::from_str::<Value>(data).ok());
        if let Some(mut update) = whole.rev().find(|update| update["counting"].is_null()) {
            let figures = update["text"].as_object_mut().unwrap();
            figures.retain(|name, _| {
                !["at", "events_s", "changes_s"].contains(&name.as_str()) && !name.starts_with("oldest")
            });
            return update["text"].clone();
        }
    }
}

#[test]
fn incremental_figures_equal_a_full_count() {
    let dues = Dues::new();
    dues.members(&(0..40).map(|n| activate(&format!("m-{n}"), &format!("u-{n}"))).collect::<Vec<_>>());
    let ids: Vec<String> = (0..4).map(|n| dues.id(&format!("u-{n}"), 0)).collect();
    let serving = Serving::start(&dues);
    until("all are counted", || figures(&serving)["records"] == "40");
    // Records are created, moved, paid, returned, paused and parked while the count is followed.
    let debit = |n: usize| Debit::new(&format!("u-{n}"), &ids[n], &format!("c-{n}"));
    let mut payments: Vec<Value> =
        (0..4).map(|n| debit(n).submitted(&format!("s-{n}"), "2026-02-02")).collect();
    payments.extend((0..3).map(|n| debit(n).completed(&format!("d-{n}"), "2026-02-04")));
    payments.push(debit(3).returned("r-3", "2026-02-04", "R01", "Insufficient funds"));
    payments.push(debit(2).returned("r-2", "2026-02-20", "R10", "not authorised"));
    payments.push(debit(1).refunded("f-1", "2026-02-21"));
    let members = [
        change("p-1", "PAUSE", "u-9", "2026-01-20", json!({"pause_duration_months": 2})),
        plain("x-1", "CANCEL", "no-such-user", "2026-01-20"),
        change("a-1", "ACTIVATE", "u-new", "2026-01-20", plus("2026-03-01")),
    ];
    let engine = Embedded::open(&dues.data().join("dues.db")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for (stream, records) in [("site-payments", &payments[..]), ("memberships", &members)] {
        let records = records.iter().map(|record| (String::new(), record.to_string().into_bytes())).collect();
        runtime.block_on(engine.append(stream, "2026-02-05T00:00:00Z".parse().unwrap(), records)).unwrap();
    }
    let done = |shown: &Value| {
        shown["parked"] == "1"
            && shown["records"] == "45"
            && shown["collected_count"] == "1"
            && shown["at_risk_count"] == "2"
    };
    until("everything is processed", || {
        serving.ask("GET", "/", &[], b"");
        let shown = figures(&serving);
        done(&shown) && shown["lag_changes"] == "0" && shown["lag_memberships"] == "0"
    });
    let followed = figures(&serving);
    serving.signal("-TERM");
    assert_eq!(serving.ended().0.code(), Some(0));
    let anew = figures(&Serving::start(&dues));
    assert_eq!(followed, anew);
}
