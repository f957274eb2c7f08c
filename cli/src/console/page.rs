//! The frame of every page, and the headers that keep it safe.

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::Response;
use maud::{DOCTYPE, Markup, html};

use super::sign_in::SIGN_OUT;
use crate::output::{Error, grouped};

/// No third-party content, no inline scripts, no framing by other sites.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// The menu entry a page belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MenuItem {
    Overview,
    Calendar,
    Money,
    Parked,
    None,
}

/// What waits for an operator, next to the menu's entries.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MenuCounts {
    pub(super) unapplied_money: u64,
    pub(super) parked: u64,
}

/// A page, without its frame.
pub(super) struct Page {
    pub(super) status: StatusCode,
    pub(super) title: String,
    pub(super) menu: MenuItem,
    /// The text in the search field.
    pub(super) query: String,
    pub(super) body: Markup,
}

impl Page {
    pub(super) fn new(title: impl Into<String>, menu: MenuItem, body: Markup) -> Self {
        Self { status: StatusCode::OK, title: title.into(), menu, query: String::new(), body }
    }

    /// The whole document with its headers; sessions get a sign-out button.
    pub(super) fn response(self, counts: MenuCounts, signed_in: bool) -> Response {
        let menu = [
            (MenuItem::Overview, "/", "Overview", None),
            (MenuItem::Calendar, "/console/calendar", "Calendar", None),
            (MenuItem::Money, "/console/money", "Money", Some(("unapplied_money", counts.unapplied_money))),
            (MenuItem::Parked, "/console/parked", "Parked", Some(("parked", counts.parked))),
        ];
        let body = html! {
            body {
                a.skip href="#main" { "Skip to content" }
                header.top {
                    a.brand href="/" aria-label="dues, overview" { "dues" }
                    nav aria-label="Console" {
                        ul {
                            @for (item, path, name, count) in menu {
                                li {
                                    @let current = if item == self.menu { "page" } else { "false" };
                                    a href=(path) aria-current=(current) {
                                        (name)
                                        @if let Some((key, count)) = count {
                                            " "
                                            span.badge.none[count == 0] data-live=(key) { (grouped(count)) }
                                        }
                                    }
                                }
                            }
                        }
                    }
                    form.search role="search" action="/console/search" {
                        label.quiet for="q" { "Search" }
                        input id="q" name="q" type="search" value=(self.query) autocomplete="off"
                            placeholder="Member, record, transaction or event id" autocapitalize="none"
                            spellcheck="false" maxlength="300" aria-keyshortcuts="/";
                        kbd aria-hidden="true" { "/" }
                    }
                    @if signed_in {
                        form.out method="post" action=(SIGN_OUT) { button { "Sign out" } }
                    }
                }
                main id="main" tabindex="-1" { (self.body) }
                footer {
                    p {
                        "All times are UTC. Keys: " kbd { "/" } " search, " kbd { "[" } " " kbd { "]" }
                        " step through a member’s timeline."
                    }
                }
            }
        };
        html_response(self.status, &self.title, true, &body)
    }
}

/// The whole document around a `body` element, with or without the script.
pub(super) fn html_response(status: StatusCode, title: &str, script: bool, body: &Markup) -> Response {
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · dues" }
                link rel="stylesheet" href="/console/console.css";
                link rel="icon" type="image/svg+xml" href="/console/icon.svg";
                @if script { script type="module" src="/console/console.js" {} }
            }
            (body)
        }
    };
    respond(status, "text/html; charset=utf-8", printable(document))
}

/// Control characters in ids and payloads become U+FFFD: browsers would drop or misread them. maud escapes
/// the rest.
fn printable(document: Markup) -> String {
    let text = document.into_string();
    let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if text.contains(is_control) { text.replace(is_control, "\u{fffd}") } else { text }
}

/// 404, and why.
pub(super) fn not_found(why: &str) -> Page {
    let body = html! {
        h1 { "Not found" }
        p.lead { (why) }
        p { a href="/" { "Overview" } }
    };
    Page { status: StatusCode::NOT_FOUND, ..Page::new("Not found", MenuItem::None, body) }
}

/// 503: the store could not be read.
pub(super) fn unavailable(error: &Error) -> Page {
    let body = html! {
        h1 { "Page unavailable" }
        p.lead { (error) }
        p { "Nothing was changed. Reload the page, or run " code { "dues audit" } "." }
    };
    Page { status: StatusCode::SERVICE_UNAVAILABLE, ..Page::new("Unavailable", MenuItem::None, body) }
}

/// 405.
pub(super) fn not_allowed() -> Response {
    let mut response = respond(StatusCode::METHOD_NOT_ALLOWED, PLAIN_TEXT, "method not allowed\n");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

/// 303: the browser follows with a GET.
pub(crate) fn redirect(path: &str) -> Response {
    let mut response = respond(StatusCode::SEE_OTHER, PLAIN_TEXT, Body::empty());
    // Paths are percent-encoded, so they are valid header values.
    let location = HeaderValue::try_from(path).unwrap_or(HeaderValue::from_static("/"));
    response.headers_mut().insert(LOCATION, location);
    response
}

/// A response with the headers that every console response has.
pub(super) fn respond(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    for (name, value) in [
        (CONTENT_TYPE, content_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Hides paths from other sites; our own forms still send their origin, which auth requires.
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (CACHE_CONTROL, "no-store"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stay_text() {
        let id = dues_events::UserId::from("<script>alert('1')</script>\"&\u{1b}");
        let page = printable(html! { a title=(id) { (id) } });
        let safe = "&lt;script&gt;alert('1')&lt;/script&gt;&quot;&amp;\u{fffd}";
        assert_eq!(page, format!("<a title=\"{safe}\">{safe}</a>"));
    }
}
