//! `POST /streams/{name}`: appends records to a durable local stream and answers once they are durable.
//!
//! A record is a line, or an element of a JSON array. Unreadable records are accepted too: the stream's
//! handler parks them with the reason, so that they are visible and not lost.

use dues_processors::STREAMS;
use dues_processors::api::Response;
use dues_store::Store;
use dues_store::embedded::Embedded;
use serde_json::json;
use serde_json::value::RawValue;

use crate::local::stream_runner::key_of;

/// Limits of one request: bytes, records.
pub(super) const LARGEST: usize = 4 * 1024 * 1024;
pub(super) const MOST: usize = 5000;

/// The stream of this name, if there is one.
pub(super) fn named(name: &str) -> Option<&'static str> {
    STREAMS.into_iter().find(|stream| *stream == name)
}

/// 404: unknown stream.
pub(super) fn no_such_stream(name: &str) -> Response {
    Response::error(404, "no_such_stream", format!("{name:?} is not one of {}", STREAMS.join(", ")))
}

/// 413: body too large.
pub(super) fn too_large() -> Response {
    Response::error(413, "too_large", format!("the most is {LARGEST} bytes: send fewer records at once"))
}

/// Appends the records durably; returns their number.
pub(super) async fn take(
    store: &Store<Embedded>,
    stream: &'static str,
    body: &[u8],
) -> Result<u64, Response> {
    let records = split(body)?;
    if records.len() > MOST {
        let message = format!("there are {} records, the most at once is {MOST}", records.len());
        return Err(Response::error(413, "too_many_records", message));
    }
    let count = records.len() as u64;
    if count == 0 {
        return Ok(0);
    }
    let records = records
        .into_iter()
        .map(|record| (key_of(stream, record.as_bytes()), record.as_bytes().to_vec()))
        .collect();
    match store.engine.append(stream, store.clock.now(), records).await {
        Ok(_) => Ok(count),
        Err(error) => {
            tracing::error!(stream, %error, "records could not be stored");
            let refused =
                Response::error(503, "unavailable", "the records cannot be stored now: send them again");
            Err(Response { retry_after: Some(5), ..refused })
        }
    }
}

/// 202: records appended.
pub(super) fn taken(stream: &str, count: u64) -> Response {
    Response::of(202, json!({"stream": stream, "accepted": count}))
}

/// Splits a body into records: the elements of an array, byte for byte, or the non-empty lines.
fn split(body: &[u8]) -> Result<Vec<&str>, Response> {
    let text = std::str::from_utf8(body).map_err(|error| {
        Response::error(
            400,
            "not_utf8",
            format!("the body is not UTF-8 from byte {} on", error.valid_up_to()),
        )
    })?;
    if !text.trim_start().starts_with('[') {
        return Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).collect());
    }
    let records: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| {
        Response::error(400, "not_json", format!("the body begins as a JSON array and is none: {error}"))
    })?;
    Ok(records.into_iter().map(RawValue::get).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_arrays_are_records_byte_by_byte() {
        assert_eq!(split(b"{\"a\":1.50}\r\n\n  nonsense \n").unwrap(), ["{\"a\":1.50}", "nonsense"]);
        assert_eq!(
            split(b" [ {\"a\": 1.50, \"b\":1e999}, 7,\n\"x\"] ").unwrap(),
            ["{\"a\": 1.50, \"b\":1e999}", "7", "\"x\""]
        );
        assert_eq!(split(b"").unwrap(), [""; 0]);
        assert_eq!(split(b"[]").unwrap(), [""; 0]);
        assert_eq!(split(b"[{}").unwrap_err().status, 400);
        assert_eq!(
            split(b"{}\n\xff").unwrap_err().body["error"]["message"],
            "the body is not UTF-8 from byte 3 on"
        );
    }
}
