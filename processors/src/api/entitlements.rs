//! Entitlements: access, credits, their ledger, and spending them.

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use chrono::DateTime;
use dues_events::wire::WireError;
use dues_events::{Balance, Feature, GoTime, Movement, MovementId};
use dues_store::{Consumed, Engine};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{IntoParams, ToSchema};

use super::document::{Operation, one_of};
use super::extract::{Body, FromFields, Ids, Parameters};
use super::page::{MAX_PAGE, PAGE};
use super::routes::Routes;
use super::schema::Id;
use super::{Error, Shared};
use crate::collections::gateway::Gateway;
use crate::entitlements::{access, consume, credits};
use crate::runtime::json_fields::Fields;

/// Declares the routes of entitlements.
pub(super) fn declare<E: Engine, G: Gateway, R: Routes<Shared<E, G>>>(routes: R) -> R {
    routes
        .tag("entitlements", "The tier that a user has, and credits.")
        .route(Method::GET, "/{user_id}/access", get_access, || {
            Operation::new("get_access", "The user's tier, and why.")
                .answer::<AccessBody>(200, "The tier, its source, and until when.")
                .errors(&[404, 500, 503])
        })
        .route(Method::GET, "/{user_id}/credits", get_credits, || {
            Operation::new("get_credits", "A user's credits.")
                .answer::<BalanceBody>(200, "The balance.")
                .errors(&[404, 500, 503])
        })
        .route(Method::GET, "/{user_id}/credits/ledger", list_movements, || {
            Operation::new("list_credit_movements", "The ledger of a user's credits, newest first.")
                .query::<LedgerPage>()
                .answer::<Movements>(200, "A page.")
                .errors(&[404, 422, 500, 503])
        })
        .route(Method::POST, "/{user_id}/credits/consume", consume_credits, || {
            Operation::new("consume_credits", "Spends credits on a feature, once for each key.")
                .needs::<Consume>()
                .answer::<ConsumedBody>(200, "Spent, now or before.")
                .errors(&[402, 404, 409, 422, 500, 503])
        })
}

/// The tier that a user has.
#[derive(Serialize, ToSchema)]
#[schema(as = Access)]
struct AccessBody {
    user_id: String,
    tier: String,
    source: String,
    #[schema(required, value_type = Option<DateTime<Utc>>)]
    until: Option<String>,
    why: String,
}

/// A balance.
#[derive(Serialize, ToSchema)]
#[schema(as = Balance)]
#[serde(rename_all = "camelCase")]
struct BalanceBody {
    #[serde(rename = "user_id")]
    user: String,
    balance: i64,
    #[schema(required, value_type = Option<DateTime<Utc>>)]
    last_top_up: Option<String>,
    #[schema(required, value_type = Option<DateTime<Utc>>)]
    last_reset: Option<String>,
    #[schema(required, value_type = Option<DateTime<Utc>>)]
    expires_at: Option<String>,
    #[schema(required, value_type = Option<DateTime<Utc>>)]
    next_grant_at: Option<String>,
}

/// A movement of the ledger.
#[derive(Serialize, ToSchema)]
#[schema(as = Movement)]
#[serde(rename_all = "camelCase")]
struct MovementBody {
    movement_id: String,
    kind: String,
    amount: i64,
    #[schema(value_type = DateTime<Utc>)]
    occurred_at: String,
    source: String,
    #[schema(required)]
    payment_id: Option<String>,
    /// The movement that this one reverses.
    #[schema(required)]
    takes_back: Option<String>,
    #[schema(required)]
    feature: Option<String>,
}

/// A page of the ledger.
#[derive(Serialize, ToSchema)]
struct Movements {
    user_id: String,
    movements: Vec<MovementBody>,
    /// `after` of the next page; null on the last.
    #[schema(required)]
    next: Option<String>,
}

/// Which page of the ledger.
#[derive(IntoParams)]
#[allow(dead_code, reason = "described here, read by `Parameters`")]
struct LedgerPage {
    /// How many movements; 100 unless given.
    #[param(minimum = 1, maximum = 1000, nullable = false)]
    limit: Option<u32>,
    /// The last movement of the page before.
    #[param(nullable = false)]
    after: Option<String>,
}

/// Spend credits.
#[derive(ToSchema)]
#[schema(as = ConsumeCredits)]
struct Consume {
    #[schema(schema_with = features)]
    feature: Feature,
    #[schema(value_type = Id)]
    idempotency_key: String,
}

/// Credits were spent.
#[derive(Serialize, ToSchema)]
#[schema(as = ConsumedCredits)]
struct ConsumedBody {
    user_id: String,
    balance: i64,
    movement: MovementBody,
}

fn features() -> RefOr<Schema> {
    one_of(Feature::ALL.map(Feature::as_str))
}

impl FromFields for Consume {
    fn from_fields(fields: Fields) -> Result<Self, WireError> {
        let name = fields.id("feature")?;
        let feature = Feature::read(name).ok_or_else(|| {
            let names = Feature::ALL.map(Feature::as_str).join(", ");
            WireError { field: "feature".to_owned(), problem: format!("{name:?} is not one of {names}") }
        })?;
        Ok(Self { feature, idempotency_key: fields.id("idempotency_key")?.to_owned() })
    }
}

impl From<&Balance> for BalanceBody {
    fn from(balance: &Balance) -> Self {
        let second = |second: Option<i64>| {
            second.and_then(|second| DateTime::from_timestamp(second, 0)).map(|at| GoTime::trimmed(at).text())
        };
        let time = |time: &Option<GoTime>| time.as_ref().map(|time| time.text());
        Self {
            user: balance.user.to_string(),
            balance: balance.balance,
            last_top_up: time(&balance.last_top_up),
            last_reset: time(&balance.last_reset),
            expires_at: second(balance.expires_at),
            next_grant_at: second(balance.next_grant_at),
        }
    }
}

impl From<&Movement> for MovementBody {
    fn from(movement: &Movement) -> Self {
        Self {
            movement_id: movement.id.to_string(),
            kind: movement.kind.as_str().to_owned(),
            amount: movement.amount,
            occurred_at: GoTime::trimmed(movement.at).text(),
            source: movement.source.as_str().to_owned(),
            payment_id: movement.payment.clone(),
            takes_back: movement.takes_back.as_ref().map(MovementId::to_string),
            feature: movement.feature.map(|feature| feature.as_str().to_owned()),
        }
    }
}

/// A balance as JSON.
#[must_use]
pub fn balance_json(balance: &Balance) -> Value {
    json!(BalanceBody::from(balance))
}

/// A movement of the ledger as JSON.
#[must_use]
pub fn movement_json(movement: &Movement) -> Value {
    json!(MovementBody::from(movement))
}

async fn get_access<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
) -> Result<Json<AccessBody>, Error> {
    let access = access(api.store(), &ids.user()).await?;
    Ok(Json(AccessBody {
        user_id: ids.user().to_string(),
        tier: access.tier.as_str().to_owned(),
        source: access.source.as_str().to_owned(),
        until: access.until.map(|until| until.text()),
        why: access.why,
    }))
}

async fn get_credits<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
) -> Result<Json<BalanceBody>, Error> {
    Ok(Json(BalanceBody::from(&credits(api.store(), &ids.user()).await?)))
}

/// A page of movements, newest first; `after` is the last one of the page before.
async fn list_movements<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
    parameters: Parameters,
) -> Result<Json<Movements>, Error> {
    let limit = parameters.limit(PAGE, MAX_PAGE)? as usize;
    let mut movements = api.store().ledger(&ids.user()).await?;
    movements.reverse();
    let from = match parameters.get("after") {
        None => 0,
        Some(after) => match movements.iter().position(|movement| movement.id.as_str() == after) {
            Some(position) => position + 1,
            None => return Err(Error::field("after", format!("the ledger has no movement {after:?}"))),
        },
    };
    let rest = movements.get(from..).unwrap_or_default();
    let last = (rest.len() > limit).then(|| rest.get(limit - 1)).flatten();
    Ok(Json(Movements {
        user_id: ids.user().to_string(),
        next: last.map(|movement| movement.id.to_string()),
        movements: rest.iter().take(limit).map(MovementBody::from).collect(),
    }))
}

async fn consume_credits<E: Engine, G: Gateway>(
    State(api): State<Shared<E, G>>,
    ids: Ids,
    Body(Consume { feature, idempotency_key }): Body<Consume>,
) -> Result<Json<ConsumedBody>, Error> {
    let (store, user) = (api.store(), ids.user());
    match consume(store, &user, feature, &idempotency_key).await? {
        Consumed::Taken(movement) => {
            let balance = store.credits(&user).await?.balance;
            Ok(Json(ConsumedBody { user_id: user.to_string(), balance, movement: (&movement).into() }))
        }
        Consumed::NotEnough(balance) => {
            let message =
                format!("{} takes {} credits, there are {balance}", feature.title(), feature.cost());
            Err(Error::new(402, "not_enough_credits", message))
        }
        Consumed::Different => {
            Err(Error::new(409, "key_was_used", "idempotency_key: it was used for another feature"))
        }
    }
}
