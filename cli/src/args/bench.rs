//! `dues bench`.

use clap::Subcommand;

use super::CompanyArgs;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues bench                                        settlements and debits per second, against plain SQLite
  dues bench --events 400000 --rows 1000000 --json  also on a store that already holds a million rows
  dues bench --collections 0                        settlements only
  dues bench serve                                  ingest over HTTP
  dues bench audit                                  audit and replay")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: Option<BenchCommand>,
    /// Number of settlements.
    #[arg(
        long,
        default_value_t = 100_000,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1000..=10_000_000)
    )]
    pub(crate) events: u32,
    /// Measure again on a store that already holds this many records.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) rows: u32,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Number of members to collect from; 0 skips this measurement.
    #[arg(
        long,
        default_value_t = 20_000,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(0..=1_000_000)
    )]
    pub(crate) collections: u32,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Measure ingest over HTTP: events per second against `dues bench`, acknowledgement latency, and the
    /// server's memory.
    Serve(BenchServeArgs),
    /// Measure how many events per second audit and replay fold and compare with the rows.
    Audit(BenchAuditArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues bench serve                         throughput and latency over HTTP
  dues bench serve --events 100000 --json  a longer run; JSON output")]
pub(crate) struct BenchServeArgs {
    /// Number of events sent at full speed.
    #[arg(
        long,
        default_value_t = 40_000,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1000..=10_000_000)
    )]
    pub(crate) events: u32,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues bench audit                         audit and replay the demo company
  dues bench audit --members 20000 --json  a larger company; JSON output")]
pub(crate) struct BenchAuditArgs {
    #[command(flatten)]
    pub(crate) company: CompanyArgs,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
