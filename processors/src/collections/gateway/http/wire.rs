//! The service's JSON, decoded into answers.

pub(super) mod refunds;

use dues_events::billing::event::{Answer, Paid};
use dues_events::billing::record::{Failure, Receipt};
use dues_events::collections::ach::{Consequence, ReturnCode};
use dues_events::{AttemptKey, TransactionId};
use hyper::StatusCode;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::client::status_text;
use crate::collections::gateway::Debit;

/// The currency of every amount.
const CURRENCY: &str = "USD";
/// The payment type of every debit.
const PAYMENT_TYPE: &str = "ACH";
/// Longest valid confirmation id.
const MAX_CONFIRMATION_BYTES: usize = 256;
/// Messages are truncated to this length.
const MAX_MESSAGE_CHARS: usize = 200;
/// A longer run of digits may be an account number.
const MAX_PLAIN_DIGITS: usize = 4;
/// The same for digits written in groups.
const MAX_GROUPED_DIGITS: usize = 8;

/// What a response says about a debit or a refund.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply<A> {
    /// The service answered.
    Definite(A),
    /// The service cannot have received the request.
    NotSent(String),
    /// Unknown; a retry may help.
    Unknown(String),
    /// The request was rejected without an answer; a retry would fail the same way.
    Rejected(String),
}

type Decode<A> = fn(StatusCode, &[u8], &str) -> Reply<A>;

/// A collection of the service: debits or refunds.
pub(super) struct Resource<A> {
    /// Its path below the base.
    pub(super) path: &'static str,
    /// Decodes the response to a submission.
    pub(super) decode_submit: Decode<A>,
    /// Decodes the response to a lookup, except for 404.
    pub(super) decode_lookup: Decode<A>,
    /// The answer when a submission was rejected for this reason and cannot have been performed. `None`
    /// leaves it unknown.
    pub(super) refusal: Option<fn(String) -> A>,
}

/// Debits. Only a well-formed refusal fails a record.
pub(super) const PAYMENTS: Resource<Answer> =
    Resource { path: "payments", decode_submit: decode_debit, decode_lookup: decode_debit, refusal: None };

#[derive(Deserialize)]
struct PaymentResponse {
    status: String,
    payment_id: Option<String>,
    confirmation_id: Option<String>,
    account_mask: Option<String>,
    payment_type: Option<String>,
    return_code: Option<String>,
    message: Option<String>,
}

/// The body of a submission.
pub(super) fn encode_debit(debit: &Debit, key: &AttemptKey) -> Vec<u8> {
    json!({
        "payment_id": key,
        "subscription_id": debit.subscription_id,
        "user_id": debit.user_id,
        "amount": debit.amount.to_string(),
        "currency": CURRENCY,
        "payment_type": PAYMENT_TYPE,
        "period": debit.period,
    })
    .to_string()
    .into_bytes()
}

/// Everything but RFC 3986's unreserved characters.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes a path segment.
pub(super) fn path_segment(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

fn decode_debit(status: StatusCode, body: &[u8], key: &str) -> Reply<Answer> {
    decode_response(status, body, |reply| debit_answer(status, reply, key))
}

/// Decodes a response. Only a well-formed body under a matching status is definite.
fn decode_response<R: DeserializeOwned, A>(
    status: StatusCode,
    body: &[u8],
    read: impl FnOnce(R) -> Result<A, &'static str>,
) -> Reply<A> {
    if !status.is_success() && status != StatusCode::PAYMENT_REQUIRED {
        return without_answer(status);
    }
    match serde_json::from_slice(body).map_err(|_| "an unreadable body").and_then(read) {
        Ok(answer) => Reply::Definite(answer),
        Err(reason) => Reply::Unknown(format!("{} with {reason}", status_text(status))),
    }
}

/// What the status alone says.
fn without_answer<A>(status: StatusCode) -> Reply<A> {
    let reason = status_text(status);
    match status {
        StatusCode::BAD_REQUEST
        | StatusCode::UNAUTHORIZED
        | StatusCode::FORBIDDEN
        | StatusCode::UNPROCESSABLE_ENTITY => Reply::Rejected(reason),
        _ => Reply::Unknown(reason),
    }
}

fn debit_answer(status: StatusCode, reply: PaymentResponse, key: &str) -> Result<Answer, &'static str> {
    if reply.payment_id.as_ref().is_some_and(|id| id != key) {
        return Err("an answer to another payment");
    }
    let confirmation: Option<TransactionId> =
        reply.confirmation_id.as_deref().map(confirmation).transpose()?.flatten();
    match reply.status.as_str() {
        "refused" => Ok(Answer::Refused {
            transaction_id: confirmation,
            failure: failure(reply.return_code.as_deref(), reply.message.as_deref()),
        }),
        "accepted" | "collected" if status == StatusCode::PAYMENT_REQUIRED => {
            Err("an answer that is not a refusal")
        }
        "accepted" => Ok(Answer::Accepted {
            transaction_id: confirmation.ok_or("an acceptance without a confirmation")?,
        }),
        "collected" => Ok(Answer::Collected(Paid {
            transaction_id: Some(confirmation.ok_or("a collection without a confirmation")?),
            receipt: Receipt {
                account_mask: last_four(reply.account_mask.as_deref().unwrap_or_default()),
                payment_type: redact(
                    reply.payment_type.as_deref().filter(|kind| !kind.is_empty()).unwrap_or(PAYMENT_TYPE),
                ),
            },
        })),
        _ => Err("an unknown status"),
    }
}

/// An empty confirmation counts as none.
fn confirmation<I: for<'a> From<&'a str>>(text: &str) -> Result<Option<I>, &'static str> {
    if text.len() > MAX_CONFIRMATION_BYTES || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("an invalid confirmation");
    }
    Ok((!text.is_empty()).then(|| text.into()))
}

/// The failure's code is the given return code. A notification of change is not one: it would not close the
/// refusal.
fn failure(code: Option<&str>, message: Option<&str>) -> Failure {
    let given = code.map(str::trim).filter(|code| !code.is_empty());
    let code = given.and_then(ReturnCode::read).filter(|code| code.consequence() != Consequence::Notice);
    let dropped = given.filter(|_| code.is_none());
    let text = [message.map(redact), dropped.map(|dropped| format!("({})", redact(dropped)))];
    let text = text.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    let failure = Failure::new(code, Some(&text));
    if failure.code() == code { failure } else { Failure::new(None, Some(&format!("refused: {text}"))) }
}

fn last_four(mask: &str) -> String {
    let mask = mask.trim();
    mask.chars().skip(mask.chars().count().saturating_sub(4)).collect()
}

/// One line of bounded length, with long numbers cut to their last four digits.
fn redact(text: &str) -> String {
    let mut redacted = String::new();
    let mut number = String::new();
    for ch in text.trim().chars().take(MAX_MESSAGE_CHARS) {
        let is_separator = !number.is_empty() && matches!(ch, ' ' | '-');
        if ch.is_ascii_digit() || is_separator {
            number.push(ch);
        } else {
            push_number(&mut redacted, &mut number);
            redacted.push(if ch.is_control() { ' ' } else { ch });
        }
    }
    push_number(&mut redacted, &mut number);
    redacted
}

/// Numbers may be written in groups; dates are short enough to pass.
fn push_number(text: &mut String, number: &mut String) {
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    let bare = number.trim_end_matches([' ', '-']);
    if digits.len() > MAX_GROUPED_DIGITS || bare.split([' ', '-']).any(|group| group.len() > MAX_PLAIN_DIGITS)
    {
        text.push('…');
        text.push_str(&last_four(&digits));
        text.push_str(&number[bare.len()..]);
    } else {
        text.push_str(number);
    }
    number.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(status: u16, body: &str) -> Reply<Answer> {
        decode_debit(StatusCode::from_u16(status).unwrap(), body.as_bytes(), "k-1")
    }

    fn refused(transaction: Option<&str>, text: &str) -> Reply<Answer> {
        let failure = Failure::new(None, Some(text));
        Reply::Definite(Answer::Refused { transaction_id: transaction.map(Into::into), failure })
    }

    #[test]
    fn well_formed_answers_are_definite() {
        let accepted = Reply::Definite(Answer::Accepted { transaction_id: "c-1".into() });
        for status in [200, 201, 202] {
            assert_eq!(decode(status, r#"{"status":"accepted","confirmation_id":"c-1"}"#), accepted);
        }
        assert_eq!(
            decode(200, r#"{"status":"accepted","confirmation_id":"c-1","payment_id":"k-1","new":{}}"#),
            accepted
        );
        let receipt = Receipt { account_mask: "6789".into(), payment_type: "ACH".into() };
        assert_eq!(
            decode(
                200,
                r#"{"status":"collected","confirmation_id":"c-1","account_mask":"123456789","payment_type":"ACH"}"#
            ),
            Reply::Definite(Answer::Collected(Paid { transaction_id: Some("c-1".into()), receipt }))
        );
        for status in [200, 402] {
            let body =
                r#"{"status":"refused","return_code":"R01","message":"no funds","confirmation_id":"c-1"}"#;
            assert_eq!(decode(status, body), refused(Some("c-1"), "R01 no funds"));
            let body = r#"{"status":"refused","return_code":null,"message":null,"confirmation_id":null}"#;
            assert_eq!(decode(status, body), refused(None, "failed, no reason given"));
        }
    }

    #[test]
    fn malformed_responses_are_unknown() {
        for (status, body, reason) in [
            (200, "", "HTTP 200 with an unreadable body"),
            (200, "account 123456789", "HTTP 200 with an unreadable body"),
            (200, r#"{"status":"accepted""#, "HTTP 200 with an unreadable body"),
            (200, r#"{"status":"accepted"}"#, "HTTP 200 with an acceptance without a confirmation"),
            (
                200,
                r#"{"status":"accepted","confirmation_id":""}"#,
                "HTTP 200 with an acceptance without a confirmation",
            ),
            (
                200,
                r#"{"status":"accepted","confirmation_id":"c 1"}"#,
                "HTTP 200 with an invalid confirmation",
            ),
            (
                200,
                r#"{"status":"collected","confirmation_id":null}"#,
                "HTTP 200 with a collection without a confirmation",
            ),
            (
                200,
                r#"{"status":"accepted","confirmation_id":"c-1","payment_id":"k-2"}"#,
                "HTTP 200 with an answer to another payment",
            ),
            (200, r#"{"status":"unknown"}"#, "HTTP 200 with an unknown status"),
            (
                402,
                r#"{"status":"accepted","confirmation_id":"c-1"}"#,
                "HTTP 402 with an answer that is not a refusal",
            ),
            (302, r#"{"status":"accepted","confirmation_id":"c-1"}"#, "HTTP 302"),
            (404, r#"{"status":"unknown"}"#, "HTTP 404"),
            (409, "", "HTTP 409"),
            (429, "", "HTTP 429"),
            (500, r#"{"status":"refused"}"#, "HTTP 500"),
        ] {
            assert_eq!(decode(status, body), Reply::Unknown(reason.to_owned()), "{body}");
        }
        for status in [400, 401, 403, 422] {
            assert_eq!(decode(status, r#"{"status":"refused"}"#), Reply::Rejected(format!("HTTP {status}")));
        }
    }

    #[test]
    fn only_a_return_code_counts_as_one() {
        for (code, message, text, read) in [
            (Some(" R05 "), Some("not authorised"), "R05 not authorised", Some("R05")),
            (Some("R05"), None, "R05", Some("R05")),
            (Some("C01"), Some("wrong number"), "wrong number (C01)", None),
            (Some("C01"), None, "(C01)", None),
            (None, Some("C01 wrong number"), "refused: C01 wrong number", None),
            (None, Some("R05: not authorised"), "refused: R05: not authorised", None),
            (Some("do not honour"), Some("R10"), "refused: R10 (do not honour)", None),
            (Some(""), Some(""), "failed, no reason given", None),
        ] {
            let failure = failure(code, message);
            assert_eq!((failure.text(), failure.code()), (text, read.and_then(ReturnCode::read)));
        }
    }

    #[test]
    fn account_numbers_are_redacted() {
        assert_eq!(
            failure(None, Some("account 123456789 at 021000021\nis closed, ref 1234")).text(),
            "account …6789 at …0021 is closed, ref 1234"
        );
        assert_eq!(
            failure(None, Some("card 4111 1111-1111 1111 until 2026-03-02")).text(),
            "card …1111 until 2026-03-02"
        );
        assert_eq!(failure(Some("X123456789"), None).text(), "(X…6789)");
        assert!(failure(None, Some(&"é".repeat(5000))).text().chars().count() <= MAX_MESSAGE_CHARS);
    }

    #[test]
    fn keys_fit_into_a_path() {
        assert_eq!(path_segment("1b4e-1_~."), "1b4e-1_~.");
        assert_eq!(path_segment("a/b?c é%"), "a%2Fb%3Fc%20%C3%A9%25");
    }
}
