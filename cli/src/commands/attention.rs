//! `dues attention`: subscriptions at Stripe that an operator has to look at.

use dues_events::GoTime;
use serde_json::json;
use std::path::Path;

use crate::args::AttentionArgs;
use crate::output::{self, Error};

pub(crate) async fn run(data: &Path, args: &AttentionArgs) -> Result<(), Error> {
    let listed = output::open_existing(data)?.attention().await?;
    if args.json {
        return listed.iter().try_for_each(|one| {
            output::print_line(
                &json!({
                    "user_id": one.user.as_str(), "subscription": one.subscription.as_str(),
                    "since": GoTime::trimmed(one.since).text(), "what_to_do": one.what_to_do(),
                })
                .to_string(),
            )
        });
    }
    if listed.is_empty() {
        return output::print_line("nothing needs attention");
    }
    let mut table = output::table(["member", "subscription", "since", "what to do"]);
    for one in &listed {
        let since = GoTime::trimmed(one.since).text();
        table.add_row([one.user.to_string(), one.subscription.to_string(), since, one.what_to_do()]);
    }
    output::print_line(&table.to_string())
}
