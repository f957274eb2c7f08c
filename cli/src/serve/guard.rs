//! Who may speak to the server: whoever has its token, or has signed in with it; and, where there is none, programs on this machine, and no web page that a
//! browser has open.

use dues_events::Time;
use dues_processors::api::Response;
use hyper::Method;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use super::session::Sessions;
use super::tries::Tries;
use crate::args::Serve;
use crate::output::Error;

/// A shorter token could be guessed.
const SHORTEST: usize = 16;

/// Whom to let in.
pub(super) enum Door {
    /// Programs on this machine.
    Local,
    /// Whoever has the token.
    Token(Lock),
}

/// What the token opens.
pub(super) struct Lock {
    token: Vec<u8>,
    pub(super) sessions: Sessions,
    pub(super) tries: Tries,
}

impl Lock {
    pub(super) fn new(token: &str) -> Self {
        let token = token.as_bytes().to_vec();
        Self { sessions: Sessions::new(&token), token, tries: Tries::default() }
    }

    /// Whether that is the token.
    pub(super) fn opens(&self, given: &[u8]) -> bool {
        same(given, &self.token)
    }
}

/// Who was let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    /// With the token, or from this machine where there is none.
    Program,
    /// Somebody who has signed in.
    Browser,
}

impl Door {
    /// With the token that was given, if one was.
    pub(super) fn new(args: &Serve) -> Result<Self, Error> {
        let token = match (&args.token_file, &args.token) {
            (Some(_), Some(_)) => return Err(Error::Said("--token-file and DUES_TOKEN are both given: which is the token?".to_owned())),
            (Some(file), None) => Some(read_token(file)?),
            (None, given) => given.clone(),
        };
        match token.as_deref().map(str::trim) {
            None => Ok(Self::Local),
            Some(token) if token.len() < SHORTEST => Err(Error::Said(format!("the token has fewer than {SHORTEST} characters"))),
            Some(token) => Ok(Self::Token(Lock::new(token))),
        }
    }

    /// The address to listen on: this machine's own, unless a token is asked for.
    pub(super) fn address(&self, host: &str) -> Result<IpAddr, Error> {
        let address = match host {
            "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            _ => host.parse::<IpAddr>(),
        };
        match (address, self) {
            (Ok(address), Self::Token(_)) => Ok(address),
            (Ok(address), Self::Local) if address.is_loopback() => Ok(address),
            (Ok(_), Self::Local) => Err(Error::Said(format!(
                "--host {host}: anybody who reaches that address could collect and cancel; give a token (--token-file or DUES_TOKEN), or serve on 127.0.0.1"
            ))),
            (Err(_), _) => Err(Error::Said(format!("--host {host}: not an IP address; serve on 127.0.0.1"))),
        }
    }

    /// Whether to answer a request, and whose it is.
    pub(super) fn let_in(&self, head: &Parts, now: Time) -> Result<Came, Response> {
        let (headers, reads) = (&head.headers, matches!(head.method, Method::GET | Method::HEAD));
        let Self::Token(lock) = self else {
            return local(headers).map(|()| Came::Program).map_err(|why| Response::error(403, "not_local", why));
        };
        match headers.get(AUTHORIZATION).map(|given| given.as_bytes().split_at_checked(BEARER.len())) {
            Some(Some((scheme, given))) if scheme.eq_ignore_ascii_case(BEARER) && lock.opens(given.trim_ascii()) => Ok(Came::Program),
            Some(_) => Err(Response::error(401, "wrong_token", "that is not the token")),
            // A browser sends its cookie also for a page that it should not: whatever writes has to come from a page of ours.
            None if lock.sessions.holds(headers, now) => match reads || is_of_own_page(headers) {
                true => Ok(Came::Browser),
                false => {
                    Err(Response::error(403, "another_site", "with a cookie, commands come from a page of this site, or with the token"))
                }
            },
            None => Err(Response::error(401, "no_token", "send the token: Authorization: Bearer …")),
        }
    }
}

const BEARER: &[u8] = b"Bearer ";

fn read_token(file: &Path) -> Result<String, Error> {
    std::fs::read_to_string(file).map_err(|cause| Error::Io { doing: format!("read {}", file.display()), cause })
}

/// Whether two secrets are the same, in a time that does not tell how much of them is. How long the token is, is no secret.
pub(super) fn same(given: &[u8], token: &[u8]) -> bool {
    let differ = given.iter().zip(token).fold(0, |differ, (a, b)| std::hint::black_box(differ | (a ^ b)));
    given.len() == token.len() && differ == 0
}

/// Whether the request came through TLS, as whoever ends that says.
pub(super) fn is_secure(headers: &HeaderMap) -> bool {
    headers.get("x-forwarded-proto").is_some_and(|scheme| scheme.as_bytes().eq_ignore_ascii_case(b"https"))
}

/// Whether the request says that a page of this site has sent it.
fn is_of_own_page(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let (Some(host), Some(origin)) = (text(HOST), text(ORIGIN)) else { return false };
    // Whoever ends TLS need not say so: then the page may have come either way.
    let plain = origin.strip_prefix("http://").filter(|_| !is_secure(headers));
    origin.strip_prefix("https://").or(plain).is_some_and(|page| page.eq_ignore_ascii_case(host))
}

/// Whether it says that another page has.
pub(super) fn is_of_another_page(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN) && !is_of_own_page(headers)
}

/// Whether a command comes from this machine. A browser sends commands for any page that asks it to, and names the page; a page whose
/// name was made to point here names itself as the host.
fn local(headers: &HeaderMap) -> Result<(), &'static str> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text(HOST).filter(|host| is_loopback(host)).ok_or("the host of a command is localhost or a loopback address")?;
    match text(ORIGIN) {
        Some(origin) if origin.strip_prefix("http://") != Some(host) => Err("a page of another site may not send commands"),
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
    use hyper::header::{COOKIE, HeaderName};

    const NOW: Time = Time::UNIX_EPOCH;

    fn head(method: Method, headers: &[(HeaderName, Option<&str>)]) -> Parts {
        let mut head = hyper::Request::builder().method(method).body(()).unwrap().into_parts().0;
        head.headers = headers.iter().filter_map(|(name, value)| Some((name.clone(), (*value)?.parse().unwrap()))).collect();
        head
    }

    #[test]
    fn with_a_cookie_one_may_read_and_write_from_our_own_pages() {
        let lock = Lock::new("0123456789abcdef");
        let cookie = lock.sessions.begin(NOW, false).unwrap().to_str().unwrap().split(';').next().unwrap().to_owned();
        let door = Door::Token(lock);
        let ask = |method: &Method, cookie: &str, origin: Option<&str>, proto: Option<&str>, given: Option<&str>| {
            let forwarded = HeaderName::from_static("x-forwarded-proto");
            let host = Some("dues.example:8787");
            let headers = [(COOKIE, Some(cookie)), (HOST, host), (ORIGIN, origin), (forwarded, proto), (AUTHORIZATION, given)];
            let answer = door.let_in(&head(method.clone(), &headers), NOW);
            answer.map_err(|refused| (refused.status, refused.body["error"]["code"].as_str().unwrap().to_owned()))
        };
        let another = || Err((403, "another_site".to_owned()));
        let (http, https, evil) = (Some("http://dues.example:8787"), Some("https://dues.example:8787"), Some("https://evil.example"));
        assert_eq!(ask(&Method::GET, &cookie, None, None, None), Ok(Came::Browser));
        assert_eq!(ask(&Method::HEAD, &cookie, None, None, None), Ok(Came::Browser));
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
            assert_eq!(ask(&method, &cookie, http, None, None), Ok(Came::Browser));
            assert_eq!(ask(&method, &cookie, https, None, None), Ok(Came::Browser));
            assert_eq!(ask(&method, &cookie, https, Some("https"), None), Ok(Came::Browser));
            assert_eq!(ask(&method, &cookie, http, Some("https"), None), another(), "a page that was not protected");
            for origin in [None, evil, Some("null"), Some("https://dues.example"), Some("https://dues.example:8787.evil.example"), Some("")]
            {
                assert_eq!(ask(&method, &cookie, origin, None, None), another(), "{origin:?}");
            }
        }
        // Who has the token is no browser, and comes from nowhere.
        assert_eq!(ask(&Method::POST, "", None, None, Some("Bearer 0123456789abcdef")), Ok(Came::Program));
        // A cookie does not make up for a wrong token, and one that is not ours is none.
        assert_eq!(ask(&Method::GET, &cookie, None, None, Some("Bearer x")), Err((401, "wrong_token".to_owned())));
        assert_eq!(ask(&Method::GET, &cookie.replace('a', "b"), None, None, None), Err((401, "no_token".to_owned())));
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
            assert_eq!(Door::Local.address(host).is_ok(), served, "{host}");
        }
    }

    #[test]
    fn with_a_token_other_machines_are_served_and_only_the_token_opens() {
        let token = "0123456789abcdef";
        let door = Door::Token(Lock::new(token));
        assert!(["127.0.0.1", "0.0.0.0", "::"].iter().all(|host| door.address(host).is_ok()));
        assert!(door.address("example.com").is_err());
        let status = |value: Option<&str>| {
            door.let_in(&head(Method::GET, &[(AUTHORIZATION, value)]), NOW).map_or_else(|refused| refused.status, |_| 200)
        };
        assert_eq!(status(Some(&format!("Bearer {token}"))), 200);
        assert_eq!(status(Some(&format!("bearer  {token}"))), 200);
        for wrong in [None, Some(token), Some("Bearer"), Some("Bearer "), Some("Bearer 0123456789abcdeg"), Some("Bearer 0123456789abcdef0")]
        {
            assert_eq!(status(wrong), 401, "{wrong:?}");
        }
        assert_eq!(status(Some(&format!("Basic {token}"))), 401);
    }

    #[test]
    fn commands_come_from_programs_and_from_our_own_pages() {
        let local = |host: Option<&str>, origin: Option<&str>| {
            let named = [(HOST, host), (ORIGIN, origin)];
            local(&named.into_iter().filter_map(|(name, value)| Some((name, value?.parse().unwrap()))).collect()).is_ok()
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
