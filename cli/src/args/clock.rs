//! `dues clock`.

use super::AsOf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues clock                     end what is no longer paid for, grant the credits of months that have begun
  dues clock --as-of 2026-03-01  as of that date
  dues clock --json              print the counts as JSON

`dues serve` does this every five minutes, and `dues collect` after each run.
Exit codes: 1 also when some members could not be booked; run it again, no moment is booked twice.")]
pub(crate) struct ClockArgs {
    #[command(flatten)]
    pub(crate) as_of: AsOf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
