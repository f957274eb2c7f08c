//! A member's last incomes: one row of the journal, with a version.
//!
//! The row holds the newest twelve of a set (see [`Incomes`]), so it needs no row for each fact: the same
//! event changes nothing, however late it is delivered again, and the order of arrival does not matter.

use dues_events::UserId;
use dues_events::attributes::STATE;
use dues_events::billing::record::ReadError;
use dues_events::collections::incomes::{Income, Incomes};

use crate::billing::Store;
use crate::engine::{Engine, StoreError, Written};
use crate::journal::{Aggregate, JournalHead};
use crate::table::JOURNAL;

/// The name of the journal's rows of incomes.
const MODEL: &str = "incomes";
/// Lost races before the writer gives up; the signal is then delivered again.
const RACES: u32 = 20;

impl<E: Engine> Store<E> {
    /// A member's last incomes: one read.
    pub async fn incomes(&self, user: &UserId) -> Result<Incomes, StoreError> {
        let aggregate = Aggregate::new(MODEL, user.as_str());
        read(&aggregate, &self.journal_head(&aggregate).await?)
    }

    /// Remembers an income. Returns whether it is news: one read, and one write if so.
    pub async fn remember_income(&self, user: &UserId, income: &Income) -> Result<bool, StoreError> {
        let aggregate = Aggregate::new(MODEL, user.as_str());
        for _ in 0..RACES {
            let head = self.journal_head(&aggregate).await?;
            let mut incomes = read(&aggregate, &head)?;
            if !incomes.take(income.clone()) {
                return Ok(false);
            }
            let head = JournalHead { version: head.version + 1, state: incomes.to_text() };
            let (item, condition) = aggregate.head_row(&head);
            match self.engine.put(&JOURNAL, item, condition).await? {
                Written::Done => return Ok(true),
                Written::Refused(_) => {}
            }
        }
        Err(StoreError::Contended(RACES))
    }
}

fn read(aggregate: &Aggregate, head: &JournalHead) -> Result<Incomes, StoreError> {
    if head.version == 0 {
        return Ok(Incomes::default());
    }
    Incomes::read(&head.state).map_err(|problem| {
        StoreError::Unreadable(ReadError {
            attribute: STATE.to_owned(),
            key: format!("{}#{}", aggregate.model, aggregate.name),
            problem,
        })
    })
}
