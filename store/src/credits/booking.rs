//! A booking: rows that change and the credits that move with them, all in one transaction.

use dues_events::{Movement, Time, UserId};

use super::{ledger_op, read};
use crate::billing::Store;
use crate::engine::{Engine, Op, StoreError, Transacted};
use crate::tries::Tries;

/// How a balance goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terms {
    /// Its credits expire some time after the last ones came.
    Ordinary,
    /// They do not expire: more come every month, for life.
    Lasting {
        /// When the next ones come.
        next_grant: Time,
    },
}

/// What is to be done, all of it or nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Booking {
    /// The rows. The first one is what others may have changed meanwhile.
    pub ops: Vec<Op>,
    /// The credits. They may be fewer than none in the end: only spending asks whether there are enough.
    pub movements: Vec<Movement>,
    /// Whether these are the first credits that the user is known to have had: the balance may have to be made.
    pub first: bool,
    /// How the balance goes on, if that is other than ordinary, or other than before.
    pub terms: Option<Terms>,
}

/// What became of a booking.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Booked {
    /// It is done.
    Done,
    /// A row is not what it was thought to be: nothing was done.
    Stale,
    /// The ledger has the movement in that place already: nothing was done.
    Known(usize),
}

impl<E: Engine> Store<E> {
    /// Books it. The user's balance is made, or what has expired of it taken, if that stands in the way.
    ///
    /// # Errors
    /// What the engine could not do. Whether it happened may then be unknown.
    pub async fn book(&self, user: &UserId, booking: &Booking) -> Result<Booked, StoreError> {
        let ledger = booking.ops.len();
        let balance = ledger + booking.movements.len();
        let mut tries = Tries::new(&self.clock);
        if booking.first && !booking.movements.is_empty() {
            // A put that is refused costs less than a transaction that is.
            self.settle(user, None, &mut tries).await?;
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
                Ok(Transacted::Refused { place, .. }) if place < balance => return Ok(Booked::Known(place - ledger)),
                Ok(Transacted::Refused { there, .. }) => {
                    self.settle(user, read(there)?, &mut tries).await?;
                }
                Err(error) => tries.wait_out(error).await?,
            }
            tries.count()?;
        }
    }
}
