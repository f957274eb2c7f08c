//! Reversals: the payment that each refund or dispute belongs to, and how much of it was returned.

use dues_events::Money;
use dues_events::entitlements::stripe::{DisputeState, Fact, Invoice, RefundStatus, StripeEvent};
use dues_events::ids::{ChargeId, DisputeId, InvoiceId, PaymentIntentId, RefundId};
use std::collections::{BTreeMap, BTreeSet};

/// How much of a payment was reversed.
#[derive(Debug, Clone)]
pub(super) struct Back {
    pub(super) amount: Money,
    pub(super) whole: bool,
    pub(super) cause: Option<String>,
}

impl Default for Back {
    fn default() -> Self {
        Self { amount: Money::ZERO, whole: false, cause: None }
    }
}

/// The final states of refunds and disputes, and the payments they belong to.
#[derive(Default)]
pub(super) struct Returns<'a> {
    /// Per refund: status, amount and payment.
    refunds: BTreeMap<&'a RefundId, (RefundStatus, Money, &'a PaymentIntentId)>,
    /// Payments with a fully refunded charge.
    emptied: BTreeSet<&'a PaymentIntentId>,
    disputes: BTreeMap<&'a DisputeId, (DisputeState, &'a PaymentIntentId)>,
    /// Amounts paid.
    paid: BTreeMap<&'a PaymentIntentId, Money>,
    of_charge: BTreeMap<&'a ChargeId, &'a PaymentIntentId>,
    of_invoice: BTreeMap<&'a InvoiceId, &'a PaymentIntentId>,
}

impl<'a> Returns<'a> {
    pub(super) fn read(events: &[&'a StripeEvent]) -> Self {
        let mut returns = Self::default();
        for event in events {
            returns.link(&event.fact);
        }
        for event in events {
            returns.take(&event.fact);
        }
        returns
    }

    /// Links charges and invoices to payments. Not every event names both.
    fn link(&mut self, fact: &'a Fact) {
        let (charge, payment, invoice) = match fact {
            Fact::InvoicePaid(invoice) | Fact::InvoiceFailed(invoice) => {
                (invoice.charge.as_ref(), invoice.payment_intent.as_ref(), Some(&invoice.invoice))
            }
            Fact::PaymentIntent(payment) => (None, Some(&payment.id), payment.invoice.as_ref()),
            Fact::Refund(refund) => (refund.charge.as_ref(), refund.payment_intent.as_ref(), None),
            Fact::ChargeRefunded(charge) => (Some(&charge.charge), charge.payment_intent.as_ref(), None),
            Fact::Dispute(dispute) => (dispute.charge.as_ref(), dispute.payment_intent.as_ref(), None),
            Fact::Subscription(_) | Fact::Checkout(_) => (None, None, None),
        };
        let Some(payment) = payment else { return };
        if let Some(charge) = charge {
            self.of_charge.insert(charge, payment);
        }
        if let Some(invoice) = invoice {
            self.of_invoice.insert(invoice, payment);
        }
    }

    fn take(&mut self, fact: &'a Fact) {
        match fact {
            Fact::InvoicePaid(invoice) => {
                if let (Some(payment), Some(paid)) = (self.payment_of(invoice), invoice.amount_paid.usd()) {
                    self.paid.insert(payment, paid);
                }
            }
            Fact::Checkout(checkout) => {
                if let (Some(payment), Some(paid)) =
                    (&checkout.payment_intent, checkout.amount_total.as_ref().and_then(|amount| amount.usd()))
                {
                    self.paid.insert(payment, paid);
                }
            }
            Fact::PaymentIntent(payment) if payment.succeeded => {
                if let Some(paid) = payment.amount.usd() {
                    self.paid.insert(&payment.id, paid);
                }
            }
            Fact::Refund(refund) => {
                if let Some(payment) = self.payment(refund.payment_intent.as_ref(), refund.charge.as_ref()) {
                    let known =
                        self.refunds.entry(&refund.id).or_insert((refund.status, Money::ZERO, payment));
                    // The status of a refund only moves forward.
                    *known = (known.0.max(refund.status), refund.amount.usd().unwrap_or(known.1), payment);
                }
            }
            Fact::ChargeRefunded(charge) if charge.refunded => {
                self.emptied.extend(self.payment(charge.payment_intent.as_ref(), Some(&charge.charge)));
            }
            Fact::Dispute(dispute) => {
                if let Some(payment) = self.payment(dispute.payment_intent.as_ref(), dispute.charge.as_ref())
                {
                    let known = self.disputes.entry(&dispute.id).or_insert((dispute.state, payment));
                    *known = (known.0.max(dispute.state), payment);
                }
            }
            Fact::Subscription(_)
            | Fact::InvoiceFailed(_)
            | Fact::PaymentIntent(_)
            | Fact::ChargeRefunded(_) => {}
        }
    }

    fn payment(
        &self,
        payment: Option<&'a PaymentIntentId>,
        charge: Option<&ChargeId>,
    ) -> Option<&'a PaymentIntentId> {
        payment.or_else(|| charge.and_then(|charge| self.of_charge.get(charge).copied()))
    }

    /// The payment of an invoice. The link may be on either object.
    pub(super) fn payment_of(&self, invoice: &'a Invoice) -> Option<&'a PaymentIntentId> {
        let named = self.payment(invoice.payment_intent.as_ref(), invoice.charge.as_ref());
        named.or_else(|| self.of_invoice.get(&invoice.invoice).copied())
    }

    /// How much of a payment was reversed: all of it by a lost dispute, else the sum of the refunds.
    pub(super) fn returned(&self, payment: &PaymentIntentId) -> Back {
        let lost =
            self.disputes.iter().find(|(_, (state, of))| *of == payment && *state == DisputeState::Lost);
        if let Some((id, _)) = lost {
            return Back { amount: Money::ZERO, whole: true, cause: Some(id.to_string()) };
        }
        let given_back = self
            .refunds
            .iter()
            .filter(|(_, (status, _, of))| *of == payment && *status == RefundStatus::Succeeded);
        let mut back = Back::default();
        for (id, (_, amount, _)) in given_back {
            back.amount = back.amount.checked_add(*amount).unwrap_or(back.amount);
            back.cause = Some(id.to_string());
        }
        let all = self.paid.get(payment).is_some_and(|paid| back.amount >= *paid && *paid > Money::ZERO);
        // After a failed refund, the charge's own `refunded` flag is out of date.
        let failed =
            self.refunds.values().any(|(status, _, of)| *of == payment && *status > RefundStatus::Succeeded);
        back.whole = all || (self.emptied.contains(payment) && !failed);
        if back.whole && back.cause.is_none() {
            back.cause = Some(format!("refund of {payment}"));
        }
        back
    }
}
