//! The console: the operators' web interface at `/`, `/console/…` and `/events`.
//!
//! Pages are rendered on the server and work without JavaScript; a small module adds live updates. All
//! assets are embedded in the program.

mod aggregates;
mod calendar;
mod chart;
mod format;
mod live_updates;
mod member;
mod money;
mod overview;
mod page;
mod parked;
mod query;
mod search;
mod sign_in;
mod snapshots;
mod state_diagram;
mod upcoming_collections;

use axum::http::{Method, StatusCode};
use axum::response::Response;
use dues_events::Time;
use dues_events::collections::eligibility::Rules;
use dues_processors::collections::Collector;
use dues_processors::read_models::ReadModels;
use dues_projections::entitlements::dues::TierMap;
use dues_store::Store;
use dues_store::embedded::Embedded;
use std::sync::Arc;

use crate::local::gateway::AnyGateway;
use crate::local::settings;
use crate::output::Error;
pub(crate) use page::redirect;
use page::{MenuCounts, Page, respond};
pub(crate) use query::{Query, percent_encode};
pub(crate) use sign_in::{SIGN_IN, SIGN_OUT, sign_in_page};
use snapshots::{Snapshot, Snapshots};

/// After this long without events, pages refer to the day of the last event instead of today.
const SILENCE: chrono::TimeDelta = chrono::TimeDelta::days(10);

/// The console's data sources, and the collector that redrives parked records and moves money.
pub(crate) struct Console {
    store: Store<Embedded>,
    collector: Collector<Embedded, AnyGateway>,
    read_models: ReadModels,
    tiers: TierMap,
    rules: Arc<Rules>,
    snapshots: Snapshots,
}

/// An authenticated request for a console path.
pub(crate) struct PageRequest<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    /// The body of a form.
    pub(crate) form: &'a str,
    /// Whether it came with a session cookie, which the page can end.
    pub(crate) signed_in: bool,
}

/// Whether the console serves a path.
pub(crate) fn is_console_path(path: &str) -> bool {
    matches!(path, "/" | "/console" | "/events") || path.starts_with("/console/")
}

/// Assets that the sign-in page needs before authentication.
pub(crate) fn is_public(path: &str) -> bool {
    matches!(path, "/console/console.css" | "/console/icon.svg")
}

impl Console {
    /// Costs nothing until the first page load.
    pub(crate) fn new(
        store: &Store<Embedded>,
        collector: Collector<Embedded, AnyGateway>,
        stopping: &tokio::sync::watch::Receiver<bool>,
    ) -> Result<Self, Error> {
        Ok(Self {
            snapshots: Snapshots::new(store.clone(), stopping.clone()),
            store: store.clone(),
            rules: collector.rules.clone(),
            collector,
            read_models: settings::read_models()?,
            tiers: settings::tiers()?,
        })
    }

    /// Serves a console path; the caller has authenticated the request.
    pub(crate) async fn handle(&self, request: PageRequest<'_>) -> Response {
        let query = Query::parse(request.query);
        let is_read = matches!(*request.method, Method::GET | Method::HEAD);
        let rest = request.path.strip_prefix("/console/").unwrap_or_default();
        let reply = match (request.path, rest.split_once('/').unwrap_or((rest, ""))) {
            (_, ("parked", path)) if *request.method == Method::POST => parked::redrive(self, path).await,
            (_, ("money", path)) if *request.method == Method::POST => {
                money::decide(self, path, &Query::parse(request.form)).await
            }
            _ if !is_read => return page::not_allowed(),
            ("/", _) => overview::page(self).await,
            ("/console" | "/console/", _) => return redirect("/"),
            ("/events", _) => return live_updates::stream(&self.snapshots),
            (_, ("console.css", "")) => {
                return asset("text/css; charset=utf-8", include_str!("console/assets/console.css"));
            }
            (_, ("console.js", "")) => {
                return asset("text/javascript; charset=utf-8", include_str!("console/assets/console.js"));
            }
            (_, ("icon.svg", "")) => return asset("image/svg+xml", include_str!("console/assets/icon.svg")),
            (_, ("members", user)) => member::page(self, user, &query).await,
            (_, ("calendar", "")) => calendar::page(self, &query).await,
            (_, ("money", "")) => money::page(self, &query).await,
            (_, ("parked", "")) => parked::page(self, &query).await,
            (_, ("search", "")) => search::page(self, &query).await,
            _ => Ok(Reply::Page(page::not_found("There is no such page."))),
        };
        match reply {
            Ok(Reply::Page(page)) => {
                let latest = self.snapshots.latest();
                let counts = MenuCounts { unapplied_money: latest.unapplied_money, parked: latest.parked() };
                page.response(counts, request.signed_in)
            }
            Ok(Reply::Redirect(path)) => redirect(&path),
            // Errors name ids, never payloads.
            Err(error) => {
                tracing::warn!(path = request.path, %error, "console page failed");
                page::unavailable(&error).response(MenuCounts::default(), request.signed_in)
            }
        }
    }

    /// The time that pages refer to: now, or, after [`SILENCE`], the last event.
    fn reference_time(&self, snapshot: &Snapshot) -> Time {
        let now = self.store.clock.now();
        snapshot.aggregates.latest.filter(|latest| now - *latest > SILENCE).unwrap_or(now)
    }
}

/// The result of a page handler.
enum Reply {
    Page(Page),
    /// The path to redirect to.
    Redirect(String),
}

fn asset(content_type: &'static str, text: &'static str) -> Response {
    respond(StatusCode::OK, content_type, text)
}
