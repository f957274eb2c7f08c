//! What a user may use: access, credits, their ledger, and spending them.

use chrono::DateTime;
use dues_events::wire::WireError;
use dues_events::{Balance, Feature, GoTime, Movement, MovementId, UserId};
use dues_store::{Consumed, Engine, Store, StoreError};
use serde_json::{Value, json};

use super::openapi::{Operation, Part, id, list, number, object, shape, text, text_or_null, words};
use super::path::{Asked, Route};
use super::{Request, Response, store_failed};
use crate::entitlements::{access, consume, credits};
use crate::fields::Fields;

/// How many movements are listed, unless somebody asks for more or fewer, and the most.
const LISTED: usize = 100;
const MOST_LISTED: usize = 1000;

/// The paths that are answered here.
pub(super) fn openapi() -> Part {
    let described = |asked: Asked| match asked {
        Asked::Access => Operation::new("get_access", "What a user may use, and why.").answer(
            200,
            "The tier, where it comes from, and until when.",
            object(json!({"user_id": text(), "tier": text(), "source": text(), "until": text_or_null(), "why": text()})),
        ),
        Asked::Credits => Operation::new("get_credits", "A user's credits.").answer(200, "The balance.", shape("Balance")),
        Asked::Ledger => Operation::new("list_credit_movements", "Every movement of a user's credits, the newest first.")
            .query("limit", "How many.", json!({"type": "integer", "minimum": 1, "maximum": MOST_LISTED}))
            .query("after", "The last movement of the page before.", text())
            .answer(200, "A page.", object(json!({"user_id": text(), "movements": list(shape("Movement")), "next": text_or_null()})))
            .errors(&[422]),
        Asked::Consume => Operation::new("consume_credits", "Spends credits on a feature, once for each key.")
            .needs(object(json!({"feature": words(Feature::ALL.map(Feature::as_str)), "idempotency_key": id()})))
            .answer(
                200,
                "They were spent, now or before.",
                object(json!({"user_id": text(), "balance": number(), "movement": shape("Movement")})),
            )
            .errors(&[402, 409, 422]),
    };
    let mut part = Part::new("entitlements", "What a user may use, and the credits to use it with.")
        .shape(
            "Balance",
            object(json!({
                "user_id": text(), "balance": number(), "lastTopUp": text_or_null(), "lastReset": text_or_null(), "expiresAt": text_or_null(),
                "nextGrantAt": text_or_null(),
            })),
        )
        .shape(
            "Movement",
            object(json!({
                "movementId": text(), "kind": text(), "amount": number(), "occurredAt": text(), "source": text(), "paymentId": text_or_null(),
                "takesBack": text_or_null(), "feature": text_or_null(),
            })),
        );
    for asked in Asked::ALL {
        let route = Route::Entitlement("u".into(), asked);
        part = part.with(asked.method(), route.template(), described(asked).errors(&[404, 500, 503]));
    }
    part
}

/// Answers a question, or spends credits.
pub(super) async fn answer<E: Engine>(store: &Store<E>, user: &UserId, asked: Asked, request: Request<'_>) -> Response {
    let answered = match asked {
        Asked::Access => tell_access(store, user).await,
        Asked::Credits => tell_credits(store, user).await,
        Asked::Ledger => list_movements(store, user, request.query).await,
        Asked::Consume => spend(store, user, request.body).await,
    };
    answered.unwrap_or_else(|error| store_failed(&error))
}

fn ok(body: Value) -> Response {
    Response::of(200, body)
}

async fn tell_access<E: Engine>(store: &Store<E>, user: &UserId) -> Result<Response, StoreError> {
    let access = access(store, user).await?;
    Ok(ok(json!({
        "user_id": user.as_str(), "tier": access.tier.as_str(), "source": access.source.as_str(),
        "until": access.until.map(|until| until.text()), "why": access.why,
    })))
}

async fn tell_credits<E: Engine>(store: &Store<E>, user: &UserId) -> Result<Response, StoreError> {
    Ok(ok(balance_json(&credits(store, user).await?)))
}

/// A balance, with its times as people read them.
#[must_use]
pub fn balance_json(balance: &Balance) -> Value {
    let second = |second: Option<i64>| second.and_then(|second| DateTime::from_timestamp(second, 0)).map(|at| GoTime::trimmed(at).text());
    let time = |time: &Option<GoTime>| time.as_ref().map(|time| time.text());
    json!({
        "user_id": balance.user.as_str(), "balance": balance.balance, "lastTopUp": time(&balance.last_top_up), "lastReset": time(&balance.last_reset),
        "expiresAt": second(balance.expires_at), "nextGrantAt": second(balance.next_grant_at),
    })
}

/// A movement of the ledger.
#[must_use]
pub fn movement_json(movement: &Movement) -> Value {
    json!({
        "movementId": movement.id.as_str(), "kind": movement.kind.as_str(), "amount": movement.amount,
        "occurredAt": GoTime::trimmed(movement.at).text(), "source": movement.source.as_str(), "paymentId": movement.payment,
        "takesBack": movement.takes_back.as_ref().map(MovementId::as_str), "feature": movement.feature.map(Feature::as_str),
    })
}

/// The newest movements first; `after` names the last one of the page before.
async fn list_movements<E: Engine>(store: &Store<E>, user: &UserId, query: &str) -> Result<Response, StoreError> {
    let (limit, after) = match page(query) {
        Ok(page) => page,
        Err(error) => return Ok(Response::error(422, "invalid_field", error.to_string())),
    };
    let mut movements = store.ledger(user).await?;
    movements.reverse();
    let from = match &after {
        None => 0,
        Some(after) => match movements.iter().position(|movement| movement.id.as_str() == after) {
            Some(place) => place + 1,
            None => return Ok(Response::error(422, "invalid_field", format!("after: the ledger has no movement {after:?}"))),
        },
    };
    let listed = movements.get(from..).unwrap_or_default();
    let next = (listed.len() > limit).then(|| listed.get(limit - 1).map(|movement| movement.id.to_string())).flatten();
    let listed: Vec<Value> = listed.iter().take(limit).map(movement_json).collect();
    Ok(ok(json!({"user_id": user.as_str(), "movements": listed, "next": next})))
}

fn page(query: &str) -> Result<(usize, Option<String>), WireError> {
    let wrong = |field: &str, problem: String| WireError { field: field.to_owned(), problem };
    let (mut limit, mut after) = (LISTED, None);
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        let value = super::path::decoded_text(value).ok_or_else(|| wrong(name, "is not UTF-8".to_owned()))?;
        match name {
            "limit" => {
                let number = value.parse().ok().filter(|number| (1..=MOST_LISTED).contains(number));
                limit = number.ok_or_else(|| wrong(name, format!("{value:?} is not a whole number from 1 to {MOST_LISTED}")))?;
            }
            "after" => after = Some(value),
            _ => {}
        }
    }
    Ok((limit, after))
}

async fn spend<E: Engine>(store: &Store<E>, user: &UserId, body: &[u8]) -> Result<Response, StoreError> {
    let (feature, key) = match read_spending(body) {
        Ok(asked) => asked,
        Err(error) => return Ok(Response::error(422, "invalid_field", error.to_string())),
    };
    Ok(match consume(store, user, feature, &key).await? {
        Consumed::Taken(movement) => {
            let balance = store.credits(user).await?.balance;
            ok(json!({"user_id": user.as_str(), "balance": balance, "movement": movement_json(&movement)}))
        }
        Consumed::NotEnough(balance) => {
            let message = format!("{} takes {} credits, there are {balance}", feature.title(), feature.cost());
            Response::error(402, "not_enough_credits", message)
        }
        Consumed::Different => Response::error(409, "key_was_used", "idempotency_key: it was used for another feature"),
    })
}

fn read_spending(body: &[u8]) -> Result<(Feature, String), WireError> {
    let fields = Fields::read(body, "body")?;
    let name = fields.id("feature")?;
    let feature = Feature::read(name).ok_or_else(|| {
        let names = Feature::ALL.map(Feature::as_str).join(", ");
        WireError { field: "feature".to_owned(), problem: format!("{name:?} is not one of {names}") }
    })?;
    Ok((feature, fields.id("idempotency_key")?.to_owned()))
}
