//! Browser sessions: a cookie with an expiry time, signed with a key derived from the token.
//!
//! The cookie is `EXPIRY.MAC`: `EXPIRY` in seconds since 1970, `MAC` its HMAC-SHA256 in hex. The token
//! cannot be recovered from it. The server stores no sessions: a restart ends none, and a new token ends
//! all.

use axum::http::header::{COOKIE, HeaderMap, HeaderValue};
use chrono::TimeDelta;
use dues_events::Time;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use super::auth::secrets_match;

/// Lifetime of a session.
const LASTS: TimeDelta = TimeDelta::hours(12);
/// The cookie's name.
const NAME: &str = "dues_console";
/// Binds the key to this use, so that no other signature made with the token is a session.
const PURPOSE: &[u8] = b"dues console session, version 1";

/// Creates and verifies sessions.
pub(super) struct Sessions {
    key: Vec<u8>,
}

impl Sessions {
    pub(super) fn new(token: &[u8]) -> Self {
        Self { key: mac(token, PURPOSE) }
    }

    /// The cookie of a new session; `secure` restricts it to TLS.
    pub(super) fn begin(&self, now: Time, secure: bool) -> Option<HeaderValue> {
        let expiry = (now + LASTS).timestamp();
        set(&format!("{expiry}.{}", self.sign(expiry)), LASTS.num_seconds(), secure)
    }

    /// Whether a cookie of the request belongs to a session that has not expired.
    pub(super) fn holds(&self, headers: &HeaderMap, now: Time) -> bool {
        let cookies = headers
            .get_all(COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'));
        let named = cookies.filter_map(|cookie| cookie.trim().strip_prefix(NAME)?.strip_prefix('='));
        named.into_iter().any(|value| self.knows(value, now))
    }

    fn knows(&self, value: &str, now: Time) -> bool {
        let Some((expiry, given)) = value.split_once('.') else { return false };
        let Ok(expiry) = expiry.parse::<i64>() else { return false };
        // Verify the signature first: a forged cookie must not reveal the server's time.
        secrets_match(given.as_bytes(), self.sign(expiry).as_bytes()) && now.timestamp() < expiry
    }

    fn sign(&self, expiry: i64) -> String {
        hex::encode(mac(&self.key, expiry.to_string().as_bytes()))
    }
}

/// The cookie that ends a session.
pub(super) fn end(secure: bool) -> Option<HeaderValue> {
    set("", 0, secure)
}

/// `HttpOnly` hides the cookie from scripts; `SameSite=Strict` keeps it out of requests from other sites.
fn set(value: &str, seconds: i64, secure: bool) -> Option<HeaderValue> {
    let secure = if secure { "; Secure" } else { "" };
    HeaderValue::try_from(format!(
        "{NAME}={value}; Max-Age={seconds}; Path=/; HttpOnly; SameSite=Strict{secure}"
    ))
    .ok()
}

/// HMAC-SHA256. The key is hashed first, so that it has a fixed length and creating the MAC cannot fail.
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

    /// The cookie value that a browser sends back.
    fn value() -> String {
        let cookie = Sessions::new(TOKEN).begin(at(0), false).unwrap();
        let text = cookie.to_str().unwrap();
        assert_eq!(text.split_once("; ").unwrap().1, "Max-Age=43200; Path=/; HttpOnly; SameSite=Strict");
        text.split(';').next().unwrap().strip_prefix("dues_console=").unwrap().to_owned()
    }

    fn holds(token: &[u8], value: &str, hours: i64) -> bool {
        let headers =
            [(COOKIE, HeaderValue::try_from(format!("theme=dark; {NAME}={value}; other=1")).unwrap())];
        Sessions::new(token).holds(&headers.into_iter().collect(), at(hours))
    }

    #[test]
    fn a_session_lasts_twelve_hours_and_survives_a_restart() {
        for (hours, lasts) in [(0, true), (11, true), (12, false), (1000, false)] {
            // Each case uses a new instance: sessions survive a restart.
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
