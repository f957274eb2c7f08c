//! Verification of webhooks by their `Stripe-Signature` header, `t=…,v1=…[,v1=…][,v0=…]`.
//!
//! A `v1` is the hex HMAC-SHA256 of `"{t}.{raw body}"`. There are several while Stripe rolls a secret, and
//! several configured secrets while this side does; any `v1` under any secret is accepted. `v0` is a fake
//! that Stripe adds to test events. It and every other scheme are ignored, which prevents downgrades.

use chrono::TimeDelta;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::time::Time;

/// Default tolerance between the header's time and the local clock, as in Stripe's own libraries.
pub const TOLERANCE: TimeDelta = TimeDelta::seconds(300);

/// Why a webhook is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The header is missing.
    #[error("the Stripe-Signature header is missing")]
    Missing,
    /// The header does not have exactly one time and at least one `v1`.
    #[error("the Stripe-Signature header is malformed")]
    Malformed,
    /// No signature matches under any secret.
    #[error("no v1 signature matches the body under any configured secret")]
    NoMatch,
    /// Signed by Stripe, but too long ago: possibly a replay.
    #[error("signed too long ago")]
    TooOld,
    /// Signed by Stripe, but in the future: one of the clocks is wrong.
    #[error("signed too far in the future")]
    TooNew,
}

impl SignatureError {
    /// A short code for programs.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Missing => "signature_missing",
            Self::Malformed => "signature_malformed",
            Self::NoMatch => "signature_mismatch",
            Self::TooOld => "signature_too_old",
            Self::TooNew => "signature_too_new",
        }
    }
}

/// Verifies that a body was signed with one of the secrets, within the tolerance of `now`.
///
/// The time is checked last, so that [`SignatureError::TooOld`] and [`SignatureError::TooNew`] only occur
/// for bodies that Stripe signed.
///
/// # Errors
/// [`SignatureError`] with the reason of the rejection.
pub fn verify(
    header: &str,
    body: &[u8],
    secrets: &[impl AsRef<[u8]>],
    now: Time,
    tolerance: TimeDelta,
) -> Result<(), SignatureError> {
    let Header { at, signatures } = read(header)?;
    if !secrets.iter().any(|secret| is_signed(secret.as_ref(), at, body, &signatures)) {
        return Err(SignatureError::NoMatch);
    }
    // A time outside chrono's range is in the future: the header's time has no sign.
    let signed_at = Time::from_timestamp(at, 0).ok_or(SignatureError::TooNew)?;
    let age = now.signed_duration_since(signed_at);
    if age > tolerance {
        return Err(SignatureError::TooOld);
    }
    if -age > tolerance {
        return Err(SignatureError::TooNew);
    }
    Ok(())
}

struct Header {
    at: i64,
    signatures: Vec<[u8; 32]>,
}

fn read(header: &str) -> Result<Header, SignatureError> {
    if header.trim().is_empty() {
        return Err(SignatureError::Missing);
    }
    let (mut at, mut is_signed, mut signatures) = (None, false, Vec::new());
    for (name, value) in header.split(',').filter_map(|element| element.split_once('=')) {
        match name {
            "t" if at.is_some() => return Err(SignatureError::Malformed),
            "t" => at = Some(seconds(value).ok_or(SignatureError::Malformed)?),
            "v1" => {
                is_signed = true;
                signatures.extend(unhex(value));
            }
            _ => {}
        }
    }
    match at {
        Some(at) if is_signed => Ok(Header { at, signatures }),
        Some(_) | None => Err(SignatureError::Malformed),
    }
}

/// Digits only: `parse` would also accept a sign.
fn seconds(text: &str) -> Option<i64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// A signature as Stripe writes it: 64 lowercase hex digits. Anything else matches nothing.
fn unhex(text: &str) -> Option<[u8; 32]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != 32 || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

/// An empty secret verifies nothing: anyone could sign with it.
fn is_signed(secret: &[u8], at: i64, body: &[u8], signatures: &[[u8; 32]]) -> bool {
    if secret.trim_ascii().is_empty() {
        return false;
    }
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return false };
    mac.update(at.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    // Constant-time comparison.
    signatures.iter().any(|signature| mac.clone().verify_slice(signature).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test cases of RFC 4231, except truncation.
    #[test]
    fn the_mac_is_the_one_of_rfc_4231() {
        let large = [0xaa; 131];
        for (key, data, expected) in [
            (
                &[0x0b; 20][..],
                &b"Hi There"[..],
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (&[0xaa; 20], &[0xdd; 50], "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
            (
                &large,
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
            (
                &large,
                b"This is a test using a larger than block-size key and a larger than block-size data. \
                  The key needs to be hashed before being used by the HMAC algorithm.",
                "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
            ),
        ] {
            let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
            mac.update(data);
            assert_eq!(hex::encode(mac.finalize().into_bytes()), expected);
        }
    }

    #[test]
    fn hex_is_read_only_as_stripe_writes_it() {
        let bytes: Vec<u8> = (0..32).map(|n| n * 8 + 7).collect();
        assert_eq!(unhex(&hex::encode(&bytes)).unwrap().as_slice(), bytes);
        for bad in [
            String::new(),
            "0".repeat(63),
            "0".repeat(65),
            "0".repeat(66),
            "g".repeat(64),
            "A".repeat(64),
            "é".repeat(32),
        ] {
            assert_eq!(unhex(&bad), None, "{bad}");
        }
    }
}
