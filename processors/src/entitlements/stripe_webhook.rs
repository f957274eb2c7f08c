//! Stripe's webhook, `POST /webhooks/stripe`, for any server: verifies the signature and stores the event
//! in the inbox before it acknowledges.
//!
//! Events are not interpreted here. The reader of the inbox decodes them and parks those it cannot decode,
//! so this public function only needs permission to write to one stream.

pub mod partner;

mod secrets;

use chrono::TimeDelta;
use dues_events::entitlements::stripe::signature::{SignatureError, TOLERANCE, verify};
use dues_events::entitlements::stripe::wire::{Envelope, decode, envelope};
use dues_events::wire::MAX_RECORD_BYTES;
use dues_store::SharedClock;
use serde_json::json;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityScheme};

use crate::api::Response;
use crate::api::document::{Document, Operation};
use crate::api::schema::FreeForm;
use crate::aws::triggers::http_api::{HttpApiRequest, HttpApiResponse};
use crate::messaging::inbox::{Inbox, InboxError};

pub use secrets::Secrets;

/// The inbox's name.
pub const STREAM: &str = "stripe";
/// Path of the webhook.
pub const PATH: &str = "/webhooks/stripe";
/// Longest accepted body, in bytes; the inbox reader does not decode longer ones. Stripe's events are under
/// 20,000 bytes.
pub const MAX_BODY_BYTES: usize = MAX_RECORD_BYTES;
/// The signature header; header names are case-insensitive.
pub const SIGNATURE: &str = "stripe-signature";
/// Name of the security scheme in the API document.
const SCHEME: &str = "stripe_signature";

/// The only accepted method.
const METHOD: &str = "POST";
/// `Retry-After`, in seconds. Stripe has its own retry schedule; other clients may use this.
const RETRY_AFTER: u64 = 5;
/// Partition key of events without user, customer and event id. They are parked, so their order does not
/// matter.
const NAMELESS: &str = "nameless";

/// A request.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The HTTP method, such as `POST`.
    pub method: &'a str,
    /// The `Stripe-Signature` header. Repeated headers are joined with commas, as HTTP defines.
    pub signature: Option<&'a str>,
    /// The raw body: the signature covers its exact bytes.
    pub body: &'a [u8],
}

/// Receives events from Stripe.
#[derive(Clone)]
pub struct Webhook<I> {
    inbox: I,
    secrets: Secrets,
    tolerance: TimeDelta,
    clock: SharedClock,
}

impl<I: Inbox> Webhook<I> {
    /// Accepts requests signed with one of the secrets; without secrets it rejects all requests.
    #[must_use]
    pub fn new(inbox: I, secrets: Secrets, clock: SharedClock) -> Self {
        Self { inbox, secrets, tolerance: TOLERANCE, clock }
    }

    /// Sets the largest accepted difference between the signature's time and the clock.
    #[must_use]
    pub fn with_tolerance(mut self, tolerance: TimeDelta) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Handles a request. 200 means that the event is in the inbox or of a type that is not read here;
    /// after any other status Stripe retries.
    pub async fn receive(&self, request: Request<'_>) -> Response {
        if let Err(refused) = self.check(request) {
            return refused;
        }
        match take(&self.inbox, request.body).await {
            Ok(handled) => Response::of(200, json!({"received": true, "handled": handled})),
            Err(_) => {
                let refused =
                    Response::error(503, "unavailable", "the event cannot be stored now: send it again");
                Response { retry_after: Some(RETRY_AFTER), ..refused }
            }
        }
    }

    /// Verifies method, length and signature. Of a rejected request only the length is logged.
    fn check(&self, request: Request<'_>) -> Result<(), Response> {
        let length = request.body.len();
        if request.method != METHOD {
            tracing::info!(status = 405, length, "webhook refused");
            return Err(Response::not_allowed(METHOD));
        }
        if length > MAX_BODY_BYTES {
            tracing::warn!(status = 413, length, "webhook refused");
            return Err(too_large());
        }
        if self.secrets.is_empty() {
            tracing::error!(
                status = 404,
                length,
                "webhook refused: no Stripe secret is configured, so no webhook can be believed"
            );
            return Err(Response::error(404, "no_secret", "no signing secret is configured here"));
        }
        let signature = request.signature.ok_or(SignatureError::Missing);
        let verified = signature.and_then(|header| {
            verify(header, request.body, self.secrets.all(), self.clock.now(), self.tolerance)
        });
        verified.map_err(|error| {
            tracing::warn!(status = 400, code = error.code(), length, "webhook refused");
            Response::error(400, error.code(), error.to_string())
        })
    }
}

/// The response to a body that is too long; also for servers that detect this before they read the whole
/// body.
#[must_use]
pub fn too_large() -> Response {
    Response::error(413, "too_large", format!("the most is {MAX_BODY_BYTES} bytes"))
}

/// An event that Stripe has delivered.
#[derive(utoipa::ToSchema)]
#[schema(as = WebhookReceived)]
#[allow(dead_code, reason = "a schema")]
struct Received {
    received: bool,
    /// Whether events of its type are read here.
    handled: bool,
}

/// The route in the API document.
#[must_use]
pub fn operation() -> Operation {
    Operation::new(
        "receive_stripe_event",
        "Stripe's webhook: verifies the signature, and stores the event before it acknowledges it.",
    )
    .body::<FreeForm>()
    .answer::<Received>(200, "In the inbox, or of a type that is not read here.")
    .errors(&[400, 404, 413, 500, 503])
    .known_by(SCHEME)
}

/// Adds Stripe's security scheme to the API document.
#[must_use]
pub fn scheme(document: Document) -> Document {
    let signature = "Made by Stripe of the body, the time and the secret: t=…,v1=….";
    document.scheme(
        SCHEME,
        SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::with_description(SIGNATURE, signature))),
    )
}

/// Handles a request from an API Gateway HTTP API or a function URL.
pub async fn http_api<I: Inbox>(webhook: &Webhook<I>, request: HttpApiRequest) -> HttpApiResponse {
    let signature = request.header(SIGNATURE);
    let body = match request.bytes() {
        Ok(body) => body,
        Err(problem) => return Response::error(400, "invalid_body", problem).into(),
    };
    let method = &request.request_context.http.method;
    webhook.receive(Request { method, signature: signature.as_deref(), body: &body }).await.into()
}

/// Stores a verified event in the inbox; `false` for a type that is not read here. Events that cannot be
/// decoded are stored too: they must not be lost.
async fn take<I: Inbox>(inbox: &I, body: &[u8]) -> Result<bool, InboxError> {
    let envelope = envelope(body);
    let Envelope { id, user, customer } = &envelope;
    let (event, user, customer) = (id.as_deref().unwrap_or_default(), user.as_deref(), customer.as_deref());
    let decoded = decode(body);
    let readable = decoded.is_ok();
    if let Ok(None) = decoded {
        tracing::info!(event, handled = false, skipped = 1_u64, "webhook");
        return Ok(false);
    }
    let put = inbox.put(envelope.key().unwrap_or(NAMELESS), body).await;
    match &put {
        Ok(()) => tracing::info!(event, user, customer, readable, handled = true, "webhook"),
        Err(error) if error.is_transient() => {
            tracing::warn!(event, user, customer, %error, "webhook not stored")
        }
        Err(error) => tracing::error!(event, user, customer, %error, "webhook not stored"),
    }
    put.map(|()| true)
}
