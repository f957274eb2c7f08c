//! Items in DynamoDB JSON, with the type of each value: `{"balance": {"N": "3"}}`.

use aws_lambda_events::encodings::Base64Data;
use dues_events::wire::WireError;
use dues_events::{Item, Value};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json, json};

use crate::runtime::changes::wrong;

/// Decodes an item; `path` names it in errors.
///
/// # Errors
/// [`WireError`] names the value.
pub fn read_item(json: &Json, path: &str) -> Result<Item, WireError> {
    let attributes = json.as_object().ok_or_else(|| wrong(path, "is not a JSON object"))?;
    attributes
        .iter()
        .map(|(name, value)| Ok((name.clone().into(), read_value(value, &format!("{path}.{name}"))?)))
        .collect()
}

/// Encodes an item.
#[must_use]
pub fn write_item(item: &Item) -> Json {
    Json::Object(
        item.iter().map(|(name, value)| (name.to_string(), write_value(value))).collect::<Map<_, _>>(),
    )
}

fn read_value(json: &Json, path: &str) -> Result<Value, WireError> {
    let typed = json.as_object().filter(|typed| typed.len() == 1).and_then(|typed| typed.iter().next());
    let (kind, value) = typed.ok_or_else(|| wrong(path, "is not one value with its type"))?;
    let path = format!("{path}.{kind}");
    Ok(match kind.as_str() {
        "S" => Value::S(plain(value, &path, "text")?),
        "N" => Value::N(plain(value, &path, "a number as text")?),
        "B" => Value::B(plain::<Base64Data>(value, &path, "base64")?.0),
        "BOOL" => Value::Bool(plain(value, &path, "true or false")?),
        "NULL" => {
            plain::<bool>(value, &path, "true")?;
            Value::Null
        }
        "L" => {
            let values = value.as_array().ok_or_else(|| wrong(&path, "is not a list"))?;
            let read = |(n, value): (usize, &Json)| read_value(value, &format!("{path}[{n}]"));
            Value::L(values.iter().enumerate().map(read).collect::<Result<_, _>>()?)
        }
        "M" => Value::M(read_item(value, &path)?),
        "SS" => Value::Ss(plain(value, &path, "a list of texts")?),
        "NS" => Value::Ns(plain(value, &path, "a list of numbers as text")?),
        "BS" => Value::Bs(
            plain::<Vec<Base64Data>>(value, &path, "a list of base64")?
                .into_iter()
                .map(|bytes| bytes.0)
                .collect(),
        ),
        _ => return Err(wrong(&path, "is a type that is not known here")),
    })
}

fn write_value(value: &Value) -> Json {
    match value {
        Value::S(text) => json!({"S": text}),
        Value::N(number) => json!({"N": number}),
        Value::B(bytes) => json!({"B": base64(bytes)}),
        Value::Bool(value) => json!({"BOOL": value}),
        Value::Null => json!({"NULL": true}),
        Value::L(values) => json!({"L": values.iter().map(write_value).collect::<Vec<_>>()}),
        Value::M(item) => json!({"M": write_item(item)}),
        Value::Ss(texts) => json!({"SS": texts}),
        Value::Ns(numbers) => json!({"NS": numbers}),
        Value::Bs(all) => json!({"BS": all.iter().map(|bytes| base64(bytes)).collect::<Vec<_>>()}),
    }
}

fn plain<T: DeserializeOwned>(value: &Json, path: &str, wanted: &str) -> Result<T, WireError> {
    // The message leaves out the value: it may be any content of a table.
    T::deserialize(value).map_err(|_| wrong(path, format!("is not {wanted}")))
}

fn base64(bytes: &[u8]) -> Json {
    let mut data = Base64Data::default();
    data.0 = bytes.to_vec();
    json!(data)
}
