//! One request, one answer.

use dues_processors::api::{self, Api, Response};
use dues_processors::webhook::{self, Webhook};
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

use super::guard::{Came, Door};
use super::inbox::{LocalInbox, secrets};
use super::metrics::CONTENT_TYPE as METRICS_TYPE;
use super::monitor::{Busy, Monitor};
use super::{ingest, monitor, openapi};
use crate::args::{LockArgs, Serve};
use crate::console::{self, Asked, Console};
use crate::gateway::{AnyGateway, collector};
use crate::output::Error;
use crate::settings;

/// How long a client may take over a body.
const BODY_PATIENCE: Duration = Duration::from_secs(10);
/// How long a write may take before the store counts as not writable.
const WRITE_PATIENCE: Duration = Duration::from_secs(2);
/// How many kB of records may be on their way from clients to the streams at once.
const MOST_KB: usize = 64 * 1024;
/// Where to ask whether the program is there, whether it can do its work, and how it is.
pub(super) const HEALTH: &str = "/health";
pub(super) const READY: &str = "/ready";
pub(super) const METRICS: &str = "/metrics";
/// Where all of this is described.
pub(super) const OPENAPI: &str = "/openapi.json";
/// What the streams are below, and the path of one.
const STREAMS: &str = "/streams/";
pub(super) const STREAM: &str = "/streams/{name}";

/// An answer; its body may be one that goes on.
pub(super) type Answer = hyper::Response<UnsyncBoxBody<Bytes, Infallible>>;

/// What answers.
pub(super) struct App {
    pub(super) store: Store<Embedded>,
    pub(super) monitor: Arc<Monitor>,
    pub(super) api: Api<Embedded, AnyGateway>,
    webhook: Webhook<LocalInbox>,
    pub(super) door: Door,
    appended: watch::Sender<()>,
    room: Semaphore,
    document: Value,
    console: Console,
}

impl App {
    pub(super) fn new(store: Store<Embedded>, args: &Serve, door: Door, stopping: &watch::Receiver<bool>) -> Result<Self, Error> {
        let secrets = secrets(args)?;
        if secrets.is_empty() {
            tracing::warn!("no Stripe secret is configured: every webhook will be refused (--stripe-secret-file or DUES_STRIPE_SECRETS)");
        }
        // A request does not wait for a lock: it is answered with 409.
        let collector = collector(&store, &args.gateway, &args.age, &LockArgs { no_wait: true, lease: args.lease })?;
        let appended = watch::Sender::new(());
        let webhook = Webhook::new(LocalInbox::new(store.clone(), appended.clone()), secrets, store.clock.clone());
        let console = Console::new(&store, collector.clone(), stopping)?;
        let api = Api { collector, read_models: settings::read_models()?, tiers: settings::tiers()? };
        let monitor = Arc::new(Monitor::new(store.clone(), args.max_backlog));
        let document = openapi::described(&api, &door);
        Ok(Self { store, monitor, api, webhook, door, appended, room: Semaphore::new(MOST_KB), document, console })
    }

    /// Whether requests have to carry a token.
    pub(super) fn asks_for_token(&self) -> bool {
        matches!(self.door, Door::Token(_))
    }

    /// What tells of new records on the streams.
    pub(super) fn appended(&self) -> watch::Receiver<()> {
        self.appended.subscribe()
    }

    /// Answers a request, and remembers how.
    pub(super) async fn answer(&self, request: Request<Incoming>, from: IpAddr) -> Answer {
        let begun = self.store.clock.uptime();
        let (route, method) = (template(request.uri().path()), known(request.method()));
        let answer = self.find_answer(request, from).await;
        self.monitor.answered(route, method, answer.status().as_u16(), self.store.clock.uptime() - begun);
        answer
    }

    async fn find_answer(&self, request: Request<Incoming>, from: IpAddr) -> Answer {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        if path == HEALTH {
            return written(only(&head, &Method::GET).unwrap_or_else(|| Response::of(200, json!({"status": "ok"}))));
        }
        if let Door::Token(lock) = &self.door
            && matches!(path, console::SIGN_IN | console::SIGN_OUT)
        {
            return self.sign_in_or_out(lock, &head, body, from).await;
        }
        let came = match path {
            // Stripe has no token: it signs.
            webhook::PATH => Came::Program,
            _ => match self.knock(&head, from) {
                Ok(came) => came,
                Err(refused) => return *refused,
            },
        };
        if console::owns(path) {
            // No page and no button sends a body.
            let (query, signed_in) = (head.uri.query().unwrap_or_default(), came == Came::Browser);
            let asked = Asked { method: &head.method, path, query, signed_in };
            return self.console.answer(asked).await;
        }
        match path {
            READY => written(match only(&head, &Method::GET) {
                Some(refused) => refused,
                None => self.ready().await,
            }),
            METRICS => self.metrics(&head),
            OPENAPI => written(only(&head, &Method::GET).unwrap_or_else(|| Response::of(200, self.document.clone()))),
            _ => match path.strip_prefix(STREAMS) {
                Some(stream) => self.ingest(&head, stream, body).await,
                None => self.carry_out(&head, body).await,
            },
        }
    }

    /// A webhook, or a request of the REST API.
    async fn carry_out(&self, head: &Parts, body: Incoming) -> Answer {
        let (method, path) = (head.method.as_str(), head.uri.path());
        let is_webhook = path == webhook::PATH;
        let stream = if is_webhook { self.monitor.stream_is_busy(webhook::STREAM) } else { Ok(()) };
        // Whatever does not only ask has something to write.
        if head.method != Method::GET
            && let Err(busy) = stream.and_then(|()| self.monitor.writer_is_busy())
        {
            return closing(written(too_busy(busy)));
        }
        let body = match self.read(body, webhook::LARGEST, webhook::too_large).await {
            Ok(body) => body,
            Err(refused) => return closing(written(refused)),
        };
        if is_webhook {
            let signature = joined(&head.headers, webhook::SIGNATURE);
            return written(self.webhook.receive(webhook::Request { method, signature: signature.as_deref(), body: &body }).await);
        }
        written(self.api.handle(api::Request { method, path, query: head.uri.query().unwrap_or_default(), body: &body }).await)
    }

    /// Records onto a stream.
    async fn ingest(&self, head: &Parts, name: &str, body: Incoming) -> Answer {
        if let Some(refused) = only(head, &Method::POST) {
            return closing(written(refused));
        }
        let Some(stream) = ingest::named(name) else { return closing(written(ingest::no_such_stream(name))) };
        let kilobytes = body.size_hint().upper().unwrap_or(u64::MAX).min(ingest::LARGEST as u64) / 1024 + 1;
        let place = self.room.try_acquire_many(u32::try_from(kilobytes).unwrap_or(u32::MAX));
        let busy = place
            .as_ref()
            .map(drop)
            .map_err(|_| Busy { why: "too many records are on their way: try again soon".to_owned(), retry_after: 1 });
        if let Err(busy) = busy.and_then(|()| self.monitor.stream_is_busy(stream)).and_then(|()| self.monitor.writer_is_busy()) {
            return closing(written(too_busy(busy)));
        }
        let body = match self.read(body, ingest::LARGEST, ingest::too_large).await {
            Ok(body) => body,
            Err(refused) => return closing(written(refused)),
        };
        written(match ingest::take(&self.store, stream, &body).await {
            Ok(count) => {
                // Thousands of records a second come this way: not a line for each request.
                tracing::debug!(stream, records = count, "taken");
                self.monitor.came(stream, count);
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
            () = self.store.clock.sleep(WRITE_PATIENCE) => false,
        };
        if let Err(error) = self.monitor.look() {
            self.monitor.trouble("lag", &error);
        }
        let (ready, body) = self.monitor.ready(writable);
        Response::of(if ready { 200 } else { 503 }, body)
    }

    fn metrics(&self, head: &Parts) -> Answer {
        if let Some(refused) = only(head, &Method::GET) {
            return written(refused);
        }
        match self.monitor.page() {
            Ok(page) => {
                let mut answer = hyper::Response::new(whole(page));
                answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(METRICS_TYPE));
                answer
            }
            Err(error) => {
                self.monitor.trouble("metrics", &error);
                written(Response::error(503, "unavailable", "the store cannot be read now"))
            }
        }
    }

    /// Reads a body, and stops where it is too long or takes too long.
    pub(super) async fn read(&self, body: Incoming, largest: usize, too_large: impl Fn() -> Response) -> Result<Bytes, Response> {
        if body.size_hint().lower() > largest as u64 {
            return Err(too_large());
        }
        let read = Limited::new(body, largest).collect();
        let read = tokio::select! {
            read = read => read,
            () = self.store.clock.sleep(BODY_PATIENCE) => return Err(Response::error(408, "too_slow", "the body did not come in time")),
        };
        match read {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
            Err(_) => Err(Response::error(400, "broken_body", "the body broke off")),
        }
    }
}

/// The answer to every other method than the one that is allowed.
fn only(head: &Parts, method: &Method) -> Option<Response> {
    let name = if *method == Method::GET { "GET" } else { "POST" };
    (head.method != *method).then(|| Response::not_allowed(name))
}

fn too_busy(busy: Busy) -> Response {
    Response { retry_after: Some(busy.retry_after), ..Response::error(429, "too_busy", busy.why) }
}

/// The path with names in the place of ids: metrics are counted by it, and must not be as many as there are ids.
pub(super) fn template(path: &str) -> &'static str {
    match path {
        HEALTH => HEALTH,
        READY => READY,
        METRICS => METRICS,
        OPENAPI => OPENAPI,
        webhook::PATH => webhook::PATH,
        _ if path.starts_with(STREAMS) => STREAM,
        _ => api::template(path).unwrap_or("other"),
    }
}

pub(super) fn known(method: &Method) -> &'static str {
    let methods =
        [(Method::GET, "GET"), (Method::POST, "POST"), (Method::PUT, "PUT"), (Method::DELETE, "DELETE"), (Method::PATCH, "PATCH")];
    methods.into_iter().find(|(known, _)| known == method).map_or("other", |(_, name)| name)
}

/// A header; several are joined with commas. What is not text becomes text that no signature matches.
fn joined(headers: &HeaderMap, name: &str) -> Option<String> {
    let values = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    values.reduce(|all, next| all + "," + &next)
}

/// A body that is all there.
fn whole(text: String) -> UnsyncBoxBody<Bytes, Infallible> {
    Full::new(Bytes::from(text)).boxed_unsync()
}

pub(super) fn written(response: Response) -> Answer {
    // All of them are plain text.
    let header = |(name, value): (&'static str, String)| Some((HeaderName::from_static(name), HeaderValue::try_from(value).ok()?));
    let mut headers: HeaderMap = response.headers().filter_map(header).collect();
    if response.status == 401 {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    let mut written = hyper::Response::new(whole(response.body.to_string()));
    *written.status_mut() = StatusCode::from_u16(response.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *written.headers_mut() = headers;
    written
}

/// The rest of the body was not read, so no other request can follow it.
pub(super) fn closing(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}
