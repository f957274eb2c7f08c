//! Refunds on the wire.

use dues_events::RefundKey;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::{CURRENCY, Reply, Resource, confirmation, decode_response, redact, without_answer};
use crate::collections::gateway::{Refund, RefundAnswer};

/// Refunds. A rejected submission that the service has never seen is refused: no record depends on it, and an
/// operator has to see why.
pub(in super::super) const REFUNDS: Resource<RefundAnswer> = Resource {
    path: "refunds",
    decode_submit,
    decode_lookup,
    refusal: Some(|reason| RefundAnswer::Refused { reason }),
};

/// The body of a submission.
pub(in super::super) fn encode(refund: &Refund, key: &RefundKey) -> Vec<u8> {
    json!({
        "refund_key": key,
        "confirmation_id": refund.transaction_id,
        "user_id": refund.user_id,
        "amount": refund.amount.to_string(),
        "currency": CURRENCY,
    })
    .to_string()
    .into_bytes()
}

#[derive(Deserialize)]
struct RefundResponse {
    status: String,
    refund_key: Option<String>,
    refund_id: Option<String>,
    message: Option<String>,
}

/// A refusal may come with any status that rejects the request itself. The others of 4xx are about the
/// caller, the rate or a race, and leave the refund unknown.
fn decode_submit(status: StatusCode, body: &[u8], key: &str) -> Reply<RefundAnswer> {
    let refuses = matches!(
        status,
        StatusCode::BAD_REQUEST
            | StatusCode::FORBIDDEN
            | StatusCode::NOT_FOUND
            | StatusCode::GONE
            | StatusCode::UNPROCESSABLE_ENTITY
    );
    if !refuses {
        return decode_lookup(status, body, key);
    }
    match serde_json::from_slice(body).ok().and_then(|reply| answer(status, reply, key).ok()) {
        Some(refused) => Reply::Definite(refused),
        None => without_answer(status),
    }
}

fn decode_lookup(status: StatusCode, body: &[u8], key: &str) -> Reply<RefundAnswer> {
    decode_response(status, body, |reply| answer(status, reply, key))
}

fn answer(status: StatusCode, reply: RefundResponse, key: &str) -> Result<RefundAnswer, &'static str> {
    if reply.refund_key.as_ref().is_some_and(|of| of != key) {
        return Err("an answer to another refund");
    }
    match reply.status.as_str() {
        "refused" => Ok(RefundAnswer::Refused { reason: reason(reply.message.as_deref()) }),
        "refunded" if !status.is_success() => Err("an answer that is not a refusal"),
        "refunded" => Ok(RefundAnswer::Refunded {
            refund_id: reply
                .refund_id
                .as_deref()
                .map(confirmation)
                .transpose()?
                .flatten()
                .ok_or("a refund without an id")?,
        }),
        _ => Err("an unknown status"),
    }
}

fn reason(message: Option<&str>) -> String {
    let message = message.map(redact).unwrap_or_default();
    if message.is_empty() { "no reason given".to_owned() } else { message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submit(status: u16, body: &str) -> Reply<RefundAnswer> {
        decode_submit(StatusCode::from_u16(status).unwrap(), body.as_bytes(), "k-1")
    }

    fn refused(reason: &str) -> Reply<RefundAnswer> {
        Reply::Definite(RefundAnswer::Refused { reason: reason.to_owned() })
    }

    #[test]
    fn well_formed_answers_are_definite() {
        let refunded = Reply::Definite(RefundAnswer::Refunded { refund_id: "r-1".into() });
        for status in [200, 201, 202] {
            assert_eq!(submit(status, r#"{"status":"refunded","refund_id":"r-1"}"#), refunded);
        }
        assert_eq!(
            submit(200, r#"{"status":"refunded","refund_id":"r-1","refund_key":"k-1","new":1}"#),
            refunded
        );
        for status in [200, 400, 402, 403, 404, 410, 422] {
            assert_eq!(
                submit(status, r#"{"status":"refused","message":"account 123456789 is closed"}"#),
                refused("account …6789 is closed"),
                "{status}"
            );
            assert_eq!(submit(status, r#"{"status":"refused"}"#), refused("no reason given"));
        }
    }

    #[test]
    fn everything_else_is_not_an_answer() {
        for (status, body, reason) in [
            (200, "", "HTTP 200 with an unreadable body"),
            (200, r#"{"status":"refunded""#, "HTTP 200 with an unreadable body"),
            (200, r#"{"status":"refunded"}"#, "HTTP 200 with a refund without an id"),
            (200, r#"{"status":"refunded","refund_id":"r 1"}"#, "HTTP 200 with an invalid confirmation"),
            (
                200,
                r#"{"status":"refunded","refund_id":"r-1","refund_key":"k-2"}"#,
                "HTTP 200 with an answer to another refund",
            ),
            (200, r#"{"status":"accepted"}"#, "HTTP 200 with an unknown status"),
            (
                402,
                r#"{"status":"refunded","refund_id":"r-1"}"#,
                "HTTP 402 with an answer that is not a refusal",
            ),
            (404, r#"{"status":"refunded","refund_id":"r-1"}"#, "HTTP 404"),
            (404, "", "HTTP 404"),
            (302, r#"{"status":"refused"}"#, "HTTP 302"),
            (408, r#"{"status":"refused"}"#, "HTTP 408"),
            (409, r#"{"status":"refused"}"#, "HTTP 409"),
            (429, r#"{"status":"refused"}"#, "HTTP 429"),
            (500, r#"{"status":"refused"}"#, "HTTP 500"),
        ] {
            assert_eq!(submit(status, body), Reply::Unknown(reason.to_owned()), "{status} {body}");
        }
        for (status, body) in
            [(400, ""), (401, r#"{"status":"refused"}"#), (403, "<html>"), (422, r#"{"error":"SECRET"}"#)]
        {
            assert_eq!(submit(status, body), Reply::Rejected(format!("HTTP {status}")));
        }
    }

    #[test]
    fn a_lookup_that_is_not_allowed_is_not_a_refused_refund() {
        let lookup = |status: u16| {
            decode_lookup(StatusCode::from_u16(status).unwrap(), br#"{"status":"refused"}"#, "k-1")
        };
        assert_eq!(lookup(200), refused("no reason given"));
        assert_eq!(lookup(403), Reply::Rejected("HTTP 403".to_owned()));
    }
}
