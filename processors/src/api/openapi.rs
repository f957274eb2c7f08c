//! The OpenAPI document, put together from parts: each file that answers paths describes them, and a server adds its own.

mod commands;

pub(super) use commands::openapi as commands;

use serde_json::{Map, Value, json};

/// Statuses and what they mean, whatever the path.
const MEANINGS: [(u16, &str); 12] = [
    (400, "The body cannot be read."),
    (401, "No token, or a wrong one."),
    (402, "It was not paid."),
    (403, "Not allowed."),
    (404, "Not there, or somebody else's."),
    (408, "The body did not come in time."),
    (409, "Not in this state."),
    (413, "Too much at once."),
    (422, "A field is wrong; the message names it."),
    (429, "Too busy: come again after the seconds that the header says."),
    (500, "The records cannot be read or written."),
    (503, "Not now: come again."),
];

/// The paths that one file answers, and the shapes that they share.
#[derive(Debug, Clone, Default)]
pub struct Part {
    paths: Map<String, Value>,
    schemas: Map<String, Value>,
}

impl Part {
    /// Adds what a method of a path does. What stands in braces in the path is an id.
    #[must_use]
    pub fn with(mut self, method: &str, path: &str, operation: Operation) -> Self {
        let item = self.paths.entry(path).or_insert_with(|| json!({}));
        item[method.to_lowercase()] = operation.described(path);
        self
    }

    /// Adds a shape, to be named with [`shape`].
    #[must_use]
    pub fn shape(mut self, name: &str, schema: Value) -> Self {
        self.schemas.insert(name.to_owned(), schema);
        self
    }
}

/// What a method of a path does.
#[derive(Debug, Clone)]
pub struct Operation {
    summary: String,
    ids: Map<String, Value>,
    query: Vec<Value>,
    body: Option<Value>,
    answers: Map<String, Value>,
}

impl Operation {
    /// In a sentence.
    #[must_use]
    pub fn new(summary: &str) -> Self {
        Self { summary: summary.to_owned(), ids: Map::new(), query: Vec::new(), body: None, answers: Map::new() }
    }

    /// Says what stands in a place of the path, where that is not any id.
    #[must_use]
    pub fn id(mut self, name: &str, schema: Value) -> Self {
        self.ids.insert(name.to_owned(), schema);
        self
    }

    /// Takes a parameter in the query.
    #[must_use]
    pub fn query(mut self, name: &str, description: &str, schema: Value) -> Self {
        self.query.push(json!({"name": name, "in": "query", "description": description, "schema": schema}));
        self
    }

    /// Takes a JSON body, which may be missing.
    #[must_use]
    pub fn body(self, schema: Value) -> Self {
        self.bodies(&[("application/json", schema)])
    }

    /// Takes a body of one of these types.
    #[must_use]
    pub fn bodies(mut self, types: &[(&str, Value)]) -> Self {
        let content: Map<String, Value> = types.iter().map(|(name, schema)| ((*name).to_owned(), json!({"schema": schema}))).collect();
        self.body = Some(json!({"content": content}));
        self
    }

    /// Answers so with JSON.
    #[must_use]
    pub fn answer(self, status: u16, description: &str, schema: Value) -> Self {
        self.answer_in("application/json", status, description, schema)
    }

    /// Answers so with another type.
    #[must_use]
    pub fn answer_in(mut self, content: &str, status: u16, description: &str, schema: Value) -> Self {
        self.answers.insert(status.to_string(), json!({"description": description, "content": {content: {"schema": schema}}}));
        self
    }

    /// Answers so with an error.
    #[must_use]
    pub fn errors(mut self, statuses: &[u16]) -> Self {
        statuses.iter().for_each(|status| self.refuse(*status));
        self
    }

    fn refuse(&mut self, status: u16) {
        self.answers.entry(status.to_string()).or_insert_with(|| error_answer(status));
    }

    fn described(self, path: &str) -> Value {
        let names = path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
        let parameter = |name: &str| {
            let any = || json!({"type": "string", "minLength": 1, "maxLength": 256});
            let schema = self.ids.get(name).cloned().unwrap_or_else(any);
            json!({"name": name, "in": "path", "required": true, "schema": schema})
        };
        let mut parameters: Vec<Value> = names.map(parameter).collect();
        parameters.extend(self.query);
        let mut operation = json!({"summary": self.summary, "parameters": parameters, "responses": self.answers});
        if let Some(body) = self.body {
            operation["requestBody"] = body;
        }
        operation
    }
}

/// A shape that the document holds once.
#[must_use]
pub fn shape(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Text, or nothing.
#[must_use]
pub fn text_or_null() -> Value {
    json!({"type": ["string", "null"]})
}

/// An object that has at least these properties.
#[must_use]
pub fn object(properties: Value) -> Value {
    let required: Vec<String> = properties.as_object().map(|all| all.keys().cloned().collect()).unwrap_or_default();
    json!({"type": "object", "required": required, "properties": properties})
}

fn error_answer(status: u16) -> Value {
    let meaning = MEANINGS.iter().find(|(known, _)| *known == status).map_or("Refused.", |(_, meaning)| meaning);
    json!({"description": meaning, "content": {"application/json": {"schema": shape("Error")}}})
}

/// The document of these parts. `common` are the errors that the server itself may answer any request with.
#[must_use]
pub fn document(parts: impl IntoIterator<Item = Part>, version: &str, common: &[u16]) -> Value {
    let error = object(json!({"error": object(json!({"code": {"type": "string"}, "message": {"type": "string"}}))}));
    let mut whole = Part::default().shape("Error", error);
    for part in parts {
        whole.paths.extend(part.paths);
        whole.schemas.extend(part.schemas);
    }
    for operation in whole.paths.values_mut().filter_map(Value::as_object_mut).flat_map(|item| item.values_mut()) {
        if let Some(answers) = operation.get_mut("responses").and_then(Value::as_object_mut) {
            for status in common {
                answers.entry(status.to_string()).or_insert_with(|| error_answer(*status));
            }
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {"title": "dues", "version": version, "description": "Membership dues: streams in, billing records, what members may use, and what operators ask."},
        "paths": whole.paths,
        "components": {"schemas": whole.schemas},
    })
}
