//! Presigned URLs: temporary read access to one S3 object. AWS Signature Version 4 in the query string.

use dues_events::Time;
use hmac::{Hmac, KeyInit as _, Mac as _};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};
use std::fmt;

/// Default lifetime of a URL, in seconds: ten minutes.
pub const DEFAULT_TTL_SECONDS: u32 = 600;
/// The longest lifetime that AWS allows: a week.
pub const MAX_TTL_SECONDS: u32 = 604_800;

/// Credentials and bucket. `Debug` omits the secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Signer {
    /// The bucket's host name, such as `figureforge-prod.s3.eu-central-1.amazonaws.com`.
    pub host: String,
    /// The bucket's region.
    pub region: String,
    /// The access key id, which is public.
    pub access_key_id: String,
    /// The secret access key.
    pub secret_access_key: String,
    /// The session token of temporary credentials.
    pub session_token: Option<String>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer")
            .field("host", &self.host)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

impl Signer {
    /// A URL that grants read access to the object for `ttl` seconds from `now`.
    #[must_use]
    pub fn url(&self, key: &str, now: Time, ttl: u32) -> String {
        let (day, second) = (now.format("%Y%m%d").to_string(), now.format("%Y%m%dT%H%M%SZ").to_string());
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let path = format!("/{}", encoded(key, true));
        // Signature Version 4 requires the parameters in the order of their names.
        let mut query = format!(
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={}&X-Amz-Date={second}&X-Amz-Expires={ttl}",
            encoded(&format!("{}/{scope}", self.access_key_id), false)
        );
        if let Some(token) = &self.session_token {
            query += &format!("&X-Amz-Security-Token={}", encoded(token, false));
        }
        query += "&X-Amz-SignedHeaders=host";
        let request = format!("GET\n{path}\n{query}\nhost:{}\n\nhost\nUNSIGNED-PAYLOAD", self.host);
        let text = format!(
            "AWS4-HMAC-SHA256\n{second}\n{scope}\n{}",
            hex::encode(Sha256::digest(request.as_bytes()))
        );
        let steps = [day.as_str(), self.region.as_str(), "s3", "aws4_request", text.as_str()];
        let signature = steps
            .iter()
            .fold(format!("AWS4{}", self.secret_access_key).into_bytes(), |key, step| signed(&key, step));
        format!("https://{}{path}?{query}&X-Amz-Signature={}", self.host, hex::encode(signature))
    }
}

fn signed(key: &[u8], text: &str) -> Vec<u8> {
    // Infallible: HMAC accepts keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Signature Version 4 leaves letters, digits and `-_.~` unescaped.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// In a path, slashes stay unescaped too.
const PATH: &AsciiSet = &COMPONENT.remove(b'/');

fn encoded(text: &str, path: bool) -> String {
    utf8_percent_encode(text, if path { PATH } else { COMPONENT }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in "Authenticating Requests: Using Query Parameters" of Amazon S3's API reference, with
    /// its example credentials.
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
        let url = signer.url("users/auth0|ä b/2024/03/09/i-1.jpg", midnight(), DEFAULT_TTL_SECONDS);
        assert!(
            url.starts_with(
                "https://examplebucket.s3.amazonaws.com/users/auth0%7C%C3%A4%20b/2024/03/09/i-1.jpg?"
            ),
            "{url}"
        );
        assert!(
            url.contains("&X-Amz-Expires=600&X-Amz-Security-Token=a%2Bb%2Fc%3D&X-Amz-SignedHeaders=host&"),
            "{url}"
        );
    }

    #[test]
    fn what_is_logged_of_a_signer_has_no_secrets() {
        let shown = format!("{:?}", Signer { session_token: Some("token".into()), ..example() });
        assert_eq!(shown, r#"Signer { host: "examplebucket.s3.amazonaws.com", region: "us-east-1", .. }"#);
    }
}
