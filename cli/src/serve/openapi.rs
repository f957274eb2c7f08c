//! The OpenAPI document of this server: its own paths beside those of the REST API and of the webhook.

use dues_processors::api::Api;
use dues_processors::api::openapi::{
    Operation, Part, any, count, document, flag, list, object, object_with, or_null, shape, text, text_or_null, words,
};
use dues_processors::{STREAMS, webhook};
use dues_store::embedded::Embedded;
use serde_json::{Value, json};

use super::app::{HEALTH, METRICS, OPENAPI, READY, STREAM};
use super::guard::Door;
use crate::gateway::AnyGateway;

/// What any request may be answered with, before anything looks at it, beside what the door says.
const COMMON: [u16; 4] = [400, 408, 413, 429];
/// What the document calls the token.
const TOKEN: &str = "token";

/// The document. A server that has a token asks for it; one that has none answers this machine only.
pub(super) fn described(api: &Api<Embedded, AnyGateway>, door: &Door) -> Value {
    let parts = [own(), webhook::openapi()].into_iter().chain(api.described());
    whole(parts, door)
}

fn whole(parts: impl Iterator<Item = Part>, door: &Door) -> Value {
    let (refusal, security) = match door {
        Door::Token(_) => (401, Some(TOKEN)),
        Door::Local => (403, None),
    };
    let mut common = COMMON.to_vec();
    common.push(refusal);
    let parts = parts.map(|part| match security {
        Some(scheme) => {
            part.scheme(scheme, json!({"type": "http", "scheme": "bearer", "description": "The token that the server was started with."}))
        }
        None => part,
    });
    document(parts, env!("CARGO_PKG_VERSION"), &common, security)
}

fn own() -> Part {
    let lag = object(json!({"lag_records": count(), "lag_seconds": count()}));
    let ready = object(json!({
        "ready": flag(), "writable": flag(), "streams": {"type": "object", "additionalProperties": lag},
        "troubles": {"type": "object", "additionalProperties": text()},
        "last_error": or_null(object(json!({"at": text(), "what": text()}))),
    }));
    let taken = object(json!({"stream": words(STREAMS), "accepted": count()}));
    let lines = || json!({"type": "string", "description": "One JSON object a line."});
    Part::new("server", "The program itself, and the streams that it reads.")
        .shape("Ready", ready)
        .with(
            "GET",
            HEALTH,
            Operation::new("get_health", "Whether the program is there.")
                .answer(200, "It is.", object(json!({"status": {"const": "ok"}})))
                .open(),
        )
        .with(
            "GET",
            READY,
            Operation::new(
                "get_readiness",
                "Whether it can do its work: the store can be written, no stream is far behind, nothing fails.",
            )
            .answer(200, "It can.", shape("Ready"))
            .answer(503, "It cannot, and why.", shape("Ready")),
        )
        .with(
            "GET",
            METRICS,
            Operation::new("get_metrics", "How it is, for Prometheus.")
                .answer_in("text/plain", 200, "The text format, version 0.0.4.", text())
                .errors(&[503]),
        )
        .with(
            "GET",
            OPENAPI,
            Operation::new("get_openapi", "This document.").answer(
                200,
                "OpenAPI 3.1.",
                object(json!({"openapi": text(), "info": any(), "paths": any()})),
            ),
        )
        .with(
            "POST",
            STREAM,
            Operation::new(
                "append_to_stream",
                "Takes records onto a stream; answered when they are durable. What cannot be read is taken too, and parked.",
            )
            .id("name", words(STREAMS))
            .bodies(&[
                ("application/x-ndjson", lines()),
                ("application/json", list(object_with(json!({}), json!({"user_id": text_or_null()})))),
            ])
            .answer(202, "They are durable, and will be processed.", taken)
            .errors(&[400, 404, 503]),
        )
}

#[cfg(test)]
mod tests {
    use super::super::guard::Lock;
    use super::*;

    #[test]
    fn every_path_of_its_own_is_described_and_errors_have_one_shape() {
        let document = whole([own(), webhook::openapi()].into_iter(), &Door::Local);
        let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
        assert_eq!(paths, [HEALTH, METRICS, OPENAPI, READY, STREAM, webhook::PATH]);
        let refused = &document["paths"][STREAM]["post"]["responses"];
        assert_eq!(refused["429"]["content"]["application/json"]["schema"], shape("Error"));
        assert_eq!(document["paths"][STREAM]["post"]["parameters"][0]["name"], "name");
    }

    #[test]
    fn a_token_is_asked_for_where_the_server_has_one() {
        let document = |door: &Door| whole([own(), webhook::openapi()].into_iter(), door);
        let (local, guarded) = (document(&Door::Local), document(&Door::Token(Lock::new("0123456789abcdef"))));
        assert_eq!(local.get("security"), None);
        assert_eq!(local["components"]["securitySchemes"].as_object().unwrap().keys().collect::<Vec<_>>(), ["stripe_signature"]);
        assert_eq!(guarded["security"], json!([{TOKEN: []}]));
        assert_eq!(guarded["components"]["securitySchemes"][TOKEN]["scheme"], "bearer");
        let refusals = |document: &Value, path: &str, method: &str| {
            let answers = document["paths"][path][method]["responses"].as_object().unwrap();
            ["401", "403"].map(|status| answers.contains_key(status))
        };
        assert_eq!((refusals(&local, METRICS, "get"), refusals(&guarded, METRICS, "get")), ([false, true], [true, false]));
        for (path, method) in [(HEALTH, "get"), (webhook::PATH, "post")] {
            assert_eq!(refusals(&guarded, path, method), [false, false], "{path} needs no token");
        }
    }
}
