//! `dues risk`: ACH return rates of the last sixty days against the Nacha thresholds.

use dues_events::billing::record::History;
use dues_projections::collections::return_rates::{DAYS, ReturnRates};
use dues_store::embedded::Embedded;
use dues_store::table::HISTORY;
use dues_store::{Engine as _, Store, StoreError};
use serde_json::json;
use std::path::Path;

use crate::args::RiskArgs;
use crate::local::clock::clock;
use crate::output::{self, Error};

pub(crate) async fn run(data: &Path, args: &RiskArgs) -> Result<(), Error> {
    let store = Store { clock: clock(args.as_of.as_of), ..output::open_existing(data)? };
    let rates = return_rates(&store).await?;
    if args.json {
        let mut answer = json!({ "from": rates.from().to_rfc3339(), "until": rates.until.to_rfc3339(),
            "debits": rates.debits() });
        for (name, returns, percent, limit) in rates.classes() {
            answer[name] = json!({ "returns": returns, "percent": percent.to_string(),
                "limit_percent": limit.to_string(), "over": percent > limit });
        }
        return output::print_json(&answer);
    }
    output::print_line(&format!(
        "{} debits in the {DAYS} days before {}",
        output::grouped(rates.debits()),
        rates.until.format("%Y-%m-%d")
    ))?;
    let mut table = output::table(["returns", "count", "rate", "limit", "status"]);
    for (name, returns, percent, limit) in rates.classes() {
        let status = if percent > limit { "OVER LIMIT" } else { "within limit" };
        table.add_row([
            name.to_owned(),
            output::grouped(returns),
            format!("{percent} %"),
            format!("{limit} %"),
            status.to_owned(),
        ]);
    }
    output::print_line(&table.to_string())
}

/// Computes the return rates in one pass over history.
pub(crate) async fn return_rates(store: &Store<Embedded>) -> Result<ReturnRates, Error> {
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
