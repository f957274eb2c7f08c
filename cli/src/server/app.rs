//! The server's state, and its router: the server's own paths, the console's, and the REST API behind them.
//!
//! Connections, their limits and shutdown are in `commands/serve.rs`.

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::Method;
use axum::http::header::{CACHE_CONTROL, CONNECTION, HeaderValue, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::{Extension, Router};
use dues_processors::api::routes::Served;
use dues_processors::api::{self, Actor, Api, Response as Json, Route};
use dues_processors::entitlements::stripe_webhook;
use dues_processors::entitlements::stripe_webhook::Webhook;
use dues_store::Store;
use dues_store::embedded::Embedded;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::Value;
use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::set_header::SetResponseHeaderLayer;

use super::auth::{Auth, Caller};
use super::inbox::{LocalInbox, secrets};
use super::monitor::{Monitor, Overload};
use super::routes::{HEALTH, METRICS, OPENAPI, READY, STREAM};
use super::{login, openapi, routes};
use crate::args::{LockArgs, ServeArgs};
use crate::console::{self, Console, PageRequest};
use crate::local::gateway::{AnyGateway, collector};
use crate::local::settings;
use crate::output::Error;

/// Time limit for reading a request body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Limit of the ingest bodies in flight, in kB.
const MOST_KB: usize = 64 * 1024;
/// Limit of a form of the console.
const MAX_FORM_BYTES: usize = 4096;

/// The address of a request's client, as an extension of the request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientAddress(pub(crate) IpAddr);

/// The server's state, shared by all requests.
pub(crate) struct App {
    pub(crate) store: Store<Embedded>,
    pub(crate) monitor: Arc<Monitor>,
    pub(crate) api: Api<Embedded, AnyGateway>,
    pub(super) webhook: Webhook<LocalInbox>,
    pub(crate) auth: Auth,
    appended: watch::Sender<()>,
    /// Kilobytes of ingest bodies that may still be taken.
    pub(super) ingest_room: Semaphore,
    pub(super) document: Value,
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
            api,
            webhook,
            auth,
            appended,
            ingest_room: Semaphore::new(MOST_KB),
            document,
            console,
        })
    }

    /// Whether requests must carry a token.
    pub(crate) fn requires_token(&self) -> bool {
        matches!(self.auth, Auth::Token(_))
    }

    /// Wakes the handlers of the streams.
    pub(super) fn notify_appended(&self) {
        self.appended.send_replace(());
    }

    /// Notifies of appended records.
    pub(super) fn appended(&self) -> watch::Receiver<()> {
        self.appended.subscribe()
    }

    /// Reads a body, within limits on size and time.
    pub(super) async fn read(
        &self,
        body: Body,
        largest: usize,
        too_large: impl Fn() -> Json,
    ) -> Result<Bytes, Json> {
        if body.size_hint().lower() > largest as u64 {
            return Err(too_large());
        }
        let read = Limited::new(body, largest).collect();
        let read = tokio::select! {
            read = read => read,
            () = self.store.clock.sleep(BODY_TIMEOUT) => {
                return Err(Json::error(408, "too_slow", "the body did not come in time"));
            }
        };
        match read {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
            Err(_) => Err(Json::error(400, "broken_body", "the body broke off")),
        }
    }
}

/// Every path of the server. Own paths take precedence over those of the REST API.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let commands =
        api::router(app.api.clone()).layer(from_fn_with_state(app.clone(), limit_and_read_command));
    let mut guarded = routes::declare(Served::default()).router();
    for path in ["/", "/events", "/console", "/console/", "/console/{*page}"] {
        guarded = guarded.route(path, any(console_page));
    }
    let guarded = guarded.fallback_service(commands).layer(from_fn_with_state(app.clone(), authenticate));
    let mut open = routes::declare_open(Served::default()).router();
    if app.requires_token() {
        for path in [console::SIGN_IN, console::SIGN_OUT] {
            open = open.route(path, any(login::sign_in_or_out));
        }
    }
    let unless_set = SetResponseHeaderLayer::if_not_present;
    open.merge(guarded)
        .with_state(app.clone())
        .layer(CatchPanicLayer::custom(panicked))
        .layer(unless_set(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")))
        .layer(unless_set(CACHE_CONTROL, HeaderValue::from_static("no-store")))
        .layer(from_fn_with_state(app.clone(), observe))
}

/// Records the route, status and duration of a request.
async fn observe(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let begun = app.store.clock.uptime();
    let (fixed, method) = (template(request.uri().path()), known(request.method()));
    let response = next.run(request).await;
    let route = response.extensions().get().map_or(fixed, |Route(template)| template);
    app.monitor.observe_request(route, method, response.status().as_u16(), app.store.clock.uptime() - begun);
    response
}

async fn authenticate(
    State(app): State<Arc<App>>,
    Extension(ClientAddress(from)): Extension<ClientAddress>,
    request: Request,
    next: Next,
) -> Response {
    let (mut head, body) = request.into_parts();
    match app.authenticate(&head, from) {
        Ok(caller) => {
            head.extensions.insert(caller);
            head.extensions.insert(Actor(caller.actor().to_owned()));
            next.run(Request::from_parts(head, body)).await
        }
        Err(refused) => *refused,
    }
}

/// Refuses commands while too many wait to be written, and reads their bodies within limits.
async fn limit_and_read_command(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    // Every method except GET may write.
    if request.method() != Method::GET
        && let Err(overload) = app.monitor.check_writer_queue()
    {
        return closing(too_busy(overload));
    }
    let (head, body) = request.into_parts();
    match app.read(body, stripe_webhook::MAX_BODY_BYTES, stripe_webhook::too_large).await {
        Ok(body) => next.run(Request::from_parts(head, Body::from(body))).await,
        Err(refused) => closing(refused),
    }
}

async fn console_page(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let form = match head.method {
        Method::POST => app.read(body, MAX_FORM_BYTES, form_too_large).await,
        _ => Ok(Bytes::new()),
    };
    let form = match form {
        Ok(form) => String::from_utf8_lossy(&form).into_owned(),
        Err(refused) => return closing(refused),
    };
    let (path, query) = (head.uri.path(), head.uri.query().unwrap_or_default());
    let signed_in = caller == Caller::Browser;
    app.console.handle(PageRequest { method: &head.method, path, query, form: &form, signed_in }).await
}

fn form_too_large() -> Json {
    Json::error(413, "too_large", format!("the most is {MAX_FORM_BYTES} bytes"))
}

/// A handler panicked: the panic hook has logged where.
fn panicked(_: Box<dyn Any + Send>) -> Response {
    closing(Json::error(500, "internal", "this request failed; the log says where"))
}

pub(super) fn too_busy(overload: Overload) -> Json {
    Json { retry_after: Some(overload.retry_after), ..Json::error(429, "too_busy", overload.why) }
}

/// The route template of a server path, for metrics and logs of requests that were refused before their
/// handler; the REST API reports its own.
pub(super) fn template(path: &str) -> &'static str {
    match path {
        HEALTH => HEALTH,
        READY => READY,
        METRICS => METRICS,
        OPENAPI => OPENAPI,
        stripe_webhook::PATH => stripe_webhook::PATH,
        _ if path.starts_with("/streams/") => STREAM,
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

/// 401 names the scheme of the token.
pub(super) fn written(response: Json) -> Response {
    let is_unauthorised = response.status == 401;
    let mut response = response.into_response();
    if is_unauthorised {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// Closes the connection: the rest of the body was not read, so no request can follow.
pub(super) fn closing(response: impl IntoResponse) -> Response {
    let mut response = response.into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
