//! Sentences for what happened.

use dues_events::attributes::{DATA_ACTOR, DATA_REASON};
use dues_events::billing::attempts::{PaymentStatus, UnappliedMoney};
use dues_events::billing::record::{History, Record, State, UpdatedEvent};
use dues_events::entitlements::credits::Movement;
use dues_events::entitlements::stripe::{Amount, CheckoutState, DisputeState, Fact};
use dues_events::money::Currency;
use dues_events::{GoTime, Money, MovementKind};

/// For a change of nothing that members or operators see.
const UPDATED: &str = "The record was updated.";

/// The sentences for a change of a billing record.
pub(super) fn of_change(row: &History, before: Option<&Record>, after: &Record) -> String {
    if !row.changed() {
        return decision(row, None).unwrap_or_else(|| format!("Nothing changed: {}.", row.outcome));
    }
    let Some(before) = before else { return created(after) };
    if let Some(withdrawn) = withdrawn(row, before, after) {
        return withdrawn;
    }
    let mut more = money(before, after);
    more.extend(decision(row, resolved(before, after)));
    // A report or a decision about money that pays for nothing leaves the rest of the record as it was.
    if before.status() == after.status() && !more.is_empty() {
        return more.join(" ");
    }
    let transition = of_transition(before, after);
    if transition != UPDATED || more.is_empty() {
        more.insert(0, transition);
    }
    more.join(" ")
}

/// An operator's decision, with its actor, about this unapplied money if it concerns any.
fn decision(row: &History, about: Option<UnappliedMoney>) -> Option<String> {
    let actor = row.record.data.text(DATA_ACTOR)?;
    let reason = row.record.data.text(DATA_REASON)?;
    let about = about.map_or(String::new(), |money| {
        format!(" about {} of unapplied money", in_currency(money.amount, money.currency))
    });
    Some(format!("{actor} decided{about}: {reason}."))
}

/// The unapplied money that was decided about.
fn resolved(before: &Record, after: &Record) -> Option<UnappliedMoney> {
    let known = before.unapplied_money();
    let is_decided = |money: &UnappliedMoney| {
        known.iter().any(|known| is_same(known, money) && known.resolution != money.resolution)
    };
    after.unapplied_money().into_iter().find(is_decided)
}

/// An attempt of this system that is no longer in the set was never submitted.
fn withdrawn(row: &History, before: &Record, after: &Record) -> Option<String> {
    let numbers = |record: &Record| -> Vec<u32> {
        record.attempts.as_slice().iter().filter_map(|attempt| attempt.number).collect()
    };
    let left = numbers(after);
    numbers(before).iter().any(|number| !left.contains(number)).then(|| {
        let reason = row.record.data.text(DATA_REASON).unwrap_or("no reason was given");
        let reason = reason.strip_prefix("never submitted: ").unwrap_or(reason);
        format!("The debit was withdrawn before it was sent: {reason}.")
    })
}

/// Money that pays for nothing, and money that went back while the record stays paid.
fn money(before: &Record, after: &Record) -> Vec<String> {
    let (known, now) = (before.unapplied_money(), after.unapplied_money());
    let is_in = |list: &[UnappliedMoney], money: &UnappliedMoney| list.iter().any(|one| is_same(one, money));
    let arrived = now.iter().filter(|money| !is_in(&known, money)).map(|money| {
        let (amount, reason) = (in_currency(money.amount, money.currency), money.reason.as_str());
        format!("{amount} arrived that pays for nothing: {reason}.")
    });
    let gone = known.iter().filter(|money| !is_in(&now, money)).map(|money| {
        let amount = in_currency(money.amount, money.currency);
        let pays = matches!(after.state, State::Completed(_))
            && after.state.transaction_id() == money.transaction_id.as_ref();
        match pays {
            true => format!("{amount} that was unapplied pays for the period now."),
            false => format!("{amount} of unapplied money went back."),
        }
    });
    arrived.chain(gone).chain(partial_refund(before, after)).collect()
}

/// Whether both are money of one attempt.
fn is_same(a: &UnappliedMoney, b: &UnappliedMoney) -> bool {
    match (&a.transaction_id, &b.transaction_id) {
        (Some(a), Some(b)) => a == b,
        (None, _) | (_, None) => a.number == b.number,
    }
}

fn partial_refund(before: &Record, after: &Record) -> Option<String> {
    let PaymentStatus::Paid(attempt, settled) = after.attempts.payment(after.plan.amount) else {
        return None;
    };
    let before = match before.attempts.payment(before.plan.amount) {
        PaymentStatus::Paid(attempt, _) => attempt.refunded_amount(),
        PaymentStatus::None
        | PaymentStatus::UnderWay(_)
        | PaymentStatus::Refunded(..)
        | PaymentStatus::Failed(..) => Money::ZERO,
    };
    let refunded = attempt.refunded_amount();
    let went_back = refunded.checked_sub(before).ok().filter(|amount| *amount > Money::ZERO)?;
    let left = settled.amount.checked_sub(refunded).ok()?;
    Some(format!("${went_back} went back to the member; ${left} stay paid."))
}

fn in_currency(amount: Money, currency: Currency) -> String {
    match currency {
        Currency::USD => format!("${amount}"),
        other => format!("{amount} {other}"),
    }
}

/// The sentence for a record's status before and after.
fn of_transition(before: &Record, after: &Record) -> String {
    if before.status() == after.status() && before.attempts == after.attempts {
        return match (&after.state, &after.updated_event) {
            (State::Paused(_), Some(UpdatedEvent::PausePendingResume))
                if before.updated_event != after.updated_event =>
            {
                "The member was notified that the pause ends soon.".to_owned()
            }
            _ => details(before, after),
        };
    }
    match (&before.state, &after.state) {
        (State::Scheduled | State::Error(_), State::AchSent(_)) => sent(after),
        (State::AchSent(_), State::AchSent(_)) => answered(before, after),
        (State::Completed(_), State::Completed(_)) => "The payment was confirmed once more.".to_owned(),
        (_, State::Completed(_)) if after.plan.amount == Money::ZERO => {
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
        (State::Completed(_), State::AchSent(_)) => {
            format!("The payment did not stand; another debit is in flight{}.", transaction(after))
        }
        (State::AchSent(_), State::Error(_)) => {
            format!("The debit was returned: {}.{}", failure(after), barred(after))
        }
        (_, State::Error(_)) => format!("Collecting failed: {}.{}", failure(after), barred(after)),
        (State::Refunded(_), State::Refunded(_))
        | (State::Paused(_), State::Paused(_))
        | (State::PausedSkipped(..), State::PausedSkipped(..))
        | (State::Waived(_), State::Waived(_))
        | (State::Cancelled(_), State::Cancelled(_))
        | (State::Stale(_), State::Stale(_)) => "The bank reported on a debit of this record.".to_owned(),
        (_, State::Refunded(_)) => {
            format!("The payment was refunded: ${}{}.", after.plan.amount, transaction(after))
        }
        (_, State::Paused(pause)) => format!("Billing is paused for {} months.", pause.months),
        (State::Paused(_), State::Scheduled) => "Billing resumes: the pause was ended.".to_owned(),
        (_, State::PausedSkipped(..)) => {
            "The pause ended after the due date: this period is skipped.".to_owned()
        }
        (_, State::Waived(_)) => "The period was waived.".to_owned(),
        (_, State::Cancelled(_)) => "The record was cancelled.".to_owned(),
        (_, State::Stale(_)) => "It is too old to be collected.".to_owned(),
        (_, State::AchSent(_)) => sent(after),
        (_, State::Scheduled) => details(before, after),
    }
}

fn created(record: &Record) -> String {
    let (tier, due) = (record.plan.tier.as_str(), day(&record.billing_date));
    let why = match &record.updated_event {
        Some(UpdatedEvent::UserReactivated) => " by a reactivation",
        Some(_) | None => "",
    };
    format!(
        "The record for {} was created{why}: ${} for {tier}, due {due}.",
        record.period(),
        record.plan.amount
    )
}

fn sent(record: &Record) -> String {
    let nth = match record.attempts.count() {
        0 | 1 => "A debit".to_owned(),
        n => format!("Debit number {n}"),
    };
    format!(
        "{nth} of ${} {} ({}){}.",
        record.plan.amount,
        // Without a transaction it is an intent: the bank has not seen it yet.
        if record.state.transaction_id().is_some() { "went to the bank" } else { "is to be submitted" },
        record.process.as_str(),
        transaction(record)
    )
}

fn answered(before: &Record, after: &Record) -> String {
    if before.state.transaction_id() == after.state.transaction_id() {
        return details(before, after);
    }
    format!("The bank accepted the debit{}.", transaction(after))
}

/// What changed apart from the status.
fn details(before: &Record, after: &Record) -> String {
    let mut changes = Vec::new();
    if before.plan != after.plan {
        changes.push(format!("the plan is now {} for ${}", after.plan.tier.as_str(), after.plan.amount));
    }
    if before.downgrade != after.downgrade {
        changes.push(match &after.downgrade {
            Some(plan) => format!("the next record will be {} for ${}", plan.tier.as_str(), plan.amount),
            None => "the downgrade was withdrawn".to_owned(),
        });
    }
    if before.cancel_at != after.cancel_at {
        changes.push(match &after.cancel_at {
            Some(at) => format!("it will be cancelled on {}", day(at)),
            None => "the cancellation was withdrawn".to_owned(),
        });
    }
    if before.superseded_by != after.superseded_by
        && let Some(other) = &after.superseded_by
    {
        changes.push(format!("record {other} supersedes it"));
    }
    if before.due_notice != after.due_notice {
        changes.push("the member was notified of the due date".to_owned());
    }
    if before.billing_date != after.billing_date {
        changes.push(moved(&before.billing_date, &after.billing_date));
    }
    if before.bar != after.bar && after.bar.is_some() {
        changes.push("the member is barred from collection".to_owned());
    }
    changes.extend(correction(before, after));
    if changes.is_empty() {
        return UPDATED.to_owned();
    }
    let text = changes.join(", and ");
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

/// What changed about the member's account.
fn correction(before: &Record, after: &Record) -> Option<String> {
    if before.correction == after.correction {
        return None;
    }
    Some(match after.correction.awaited() {
        Some(notice) => format!(
            "the bank asked for a correction of the account ({notice}): the next debit waits for a new one"
        ),
        None => "a new account was put on file".to_owned(),
    })
}

fn moved(from: &GoTime, to: &GoTime) -> String {
    let (was, is) = (day(from), day(to));
    if was != is {
        return format!("the due date moved from {was} to {is}");
    }
    let minute = |at: &GoTime| at.at().format("%H:%M").to_string();
    format!("the due date moved from {} to {} on {is}", minute(from), minute(to))
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
