//! The `Stripe-Signature` header: which signatures are accepted or rejected, and why.
//! `tests/tests/stripe_signatures.rs` compares with Stripe's own library.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use chrono::TimeDelta;
use dues_events::Time;
use dues_events::entitlements::stripe::signature::SignatureError;
use dues_events::entitlements::stripe::signature::SignatureError::{
    Malformed, Missing, NoMatch, TooNew, TooOld,
};
use dues_events::entitlements::stripe::signature::{TOLERANCE, verify};
use proptest::prelude::*;

/// Python: `hmac.new(b"whsec_test", b'1767621600.{"id":"evt_1"}', "sha256").hexdigest()`.
const AT: i64 = 1_767_621_600;
const BODY: &[u8] = br#"{"id":"evt_1"}"#;
const SECRET: &str = "whsec_test";
const SIGNATURE: &str = "027033f3a057da54976b8e949a6da9760bb16465ffa496f7f9906042c2a95d89";

fn at(seconds: i64) -> Time {
    Time::from_timestamp(seconds, 0).unwrap()
}

fn eligibility(header: &str) -> Result<(), SignatureError> {
    verify(header, BODY, &[SECRET], at(AT), TOLERANCE)
}

#[test]
fn what_stripe_signed_is_believed() {
    let zeros = "0".repeat(64);
    for header in [
        format!("t={AT},v1={SIGNATURE}"),
        format!("t={AT},v1={SIGNATURE},v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39"),
        format!("t={AT},v1={zeros},v1={SIGNATURE}"),
        format!("t={AT},v1={SIGNATURE},v1={zeros}"),
        format!("t={AT},v1=,v1=zz,v1,v1={SIGNATURE}"),
        format!("v1={SIGNATURE},t={AT}"),
        format!("scheme=x,,=,t={AT},v1={SIGNATURE},"),
    ] {
        assert_eq!(eligibility(&header), Ok(()), "{header}");
    }
}

#[test]
fn any_secret_will_do_while_they_roll_but_never_an_empty_one() {
    let header = format!("t={AT},v1={SIGNATURE}");
    let with = |secrets: &[&str]| verify(&header, BODY, secrets, at(AT), TOLERANCE);
    assert_eq!(with(&["whsec_next", SECRET]), Ok(()));
    assert_eq!(with(&[SECRET, "whsec_next"]), Ok(()));
    assert_eq!(with(&["whsec_next"]), Err(NoMatch));
    assert_eq!(with(&[]), Err(NoMatch));
    assert_eq!(with(&["whsec_test "]), Err(NoMatch));
    // The signature under the empty secret, which anyone can compute.
    let empty = format!("t={AT},v1=71c09ca3687691ef191ed5f1cadfa70e98d8a9adf7683b92746a54226ef78dbd");
    assert_eq!(verify(&empty, BODY, &["", " \n"], at(AT), TOLERANCE), Err(NoMatch));
}

#[test]
fn whatever_else_was_signed_is_not_believed() {
    let header = format!("t={AT},v1={SIGNATURE}");
    for body in [&b""[..], br#"{"id":"evt_2"}"#, br#"{"id":"evt_1"} "#, &BODY[1..]] {
        assert_eq!(verify(&header, body, &[SECRET], at(AT), TOLERANCE), Err(NoMatch));
    }
    assert_eq!(eligibility(&format!("t={},v1={SIGNATURE}", AT + 1)), Err(NoMatch), "the time is signed too");
}

#[test]
fn a_header_that_is_not_one_is_said_so() {
    let zeros = "0".repeat(64);
    for (header, error) in [
        (String::new(), Missing),
        ("  ".to_owned(), Missing),
        ("nonsense".to_owned(), Malformed),
        ("=,=,=".to_owned(), Malformed),
        (format!("v1={SIGNATURE}"), Malformed),
        (format!("t={AT}"), Malformed),
        (format!("t={AT},v0={SIGNATURE}"), Malformed),
        (format!("t={AT},V1={SIGNATURE}"), Malformed),
        (format!("t={AT}, v1={SIGNATURE}"), Malformed),
        (format!("t=,v1={SIGNATURE}"), Malformed),
        (format!("t=now,v1={SIGNATURE}"), Malformed),
        (format!("t=-{AT},v1={SIGNATURE}"), Malformed),
        (format!("t=+{AT},v1={SIGNATURE}"), Malformed),
        (format!("t= {AT},v1={SIGNATURE}"), Malformed),
        (format!("t=99999999999999999999,v1={SIGNATURE}"), Malformed),
        (format!("t={AT},t={AT},v1={SIGNATURE}"), Malformed),
        (format!("t={AT},v1="), NoMatch),
        (format!("t={AT},v1={zeros}"), NoMatch),
        (format!("t={AT},v1={}", &SIGNATURE[..63]), NoMatch),
        (format!("t={AT},v1={}", &SIGNATURE[..32]), NoMatch),
        (format!("t={AT},v1={SIGNATURE}00"), NoMatch),
        (format!("t={AT},v1={SIGNATURE} "), NoMatch),
        (format!("t={AT},v1={SIGNATURE}=x"), NoMatch),
        (format!("t={AT},v1={}", SIGNATURE.to_uppercase()), NoMatch),
        (format!("t={AT},v1={}", "é".repeat(32)), NoMatch),
        (format!("t={AT},v0={SIGNATURE},v1={zeros}"), NoMatch),
    ] {
        assert_eq!(eligibility(&header), Err(error), "{header}");
    }
}

#[test]
fn a_signature_holds_for_the_tolerance_on_either_side() {
    let header = format!("t={AT},v1={SIGNATURE}");
    let then = |now: Time, tolerance| verify(&header, BODY, &[SECRET], now, tolerance);
    for (away, expected) in
        [(0, Ok(())), (300, Ok(())), (-300, Ok(())), (301, Err(TooOld)), (-301, Err(TooNew))]
    {
        assert_eq!(then(at(AT + away), TOLERANCE), expected, "{away}");
    }
    assert_eq!(then(at(AT + 300) + TimeDelta::nanoseconds(1), TOLERANCE), Err(TooOld));
    assert_eq!(then(at(AT), TimeDelta::zero()), Ok(()));
    assert_eq!(then(at(AT + 1), TimeDelta::zero()), Err(TooOld));
    assert_eq!(then(Time::MAX_UTC, TOLERANCE), Err(TooOld));
    assert_eq!(then(Time::MIN_UTC, TOLERANCE), Err(TooNew));
    assert_eq!(then(Time::MIN_UTC, TimeDelta::MAX), Ok(()));
    // Only correctly signed bodies are reported as too old.
    assert_eq!(verify(&header, BODY, &["whsec_other"], at(AT + 9_999), TOLERANCE), Err(NoMatch));
    // A time outside of the calendar's range, correctly signed.
    let far = "t=9223372036854775807,v1=9bfe0f9e80fb867a12a81b85d662dd1faae992254d597af9ba8f6d3b0cde3ec1";
    assert_eq!(verify(far, BODY, &[SECRET], at(AT), TOLERANCE), Err(TooNew));
}

proptest! {
    #[test]
    fn no_header_panics(header in ".{0,200}", body in any::<Vec<u8>>(), secret in any::<Vec<u8>>(),
        now in any::<i32>()) {
        prop_assert!(verify(&header, &body, &[secret], at(now.into()), TOLERANCE).is_err());
    }

    #[test]
    fn no_change_of_a_header_is_believed_unless_it_says_the_same(place in 0usize..80, byte in 0x20u8..0x7f) {
        let mut header = format!("t={AT},v1={SIGNATURE}").into_bytes();
        prop_assume!(place < header.len() && header[place] != byte);
        header[place] = byte;
        prop_assert!(eligibility(std::str::from_utf8(&header).unwrap()).is_err());
    }
}
