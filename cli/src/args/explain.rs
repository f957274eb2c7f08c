//! `dues explain`.

use dues_events::Time;

use super::{AgeArgs, parse_time};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues explain u-1                                   the whole timeline, and what is due next
  dues explain u-1 --at 2026-03-01                   as of the start of that day
  dues explain u-1 --at 2026-03-01T15:30:00Z --json  as of that second; JSON output

Exit codes: 1 also when the member is unknown.")]
pub(crate) struct ExplainArgs {
    /// User id of the member.
    #[arg(value_name = "USER")]
    pub(crate) user: String,
    /// Explain the state as of this time: RFC 3339, or a date (midnight UTC).
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) at: Option<Time>,
    #[command(flatten)]
    pub(crate) age: AgeArgs,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
