//! `dues risk`: how many debits came back in sixty days, against the limits that Nacha watches.

use dues_events::record::History;
use dues_projections::return_rates::{DAYS, ReturnRates};
use dues_store::embedded::Embedded;
use dues_store::table::HISTORY;
use dues_store::{Engine as _, Store, StoreError};
use serde_json::json;
use std::path::Path;

use crate::args::Risk;
use crate::clock::clock;
use crate::output::{self, Error};

pub(crate) async fn run(data: &Path, args: &Risk) -> Result<(), Error> {
    let store = Store { clock: clock(args.as_of.as_of), ..output::open_existing(data)? };
    let rates = rates(&store).await?;
    if args.json {
        let mut answer = json!({ "from": rates.from().to_rfc3339(), "until": rates.until.to_rfc3339(), "debits": rates.debits() });
        for (name, returns, percent, limit) in rates.classes() {
            answer[name] =
                json!({ "returns": returns, "percent": percent.to_string(), "limit_percent": limit.to_string(), "over": percent > limit });
        }
        return output::json(&answer);
    }
    output::text(&format!("{} debits in the {DAYS} days to {}", output::grouped(rates.debits()), rates.until.format("%Y-%m-%d")))?;
    let mut table = output::table(["returns", "count", "rate", "limit", ""]);
    for (name, returns, percent, limit) in rates.classes() {
        let verdict = if percent > limit { "OVER THE LIMIT" } else { "within" };
        table.add_row([name.to_owned(), output::grouped(returns), format!("{percent} %"), format!("{limit} %"), verdict.to_owned()]);
    }
    output::text(&table.to_string())
}

/// Reads all history once.
pub(crate) async fn rates(store: &Store<Embedded>) -> Result<ReturnRates, Error> {
    let mut rates = ReturnRates::until(store.clock.now());
    let bar = output::progress(None);
    let mut start = None;
    loop {
        let page = store.engine.scan(&HISTORY, start, 1000).await?;
        bar.inc(page.items.len() as u64);
        for item in page.items {
            rates.add(&History::from_item(item).map_err(StoreError::from)?);
        }
        match page.next {
            Some(next) => start = Some(next),
            None => break,
        }
    }
    bar.finish_and_clear();
    Ok(rates)
}
