//! Converts items to the SDK's types and back.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use std::collections::HashMap;

use crate::engine::{Key, StoreError};
use crate::table::Table;
use dues_events::{Item, Value};

pub(super) fn key(table: &Table, key: &Key) -> HashMap<String, AttributeValue> {
    let sort = table.sort.zip(key.sort.clone());
    [Some((table.partition, key.partition.clone())), sort]
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.to_owned(), AttributeValue::S(value)))
        .collect()
}

pub(super) fn attributes(item: Item) -> HashMap<String, AttributeValue> {
    item.into_iter().map(|(name, value)| (name.into_owned(), attribute(value))).collect()
}

pub(super) fn attribute(value: Value) -> AttributeValue {
    match value {
        Value::S(text) => AttributeValue::S(text),
        Value::N(number) => AttributeValue::N(number),
        Value::B(bytes) => AttributeValue::B(Blob::new(bytes)),
        Value::Bool(value) => AttributeValue::Bool(value),
        Value::Null => AttributeValue::Null(true),
        Value::L(values) => AttributeValue::L(values.into_iter().map(attribute).collect()),
        Value::M(item) => AttributeValue::M(attributes(item)),
        Value::Ss(texts) => AttributeValue::Ss(texts),
        Value::Ns(numbers) => AttributeValue::Ns(numbers),
        Value::Bs(all) => AttributeValue::Bs(all.into_iter().map(Blob::new).collect()),
    }
}

pub(super) fn item(attributes: HashMap<String, AttributeValue>) -> Result<Item, StoreError> {
    attributes.into_iter().map(|(name, value)| Ok((name.into(), self::value(value)?))).collect()
}

#[allow(clippy::wildcard_enum_match_arm)]
fn value(attribute: AttributeValue) -> Result<Value, StoreError> {
    Ok(match attribute {
        AttributeValue::S(text) => Value::S(text),
        AttributeValue::N(number) => Value::N(number),
        AttributeValue::B(bytes) => Value::B(bytes.into_inner()),
        AttributeValue::Bool(value) => Value::Bool(value),
        AttributeValue::Null(_) => Value::Null,
        AttributeValue::L(values) => Value::L(values.into_iter().map(value).collect::<Result<_, _>>()?),
        AttributeValue::M(attributes) => Value::M(item(attributes)?),
        AttributeValue::Ss(texts) => Value::Ss(texts),
        AttributeValue::Ns(numbers) => Value::Ns(numbers),
        AttributeValue::Bs(all) => Value::Bs(all.into_iter().map(Blob::into_inner).collect()),
        // The SDK's enum is open: an attribute type that DynamoDB adds later is unknown here and cannot be
        // kept.
        _ => return Err(StoreError::Invalid("an attribute has a type that is not known here".into())),
    })
}
