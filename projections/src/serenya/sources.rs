//! Facts from Stripe events and billing records.

use dues_events::entitlements::stripe::{
    Amount, ChargeRefunded, Checkout, CheckoutState, Dispute, Fact as Stripe, Invoice, PaymentIntent, Refund,
    StripeEvent,
};
use dues_events::{Record, State, Time, UserId};

use super::payment::{self, Parts, Payment, PaymentReport, Returned, Source, Status};
use super::subscription::Dues;
use super::{Fact, ProfileFact, aggregate_of, user_aggregate};

/// Payment method of Stripe payments; the events do not say more.
const STRIPE: &str = "stripe";
/// Payment method of dues.
const ACH: &str = "ACH";

/// Maps a Stripe event to the aggregate and its fact.
pub(super) fn stripe(user: &UserId, event: &StripeEvent) -> Option<(String, Fact)> {
    let said = Said { user: user.as_str(), at: event.created, sandbox: !event.livemode };
    match &event.fact {
        Stripe::Subscription(subscription) => {
            let fact = ProfileFact::Stripe(Box::new(subscription.clone()));
            return Some((user_aggregate(user.as_str()), Fact::Profile(fact)));
        }
        Stripe::InvoicePaid(invoice) => said.invoice(invoice, Status::Completed, &invoice.amount_paid),
        Stripe::InvoiceFailed(invoice) => said.invoice(invoice, Status::Failed, &invoice.amount_due),
        Stripe::Checkout(checkout) => said.checkout(checkout),
        Stripe::PaymentIntent(intent) => Some(said.intent(intent)),
        Stripe::Refund(refund) => said.refund(refund),
        Stripe::ChargeRefunded(charge) => said.charge_refunded(charge),
        Stripe::Dispute(dispute) => said.dispute(dispute),
    }
    .map(payment_fact)
}

fn payment_fact(payment: Payment) -> (String, Fact) {
    (aggregate_of("payment", &payment.user, &payment.id), Fact::Payment(Box::new(payment)))
}

/// User, time and mode of the event.
struct Said<'a> {
    user: &'a str,
    at: Time,
    sandbox: bool,
}

impl Said<'_> {
    fn payment(&self, id: &str, parts: Parts) -> Payment {
        Payment { user: self.user.to_owned(), id: id.to_owned(), belongs_to: None, parts, dues: None }
    }

    /// A source's report of the payment itself, which has begun by then.
    fn parts(
        &self,
        source: Source,
        status: Status,
        amount: Option<&Amount>,
        subscription: Option<String>,
    ) -> Parts {
        let word = PaymentReport {
            status,
            at: self.at,
            amount: amount.cloned(),
            subscription,
            method: Some(STRIPE.to_owned()),
            transaction: None,
            receipt_sha256: None,
            sandbox: self.sandbox,
            platform: None,
            app_version: None,
        };
        Parts { begun: Some(self.at), words: [(source, word)].into_iter().collect(), ..self.touched() }
    }

    fn touched(&self) -> Parts {
        Parts { touched: Some(self.at), ..Parts::default() }
    }

    /// `None` for an invoice without an amount: it is no payment.
    fn invoice(&self, invoice: &Invoice, status: Status, amount: &Amount) -> Option<Payment> {
        let subscription = invoice.subscription.as_ref().map(ToString::to_string);
        let mut parts = self.parts(Source::Invoice, status, Some(amount), subscription);
        parts.intent = invoice.payment_intent.as_ref().map(ToString::to_string);
        parts.charge = invoice.charge.as_ref().map(ToString::to_string);
        amount.is_positive().then(|| self.payment(invoice.invoice.as_str(), parts))
    }

    /// `None` without a payment intent: an invoice pays the checkout, or nothing does.
    fn checkout(&self, checkout: &Checkout) -> Option<Payment> {
        let intent = checkout.payment_intent.as_ref()?;
        let status = match checkout.state {
            CheckoutState::Pending => Status::Pending,
            CheckoutState::Failed => Status::Failed,
            CheckoutState::Paid => Status::Completed,
        };
        let subscription = checkout.subscription.as_ref().map(ToString::to_string);
        let mut parts = self.parts(Source::Checkout, status, checkout.amount_total.as_ref(), subscription);
        parts.intent = Some(intent.to_string());
        Some(self.payment(intent.as_str(), parts))
    }

    fn intent(&self, intent: &PaymentIntent) -> Payment {
        let status = if intent.succeeded { Status::Completed } else { Status::Failed };
        let mut parts = self.parts(Source::Intent, status, Some(&intent.amount), None);
        parts.intent = Some(intent.id.to_string());
        let belongs_to = intent.invoice.as_ref().map(ToString::to_string);
        Payment { belongs_to, ..self.payment(intent.id.as_str(), parts) }
    }

    fn refund(&self, refund: &Refund) -> Option<Payment> {
        let (intent, charge) = (
            refund.payment_intent.as_ref().map(|id| id.as_str()),
            refund.charge.as_ref().map(|id| id.as_str()),
        );
        let known = payment::Refund {
            status: refund.status,
            at: self.at,
            amount: Some(refund.amount.clone()),
            reason: None,
        };
        self.back(intent, charge, |parts| {
            parts.refunds = [(refund.id.to_string(), known)].into_iter().collect()
        })
    }

    fn charge_refunded(&self, charge: &ChargeRefunded) -> Option<Payment> {
        let intent = charge.payment_intent.as_ref().map(|id| id.as_str());
        self.back(intent, Some(charge.charge.as_str()), |parts| {
            parts.emptied = charge.refunded.then_some(self.at)
        })
    }

    fn dispute(&self, dispute: &Dispute) -> Option<Payment> {
        let (intent, charge) = (
            dispute.payment_intent.as_ref().map(|id| id.as_str()),
            dispute.charge.as_ref().map(|id| id.as_str()),
        );
        let known = payment::Dispute { state: dispute.state, at: self.at };
        self.back(intent, charge, |parts| {
            parts.disputes = [(dispute.id.to_string(), known)].into_iter().collect()
        })
    }

    /// A reversal names its payment intent, or only a charge.
    fn back(
        &self,
        intent: Option<&str>,
        charge: Option<&str>,
        set: impl FnOnce(&mut Parts),
    ) -> Option<Payment> {
        let mut parts =
            Parts { intent: intent.map(str::to_owned), charge: charge.map(str::to_owned), ..self.touched() };
        set(&mut parts);
        Some(self.payment(intent.or(charge)?, parts))
    }
}

/// The payment of the record's last attempt; `None` while there is nothing to report.
pub(super) fn billing(record: &Record) -> Option<(String, Fact)> {
    let at = record.last_run_date.as_ref().unwrap_or(&record.billing_date).at();
    let (status, settled, returned, refund) = match &record.state {
        State::Completed(_) => (Status::Completed, Some(record.version), None, None),
        State::Refunded(_) => {
            let refund = payment::Refund {
                status: dues_events::entitlements::stripe::RefundStatus::Succeeded,
                at,
                amount: None,
                reason: None,
            };
            (Status::Completed, None, None, Some(refund))
        }
        State::Error(failed) => {
            // Nothing was sent, so no payment failed.
            failed.transaction_id.as_ref()?;
            let returned = Returned { version: record.version, at, reason: failed.failure.text().to_owned() };
            (Status::Failed, None, Some(returned), None)
        }
        State::Scheduled
        | State::AchSent(_)
        | State::Waived(_)
        | State::Cancelled(_)
        | State::Paused(_)
        | State::PausedSkipped(..)
        | State::Stale(_) => return None,
    };
    let transaction = record.state.transaction_id().map(ToString::to_string);
    let id = transaction.clone().unwrap_or_else(|| record.subscription_id.to_string());
    let word = PaymentReport {
        status,
        at,
        amount: Some(Amount::Usd(record.plan.amount)),
        subscription: Some(record.subscription_id.to_string()),
        method: Some(ACH.to_owned()),
        transaction,
        receipt_sha256: None,
        sandbox: false,
        platform: None,
        app_version: None,
    };
    let parts = Parts {
        begun: Some(at),
        touched: Some(at),
        words: [(Source::Settlement, word)].into_iter().collect(),
        refunds: refund.map(|refund| (format!("refund of {id}"), refund)).into_iter().collect(),
        settled,
        returned,
        ..Parts::default()
    };
    Some(payment_fact(Payment {
        user: record.user_id.to_string(),
        id,
        belongs_to: None,
        parts,
        dues: Some(dues(record, at)),
    }))
}

/// The subscription that follows from the record.
fn dues(record: &Record, at: Time) -> Dues {
    let due = record.billing_date.at();
    Dues {
        due,
        record: record.subscription_id.to_string(),
        version: record.version,
        at,
        paid: matches!(record.state, State::Completed(_)),
        since: record.since().unwrap_or(due),
        until: record.schedule().after(due).unwrap_or(due),
        renews: record.cancel_at.is_none(),
    }
}
