//! Who may speak to a server that asks nobody for a token: programs on this machine, and no web page that a browser has open.

use hyper::header::{HOST, HeaderMap, ORIGIN};
use hyper::http::uri::Authority;
use std::net::{IpAddr, Ipv4Addr};

use crate::output::Error;

/// The address to listen on, which has to be this machine's own.
pub(super) fn loopback(host: &str) -> Result<IpAddr, Error> {
    let address = match host {
        "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        _ => host.parse::<IpAddr>(),
    };
    match address {
        Ok(address) if address.is_loopback() => Ok(address),
        Ok(_) => Err(Error::Said(format!(
            "--host {host}: anybody who reaches that address could collect and cancel, because requests carry no token yet; serve on 127.0.0.1"
        ))),
        Err(_) => Err(Error::Said(format!("--host {host}: not an IP address; serve on 127.0.0.1"))),
    }
}

/// Whether a command comes from this machine. A browser sends commands for any page that asks it to, and names the page; a page whose
/// name was made to point here names itself as the host.
pub(super) fn local(headers: &HeaderMap) -> Result<(), &'static str> {
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
            assert_eq!(loopback(host).is_ok(), served, "{host}");
        }
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
