//! The template, deployed on ministack with the real `bootstrap`.

use dues_events::Record;
use dues_store::dynamo::Dynamo;
use dues_store::{Store, SystemClock};
use serde_json::{Value, json};
use std::future::Future;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::aws::cognito_pool::nothing;
use crate::aws::ministack::{client_at, python, target_with_python};
use crate::aws::recording_proxy::Meddler;
use crate::aws::template::translated;
use crate::gateways::http_service::Payments;

/// Stripe's signing secret.
pub const SIGNING_SECRET: &str = "whsec_deployed";
/// The account of the stack. ministack assigns unsigned requests, such as Stripe's, to it.
pub const ACCOUNT: &str = "000000000000";
/// Timeout of [`eventually`]: a dozen processes share two cores.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A deployed stack.
pub struct Stack {
    /// The tables.
    pub store: Store<Dynamo>,
    /// Clients of the other services.
    pub aws: Meddler,
    /// The account id.
    pub account: String,
    /// The user pool's id.
    pub pool: String,
    /// The payments service.
    pub payments: Payments,
    endpoint: String,
    resources: Value,
}

impl Stack {
    /// Deploys the stack on a ministack that has none, with its schedules disabled.
    pub async fn deploy(endpoint: &str) -> Self {
        Self::deploy_with(endpoint, json!({}), ("", "")).await
    }

    /// Deploys with additional parameters, and with `action` removed from `role`.
    pub async fn deploy_with(endpoint: &str, more: Value, (role, action): (&str, &str)) -> Self {
        let (aws, account, payments) =
            (Meddler::at(endpoint, nothing), ACCOUNT.to_owned(), Payments::start().await);
        let secret = async |name: &str, value: &str| {
            let made =
                aws.secrets(&account).create_secret().name(name).secret_string(value).send().await.unwrap();
            made.arn.unwrap()
        };
        let pool = aws
            .cognito(&account)
            .create_user_pool()
            .pool_name("members")
            .send()
            .await
            .unwrap()
            .user_pool
            .unwrap()
            .id
            .unwrap();
        let mut parameters = json!({"GatewayUrl": payments.base(),
            "GatewaySecretArn": secret("gateway", "token-1").await,
            "StripeSecretArn": secret("stripe", SIGNING_SECRET).await, "UserPoolId": pool,
            "Schedules": "DISABLED"});
        parameters.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let asked = json!({"endpoint": endpoint, "key": account, "secret": "none", "stack": "dues",
            "artifact": artifact(),
            "template": translated("s3://artifacts/bootstrap.zip").1, "parameters": parameters,
            "without": {"role": role, "action": action}});
        let resources =
            tokio::task::spawn_blocking(move || deploy(&asked)).await.unwrap()["resources"].clone();
        let store = Store::new(Dynamo::new(client_at(endpoint, &account)), SystemClock::shared());
        Self { store, aws, account, pool, payments, endpoint: endpoint.to_owned(), resources }
    }

    /// The physical name of a resource of the template.
    pub fn named(&self, resource: &str) -> &str {
        self.resources[resource].as_str().unwrap_or_else(|| panic!("the stack has no {resource}"))
    }

    /// Puts a record on a Kinesis stream.
    pub async fn put(&self, stream: &str, key: &str, record: &Value) {
        let data = aws_sdk_kinesis::primitives::Blob::new(record.to_string());
        self.aws
            .kinesis(&self.account)
            .put_record()
            .stream_name(stream)
            .partition_key(key)
            .data(data)
            .send()
            .await
            .unwrap();
    }

    /// Puts a message on a queue.
    pub async fn send(&self, queue: &str, message: &Value) {
        self.aws
            .sqs(&self.account)
            .send_message()
            .queue_url(self.named(queue))
            .message_body(message.to_string())
            .send()
            .await
            .unwrap();
    }

    /// Puts an event on the bus.
    pub async fn publish(&self, kind: &str, detail: &Value) {
        let entry = aws_sdk_eventbridge::types::PutEventsRequestEntry::builder();
        let entry = entry
            .event_bus_name(self.named("Bus"))
            .source("company")
            .detail_type(kind)
            .detail(detail.to_string())
            .build();
        self.aws.eventbridge(&self.account).put_events().entries(entry).send().await.unwrap();
    }

    /// Sends an unauthenticated request to the API; returns status and body.
    pub async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
        let host = format!("{}.execute-api.{}", self.named("Api"), self.address());
        http(self.address(), &host, method, path, headers, body).await
    }

    fn address(&self) -> &str {
        address(&self.endpoint)
    }

    /// Invokes a function, as a schedule would.
    pub async fn invoke(&self, function: &str, event: &Value) -> Value {
        let path = format!("/2015-03-31/functions/{}/invocations", self.named(function));
        let credential = credential(&self.account, "lambda");
        let (status, body) = http(
            self.address(),
            self.address(),
            "POST",
            &path,
            &[("authorization", &credential)],
            &event.to_string(),
        )
        .await;
        assert_eq!(status, 200, "{body}");
        body
    }

    /// A user's first record, once it is as expected.
    pub async fn record(&self, user: &str, expected: impl Fn(&Record) -> bool) -> Record {
        let look = async || {
            let records = self.store.list_by_user_id(&user.into()).await.unwrap();
            records.into_iter().next().filter(|record| expected(record))
        };
        eventually(&format!("the record of {user}"), look).await
    }
}

/// Polls until `look` returns a value.
///
/// # Panics
/// After 60 seconds.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, look: impl Fn() -> F) -> T {
    let started = Instant::now();
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(started.elapsed() < TIMEOUT, "{what} did not appear");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The zip that `cargo xtask test` or `cargo xtask package` built.
fn artifact() -> PathBuf {
    let named = std::env::var_os("DUES_BOOTSTRAP").map(PathBuf::from);
    let zip = named.unwrap_or_else(|| target_with_python().join("lambda/bootstrap.zip"));
    assert!(zip.exists(), "the artifact is not there: run `cargo xtask package`");
    zip
}

fn deploy(asked: &Value) -> Value {
    let script = Command::new(python())
        .args(["-c", include_str!("deploy.py")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut script = script.unwrap();
    script.stdin.take().unwrap().write_all(asked.to_string().as_bytes()).unwrap();
    let output = script.wait_with_output().unwrap();
    assert!(output.status.success(), "the template was not deployed");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Calls DynamoDB Streams at a ministack without its SDK, which would be one more to build.
pub async fn streams(endpoint: &str, account: &str, operation: &str, body: &Value) -> Value {
    let (host, target) = (address(endpoint), format!("DynamoDBStreams_20120810.{operation}"));
    let headers = [
        ("authorization", &*credential(account, "dynamodb")),
        ("x-amz-target", &target),
        ("content-type", "application/x-amz-json-1.0"),
    ];
    let (status, answer) = http(host, host, "POST", "/", &headers, &body.to_string()).await;
    assert_eq!(status, 200, "{operation}: {answer}");
    answer
}

/// ministack reads the account from the credential and does not verify the signature.
fn credential(account: &str, service: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential={account}/20260101/eu-central-1/{service}/aws4_request, \
            SignedHeaders=host, Signature=0"
    )
}

fn address(endpoint: &str) -> &str {
    endpoint.trim_start_matches("http://")
}

async fn http(
    address: &str,
    host: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: \
            {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (
        head.split(' ').nth(1).unwrap().parse().unwrap(),
        serde_json::from_str(body).unwrap_or_else(|_| json!(body)),
    )
}
