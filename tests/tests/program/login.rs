//! The console behind a token, over HTTP: when the form is shown, what a session cookie permits, and what it
//! does not.

use serde_json::json;
use std::time::{Duration, Instant};

use crate::support::records::activate;
use crate::support::run::{Dues, assert_says};
use crate::support::server::{Answer, Serving};

const TOKEN: &str = "a-token-of-some-length & more";
const HTML: (&str, &str) = ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8");
const HOST: &str = "dues.example";
const OWN: (&str, &str) = ("Origin", "http://dues.example");

fn served(dues: &Dues) -> Serving {
    dues.members(&[activate("m-1", "u-1")]);
    dues.ingest_bytes("memberships", b"no json\n");
    Serving::with(dues, &[], &[("DUES_TOKEN", TOKEN)])
}

fn post(serving: &Serving, headers: &[(&str, &str)], form: &str) -> Answer {
    let form_type = ("Content-Type", "application/x-www-form-urlencoded");
    serving.ask(
        "POST",
        "/console/sign-in",
        &[&[("Host", HOST), HTML, form_type], headers].concat(),
        form.as_bytes(),
    )
}

/// The value of a header; the test client lower-cases the head.
fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    let line = answer.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("{name} is missing in {}", answer.head))
}

/// Signs in, and returns the cookie that a browser sends from then on.
fn cookie(serving: &Serving) -> String {
    let answer = post(serving, &[OWN], "token=a-token-of-some-length+%26+more&next=%2F");
    assert_eq!(answer.status, 303, "{answer:?}");
    header(&answer, "set-cookie").split(';').next().unwrap().to_owned()
}

#[test]
fn a_browser_is_led_to_the_form_and_back_and_a_program_is_refused() {
    let dues = Dues::new();
    let serving = served(&dues);
    for (path, next) in
        [("/", "%2f"), ("/console/members/u-1?at=2026-02-01", "%2fconsole%2fmembers%2fu-1%3fat%3d2026-02-01")]
    {
        let led = serving.ask("GET", path, &[HTML], b"");
        assert_eq!(
            (led.status, header(&led, "location")),
            (303, format!("/console/sign-in?next={next}").as_str())
        );
        assert_eq!(serving.ask("GET", path, &[], b"").refusal(), (401, "no_token".to_owned()), "a program");
        let wrong = serving.ask("GET", path, &[HTML, ("Cookie", "dues_console=9999999999.00")], b"");
        assert_eq!(wrong.status, 303, "a cookie that is not ours");
    }
    for path in ["/events", "/console/console.js", "/u-1/subscriptions", "/metrics"] {
        assert_eq!(
            serving.ask("GET", path, &[("Accept", "*/*")], b"").refusal(),
            (401, "no_token".to_owned()),
            "{path}"
        );
    }
    assert_eq!(
        serving.ask("GET", "/u-1/subscriptions", &[HTML], b"").refusal().1,
        "no_token",
        "the API speaks JSON to all"
    );
    // The form is visible, with its style, and its headers forbid framing and other origins.
    let form = serving.ask("GET", "/console/sign-in?next=%2Fconsole%2Fparked", &[HTML], b"");
    assert_eq!(form.status, 200);
    assert_says(
        &form.body,
        &["<h1>Sign in</h1>", "type=\"password\"", "name=\"next\" value=\"/console/parked\""],
    );
    assert_says(
        &form.head,
        &["content-security-policy: default-src 'none'", "frame-ancestors 'none'", "no-store"],
    );
    assert!(!form.body.contains("<script"), "{}", form.body);
    for path in ["/console/console.css", "/console/icon.svg"] {
        assert_eq!(serving.ask("GET", path, &[], b"").status, 200, "{path}");
    }
    // No redirect to another site.
    for evil in [
        "%2F%2Fevil.example",
        "%2F%5Cevil.example",
        "%5C%5Cevil.example",
        "https%3A%2F%2Fevil.example",
        "%2F%09%2Fevil.example",
    ] {
        let form = serving.ask("GET", &format!("/console/sign-in?next={evil}"), &[HTML], b"");
        assert_says(&form.body, &["name=\"next\" value=\"/\""]);
        let led = post(&serving, &[OWN], &format!("token=a-token-of-some-length+%26+more&next={evil}"));
        assert_eq!((led.status, header(&led, "location")), (303, "/"), "{evil}");
    }
    let back = post(
        &serving,
        &[OWN],
        "token=a-token-of-some-length+%26+more&next=%2Fconsole%2Fparked%3Fstream%3Dstripe",
    );
    assert_eq!(header(&back, "location"), "/console/parked?stream=stripe");
    assert_says(header(&back, "set-cookie"), &["; max-age=43200; path=/; httponly; samesite=strict"]);
    assert!(!back.head.contains("secure") && !back.head.contains("a-token"), "{}", back.head);
    let secure = post(&serving, &[("X-Forwarded-Proto", "https")], "token=a-token-of-some-length+%26+more");
    assert!(header(&secure, "set-cookie").ends_with("; samesite=strict; secure"), "{secure:?}");
}

#[test]
fn a_cookie_opens_the_console_and_writes_only_from_our_own_pages() {
    let dues = Dues::new();
    let serving = served(&dues);
    let cookie = cookie(&serving);
    let ask = |method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]| {
        serving.ask(method, path, &[&[("Host", HOST), ("Cookie", cookie.as_str())], headers].concat(), body)
    };
    for path in ["/", "/console/members/u-1", "/console/parked", "/console/console.js", "/u-1/subscriptions"]
    {
        assert_eq!(ask("GET", path, &[HTML], b"").status, 200, "{path}");
    }
    assert_says(&ask("GET", "/", &[HTML], b"").body, &["Sign out"]);
    assert_eq!(
        header(&ask("GET", "/console/sign-in?next=%2Fconsole%2Fparked", &[HTML], b""), "location"),
        "/console/parked"
    );
    let (parked, id) = (dues.parked()[0]["parked_id"].as_str().unwrap().to_owned(), dues.id("u-1", 0));
    let writes = [
        (format!("/console/parked/memberships/{parked}/redrive"), "", 303),
        (format!("/u-1/subscriptions/{id}/pause"), r#"{"pause_duration_months":2}"#, 200),
        ("/streams/memberships".to_owned(), "", 202),
    ];
    for (path, body, _) in &writes {
        for headers in [
            &[][..],
            &[("Origin", "https://evil.example")],
            &[("Origin", "null")],
            &[("Origin", "http://dues.example:81")],
        ] {
            assert_eq!(
                ask("POST", path, headers, body.as_bytes()).refusal(),
                (403, "another_site".to_owned()),
                "{path} {headers:?}"
            );
        }
    }
    assert_eq!(dues.statuses("u-1"), ["SCHEDULED"]);
    for (path, body, status) in &writes {
        assert_eq!(ask("POST", path, &[OWN], body.as_bytes()).status, *status, "{path}");
    }
    assert_eq!(dues.statuses("u-1"), ["PAUSED"]);
    // A button pressed after the session has ended leads to the form.
    let pressed = serving.ask("POST", &writes[0].0, &[("Host", HOST), HTML, OWN], b"");
    assert_eq!(
        (pressed.status, header(&pressed, "location")),
        (303, "/console/sign-in?next=%2fconsole%2fparked")
    );
    // Signing out clears the cookie, when the request comes from a page of ours.
    assert_eq!(ask("POST", "/console/sign-out", &[("Origin", "https://evil.example")], b"").status, 403);
    assert_eq!(ask("GET", "/console/sign-out", &[], b"").status, 405);
    let out = ask("POST", "/console/sign-out", &[OWN], b"");
    assert_eq!((out.status, header(&out, "location")), (303, "/console/sign-in"));
    assert_says(header(&out, "set-cookie"), &["dues_console=;", "max-age=0"]);
}

#[test]
fn a_session_survives_a_restart_and_ends_with_its_token() {
    let dues = Dues::new();
    let serving = served(&dues);
    let cookie = cookie(&serving);
    drop(serving);
    for (token, status) in [(TOKEN, 200), ("another-token-of-some-length", 303)] {
        let serving = Serving::with(&dues, &[], &[("DUES_TOKEN", token)]);
        assert_eq!(serving.ask("GET", "/", &[HTML, ("Cookie", &cookie)], b"").status, status, "{token}");
    }
    let local = Serving::start(&dues);
    assert_eq!(local.ask("GET", "/", &[HTML], b"").status, 200);
    assert!(
        !local.ask("GET", "/", &[HTML], b"").body.contains("Sign out"),
        "without a token there is no sign-in"
    );
    assert_eq!(local.ask("GET", "/console/sign-in", &[HTML], b"").status, 404);
}

#[test]
fn guessing_is_slow_and_has_an_end() {
    let dues = Dues::new();
    let serving = served(&dues);
    let started = Instant::now();
    for n in 0..10 {
        let wrong =
            post(&serving, &[OWN], &format!("token=a-token-of-some-lengt{n}&next=%2Fconsole%2Fparked"));
        assert_eq!(wrong.status, 401);
        assert_says(
            &wrong.body,
            &["Wrong token", "name=\"next\" value=\"/console/parked\"", "role=\"alert\""],
        );
        assert!(!wrong.head.contains("set-cookie") && !wrong.body.contains("a-token"), "{wrong:?}");
    }
    assert!(started.elapsed() >= Duration::from_secs(5), "{:?}", started.elapsed());
    let refused = post(&serving, &[OWN], "token=a-token-of-some-length+%26+more");
    assert_eq!(refused.status, 429, "now not even the right one is looked at");
    let seconds: u64 = header(&refused, "retry-after").parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    assert_says(&refused.body, &["too many wrong tokens", &format!("{seconds} seconds")]);
    let bearer = format!("Bearer {TOKEN}");
    assert_eq!(
        serving.ask("GET", "/metrics", &[("Authorization", &bearer)], b"").status,
        200,
        "who has the token is not kept out"
    );
    assert_eq!(
        post(&serving, &[("Origin", "https://evil.example")], "token=x").refusal(),
        (403, "another_site".to_owned())
    );
    assert_eq!(post(&serving, &[], &"x".repeat(9000)).refusal(), (413, "too_large".to_owned()));
    serving.signal("-TERM");
    let (_, said) = serving.ended();
    assert_eq!(said.matches("a wrong token was given to sign in").count(), 10);
    assert_says(&said, &["too many wrong tokens", &json!({"from": "127.0.0.1"}).to_string()[1..19]]);
    assert!(!said.contains("a-token"), "{said}");
}
