//! `dues sweep`: completes what a crash interrupted.

use dues_store::billing::sweep::SweepReport;
use serde_json::json;
use std::path::Path;

use crate::args::SweepArgs;
use crate::local::followers::catch_up;
use crate::output::{self, Error};

pub(crate) async fn run(data: &Path, args: &SweepArgs) -> Result<(), Error> {
    let store = output::open_existing(data)?;
    let bar = output::progress_of("members", 0);
    let swept = store.sweep(|swept| bar.set_position(swept.users)).await?;
    bar.finish_and_clear();
    if args.json {
        output::print_json(&json!({
            "users": swept.users, "rolled_forward": swept.rolled_forward, "created": swept.created,
            "followups": swept.followups, "removed": swept.removed,
        }))?;
    } else {
        output::print_line(&summary(&swept))?;
    }
    catch_up(&store).await
}

/// What a sweep did, in one line.
pub(crate) fn summary(swept: &SweepReport) -> String {
    let members = output::grouped(swept.users);
    if swept.is_clean() {
        return format!("{members} members checked: nothing was interrupted");
    }
    format!(
        "{members} members checked: {} commits completed, {} records created, {} follow-ups applied, \
         {} uncommitted history rows removed",
        output::grouped(swept.rolled_forward),
        output::grouped(swept.created),
        output::grouped(swept.followups),
        output::grouped(swept.removed),
    )
}
