//! Stripe's webhook, `POST /webhooks/stripe`, for any server: believed only when Stripe signed it, and safe in the inbox before it is answered.
//!
//! Nothing is understood here: whoever reads the inbox does that, and parks what cannot be. So the one function that the world can call may write to
//! one stream, and do nothing else.

pub mod partner;
mod secrets;

use chrono::TimeDelta;
use dues_events::wire::LARGEST_RECORD;
use dues_events::wire::stripe::signature::{SignatureError, TOLERANCE, verify};
use dues_events::wire::stripe::{Glimpse, decode, glimpse};
use dues_store::SharedClock;
use serde_json::json;

use crate::api::Response;
use crate::api::http_api::{HttpApiRequest, HttpApiResponse};
use crate::api::openapi::{Operation, Part, flag, object};
use crate::inbox::{Inbox, InboxError};

pub use secrets::Secrets;

/// The inbox's name.
pub const STREAM: &str = "stripe";
/// Where the webhook is found.
pub const PATH: &str = "/webhooks/stripe";
/// The longest body that is taken, in bytes: no longer one would be looked into. Stripe's events have under twenty thousand.
pub const LARGEST: usize = LARGEST_RECORD;
/// The header that has the signature; names of headers have no case.
pub const SIGNATURE: &str = "stripe-signature";
/// What the document calls it.
const SCHEME: &str = "stripe_signature";

/// The one method.
const METHOD: &str = "POST";
/// Seconds after which it is worth trying again. Stripe chooses its own times; others may listen.
const RETRY_AFTER: u64 = 5;
/// The key of what names neither a user nor a customer nor itself. Such events are parked, in whatever order.
const NAMELESS: &str = "nameless";

/// A request.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Such as `POST`.
    pub method: &'a str,
    /// The `Stripe-Signature` header. Several are joined with commas, as HTTP has it.
    pub signature: Option<&'a str>,
    /// The body, byte by byte as it came: that is what was signed.
    pub body: &'a [u8],
}

/// The door that Stripe knocks on.
#[derive(Clone)]
pub struct Webhook<I> {
    inbox: I,
    secrets: Secrets,
    tolerance: TimeDelta,
    clock: SharedClock,
}

impl<I: Inbox> Webhook<I> {
    /// Opens to whoever signs with one of the secrets, and to nobody when there is none.
    #[must_use]
    pub fn new(inbox: I, secrets: Secrets, clock: SharedClock) -> Self {
        Self { inbox, secrets, tolerance: TOLERANCE, clock }
    }

    /// How far the time of a signature may be from ours.
    #[must_use]
    pub fn with_tolerance(mut self, tolerance: TimeDelta) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Takes a request. With 200 the event is in the inbox, or is not for us; with anything else Stripe sends it again.
    pub async fn receive(&self, request: Request<'_>) -> Response {
        if let Err(refused) = self.check(request) {
            return refused;
        }
        match take(&self.inbox, request.body).await {
            Ok(handled) => Response::of(200, json!({"received": true, "handled": handled})),
            Err(_) => {
                let refused = Response::error(503, "unavailable", "the event cannot be stored now: send it again");
                Response { retry_after: Some(RETRY_AFTER), ..refused }
            }
        }
    }

    /// Whether to believe it. Nothing of what is not believed is logged but its length.
    fn check(&self, request: Request<'_>) -> Result<(), Response> {
        let length = request.body.len();
        if request.method != METHOD {
            tracing::info!(status = 405, length, "webhook refused");
            return Err(Response::not_allowed(METHOD));
        }
        if length > LARGEST {
            tracing::warn!(status = 413, length, "webhook refused");
            return Err(too_large());
        }
        if self.secrets.is_empty() {
            tracing::error!(status = 404, length, "webhook refused: no Stripe secret is configured, so no webhook can be believed");
            return Err(Response::error(404, "no_secret", "no signing secret is configured here"));
        }
        let signature = request.signature.ok_or(SignatureError::Missing);
        let verified = signature.and_then(|header| verify(header, request.body, self.secrets.all(), self.clock.now(), self.tolerance));
        verified.map_err(|error| {
            tracing::warn!(status = 400, code = error.code(), length, "webhook refused");
            Response::error(400, error.code(), error.to_string())
        })
    }
}

/// The answer to a body that is too long; a server that sees so before it has read it all says the same.
#[must_use]
pub fn too_large() -> Response {
    Response::error(413, "too_large", format!("the most is {LARGEST} bytes"))
}

/// How it is described.
#[must_use]
pub fn openapi() -> Part {
    let taken = object(json!({"received": {"const": true}, "handled": flag()}));
    let operation = Operation::new(
        "receive_stripe_event",
        "Stripe's webhook: believed when Stripe signed it, and safe in the inbox when it is answered.",
    )
    .body(json!({"type": "object"}))
    .answer(200, "It is in the inbox, or is not for us.", taken)
    .errors(&[400, 404, 413, 500, 503])
    .known_by(SCHEME);
    let signed = "What Stripe makes of the body, the time and the secret: t=…,v1=….";
    Part::new("webhooks", "What others tell by calling.")
        .scheme(SCHEME, json!({"type": "apiKey", "in": "header", "name": SIGNATURE, "description": signed}))
        .with(METHOD, PATH, operation)
}

/// Takes a request from an API Gateway HTTP API or a function URL.
pub async fn http_api<I: Inbox>(webhook: &Webhook<I>, request: HttpApiRequest) -> HttpApiResponse {
    let signature = request.header(SIGNATURE);
    let body = match request.bytes() {
        Ok(body) => body,
        Err(problem) => return Response::error(400, "invalid_body", problem).into(),
    };
    let method = &request.request_context.http.method;
    webhook.receive(Request { method, signature: signature.as_deref(), body: &body }).await.into()
}

/// Puts an event that Stripe vouches for into the inbox; `false` for a type that nobody here reads. What cannot be read is taken too: it must not be lost.
async fn take<I: Inbox>(inbox: &I, body: &[u8]) -> Result<bool, InboxError> {
    let glimpse = glimpse(body);
    let Glimpse { id, user, customer } = &glimpse;
    let (event, user, customer) = (id.as_deref().unwrap_or_default(), user.as_deref(), customer.as_deref());
    let decoded = decode(body);
    let readable = decoded.is_ok();
    if let Ok(None) = decoded {
        tracing::info!(event, handled = false, skipped = 1_u64, "webhook");
        return Ok(false);
    }
    let put = inbox.put(glimpse.key().unwrap_or(NAMELESS), body).await;
    match &put {
        Ok(()) => tracing::info!(event, user, customer, readable, handled = true, "webhook"),
        Err(error) if error.is_transient() => tracing::warn!(event, user, customer, %error, "webhook not stored"),
        Err(error) => tracing::error!(event, user, customer, %error, "webhook not stored"),
    }
    put.map(|()| true)
}
