//! Transactions as TransactWriteItems.

use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{
    CancellationReason, ConditionCheck, Delete, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem,
    Update,
};

use super::expression::Expression;
use super::{Dynamo, conflict, convert, failed, found, invalid};
use crate::engine::{Op, StoreError, Transacted};
use crate::table::Table;
use crate::unique_name::unique;

impl Dynamo {
    /// The client token makes the SDK's retries after a lost response idempotent.
    pub(super) async fn write_transaction(&self, ops: Vec<Op>) -> Result<Transacted, StoreError> {
        Op::check(&ops)?;
        let tables: Vec<&'static Table> = ops.iter().map(Op::table).collect();
        let items = ops.into_iter().map(|op| self.transact_item(op)).collect::<Result<Vec<_>, _>>()?;
        let answer = self
            .client(tables[0])
            .transact_write_items()
            .set_transact_items(Some(items))
            .client_request_token(unique())
            .set_return_consumed_capacity(self.capacity.clone())
            .send()
            .await;
        match answer {
            Ok(_) => Ok(Transacted::Done),
            Err(error) => match error.as_service_error() {
                Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
                    cancellation(&tables, cancelled.cancellation_reasons())
                }
                Some(_) | None => Err(failed(tables[0], "transaction", error)),
            },
        }
    }

    fn transact_item(&self, op: Op) -> Result<TransactWriteItem, StoreError> {
        let (table, item) = (op.table(), TransactWriteItem::builder());
        let mut expression = Expression::default();
        /// Sets what every operation has: its table, and a condition that returns the current item on
        /// failure.
        macro_rules! conditioned {
            ($builder:expr, $condition:expr) => {
                $builder
                    .table_name(self.name(table))
                    .set_condition_expression($condition)
                    .set_expression_attribute_names(expression.names())
                    .set_expression_attribute_values(expression.values())
                    .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
                    .build()
                    .map_err(|e| invalid(table, &e))?
            };
        }
        Ok(match op {
            Op::Put(_, new, condition) => {
                let condition = expression.render(&condition, table);
                item.put(conditioned!(Put::builder().set_item(Some(convert::attributes(new))), condition))
            }
            Op::Update(_, key, edits, condition) => {
                let edits = expression.edits(&edits);
                let condition = expression.render(&condition, table);
                let update =
                    Update::builder().set_key(Some(convert::key(table, &key))).set_update_expression(edits);
                item.update(conditioned!(update, condition))
            }
            Op::Delete(_, key, condition) => {
                let condition = expression.render(&condition, table);
                item.delete(conditioned!(
                    Delete::builder().set_key(Some(convert::key(table, &key))),
                    condition
                ))
            }
            Op::Check(_, key, condition) => {
                // DynamoDB requires a condition here.
                let condition =
                    expression.render(&condition, table).unwrap_or_else(|| expression.always(table));
                item.condition_check(conditioned!(
                    ConditionCheck::builder().set_key(Some(convert::key(table, &key))),
                    Some(condition)
                ))
            }
        }
        .build())
    }
}

/// Maps the first cancellation reason. Later ones do not matter: an operation without a reason could have
/// succeeded, so the first reason is the one that sequential execution would have met.
fn cancellation(tables: &[&'static Table], reasons: &[CancellationReason]) -> Result<Transacted, StoreError> {
    for (place, (reason, table)) in reasons.iter().zip(tables).enumerate() {
        let text = || {
            format!(
                "{} transaction, operation {place}: {}",
                table.name,
                reason.message().unwrap_or("no message")
            )
        };
        match reason.code() {
            None | Some("None") => {}
            Some("ConditionalCheckFailed") => {
                return Ok(Transacted::Refused { place, there: found(reason.item.clone())? });
            }
            Some("TransactionConflict") => return Err(conflict(table, text())),
            Some("ProvisionedThroughputExceeded" | "ThrottlingError") => {
                return Err(StoreError::Throttled(text()));
            }
            Some(code) => return Err(StoreError::Invalid(format!("{}: {code}", text()))),
        }
    }
    Err(StoreError::Unavailable("a transaction was cancelled without a reason".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{HISTORY, LOCKS};

    fn cancelled(codes: &[&str]) -> Result<Transacted, StoreError> {
        let reasons: Vec<_> = codes
            .iter()
            .map(|code| CancellationReason::builder().code(*code).message("why").build())
            .collect();
        cancellation(&[&LOCKS, &HISTORY], &reasons)
    }

    #[test]
    fn the_first_reason_decides() {
        let refused = |place| Ok(Transacted::Refused { place, there: None });
        assert_eq!(cancelled(&["ConditionalCheckFailed", "TransactionConflict"]), refused(0));
        assert_eq!(cancelled(&["None", "ConditionalCheckFailed"]), refused(1));
        for (codes, transient, text) in [
            (
                ["TransactionConflict", "ConditionalCheckFailed"],
                true,
                "in conflict: locks transaction, operation 0: why",
            ),
            (
                ["None", "ThrottlingError"],
                true,
                "throttled: billing-activity-history transaction, operation 1: why",
            ),
            (
                ["ProvisionedThroughputExceeded", "None"],
                true,
                "throttled: locks transaction, operation 0: why",
            ),
            (
                ["ValidationError", "None"],
                false,
                "invalid: locks transaction, operation 0: why: ValidationError",
            ),
            (["None", "None"], true, "unavailable: a transaction was cancelled without a reason"),
        ] {
            let error = cancelled(&codes).unwrap_err();
            assert_eq!((error.is_transient(), error.to_string().as_str()), (transient, text));
        }
    }
}
