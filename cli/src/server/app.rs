//! Request routing: authentication, backpressure, and the handler of each path.

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse as _;
use dues_processors::api::{self, Api, Response, Route};
use dues_processors::entitlements::stripe_webhook;
use dues_processors::entitlements::stripe_webhook::Webhook;
use dues_store::Store;
use dues_store::embedded::Embedded;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt as _;

use super::auth::{Auth, Caller};
use super::inbox::{LocalInbox, secrets};
use super::metrics::CONTENT_TYPE as METRICS_TYPE;
use super::monitor::{Monitor, Overload};
use super::{ingest, monitor, openapi};
use crate::args::{LockArgs, ServeArgs};
use crate::console::{self, Console, PageRequest};
use crate::local::gateway::{AnyGateway, collector};
use crate::local::settings;
use crate::output::Error;

/// Time limit for reading a request body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit of the write probe; a slower store is not writable.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// Limit of the ingest bodies in flight, in kB.
const MOST_KB: usize = 64 * 1024;
/// Limit of a form of the console.
const MAX_FORM_BYTES: usize = 4096;
/// Paths of liveness, readiness and metrics.
pub(super) const HEALTH: &str = "/health";
pub(super) const READY: &str = "/ready";
pub(super) const METRICS: &str = "/metrics";
/// Path of the OpenAPI document.
pub(super) const OPENAPI: &str = "/openapi.json";
/// Path prefix of the streams, and the template of one stream's path.
const STREAMS: &str = "/streams/";
pub(super) const STREAM: &str = "/streams/{name}";

/// A response; its body may be an endless event stream.
pub(super) type Answer = hyper::Response<UnsyncBoxBody<Bytes, Infallible>>;

/// The server's state, shared by all requests.
pub(crate) struct App {
    pub(crate) store: Store<Embedded>,
    pub(crate) monitor: Arc<Monitor>,
    pub(crate) api: Api<Embedded, AnyGateway>,
    router: Router,
    webhook: Webhook<LocalInbox>,
    pub(crate) auth: Auth,
    appended: watch::Sender<()>,
    room: Semaphore,
    document: Value,
    console: Console,
}

impl App {
    pub(crate) fn new(
        store: Store<Embedded>,
        args: &ServeArgs,
        auth: Auth,
        stopping: &watch::Receiver<bool>,
    ) -> Result<Self, Error> {
        let secrets = secrets(args)?;
        if secrets.is_empty() {
            tracing::warn!(
                "no Stripe secret is configured: every webhook will be refused (--stripe-secret-file or \
                    DUES_STRIPE_SECRETS)"
            );
        }
        // Requests do not wait for a lock: they get 409.
        let collector =
            collector(&store, &args.gateway, &args.age, &LockArgs { no_wait: true, lease: args.lease })?;
        let appended = watch::Sender::new(());
        let webhook =
            Webhook::new(LocalInbox::new(store.clone(), appended.clone()), secrets, store.clock.clone());
        let console = Console::new(&store, collector.clone(), stopping)?;
        let api = Api { collector, read_models: settings::read_models()?, tiers: settings::tiers()? };
        let monitor = Arc::new(Monitor::new(store.clone(), args.max_backlog));
        let document = openapi::described(&api, &auth);
        Ok(Self {
            store,
            monitor,
            router: api::router(api.clone()),
            api,
            webhook,
            auth,
            appended,
            room: Semaphore::new(MOST_KB),
            document,
            console,
        })
    }

    /// Whether requests must carry a token.
    pub(crate) fn requires_token(&self) -> bool {
        matches!(self.auth, Auth::Token(_))
    }

    /// Notifies of appended records.
    pub(super) fn appended(&self) -> watch::Receiver<()> {
        self.appended.subscribe()
    }

    /// Answers a request and records its route, status and duration.
    pub(crate) async fn answer(&self, request: Request<Incoming>, from: IpAddr) -> Answer {
        let begun = self.store.clock.uptime();
        let (fixed, method) = (template(request.uri().path()), known(request.method()));
        let answer = self.find_answer(request, from).await;
        let route = answer.extensions().get().map_or(fixed, |Route(template)| template);
        self.monitor.observe_request(
            route,
            method,
            answer.status().as_u16(),
            self.store.clock.uptime() - begun,
        );
        answer
    }

    async fn find_answer(&self, request: Request<Incoming>, from: IpAddr) -> Answer {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        if path == HEALTH {
            return written(
                only(&head, &Method::GET).unwrap_or_else(|| Response::of(200, json!({"status": "ok"}))),
            );
        }
        if let Auth::Token(token) = &self.auth
            && matches!(path, console::SIGN_IN | console::SIGN_OUT)
        {
            return self.sign_in_or_out(token, &head, body, from).await;
        }
        let caller = match path {
            // Stripe has no token: the webhook verifies its signature.
            stripe_webhook::PATH => Caller::Program,
            _ => match self.authenticate(&head, from) {
                Ok(caller) => caller,
                Err(refused) => return *refused,
            },
        };
        if console::is_console_path(path) {
            let (query, signed_in) = (head.uri.query().unwrap_or_default(), caller == Caller::Browser);
            let form = match head.method {
                Method::POST => self.read(body, MAX_FORM_BYTES, form_too_large).await,
                _ => Ok(Bytes::new()),
            };
            let form = match form {
                Ok(form) => String::from_utf8_lossy(&form).into_owned(),
                Err(refused) => return closing(written(refused)),
            };
            let request = PageRequest { method: &head.method, path, query, form: &form, signed_in };
            return self.console.handle(request).await;
        }
        match path {
            READY => written(match only(&head, &Method::GET) {
                Some(refused) => refused,
                None => self.ready().await,
            }),
            METRICS => self.metrics(&head),
            OPENAPI => {
                written(only(&head, &Method::GET).unwrap_or_else(|| Response::of(200, self.document.clone())))
            }
            _ => match path.strip_prefix(STREAMS) {
                Some(stream) => self.ingest(&head, stream, body).await,
                None => self.carry_out(&head, body).await,
            },
        }
    }

    /// Handles the webhook and the REST API.
    async fn carry_out(&self, head: &Parts, body: Incoming) -> Answer {
        let (method, path) = (head.method.as_str(), head.uri.path());
        let is_webhook = path == stripe_webhook::PATH;
        let stream = if is_webhook { self.monitor.check_backlog(stripe_webhook::STREAM) } else { Ok(()) };
        // Every method except GET may write.
        if head.method != Method::GET
            && let Err(overload) = stream.and_then(|()| self.monitor.check_writer_queue())
        {
            return closing(written(too_busy(overload)));
        }
        let body = match self.read(body, stripe_webhook::MAX_BODY_BYTES, stripe_webhook::too_large).await {
            Ok(body) => body,
            Err(refused) => return closing(written(refused)),
        };
        if is_webhook {
            let signature = joined(&head.headers, stripe_webhook::SIGNATURE);
            return written(
                self.webhook
                    .receive(stripe_webhook::Request { method, signature: signature.as_deref(), body: &body })
                    .await,
            );
        }
        let mut request = Request::new(Body::from(body));
        (*request.method_mut(), *request.uri_mut()) = (head.method.clone(), head.uri.clone());
        // The router is infallible, and its bodies are in memory.
        let (head, body) = self.router.clone().oneshot(request).await.into_response().into_parts();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        hyper::Response::from_parts(head, Full::new(body).boxed_unsync())
    }

    /// Appends the body's records to a stream.
    async fn ingest(&self, head: &Parts, name: &str, body: Incoming) -> Answer {
        if let Some(refused) = only(head, &Method::POST) {
            return closing(written(refused));
        }
        let Some(stream) = ingest::named(name) else { return closing(written(ingest::no_such_stream(name))) };
        let kilobytes = body.size_hint().upper().unwrap_or(u64::MAX).min(ingest::LARGEST as u64) / 1024 + 1;
        let place = self.room.try_acquire_many(u32::try_from(kilobytes).unwrap_or(u32::MAX));
        let overload = place.as_ref().map(drop).map_err(|_| Overload {
            why: "too many records are on their way: try again soon".to_owned(),
            retry_after: 1,
        });
        if let Err(overload) = overload
            .and_then(|()| self.monitor.check_backlog(stream))
            .and_then(|()| self.monitor.check_writer_queue())
        {
            return closing(written(too_busy(overload)));
        }
        let body = match self.read(body, ingest::LARGEST, ingest::too_large).await {
            Ok(body) => body,
            Err(refused) => return closing(written(refused)),
        };
        written(match ingest::take(&self.store, stream, &body).await {
            Ok(count) => {
                // Thousands of records per second arrive here: log at debug only.
                tracing::debug!(stream, records = count, "taken");
                self.monitor.records_ingested(stream, count);
                self.appended.send_replace(());
                ingest::taken(stream, count)
            }
            Err(refused) => refused,
        })
    }

    async fn ready(&self) -> Response {
        let write = self.store.engine.set_checkpoint(monitor::PROBE, monitor::PROBE, 1);
        let writable = tokio::select! {
            written = write => written.is_ok(),
            () = self.store.clock.sleep(WRITE_TIMEOUT) => false,
        };
        if let Err(error) = self.monitor.refresh_lags() {
            self.monitor.report_failure("lag", &error);
        }
        let (ready, body) = self.monitor.ready(writable);
        Response::of(if ready { 200 } else { 503 }, body)
    }

    fn metrics(&self, head: &Parts) -> Answer {
        if let Some(refused) = only(head, &Method::GET) {
            return written(refused);
        }
        match self.monitor.render_metrics() {
            Ok(page) => {
                let mut answer = hyper::Response::new(whole(page));
                answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(METRICS_TYPE));
                answer
            }
            Err(error) => {
                self.monitor.report_failure("metrics", &error);
                written(Response::error(503, "unavailable", "the store cannot be read now"))
            }
        }
    }

    /// Reads a body, within limits on size and time.
    pub(super) async fn read(
        &self,
        body: Incoming,
        largest: usize,
        too_large: impl Fn() -> Response,
    ) -> Result<Bytes, Response> {
        if body.size_hint().lower() > largest as u64 {
            return Err(too_large());
        }
        let read = Limited::new(body, largest).collect();
        let read = tokio::select! {
            read = read => read,
            () = self.store.clock.sleep(BODY_TIMEOUT) => return Err(Response::error(408, "too_slow",
                "the body did not come in time")),
        };
        match read {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
            Err(_) => Err(Response::error(400, "broken_body", "the body broke off")),
        }
    }
}

fn form_too_large() -> Response {
    Response::error(413, "too_large", format!("the most is {MAX_FORM_BYTES} bytes"))
}

/// The 405 response, unless the request has the allowed method.
fn only(head: &Parts, method: &Method) -> Option<Response> {
    let name = if *method == Method::GET { "GET" } else { "POST" };
    (head.method != *method).then(|| Response::not_allowed(name))
}

fn too_busy(overload: Overload) -> Response {
    Response { retry_after: Some(overload.retry_after), ..Response::error(429, "too_busy", overload.why) }
}

/// The route template of a server path, for metrics; the REST API reports its own.
pub(super) fn template(path: &str) -> &'static str {
    match path {
        HEALTH => HEALTH,
        READY => READY,
        METRICS => METRICS,
        OPENAPI => OPENAPI,
        stripe_webhook::PATH => stripe_webhook::PATH,
        _ if path.starts_with(STREAMS) => STREAM,
        _ => "other",
    }
}

pub(super) fn known(method: &Method) -> &'static str {
    let methods = [
        (Method::GET, "GET"),
        (Method::POST, "POST"),
        (Method::PUT, "PUT"),
        (Method::DELETE, "DELETE"),
        (Method::PATCH, "PATCH"),
    ];
    methods.into_iter().find(|(known, _)| known == method).map_or("other", |(_, name)| name)
}

/// A header's values, joined with commas. A value that is not text becomes one that no signature matches.
fn joined(headers: &HeaderMap, name: &str) -> Option<String> {
    let values =
        headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    values.reduce(|all, next| all + "," + &next)
}

/// A complete body.
fn whole(text: String) -> UnsyncBoxBody<Bytes, Infallible> {
    Full::new(Bytes::from(text)).boxed_unsync()
}

pub(super) fn written(response: Response) -> Answer {
    // All header values are plain text.
    let header = |(name, value): (&'static str, String)| {
        Some((HeaderName::from_static(name), HeaderValue::try_from(value).ok()?))
    };
    let mut headers: HeaderMap = response.headers().filter_map(header).collect();
    if response.status == 401 {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    let mut written = hyper::Response::new(whole(response.body.to_string()));
    *written.status_mut() =
        StatusCode::from_u16(response.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *written.headers_mut() = headers;
    written
}

/// Closes the connection: the rest of the body was not read, so no request can follow.
pub(super) fn closing(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}
