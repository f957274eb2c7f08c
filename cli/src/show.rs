//! `dues show`: a member's billing records.

use dues_events::record::{Record, membership_status};
use dues_events::{UserId, attr};
use serde_json::json;
use std::path::Path;

use crate::args::Show;
use crate::output::{self, Error};

pub(crate) async fn run(data: &Path, args: &Show) -> Result<(), Error> {
    let store = output::open_existing(data)?;
    let records = store.list_by_user_id(&UserId::from(args.user.as_str())).await?;
    let status = membership_status(&records);
    if args.json {
        let subscriptions: Vec<_> = records.iter().map(as_json).collect();
        return output::json(&json!({ "user_id": args.user, "status": status, "subscriptions": subscriptions }));
    }
    output::text(&format!("{}: {status}", args.user))?;
    if records.is_empty() {
        return output::text("no billing records");
    }
    let mut table = output::table(["due", "status", "amount", "tier", "transaction", "error", "process", "subscription"]);
    for record in &records {
        table.add_row([
            record.billing_date.at().format("%Y-%m-%d").to_string(),
            status_text(record),
            record.plan.amount.to_string(),
            record.plan.tier.as_str().to_owned(),
            record.state.transaction_id().map(ToString::to_string).unwrap_or_default(),
            record.state.last_failure().map(|failed| failed.failure.text().to_owned()).unwrap_or_default(),
            record.process.as_str().to_owned(),
            record.subscription_id.to_string(),
        ]);
    }
    output::text(&table.to_string())
}

/// The status, and what else an operator has to know beside it.
fn status_text(record: &Record) -> String {
    let mut text = record.status().to_string();
    if let Some(at) = &record.cancel_at {
        text += &format!(" (cancels {})", at.at().format("%Y-%m-%d"));
    }
    if record.downgrade.is_some() && record.next.is_none() {
        text += " (downgrade pending)";
    }
    if record.superseded_by.is_some() {
        text += " (superseded)";
    }
    if let Some(bar) = &record.bar {
        text += &format!(" (barred: {bar})");
    }
    text
}

/// The row under its attribute names. The packed list of applied events is for the program, not for readers.
fn as_json(record: &Record) -> serde_json::Value {
    let mut item = record.to_item();
    item.remove(attr::APPLIED);
    item.to_json()
}
