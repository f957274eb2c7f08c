//! Console sign-in. Browsers cannot send the token with every request, so a form exchanges it for a session
//! cookie.

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, HeaderMap, HeaderValue, RETRY_AFTER, SET_COOKIE, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::Response as Answer;
use dues_processors::api::Response;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::app::{App, ClientAddress, closing, known, template, written};
use super::auth::{Auth, Caller, TokenAuth, is_of_another_page, is_secure};
use super::session;
use crate::console::{self, Query, SIGN_IN, SIGN_OUT};

/// Serves the sign-in and sign-out paths of a server with a token.
pub(super) async fn sign_in_or_out(
    State(app): State<Arc<App>>,
    Extension(ClientAddress(from)): Extension<ClientAddress>,
    request: Request,
) -> Answer {
    let (head, body) = request.into_parts();
    match &app.auth {
        Auth::Token(token) => app.sign_in_or_out(token, &head, body, from).await,
        Auth::Local => written(Response::error(404, "no_such_path", "this server has no token")),
    }
}

/// Delay of the response to a wrong token.
const DELAY: Duration = Duration::from_millis(500);
/// Maximum size of the form body in bytes.
const LARGEST: usize = 8 * 1024;

impl App {
    /// Authenticates a request. A browser without a session is redirected to the sign-in page.
    pub(super) fn authenticate(&self, head: &Parts, from: IpAddr) -> Result<Caller, Box<Answer>> {
        let path = head.uri.path();
        let refused = match self.auth.authenticate(head, self.store.clock.now()) {
            Ok(caller) => return Ok(caller),
            // The sign-in page needs its assets before authentication; they contain no data.
            Err(_) if matches!(self.auth, Auth::Token(_)) && console::is_public(path) => {
                return Ok(Caller::Program);
            }
            Err(refused) => refused,
        };
        let code = refused.body["error"]["code"].as_str();
        if code == Some("no_token") && console::is_console_path(path) && wants_page(&head.headers) {
            tracing::debug!(%from, "sent to the sign-in page");
            return Err(Box::new(closing(console::redirect(&way_in(head)))));
        }
        // Never log the rejected credentials.
        tracing::warn!(%from, method = known(&head.method), route = template(path), status = refused.status,
            code, "request rejected");
        Err(Box::new(closing(written(refused))))
    }

    async fn sign_in_or_out(&self, token: &TokenAuth, head: &Parts, body: Body, from: IpAddr) -> Answer {
        let (path, reads) = (head.uri.path(), matches!(head.method, Method::GET | Method::HEAD));
        if reads && path == SIGN_IN {
            let query = Query::parse(head.uri.query().unwrap_or_default());
            let next = local(query.get("next"));
            let known = token.sessions.holds(&head.headers, self.store.clock.now());
            return if known {
                console::redirect(next)
            } else {
                console::sign_in_page(StatusCode::OK, next, None)
            };
        }
        if head.method != Method::POST {
            return closing(written(Response::not_allowed(if path == SIGN_IN {
                "GET, POST"
            } else {
                "POST"
            })));
        }
        if is_of_another_page(&head.headers) {
            return closing(written(Response::error(
                403,
                "another_site",
                "a page of another site may not sign in or out",
            )));
        }
        if path == SIGN_OUT {
            tracing::info!(%from, "signed out of the console");
            return with_cookie(console::redirect(SIGN_IN), session::end(is_secure(&head.headers)));
        }
        let too_large = || Response::error(413, "too_large", format!("the most is {LARGEST} bytes"));
        match self.read(body, LARGEST, too_large).await {
            Ok(form) => self.sign_in(token, &head.headers, &String::from_utf8_lossy(&form), from).await,
            Err(refused) => closing(written(refused)),
        }
    }

    async fn sign_in(&self, token: &TokenAuth, headers: &HeaderMap, form: &str, from: IpAddr) -> Answer {
        let form = Query::parse(form);
        let next = local(form.get("next"));
        if let Err(pause) = token.rate_limit.take(from, self.store.clock.uptime()) {
            let seconds = pause.as_secs().max(1);
            tracing::warn!(%from, seconds, "too many wrong tokens");
            let said = format!("There were too many wrong tokens. Try again in {seconds} seconds.");
            let mut answer = console::sign_in_page(StatusCode::TOO_MANY_REQUESTS, next, Some(&said));
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
            return answer;
        }
        if !token.accepts(form.get("token").unwrap_or_default().as_bytes()) {
            tracing::warn!(%from, "a wrong token was given to sign in");
            self.store.clock.sleep(DELAY).await;
            let said = "Wrong token. It is the one that dues serve was started with.";
            let mut answer = console::sign_in_page(StatusCode::UNAUTHORIZED, next, Some(said));
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return answer;
        }
        token.rate_limit.forget(from);
        tracing::info!(%from, "signed in to the console");
        with_cookie(console::redirect(next), token.sessions.begin(self.store.clock.now(), is_secure(headers)))
    }
}

fn with_cookie(mut answer: Answer, cookie: Option<HeaderValue>) -> Answer {
    if let Some(cookie) = cookie {
        answer.headers_mut().insert(SET_COOKIE, cookie);
    }
    answer
}

/// Whether a browser navigates to a page; programs and scripts get a status instead.
fn wants_page(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.contains("text/html"))
}

/// The sign-in path, with the requested page as `next`. After a button press it is the page with the button.
fn way_in(head: &Parts) -> String {
    let asked = head.uri.path_and_query().map_or("/", |asked| asked.as_str());
    let next = if matches!(head.method, Method::GET | Method::HEAD) { asked } else { "/console/parked" };
    format!("{SIGN_IN}?next={}", console::percent_encode(next))
}

/// `next` if it is a console path, else `/`. Browsers read a backslash as a slash and skip tabs and line
/// ends, so `/\evil.example` would redirect to another site like `//evil.example`.
fn local(next: Option<&str>) -> &str {
    let is_local = |next: &&str| {
        let path = next.split(['?', '#']).next().unwrap_or_default();
        let plain = next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
        plain && console::is_console_path(path) && ![SIGN_IN, SIGN_OUT, "/events"].contains(&path)
    };
    next.filter(is_local).unwrap_or("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_the_console_are_led_to() {
        for there in [
            "/",
            "/?at=2026-02-01",
            "/console/members/auth0%7Cu-1?at=2026-02-01T00:00:00Z",
            "/console/parked?stream=a#result",
        ] {
            assert_eq!(local(Some(there)), there);
        }
        for elsewhere in [
            "//evil.example",
            "///evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "/\t/evil.example",
            "/console/\\..\\..\\evil",
            "https://evil.example/",
            "javascript:alert(1)",
            "console/parked",
            "/u-1/subscriptions",
            "/console/sign-in?next=/",
            "/console/sign-out",
            "/events",
            "/console/members/ü",
            "",
        ] {
            assert_eq!(local(Some(elsewhere)), "/", "{elsewhere}");
        }
        assert_eq!(local(None), "/");
    }
}
