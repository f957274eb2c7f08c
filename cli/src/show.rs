//! `dues show`: a member's billing records.

use dues_events::UserId;
use dues_events::record::membership_status;
use serde_json::json;
use std::path::Path;

use crate::args::Show;
use crate::output::{self, Error};

pub(crate) async fn run(data: &Path, args: &Show) -> Result<(), Error> {
    let store = output::open_existing(data)?;
    let records = store.list_by_user_id(&UserId::from(args.user.as_str())).await?;
    let status = membership_status(&records);
    if args.json {
        let subscriptions: Vec<_> = records.iter().map(output::record_json).collect();
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
            output::status_text(record),
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
