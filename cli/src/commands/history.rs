//! `dues history`: every change of one billing record.

use dues_events::time::GoTime;
use dues_events::{SubscriptionId, attributes};
use dues_processors::api::history_json;
use serde_json::json;
use std::path::Path;

use crate::args::HistoryArgs;
use crate::output::{self, Error};

pub(crate) async fn run(data: &Path, args: &HistoryArgs) -> Result<(), Error> {
    let store = output::open_existing(data)?;
    let rows = store.history_by_id(&SubscriptionId::from(args.subscription.as_str())).await?;
    if rows.is_empty() {
        return Err(Error::Message(format!("no billing record {} in {}", args.subscription, data.display())));
    }
    if args.json {
        let rows: Vec<_> = rows.iter().map(history_json).collect();
        return output::print_json(&json!({ "subscription_id": args.subscription, "rows": rows }));
    }
    let mut table = output::table(["version", "at", "status", "event", "source", "by", "outcome", "error"]);
    for row in &rows {
        table.add_row([
            row.record.version.to_string(),
            row.record.last_run_date.as_ref().map(GoTime::text).unwrap_or_default(),
            row.record.status().to_string(),
            row.event_id.as_ref().map(ToString::to_string).unwrap_or_default(),
            row.source.clone(),
            row.record.data.text(attributes::DATA_ACTOR).unwrap_or_default().to_owned(),
            row.outcome.clone(),
            row.record
                .state
                .last_failure()
                .map(|failed| failed.failure.text().to_owned())
                .unwrap_or_default(),
        ]);
    }
    output::print_line(&table.to_string())
}
