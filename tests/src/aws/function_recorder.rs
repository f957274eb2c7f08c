//! Runs a function as Lambda would start it, without a deployment, and records every AWS call under its IAM
//! name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use dues_lambda::permissions::Resource;
use dues_lambda::{Clients, Env, Function, Handle, env, start};
use dues_store::SharedClock;
use dues_store::dynamo::Dynamo;
use serde_json::{Value, json};

use crate::aws::cognito_pool::{TIERS, nothing};
use crate::aws::ministack::{endpoint, new_account};
use crate::aws::recording_proxy::Meddler;
use crate::engines;
use crate::engines::dynoxide::Dynoxide;
use crate::gateways::http_service::Payments;

/// A call: the IAM action, and the resource as [`Resource::name`] has it.
pub type Made = (String, String);

/// Records calls and forwards them: DynamoDB's to the in-process database, all others to ministack.
#[derive(Clone)]
pub struct Recorder {
    database: Dynoxide,
    network: SharedHttpClient,
    made: Arc<Mutex<BTreeSet<Made>>>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl Recorder {
    fn note(&self, made: impl IntoIterator<Item = Made>) {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).extend(made);
    }
}

impl HttpClient for Recorder {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(Line {
            recorder: self.clone(),
            network: self.network.http_connector(settings, components),
        })
    }
}

#[derive(Debug)]
struct Line {
    recorder: Recorder,
    network: SharedHttpConnector,
}

impl HttpConnector for Line {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap().to_owned();
        let (service, operation) = target.split_once('.').unwrap();
        let body: Value = serde_json::from_slice(request.body().bytes().unwrap()).unwrap();
        self.recorder.note(made(service, operation, &body));
        if service == "DynamoDB_20120810" {
            self.recorder.database.call(request)
        } else {
            self.network.call(request)
        }
    }
}

/// The IAM actions and resources of a request.
fn made(service: &str, operation: &str, body: &Value) -> Vec<Made> {
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let one = |action: String, resource: String| vec![(action, resource)];
    match service {
        "DynamoDB_20120810" if operation == "TransactWriteItems" => {
            let parts =
                body["TransactItems"].as_array().unwrap().iter().flat_map(|item| item.as_object().unwrap());
            let action = |part: &str| {
                if part == "ConditionCheck" { "ConditionCheckItem".to_owned() } else { format!("{part}Item") }
            };
            parts
                .map(|(part, about)| {
                    (format!("dynamodb:{}", action(part)), about["TableName"].as_str().unwrap().to_owned())
                })
                .collect()
        }
        "DynamoDB_20120810" => {
            let index = body["IndexName"].as_str().map(|index| format!("/{index}")).unwrap_or_default();
            one(format!("dynamodb:{operation}"), text("TableName") + &index)
        }
        "AmazonSQS" => one(format!("sqs:{}", operation.trim_end_matches("Batch")), Resource::Queue.name()),
        "Kinesis_20131202" => {
            let stream =
                if text("StreamName") == "stripe" { Resource::Inbox } else { Resource::Subscriptions };
            one(format!("kinesis:{operation}"), stream.name())
        }
        "AWSEvents" => one(format!("events:{operation}"), Resource::Bus.name()),
        "AWSCognitoIdentityProviderService" => one(format!("cognito-idp:{operation}"), Resource::Pool.name()),
        "secretsmanager" => {
            let secret = if text("SecretId").contains("stripe") {
                Resource::StripeSecret
            } else {
                Resource::GatewaySecret
            };
            one(format!("secretsmanager:{operation}"), secret.name())
        }
        other => panic!("unknown service {other}"),
    }
}

/// Everything that a deployment has, for one test.
pub struct Site {
    /// The tables, unrecorded.
    pub engine: Dynamo,
    /// The database of the tables.
    pub database: Dynoxide,
    /// The payments service.
    pub payments: Payments,
    /// The user pool's id, and a client for it.
    pub pool: (String, aws_sdk_cognitoidentityprovider::Client),
    /// A client of the streams.
    pub kinesis: aws_sdk_kinesis::Client,
    clock: SharedClock,
    recorder: Recorder,
    variables: BTreeMap<String, String>,
}

impl Site {
    /// Creates tables, queue, inbox, bus, pool and secrets.
    pub async fn new(clock: SharedClock) -> Self {
        let (engine, database) = engines::dynoxide().await;
        let (aws, account, payments) = (Meddler::new(nothing), new_account(), Payments::start().await);
        let queue = aws
            .sqs(&account)
            .create_queue()
            .queue_name("collections")
            .send()
            .await
            .unwrap()
            .queue_url
            .unwrap();
        aws.eventbridge(&account).create_event_bus().name("company").send().await.unwrap();
        for stream in ["stripe", "subscriptions"] {
            aws.kinesis(&account).create_stream().stream_name(stream).shard_count(1).send().await.unwrap();
        }
        let secret = async |name: &str, value: &str| {
            let made =
                aws.secrets(&account).create_secret().name(name).secret_string(value).send().await.unwrap();
            made.arn.unwrap()
        };
        let cognito = aws.cognito(&account);
        let pool = cognito
            .create_user_pool()
            .pool_name("members")
            .send()
            .await
            .unwrap()
            .user_pool
            .unwrap()
            .id
            .unwrap();
        for group in TIERS {
            cognito.create_group().user_pool_id(&pool).group_name(group).send().await.unwrap();
        }
        let variables = [
            ("AWS_ACCESS_KEY_ID", account.clone()),
            ("AWS_SECRET_ACCESS_KEY", "none".to_owned()),
            (env::REGION, "eu-central-1".to_owned()),
            (env::ENDPOINT, endpoint().to_owned()),
            (env::QUEUE, queue),
            (env::BUS, "company".to_owned()),
            (env::INBOX, "stripe".to_owned()),
            (env::SUBSCRIPTIONS, "subscriptions".to_owned()),
            (env::POOL, pool.clone()),
            (env::STRIPE_SECRET, secret("stripe-signing", "whsec_one").await),
            (env::GATEWAY_SECRET, secret("gateway-token", "token-1").await),
            (env::GATEWAY, payments.base()),
        ];
        let recorder = Recorder {
            database: database.clone(),
            network: aws_smithy_http_client::Builder::new().build_http(),
            made: Arc::default(),
        };
        let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self {
            engine,
            database,
            payments,
            pool: (pool, cognito),
            kinesis: aws.kinesis(&account),
            clock,
            recorder,
            variables,
        }
    }

    /// Starts a function as its deployment would.
    pub fn start(&self, function: Function) -> Handle {
        let variables = self.variables.clone();
        let env = Env::of(move |name| variables.get(name).cloned());
        let clients = Clients::new(&env, SharedHttpClient::new(self.recorder.clone())).unwrap();
        start(function, &env, &clients, self.clock.clone()).unwrap()
    }

    /// The calls recorded so far.
    pub fn made(&self) -> BTreeSet<Made> {
        self.recorder.made.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A batch of Kinesis records as Lambda delivers it.
pub fn kinesis_batch(records: &[Value]) -> Value {
    let record = |(n, record): (usize, &Value)| {
        json!({"eventID": format!("shardId-000000000000:{n}"), "eventSource": "aws:kinesis",
            "eventVersion": "1.0", "eventName": "aws:kinesis:record",
            "eventSourceARN": "arn:aws:kinesis:eu-central-1:000000000000:stream/s",
            "awsRegion": "eu-central-1",
            "kinesis": {"kinesisSchemaVersion": "1.0", "partitionKey": "u",
                "sequenceNumber": format!("4959{n:04}"),
                "data": base64(record.to_string().as_bytes()),
                "approximateArrivalTimestamp": 1_772_323_200.5}})
    };
    json!({"Records": records.iter().enumerate().map(record).collect::<Vec<_>>()})
}

/// A batch of SQS messages as Lambda delivers it.
pub fn sqs_batch(bodies: &[Value]) -> Value {
    let message = |(n, body): (usize, &Value)| {
        json!({"messageId": format!("m-{n}"), "body": body.to_string(),
        "attributes": {"SentTimestamp": "1772452800000"}})
    };
    json!({"Records": bodies.iter().enumerate().map(message).collect::<Vec<_>>()})
}

/// Base64, implemented independently of the crate that decodes it.
pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bytes
        .chunks(3)
        .flat_map(|three| {
            let number =
                three.iter().fold(0u32, |n, byte| n << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
            (0..4).map(move |n| {
                if n <= three.len() {
                    char::from(LETTERS[(number >> (18 - 6 * n) & 63) as usize])
                } else {
                    '='
                }
            })
        })
        .collect()
}
