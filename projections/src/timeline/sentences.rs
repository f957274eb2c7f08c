//! Sentences for what happened.

use dues_events::billing::record::{History, Record, State, UpdatedEvent};
use dues_events::entitlements::credits::Movement;
use dues_events::entitlements::stripe::{Amount, CheckoutState, DisputeState, Fact};
use dues_events::{GoTime, MovementKind};

/// The sentence for a change of a billing record.
pub(super) fn of_change(row: &History, before: Option<&Record>, after: &Record) -> String {
    if !row.changed() {
        return format!("Nothing changed: {}.", row.outcome);
    }
    let Some(before) = before else { return made(after) };
    match (&before.state, &after.state) {
        (State::Scheduled(_) | State::Error(_), State::AchSent(_)) => sent(after),
        (State::AchSent(_), State::AchSent(_)) => answered(before, after),
        (State::Completed(_), State::Completed(_)) => "The payment was confirmed once more.".to_owned(),
        (_, State::Completed(_)) if after.plan.amount == dues_events::Money::ZERO => {
            "There was nothing to pay: the period is complete.".to_owned()
        }
        (_, State::Completed(_)) => {
            format!("The money arrived: ${}{}.", after.plan.amount, transaction(after))
        }
        (State::Completed(_), State::Error(_)) => {
            format!(
                "The bank took the money back, after it had arrived: {}.{}",
                failure(after),
                barred(after)
            )
        }
        (State::AchSent(_), State::Error(_)) => {
            format!("The debit came back: {}.{}", failure(after), barred(after))
        }
        (_, State::Error(_)) => format!("Collecting failed: {}.{}", failure(after), barred(after)),
        (_, State::Refunded(_)) => {
            format!("The money was given back to the member: ${}{}.", after.plan.amount, transaction(after))
        }
        (State::Paused(_), State::Paused(_)) => match &after.updated_event {
            Some(UpdatedEvent::PausePendingResume) => {
                "The member was told that the pause ends soon.".to_owned()
            }
            Some(_) | None => details(before, after),
        },
        (_, State::Paused(pause)) => format!("Billing rests for {} months.", pause.months),
        (State::Paused(_), State::Scheduled(_)) => "Billing goes on: the pause was ended.".to_owned(),
        (_, State::PausedSkipped(..)) => "The pause ran out: this period is skipped.".to_owned(),
        (_, State::Waived(_)) => "The period was forgiven.".to_owned(),
        (_, State::Cancelled(_)) => "The record was cancelled.".to_owned(),
        (_, State::Stale(_)) => "It is too old to be collected.".to_owned(),
        (_, State::AchSent(_)) => sent(after),
        (_, State::Scheduled(_)) => details(before, after),
    }
}

fn made(record: &Record) -> String {
    let (tier, due) = (record.plan.tier.as_str(), day(&record.billing_date));
    let why = match &record.updated_event {
        Some(UpdatedEvent::UserReactivated) => ", because the member came back",
        Some(_) | None => "",
    };
    format!(
        "The record for {} was made{why}: ${} for {tier}, due {due}.",
        record.period(),
        record.plan.amount
    )
}

fn sent(record: &Record) -> String {
    let nth = match record.attempts {
        0 | 1 => "A debit".to_owned(),
        n => format!("Debit number {n}"),
    };
    format!(
        "{nth} of ${} went to the bank ({}){}.",
        record.plan.amount,
        record.process.as_str(),
        transaction(record)
    )
}

fn answered(before: &Record, after: &Record) -> String {
    if before.state.transaction_id() == after.state.transaction_id() {
        return details(before, after);
    }
    format!("The bank has taken the debit{}.", transaction(after))
}

/// What changed apart from the status.
fn details(before: &Record, after: &Record) -> String {
    let mut told = Vec::new();
    if before.plan != after.plan {
        told.push(format!("the plan is now {} for ${}", after.plan.tier.as_str(), after.plan.amount));
    }
    if before.downgrade != after.downgrade {
        told.push(match &after.downgrade {
            Some(plan) => format!("the next record will be {} for ${}", plan.tier.as_str(), plan.amount),
            None => "the downgrade was withdrawn".to_owned(),
        });
    }
    if before.cancel_at != after.cancel_at {
        told.push(match &after.cancel_at {
            Some(at) => format!("it will be cancelled on {}", day(at)),
            None => "the cancellation was withdrawn".to_owned(),
        });
    }
    if before.superseded_by != after.superseded_by
        && let Some(other) = &after.superseded_by
    {
        told.push(format!("record {other} took its place"));
    }
    if before.due_notice != after.due_notice {
        told.push("the member was told of the due date".to_owned());
    }
    if before.billing_date != after.billing_date {
        told.push(format!("it is now due {}", day(&after.billing_date)));
    }
    if before.bar != after.bar && after.bar.is_some() {
        told.push("the member is barred from collection".to_owned());
    }
    if told.is_empty() {
        return "The record was brought up to date.".to_owned();
    }
    let text = told.join(", and ");
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

fn failure(record: &Record) -> &str {
    record.state.last_failure().map_or("no reason was given", |failed| failed.failure.text())
}

fn barred(record: &Record) -> String {
    record.bar.as_ref().map_or(String::new(), |why| format!(" The member is barred from collection ({why})."))
}

fn transaction(record: &Record) -> String {
    record.state.transaction_id().map_or(String::new(), |id| format!(" (transaction {id})"))
}

fn day(at: &GoTime) -> String {
    at.at().format("%Y-%m-%d").to_string()
}

/// The sentence for a Stripe event.
pub(super) fn of_stripe(fact: &Fact) -> String {
    match fact {
        Fact::Subscription(subscription) => {
            let tier = subscription.tier.as_deref().map_or(String::new(), |tier| format!(" to {tier}"));
            let end = subscription
                .period
                .map_or(String::new(), |period| format!(", paid until {}", period.end.format("%Y-%m-%d")));
            let ends = if subscription.cancel_at_period_end { ", and will not be renewed" } else { "" };
            format!("Subscription {}{tier} is {}{end}{ends}.", subscription.id, subscription.status)
        }
        Fact::InvoicePaid(invoice) => {
            format!("Invoice {} was paid: {}.", invoice.invoice, amount(&invoice.amount_paid))
        }
        Fact::InvoiceFailed(invoice) => {
            format!(
                "Invoice {} could not be collected: {} are due.",
                invoice.invoice,
                amount(&invoice.amount_due)
            )
        }
        Fact::Checkout(checkout) => {
            let what =
                checkout.purchase.map_or_else(|| "a checkout".to_owned(), |purchase| purchase.to_string());
            let how = match checkout.state {
                CheckoutState::Paid => "was bought and paid for",
                CheckoutState::Pending => "was ordered, the money is not here yet",
                CheckoutState::Failed => "was ordered, and the money did not come",
            };
            let price =
                checkout.amount_total.as_ref().map_or(String::new(), |total| format!(", {}", amount(total)));
            format!("{what} {how}{price} (session {}).", checkout.session)
        }
        Fact::PaymentIntent(payment) if payment.succeeded => {
            format!("Payment {} succeeded: {}.", payment.id, amount(&payment.amount))
        }
        Fact::PaymentIntent(payment) => {
            format!("Payment {} failed: {} were asked for.", payment.id, amount(&payment.amount))
        }
        Fact::Refund(refund) => {
            format!("Refund {} of {} is {}.", refund.id, amount(&refund.amount), refund.status)
        }
        Fact::ChargeRefunded(charge) => {
            format!("{} of charge {} were given back.", amount(&charge.amount_refunded), charge.charge)
        }
        Fact::Dispute(dispute) => {
            let how = match dispute.state {
                DisputeState::Open => "is open",
                DisputeState::Won => "was won",
                DisputeState::Lost => "was lost",
                DisputeState::Reinstated => "gave the money back to us",
            };
            format!("Dispute {} over {} {how}.", dispute.id, amount(&dispute.amount))
        }
    }
}

fn amount(amount: &Amount) -> String {
    match amount {
        Amount::Usd(money) => format!("${money}"),
        Amount::Other { currency, minor_units } => {
            format!("{minor_units} of the smallest unit of {currency}")
        }
    }
}

/// The sentence for a movement of credits.
pub(super) fn of_movement(movement: &Movement) -> String {
    let credits = movement.amount.unsigned_abs();
    let noun = if credits == 1 { "credit" } else { "credits" };
    match movement.kind {
        MovementKind::Grant => format!("{credits} {noun} were granted ({}).", movement.id),
        MovementKind::TopUp => format!("{credits} {noun} were bought ({}).", movement.id),
        MovementKind::Consume => {
            let what = movement.feature.map_or("something", dues_events::Feature::title);
            format!("{credits} {noun} were spent on {what} ({}).", movement.id)
        }
        MovementKind::TakeBack if movement.amount > 0 => {
            format!("{credits} {noun} came back ({}).", movement.id)
        }
        MovementKind::TakeBack => format!("{credits} {noun} were taken back ({}).", movement.id),
        MovementKind::Expire => format!("{credits} {noun} expired."),
    }
}
