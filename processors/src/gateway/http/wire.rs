//! The service's JSON, and what it means.

use dues_events::ach::{Consequence, ReturnCode};
use dues_events::event::{Answer, Paid};
use dues_events::record::{Failure, Receipt};
use dues_events::{AttemptKey, TransactionId};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::json;
use std::fmt::Write as _;

use super::client::shown;
use crate::gateway::Debit;

/// How debits are paid here.
const PAYMENT_TYPE: &str = "ACH";
/// Longer confirmations are not ones.
const LONGEST_CONFIRMATION: usize = 256;
/// Of a message, at most so many characters are kept.
const LONGEST_MESSAGE: usize = 200;
/// A number with more digits than a mask may be an account's.
const MOST_DIGITS: usize = 4;
/// The same for one that is written in groups.
const MOST_IN_GROUPS: usize = 8;

/// What a request came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// The service said what became of the debit.
    Definite(Answer),
    /// The service cannot have got the request.
    NotSent(String),
    /// Nobody knows.
    Doubtful(String),
    /// Nobody knows, and asking for the same again will not help.
    Hopeless(String),
}

#[derive(Deserialize)]
struct Reply {
    status: String,
    payment_id: Option<String>,
    confirmation_id: Option<String>,
    account_mask: Option<String>,
    payment_type: Option<String>,
    return_code: Option<String>,
    message: Option<String>,
}

/// The request that makes a debit.
pub(super) fn body(debit: &Debit, key: &AttemptKey) -> Vec<u8> {
    json!({
        "payment_id": key,
        "subscription_id": debit.subscription_id,
        "user_id": debit.user_id,
        "amount": debit.amount.to_string(),
        "currency": "USD",
        "payment_type": PAYMENT_TYPE,
        "period": debit.period,
    })
    .to_string()
    .into_bytes()
}

/// Percent-encoded, for a path.
pub(super) fn path_segment(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            // Writing to a text cannot fail.
            other => drop(write!(encoded, "%{other:02X}")),
        }
    }
    encoded
}

/// Reads an answer. Only a well-formed body under the right status is definite.
pub(super) fn read(status: StatusCode, body: &[u8], key: &AttemptKey) -> Said {
    if !status.is_success() && status != StatusCode::PAYMENT_REQUIRED {
        let why = shown(status);
        return match status {
            StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::UNPROCESSABLE_ENTITY => {
                Said::Hopeless(why)
            }
            _ => Said::Doubtful(why),
        };
    }
    match serde_json::from_slice(body).map_err(|_| "a body that cannot be read").and_then(|reply| meaning(status, reply, key)) {
        Ok(answer) => Said::Definite(answer),
        Err(why) => Said::Doubtful(format!("{} with {why}", shown(status))),
    }
}

fn meaning(status: StatusCode, reply: Reply, key: &AttemptKey) -> Result<Answer, &'static str> {
    if reply.payment_id.as_ref().is_some_and(|id| id != key.as_str()) {
        return Err("an answer to another payment");
    }
    let confirmation = reply.confirmation_id.as_deref().map(confirmation).transpose()?.flatten();
    match reply.status.as_str() {
        "refused" => {
            Ok(Answer::Refused { transaction_id: confirmation, failure: failure(reply.return_code.as_deref(), reply.message.as_deref()) })
        }
        "accepted" | "collected" if status == StatusCode::PAYMENT_REQUIRED => Err("an answer that is not a refusal"),
        "accepted" => Ok(Answer::Accepted { transaction_id: confirmation.ok_or("an acceptance that has no confirmation")? }),
        "collected" => Ok(Answer::Collected(Paid {
            transaction_id: Some(confirmation.ok_or("a collection that has no confirmation")?),
            receipt: Receipt {
                account_mask: last_four(reply.account_mask.as_deref().unwrap_or_default()),
                payment_type: tidy(reply.payment_type.as_deref().filter(|kind| !kind.is_empty()).unwrap_or(PAYMENT_TYPE)),
            },
        })),
        _ => Err("a status that is not known"),
    }
}

/// An empty confirmation is none.
fn confirmation(text: &str) -> Result<Option<TransactionId>, &'static str> {
    if text.len() > LONGEST_CONFIRMATION || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("a confirmation that is not one");
    }
    Ok((!text.is_empty()).then(|| text.into()))
}

/// The failure's code is the one that was given as such. A notification of change is none: it would leave the record as it is, and the refusal open.
fn failure(code: Option<&str>, message: Option<&str>) -> Failure {
    let given = code.map(str::trim).filter(|code| !code.is_empty());
    let code = given.and_then(ReturnCode::read).filter(|code| code.consequence() != Consequence::Notice);
    let dropped = given.filter(|_| code.is_none());
    let text = [message.map(tidy), dropped.map(|dropped| format!("({})", tidy(dropped)))];
    let text = text.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    let failure = Failure::new(code, Some(&text));
    if failure.code() == code { failure } else { Failure::new(None, Some(&format!("refused: {text}"))) }
}

fn last_four(mask: &str) -> String {
    let mask = mask.trim();
    mask.chars().skip(mask.chars().count().saturating_sub(4)).collect()
}

/// One line of bounded length, in which no number has more than its last four digits.
fn tidy(text: &str) -> String {
    let mut kept = String::new();
    let mut number = String::new();
    for letter in text.trim().chars().take(LONGEST_MESSAGE) {
        let goes_on = !number.is_empty() && matches!(letter, ' ' | '-');
        if letter.is_ascii_digit() || goes_on {
            number.push(letter);
        } else {
            push_number(&mut kept, &mut number);
            kept.push(if letter.is_control() { ' ' } else { letter });
        }
    }
    push_number(&mut kept, &mut number);
    kept
}

/// Numbers may be written in groups; those of a date are not an account's.
fn push_number(text: &mut String, number: &mut String) {
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    let bare = number.trim_end_matches([' ', '-']);
    if digits.len() > MOST_IN_GROUPS || bare.split([' ', '-']).any(|group| group.len() > MOST_DIGITS) {
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

    fn reads(status: u16, body: &str) -> Said {
        read(StatusCode::from_u16(status).unwrap(), body.as_bytes(), &"k-1".into())
    }

    fn refused(transaction: Option<&str>, text: &str) -> Said {
        let failure = Failure::new(None, Some(text));
        Said::Definite(Answer::Refused { transaction_id: transaction.map(Into::into), failure })
    }

    #[test]
    fn well_formed_answers_are_definite() {
        let accepted = Said::Definite(Answer::Accepted { transaction_id: "c-1".into() });
        for status in [200, 201, 202] {
            assert_eq!(reads(status, r#"{"status":"accepted","confirmation_id":"c-1"}"#), accepted);
        }
        assert_eq!(reads(200, r#"{"status":"accepted","confirmation_id":"c-1","payment_id":"k-1","new":{}}"#), accepted);
        let receipt = Receipt { account_mask: "6789".into(), payment_type: "ACH".into() };
        assert_eq!(
            reads(200, r#"{"status":"collected","confirmation_id":"c-1","account_mask":"123456789","payment_type":"ACH"}"#),
            Said::Definite(Answer::Collected(Paid { transaction_id: Some("c-1".into()), receipt }))
        );
        for status in [200, 402] {
            let body = r#"{"status":"refused","return_code":"R01","message":"no funds","confirmation_id":"c-1"}"#;
            assert_eq!(reads(status, body), refused(Some("c-1"), "R01 no funds"));
            let body = r#"{"status":"refused","return_code":null,"message":null,"confirmation_id":null}"#;
            assert_eq!(reads(status, body), refused(None, "failed, no reason given"));
        }
    }

    #[test]
    fn everything_else_is_not() {
        for (status, body, why) in [
            (200, "", "HTTP 200 with a body that cannot be read"),
            (200, "account 123456789", "HTTP 200 with a body that cannot be read"),
            (200, r#"{"status":"accepted""#, "HTTP 200 with a body that cannot be read"),
            (200, r#"{"status":"accepted"}"#, "HTTP 200 with an acceptance that has no confirmation"),
            (200, r#"{"status":"accepted","confirmation_id":""}"#, "HTTP 200 with an acceptance that has no confirmation"),
            (200, r#"{"status":"accepted","confirmation_id":"c 1"}"#, "HTTP 200 with a confirmation that is not one"),
            (200, r#"{"status":"collected","confirmation_id":null}"#, "HTTP 200 with a collection that has no confirmation"),
            (200, r#"{"status":"accepted","confirmation_id":"c-1","payment_id":"k-2"}"#, "HTTP 200 with an answer to another payment"),
            (200, r#"{"status":"unknown"}"#, "HTTP 200 with a status that is not known"),
            (402, r#"{"status":"accepted","confirmation_id":"c-1"}"#, "HTTP 402 with an answer that is not a refusal"),
            (302, r#"{"status":"accepted","confirmation_id":"c-1"}"#, "HTTP 302"),
            (404, r#"{"status":"unknown"}"#, "HTTP 404"),
            (409, "", "HTTP 409"),
            (429, "", "HTTP 429"),
            (500, r#"{"status":"refused"}"#, "HTTP 500"),
        ] {
            assert_eq!(reads(status, body), Said::Doubtful(why.to_owned()), "{body}");
        }
        for status in [400, 401, 403, 422] {
            assert_eq!(reads(status, r#"{"status":"refused"}"#), Said::Hopeless(format!("HTTP {status}")));
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
    fn no_account_number_is_kept() {
        assert_eq!(
            failure(None, Some("account 123456789 at 021000021\nis closed, ref 1234")).text(),
            "account …6789 at …0021 is closed, ref 1234"
        );
        assert_eq!(failure(None, Some("card 4111 1111-1111 1111 until 2026-03-02")).text(), "card …1111 until 2026-03-02");
        assert_eq!(failure(Some("X123456789"), None).text(), "(X…6789)");
        assert!(failure(None, Some(&"é".repeat(5000))).text().chars().count() <= LONGEST_MESSAGE);
    }

    #[test]
    fn keys_fit_into_a_path() {
        assert_eq!(path_segment("1b4e-1_~."), "1b4e-1_~.");
        assert_eq!(path_segment("a/b?c é%"), "a%2Fb%3Fc%20%C3%A9%25");
    }
}
