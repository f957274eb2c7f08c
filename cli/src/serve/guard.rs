//! Who may speak to the server: whoever has its token; and, where it has none, programs on this machine, and no web page that a browser has open.

use dues_processors::api::Response;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use hyper::http::uri::Authority;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use crate::args::Serve;
use crate::output::Error;

/// A shorter token could be guessed.
const SHORTEST: usize = 16;

/// Whom to let in.
pub(super) enum Door {
    /// Programs on this machine.
    Local,
    /// Whoever has this token.
    Token(Vec<u8>),
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
            Some(token) => Ok(Self::Token(token.as_bytes().to_vec())),
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

    /// Whether to answer a request.
    pub(super) fn let_in(&self, headers: &HeaderMap) -> Result<(), Response> {
        let Self::Token(token) = self else {
            return local(headers).map_err(|why| Response::error(403, "not_local", why));
        };
        let given =
            headers.get(AUTHORIZATION).ok_or_else(|| Response::error(401, "no_token", "send the token: Authorization: Bearer …"))?;
        match given.as_bytes().split_at_checked(BEARER.len()) {
            Some((scheme, given)) if scheme.eq_ignore_ascii_case(BEARER) && same(given.trim_ascii(), token) => Ok(()),
            Some(_) | None => Err(Response::error(401, "wrong_token", "that is not the token")),
        }
    }
}

const BEARER: &[u8] = b"Bearer ";

fn read_token(file: &Path) -> Result<String, Error> {
    std::fs::read_to_string(file).map_err(|cause| Error::Io { doing: format!("read {}", file.display()), cause })
}

/// Whether two secrets are the same, in a time that does not tell how much of them is. How long the token is, is no secret.
fn same(given: &[u8], token: &[u8]) -> bool {
    let differ = given.iter().zip(token).fold(0, |differ, (a, b)| std::hint::black_box(differ | (a ^ b)));
    given.len() == token.len() && differ == 0
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
        let door = Door::Token(token.as_bytes().to_vec());
        assert!(["127.0.0.1", "0.0.0.0", "::"].iter().all(|host| door.address(host).is_ok()));
        assert!(door.address("example.com").is_err());
        let status = |value: Option<&str>| {
            let named = value.map(|value| (AUTHORIZATION, value.parse().unwrap()));
            door.let_in(&named.into_iter().collect()).map_or_else(|refused| refused.status, |()| 200)
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
