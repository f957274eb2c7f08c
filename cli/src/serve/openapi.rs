//! The OpenAPI document of this server: its own paths beside those of the REST API and of the webhook.

use dues_processors::api::Api;
use dues_processors::api::openapi::{Operation, Part, document, object, shape, text_or_null};
use dues_processors::{STREAMS, webhook};
use dues_store::embedded::Embedded;
use serde_json::{Value, json};

use super::app::{HEALTH, METRICS, OPENAPI, READY, STREAM};
use crate::gateway::AnyGateway;

/// What any request may be answered with, before anything looks at it.
const COMMON: [u16; 5] = [401, 403, 408, 413, 429];

/// The document.
pub(super) fn described(api: &Api<Embedded, AnyGateway>) -> Value {
    let parts = [own(), webhook::openapi()].into_iter().chain(api.described());
    document(parts, env!("CARGO_PKG_VERSION"), &COMMON)
}

fn own() -> Part {
    let text = || json!({"type": "string"});
    let lag = object(json!({"lag_records": {"type": "integer"}, "lag_seconds": {"type": "integer"}}));
    let ready = object(json!({
        "ready": {"type": "boolean"}, "writable": {"type": "boolean"}, "streams": {"type": "object", "additionalProperties": lag},
        "troubles": {"type": "object", "additionalProperties": text()},
        "last_error": {"anyOf": [{"type": "null"}, object(json!({"at": text(), "what": text()}))]},
    }));
    let taken = object(json!({"stream": {"enum": STREAMS}, "accepted": {"type": "integer"}}));
    let lines = || json!({"type": "string", "description": "One JSON object a line."});
    Part::default()
        .shape("Ready", ready)
        .with(
            "GET",
            HEALTH,
            Operation::new("Whether the program is there.").answer(200, "It is.", object(json!({"status": {"const": "ok"}}))),
        )
        .with(
            "GET",
            READY,
            Operation::new("Whether it can do its work: the store can be written, no stream is far behind, nothing fails.")
                .answer(200, "It can.", shape("Ready"))
                .answer(503, "It cannot, and why.", shape("Ready")),
        )
        .with(
            "GET",
            METRICS,
            Operation::new("How it is, for Prometheus.")
                .answer_in("text/plain", 200, "The text format, version 0.0.4.", text())
                .errors(&[503]),
        )
        .with(
            "GET",
            OPENAPI,
            Operation::new("This document.").answer(200, "OpenAPI 3.1.", object(json!({"openapi": text(), "info": {}, "paths": {}}))),
        )
        .with(
            "POST",
            STREAM,
            Operation::new("Takes records onto a stream; answered when they are durable. What cannot be read is taken too, and parked.")
                .id("name", json!({"enum": STREAMS}))
                .bodies(&[
                    ("application/x-ndjson", lines()),
                    ("application/json", json!({"type": "array", "items": {"type": "object", "properties": {"user_id": text_or_null()}}})),
                ])
                .answer(202, "They are durable, and will be processed.", taken)
                .errors(&[400, 404, 503]),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_of_its_own_is_described_and_errors_have_one_shape() {
        let document = document([own(), webhook::openapi()], "1", &COMMON);
        let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
        assert_eq!(paths, [HEALTH, METRICS, OPENAPI, READY, STREAM, webhook::PATH]);
        let refused = &document["paths"][STREAM]["post"]["responses"];
        assert_eq!(refused["429"]["content"]["application/json"]["schema"], shape("Error"));
        assert_eq!(document["paths"][STREAM]["post"]["parameters"][0]["name"], "name");
    }
}
