//! The frame of every page, and the headers that keep it safe.

use http_body_util::{BodyExt as _, Full};
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};

use super::html::Html;
use super::live::Body;
use super::sign_in::SIGN_OUT;
use crate::output::{Error, grouped};

/// Nothing comes from elsewhere, nothing is written into a page by a script that is not ours, and no other page may frame this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
                      base-uri 'none'; frame-ancestors 'none'";

/// Which page of the menu one is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Overview,
    Calendar,
    Parked,
    /// None of them.
    Other,
}

/// A page.
pub(super) struct Page {
    pub(super) status: StatusCode,
    pub(super) title: String,
    pub(super) place: Place,
    /// What stands in the search field.
    pub(super) searched: String,
    pub(super) body: Html,
}

impl Page {
    pub(super) fn new(title: impl Into<String>, place: Place, body: Html) -> Self {
        Self { status: StatusCode::OK, title: title.into(), place, searched: String::new(), body }
    }

    /// Whole, with its headers; and, for a browser that has signed in, with a way out.
    pub(super) fn response(self, parked: u64, signed_in: bool) -> hyper::Response<Body> {
        let mut page = head(&self.title);
        page.put(
            "<script type=\"module\" src=\"/console/console.js\"></script></head><body>\
             <a class=\"skip\" href=\"#main\">Skip to content</a><header class=\"top\"><a class=\"brand\" href=\"/\" aria-label=\"dues, overview\">dues</a>\
             <nav aria-label=\"Console\"><ul>",
            &[],
        );
        for (place, path, name) in [
            (Place::Overview, "/", "Overview"),
            (Place::Calendar, "/console/calendar", "Calendar"),
            (Place::Parked, "/console/parked", "Parked"),
        ] {
            let here = if place == self.place { "page" } else { "false" };
            page.put("<li><a href=\"{}\" aria-current=\"{}\">{}", &[&path, &here, &name]);
            if place == Place::Parked {
                let some = if parked > 0 { "badge" } else { "badge none" };
                page.put(" <span class=\"{}\" data-live=\"parked\">{}</span>", &[&some, &grouped(parked)]);
            }
            page.put("</a></li>", &[]);
        }
        let out =
            signed_in.then(|| Html::of("<form class=\"out\" method=\"post\" action=\"{}\"><button>Sign out</button></form>", &[&SIGN_OUT]));
        page.put(
            "</ul></nav><form class=\"search\" role=\"search\" action=\"/console/search\"><label class=\"quiet\" for=\"q\">Search</label>\
             <input id=\"q\" name=\"q\" type=\"search\" value=\"{}\" placeholder=\"Member, record, transaction or event id\" autocomplete=\"off\" \
             autocapitalize=\"none\" spellcheck=\"false\" maxlength=\"300\" aria-keyshortcuts=\"/\"><kbd aria-hidden=\"true\">/</kbd></form>{}</header>\
             <main id=\"main\" tabindex=\"-1\">{}</main><footer><p>All times are UTC. Keys: <kbd>/</kbd> search, <kbd>[</kbd> <kbd>]</kbd> back and forth in a \
             member’s time.</p></footer></body></html>\n",
            &[&self.searched, &out, &self.body],
        );
        answer_with(self.status, "text/html; charset=utf-8", Full::new(Bytes::from(page.into_string())))
    }
}

/// How every page begins: up to the end of its head, which may go on.
pub(super) fn head(title: &str) -> Html {
    Html::of(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{} · dues</title><link rel=\"stylesheet\" href=\"/console/console.css\">\
         <link rel=\"icon\" type=\"image/svg+xml\" href=\"/console/icon.svg\">",
        &[&title],
    )
}

/// A page that is not there, and why.
pub(super) fn missing(why: &str) -> Page {
    let body = Html::of("<h1>Not found</h1><p class=\"lead\">{}</p><p><a href=\"/\">Overview</a></p>", &[&why]);
    Page { status: StatusCode::NOT_FOUND, ..Page::new("Not found", Place::Other, body) }
}

/// A page that could not be made.
pub(super) fn failed(why: &Error) -> Page {
    let body = Html::of(
        "<h1>This could not be read</h1><p class=\"lead\">{}</p><p>Nothing was changed. Load the page again, or run <code>dues audit</code>.</p>",
        &[&why.to_string()],
    );
    Page { status: StatusCode::SERVICE_UNAVAILABLE, ..Page::new("Not readable", Place::Other, body) }
}

/// The answer to a method that a path does not take.
pub(super) fn not_allowed() -> hyper::Response<Body> {
    let mut answer =
        answer_with(StatusCode::METHOD_NOT_ALLOWED, "text/plain; charset=utf-8", Full::new(Bytes::from_static(b"not allowed here\n")));
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    answer
}

/// Sends a browser on, with a GET.
pub(crate) fn redirect(path: &str) -> hyper::Response<Body> {
    let mut answer = answer_with(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", Full::new(Bytes::new()));
    // Paths are percent-encoded here, so they are plain text.
    answer.headers_mut().insert(LOCATION, HeaderValue::try_from(path).unwrap_or(HeaderValue::from_static("/")));
    answer
}

/// An answer that is there whole.
pub(super) fn answer_with(status: StatusCode, kind: &'static str, body: Full<Bytes>) -> hyper::Response<Body> {
    headed(status, kind, body.boxed_unsync())
}

/// An answer with the headers that all of them have.
pub(super) fn headed(status: StatusCode, kind: &'static str, body: Body) -> hyper::Response<Body> {
    let mut answer = hyper::Response::new(body);
    *answer.status_mut() = status;
    for (name, value) in [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Other sites are not told what was looked at. Our own forms name their origin: the guard asks for it.
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (CACHE_CONTROL, "no-store"),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}
