//! The OpenAPI document, built from the descriptions of routes and the schemas of their types.

use axum::http::Method;
use serde_json::Value;
use utoipa::openapi::header::Header;
use utoipa::openapi::path::{HttpMethod, Operation as Described, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{AnyOfBuilder, Components, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::security::{SecurityRequirement, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    Content, ContentBuilder, Info, OpenApi, Paths, RefOr, Required, Response, ResponseBuilder,
};
use utoipa::{IntoParams, PartialSchema as _, ToSchema};

use super::schema::{ErrorBody, Id};

/// Descriptions of error statuses, the same on every path.
const MEANINGS: [(u16, &str); 12] = [
    (400, "The body cannot be read."),
    (401, "Token missing or wrong."),
    (402, "Payment refused."),
    (403, "Not allowed."),
    (404, "Not found, or owned by another user."),
    (408, "The body took too long."),
    (409, "Not possible in the current state."),
    (413, "Request too large."),
    (422, "Invalid field; the message names it."),
    (429, "Too busy: retry after the seconds in Retry-After."),
    (500, "The store cannot read or write the records."),
    (503, "Temporarily unavailable: retry."),
];
/// Statuses of authentication; routes without authentication do not have them.
const AUTHENTICATION: [u16; 2] = [401, 403];

type Schemas = Vec<(String, RefOr<Schema>)>;

/// Builder of the OpenAPI document.
pub struct Document {
    openapi: OpenApi,
    tag: &'static str,
}

impl Document {
    /// A document without routes.
    #[must_use]
    pub fn new(version: &str) -> Self {
        let mut info = Info::new("dues", version);
        info.description = Some(
            "Membership billing: streams in; billing records, entitlements, usage and read models out."
                .to_owned(),
        );
        let mut openapi = OpenApi::new(info, Paths::new());
        openapi.components = Some(Components::new());
        Self { openapi, tag: "" }
    }

    /// Adds a security scheme.
    #[must_use]
    pub fn scheme(mut self, name: &str, scheme: impl Into<SecurityScheme>) -> Self {
        if let Some(components) = &mut self.openapi.components {
            components.add_security_scheme(name, scheme);
        }
        self
    }

    /// Requires a security scheme on all routes that do not override it.
    #[must_use]
    pub fn demand(mut self, scheme: &str) -> Self {
        self.openapi.security = Some(vec![SecurityRequirement::new::<_, [String; 0], String>(scheme, [])]);
        self
    }

    /// The document as JSON, with the `common` errors on every route.
    #[must_use]
    pub fn finish(mut self, common: &[u16]) -> Value {
        for item in self.openapi.paths.paths.values_mut() {
            let operations =
                [&mut item.get, &mut item.put, &mut item.post, &mut item.delete].into_iter().flatten();
            for operation in operations {
                let is_open = operation.security.is_some();
                for status in common.iter().filter(|status| !(is_open && AUTHENTICATION.contains(status))) {
                    let answers = &mut operation.responses.responses;
                    answers.entry(status.to_string()).or_insert_with(|| error(*status).into());
                }
            }
        }
        // Serialisation cannot fail: all keys are strings.
        serde_json::to_value(self.openapi).unwrap_or_default()
    }

    /// Starts a group: the routes that follow have this tag.
    #[must_use]
    pub fn with_tag(mut self, name: &'static str, description: &'static str) -> Self {
        self.tag = name;
        let tags = self.openapi.tags.get_or_insert_default();
        if !tags.iter().any(|tag| tag.name == name) {
            tags.push(TagBuilder::new().name(name).description(Some(description)).build());
        }
        self
    }

    /// Adds a route. Path segments in braces are ids.
    #[must_use]
    pub fn with(mut self, method: &Method, path: &str, operation: Operation) -> Self {
        let Operation { mut described, mut schemas, ids } = operation;
        collect::<ErrorBody>(&mut schemas);
        let names = path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
        let parameters = names.map(|name| {
            let known = ids.iter().find(|(known, _)| *known == name).map(|(_, schema)| schema.clone());
            let schema = known.unwrap_or_else(|| collect::<Id>(&mut schemas));
            ParameterBuilder::new()
                .name(name)
                .parameter_in(ParameterIn::Path)
                .required(Required::True)
                .schema(Some(schema))
                .build()
        });
        let parameters: Vec<_> = parameters.collect();
        let queries = described.parameters.take().unwrap_or_default();
        described.parameters = Some(parameters.into_iter().chain(queries).collect());
        described.tags = Some(vec![self.tag.to_owned()]);
        let method = match *method {
            Method::PUT => HttpMethod::Put,
            Method::POST => HttpMethod::Post,
            Method::DELETE => HttpMethod::Delete,
            _ => HttpMethod::Get,
        };
        self.openapi.paths.add_path_operation(path, vec![method], described);
        if let Some(components) = &mut self.openapi.components {
            components.schemas.extend(schemas);
        }
        self
    }
}

/// The description of a route.
pub struct Operation {
    described: Described,
    schemas: Schemas,
    ids: Vec<(&'static str, RefOr<Schema>)>,
}

impl Operation {
    /// With its operation id, which generated clients use as a name, and a summary.
    #[must_use]
    pub fn new(name: &str, summary: &str) -> Self {
        let mut described = Described::new();
        described.operation_id = Some(name.to_owned());
        described.summary = Some(summary.to_owned());
        Self { described, schemas: Vec::new(), ids: Vec::new() }
    }

    /// Sets the schema of a path id that is not free text.
    #[must_use]
    pub fn id(mut self, name: &'static str, schema: RefOr<Schema>) -> Self {
        self.ids.push((name, schema));
        self
    }

    /// Takes these query parameters.
    #[must_use]
    pub fn query<T: IntoParams>(mut self) -> Self {
        let parameters = T::into_params(|| Some(ParameterIn::Query));
        self.described.parameters.get_or_insert_default().extend(parameters);
        self
    }

    /// Takes an optional JSON body.
    #[must_use]
    pub fn body<T: ToSchema>(mut self) -> Self {
        let schema = collect::<T>(&mut self.schemas);
        self.content("application/json", Content::new(Some(schema)))
    }

    /// Takes a required JSON body.
    #[must_use]
    pub fn needs<T: ToSchema>(self) -> Self {
        self.body::<T>().required()
    }

    /// Takes a required JSON body of one of two types.
    #[must_use]
    pub fn needs_either<A: ToSchema, B: ToSchema>(mut self) -> Self {
        let schema = self.either::<A, B>();
        self.content("application/json", Content::new(Some(schema))).required()
    }

    /// Takes a body of that media type.
    #[must_use]
    pub fn content(mut self, media_type: &str, content: Content) -> Self {
        let body = self.described.request_body.take().unwrap_or_default();
        self.described.request_body =
            Some(RequestBodyBuilder::from(body).content(media_type, content).build());
        self
    }

    /// Responds with JSON.
    #[must_use]
    pub fn answer<T: ToSchema>(mut self, status: u16, description: &str) -> Self {
        let schema = collect::<T>(&mut self.schemas);
        self.responds(status, answer(status, description, "application/json", schema))
    }

    /// Responds with JSON of one of two types.
    #[must_use]
    pub fn answer_either<A: ToSchema, B: ToSchema>(mut self, status: u16, description: &str) -> Self {
        let schema = self.either::<A, B>();
        self.responds(status, answer(status, description, "application/json", schema))
    }

    /// Responds with text.
    #[must_use]
    pub fn answer_text(self, status: u16, description: &str) -> Self {
        self.responds(status, answer(status, description, "text/plain", String::schema()))
    }

    /// Responds with these errors.
    #[must_use]
    pub fn errors(self, statuses: &[u16]) -> Self {
        statuses.iter().fold(self, |all, status| {
            match all.described.responses.responses.contains_key(&status.to_string()) {
                true => all,
                false => all.responds(*status, error(*status)),
            }
        })
    }

    /// Needs no authentication.
    #[must_use]
    pub fn open(mut self) -> Self {
        self.described.security = Some(Vec::new());
        self
    }

    /// Accepts only this security scheme.
    #[must_use]
    pub fn known_by(mut self, scheme: &str) -> Self {
        self.described.security = Some(vec![SecurityRequirement::new::<_, [String; 0], String>(scheme, [])]);
        self
    }

    /// Adds the schemas of a type that is only referenced.
    #[must_use]
    pub fn names<T: ToSchema>(mut self) -> Self {
        collect::<T>(&mut self.schemas);
        self
    }

    fn required(mut self) -> Self {
        if let Some(RequestBody { required, .. }) = &mut self.described.request_body {
            *required = Some(Required::True);
        }
        self
    }

    fn responds(mut self, status: u16, response: Response) -> Self {
        self.described.responses.responses.insert(status.to_string(), response.into());
        self
    }

    fn either<A: ToSchema, B: ToSchema>(&mut self) -> RefOr<Schema> {
        let (a, b) = (collect::<A>(&mut self.schemas), collect::<B>(&mut self.schemas));
        Schema::AnyOf(AnyOfBuilder::new().item(a).item(b).build()).into()
    }
}

/// The schema of a string with these values.
#[must_use]
pub fn one_of<'a>(texts: impl IntoIterator<Item = &'a str>) -> RefOr<Schema> {
    let object = ObjectBuilder::new().schema_type(SchemaType::new(Type::String));
    Schema::Object(object.enum_values(Some(texts)).build()).into()
}

/// A reference to a type; collects its schema and those that it references.
fn collect<T: ToSchema>(schemas: &mut Schemas) -> RefOr<Schema> {
    T::schemas(schemas);
    schemas.push((T::name().into_owned(), T::schema()));
    RefOr::Ref(utoipa::openapi::Ref::from_schema_name(T::name()))
}

fn error(status: u16) -> Response {
    let meaning =
        MEANINGS.iter().find(|(known, _)| *known == status).map_or("Refused.", |(_, meaning)| meaning);
    let schema = RefOr::Ref(utoipa::openapi::Ref::from_schema_name(ErrorBody::name()));
    answer(status, meaning, "application/json", schema)
}

fn answer(status: u16, description: &str, media_type: &str, schema: RefOr<Schema>) -> Response {
    let content = ContentBuilder::new().schema(Some(schema)).build();
    let answer = ResponseBuilder::new().description(description).content(media_type, content);
    match status {
        429 => answer.header("Retry-After", Header::new(u32::schema())).build(),
        _ => answer.build(),
    }
}
