//! Schemas that all parts of the API share.

use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// Any object.
#[derive(ToSchema)]
#[allow(dead_code, reason = "a schema")]
pub struct FreeForm(BTreeMap<String, Value>);

/// A string that fits into a table key: at most 256 bytes, so fewer characters if some are not ASCII.
pub struct Id;

impl ToSchema for Id {}

impl PartialSchema for Id {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(256));
        Schema::Object(text.build()).into()
    }
}

/// Why a request failed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Error)]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorDetail,
}

/// A code for programs, a message for people.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorDetail {
    /// Such as `not_found`.
    pub code: String,
    /// Names the field where one is invalid.
    pub message: String,
}
