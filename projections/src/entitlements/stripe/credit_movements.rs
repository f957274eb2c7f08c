//! The movements that lead from one state of a user's credits to the next.

use dues_events::entitlements::credits::Movement;
use dues_events::ids::PaymentIntentId;
use dues_events::{EventId, MovementId, Time};
use std::collections::BTreeSet;

use super::{CreditGrant, Entitlement};

/// The movements that turn `before` into `after`. `cause` is the event that caused the change, and when it
/// was created.
///
/// A grant is a movement under its own name, so the ledger can hold it only once; each take-back names the
/// grant and its cause.
#[must_use]
pub fn movements(before: &Entitlement, after: &Entitlement, cause: (&EventId, Time)) -> Vec<Movement> {
    let names: BTreeSet<&String> = before.grants.keys().chain(after.grants.keys()).collect();
    names
        .into_iter()
        .filter_map(|name| change(name, before.grants.get(name), after.grants.get(name), cause))
        .collect()
}

fn change(
    name: &str,
    before: Option<&CreditGrant>,
    after: Option<&CreditGrant>,
    (event, at): (&EventId, Time),
) -> Option<Movement> {
    let stands = |grant: Option<&CreditGrant>| {
        grant.map_or(0, |grant| i64::try_from(grant.stands).unwrap_or(i64::MAX))
    };
    let credits = stands(after).saturating_sub(stands(before));
    let id = MovementId::from(name);
    let payment = after.or(before).and_then(|grant| grant.payment.as_ref()).map(PaymentIntentId::to_string);
    match (credits, after) {
        (0, _) => None,
        (1.., Some(grant)) => {
            let CreditGrant { kind, at, source, .. } = grant.clone();
            Some(Movement { id, kind, amount: credits, at, source, payment, takes_back: None, feature: None })
        }
        (_, _) => {
            let taken =
                Movement::take_back_of(event.as_str(), &id, credits.saturating_neg(), at, event.clone());
            Some(Movement { payment, ..taken })
        }
    }
}

/// The same movement under another name: it was granted, taken back, and is granted again because of this
/// event.
#[must_use]
pub fn regrant(movement: &Movement, event: &EventId) -> Movement {
    Movement { id: format!("{}@{event}", movement.id).into(), ..movement.clone() }
}
