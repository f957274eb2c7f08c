//! A proxy before SQS, EventBridge, Kinesis, Cognito and Secrets Manager on ministack that records every
//! request and injects faults.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Region};
use aws_sdk_eventbridge::types::Target;
use aws_sdk_kinesis::types::ShardIteratorType;
use aws_sdk_sqs::types::QueueAttributeName;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use serde_json::{Value, json};

use crate::aws::ministack::endpoint;
use crate::engines::dynoxide::credentials;

/// A recorded request of the code under test. Other operations, such as those of test setup, are not
/// recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The number of requests before it.
    pub number: usize,
    /// The operation.
    pub operation: String,
    /// The entries of the request; a request without a list of entries is its own single entry.
    pub entries: Vec<Value>,
}

/// What the proxy does with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mischief {
    /// Forward it.
    None,
    /// Reject it with this status and error; it does not arrive.
    Refuse(u16, &'static str),
    /// Forward it and lose the response.
    LoseAnswer,
    /// Drop the entries at these indexes and report this error for them; only SQS reports the sender's
    /// fault.
    Drop(Vec<usize>, &'static str),
    /// Split a list of groups into pages of this size: ministack returns all at once.
    Pages(usize),
}

/// The operations that are recorded and may fail.
const SEEN: [&str; 8] = [
    "SendMessageBatch",
    "PutEvents",
    "PutRecord",
    "PutRecords",
    "AdminListGroupsForUser",
    "AdminAddUserToGroup",
    "AdminRemoveUserFromGroup",
    "GetSecretValue",
];

/// Decides what happens to each request.
pub type Hook = Arc<dyn Fn(&Asked) -> Mischief + Send + Sync>;

/// A proxy between a client and ministack.
#[derive(Clone)]
pub struct Meddler {
    endpoint: String,
    inner: SharedHttpClient,
    hook: Hook,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// Builds a client of one of the SDK's crates: each has its own builder type, with the same methods.
macro_rules! client {
    ($sdk:ident, $connector:expr, $account:expr, $retries:expr) => {{
        let config = $sdk::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-central-1"))
            .endpoint_url($connector.endpoint.as_str())
            .credentials_provider(credentials($account))
            .retry_config($retries)
            .http_client(SharedHttpClient::new($connector.clone()))
            .build();
        $sdk::Client::from_conf(config)
    }};
}

impl Meddler {
    /// A proxy that asks `hook` about every request.
    pub fn new(hook: impl Fn(&Asked) -> Mischief + Send + Sync + 'static) -> Self {
        Self::at(endpoint(), hook)
    }

    /// A proxy before another ministack.
    pub fn at(endpoint: &str, hook: impl Fn(&Asked) -> Mischief + Send + Sync + 'static) -> Self {
        let inner = aws_smithy_http_client::Builder::new().build_http();
        Self { endpoint: endpoint.to_owned(), inner, hook: Arc::new(hook), asked: Arc::default() }
    }

    /// The requests recorded so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.lock().clone()
    }

    /// The number of entries of each request.
    pub fn sizes(&self) -> Vec<usize> {
        self.lock().iter().map(|asked| asked.entries.len()).collect()
    }

    /// A client for SQS in this account. It does not retry: the code under test does.
    pub fn sqs(&self, account: &str) -> aws_sdk_sqs::Client {
        client!(aws_sdk_sqs, self, account, RetryConfig::disabled())
    }

    /// A client for EventBridge, without retries.
    pub fn eventbridge(&self, account: &str) -> aws_sdk_eventbridge::Client {
        client!(aws_sdk_eventbridge, self, account, RetryConfig::disabled())
    }

    /// A client for Kinesis with the SDK's retries: tests verify that the code turns them off.
    pub fn kinesis(&self, account: &str) -> aws_sdk_kinesis::Client {
        client!(aws_sdk_kinesis, self, account, RetryConfig::standard())
    }

    /// A client for Cognito with the SDK's retries: tests verify that the code turns them off.
    pub fn cognito(&self, account: &str) -> aws_sdk_cognitoidentityprovider::Client {
        client!(aws_sdk_cognitoidentityprovider, self, account, RetryConfig::standard())
    }

    /// A client for Secrets Manager.
    pub fn secrets(&self, account: &str) -> aws_sdk_secretsmanager::Client {
        client!(aws_sdk_secretsmanager, self, account, RetryConfig::disabled())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, operation: &str, body: &Value) -> Asked {
        let mut all = self.lock();
        let entries = body[list(operation)].as_array().cloned().unwrap_or_else(|| vec![body.clone()]);
        let asked = Asked { number: all.len(), operation: operation.to_owned(), entries };
        all.push(asked.clone());
        asked
    }
}

impl fmt::Debug for Meddler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meddler").finish_non_exhaustive()
    }
}

impl HttpClient for Meddler {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(Line {
            meddler: self.clone(),
            inner: self.inner.http_connector(settings, components),
        })
    }
}

#[derive(Debug)]
struct Line {
    meddler: Meddler,
    inner: SharedHttpConnector,
}

impl HttpConnector for Line {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        if !SEEN.contains(&operation.as_str()) {
            return self.inner.call(request);
        }
        let body: Value = serde_json::from_slice(request.body().bytes().unwrap()).unwrap();
        let asked = self.meddler.note(&operation, &body);
        let inner = self.inner.clone();
        match (self.meddler.hook)(&asked) {
            Mischief::None => inner.call(request),
            Mischief::Refuse(status, error) => {
                HttpConnectorFuture::ready(Ok(response(status, &json!({"__type": error, "message": "no"}))))
            }
            Mischief::LoseAnswer => HttpConnectorFuture::new(async move {
                inner.call(request).await?;
                Err(ConnectorError::timeout("the answer was lost".into()))
            }),
            Mischief::Drop(places, error) => {
                HttpConnectorFuture::new(drop_some(inner, request, asked, body, places, error))
            }
            Mischief::Pages(size) => HttpConnectorFuture::new(cut(inner, request, body, size)),
        }
    }
}

/// The name of the list of entries in requests and responses of an operation.
fn list(operation: &str) -> &'static str {
    if operation == "PutRecords" { "Records" } else { "Entries" }
}

/// Forwards the entries that are not dropped, and adds errors for the others to the response.
async fn drop_some(
    inner: SharedHttpConnector,
    mut request: HttpRequest,
    asked: Asked,
    mut body: Value,
    places: Vec<usize>,
    error: &'static str,
) -> Result<HttpResponse, ConnectorError> {
    let kept: Vec<&Value> = asked
        .entries
        .iter()
        .enumerate()
        .filter(|(place, _)| !places.contains(place))
        .map(|(_, entry)| entry)
        .collect();
    let list = list(&asked.operation);
    let mut answer = json!({list: [], "Successful": [], "Failed": []});
    if !kept.is_empty() {
        body[list] = json!(kept);
        let text = body.to_string();
        request.headers_mut().insert("content-length", text.len().to_string());
        *request.body_mut() = SdkBody::from(text);
        answer = read(inner.call(request).await?).await?;
    }
    for place in places.iter().filter(|place| **place < asked.entries.len()) {
        if asked.operation != "SendMessageBatch" {
            answer[list]
                .as_array_mut()
                .unwrap()
                .insert(*place, json!({"ErrorCode": error, "ErrorMessage": "dropped"}));
            answer["FailedEntryCount"] = json!(places.len());
            answer["FailedRecordCount"] = json!(places.len());
        } else {
            let id = &asked.entries[*place]["Id"];
            let fault = error == "InvalidMessageContents";
            let failed = json!({"Id": id, "Code": error, "SenderFault": fault, "Message": "dropped"});
            if !answer["Failed"].is_array() {
                answer["Failed"] = json!([]);
            }
            answer["Failed"].as_array_mut().unwrap().push(failed);
        }
    }
    Ok(response(200, &answer))
}

/// Responds with one page of the groups; the token is the number of groups before the page.
async fn cut(
    inner: SharedHttpConnector,
    request: HttpRequest,
    body: Value,
    size: usize,
) -> Result<HttpResponse, ConnectorError> {
    let start: usize = body["NextToken"].as_str().map_or(0, |token| token.parse().unwrap());
    let mut answer = read(inner.call(request).await?).await?;
    let groups = answer["Groups"].as_array().unwrap().clone();
    answer["Groups"] = groups.iter().skip(start).take(size).cloned().collect();
    if start + size < groups.len() {
        answer["NextToken"] = json!((start + size).to_string());
    }
    Ok(response(200, &answer))
}

async fn read(said: HttpResponse) -> Result<Value, ConnectorError> {
    let bytes = ByteStream::new(said.into_body())
        .collect()
        .await
        .map_err(|error| ConnectorError::io(error.into()))?;
    Ok(serde_json::from_slice(&bytes.into_bytes()).unwrap())
}

fn response(status: u16, body: &Value) -> HttpResponse {
    HttpResponse::new(StatusCode::try_from(status).unwrap(), SdkBody::from(body.to_string()))
}

/// Creates a bus with a rule that sends events of these types to a queue; returns the queue's URL.
pub async fn listen(
    sqs: &aws_sdk_sqs::Client,
    events: &aws_sdk_eventbridge::Client,
    bus: &str,
    types: &[&str],
) -> String {
    let url = sqs.create_queue().queue_name("messages").send().await.unwrap().queue_url.unwrap();
    let attributes = sqs
        .get_queue_attributes()
        .queue_url(&url)
        .attribute_names(QueueAttributeName::QueueArn)
        .send()
        .await
        .unwrap();
    let arn = attributes.attributes().unwrap()[&QueueAttributeName::QueueArn].clone();
    events.create_event_bus().name(bus).send().await.unwrap();
    let pattern = json!({"source": ["dues"], "detail-type": types}).to_string();
    events.put_rule().name("all").event_bus_name(bus).event_pattern(pattern).send().await.unwrap();
    let target = Target::builder().id("queue").arn(arn).build().unwrap();
    events.put_targets().rule("all").event_bus_name(bus).targets(target).send().await.unwrap();
    url
}

/// Receives all messages of a queue, sorted by text.
pub async fn drain(client: &aws_sdk_sqs::Client, url: &str) -> Vec<Value> {
    let mut all = Vec::new();
    let mut empty = 0;
    while empty < 2 {
        let got = client.receive_message().queue_url(url).max_number_of_messages(10).send().await.unwrap();
        empty = if got.messages().is_empty() { empty + 1 } else { 0 };
        for message in got.messages() {
            all.push(message.body().unwrap().to_owned());
            client
                .delete_message()
                .queue_url(url)
                .receipt_handle(message.receipt_handle().unwrap())
                .send()
                .await
                .unwrap();
        }
    }
    all.sort();
    all.iter().map(|body| serde_json::from_str(body).unwrap()).collect()
}

/// Keys and data of all records of a stream, shard by shard, in order.
pub async fn read_stream(client: &aws_sdk_kinesis::Client, stream: &str) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for shard in client.list_shards().stream_name(stream).send().await.unwrap().shards() {
        let start = client
            .get_shard_iterator()
            .stream_name(stream)
            .shard_iterator_type(ShardIteratorType::TrimHorizon);
        let mut next = start.shard_id(shard.shard_id()).send().await.unwrap().shard_iterator;
        while let Some(iterator) = next {
            let got = client.get_records().shard_iterator(iterator).send().await.unwrap();
            all.extend(
                got.records().iter().map(|record| {
                    (record.partition_key().unwrap().to_owned(), record.data().as_ref().to_vec())
                }),
            );
            next = got.next_shard_iterator.filter(|_| !got.records.is_empty());
        }
    }
    all
}
