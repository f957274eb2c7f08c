//! A browser that has signed in: a cookie which says until when, and which only whoever knows the token can have made.
//!
//! `EXPIRY.MAC`, where `EXPIRY` is in seconds since 1970 and `MAC` its HMAC-SHA256, in hex, under a key that is made from the token. The token itself is not
//! in it and cannot be found from it. Nothing is remembered here: a restart ends no session, and another token ends all of them.

use chrono::TimeDelta;
use dues_events::Time;
use hmac::{Hmac, KeyInit as _, Mac as _};
use hyper::header::{COOKIE, HeaderMap, HeaderValue};
use sha2::{Digest as _, Sha256};

use super::guard::same;

/// How long a session lasts.
const LASTS: TimeDelta = TimeDelta::hours(12);
/// The cookie's name.
const NAME: &str = "dues_console";
/// What the key is for: a token that signs something else, too, signs no sessions with that.
const PURPOSE: &[u8] = b"dues console session, version 1";

/// Makes sessions, and knows them again.
pub(super) struct Sessions {
    key: Vec<u8>,
}

impl Sessions {
    pub(super) fn new(token: &[u8]) -> Self {
        Self { key: mac(token, PURPOSE) }
    }

    /// The cookie of a session that begins now. A browser that came through TLS sends it only there.
    pub(super) fn begin(&self, now: Time, secure: bool) -> Option<HeaderValue> {
        let expiry = (now + LASTS).timestamp();
        set(&format!("{expiry}.{}", self.sign(expiry)), LASTS.num_seconds(), secure)
    }

    /// Whether one of the request's cookies is that of a session that lasts.
    pub(super) fn holds(&self, headers: &HeaderMap, now: Time) -> bool {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(';'));
        let named = cookies.filter_map(|cookie| cookie.trim().strip_prefix(NAME)?.strip_prefix('='));
        named.into_iter().any(|value| self.knows(value, now))
    }

    fn knows(&self, value: &str, now: Time) -> bool {
        let Some((expiry, given)) = value.split_once('.') else { return false };
        let Ok(expiry) = expiry.parse::<i64>() else { return false };
        // The signature first: what is not ours tells nobody what time it is here.
        same(given.as_bytes(), self.sign(expiry).as_bytes()) && now.timestamp() < expiry
    }

    fn sign(&self, expiry: i64) -> String {
        mac(&self.key, expiry.to_string().as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The cookie that ends a session in this browser.
pub(super) fn end(secure: bool) -> Option<HeaderValue> {
    set("", 0, secure)
}

/// No script reads it, and no page of another site sends it.
fn set(value: &str, seconds: i64, secure: bool) -> Option<HeaderValue> {
    let secure = if secure { "; Secure" } else { "" };
    HeaderValue::try_from(format!("{NAME}={value}; Max-Age={seconds}; Path=/; HttpOnly; SameSite=Strict{secure}")).ok()
}

/// The key is hashed first, so that it fills half a block whatever it is, and nothing can go wrong.
fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut block = [0; 64];
    block[..32].copy_from_slice(&Sha256::digest(key));
    let mut mac = Hmac::<Sha256>::new(&block.into());
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &[u8] = b"0123456789abcdef";

    fn at(hours: i64) -> Time {
        Time::from_timestamp(1_800_000_000, 0).unwrap() + TimeDelta::hours(hours)
    }

    /// What a browser sends back.
    fn value() -> String {
        let cookie = Sessions::new(TOKEN).begin(at(0), false).unwrap();
        let text = cookie.to_str().unwrap();
        assert_eq!(text.split_once("; ").unwrap().1, "Max-Age=43200; Path=/; HttpOnly; SameSite=Strict");
        text.split(';').next().unwrap().strip_prefix("dues_console=").unwrap().to_owned()
    }

    fn holds(token: &[u8], value: &str, hours: i64) -> bool {
        let headers = [(COOKIE, HeaderValue::try_from(format!("theme=dark; {NAME}={value}; other=1")).unwrap())];
        Sessions::new(token).holds(&headers.into_iter().collect(), at(hours))
    }

    #[test]
    fn a_session_lasts_twelve_hours_and_survives_a_restart() {
        for (hours, lasts) in [(0, true), (11, true), (12, false), (1000, false)] {
            // Each asks sessions that were made anew.
            assert_eq!(holds(TOKEN, &value(), hours), lasts, "{hours}");
        }
        assert!(!Sessions::new(TOKEN).holds(&HeaderMap::new(), at(0)));
    }

    #[test]
    fn another_token_ends_all_sessions_and_the_token_is_not_in_the_cookie() {
        assert!(!holds(b"0123456789abcdeg", &value(), 0));
        assert!(!value().contains("0123456789abcdef"));
        assert!(!holds(TOKEN, "0123456789abcdef", 0));
    }

    #[test]
    fn what_was_changed_is_not_believed() {
        let value = value();
        let (expiry, signature) = value.split_once('.').unwrap();
        let later = expiry.parse::<i64>().unwrap() + 1;
        let turned: String = signature.chars().rev().collect();
        for wrong in [
            String::new(),
            ".".to_owned(),
            format!("{expiry}."),
            format!("{expiry}.{}", &signature[..63]),
            format!("{expiry}.{signature}0"),
            format!("{expiry}.{turned}"),
            format!("{later}.{signature}"),
            format!(".{signature}"),
            format!("+{expiry}.{}", signature.to_uppercase()),
        ] {
            assert!(!holds(TOKEN, &wrong, 0), "{wrong}");
        }
        assert!(holds(TOKEN, &value, 0));
    }

    #[test]
    fn what_is_sent_through_tls_is_sent_only_there() {
        let cookie = Sessions::new(TOKEN).begin(at(0), true).unwrap();
        assert!(cookie.to_str().unwrap().ends_with("; SameSite=Strict; Secure"));
        assert_eq!(end(false).unwrap(), "dues_console=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict");
    }
}
