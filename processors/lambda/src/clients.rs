//! The AWS clients, created once and shared by all invocations.
//!
//! `aws-config` is deliberately absent: it would add profiles, SSO and STS for three variables that Lambda
//! sets.

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use dues_store::SharedClock;
use dues_store::dynamo::Dynamo;
use std::collections::BTreeMap;

use crate::env::{ENDPOINT, Env, REGION, Unset};
use crate::secret::Secret;

/// The configuration that all clients share.
#[derive(Clone)]
pub struct Clients {
    http: SharedHttpClient,
    credentials: Credentials,
    region: String,
    endpoint: Option<String>,
}

/// Builds a client of one of the SDK's crates: each has its own builder type with the same methods.
macro_rules! client {
    ($sdk:ident, $clients:expr, $region:expr) => {{
        let config = $sdk::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new($region))
            .credentials_provider($clients.credentials.clone())
            .http_client($clients.http.clone());
        let config = match &$clients.endpoint {
            Some(endpoint) => config.endpoint_url(endpoint),
            None => config,
        };
        $sdk::Client::from_conf(config.build())
    }};
}

impl Clients {
    /// Reads region and credentials from Lambda's environment; the caller supplies the HTTP client.
    ///
    /// # Errors
    /// [`Unset`] names the variable.
    pub fn new(env: &Env, http: SharedHttpClient) -> Result<Self, Unset> {
        let (id, secret) = (env.need("AWS_ACCESS_KEY_ID")?, env.need("AWS_SECRET_ACCESS_KEY")?);
        let credentials = Credentials::new(id, secret, env.get("AWS_SESSION_TOKEN"), None, "lambda");
        Ok(Self { http, credentials, region: env.need(REGION)?, endpoint: env.get(ENDPOINT) })
    }

    /// The tables, under the deployment's names and in its regions.
    pub(crate) fn dynamo(&self, env: &Env) -> Result<Dynamo, Unset> {
        let regions = env.table_regions(&self.region)?;
        let elsewhere: BTreeMap<_, _> = regions
            .into_iter()
            .map(|(table, region)| (table, client!(aws_sdk_dynamodb, self, region)))
            .collect();
        Ok(Dynamo::new(client!(aws_sdk_dynamodb, self, self.region.clone()))
            .with_clients(elsewhere)
            .with_names(env.table_names()))
    }

    pub(crate) fn cognito(&self) -> aws_sdk_cognitoidentityprovider::Client {
        client!(aws_sdk_cognitoidentityprovider, self, self.region.clone())
    }

    pub(crate) fn eventbridge(&self) -> aws_sdk_eventbridge::Client {
        client!(aws_sdk_eventbridge, self, self.region.clone())
    }

    pub(crate) fn kinesis(&self) -> aws_sdk_kinesis::Client {
        client!(aws_sdk_kinesis, self, self.region.clone())
    }

    pub(crate) fn sqs(&self) -> aws_sdk_sqs::Client {
        client!(aws_sdk_sqs, self, self.region.clone())
    }

    pub(crate) fn secret(&self, arn: String, clock: SharedClock) -> Secret {
        Secret::new(client!(aws_sdk_secretsmanager, self, self.region.clone()), arn, clock)
    }
}

/// An HTTPS client with the same TLS as the payment gateway's client.
#[must_use]
pub fn https() -> SharedHttpClient {
    aws_smithy_http_client::Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https()
}
