//! In-process DynamoDB: the AWS SDK's requests go to a `dynoxide` database instead of the network.
//!
//! Every request is recorded, and a test can make any of them fail as a network or a throttled table does.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::dynoxide::{Database, DynoxideError};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use serde_json::{Value, json};

/// An incoming request, as a fault hook sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct CallInfo {
    /// The number of requests before it, since the start or [`Dynoxide::reset_calls`].
    pub number: usize,
    /// The operation, such as `PutItem`.
    pub operation: String,
    /// The tables it names, sorted.
    pub tables: Vec<String>,
    /// The request body.
    pub body: Value,
}

/// A recorded request with its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The operation, such as `PutItem`.
    pub operation: String,
    /// The tables it names, sorted.
    pub tables: Vec<String>,
    /// Consumed capacity over all tables, if the request set `ReturnConsumedCapacity` and was performed.
    pub capacity: Option<f64>,
    /// The injected fault.
    pub fault: Fault,
    /// The error in the response, such as `ConditionalCheckFailedException`; a dropped request has none.
    pub error: Option<String>,
}

/// A fault of the network or the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    None,
    /// The table is throttled: nothing is performed.
    Throttle,
    /// The connection is reset before the request arrives: nothing is performed.
    DropRequest,
    /// The request is performed, but the response is lost: the caller sees a timeout.
    DropResponse,
    /// Of a batch, the first half (rounded up, so that there is progress) is performed and the rest returned
    /// as unprocessed. Other operations are performed as usual.
    Unprocessed,
}

/// Chooses the fault of each request.
pub type FaultHook = Arc<dyn Fn(&CallInfo) -> Fault + Send + Sync>;

/// An empty DynamoDB. Clones share the database.
#[derive(Clone)]
pub struct Dynoxide {
    shared: Arc<Shared>,
}

struct Shared {
    database: Database,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    started: usize,
    fault: Option<FaultHook>,
    latency: Duration,
}

impl Default for Dynoxide {
    fn default() -> Self {
        Self::new()
    }
}

impl Dynoxide {
    /// An in-memory database.
    pub fn new() -> Self {
        match Database::memory() {
            Ok(database) => Self { shared: Arc::new(Shared { database, state: Mutex::default() }) },
            Err(error) => panic!("open a dynoxide database in memory: {error}"),
        }
    }

    /// A client without retries: the code under test retries.
    pub fn client(&self) -> Client {
        self.client_with(RetryConfig::disabled())
    }

    /// A client with the SDK's own retries.
    pub fn client_with(&self, retries: RetryConfig) -> Client {
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-central-1"))
            .endpoint_url("http://dynoxide.invalid")
            .credentials_provider(credentials("000000000000"))
            .retry_config(retries)
            .http_client(self.http_client())
            .build();
        Client::from_conf(config)
    }

    /// The HTTP client for any SDK client of this database, including DynamoDB Streams.
    pub fn http_client(&self) -> SharedHttpClient {
        SharedHttpClient::new(self.clone())
    }

    /// The database itself, for operations that the API lacks, such as `sweep_ttl`.
    pub fn database(&self) -> &Database {
        &self.shared.database
    }

    /// The requests so far, in the order of their responses.
    pub fn calls(&self) -> Vec<Call> {
        self.state().calls.clone()
    }

    /// Clears the recorded requests.
    pub fn reset_calls(&self) {
        let mut state = self.state();
        state.calls.clear();
        state.started = 0;
    }

    /// Sets the fault hook for later requests.
    pub fn set_fault(&self, fault: Option<FaultHook>) {
        self.state().fault = fault;
    }

    /// Sets the latency of every request, on tokio's clock.
    pub fn set_latency(&self, latency: Duration) {
        self.state().latency = latency;
    }

    /// Performs an operation on its JSON, without faults or recording. The error is DynamoDB's JSON.
    pub fn request(&self, operation: &str, body: &Value) -> Result<Value, Value> {
        perform(&self.shared.database, operation, body).map_err(|error| error.body)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(self, operation: String, body: Value) -> Result<HttpResponse, ConnectorError> {
        let (call, hook, latency) = {
            let mut state = self.state();
            let number = state.started;
            state.started += 1;
            let tables = tables(&body);
            (CallInfo { number, operation, tables, body }, state.fault.clone(), state.latency)
        };
        let fault = hook.map_or(Fault::None, |hook| hook(&call));
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        let answer = self.carry_out(&call, fault);
        self.state().calls.push(Call {
            capacity: answer.as_ref().and_then(|answer| answer.as_ref().ok()).and_then(capacity),
            error: answer.as_ref().and_then(|answer| answer.as_ref().err()).map(Refusal::name),
            operation: call.operation,
            tables: call.tables,
            fault,
        });
        match (fault, answer) {
            (Fault::DropResponse, _) => Err(ConnectorError::timeout("the answer was lost".into())),
            (_, None) => Err(ConnectorError::io("the connection was reset".into())),
            (_, Some(Ok(body))) => response(200, &body),
            (_, Some(Err(refusal))) => response(refusal.status, &refusal.body),
        }
    }

    /// `None` if the request never arrived.
    fn carry_out(&self, call: &CallInfo, fault: Fault) -> Option<Result<Value, Refusal>> {
        let database = &self.shared.database;
        match fault {
            Fault::None | Fault::DropResponse => Some(perform(database, &call.operation, &call.body)),
            Fault::DropRequest => None,
            Fault::Throttle => Some(Err(DynoxideError::ProvisionedThroughputExceededException(
                "The level of configured provisioned throughput for the table was exceeded.".into(),
            )
            .into())),
            Fault::Unprocessed => Some(perform_half(database, call)),
        }
    }
}

impl fmt::Debug for Dynoxide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dynoxide").finish_non_exhaustive()
    }
}

impl HttpClient for Dynoxide {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Dynoxide {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        // For example `DynamoDB_20120810.PutItem`.
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        match serde_json::from_slice(request.body().bytes().unwrap_or_default()) {
            Ok(body) => HttpConnectorFuture::new(self.clone().answer(operation, body)),
            Err(error) => HttpConnectorFuture::ready(Err(ConnectorError::user(error.into()))),
        }
    }
}

/// Credentials that name an account and grant nothing.
pub(crate) fn credentials(account: &str) -> Credentials {
    Credentials::builder()
        .access_key_id(account)
        .secret_access_key("none")
        .provider_name("dues-tests")
        .build()
}

/// An error in DynamoDB's wire format.
#[derive(Debug)]
struct Refusal {
    status: u16,
    body: Value,
}

impl Refusal {
    fn new(status: u16, name: &str, message: &str) -> Self {
        Self {
            status,
            body: json!({"__type": format!("com.amazonaws.dynamodb.v20120810#{name}"), "message": message}),
        }
    }

    /// dynoxide marks DynamoDB's validation errors with a prefix; the others are serde's.
    fn unreadable(error: serde_json::Error) -> Self {
        let text = error.to_string();
        match text.split_once(':') {
            Some((mark, why)) if mark.starts_with("VALIDATION") => {
                Self::new(400, "ValidationException", why.trim())
            }
            Some(_) | None => Self::new(400, "SerializationException", &text),
        }
    }

    /// The error name without its namespace.
    fn name(&self) -> String {
        let full = self.body["__type"].as_str().unwrap_or_default();
        full.rsplit('#').next().unwrap_or_default().to_owned()
    }
}

impl From<DynoxideError> for Refusal {
    fn from(error: DynoxideError) -> Self {
        match serde_json::from_str(&error.to_json()) {
            Ok(body) => Self { status: error.status_code(), body },
            Err(_) => Self::new(500, "InternalServerError", &error.to_string()),
        }
    }
}

fn perform(database: &Database, operation: &str, body: &Value) -> Result<Value, Refusal> {
    /// Decodes the request, calls the database, encodes the response.
    macro_rules! call {
        ($method:ident) => {{
            let request = serde_json::from_value(body.clone()).map_err(Refusal::unreadable)?;
            let answer = database.$method(request)?;
            serde_json::to_value(answer)
                .map_err(|error| Refusal::new(500, "InternalServerError", &error.to_string()))
        }};
    }
    match operation {
        "BatchGetItem" => call!(batch_get_item),
        "BatchWriteItem" => call!(batch_write_item),
        "CreateTable" => call!(create_table),
        "DeleteItem" => call!(delete_item),
        "DeleteTable" => call!(delete_table),
        "DescribeStream" => call!(describe_stream),
        "DescribeTable" => call!(describe_table),
        "DescribeTimeToLive" => call!(describe_time_to_live),
        "GetItem" => call!(get_item),
        "GetRecords" => call!(get_records),
        "GetShardIterator" => call!(get_shard_iterator),
        "ListStreams" => call!(list_streams),
        "ListTables" => call!(list_tables),
        "PutItem" => call!(put_item),
        "Query" => call!(query),
        "Scan" => call!(scan),
        "TransactGetItems" => call!(transact_get_items),
        "TransactWriteItems" => call!(transact_write_items),
        "UpdateItem" => call!(update_item),
        "UpdateTable" => call!(update_table),
        "UpdateTimeToLive" => call!(update_time_to_live),
        other => Err(Refusal::new(400, "UnknownOperationException", other)),
    }
}

/// Performs the first half of a batch and returns the rest as unprocessed.
fn perform_half(database: &Database, call: &CallInfo) -> Result<Value, Refusal> {
    let handed_back = match call.operation.as_str() {
        "BatchWriteItem" => "UnprocessedItems",
        "BatchGetItem" => "UnprocessedKeys",
        _ => return perform(database, &call.operation, &call.body),
    };
    let mut first = call.body.clone();
    let mut rest = call.body["RequestItems"].clone();
    let total: usize = call.tables.iter().filter_map(|table| Some(items(&mut rest[table])?.len())).sum();
    let mut left = total.div_ceil(2);
    for table in &call.tables {
        if let (Some(now), Some(later)) = (items(&mut first["RequestItems"][table]), items(&mut rest[table]))
        {
            let here = left.min(now.len());
            now.truncate(here);
            later.drain(..here);
            left -= here;
        }
    }
    drop_empty_tables(&mut first["RequestItems"]);
    drop_empty_tables(&mut rest);
    let mut answer = perform(database, &call.operation, &first)?;
    answer[handed_back] = rest;
    Ok(answer)
}

/// The entries of a batch for one table: the list itself in a write, the list of keys in a read.
fn items(of_a_table: &mut Value) -> Option<&mut Vec<Value>> {
    if of_a_table.is_array() { of_a_table.as_array_mut() } else { of_a_table.get_mut("Keys")?.as_array_mut() }
}

fn drop_empty_tables(request_items: &mut Value) {
    if let Some(tables) = request_items.as_object_mut() {
        tables.retain(|_, wanted| items(wanted).is_some_and(|items| !items.is_empty()));
    }
}

/// The tables in a request: one, those of a batch, or those of a transaction.
fn tables(body: &Value) -> Vec<String> {
    let one = body["TableName"].as_str().map(str::to_owned);
    let batch = body["RequestItems"].as_object().into_iter().flat_map(|tables| tables.keys().cloned());
    let actions = body["TransactItems"].as_array().into_iter().flatten();
    let transaction = actions
        .filter_map(Value::as_object)
        .flat_map(|action| action.values())
        .filter_map(|action| action["TableName"].as_str().map(str::to_owned));
    let mut tables: Vec<String> = one.into_iter().chain(batch).chain(transaction).collect();
    tables.sort_unstable();
    tables.dedup();
    tables
}

/// The consumed capacity in a response: of one table, or of each table in a list.
fn capacity(answer: &Value) -> Option<f64> {
    let consumed = answer.get("ConsumedCapacity")?;
    match consumed.as_array() {
        Some(each) => Some(each.iter().filter_map(|of_a_table| of_a_table["CapacityUnits"].as_f64()).sum()),
        None => consumed["CapacityUnits"].as_f64(),
    }
}

fn response(status: u16, body: &Value) -> Result<HttpResponse, ConnectorError> {
    let status = StatusCode::try_from(status).map_err(|error| ConnectorError::user(error.into()))?;
    let mut response = HttpResponse::new(status, SdkBody::from(body.to_string()));
    response.headers_mut().insert("content-type", "application/x-amz-json-1.0");
    Ok(response)
}

#[cfg(test)]
mod tests;
