//! The page that asks for the token, where one is needed.

use http_body_util::Full;
use hyper::StatusCode;
use hyper::body::Bytes;

use super::live::Body;
use super::page::{answer_with, head};

/// Where it is, and where its opposite is.
pub(crate) const SIGN_IN: &str = "/console/sign-in";
pub(crate) const SIGN_OUT: &str = "/console/sign-out";

/// Asks for the token, leads on to that path, and says why it asks again.
pub(crate) fn sign_in(status: StatusCode, next: &str, said: Option<&str>) -> hyper::Response<Body> {
    let mut page = head("Sign in");
    page.put(
        "</head><body class=\"alone\"><main><p class=\"brand\">dues</p><h1>Sign in</h1><p class=\"lead\">This console needs the token that \
         <code>dues serve</code> was started with.</p>",
        &[],
    );
    if let Some(said) = said {
        page.put("<p class=\"note bad\" id=\"told\" role=\"alert\">{}</p>", &[&said]);
    }
    page.put(
        "<form method=\"post\" action=\"{}\"><input type=\"hidden\" name=\"next\" value=\"{}\"><label for=\"token\">Token</label>\
         <input id=\"token\" name=\"token\" type=\"password\" required autofocus autocomplete=\"current-password\" autocapitalize=\"none\" \
         spellcheck=\"false\" maxlength=\"4096\"><button>Sign in</button></form>\
         <p class=\"small\">It lasts twelve hours, in this browser. Signed in already, and come by a link from elsewhere? \
         <a href=\"{}\">Go on</a>.</p></main></body></html>\n",
        &[&SIGN_IN, &next, &next],
    );
    answer_with(status, "text/html; charset=utf-8", Full::new(Bytes::from(page.into_string())))
}
