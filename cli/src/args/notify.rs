//! `dues notify`.

use super::{AsOf, LockArgs};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues notify                everything due within three days
  dues notify --days 7       within a week
  dues tail events --last 5  the reminders that were published

Exit codes: 0 also when another run holds the lock and nothing was done.")]
pub(crate) struct NotifyArgs {
    /// How many days ahead.
    #[arg(long, default_value_t = 3, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=366))]
    pub(crate) days: u32,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) as_of: AsOf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
