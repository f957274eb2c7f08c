//! Transactions within the writer's own: each runs in a savepoint, so that a refused one leaves no trace and
//! the others of its group proceed.

use super::row::{Row, holds};
use super::writer::{Fault, Writer, refused};
use crate::engine::{Condition, Edit, Key, Op, StoreError, Transacted, Updated, Written};
use crate::table::Table;

/// An operation, encoded by the caller as far as possible without the current row.
#[derive(Debug)]
pub(crate) enum Step {
    Put(Row, Condition),
    Update(&'static Table, Key, Vec<Edit>, Condition),
    Delete(&'static Table, Key, Condition),
    Check(&'static Table, Key, Condition),
}

impl Step {
    pub(crate) fn new(op: Op) -> Result<Self, StoreError> {
        Ok(match op {
            Op::Put(table, item, condition) => Self::Put(Row::new(table, &item)?, condition),
            Op::Update(table, key, edits, condition) => Self::Update(table, key, edits, condition),
            Op::Delete(table, key, condition) => Self::Delete(table, key, condition),
            Op::Check(table, key, condition) => Self::Check(table, key, condition),
        })
    }
}

impl Writer {
    /// Runs the steps in order. No item is named twice, so each condition sees the state before the first
    /// step.
    pub(crate) fn transact(&self, steps: Vec<Step>) -> Result<Transacted, Fault> {
        self.execute("SAVEPOINT steps")?;
        let result = self.take_steps(steps);
        match &result {
            Ok(Transacted::Done) => {}
            Ok(Transacted::Refused { .. }) | Err(Fault::Own(_)) => self.execute("ROLLBACK TO steps")?,
            // The writer's own transaction fails too, and may have ended already.
            Err(Fault::Database(_)) => return result,
        }
        self.execute("RELEASE steps")?;
        result
    }

    fn take_steps(&self, steps: Vec<Step>) -> Result<Transacted, Fault> {
        for (place, step) in steps.into_iter().enumerate() {
            if let Written::Refused(there) = self.take_step(step)? {
                return Ok(Transacted::Refused { place, there });
            }
        }
        Ok(Transacted::Done)
    }

    fn take_step(&self, step: Step) -> Result<Written, Fault> {
        match step {
            Step::Put(row, condition) => self.put(&row, &condition),
            Step::Update(table, key, edits, condition) => {
                self.update(table, &key, edits, &condition).map(|updated| match updated {
                    Updated::Done(_) => Written::Done,
                    Updated::Refused(there) => Written::Refused(there),
                })
            }
            Step::Delete(table, key, condition) => self.delete(table, &key, &condition),
            Step::Check(table, key, condition) => self.check(table, &key, &condition),
        }
    }

    fn check(&self, table: &'static Table, key: &Key, condition: &Condition) -> Result<Written, Fault> {
        let sk = key.sort.as_deref().unwrap_or_default();
        let there = self.find(table, &key.partition, sk)?;
        let there = there.as_ref().map(|(_, bytes)| bytes.as_slice());
        if holds(condition, table, &key.partition, sk, there)? {
            Ok(Written::Done)
        } else {
            refused(table, key, there)
        }
    }
}
