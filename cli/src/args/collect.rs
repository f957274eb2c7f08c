//! `dues collect`.

use clap::ValueEnum;

use super::{AgeArgs, AsOf, GatewayArgs, LockArgs};

#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "UPPER")]
pub(crate) enum ProcessArg {
    /// SCHEDULED records that are due.
    Initial,
    /// ERROR records that the ACH rules allow to be re-presented.
    Retry,
    /// PAUSED records with an expired pause.
    Pause,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues collect --process INITIAL                                     debit everything that is due
  dues collect --process RETRY --as-of 2026-02-09                    re-present failed debits as of that date
  dues collect --process PAUSE --json                                end expired pauses; JSON output
  dues collect --process INITIAL --gateway https://payments.example  use a real payments service

Exit codes: 1 also when some members failed; run it again, no debit is sent twice.
1 also when more than a fifth of the records are too old: that is a clock or a missing month.
0 also on a bank holiday, when nothing is collected.")]
pub(crate) struct CollectArgs {
    /// Which collections run.
    #[arg(long, value_enum, ignore_case = true, value_name = "PROCESS")]
    pub(crate) process: ProcessArg,
    #[command(flatten)]
    pub(crate) as_of: AsOf,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
    #[command(flatten)]
    pub(crate) age: AgeArgs,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    /// Make records STALE even if they are more than a fifth of the run.
    #[arg(long)]
    pub(crate) force: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
