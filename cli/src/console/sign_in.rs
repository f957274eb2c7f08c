//! The sign-in page, for servers that require a token.

use axum::http::StatusCode;
use axum::response::Response;
use maud::html;

use super::page::html_response;

/// The path of the sign-in form.
pub(crate) const SIGN_IN: &str = "/console/sign-in";
/// The path that ends a session.
pub(crate) const SIGN_OUT: &str = "/console/sign-out";

/// The form; after signing in the browser continues at `next`. `error` says why the last attempt failed.
pub(crate) fn sign_in_page(status: StatusCode, next: &str, error: Option<&str>) -> Response {
    let body = html! {
        body.alone {
            main {
                p.brand { "dues" }
                h1 { "Sign in" }
                p.lead { "This console requires the token that " code { "dues serve" } " was started with." }
                @if let Some(error) = error {
                    p.note.bad id="result" role="alert" { (error) }
                }
                form method="post" action=(SIGN_IN) {
                    input type="hidden" name="next" value=(next);
                    label for="token" { "Token" }
                    input id="token" name="token" type="password" required autofocus
                        autocomplete="current-password" autocapitalize="none" spellcheck="false"
                        maxlength="4096";
                    button { "Sign in" }
                }
                p.small {
                    "A session lasts twelve hours in this browser. Already signed in, and followed a link \
                     from another site? "
                    a href=(next) { "Continue" } "."
                }
            }
        }
    };
    html_response(status, "Sign in", false, &body)
}
