//! A member's last incomes, from `income-detected`: what a payday is inferred from.
//!
//! [`Incomes`] is the newest twelve of a set, so the order of arrival does not matter, and the same event
//! counts once however often it is delivered.

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use crate::ids::EventId;
use crate::money::Money;
use crate::time::{GoTime, Time};

/// How many incomes of a member are kept: a quarter of weekly pay, a year of monthly pay.
pub const MAX_INCOMES: usize = 12;

/// An income that was detected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Income {
    /// Identifies the fact.
    pub id: EventId,
    /// When it was detected.
    pub at: Time,
    /// How much.
    pub amount: Money,
}

/// A member's newest incomes, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Incomes(Vec<Income>);

/// An income as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredIncome {
    id: String,
    at: String,
    amount: Money,
}

impl Incomes {
    /// The incomes, oldest first.
    #[must_use]
    pub fn as_slice(&self) -> &[Income] {
        &self.0
    }

    /// Takes an income. Returns whether that changed the set: `false` for a known one, and for one that is
    /// older than all that are kept.
    ///
    /// Of two contents under one event id the later counts, whichever arrives first.
    pub fn take(&mut self, income: Income) -> bool {
        let before = self.0.clone();
        match self.0.iter_mut().find(|known| known.id == income.id) {
            Some(known) if (known.at, known.amount) < (income.at, income.amount) => *known = income,
            Some(_) => {}
            None => self.0.push(income),
        }
        self.0.sort_by(|a, b| (a.at, &a.id).cmp(&(b.at, &b.id)));
        let surplus = self.0.len().saturating_sub(MAX_INCOMES);
        self.0.drain(..surplus);
        self.0 != before
    }

    /// The incomes that were known at that time.
    #[must_use]
    pub fn until(&self, at: Time) -> Self {
        Self(self.0.iter().filter(|income| income.at <= at).cloned().collect())
    }

    /// The days with an income, in order, each once: pay in two parts is one payday.
    #[must_use]
    pub fn days(&self) -> Vec<NaiveDate> {
        let mut days: Vec<NaiveDate> = self.0.iter().map(|income| income.at.date_naive()).collect();
        days.dedup();
        days
    }

    /// The text in which they are stored.
    #[must_use]
    pub fn to_text(&self) -> String {
        let stored: Vec<StoredIncome> = self
            .0
            .iter()
            .map(|income| StoredIncome {
                id: income.id.to_string(),
                at: GoTime::trimmed(income.at).text(),
                amount: income.amount,
            })
            .collect();
        serde_json::to_string(&stored).unwrap_or_default()
    }

    /// Parses the text of [`Self::to_text`].
    ///
    /// # Errors
    /// What is wrong, with the field.
    pub fn read(text: &str) -> Result<Self, String> {
        let stored: Vec<StoredIncome> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut incomes = Self::default();
        for income in stored {
            let at = crate::time::parse(&income.at)
                .map_err(|_| format!("at: {:?} is not an RFC 3339 time", income.at))?;
            incomes.take(Income { id: income.id.into(), at, amount: income.amount });
        }
        Ok(incomes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn income(id: u32, day: u32, cents: u32) -> Income {
        Income {
            id: format!("i-{id}").into(),
            at: crate::time::parse("2026-01-01T05:00:00Z").unwrap() + chrono::TimeDelta::days(day.into()),
            amount: Money::from_cents(cents),
        }
    }

    #[test]
    fn the_newest_twelve_are_kept_and_a_duplicate_counts_once() {
        let mut incomes = Incomes::default();
        for n in 0..20 {
            assert!(incomes.take(income(n, n, 10_000)));
            assert!(!incomes.take(income(n, n, 10_000)), "redelivered");
        }
        let ids: Vec<&str> = incomes.as_slice().iter().map(|income| income.id.as_str()).collect();
        assert_eq!(
            ids,
            ["i-8", "i-9", "i-10", "i-11", "i-12", "i-13", "i-14", "i-15", "i-16", "i-17", "i-18", "i-19"]
        );
        assert!(!incomes.take(income(3, 3, 10_000)), "older than all that are kept");
        assert_eq!(Incomes::read(&incomes.to_text()).unwrap(), incomes);
    }

    #[test]
    fn what_is_wrong_with_stored_incomes_is_named() {
        let error = Incomes::read(r#"[{"id":"i","at":"today","amount":"75.00"}]"#).unwrap_err();
        assert_eq!(error, "at: \"today\" is not an RFC 3339 time");
        assert!(Incomes::read(r#"[{"id":"i","amount":"75.00"}]"#).unwrap_err().contains("`at`"));
    }

    proptest! {
        /// Ids repeat, also with other content; every order of arrival ends in the same set.
        #[test]
        fn any_order_gives_the_same(
            (first, second) in prop::collection::vec((0..16_u32, 0..40_u32, 1..3_u32), 0..40)
                .prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle()))
        ) {
            let taken = |all: &[(u32, u32, u32)]| {
                let mut incomes = Incomes::default();
                for (id, day, cents) in all {
                    incomes.take(income(*id, *day, *cents));
                }
                incomes
            };
            prop_assert_eq!(taken(&first), taken(&second));
        }
    }
}
