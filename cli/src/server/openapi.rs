//! The OpenAPI document of this server: its own routes, the webhook, and the REST API.

use dues_processors::STREAMS;
use dues_processors::api::document::{Document, one_of};
use dues_processors::api::{self, Api};
use dues_processors::entitlements::stripe_webhook;
use dues_store::embedded::Embedded;
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder};

use super::auth::Auth;
use super::routes;
use crate::local::gateway::AnyGateway;

/// Errors of every route, in addition to those of authentication.
const COMMON: [u16; 4] = [400, 408, 413, 429];
/// Name of the token's security scheme.
const TOKEN: &str = "token";

/// The document. A server with a token requires it; one without answers only this machine.
pub(super) fn described(api: &Api<Embedded, AnyGateway>, auth: &Auth) -> Value {
    finish(api::declare::<Embedded, AnyGateway, _>(&api.read_models, own()), auth)
}

fn finish(document: Document, auth: &Auth) -> Value {
    match auth {
        Auth::Token(_) => {
            let about = "The token that the server was started with.";
            let token = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(about)).build();
            let document = document.scheme(TOKEN, utoipa::openapi::security::SecurityScheme::Http(token));
            document.demand(TOKEN).finish(&[&COMMON[..], &[401]].concat())
        }
        Auth::Local => document.finish(&[&COMMON[..], &[403]].concat()),
    }
}

fn own() -> Document {
    let document = Document::new(env!("CARGO_PKG_VERSION"))
        .with_tag("server", "The program itself, and the streams that it reads.");
    stripe_webhook::scheme(routes::declare_open(routes::declare(document)))
}

/// The program runs.
#[derive(ToSchema)]
#[allow(dead_code, reason = "a schema")]
pub(super) struct Health {
    /// Always `ok`.
    status: String,
}

/// Whether the program can do its work.
#[derive(ToSchema)]
#[allow(dead_code, reason = "a schema")]
pub(super) struct Ready {
    ready: bool,
    writable: bool,
    /// By stream.
    streams: BTreeMap<String, Lag>,
    /// By job or stream.
    troubles: BTreeMap<String, String>,
    #[schema(required)]
    last_error: Option<LastError>,
}

/// How far a stream's handler is behind.
#[derive(ToSchema)]
#[allow(dead_code, reason = "a schema")]
struct Lag {
    lag_records: u64,
    lag_seconds: u64,
}

/// The latest failure.
#[derive(ToSchema)]
#[allow(dead_code, reason = "a schema")]
struct LastError {
    at: String,
    what: String,
}

/// Records were appended.
#[derive(ToSchema)]
#[allow(dead_code, reason = "a schema")]
pub(super) struct Appended {
    #[schema(schema_with = streams)]
    stream: String,
    accepted: u64,
}

/// This document.
#[derive(ToSchema)]
#[schema(as = OpenApi)]
#[allow(dead_code, reason = "a schema")]
pub(super) struct OpenApiDocument {
    openapi: String,
    info: BTreeMap<String, Value>,
    paths: BTreeMap<String, Value>,
}

/// A record of a stream. Each stream has fields of its own.
#[derive(ToSchema)]
#[allow(dead_code, reason = "a schema")]
pub(super) struct StreamRecord {
    /// The owner, which orders the records of a user.
    user_id: Option<String>,
    #[serde(flatten)]
    fields: BTreeMap<String, Value>,
}

fn streams() -> RefOr<Schema> {
    one_of(STREAMS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::auth::TokenAuth;
    use crate::server::routes::{HEALTH, METRICS, OPENAPI, READY, STREAM, example_of};
    use serde_json::json;

    #[test]
    fn every_stream_has_an_example() {
        for stream in STREAMS {
            assert!(example_of(stream).is_some_and(|record| record.is_object()), "{stream}");
        }
    }

    #[test]
    fn every_path_of_its_own_is_described_and_errors_have_one_shape() {
        let document = finish(own(), &Auth::Local);
        let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
        assert_eq!(paths, [HEALTH, METRICS, OPENAPI, READY, STREAM, stripe_webhook::PATH]);
        let refused = &document["paths"][STREAM]["post"]["responses"];
        assert_eq!(
            refused["429"]["content"]["application/json"]["schema"],
            json!({"$ref": "#/components/schemas/Error"})
        );
        assert_eq!(document["paths"][STREAM]["post"]["parameters"][0]["name"], "name");
    }

    #[test]
    fn a_token_is_asked_for_where_the_server_has_one() {
        let document = |auth: &Auth| finish(own(), auth);
        let (local, guarded) =
            (document(&Auth::Local), document(&Auth::Token(TokenAuth::new("0123456789abcdef"))));
        assert_eq!(local.get("security"), None);
        assert_eq!(
            local["components"]["securitySchemes"].as_object().unwrap().keys().collect::<Vec<_>>(),
            ["stripe_signature"]
        );
        assert_eq!(guarded["security"], json!([{TOKEN: []}]));
        assert_eq!(guarded["components"]["securitySchemes"][TOKEN]["scheme"], "bearer");
        let refusals = |document: &Value, path: &str, method: &str| {
            let answers = document["paths"][path][method]["responses"].as_object().unwrap();
            ["401", "403"].map(|status| answers.contains_key(status))
        };
        assert_eq!(
            (refusals(&local, METRICS, "get"), refusals(&guarded, METRICS, "get")),
            ([false, true], [true, false])
        );
        for (path, method) in [(HEALTH, "get"), (stripe_webhook::PATH, "post")] {
            assert_eq!(refusals(&guarded, path, method), [false, false], "{path} needs no token");
        }
    }
}
