//! The REST API, for any server: billing records, `GET /{user_id}/subscriptions`, `GET /{user_id}/subscriptions/{subscription_id}` and its `/history`;
//! commands, `POST /{user_id}/subscriptions/{subscription_id}/{pay|waive|cancel|pause|resume}`; a user's story, `GET /{user_id}/explain`; and what
//! they may use, `GET /{user_id}/access`, `GET /{user_id}/credits`, `GET /{user_id}/credits/ledger`, `POST /{user_id}/credits/consume`. The read models' own paths
//! start with `/models/{name}/`.
//!
//! Who may ask is for whoever stands in front to find out: a request that comes here is carried out.

pub mod http_api;
pub mod openapi;

mod entitlements;
mod figureforge;
mod path;
mod places;
mod records;
mod response;
mod serenya;
mod usage;

use dues_events::collect::Reason;
use dues_events::record::Status;
use dues_events::wire::WireError;
use dues_events::{Record, Rejection, SubscriptionId, UserId};
use dues_projections::dues::TierMap;
use dues_store::{CommitError, Engine, Store, StoreError};

use crate::collections::commands::{Command, Reply, command};
use crate::collections::{Collector, Outcome, Visit};
use crate::fields::Fields;
use crate::gateway::Gateway;
use crate::read_models::{ReadModel, ReadModels};
pub use entitlements::{balance_json, movement_json};
pub use path::decoded_text;
use path::{CommandRoute, Route, Verb, Wanted, route};
pub use records::{history_json, record_json};
pub use response::Response;

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Such as `POST`.
    pub method: &'a str,
    /// The path, percent-encoded, without a query.
    pub path: &'a str,
    /// What stands behind the question mark, percent-encoded.
    pub query: &'a str,
    /// A JSON object; nothing is as good as an empty one.
    pub body: &'a [u8],
}

/// What requests are carried out with.
#[derive(Clone)]
pub struct Api<E: Engine, G> {
    /// The records, and who collects what is due.
    pub collector: Collector<E, G>,
    /// The read models that can be asked.
    pub read_models: ReadModels,
    /// Which tier a name on a receipt stands for.
    pub tiers: TierMap,
}

/// The template of a path that this API answers, such as `/{user_id}/credits`: what metrics and logs name it by.
#[must_use]
pub fn template(path: &str) -> Option<&'static str> {
    route(path).ok().map(|route| route.template())
}

impl<E: Engine, G: Gateway> Api<E, G> {
    /// With all read models, and the usual names of tiers.
    pub fn new(collector: Collector<E, G>) -> Self {
        Self { collector, read_models: ReadModels::default(), tiers: TierMap::default() }
    }

    /// How its paths are described: each file describes its own, also those of the read models that there are.
    pub fn described(&self) -> Vec<openapi::Part> {
        let model = |model: ReadModel| match model {
            ReadModel::Usage => usage::openapi(),
            ReadModel::Figureforge => figureforge::openapi(),
            ReadModel::Serenya => serenya::openapi(),
        };
        let models = self.read_models.iter().map(model);
        [records::openapi(), openapi::commands(), entitlements::openapi()].into_iter().chain(models).collect()
    }

    /// Carries a request out.
    pub async fn handle(&self, request: Request<'_>) -> Response {
        let route = match route(request.path) {
            Ok(route) => route,
            Err(message) => return told(request, None, Response::error(404, "no_such_path", message)),
        };
        if let Some(method) = route.method().filter(|method| *method != request.method) {
            return told(request, Some(&route), Response::not_allowed(method));
        }
        let response = match &route {
            Route::Records(user, wanted) => records::answer(&self.collector.store, user, wanted).await,
            Route::Explain(user) => records::story(self, user, request.query).await,
            Route::Command(route) => run(&self.collector, route, request.body).await,
            Route::Entitlement(user, asked) => entitlements::answer(&self.collector.store, user, *asked, request).await,
            Route::Model(model, path) if self.read_models.has(*model) => {
                let path: Vec<&str> = path.iter().map(String::as_str).collect();
                let store = &self.collector.store;
                match model {
                    ReadModel::Usage => usage::answer(store, self.read_models.usage(), &path, request).await,
                    ReadModel::Figureforge => figureforge::answer(store, self.read_models.figureforge(), &path, request).await,
                    // Boxed: it has many turns, and every request would have room for all of them.
                    ReadModel::Serenya => Box::pin(serenya::answer(store, self.read_models.serenya(), &path, request)).await,
                }
            }
            Route::Model(model, _) => Response::error(404, "no_such_path", format!("this deployment has no read model {}", model.name())),
        };
        told(request, Some(&route), response)
    }
}

/// Says in the log what was answered.
fn told(request: Request<'_>, route: Option<&Route>, response: Response) -> Response {
    let (verb, user, subscription) = match route {
        Some(Route::Command(route)) => (route.verb.name(), route.user.as_str(), route.id.as_str()),
        Some(Route::Entitlement(user, asked)) => (asked.name(), user.as_str(), ""),
        Some(Route::Records(user, Wanted::All)) => ("subscriptions", user.as_str(), ""),
        Some(Route::Records(user, Wanted::One(id))) => ("subscription", user.as_str(), id.as_str()),
        Some(Route::Records(user, Wanted::History(id))) => ("history", user.as_str(), id.as_str()),
        Some(Route::Explain(user)) => ("explain", user.as_str(), ""),
        Some(Route::Model(model, _)) => (model.name(), "", ""),
        None => ("", "", ""),
    };
    tracing::info!(method = request.method, verb, user, subscription, status = response.status, "api");
    response
}

async fn run<E: Engine, G: Gateway>(collector: &Collector<E, G>, route: &CommandRoute, body: &[u8]) -> Response {
    let asked = match read_command(route.verb, body) {
        Ok(asked) => asked,
        Err(error) => return Response::error(422, "invalid_field", error.to_string()),
    };
    match command(collector, &route.user, &route.id, asked).await {
        Ok(Reply::Changed(record)) => Response::record(200, &record, changed(route.verb, &record)),
        Ok(Reply::Visited(Visit::Locked)) => Response::error(409, "locked", "somebody else is working on this user: try again soon"),
        Ok(Reply::Visited(Visit::Done(looked))) => match looked.into_iter().find(|looked| looked.subscription_id == route.id) {
            Some(looked) => paid(collector, route, looked.outcome).await,
            None => not_found(&route.user, &route.id),
        },
        Err(CommitError::Rejected(rejection)) => rejected(route, &rejection),
        Err(CommitError::Store(error)) => store_failed(&error),
    }
}

fn read_command(verb: Verb, body: &[u8]) -> Result<Command, WireError> {
    let body = if body.trim_ascii().is_empty() { b"{}" } else { body };
    let fields = Fields::read(body, "body")?;
    Ok(match verb {
        Verb::Pay => Command::Pay { new_account: fields.flag("new_account")? },
        Verb::Waive => Command::Waive,
        Verb::Cancel => Command::Cancel { now: fields.flag("now")? },
        Verb::Pause => Command::Pause { months: fields.number("pause_duration_months", 1, 12)? },
        Verb::Resume => Command::Resume,
    })
}

/// The outcome of a command that changes a record.
fn changed(verb: Verb, record: &Record) -> &'static str {
    match verb {
        Verb::Pay => "paid",
        Verb::Waive => "waived",
        Verb::Cancel if record.status() == Status::Cancelled => "cancelled",
        // The record says when, or waits for the debit that is under way.
        Verb::Cancel => "cancel_pending",
        Verb::Pause => "paused",
        Verb::Resume => "resumed",
    }
}

/// What a payment came to.
async fn paid<E: Engine, G: Gateway>(collector: &Collector<E, G>, route: &CommandRoute, outcome: Outcome) -> Response {
    if matches!(outcome, Outcome::Sent | Outcome::Collected) {
        tracing::info!(user = %route.user, subscription = %route.id, debits = 1_u64, "a member has paid");
    }
    let (status, name, doubt) = match outcome {
        Outcome::Sent => (202, "sent", None),
        Outcome::Left(Reason::InFlight) => (202, "in_flight", None),
        Outcome::InDoubt(reason) => (202, "in_doubt", Some(reason)),
        Outcome::Collected => (200, "collected", None),
        Outcome::Free => (200, "free", None),
        Outcome::Refused(reason) => return Response::error(402, "refused", reason),
        Outcome::Left(reason) => return left(&reason),
        Outcome::Cancelled => return Response::error(409, "cancelled", "the cancellation that was asked for has taken effect"),
        Outcome::Stale => return Response::error(409, "stale", "it is too old to be collected"),
        Outcome::PauseExpired | Outcome::PauseEnding => return Response::error(409, Reason::OnPause.code(), Reason::OnPause.to_string()),
    };
    match find(&collector.store, &route.user, &route.id).await {
        Ok(Some(record)) => {
            let mut response = Response::record(status, &record, name);
            if let Some(reason) = doubt {
                response.body["in_doubt"] = reason.into();
            }
            response
        }
        Ok(None) => not_found(&route.user, &route.id),
        Err(error) => store_failed(&error),
    }
}

/// The record as it is now: from the user's own rows, which are never behind as an index may be.
async fn find<E: Engine>(store: &Store<E>, user: &UserId, id: &SubscriptionId) -> Result<Option<Record>, StoreError> {
    match store.load_user(user).await?.get(id) {
        Some(record) => Ok(Some(record.clone())),
        None => store.get_by_id(id).await,
    }
}

/// Why nothing was collected.
fn left(reason: &Reason) -> Response {
    let status = match reason {
        Reason::Barred(_) => 403,
        // The rules of ACH say no, whatever the state.
        Reason::Exhausted(_) | Reason::WindowPassed | Reason::Stopped(_) | Reason::BanksClosed(_) | Reason::NotCovered => 422,
        Reason::NotForThisRun(status) if *status == Status::Completed => return conflict(&Rejection::AlreadyPaid),
        Reason::NotForThisRun(status) => return conflict(&Rejection::Final(*status)),
        Reason::InFlight
        | Reason::OnPause
        | Reason::Superseded
        | Reason::NotDue(_)
        | Reason::EnoughToday
        | Reason::SignalKnown
        | Reason::Overtaken => 409,
    };
    Response::error(status, reason.code(), reason.to_string())
}

fn rejected(route: &CommandRoute, rejection: &Rejection) -> Response {
    match rejection {
        Rejection::UnknownUser(_) | Rejection::UnknownSubscription(_) | Rejection::WrongUser(_) => not_found(&route.user, &route.id),
        Rejection::DifferentContent
        | Rejection::TooManyEvents
        | Rejection::Final(_)
        | Rejection::NotYetSent
        | Rejection::AlreadySent
        | Rejection::InFlight
        | Rejection::AlreadyPaid
        | Rejection::OnPause
        | Rejection::NotPaused(_)
        | Rejection::NothingOpen(_) => conflict(rejection),
    }
}

fn conflict(rejection: &Rejection) -> Response {
    Response::error(409, rejection.code(), rejection.to_string())
}

/// The same for what is not there and for what is somebody else's: nobody learns which.
fn not_found(user: &UserId, id: &SubscriptionId) -> Response {
    Response::error(404, "not_found", format!("user {user} has no subscription {id}"))
}

/// What the store said is for the log.
fn store_failed(error: &StoreError) -> Response {
    if error.is_transient() {
        tracing::warn!(%error, "api: the store could not do it now");
        Response::error(503, "unavailable", "the records cannot be reached now: try again soon")
    } else {
        tracing::error!(%error, "api: the store cannot do it");
        Response::error(500, "store", "the records cannot be read or written")
    }
}
