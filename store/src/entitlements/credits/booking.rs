//! A booking: rows that change and the credits that move with them, all in one transaction.

use dues_events::{Movement, Time, UserId};

use super::{ledger_op, read};
use crate::backoff::{Backoff, BackoffPolicy};
use crate::billing::Store;
use crate::engine::{Engine, Op, StoreError, Transacted};

/// The terms of a balance: whether its credits expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terms {
    /// The credits expire some time after the last ones came in.
    Ordinary,
    /// The credits do not expire: a lifetime membership grants more every month.
    Lasting {
        /// When the next grant is due.
        next_grant: Time,
    },
}

/// The writes of one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Booking {
    /// The rows. The first one detects concurrent changes.
    pub ops: Vec<Op>,
    /// The credits. The balance may become negative: only spending requires enough.
    pub movements: Vec<Movement>,
    /// Whether these are the user's first known credits: the balance row may not exist yet.
    pub first: bool,
    /// The terms of the balance, if they are not ordinary or differ from before.
    pub terms: Option<Terms>,
}

/// Outcome of a booking.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Booked {
    /// The booking is durable.
    Done,
    /// A row was changed concurrently: nothing was written.
    Stale,
    /// The ledger already has the movement at that index: nothing was written.
    Known(usize),
}

impl<E: Engine> Store<E> {
    /// Books it. Creates the user's balance row, or books its expiry, if that is what blocks the
    /// transaction.
    ///
    /// # Errors
    /// After an error it may be unknown whether the booking happened.
    pub async fn book(&self, user: &UserId, booking: &Booking) -> Result<Booked, StoreError> {
        let ledger = booking.ops.len();
        let balance = ledger + booking.movements.len();
        let mut backoff = Backoff::new(&self.clock, BackoffPolicy::CONTENDED);
        if booking.first && !booking.movements.is_empty() {
            // A refused put costs less than a refused transaction.
            self.settle(user, None, &mut backoff).await?;
        }
        loop {
            let mut ops = booking.ops.clone();
            ops.extend(booking.movements.iter().map(|movement| ledger_op(user, movement)));
            if !booking.movements.is_empty() || booking.terms.is_some() {
                ops.push(self.balance_op(user, &booking.movements, booking.terms.as_ref()));
            }
            match self.engine.transact(ops).await {
                Ok(Transacted::Done) => return Ok(Booked::Done),
                Ok(Transacted::Refused { place, .. }) if place < ledger => return Ok(Booked::Stale),
                Ok(Transacted::Refused { place, .. }) if place < balance => {
                    return Ok(Booked::Known(place - ledger));
                }
                Ok(Transacted::Refused { there, .. }) => {
                    self.settle(user, read(there)?, &mut backoff).await?;
                }
                Err(error) => backoff.wait_out(error).await?,
            }
            backoff.take_retry()?;
        }
    }
}
