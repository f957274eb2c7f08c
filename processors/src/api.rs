//! The REST API as one `axum` router: billing records and commands on them, `explain`, access and credits
//! under `/{user_id}/…`, unapplied money under `/money`, and the read models under `/models/{name}/…`. `dues
//! serve` and the `api` function serve it.
//!
//! The server in front authenticates requests; this router does not.

pub mod document;
pub mod routes;
pub mod schema;

mod billing;
mod entitlements;
mod error;
mod extract;
mod figureforge;
mod page;
mod response;
mod serenya;
mod usage;

use axum::Router;
use axum::extract::Request;
use axum::http::Uri;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse as _;
use dues_projections::entitlements::dues::TierMap;
use dues_store::{Engine, Store};
use std::sync::Arc;
use tower::ServiceExt as _;

use crate::collections::Collector;
use crate::collections::gateway::Gateway;
use crate::read_models::{ReadModel, ReadModels};
pub use billing::{history_json, money_json, planned_record_json, record_json};
pub use entitlements::{balance_json, movement_json};
use error::Error;
use extract::Ids;
pub use extract::{Actor, decoded_text};
pub use response::Response;
use routes::{Routes, Served, no_such_path};

/// Dependencies and settings of the API.
#[derive(Clone)]
pub struct Api<E: Engine, G> {
    /// The store and the collections engine.
    pub collector: Collector<E, G>,
    /// The read models of this deployment.
    pub read_models: ReadModels,
    /// The tier of each name on a receipt.
    pub tiers: TierMap,
}

/// State shared by handlers.
type Shared<E, G> = Arc<Api<E, G>>;

impl<E: Engine, G: Gateway> Api<E, G> {
    /// With all read models and the default tier names.
    pub fn new(collector: Collector<E, G>) -> Self {
        Self { collector, read_models: ReadModels::default(), tiers: TierMap::default() }
    }

    fn store(&self) -> &Store<E> {
        &self.collector.store
    }
}

/// Declares all routes, including those of the deployment's read models.
pub fn declare<E: Engine, G: Gateway, R: Routes<Shared<E, G>>>(read_models: &ReadModels, routes: R) -> R {
    let routes = billing::declare(routes);
    let routes = entitlements::declare(routes);
    read_models.iter().fold(routes, |routes, model| match model {
        ReadModel::Usage => usage::declare(routes),
        ReadModel::Figureforge => figureforge::declare(routes),
        ReadModel::Serenya => serenya::declare(routes),
    })
}

/// The router.
pub fn router<E: Engine, G: Gateway>(api: Api<E, G>) -> Router {
    let served: Served<Shared<E, G>> = declare(&api.read_models, Served::default());
    let router = served.router().with_state(Arc::new(api)).layer(from_fn(log));
    let routes = router.clone().fallback(no_such_path);
    router.fallback(move |request| async move { with_slashes(routes, request).await })
}

/// Serves paths with slashes in an id. API Gateway decodes paths, so a user id or the id of unapplied money
/// may span several segments.
async fn with_slashes(routes: Router, mut request: Request) -> axum::response::Response {
    let path = request.uri().path().trim_start_matches('/');
    let joined = match path.split_once('/') {
        Some(("models", _)) => None,
        Some(("money", below)) => Some(joined_money(below)),
        Some(_) | None => joined_user(path),
    };
    let uri = joined.and_then(|path| {
        let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
        format!("{path}{query}").parse::<Uri>().ok()
    });
    match uri {
        Some(uri) => *request.uri_mut() = uri,
        None => return no_such_path(request).await,
    }
    routes.oneshot(request).await.into_response()
}

/// The path with the shortest user id that gives a known path.
fn joined_user(path: &str) -> Option<String> {
    const BELOW: [&str; 4] = ["subscriptions", "explain", "access", "credits"];
    let segments: Vec<&str> = path.split('/').collect();
    let user = segments.iter().skip(2).position(|segment| BELOW.contains(segment)).map(|at| at + 2)?;
    let (user, below) = segments.split_at_checked(user)?;
    Some(format!("/{}/{}", user.join("%2F"), below.join("/")))
}

/// The path of unapplied money: all segments but a decision at the end are its id.
fn joined_money(below: &str) -> String {
    const DECISIONS: [&str; 3] = ["apply", "refund", "dismiss"];
    match below.rsplit_once('/').filter(|(_, last)| DECISIONS.contains(last)) {
        Some((id, decision)) => format!("/money/{}/{decision}", id.replace('/', "%2F")),
        None => format!("/money/{}", below.replace('/', "%2F")),
    }
}

/// The path template of a request, such as `/{user_id}/credits`; an extension of its response, for metrics.
#[derive(Debug, Clone, Copy)]
pub struct Route(pub &'static str);

/// Logs one line per request, with the ids of the path.
async fn log(ids: Result<Ids, Error>, request: Request, next: Next) -> axum::response::Response {
    let method = request.method().clone();
    let response = next.run(request).await;
    let id = |name: &str| ids.as_ref().map_or("", |ids| ids.get(name));
    let (user, subscription, status) = (id("user_id"), id("subscription_id"), response.status().as_u16());
    let route = response.extensions().get().map_or("", |Route(template)| template);
    tracing::info!(%method, route, user, subscription, status, "api");
    response
}
