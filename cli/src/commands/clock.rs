//! `dues clock`: books what has fallen due in the members' entitlements without an event.

use dues_processors::entitlements::clock::{ClockReport, entitlement_clock, summary};
use dues_store::Store;
use dues_store::embedded::Embedded;
use serde_json::json;
use std::path::Path;

use crate::args::ClockArgs;
use crate::local::clock::clock;
use crate::local::followers::catch_up;
use crate::local::settings;
use crate::output::{self, Error};

pub(crate) async fn run(data: &Path, args: &ClockArgs) -> Result<(), Error> {
    let store = Store { clock: clock(args.as_of.as_of), ..output::open_existing(data)? };
    // What the followers have not processed yet may set timers.
    catch_up(&store).await?;
    let report = book_timers(&store).await?;
    if args.json {
        output::print_json(&json!(report))?;
    } else {
        output::print_line(&summary(&report, store.clock.now()))?;
    }
    catch_up(&store).await?;
    report.check().map_err(Error::Message)
}

/// Books every timer that is due.
pub(crate) async fn book_timers(store: &Store<Embedded>) -> Result<ClockReport, Error> {
    Ok(entitlement_clock(store, &settings::tiers()?).await?)
}
