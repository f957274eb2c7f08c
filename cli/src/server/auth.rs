//! Authentication: the bearer token or a session. Without a token the server answers only programs on this
//! machine, and rejects requests from web pages of other sites.

use axum::http::Method;
use axum::http::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use dues_events::Time;
use dues_processors::api::Response;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use subtle::ConstantTimeEq as _;

use super::login_rate_limit::LoginRateLimit;
use super::session::Sessions;
use crate::args::ServeArgs;
use crate::output::Error;

/// Minimum token length in bytes: a shorter one could be guessed.
const SHORTEST: usize = 16;

/// How requests are authenticated.
pub(crate) enum Auth {
    /// No token: only programs on this machine.
    Local,
    /// By token, or by a session that was started with it.
    Token(TokenAuth),
}

/// The token, its sessions, and the limit of sign-in attempts.
pub(crate) struct TokenAuth {
    token: Vec<u8>,
    pub(super) sessions: Sessions,
    pub(super) rate_limit: LoginRateLimit,
}

impl TokenAuth {
    pub(super) fn new(token: &str) -> Self {
        let token = token.as_bytes().to_vec();
        Self { sessions: Sessions::new(&token), token, rate_limit: LoginRateLimit::default() }
    }

    /// Whether `given` is the token.
    pub(super) fn accepts(&self, given: &[u8]) -> bool {
        secrets_match(given, &self.token)
    }
}

/// An authenticated caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// A program with the token, or on this machine if the server has none.
    Program,
    /// A browser with a session.
    Browser,
}

impl Caller {
    /// The name of the actor in history. One token is one identity.
    pub(super) fn actor(self) -> &'static str {
        match self {
            Self::Program => "api",
            Self::Browser => "console",
        }
    }
}

impl Auth {
    /// Reads the token from its file or the environment, if there is one.
    pub(crate) fn new(args: &ServeArgs) -> Result<Self, Error> {
        let token = match (&args.token_file, &args.token) {
            (Some(_), Some(_)) => {
                return Err(Error::Message(
                    "--token-file and DUES_TOKEN are both given: which is the token?".to_owned(),
                ));
            }
            (Some(file), None) => Some(read_token(file)?),
            (None, given) => given.clone(),
        };
        match token.as_deref().map(str::trim) {
            None => Ok(Self::Local),
            Some(token) if token.len() < SHORTEST => {
                Err(Error::Message(format!("the token has fewer than {SHORTEST} characters")))
            }
            Some(token) => Ok(Self::Token(TokenAuth::new(token))),
        }
    }

    /// The address to listen on. Without a token it must be a loopback address.
    pub(crate) fn address(&self, host: &str) -> Result<IpAddr, Error> {
        let address = match host {
            "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            _ => host.parse::<IpAddr>(),
        };
        match (address, self) {
            (Ok(address), Self::Token(_)) => Ok(address),
            (Ok(address), Self::Local) if address.is_loopback() => Ok(address),
            (Ok(_), Self::Local) => Err(Error::Message(format!(
                "--host {host}: anybody who reaches that address could collect and cancel; give a token \
                    (--token-file or DUES_TOKEN), or serve on 127.0.0.1"
            ))),
            (Err(_), _) => {
                Err(Error::Message(format!("--host {host}: not an IP address; serve on 127.0.0.1")))
            }
        }
    }

    /// Authenticates a request.
    pub(super) fn authenticate(&self, head: &Parts, now: Time) -> Result<Caller, Response> {
        let (headers, reads) = (&head.headers, matches!(head.method, Method::GET | Method::HEAD));
        let Self::Token(token) = self else {
            return local(headers)
                .map(|()| Caller::Program)
                .map_err(|why| Response::error(403, "not_local", why));
        };
        match headers.get(AUTHORIZATION).map(|given| given.as_bytes().split_at_checked(BEARER.len())) {
            Some(Some((scheme, given)))
                if scheme.eq_ignore_ascii_case(BEARER) && token.accepts(given.trim_ascii()) =>
            {
                Ok(Caller::Program)
            }
            Some(_) => Err(Response::error(401, "wrong_token", "that is not the token")),
            // Browsers attach the cookie to cross-site requests too: writes must come from a page of this
            // site.
            None if token.sessions.holds(headers, now) => match reads || is_of_own_page(headers) {
                true => Ok(Caller::Browser),
                false => Err(Response::error(
                    403,
                    "another_site",
                    "with a cookie, commands come from a page of this site, or with the token",
                )),
            },
            None => Err(Response::error(401, "no_token", "send the token: Authorization: Bearer …")),
        }
    }
}

const BEARER: &[u8] = b"Bearer ";

fn read_token(file: &Path) -> Result<String, Error> {
    std::fs::read_to_string(file)
        .map_err(|cause| Error::Io { doing: format!("read {}", file.display()), cause })
}

/// Compares secrets in constant time. The token's length is not secret.
pub(super) fn secrets_match(given: &[u8], token: &[u8]) -> bool {
    given.ct_eq(token).into()
}

/// Whether the request came over TLS, according to the proxy that terminates it.
pub(super) fn is_secure(headers: &HeaderMap) -> bool {
    headers.get("x-forwarded-proto").is_some_and(|scheme| scheme.as_bytes().eq_ignore_ascii_case(b"https"))
}

/// Whether the request's `Origin` is this site.
fn is_of_own_page(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let (Some(host), Some(origin)) = (text(HOST), text(ORIGIN)) else { return false };
    // The proxy may not send `x-forwarded-proto`: then accept either scheme.
    let plain = origin.strip_prefix("http://").filter(|_| !is_secure(headers));
    origin.strip_prefix("https://").or(plain).is_some_and(|page| page.eq_ignore_ascii_case(host))
}

/// Whether the request's `Origin` is another site.
pub(super) fn is_of_another_page(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN) && !is_of_own_page(headers)
}

/// Accepts requests to a loopback host that do not come from a web page of another site. Browsers send such
/// a page's name as `Origin`; a page that uses DNS rebinding sends its own name as `Host`.
fn local(headers: &HeaderMap) -> Result<(), &'static str> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text(HOST)
        .filter(|host| is_loopback(host))
        .ok_or("the host of a command is localhost or a loopback address")?;
    match text(ORIGIN) {
        Some(origin) if origin.strip_prefix("http://") != Some(host) => {
            Err("a page of another site may not send commands")
        }
        Some(_) | None => Ok(()),
    }
}

fn is_loopback(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::header::{COOKIE, HeaderName};

    const NOW: Time = Time::UNIX_EPOCH;

    fn head(method: Method, headers: &[(HeaderName, Option<&str>)]) -> Parts {
        let mut head = axum::http::Request::builder().method(method).body(()).unwrap().into_parts().0;
        head.headers = headers
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), (*value)?.parse().unwrap())))
            .collect();
        head
    }

    #[test]
    fn with_a_cookie_one_may_read_and_write_from_our_own_pages() {
        let token = TokenAuth::new("0123456789abcdef");
        let cookie =
            token.sessions.begin(NOW, false).unwrap().to_str().unwrap().split(';').next().unwrap().to_owned();
        let auth = Auth::Token(token);
        let ask = |method: &Method,
                   cookie: &str,
                   origin: Option<&str>,
                   proto: Option<&str>,
                   given: Option<&str>| {
            let forwarded = HeaderName::from_static("x-forwarded-proto");
            let host = Some("dues.example:8787");
            let headers = [
                (COOKIE, Some(cookie)),
                (HOST, host),
                (ORIGIN, origin),
                (forwarded, proto),
                (AUTHORIZATION, given),
            ];
            let answer = auth.authenticate(&head(method.clone(), &headers), NOW);
            answer.map_err(|refused| {
                (refused.status, refused.body["error"]["code"].as_str().unwrap().to_owned())
            })
        };
        let another = || Err((403, "another_site".to_owned()));
        let (http, https, evil) = (
            Some("http://dues.example:8787"),
            Some("https://dues.example:8787"),
            Some("https://evil.example"),
        );
        assert_eq!(ask(&Method::GET, &cookie, None, None, None), Ok(Caller::Browser));
        assert_eq!(ask(&Method::HEAD, &cookie, None, None, None), Ok(Caller::Browser));
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
            assert_eq!(ask(&method, &cookie, http, None, None), Ok(Caller::Browser));
            assert_eq!(ask(&method, &cookie, https, None, None), Ok(Caller::Browser));
            assert_eq!(ask(&method, &cookie, https, Some("https"), None), Ok(Caller::Browser));
            assert_eq!(
                ask(&method, &cookie, http, Some("https"), None),
                another(),
                "a page that was not protected"
            );
            for origin in [
                None,
                evil,
                Some("null"),
                Some("https://dues.example"),
                Some("https://dues.example:8787.evil.example"),
                Some(""),
            ] {
                assert_eq!(ask(&method, &cookie, origin, None, None), another(), "{origin:?}");
            }
        }
        // A request with the token is not from a browser and needs no `Origin`.
        assert_eq!(ask(&Method::POST, "", None, None, Some("Bearer 0123456789abcdef")), Ok(Caller::Program));
        // A cookie does not outweigh a wrong token, and a foreign cookie is ignored.
        assert_eq!(
            ask(&Method::GET, &cookie, None, None, Some("Bearer x")),
            Err((401, "wrong_token".to_owned()))
        );
        assert_eq!(
            ask(&Method::GET, &cookie.replace('a', "b"), None, None, None),
            Err((401, "no_token".to_owned()))
        );
    }

    #[test]
    fn only_this_machine_is_served() {
        for (host, served) in [
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("::1", true),
            ("localhost", true),
            ("0.0.0.0", false),
            ("::", false),
            ("192.168.1.2", false),
            ("::ffff:127.0.0.1", false),
            ("example.com", false),
            ("", false),
        ] {
            assert_eq!(Auth::Local.address(host).is_ok(), served, "{host}");
        }
    }

    #[test]
    fn with_a_token_other_machines_are_served_and_only_the_token_opens() {
        let token = "0123456789abcdef";
        let auth = Auth::Token(TokenAuth::new(token));
        assert!(["127.0.0.1", "0.0.0.0", "::"].iter().all(|host| auth.address(host).is_ok()));
        assert!(auth.address("example.com").is_err());
        let status = |value: Option<&str>| {
            auth.authenticate(&head(Method::GET, &[(AUTHORIZATION, value)]), NOW)
                .map_or_else(|refused| refused.status, |_| 200)
        };
        assert_eq!(status(Some(&format!("Bearer {token}"))), 200);
        assert_eq!(status(Some(&format!("bearer  {token}"))), 200);
        for wrong in [
            None,
            Some(token),
            Some("Bearer"),
            Some("Bearer "),
            Some("Bearer 0123456789abcdeg"),
            Some("Bearer 0123456789abcdef0"),
        ] {
            assert_eq!(status(wrong), 401, "{wrong:?}");
        }
        assert_eq!(status(Some(&format!("Basic {token}"))), 401);
    }

    #[test]
    fn commands_come_from_programs_and_from_our_own_pages() {
        let local = |host: Option<&str>, origin: Option<&str>| {
            let named = [(HOST, host), (ORIGIN, origin)];
            local(
                &named
                    .into_iter()
                    .filter_map(|(name, value)| Some((name, value?.parse().unwrap())))
                    .collect(),
            )
            .is_ok()
        };
        for (host, origin, believed) in [
            (Some("127.0.0.1:8787"), None, true),
            (Some("localhost:8787"), None, true),
            (Some("[::1]:8787"), None, true),
            (Some("127.0.0.1"), Some("http://127.0.0.1"), true),
            (Some("localhost:8787"), Some("http://localhost:8787"), true),
            (Some("localhost:8787"), Some("http://localhost:9999"), false),
            (Some("localhost:8787"), Some("https://evil.example"), false),
            (Some("localhost:8787"), Some("null"), false),
            (Some("evil.example:8787"), Some("http://evil.example:8787"), false),
            (Some("evil.example@localhost"), Some("http://evil.example"), false),
            (Some("localhost.evil.example"), None, false),
            (Some(""), None, false),
            (None, None, false),
        ] {
            assert_eq!(local(host, origin), believed, "{host:?} {origin:?}");
        }
    }
}
