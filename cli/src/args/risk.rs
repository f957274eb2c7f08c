//! `dues risk`.

use super::AsOf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues risk                            return rates of the last sixty days
  dues risk --as-of 2026-03-01 --json  as of that date; `over` marks a rate above its limit

Exit codes: 0 also when a rate is over its limit.")]
pub(crate) struct RiskArgs {
    #[command(flatten)]
    pub(crate) as_of: AsOf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
