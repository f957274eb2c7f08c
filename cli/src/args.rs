//! The command line.

use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Collects membership dues: facts stream in, one state machine applies them, every state can be explained.
#[derive(Debug, Parser)]
#[command(name = "dues", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder that holds everything.
    #[arg(long, global = true, env = "DUES_DATA", default_value = "dues-data", value_name = "DIR")]
    pub(crate) data: PathBuf,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "Examples:
  dues demo                                          half a year of a made-up company, in seconds
  dues ingest --stream memberships members.ndjson    read membership changes from a file
  dues ingest --stream site-payments -               read settlements from standard input
  dues show u-1                                      a member's billing records
  dues history 1b4e28ba-2fa1-51d2-883f-0016d3cca427  every change of one record, with its event
  dues parked                                        what could not be processed, and why
  dues bench --events 400000                         measure this machine

Exit codes: 0 done (records that had to be parked are counted, not an error), 1 failed, 2 wrong usage.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run months of a made-up company through the real handlers, and sum up.
    Demo(Demo),
    /// Read records (NDJSON, one JSON object a line) onto a stream and process them.
    Ingest(Ingest),
    /// Show a member's billing records.
    Show(Show),
    /// Show every change of one billing record, in order, with its event and source.
    History(History),
    /// List what could not be processed, and why.
    Parked(Parked),
    /// Measure settlements per second against plain SQLite writing the same rows.
    Bench(Bench),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Demo {
    /// How many members.
    #[arg(long, default_value_t = 2000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) members: u32,
    /// How many months.
    #[arg(long, default_value_t = 6, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=120))]
    pub(crate) months: u32,
    /// The same seed gives the same company.
    #[arg(long, default_value_t = 7, value_name = "N")]
    pub(crate) seed: u64,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Ingest {
    /// The stream: site-payments or memberships.
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(dues_processors::STREAMS))]
    pub(crate) stream: String,
    /// The file, or - for standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The member's user id.
    #[arg(value_name = "USER")]
    pub(crate) user: String,
    /// Print JSON, with the tables' attribute names.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct History {
    /// The record's subscription id.
    #[arg(value_name = "SUBSCRIPTION")]
    pub(crate) subscription: String,
    /// Print JSON, with the tables' attribute names.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Parked {
    /// Print JSON, with the records themselves.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Bench {
    /// How many settlements.
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    pub(crate) events: u32,
    /// Measure also on a store that holds so many rows already.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) rows: u32,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
