//! The command line. Each command has its options and examples in a file below.

mod attention;
mod audit;
mod backup;
mod bench;
mod cancel;
mod clock;
mod collect;
mod completions;
mod demo;
mod explain;
mod export;
mod history;
mod import;
mod ingest;
mod money;
mod move_record;
mod notify;
mod parked;
mod pause;
mod pay;
mod replay;
mod risk;
mod sandbox;
mod serve;
mod shared;
mod show;
mod sweep;
mod tail;
#[cfg(test)]
mod tests;
mod usage;

use clap::{Parser, Subcommand};
use std::path::PathBuf;

use crate::log::LogFilter;
pub(crate) use attention::*;
pub(crate) use audit::*;
pub(crate) use backup::*;
pub(crate) use bench::*;
pub(crate) use cancel::*;
pub(crate) use clock::*;
pub(crate) use collect::*;
pub(crate) use completions::*;
pub(crate) use demo::*;
pub(crate) use explain::*;
pub(crate) use export::*;
pub(crate) use history::*;
pub(crate) use import::*;
pub(crate) use ingest::*;
pub(crate) use money::*;
pub(crate) use move_record::*;
pub(crate) use notify::*;
pub(crate) use parked::*;
pub(crate) use pause::*;
pub(crate) use pay::*;
pub(crate) use replay::*;
pub(crate) use risk::*;
pub(crate) use sandbox::*;
pub(crate) use serve::*;
pub(crate) use shared::*;
pub(crate) use show::*;
pub(crate) use sweep::*;
pub(crate) use tail::*;
pub(crate) use usage::*;

/// Event-sourced membership billing: ingest events, collect dues over ACH, explain every charge.
#[derive(Debug, Parser)]
#[command(name = "dues", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data directory.
    #[arg(long, global = true, env = "DUES_DATA", default_value = "dues-data", value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Log level on standard error: off, error, warn, info, debug or trace, optionally per module as in
    /// info,dues_store=debug. Default: info for serve, error otherwise.
    #[arg(
        long,
        global = true,
        env = "DUES_LOG",
        value_name = "LEVEL",
        default_value = "",
        hide_default_value = true,
        value_parser = parse_log_filter
    )]
    pub(crate) log: LogFilter,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "Examples:
  dues demo                                          simulate a company for six months, then open the console
  dues ingest --stream memberships members.ndjson    ingest membership changes from a file
  dues ingest --stream site-payments -               ingest settlements from standard input
  dues ingest --stream stripe events.ndjson          ingest Stripe events, in any order
  dues collect --process INITIAL                     debit everything that is due
  dues collect --process RETRY --as-of 2026-02-09    re-present failed debits as of that date
  dues pay u-1 1b4e28ba-2fa1-51d2-883f-0016d3cca427  debit one billing record now
  dues show u-1                                      a member's billing records, access and credits
  dues history 1b4e28ba-2fa1-51d2-883f-0016d3cca427  every version of one billing record, with its event
  dues parked                                        records that could not be processed, and why
  dues explain u-1 --at 2026-03-01                   why was this member charged, or not, or on this tier?
  dues audit                                         compare every row with its history
  dues replay --dry-run                              what would change if rows were rebuilt from history
  dues tail subscriptions --follow                   billing record changes, as they are published
  dues export all.ndjson                             history as NDJSON, for dues --data NEW import all.ndjson
  dues backup monday.db                              online backup into one file
  dues money list                                    money that arrived and pays for nothing
  dues sweep                                         complete what a crash interrupted
  dues clock                                         end what is no longer paid for, grant monthly credits
  dues attention                                     subscriptions at Stripe with an overdue renewal
  dues risk                                          return rates against the Nacha thresholds
  dues usage count u-1 simulations --action run      count an action, if the plan allows it
  dues serve --stripe-secret-file secrets.txt        ingest, Stripe webhook, REST API, console and daily jobs
  dues bench --events 400000                         benchmark this machine
  dues completions bash                              shell completions

See `dues help COMMAND` for options, more examples and special exit codes.

Exit codes: 0 success (parked records are counted, not an error), 1 failure, 2 invalid usage.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Simulate a company for some months with the real handlers, print a summary, and serve the console.
    Demo(DemoArgs),
    /// Append records (NDJSON, one JSON object per line) to a stream and process them.
    Ingest(IngestArgs),
    /// Show a member: billing records, tier, access, credits.
    Show(ShowArgs),
    /// Show every version of one billing record, with its event and source.
    History(HistoryArgs),
    /// List, show and redrive records that could not be processed.
    Parked(ParkedArgs),
    /// Explain a member's state: the timeline of events, the causes, and what is due next.
    Explain(ExplainArgs),
    /// Fold every history and compare the result with the rows; exit 1 and list what differs.
    Audit(AuditArgs),
    /// Rebuild rows from history, compare them with the live rows, and repair those.
    Replay(ReplayArgs),
    /// Write all source data as NDJSON: history, events, ledgers, journals.
    Export(ExportArgs),
    /// Load an export into an empty data directory and rebuild the derived rows.
    Import(ImportArgs),
    /// Copy the database into one file while other processes keep working.
    Backup(BackupArgs),
    /// Run collections: debit every member with a payment due.
    Collect(CollectArgs),
    /// Debit one billing record now.
    Pay(PayArgs),
    /// Waive the current period of one billing record.
    #[command(after_help = "Examples:
  dues waive u-1 1b4e28ba-2fa1-51d2-883f-0016d3cca427         waive this period; the membership continues
  dues waive u-1 1b4e28ba-2fa1-51d2-883f-0016d3cca427 --json  print the record as JSON

Exit codes: 1 also when the record's status does not allow it; the message names the reason.")]
    Waive(RecordArgs),
    /// Cancel one billing record, at the end of the paid period or immediately.
    Cancel(CancelArgs),
    /// Pause one billing record for some months.
    Pause(PauseArgs),
    /// Resume a paused billing record.
    #[command(after_help = "Examples:
  dues resume u-1 1b4e28ba-2fa1-51d2-883f-0016d3cca427  before the pause expires

Exit codes: 1 also when the record's status does not allow it; the message names the reason.")]
    Resume(RecordArgs),
    /// Move an open billing record to another due date.
    Move(MoveArgs),
    /// List money that pays for nothing, and apply, refund or dismiss it.
    Money(MoneyArgs),
    /// Refund a paid billing record, in full or in part.
    Refund(RefundArgs),
    /// Complete what a crash interrupted: commits, follow-ups, moves.
    Sweep(SweepArgs),
    /// Book what falls due without an event: periods that end, months that bring credits.
    Clock(ClockArgs),
    /// List subscriptions at Stripe with an overdue renewal, and what to do.
    Attention(AttentionArgs),
    /// Publish reminders for records that are due soon, once per record.
    Notify(NotifyArgs),
    /// Show the ACH return rates of the last sixty days against the Nacha thresholds.
    Risk(RiskArgs),
    /// Control the built-in ACH sandbox, which takes debits when no payments service is configured.
    Sandbox(SandboxArgs),
    /// Print the newest records of a local stream, and follow it.
    Tail(TailArgs),
    /// Count feature usage against plan limits, list it, and delete past days.
    Usage(UsageArgs),
    /// Run the server: ingest, Stripe webhook, REST API, console, health and metrics over HTTP; stream
    /// processing; daily jobs.
    Serve(ServeArgs),
    /// Benchmark settlements per second against plain SQLite writing the same rows.
    Bench(BenchArgs),
    /// Print a shell completion script.
    Completions(CompletionsArgs),
}

fn parse_log_filter(text: &str) -> Result<LogFilter, String> {
    LogFilter::parse(text)
}
