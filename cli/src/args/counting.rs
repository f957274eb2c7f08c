//! What plans allow, and how much of it was used.

use clap::Subcommand;
use dues_events::Item;
use dues_events::usage::details;

use super::AsOf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues usage count u-1 simulations --action run  count an action, if the plan allows one more today
  dues usage who simulations --at-least 3        who has used it so often today
  dues usage reset                               forget days that are over")]
pub(crate) struct Usage {
    #[command(subcommand)]
    pub(crate) command: UsageCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum UsageCommand {
    /// Count an action, if the user's plan allows one more today.
    Count(UsageCount),
    /// Who has used a feature today.
    #[command(after_help = "Examples:
  dues usage who simulations                      everybody, most first
  dues usage who simulations --at-least 3 --json  those who have used it three times or more

Exit codes: 1 also when no plan names that feature.")]
    Who {
        /// The feature.
        #[arg(value_name = "FEATURE")]
        feature: String,
        /// Only those who have used it at least so often.
        #[arg(long, default_value_t = 1, value_name = "N")]
        at_least: u64,
        #[command(flatten)]
        as_of: AsOf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Forget what was used on days that are over.
    #[command(after_help = "Examples:
  dues usage reset                            as the daily job does
  dues usage reset --as-of 2026-03-01 --json  as if it were that day, for programs")]
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
  dues usage count u-1 simulations --action run               one more, if the plan allows it
  dues usage count u-1 simulations --action run --key job-17  under a name: told again, it is not counted again

Exit codes: 1 also when the limit is reached: nothing is counted then.")]
pub(crate) struct UsageCount {
    /// The user's id.
    #[arg(value_name = "USER")]
    pub(crate) user: String,
    /// The feature.
    #[arg(value_name = "FEATURE")]
    pub(crate) feature: String,
    /// What was done, such as simulation_run.
    #[arg(long, value_name = "TYPE")]
    pub(crate) action: String,
    /// Names the action: with the same key it is counted once.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// What is to be remembered of it: a JSON object.
    #[arg(long, value_name = "JSON", value_parser = read_details, default_value = "{}")]
    pub(crate) details: Item,
    #[command(flatten)]
    pub(crate) as_of: AsOf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

fn read_details(text: &str) -> Result<Item, String> {
    let json = serde_json::from_str(text).map_err(|why| format!("is not JSON: {why}"))?;
    details(&json).map_err(|why| why.to_string())
}
