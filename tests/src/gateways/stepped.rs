//! A gateway with every call a step of a [`Stage`]. It accepts a key once, and answers at once.

use dues_events::billing::event::Answer;
use dues_events::{AttemptKey, RefundKey};
use dues_processors::collections::gateway::{Debit, Gateway, OutcomeUnknown, Refund, RefundAnswer};
use dues_store::Engine;
use dues_store::table::{BILLING_ACTIVITY, HISTORY};

use crate::engines::stepped::{Debited, Stage, Step, Stepped, Touch};

/// The gateway of one actor. It looks at the tables when a debit arrives, for the judge.
#[derive(Clone)]
pub struct SteppedGateway<E>(pub Stepped<E>);

/// The name under which steps at the gateway appear.
const GATEWAY: &str = "gateway";

impl<E: Engine> SteppedGateway<E> {
    fn step(call: &'static str, key: &AttemptKey, write: bool) -> Step {
        let (partition, sort) = (Some(key.to_string()), Some(String::new()));
        Step::new(call, Touch { table: GATEWAY, partition, sort, write })
    }

    fn stage(&self) -> &Stage {
        &self.0.stage
    }
}

fn accepted(key: &AttemptKey) -> Answer {
    Answer::Accepted { transaction_id: format!("conf-{key}").into() }
}

impl<E: Engine> Gateway for SteppedGateway<E> {
    async fn submit(&self, debit: &Debit, key: &AttemptKey) -> Result<Answer, OutcomeUnknown> {
        let mut step = Self::step("submit", key, true);
        // The judge compares the debit with the rows at this moment: the order of a write to them matters.
        let partition = Some(debit.user_id.to_string());
        step.touches.push(Touch { table: BILLING_ACTIVITY.name, partition, sort: None, write: false });
        let call = self.stage().turn(self.0.actor, step).await;
        let tables = &self.0.inner;
        let failed = |error: dues_store::StoreError| OutcomeUnknown(error.to_string());
        let rows = tables.scan(&BILLING_ACTIVITY, None, 1000).await.map_err(failed)?.items;
        let history = tables.scan(&HISTORY, None, 1000).await.map_err(failed)?.items;
        let id = debit.subscription_id.as_str();
        let of_record = |item: &dues_events::Item| item.text("subscription_id") == Some(id);
        let booked = self.stage().book(Debited {
            actor: self.0.actor,
            key: key.to_string(),
            subscription: id.to_owned(),
            amount: debit.amount.to_string(),
            on_record: history
                .iter()
                .filter(|row| of_record(row))
                .any(|row| format!("{row:?}").contains(key.as_str())),
            row: rows.into_iter().find(of_record),
            known: Vec::new(),
        });
        call.returns(u64::from(booked), || format!("${} → accepted", debit.amount));
        Ok(accepted(key))
    }

    async fn lookup(&self, key: &AttemptKey) -> Result<Option<Answer>, OutcomeUnknown> {
        let call = self.stage().turn(self.0.actor, Self::step("lookup", key, false)).await;
        let known = self.stage().debits().iter().any(|debit| debit.key == key.as_str());
        call.returns(u64::from(known), || if known { "accepted" } else { "never seen" }.to_owned());
        Ok(known.then(|| accepted(key)))
    }

    /// No actor asks for refunds.
    async fn refund(&self, _: &Refund, key: &RefundKey) -> Result<RefundAnswer, OutcomeUnknown> {
        Err(OutcomeUnknown(format!("{key}: this gateway makes no refunds")))
    }

    async fn lookup_refund(&self, _: &RefundKey) -> Result<Option<RefundAnswer>, OutcomeUnknown> {
        Ok(None)
    }
}
