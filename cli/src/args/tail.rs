//! `dues tail`.

use clap::builder::PossibleValuesParser;
use dues_processors::{OUTGOING, STREAMS};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues tail subscriptions --follow            billing record changes, as they are published
  dues tail events --last 5                   the five newest domain events
  dues tail site-payments --from 1000 --json  ingested records from sequence number 1000

Exit codes: 0 also when --follow is interrupted.")]
pub(crate) struct TailArgs {
    /// The stream: subscriptions and events are published by dues, the rest are ingested.
    #[arg(
        value_name = "STREAM",
        value_parser = PossibleValuesParser::new(OUTGOING.into_iter().chain(STREAMS))
    )]
    pub(crate) stream: String,
    /// Start with the N newest records.
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) last: usize,
    /// Start at this sequence number.
    #[arg(long, value_name = "N", conflicts_with_all = ["all", "last"])]
    pub(crate) from: Option<u64>,
    /// Start with the oldest retained record; streams retain one day.
    #[arg(long, conflicts_with = "last")]
    pub(crate) all: bool,
    /// Keep printing new records until interrupted.
    #[arg(long)]
    pub(crate) follow: bool,
    /// Print one JSON object per record.
    #[arg(long)]
    pub(crate) json: bool,
}
