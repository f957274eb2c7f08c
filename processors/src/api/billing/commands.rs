//! Commands on a billing record: pay, waive, cancel, pause, resume, move, refund.

use axum::extract::State;
use axum::http::Method;
use dues_events::billing::record::Status;
use dues_events::collections::eligibility::Reason;
use dues_events::wire::WireError;
use dues_events::{Record, Rejection, SubscriptionId, UserId};
use dues_store::{CommitError, Engine};

use super::schema::{Cancel, Move, Outcome as OutcomeSchema, Pause, Pay, Refund};
use super::{find, not_found, record_json};
use crate::api::document::Operation;
use crate::api::extract::{Actor, Body, Ids};
use crate::api::routes::Routes;
use crate::api::schema::FreeForm;
use crate::api::{Error, Response, Shared};
use crate::collections::commands::{Command, CommandReply, command};
use crate::collections::gateway::Gateway;
use crate::collections::money::MoneyError;
use crate::collections::{Collector, Outcome, UserCollection};
use crate::runtime::json_fields::Fields;

/// A command, by the last segment of its path.
#[derive(Debug, Clone, Copy)]
enum Verb {
    Pay,
    Waive,
    Cancel,
    Pause,
    Resume,
    Move,
}

/// Declares the routes of commands.
pub(super) fn declare<E: Engine, G: Gateway, R: Routes<Shared<E, G>>>(routes: R) -> R {
    let described = |name: &str, summary: &str| {
        Operation::new(name, summary)
            .answer::<OutcomeSchema>(200, "The record as it is now.")
            .errors(&[404, 409, 422, 500, 503])
    };
    let routes = add(routes, Verb::Pay, "/{user_id}/subscriptions/{subscription_id}/pay", || {
        described("pay_subscription", "Collects a billing record now.")
            .body::<Pay>()
            .answer::<OutcomeSchema>(202, "A debit is in flight, or its answer is not known yet.")
            .errors(&[402, 403])
    });
    let routes = add(routes, Verb::Waive, "/{user_id}/subscriptions/{subscription_id}/waive", || {
        described("waive_subscription", "Waives a billing record's period.").body::<FreeForm>()
    });
    let routes = add(routes, Verb::Cancel, "/{user_id}/subscriptions/{subscription_id}/cancel", || {
        described("cancel_subscription", "Cancels a membership: at the end of the paid period, or now.")
            .body::<Cancel>()
    });
    let routes = add(routes, Verb::Pause, "/{user_id}/subscriptions/{subscription_id}/pause", || {
        described("pause_subscription", "Pauses billing.").needs::<Pause>()
    });
    let routes = add(routes, Verb::Resume, "/{user_id}/subscriptions/{subscription_id}/resume", || {
        described("resume_subscription", "Resumes billing.").body::<FreeForm>()
    });
    let routes = add(routes, Verb::Move, "/{user_id}/subscriptions/{subscription_id}/move", || {
        described("move_subscription", "Moves a record that is not paid to another due date.").needs::<Move>()
    });
    routes.route(Method::POST, "/{user_id}/subscriptions/{subscription_id}/refund", refund, || {
        Operation::new("refund_subscription", "Refunds a paid record, in full or in part.")
            .body::<Refund>()
            .answer::<OutcomeSchema>(
                202,
                "The gateway accepted the refund; the record changes when the bank reports it.",
            )
            .errors(&[402, 404, 409, 422, 500, 503])
    })
}

fn add<E: Engine, G: Gateway, R: Routes<Shared<E, G>>>(
    routes: R,
    verb: Verb,
    path: &'static str,
    describe: impl FnOnce() -> Operation,
) -> R {
    let handler = move |State(api): State<Shared<E, G>>,
                        ids: Ids,
                        Actor(actor): Actor,
                        Body(fields): Body<Fields>| async move {
        run(&api.collector, verb, &ids, &fields, &actor).await
    };
    routes.route(Method::POST, path, handler, describe)
}

impl Verb {
    fn command(self, fields: &Fields) -> Result<Command, WireError> {
        Ok(match self {
            Self::Pay => Command::Pay {
                new_account: fields.flag("new_account")?,
                authorised: fields.flag("authorised")?,
            },
            Self::Waive => Command::Waive,
            Self::Cancel => Command::Cancel { now: fields.flag("now")? },
            Self::Pause => Command::Pause { months: fields.number("pause_duration_months", 1, 12)? },
            Self::Resume => Command::Resume,
            Self::Move => Command::Move { to: fields.time("to")? },
        })
    }

    /// The outcome of a command that changed the record.
    fn changed(self, record: &Record) -> &'static str {
        match self {
            Self::Pay => "paid",
            Self::Waive => "waived",
            Self::Cancel if record.status() == Status::Cancelled => "cancelled",
            // It takes effect on the record's date, or after the debit in flight.
            Self::Cancel => "cancel_pending",
            Self::Pause => "paused",
            Self::Resume => "resumed",
            Self::Move => "moved",
        }
    }
}

async fn run<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    verb: Verb,
    ids: &Ids,
    fields: &Fields,
    actor: &str,
) -> Result<Response, Error> {
    let (user, id) = (ids.user(), ids.subscription());
    match command(collector, &user, &id, verb.command(fields)?, actor).await {
        Ok(CommandReply::Changed(record)) => Ok(changed(200, &record, verb.changed(&record))),
        Ok(CommandReply::Collected(UserCollection::Locked)) => {
            Err(Error::new(409, "locked", "another worker holds this user's lock: try again soon"))
        }
        Ok(CommandReply::Collected(UserCollection::Done(records))) => {
            match records.into_iter().find(|record| record.subscription_id == id) {
                Some(record) => paid(collector, &user, &id, record.outcome).await,
                None => Err(not_found(&user, &id)),
            }
        }
        Err(CommitError::Rejected(rejection)) => Err(rejected(&user, &id, &rejection)),
        Err(CommitError::Store(error)) => Err(error.into()),
    }
}

/// Refunds a paid record.
async fn refund<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
    Actor(actor): Actor,
    Body(fields): Body<Fields>,
) -> Result<Response, Error> {
    let (user, id) = (ids.user(), ids.subscription());
    let amount = fields.optional_money("amount")?;
    match api.collector.refund_record(&user, &id, amount, &actor).await {
        Ok((record, _)) => Ok(changed(202, &record, "refund_requested")),
        Err(MoneyError::Commit(CommitError::Rejected(rejection))) => Err(rejected(&user, &id, &rejection)),
        Err(error) => Err(error.into()),
    }
}

/// A record with the outcome of a command.
fn changed(status: u16, record: &Record, outcome: &str) -> Response {
    let mut body = record_json(record);
    body["outcome"] = outcome.into();
    Response::of(status, body)
}

/// The outcome of a payment.
async fn paid<E: Engine, G: Gateway>(
    collector: &Collector<E, G>,
    user: &UserId,
    id: &SubscriptionId,
    outcome: Outcome,
) -> Result<Response, Error> {
    if matches!(outcome, Outcome::Sent | Outcome::Collected) {
        tracing::info!(%user, subscription = %id, debits = 1_u64, "debit by the member");
    }
    let (status, name, doubt) = match outcome {
        Outcome::Sent => (202, "sent", None),
        Outcome::Skipped(Reason::InFlight) => (202, "in_flight", None),
        Outcome::InDoubt(reason) => (202, "in_doubt", Some(reason)),
        Outcome::Collected => (200, "collected", None),
        Outcome::Free => (200, "free", None),
        Outcome::Refused(reason) => return Err(Error::new(402, "refused", reason)),
        Outcome::Skipped(reason) => return Err(not_collected(&reason)),
        Outcome::Withdrawn(reason) => return Err(Error::new(409, "withdrawn", reason)),
        Outcome::Cancelled => {
            return Err(Error::new(409, "cancelled", "the requested cancellation has taken effect"));
        }
        Outcome::Stale => return Err(Error::new(409, "stale", "it is too old to be collected")),
        Outcome::PauseExpired | Outcome::PauseEnding => {
            return Err(Error::new(409, Reason::OnPause.code(), Reason::OnPause.to_string()));
        }
    };
    let record = find(&collector.store, user, id).await?.ok_or_else(|| not_found(user, id))?;
    let mut response = changed(status, &record, name);
    if let Some(reason) = doubt {
        response.body["in_doubt"] = reason.into();
    }
    Ok(response)
}

/// The error for a record that was not collected.
fn not_collected(reason: &Reason) -> Error {
    let status = match reason {
        Reason::Barred(_) => 403,
        // ACH rules forbid the debit in any state.
        Reason::Exhausted(_)
        | Reason::WindowPassed
        | Reason::Stopped(_)
        | Reason::AwaitsCorrection(_)
        | Reason::BanksClosed(_)
        | Reason::NotCovered => 422,
        Reason::NotForThisRun(status) if *status == Status::Completed => {
            return conflict(&Rejection::AlreadyPaid);
        }
        Reason::NotForThisRun(status) => return conflict(&Rejection::Final(*status)),
        Reason::InFlight
        | Reason::OnPause
        | Reason::Superseded
        | Reason::NotDue(_)
        | Reason::RetryPlanned(_)
        | Reason::EnoughToday
        | Reason::SignalKnown
        | Reason::UnappliedMoney
        | Reason::MembershipEnded
        | Reason::Overtaken => 409,
    };
    Error::new(status, reason.code(), reason.to_string())
}

fn rejected(user: &UserId, id: &SubscriptionId, rejection: &Rejection) -> Error {
    match rejection {
        Rejection::UnknownUser(_) | Rejection::UnknownSubscription(_) | Rejection::WrongUser(_) => {
            not_found(user, id)
        }
        Rejection::ConflictingContent
        | Rejection::TooManyEvents
        | Rejection::Final(_)
        | Rejection::AlreadySent
        | Rejection::InFlight
        | Rejection::AlreadyPaid
        | Rejection::Presented
        | Rejection::OnPause
        | Rejection::NotPaused(_)
        | Rejection::NothingOpen(_)
        | Rejection::PeriodTaken(_) => conflict(rejection),
    }
}

pub(super) fn conflict(rejection: &Rejection) -> Error {
    Error::new(409, rejection.code(), rejection.to_string())
}
