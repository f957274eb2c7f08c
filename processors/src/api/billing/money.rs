//! Unapplied money: what there is, and decisions about it.

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use dues_events::wire::WireError;
use dues_events::{Rejection, SubscriptionId};
use dues_store::billing::money::{MoneyRow, MoneyStatus};
use dues_store::{CommitError, Engine};
use serde_json::Value;

use super::commands::conflict;
use super::schema::{ApplyMoney, DismissMoney, MoneyList, OfStatus, UnappliedMoney};
use crate::api::document::Operation;
use crate::api::extract::{Actor, Body, FromFields, Ids, Parameters};
use crate::api::routes::Routes;
use crate::api::schema::FreeForm;
use crate::api::{Error, Response, Shared};
use crate::collections::gateway::Gateway;
use crate::collections::money::MoneyError;
use crate::runtime::json_fields::Fields;

/// Declares the routes of unapplied money.
pub(super) fn declare<E: Engine, G: Gateway, R: Routes<Shared<E, G>>>(routes: R) -> R {
    let decision = |name: &str, summary: &str| {
        Operation::new(name, summary).answer::<UnappliedMoney>(200, "The money as it is now.")
    };
    routes
        .route(Method::GET, "/money", list, || {
            Operation::new("list_money", "Money that arrived and pays for nothing, oldest first.")
                .query::<OfStatus>()
                .answer::<MoneyList>(200, "All of that status.")
                .errors(&[422, 500, 503])
        })
        .route(Method::GET, "/money/{money_id}", get, || {
            Operation::new("get_money", "Unapplied money.")
                .answer::<UnappliedMoney>(200, "The money.")
                .errors(&[404, 500, 503])
        })
        .route(Method::POST, "/money/{money_id}/apply", apply, || {
            decision("apply_money", "Applies it to an open record of the same member, which it pays in full.")
                .needs::<ApplyMoney>()
                .errors(&[404, 409, 422, 500, 503])
        })
        .route(Method::POST, "/money/{money_id}/refund", refund, || {
            Operation::new("refund_money", "Refunds it through the payment gateway.")
                .body::<FreeForm>()
                .answer::<UnappliedMoney>(
                    202,
                    "The gateway accepted the refund; the bank reports when the money has gone back.",
                )
                .errors(&[402, 404, 409, 422, 500, 503])
        })
        .route(Method::POST, "/money/{money_id}/dismiss", dismiss, || {
            decision("dismiss_money", "Dismisses it, with a reason.")
                .needs::<DismissMoney>()
                .errors(&[404, 409, 422, 500, 503])
        })
}

/// The row as the API and `dues money --json` print it.
#[must_use]
pub fn money_json(row: &MoneyRow) -> Value {
    serde_json::to_value(UnappliedMoney::from(row)).unwrap_or_default()
}

impl From<&MoneyRow> for UnappliedMoney {
    fn from(row: &MoneyRow) -> Self {
        let decision = row.decision.as_ref();
        Self {
            id: row.id.clone(),
            status: row.status.as_str(),
            user_id: row.user_id.to_string(),
            subscription_id: row.subscription_id.to_string(),
            transaction_id: row.transaction_id.as_ref().map(ToString::to_string),
            amount: row.amount.to_string(),
            currency: row.currency.to_string(),
            settled_at: row.settled_at,
            reason: row.reason.as_str(),
            actor: decision.map(|decision| decision.actor.clone()),
            decided_at: decision.map(|decision| decision.at),
            note: decision.map(|decision| decision.note.clone()),
        }
    }
}

/// The record to apply money to.
struct Apply {
    to: SubscriptionId,
}

impl FromFields for Apply {
    fn from_fields(fields: Fields) -> Result<Self, WireError> {
        Ok(Self { to: fields.id("subscription_id")?.into() })
    }
}

/// Why money is dismissed.
struct Dismiss {
    reason: String,
}

impl FromFields for Dismiss {
    fn from_fields(fields: Fields) -> Result<Self, WireError> {
        let reason = fields.id("reason")?.trim().to_owned();
        match reason.is_empty() {
            true => Err(WireError { field: "reason".to_owned(), problem: "is empty".to_owned() }),
            false => Ok(Self { reason }),
        }
    }
}

async fn list<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    parameters: Parameters,
) -> Result<Json<MoneyList>, Error> {
    let status = match parameters.get("status") {
        Some(_) => parameters.one_of("status", &MoneyStatus::ALL, |status| status.as_str())?,
        None => MoneyStatus::Open,
    };
    let rows = api.store().money_rows(status).await?;
    Ok(Json(MoneyList { money: rows.iter().map(UnappliedMoney::from).collect() }))
}

async fn get<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
) -> Result<Json<UnappliedMoney>, Error> {
    let id = ids.get("money_id");
    let row = api.store().money_row(id).await?.ok_or_else(|| MoneyError::Unknown(id.to_owned()))?;
    Ok(Json(UnappliedMoney::from(&row)))
}

async fn apply<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
    Actor(actor): Actor,
    Body(Apply { to }): Body<Apply>,
) -> Result<Response, Error> {
    let row = api.collector.apply_money(ids.get("money_id"), &to, &actor).await?;
    Ok(Response::of(200, money_json(&row)))
}

async fn refund<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
    Actor(actor): Actor,
    Body(_): Body<Fields>,
) -> Result<Response, Error> {
    let row = api.collector.refund_money(ids.get("money_id"), &actor).await?;
    Ok(Response::of(202, money_json(&row)))
}

async fn dismiss<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
    Actor(actor): Actor,
    Body(Dismiss { reason }): Body<Dismiss>,
) -> Result<Response, Error> {
    let row = api.collector.dismiss_money(ids.get("money_id"), &reason, &actor).await?;
    Ok(Response::of(200, money_json(&row)))
}

impl From<MoneyError> for Error {
    fn from(error: MoneyError) -> Self {
        let message = error.to_string();
        match error {
            MoneyError::Unknown(_) => Self::new(404, "not_found", message),
            MoneyError::Decided { .. } => Self::new(409, "decided", message),
            MoneyError::Impossible(_) => Self::new(409, "not_possible", message),
            MoneyError::InvalidAmount(problem) => Self::field("amount", problem),
            MoneyError::Refused(_) => Self::new(402, "refused", message),
            MoneyError::Unknowable(_) => Self::new(503, "in_doubt", message),
            // Only a record that was named in the body can be unknown here.
            MoneyError::Commit(CommitError::Rejected(Rejection::UnknownSubscription(_))) => {
                Self::field("subscription_id", message)
            }
            MoneyError::Commit(CommitError::Rejected(rejection)) => conflict(&rejection),
            MoneyError::Commit(CommitError::Store(error)) => error.into(),
        }
    }
}
