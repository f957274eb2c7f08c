//! The command line: what all commands share, and which there are. Each has its options and its examples in a file below.

mod asking;
mod collecting;
mod counting;
mod records;
mod running;
mod shared;
#[cfg(test)]
mod tests;

use clap::{Parser, Subcommand};
use std::path::PathBuf;

use crate::log::Wanted;
pub(crate) use asking::*;
pub(crate) use collecting::*;
pub(crate) use counting::*;
pub(crate) use records::*;
pub(crate) use running::*;
pub(crate) use shared::*;

/// Collects membership dues: facts stream in, one state machine applies them, every state can be explained.
#[derive(Debug, Parser)]
#[command(name = "dues", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder that holds everything.
    #[arg(long, global = true, env = "DUES_DATA", default_value = "dues-data", value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// How much the log on standard error tells: off, error, warn, info, debug or trace; parts of the program can have their own, as in
    /// info,dues_store=debug. Usual is info for serve, and error otherwise.
    #[arg(long, global = true, env = "DUES_LOG", value_name = "LEVEL", default_value = "", hide_default_value = true, value_parser = read_log)]
    pub(crate) log: Wanted,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "Examples:
  dues demo                                          half a year of a made-up company, and the console to look at it
  dues ingest --stream memberships members.ndjson    read membership changes from a file
  dues ingest --stream site-payments -               read settlements from standard input
  dues ingest --stream stripe events.ndjson          read Stripe's events, in any order
  dues collect --process INITIAL                     debit what has fallen due
  dues collect --process RETRY --as-of 2026-02-09    as if it were that day
  dues pay u-1 1b4e28ba-2fa1-51d2-883f-0016d3cca427  collect one record now
  dues show u-1                                      a member's billing records
  dues history 1b4e28ba-2fa1-51d2-883f-0016d3cca427  every change of one record, with its event
  dues parked                                        what could not be processed, and why
  dues explain u-1 --at 2026-03-01                   why was this member charged, or not, or given this tier?
  dues audit                                         is every row what its history says?
  dues replay --dry-run                              what would change if rows were made again from history
  dues tail subscriptions --follow                   what others are told of billing records, as it comes
  dues export all.ndjson                             history as NDJSON; dues --data NEW import all.ndjson reads it
  dues backup monday.db                              everything in one file, while others go on working
  dues risk                                          how many debits come back, against Nacha's limits
  dues usage count u-1 simulations --action run      count an action, if the plan allows it
  dues serve --stripe-secret-file secrets.txt        streams, Stripe's webhook, the REST API and the daily jobs, over HTTP
  dues bench --events 400000                         measure this machine
  dues completions bash                              what a shell needs to complete all of this

Each command's --help has more, and its exit codes where they are not the usual ones.

Exit codes: 0 done (records that had to be parked are counted, not an error), 1 failed, 2 wrong usage.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run months of a made-up company through the real handlers, sum up, and serve the console.
    Demo(Demo),
    /// Read records (NDJSON, one JSON object a line) onto a stream and process them.
    Ingest(Ingest),
    /// Show a member's billing records.
    Show(Show),
    /// Show every change of one billing record, in order, with its event and source.
    History(History),
    /// What could not be processed, and why; and driving it through again.
    Parked(Parked),
    /// Tell a member's story: what happened, because of what, how it stands, and what comes next.
    Explain(Explain),
    /// Fold every history again and compare it with the rows; exit 1 and a precise list where they differ.
    Audit(Audit),
    /// Make rows again from history, compare them with the live ones, and put those right.
    Replay(Replay),
    /// Write everything that cannot be made again as NDJSON: history, events, ledgers, journals.
    Export(Export),
    /// Read an export into an empty folder, and make the rest again from it.
    Import(Import),
    /// Copy everything into one file, while others go on working.
    Backup(Backup),
    /// Collect what is due, from everybody.
    Collect(Collect),
    /// Collect one record now.
    Pay(Pay),
    /// Forgive one record's period.
    #[command(after_help = "Examples:
  dues waive u-1 1b4e28ba-2fa1-51d2-883f-0016d3cca427         this period is forgiven; the membership goes on
  dues waive u-1 1b4e28ba-2fa1-51d2-883f-0016d3cca427 --json  the record, for programs

Exit codes: 1 also when the record's state does not allow it; the message says why.")]
    Waive(Act),
    /// End one record: when what was paid for ends, or at once.
    Cancel(Cancel),
    /// Let billing of one record rest.
    Pause(Pause),
    /// Let billing of one record go on.
    #[command(after_help = "Examples:
  dues resume u-1 1b4e28ba-2fa1-51d2-883f-0016d3cca427  before the pause has run out

Exit codes: 1 also when the record's state does not allow it; the message says why.")]
    Resume(Act),
    /// Tell of what falls due soon, once for each record.
    Notify(Notify),
    /// How many debits came back in sixty days, against Nacha's limits.
    Risk(Risk),
    /// The made-up ACH network that collects when no payments service is named.
    Sandbox(Sandbox),
    /// Print the newest records of a local stream, and follow it.
    Tail(Tail),
    /// What plans allow and how much of it was used: count an action, see who uses a feature, forget days that are over.
    Usage(Usage),
    /// Serve stream ingest, Stripe's webhook, the REST API, health and metrics over HTTP; process the streams, and run the jobs at their times.
    Serve(Serve),
    /// Measure settlements per second against plain SQLite writing the same rows.
    Bench(Bench),
    /// Print what a shell needs to complete commands and options.
    Completions(Completions),
}

fn read_log(text: &str) -> Result<Wanted, String> {
    Wanted::parse(text)
}
