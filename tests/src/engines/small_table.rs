//! The table for tests of this crate's own parts.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType,
    Projection, ProjectionType, ReturnConsumedCapacity, ScalarAttributeType, StreamSpecification,
    StreamViewType,
};

/// A table with keys `pk` and `sk` (a number), an index `by_group` over `group` and `sk`, and a stream.
pub(crate) async fn create(client: &Client, table: &str) {
    let key =
        |name: &str, kind| KeySchemaElement::builder().attribute_name(name).key_type(kind).build().unwrap();
    let attribute = |name: &str, kind| {
        AttributeDefinition::builder().attribute_name(name).attribute_type(kind).build().unwrap()
    };
    let index = GlobalSecondaryIndex::builder()
        .index_name("by_group")
        .key_schema(key("group", KeyType::Hash))
        .key_schema(key("sk", KeyType::Range))
        .projection(Projection::builder().projection_type(ProjectionType::All).build());
    let stream =
        StreamSpecification::builder().stream_enabled(true).stream_view_type(StreamViewType::NewAndOldImages);
    client
        .create_table()
        .table_name(table)
        .billing_mode(BillingMode::PayPerRequest)
        .key_schema(key("pk", KeyType::Hash))
        .key_schema(key("sk", KeyType::Range))
        .attribute_definitions(attribute("pk", ScalarAttributeType::S))
        .attribute_definitions(attribute("sk", ScalarAttributeType::N))
        .attribute_definitions(attribute("group", ScalarAttributeType::S))
        .global_secondary_indexes(index.build().unwrap())
        .stream_specification(stream.build().unwrap())
        .send()
        .await
        .unwrap();
}

/// Puts an item into the group `all`, and requests the capacity it consumed.
pub(crate) async fn put(client: &Client, table: &str, pk: &str, sk: u32) {
    client
        .put_item()
        .table_name(table)
        .item("pk", text(pk))
        .item("sk", AttributeValue::N(sk.to_string()))
        .item("group", text("all"))
        .return_consumed_capacity(ReturnConsumedCapacity::Total)
        .send()
        .await
        .unwrap();
}

pub(crate) fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}
