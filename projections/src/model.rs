//! What a read model is: facts come in, in any order and more than once, and rows come out.
//!
//! A model's facts belong to aggregates (an image, a user's profile, a document). Each aggregate has a state, into which its facts are merged one by one;
//! merging must not depend on the order, so a state remembers for each of its parts which fact said so last ([`Latest`]). Rows are a function of the
//! state. So the rows that were kept up to date and those that are made again from the facts are the same, to the byte.

use dues_events::stripe::StripeEvent;
use dues_events::wire::WireError;
use dues_events::wire::app_events::AppEvent;
use dues_events::{EventId, Item, Record, Time, UserId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A read model.
pub trait Model: Send + Sync + 'static {
    /// Its name, as deployments choose it.
    const NAME: &'static str;
    /// What is told of its aggregates.
    type Fact: Serialize + DeserializeOwned + Clone + PartialEq + Send + Sync;
    /// What they come to.
    type State: Serialize + DeserializeOwned + Default + Clone + PartialEq + Send + Sync;

    /// What an application's event says of which aggregate; `None` for a type that is not for this model.
    ///
    /// # Errors
    /// [`WireError`] names the field.
    fn read(event: &AppEvent) -> Result<Option<(String, Self::Fact)>, WireError>;

    /// What an event of Stripe's says, once it is known whose it is.
    fn stripe(user: &UserId, event: &StripeEvent) -> Option<(String, Self::Fact)>;

    /// What a change of a billing record says. The record as it is now is all that there is to read: changes may be told again, and late.
    fn billing(record: &Record) -> Option<(String, Self::Fact)>;

    /// Merges a fact into a state. Whatever the order in which facts are merged, the state must be the same in the end.
    fn merge(state: &mut Self::State, told: &Told<Self::Fact>);

    /// The rows of an aggregate: the name of the table, and the item.
    fn rows(aggregate: &str, state: &Self::State) -> Vec<(&'static str, Item)>;

    /// What follows for other aggregates from how this one stands at a version: they are told next, whether the aggregate has just changed or was
    /// told something that it knew. The ids of these facts must say which they are, because they are told again.
    fn follows(_aggregate: &str, _version: u64, _state: &Self::State) -> Vec<(String, Told<Self::Fact>)> {
        Vec::new()
    }
}

/// A fact, with its identity and when it happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told<F> {
    /// The identity of the fact.
    pub id: EventId,
    /// When it happened.
    pub at: Time,
    /// What it says.
    pub fact: F,
}

/// A part of a state that is as the latest fact says. Of two facts of one instant the one with the greater id counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latest<T> {
    /// When the fact was that said so.
    pub at: Time,
    /// Which it was.
    pub by: EventId,
    /// What it said.
    pub value: T,
}

impl<T> Latest<T> {
    /// Puts a value in the place of an earlier one; a later one stays.
    pub fn put<F>(place: &mut Option<Self>, told: &Told<F>, value: T) {
        Self::put_ranked(place, told, value, |_| ());
    }

    /// The same, but of two facts of one instant the one whose value has the higher rank counts: Stripe dates its events to whole seconds.
    pub fn put_ranked<F, R: Ord>(place: &mut Option<Self>, told: &Told<F>, value: T, rank: impl Fn(&T) -> R) {
        let newer = place.as_ref().is_none_or(|known| (known.at, rank(&known.value), &known.by) < (told.at, rank(&value), &told.id));
        if newer {
            *place = Some(Self { at: told.at, by: told.id.clone(), value });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_one_instant_the_highest_rank_counts() {
        let told = |id: &str| Told { id: id.into(), at: Time::from_timestamp(1, 0).unwrap(), fact: () };
        for order in [[("a", 9), ("b", 5)], [("b", 5), ("a", 9)]] {
            let mut place = None;
            order.into_iter().for_each(|(id, value)| Latest::put_ranked(&mut place, &told(id), value, |value| *value));
            assert_eq!(place.map(|latest| latest.value), Some(9));
        }
    }

    #[test]
    fn the_latest_counts_whenever_it_comes() {
        let told = |id: &str, second: i64| Told { id: id.into(), at: Time::from_timestamp(second, 0).unwrap(), fact: () };
        let facts = [(told("a", 1), 10), (told("c", 2), 30), (told("b", 2), 20)];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0], [1, 1, 2]] {
            let mut place = None;
            for n in order {
                Latest::put(&mut place, &facts[n].0, facts[n].1);
            }
            assert_eq!(place.map(|latest| latest.value), Some(30), "{order:?}");
        }
    }
}
