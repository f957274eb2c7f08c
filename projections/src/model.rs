//! What a read model is: facts in, in any order and with repeats; rows out.
//!
//! Facts belong to aggregates (an image, a user's profile, a document). Each aggregate has a state, into
//! which its facts are merged one by one. Merging must not depend on the order, so each part of a state
//! keeps the fact that last set it ([`Latest`]). Rows are a function of the state. Incrementally updated
//! rows and rows rebuilt from the facts are therefore identical, to the byte.

use dues_events::entitlements::stripe::StripeEvent;
use dues_events::wire::WireError;
use dues_events::wire::app_events::AppEvent;
use dues_events::{EventId, Item, Record, Time, UserId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A read model.
pub trait Model: Send + Sync + 'static {
    /// The name by which a deployment selects it.
    const NAME: &'static str;
    /// What events state about its aggregates.
    type Fact: Serialize + DeserializeOwned + Clone + PartialEq + Send + Sync;
    /// What the facts of an aggregate merge into.
    type State: Serialize + DeserializeOwned + Default + Clone + PartialEq + Send + Sync;

    /// The aggregate and the fact of an application's event; `None` for a type that is not for this model.
    ///
    /// # Errors
    /// [`WireError`] names the field.
    fn read(event: &AppEvent) -> Result<Option<(String, Self::Fact)>, WireError>;

    /// The aggregate and the fact of a Stripe event, once its owner is known.
    fn stripe(user: &UserId, event: &StripeEvent) -> Option<(String, Self::Fact)>;

    /// The aggregate and the fact of a change of a billing record. Only the current record is read: changes
    /// may be redelivered, and late.
    fn billing(record: &Record) -> Option<(String, Self::Fact)>;

    /// Merges a fact into a state. The final state must not depend on the order of merging.
    fn merge(state: &mut Self::State, recorded: &Recorded<Self::Fact>);

    /// The rows of an aggregate: the name of the table, and the item.
    fn rows(aggregate: &str, state: &Self::State) -> Vec<(&'static str, Item)>;

    /// Facts for other aggregates that follow from this state at this version. They are recorded next,
    /// whether the aggregate has just changed or the fact was a duplicate. They are recorded repeatedly, so
    /// their ids must identify them.
    fn follows(_aggregate: &str, _version: u64, _state: &Self::State) -> Vec<(String, Recorded<Self::Fact>)> {
        Vec::new()
    }
}

/// A fact, with its identity and when it happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded<F> {
    /// Identifies the fact.
    pub id: EventId,
    /// When it happened.
    pub at: Time,
    /// What it states.
    pub fact: F,
}

/// A part of a state, as its latest fact set it. Of two facts at the same instant, the one with the greater
/// id wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latest<T> {
    /// When that fact happened.
    pub at: Time,
    /// The id of that fact.
    pub by: EventId,
    /// The value it set.
    pub value: T,
}

impl<T> Latest<T> {
    /// Replaces an earlier value; keeps a later one.
    pub fn update<F>(place: &mut Option<Self>, recorded: &Recorded<F>, value: T) {
        Self::update_ranked(place, recorded, value, |_| ());
    }

    /// Like [`Latest::update`], but of two facts at the same instant the value with the higher rank wins:
    /// Stripe dates its events to whole seconds.
    pub fn update_ranked<F, R: Ord>(
        place: &mut Option<Self>,
        recorded: &Recorded<F>,
        value: T,
        rank: impl Fn(&T) -> R,
    ) {
        let newer = place.as_ref().is_none_or(|known| {
            (known.at, rank(&known.value), &known.by) < (recorded.at, rank(&value), &recorded.id)
        });
        if newer {
            *place = Some(Self { at: recorded.at, by: recorded.id.clone(), value });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_one_instant_the_highest_rank_counts() {
        let recorded =
            |id: &str| Recorded { id: id.into(), at: Time::from_timestamp(1, 0).unwrap(), fact: () };
        for order in [[("a", 9), ("b", 5)], [("b", 5), ("a", 9)]] {
            let mut place = None;
            order.into_iter().for_each(|(id, value)| {
                Latest::update_ranked(&mut place, &recorded(id), value, |value| *value)
            });
            assert_eq!(place.map(|latest| latest.value), Some(9));
        }
    }

    #[test]
    fn the_latest_counts_whenever_it_comes() {
        let recorded = |id: &str, second: i64| Recorded {
            id: id.into(),
            at: Time::from_timestamp(second, 0).unwrap(),
            fact: (),
        };
        let facts = [(recorded("a", 1), 10), (recorded("c", 2), 30), (recorded("b", 2), 20)];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0], [1, 1, 2]] {
            let mut place = None;
            for n in order {
                Latest::update(&mut place, &facts[n].0, facts[n].1);
            }
            assert_eq!(place.map(|latest| latest.value), Some(30), "{order:?}");
        }
    }
}
