//! Reversals of a payment: refunds, lost disputes, late returns.

use dues_events::Time;
use dues_events::entitlements::stripe::{Amount, DisputeState, RefundStatus};

use super::{Parts, Refund, covers, sum};

/// The total reversal of a payment.
pub(super) struct Back {
    /// `pending`, `partially_refunded`, `refunded`, `charged_back` or `returned`.
    pub(super) status: &'static str,
    pub(super) amount: Option<Amount>,
    pub(super) at: Option<Time>,
    pub(super) reason: Option<String>,
}

impl Parts {
    /// What was reversed of the amount paid; `None` if nothing was.
    pub(super) fn back(&self, paid: Option<&Amount>) -> Option<Back> {
        let whole = |status, at, reason: String| {
            Some(Back { status, amount: paid.cloned(), at: Some(at), reason: Some(reason) })
        };
        if let Some((id, lost)) =
            self.disputes.iter().find(|(_, dispute)| dispute.state == DisputeState::Lost)
        {
            return whole("charged_back", lost.at, format!("dispute {id} was lost"));
        }
        if let Some(returned) = self
            .returned
            .as_ref()
            .filter(|returned| self.settled.is_some_and(|settled| returned.version > settled))
        {
            return whole("returned", returned.at, returned.reason.clone());
        }
        self.refunded(paid)
    }

    fn refunded(&self, paid: Option<&Amount>) -> Option<Back> {
        let standing = |status| self.refunds.values().filter(move |refund| refund.status == status);
        let done: Vec<&Refund> = standing(RefundStatus::Succeeded).collect();
        let amounts = done.iter().map(|refund| refund.amount.as_ref().or(paid));
        let total = amounts.flatten().fold(None, |total: Option<Amount>, amount| match total {
            None => Some(amount.clone()),
            // Leave out amounts that cannot be added; never guess.
            Some(total) => sum(&total, amount).or(Some(total)),
        });
        let reason = done.iter().rev().find_map(|refund| refund.reason.clone());
        let at = done.iter().map(|refund| refund.at).max();
        // After a failed refund the charge's own `refunded` flag is out of date.
        let failed = self.refunds.values().any(|refund| refund.status > RefundStatus::Succeeded);
        let emptied = self.emptied.filter(|_| !failed);
        let all = total.as_ref().zip(paid).is_some_and(|(total, paid)| covers(total, paid));
        if all || emptied.is_some() {
            // Never more than was paid.
            return Some(Back {
                status: "refunded",
                amount: paid.cloned().or(total),
                at: at.or(emptied),
                reason,
            });
        }
        if total.is_some() {
            return Some(Back { status: "partially_refunded", amount: total, at, reason });
        }
        let pending = standing(RefundStatus::Pending).chain(standing(RefundStatus::RequiresAction)).next()?;
        Some(Back { status: "pending", amount: None, at: None, reason: pending.reason.clone() })
    }
}
