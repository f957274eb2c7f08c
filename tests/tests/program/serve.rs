//! `dues serve` over real HTTP: responses, refused requests, shutdown, and the data after a kill.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use dues_store::embedded::Embedded;
use dues_tests::fixtures::webhook::{event, sign};
use serde_json::json;

use crate::support::records::activate;
use crate::support::run::{Dues, assert_says};
use crate::support::server::{Answer, SECRET, Serving, TIMEOUT, head, now, post_event, signed, until};

const OURS: &str = "customer.subscription.updated";
const LARGEST: usize = 256 * 1024;

#[test]
fn it_answers_on_this_machine_and_nowhere_else() {
    let dues = Dues::new();
    let serving = Serving::start(&dues);
    assert!(serving.address.ip().is_loopback());
    let health = serving.ask("GET", "/health", &[], b"");
    assert_eq!((health.status, health.json()), (200, json!({"status": "ok"})));
    assert_says(&health.head, &["content-type: application/json"]);
    let refused = serving.ask("POST", "/health", &[], b"");
    assert_eq!(refused.status, 405);
    assert_says(&refused.head, &["allow: get"]);
    assert_eq!(serving.ask("GET", "/nowhere", &[], b"").status, 404);
    // The port is taken.
    let elsewhere = Dues::new();
    assert_says(
        &elsewhere.fails(&["serve", "--port", &serving.address.port().to_string()]),
        &["listen on 127.0.0.1 port", "in use"],
    );
    for host in ["0.0.0.0", "::", "192.0.2.1"] {
        assert_says(&dues.fails(&["serve", "--port", "0", "--host", host]), &[host, "token", "127.0.0.1"]);
    }
    assert_says(
        &dues.fails(&["serve", "--port", "0", "--host", "example.com"]),
        &["example.com", "not an IP address"],
    );
    let v6 = Serving::with(&elsewhere, &["--host", "::1"], &[]);
    assert_eq!(v6.ask("GET", "/health", &[], b"").status, 200);
}

#[test]
fn webhooks_that_stripe_signed_are_on_the_stream_and_others_are_not() {
    let dues = Dues::new();
    let serving = Serving::start(&dues);
    let ours = event("evt_1", OURS, "auth0|u-1");
    let stale = sign(SECRET, now() - 400, &ours);
    let other = sign("whsec_other", now(), &ours);
    let truncated = signed(&ours)[..40].to_owned();
    for (header, code) in [
        ("t=1", "signature_malformed"),
        (&stale, "signature_too_old"),
        (&other, "signature_mismatch"),
        (&truncated, "signature_mismatch"),
    ] {
        let answer = serving.ask("POST", "/webhooks/stripe", &[("Stripe-Signature", header)], &ours);
        assert_eq!(answer.refusal(), (400, code.to_owned()));
    }
    assert_eq!(serving.ask("POST", "/webhooks/stripe", &[], &ours).refusal().1, "signature_missing");
    let good = signed(&ours);
    // A repeated header is one header with both values, and so has two times.
    let twice = serving.ask(
        "POST",
        "/webhooks/stripe",
        &[("Stripe-Signature", &good), ("Stripe-Signature", &good)],
        &ours,
    );
    assert_eq!(twice.refusal().1, "signature_malformed");
    let odd = [
        head("POST", "/webhooks/stripe", &[], ours.len()).trim_end().as_bytes(),
        b"\r\nStripe-Signature: \xff\r\n\r\n",
        &ours,
    ]
    .concat();
    assert_eq!(serving.raw(&odd).refusal().1, "signature_malformed");
    assert_eq!(serving.ask("GET", "/webhooks/stripe", &[("Stripe-Signature", &good)], &ours).status, 405);
    assert_eq!(
        serving.webhook(&event("evt_2", "plan.created", "u-1")).json(),
        json!({"received": true, "handled": false})
    );
    assert_eq!(dues.inbox(), []);
    // Stripe reaches this machine through a tunnel, under any host name.
    let answer = serving.ask(
        "POST",
        "/webhooks/stripe",
        &[("STRIPE-SIGNATURE", &good), ("Host", "dues.example")],
        &ours,
    );
    assert_eq!((answer.status, answer.json()), (200, json!({"received": true, "handled": true})));
    assert_eq!(dues.inbox(), [("auth0|u-1".to_owned(), ours)]);
}

#[test]
fn secrets_come_from_a_file_and_from_the_environment_and_without_one_nothing_is_believed() {
    let dues = Dues::new();
    let (first, second, third) = ("whsec_first", "whsec_second", "whsec_third");
    let file = dues.file("secrets", format!("{first}\r\n\n{second}\n").as_bytes());
    let body = event("evt_1", OURS, "u-1");
    let post = |serving: &Serving, secret| {
        serving
            .ask("POST", "/webhooks/stripe", &[("Stripe-Signature", &sign(secret, now(), &body))], &body)
            .status
    };
    let serving = Serving::with(&dues, &["--stripe-secret-file", &file], &[("DUES_STRIPE_SECRETS", third)]);
    assert_eq!(
        [first, second, third, "whsec_fourth"].map(|secret| post(&serving, secret)),
        [200, 200, 200, 400]
    );
    drop(serving);
    let serving = Serving::with(&dues, &[], &[("DUES_STRIPE_SECRETS", &format!("{first}, {second}"))]);
    assert_eq!([first, second, third].map(|secret| post(&serving, secret)), [200, 200, 400]);
    drop(serving);
    let serving = Serving::with(&dues, &[], &[("DUES_STRIPE_SECRETS", "")]);
    assert_eq!(["", first].map(|secret| post(&serving, secret)), [404, 404]);
    serving.signal("-TERM");
    assert_says(&serving.ended().1, &["no Stripe secret is configured", "--stripe-secret-file"]);
    assert_eq!(dues.inbox().len(), 5);
    let empty = dues.file("empty", b"\n");
    assert_says(&dues.fails(&["serve", "--port", "0", "--stripe-secret-file", &empty]), &["no secret in"]);
    assert_says(
        &dues.fails(&["serve", "--port", "0", "--stripe-secret-file", "nowhere"]),
        &["read nowhere", "No such file"],
    );
}

#[test]
fn a_body_that_is_too_long_is_refused_before_it_is_read() {
    let dues = Dues::new();
    let serving = Serving::start(&dues);
    let mut largest = event("evt_1", OURS, "u-1");
    largest.resize(LARGEST, b' ');
    assert_eq!(serving.webhook(&largest).status, 200);
    for path in ["/webhooks/stripe", "/u-1/subscriptions/s-1/pay"] {
        // No byte of the body is sent.
        let answer = serving.raw(head("POST", path, &[], LARGEST + 1).as_bytes());
        assert_eq!(answer.refusal(), (413, "too_large".to_owned()));
        // A body without a length, and without an end.
        let mut stream = serving.connect();
        write!(stream, "POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            .unwrap();
        let chunk = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
        let sent = (0..4096).take_while(|_| stream.write_all(chunk.as_bytes()).is_ok()).count();
        assert!(sent < 4096, "{} bytes were taken", sent * 0x4000);
        // It was answered, unless the connection's reset discarded the answer.
        let answer = Answer::read(&mut stream);
        assert!(answer.status == 413 || answer.status == 0, "{answer:?}");
    }
    let mut chunked = format!(
        "POST /webhooks/stripe HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: \
            chunked\r\n\r\n{:x}\r\n",
        LARGEST + 1
    );
    chunked += &"x".repeat(LARGEST + 1);
    assert_eq!(serving.raw(chunked.as_bytes()).refusal(), (413, "too_large".to_owned()));
    assert_eq!(dues.inbox(), [("u-1".to_owned(), largest)]);
}

#[test]
fn noise_and_slow_clients_delay_no_other_client() {
    let dues = Dues::new();
    let serving = Serving::start(&dues);
    let endless = format!("GET /health HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
    for noise in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"\r\n\r\n\r\n",
        b"GET\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
        b"GET /health HTTP/9\r\n\r\n",
        endless.as_bytes(),
    ] {
        let mut stream = serving.connect();
        // The server may close the connection before everything is sent.
        let _ = stream.write_all(noise);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let status = Answer::read(&mut stream).status;
        assert!([0, 400, 414, 431].contains(&status), "{status}");
    }
    // A hundred clients that send a few bytes and then nothing.
    let slow: Vec<_> = (0..100)
        .map(|n| {
            let mut stream = serving.connect();
            let words = if n % 2 == 0 {
                "POST /webhooks/str".to_owned()
            } else {
                head("POST", "/webhooks/stripe", &[], 100)
            };
            stream.write_all(words.as_bytes()).unwrap();
            stream
        })
        .collect();
    let started = Instant::now();
    let body = event("evt_1", OURS, "u-1");
    assert_eq!(serving.webhook(&body).status, 200);
    assert!(
        started.elapsed() < Duration::from_secs(8),
        "other clients do not wait for them: {:?}",
        started.elapsed()
    );
    // The server closes them.
    for (n, mut stream) in slow.into_iter().enumerate() {
        let answer = Answer::read(&mut stream);
        assert_eq!(answer.status, if n % 2 == 0 { 0 } else { 408 }, "{answer:?}");
    }
    assert!(started.elapsed() < TIMEOUT);
    // It also closes an idle connection.
    let mut idle = serving.connect();
    idle.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert_eq!(Answer::read(&mut idle).status, 200);
    assert_eq!(dues.inbox().len(), 1);
}

#[test]
fn on_shutdown_it_finishes_what_it_has_begun() {
    for signal in ["-TERM", "-INT"] {
        let dues = Dues::new();
        let serving = Serving::start(&dues);
        let body = event("evt_1", OURS, "u-1");
        let mut stream = serving.connect();
        let (first, rest) = body.split_at(20);
        stream
            .write_all(
                &[
                    head("POST", "/webhooks/stripe", &[("Stripe-Signature", &signed(&body))], body.len())
                        .as_bytes(),
                    first,
                ]
                .concat(),
            )
            .unwrap();
        // An idle connection does not delay the shutdown.
        let mut idle = serving.connect();
        idle.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut word = [0; 15];
        idle.read_exact(&mut word).unwrap();
        assert_eq!(&word, b"HTTP/1.1 200 OK");
        serving.signal(signal);
        until("connections are refused", || std::net::TcpStream::connect(serving.address).is_err());
        stream.write_all(rest).unwrap();
        let answer = Answer::read(&mut stream);
        assert_eq!((answer.status, answer.json()["handled"].clone()), (200, json!(true)), "{signal}");
        let (status, said) = serving.ended();
        assert_eq!(status.code(), Some(0), "{signal}");
        let graver = said.lines().find(|line| !line.contains("\"level\":\"INFO\""));
        assert_eq!(graver, None, "{signal}");
        assert_says(said.lines().last().unwrap(), &["\"message\":\"stopped\""]);
        assert_eq!(dues.inbox(), [("u-1".to_owned(), body)]);
    }
}

#[test]
fn what_was_answered_with_200_is_there_after_a_kill() {
    const CLIENTS: usize = 4;
    let dues = Dues::new();
    let mut answered = BTreeSet::new();
    for round in 0..12 {
        let serving = Serving::start(&dues);
        let address = serving.address;
        let (acknowledge, acknowledgements) = std::sync::mpsc::channel();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let acknowledge = acknowledge.clone();
                std::thread::spawn(move || {
                    // Until a request is not answered: the server was killed.
                    let mut bodies = (0..).map(|n| event(&format!("evt_{round}_{client}_{n}"), OURS, "u-1"));
                    bodies
                        .find(|body| {
                            if post_event(address, body) {
                                acknowledge.send(body.clone()).is_err()
                            } else {
                                true
                            }
                        })
                        .unwrap()
                })
            })
            .collect();
        // Right after an answer, while other requests are in progress.
        answered.extend(acknowledgements.iter().take(5 + round));
        serving.kill();
        drop(acknowledge);
        let unanswered: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        answered.extend(acknowledgements);
        let there: BTreeSet<_> = dues.inbox().into_iter().map(|(_, body)| body).collect();
        assert!(
            there.is_superset(&answered),
            "round {round}: {} were answered, {} are there",
            answered.len(),
            there.len()
        );
        // An unanswered event may be stored too: Stripe sends it again, and it is a duplicate by its id.
        let more: Vec<_> = there.difference(&answered).cloned().collect();
        assert!(more.iter().all(|body| unanswered.contains(body)), "round {round}: {more:?}");
        answered.extend(more);
    }
}

#[test]
fn commands_are_for_programs_on_this_machine() {
    let dues = Dues::new();
    dues.members(&[activate("m-1", "u-1")]);
    let id = dues.id("u-1", 0);
    let serving = Serving::start(&dues);
    let path = format!("/u-1/subscriptions/{id}/pause");
    let body = br#"{"pause_duration_months":2}"#;
    let page = ("Origin", "https://evil.example");
    for headers in [
        &[page][..],
        &[("Host", "evil.example")],
        &[("Host", "evil.example"), ("Origin", "http://evil.example")],
    ] {
        assert_eq!(
            serving.ask("POST", &path, headers, body).refusal(),
            (403, "not_local".to_owned()),
            "{headers:?}"
        );
    }
    assert_eq!(dues.statuses("u-1"), ["SCHEDULED"]);
    let answer = serving.ask("POST", &path, &[], body);
    assert_eq!((answer.status, answer.json()["outcome"].clone()), (200, json!("paused")), "{answer:?}");
    assert_eq!(dues.statuses("u-1"), ["PAUSED"]);
    assert_eq!(serving.ask("GET", &path, &[], b"").status, 405);
    assert_eq!(serving.ask("POST", &path, &[], b"[]").refusal(), (422, "invalid_field".to_owned()));
}

#[test]
fn the_streams_are_processed_beside_it_also_after_trouble() {
    let dues = Dues::new();
    let serving = Serving::start(&dues);
    let file = dues.data().join("dues.db");
    let engine = Embedded::open(&file).unwrap();
    let append = |record: serde_json::Value| {
        let records = vec![(String::new(), record.to_string().into_bytes())];
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime
            .block_on(engine.append("memberships", "2026-01-05T00:00:00Z".parse().unwrap(), records))
            .unwrap();
    };
    let done = || engine.checkpoint("memberships", "memberships").unwrap();
    append(activate("m-1", "u-1"));
    until("the first record is processed", || done() == 1);
    assert_eq!(dues.statuses("u-1"), ["SCHEDULED"]);
    let database = rusqlite::Connection::open(&file).unwrap();
    database.busy_timeout(TIMEOUT).unwrap();
    let rename =
        |from: &str, to: &str| database.execute(&format!("ALTER TABLE {from} RENAME TO {to}"), []).unwrap();
    // Checkpoints cannot be written for a while.
    rename("checkpoints", "elsewhere");
    append(activate("m-2", "u-2"));
    while serving.wait_for_log("consumer stalled")["who"] != "memberships" {}
    let body = event("evt_1", OURS, "u-1");
    assert_eq!(
        (serving.ask("GET", "/health", &[], b"").status, serving.webhook(&body).status),
        (200, 200),
        "the server goes on"
    );
    rename("elsewhere", "checkpoints");
    until("the second record is processed", || done() == 2);
    assert_eq!(dues.statuses("u-2"), ["SCHEDULED"], "once, although it was read more than once");
    // The streams cannot be written for a while.
    rename("stream_records", "elsewhere");
    let refused = serving.webhook(&event("evt_2", OURS, "u-1"));
    assert_eq!(refused.refusal(), (503, "unavailable".to_owned()));
    assert_says(&refused.head, &["retry-after: 5"]);
    rename("elsewhere", "stream_records");
    assert_eq!(serving.webhook(&event("evt_2", OURS, "u-1")).status, 200, "Stripe sends it again");
    assert_eq!(dues.inbox(), [("u-1".to_owned(), body), ("u-1".to_owned(), event("evt_2", OURS, "u-1"))]);
    serving.signal("-TERM");
    assert_eq!(serving.ended().0.code(), Some(0));
}
