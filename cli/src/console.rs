//! The console: what an operator sees in a browser, at `/`, `/console/…` and `/events`.
//!
//! Pages are made here, whole, and can be read without JavaScript; a small module makes them live. Everything is in the program: nothing is fetched from
//! elsewhere.

mod calendar;
mod chart;
mod collecting;
mod format;
mod html;
mod live;
mod member;
mod overview;
mod page;
mod parked;
mod query;
mod search;
mod sign_in;
mod states;
mod sums;
mod watch;

use dues_events::Time;
use dues_events::collect::Rules;
use dues_processors::collections::Collector;
use dues_processors::read_models::ReadModels;
use dues_projections::dues::TierMap;
use dues_store::Store;
use dues_store::embedded::Embedded;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use std::sync::Arc;

use crate::gateway::AnyGateway;
use crate::output::Error;
use crate::settings;
pub(crate) use html::segment;
pub(crate) use live::Body;
pub(crate) use page::redirect;
use page::{Page, answer_with};
pub(crate) use query::Query;
pub(crate) use sign_in::{SIGN_IN, SIGN_OUT, sign_in};
use watch::{Snapshot, Watch};

/// After so much silence the console shows the last day on which something happened, and says so, instead of an empty today.
const SILENCE: chrono::TimeDelta = chrono::TimeDelta::days(10);

/// What the console asks, and whom it has redrive.
pub(crate) struct Console {
    store: Store<Embedded>,
    collector: Collector<Embedded, AnyGateway>,
    read_models: ReadModels,
    tiers: TierMap,
    rules: Arc<Rules>,
    watch: Watch,
}

/// A request.
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    /// With a cookie, which it can give back.
    pub(crate) signed_in: bool,
}

/// Whether a path is the console's.
pub(crate) fn owns(path: &str) -> bool {
    matches!(path, "/" | "/console" | "/events") || path.starts_with("/console/")
}

/// Whether a path is of what the sign-in page is made of.
pub(crate) fn is_public(path: &str) -> bool {
    matches!(path, "/console/console.css" | "/console/icon.svg")
}

impl Console {
    /// Costs nothing until somebody looks.
    pub(crate) fn new(
        store: &Store<Embedded>,
        collector: Collector<Embedded, AnyGateway>,
        stopping: &tokio::sync::watch::Receiver<bool>,
    ) -> Result<Self, Error> {
        Ok(Self {
            watch: Watch::new(store.clone(), stopping.clone()),
            store: store.clone(),
            rules: collector.rules.clone(),
            collector,
            read_models: settings::read_models()?,
            tiers: settings::tiers()?,
        })
    }

    /// Answers a request for a path of ours. Who may ask has been found out before.
    pub(crate) async fn answer(&self, asked: Asked<'_>) -> hyper::Response<Body> {
        let query = Query::read(asked.query);
        let reading = matches!(*asked.method, Method::GET | Method::HEAD);
        let rest = asked.path.strip_prefix("/console/").unwrap_or_default();
        let page = match (asked.path, rest.split_once('/').unwrap_or((rest, ""))) {
            (_, ("parked", way)) if *asked.method == Method::POST => parked::redrive(self, way).await,
            _ if !reading => return page::not_allowed(),
            ("/", _) => overview::page(self).await,
            ("/console" | "/console/", _) => return redirect("/"),
            ("/events", _) => return live::stream(&self.watch),
            (_, ("console.css", "")) => return asset("text/css; charset=utf-8", include_str!("console/assets/console.css")),
            (_, ("console.js", "")) => return asset("text/javascript; charset=utf-8", include_str!("console/assets/console.js")),
            (_, ("icon.svg", "")) => return asset("image/svg+xml", include_str!("console/assets/icon.svg")),
            (_, ("members", user)) => member::page(self, user, &query).await,
            (_, ("calendar", "")) => calendar::page(self, &query).await,
            (_, ("parked", "")) => parked::page(self, &query).await,
            (_, ("search", "")) => search::page(self, &query).await,
            _ => Ok(Answer::Page(page::missing("There is no such page."))),
        };
        match page {
            Ok(Answer::Page(page)) => page.response(self.watch.latest().parked(), asked.signed_in),
            Ok(Answer::Elsewhere(path)) => redirect(&path),
            // The cause is for whoever runs the program; ids are in it, payloads are not.
            Err(error) => {
                tracing::warn!(path = asked.path, %error, "a page of the console could not be made");
                page::failed(&error).response(0, asked.signed_in)
            }
        }
    }

    /// The time that the pages are about: now, or, when nothing has happened for long, the last time that something did.
    fn reference(&self, known: &Snapshot) -> Time {
        let now = self.store.clock.now();
        known.sums.latest.filter(|latest| now - *latest > SILENCE).unwrap_or(now)
    }
}

/// What a page comes to.
enum Answer {
    Page(Page),
    /// It is at that path.
    Elsewhere(String),
}

fn asset(kind: &'static str, text: &'static str) -> hyper::Response<Body> {
    answer_with(StatusCode::OK, kind, Full::new(Bytes::from_static(text.as_bytes())))
}
