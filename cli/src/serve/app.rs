//! One request, one answer.

use dues_processors::api::{self, Api, Response};
use dues_processors::webhook::{self, Secrets, Webhook};
use dues_store::Store;
use dues_store::embedded::Embedded;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode};
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use tokio::sync::watch;

use super::guard;
use super::inbox::LocalInbox;
use crate::args::{LockArgs, Serve};
use crate::gateway::{AnyGateway, collector};
use crate::output::Error;
use crate::settings;

/// How long a client may take over a body.
const BODY_PATIENCE: Duration = Duration::from_secs(10);
/// Where to ask whether the program is there.
const HEALTH: &str = "/health";

/// What answers.
pub(super) struct App {
    pub(super) store: Store<Embedded>,
    api: Api<Embedded, AnyGateway>,
    webhook: Webhook<LocalInbox>,
}

impl App {
    /// Also gives what tells of new records in the inbox.
    pub(super) fn new(store: Store<Embedded>, args: &Serve) -> Result<(Self, watch::Receiver<()>), Error> {
        let secrets = secrets(args)?;
        if secrets.is_empty() {
            eprintln!("no Stripe secret is configured: every webhook will be refused (--stripe-secret-file or DUES_STRIPE_SECRETS)");
        }
        // A request does not wait for a lock: it is answered with 409.
        let collector = collector(&store, &args.gateway, &args.age, &LockArgs { no_wait: true, lease: args.lease })?;
        let (inbox, appended) = LocalInbox::new(store.clone());
        let webhook = Webhook::new(inbox, secrets, store.clock.clone());
        let api = Api { collector, read_models: settings::read_models()? };
        Ok((Self { store, api, webhook }, appended))
    }

    /// Answers a request.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> hyper::Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let (method, path) = (head.method.as_str(), head.uri.path());
        if path == HEALTH {
            return written(match head.method {
                Method::GET => Response::of(200, json!({"status": "ok"})),
                _ => Response::not_allowed("GET"),
            });
        }
        if path != webhook::PATH
            && let Err(why) = guard::local(&head.headers)
        {
            return written(Response::error(403, "not_local", why));
        }
        let body = match self.read(body).await {
            Ok(body) => body,
            Err(refused) => return closing(written(refused)),
        };
        written(match path {
            webhook::PATH => {
                let signature = joined(&head.headers, webhook::SIGNATURE);
                self.webhook.receive(webhook::Request { method, signature: signature.as_deref(), body: &body }).await
            }
            _ => self.api.handle(api::Request { method, path, query: head.uri.query().unwrap_or_default(), body: &body }).await,
        })
    }

    /// Reads a body, and stops where it is too long or takes too long.
    async fn read(&self, body: Incoming) -> Result<Bytes, Response> {
        if body.size_hint().lower() > webhook::LARGEST as u64 {
            return Err(webhook::too_large());
        }
        let read = Limited::new(body, webhook::LARGEST).collect();
        let read = tokio::select! {
            read = read => read,
            () = self.store.clock.sleep(BODY_PATIENCE) => return Err(Response::error(408, "too_slow", "the body did not come in time")),
        };
        match read {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(webhook::too_large()),
            Err(_) => Err(Response::error(400, "broken_body", "the body broke off")),
        }
    }
}

/// From the file, one on a line, and from the environment.
fn secrets(args: &Serve) -> Result<Secrets, Error> {
    let named = args.stripe_secrets.clone().unwrap_or_default();
    let Some(file) = &args.stripe_secret_file else { return Ok(named) };
    Ok(read_secrets(file)?.and(named))
}

fn read_secrets(file: &Path) -> Result<Secrets, Error> {
    let text = std::fs::read_to_string(file).map_err(|cause| Error::Io { doing: format!("read {}", file.display()), cause })?;
    let secrets = Secrets::read(&text);
    // A file that was named and is empty is a mistake, not a wish.
    if secrets.is_empty() { Err(Error::Said(format!("there is no secret in {}", file.display()))) } else { Ok(secrets) }
}

/// A header; several are joined with commas. What is not text becomes text that no signature matches.
fn joined(headers: &HeaderMap, name: &str) -> Option<String> {
    let values = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    values.reduce(|all, next| all + "," + &next)
}

fn written(response: Response) -> hyper::Response<Full<Bytes>> {
    // All of them are plain text.
    let header = |(name, value): (&'static str, String)| Some((HeaderName::from_static(name), HeaderValue::try_from(value).ok()?));
    let headers = response.headers().filter_map(header).collect();
    let mut written = hyper::Response::new(Full::new(Bytes::from(response.body.to_string())));
    *written.status_mut() = StatusCode::from_u16(response.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *written.headers_mut() = headers;
    written
}

/// The rest of the body was not read, so no other request can follow it.
fn closing(mut response: hyper::Response<Full<Bytes>>) -> hyper::Response<Full<Bytes>> {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
