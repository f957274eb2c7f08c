//! `dues usage`.

use clap::Subcommand;
use dues_events::Item;
use dues_events::usage::details;

use super::AsOf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues usage count u-1 simulations --action run  count one action, if the plan's daily limit allows it
  dues usage who simulations --at-least 3        users with at least three uses today
  dues usage reset                               delete the counters of past days")]
pub(crate) struct UsageArgs {
    #[command(subcommand)]
    pub(crate) command: UsageCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum UsageCommand {
    /// Count one action, if the daily limit of the user's plan allows it.
    Count(UsageCountArgs),
    /// List today's users of a feature.
    #[command(after_help = "Examples:
  dues usage who simulations                      every user, highest count first
  dues usage who simulations --at-least 3 --json  users with at least three uses

Exit codes: 1 also when no plan has that feature.")]
    Who {
        /// The feature.
        #[arg(value_name = "FEATURE")]
        feature: String,
        /// Only users with at least this count.
        #[arg(long, default_value_t = 1, value_name = "N")]
        at_least: u64,
        #[command(flatten)]
        as_of: AsOf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Delete the usage counters of past days.
    #[command(after_help = "Examples:
  dues usage reset                            what the daily job does
  dues usage reset --as-of 2026-03-01 --json  as of that date; JSON output")]
    Reset {
        #[command(flatten)]
        as_of: AsOf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues usage count u-1 simulations --action run               count one action
  dues usage count u-1 simulations --action run --key job-17  idempotent: the same key is counted once

Exit codes: 1 also when the limit is reached; nothing is counted then.")]
pub(crate) struct UsageCountArgs {
    /// User id.
    #[arg(value_name = "USER")]
    pub(crate) user: String,
    /// The feature.
    #[arg(value_name = "FEATURE")]
    pub(crate) feature: String,
    /// Type of the action, such as simulation_run.
    #[arg(long, value_name = "TYPE")]
    pub(crate) action: String,
    /// Idempotency key: actions with the same key are counted once.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Details to store with the action: a JSON object.
    #[arg(long, value_name = "JSON", value_parser = parse_details, default_value = "{}")]
    pub(crate) details: Item,
    #[command(flatten)]
    pub(crate) as_of: AsOf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

fn parse_details(text: &str) -> Result<Item, String> {
    let json = serde_json::from_str(text).map_err(|error| format!("not valid JSON: {error}"))?;
    details(&json).map_err(|error| error.to_string())
}
