//! Signed URLs: whoever has one may read one object in S3 for a while. AWS Signature Version 4, in the query.

use dues_events::Time;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use std::fmt;

/// How long a URL lasts unless something else is configured, in seconds: ten minutes.
pub const SIGNED_URL_TTL: u32 = 600;
/// The longest that AWS allows: a week.
pub const LONGEST_TTL: u32 = 604_800;

/// Who signs, and for which bucket. What it shows of itself leaves the secrets out.
#[derive(Clone, PartialEq, Eq)]
pub struct Signer {
    /// The name of the bucket's host, such as `figureforge-prod.s3.eu-central-1.amazonaws.com`.
    pub host: String,
    /// Where the bucket is.
    pub region: String,
    /// The public half of the credentials.
    pub access_key_id: String,
    /// The secret half.
    pub secret_access_key: String,
    /// What comes with credentials that expire.
    pub session_token: Option<String>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("host", &self.host).field("region", &self.region).finish_non_exhaustive()
    }
}

impl Signer {
    /// A URL with which the object can be read, from now on, for that many seconds.
    #[must_use]
    pub fn url(&self, key: &str, now: Time, ttl: u32) -> String {
        let (day, second) = (now.format("%Y%m%d").to_string(), now.format("%Y%m%dT%H%M%SZ").to_string());
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let path = format!("/{}", encoded(key, true));
        // In the order of their names, as they are signed.
        let mut query = format!(
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={}&X-Amz-Date={second}&X-Amz-Expires={ttl}",
            encoded(&format!("{}/{scope}", self.access_key_id), false)
        );
        if let Some(token) = &self.session_token {
            query += &format!("&X-Amz-Security-Token={}", encoded(token, false));
        }
        query += "&X-Amz-SignedHeaders=host";
        let request = format!("GET\n{path}\n{query}\nhost:{}\n\nhost\nUNSIGNED-PAYLOAD", self.host);
        let text = format!("AWS4-HMAC-SHA256\n{second}\n{scope}\n{}", hex(&Sha256::digest(request.as_bytes())));
        let steps = [day.as_str(), self.region.as_str(), "s3", "aws4_request", text.as_str()];
        let signature = steps.iter().fold(format!("AWS4{}", self.secret_access_key).into_bytes(), |key, step| signed(&key, step));
        format!("https://{}{path}?{query}&X-Amz-Signature={}", self.host, hex(&signature))
    }
}

fn signed(key: &[u8], text: &str) -> Vec<u8> {
    // An HMAC takes a key of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Percent-encoded as AWS wants it: everything but letters, digits and four signs, and slashes where they divide a path.
fn encoded(text: &str, path: bool) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        let plain = byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || path && byte == b'/';
        if plain {
            out.push(char::from(byte))
        } else {
            out.push_str(&format!("%{byte:02X}"))
        }
        out
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |out, byte| out + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in "Authenticating Requests: Using Query Parameters" of Amazon S3's API reference, with its made-up credentials.
    fn example() -> Signer {
        Signer {
            host: "examplebucket.s3.amazonaws.com".into(),
            region: "us-east-1".into(),
            access_key_id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            session_token: None,
        }
    }

    fn midnight() -> Time {
        dues_events::time::parse("2013-05-24T00:00:00Z").unwrap()
    }

    #[test]
    fn a_url_is_signed_as_in_the_example_of_aws() {
        let expected = "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256\
            &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400\
            &X-Amz-SignedHeaders=host&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
        assert_eq!(example().url("test.txt", midnight(), 86_400), expected);
    }

    #[test]
    fn keys_and_tokens_are_encoded_before_they_are_signed() {
        let signer = Signer { session_token: Some("a+b/c=".into()), ..example() };
        let url = signer.url("users/auth0|ä b/2024/03/09/i-1.jpg", midnight(), SIGNED_URL_TTL);
        assert!(url.starts_with("https://examplebucket.s3.amazonaws.com/users/auth0%7C%C3%A4%20b/2024/03/09/i-1.jpg?"), "{url}");
        assert!(url.contains("&X-Amz-Expires=600&X-Amz-Security-Token=a%2Bb%2Fc%3D&X-Amz-SignedHeaders=host&"), "{url}");
    }

    #[test]
    fn what_is_logged_of_a_signer_has_no_secrets() {
        let shown = format!("{:?}", Signer { session_token: Some("token".into()), ..example() });
        assert_eq!(shown, r#"Signer { host: "examplebucket.s3.amazonaws.com", region: "us-east-1", .. }"#);
    }
}
