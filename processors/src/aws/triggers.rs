//! Events as Lambda delivers them, and the responses it expects.

pub mod dynamodb_streams;
pub mod eventbridge;
pub mod http_api;
pub mod kinesis;
pub mod sqs;

pub(crate) mod dynamodb_json;
