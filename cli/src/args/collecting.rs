//! Collecting: from everybody, from one record, and what belongs to it.

use clap::{Subcommand, ValueEnum};

use super::{AgeArgs, AsOf, GatewayArgs, LockArgs};

#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "UPPER")]
pub(crate) enum ProcessArg {
    /// SCHEDULED records that have fallen due.
    Initial,
    /// ERROR records that ACH lets be presented again.
    Retry,
    /// PAUSED records whose pause ends.
    Pause,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues collect --process INITIAL                                     debit what has fallen due
  dues collect --process RETRY --as-of 2026-02-09                    what failed and may be presented again, as if it were that day
  dues collect --process PAUSE --json                                pauses that end, for programs
  dues collect --process INITIAL --gateway https://payments.example  with a payments service

Exit codes: 1 also when a visit failed: run it again, no debit is made twice. 0 also on a day when banks are closed and nothing is collected.")]
pub(crate) struct Collect {
    /// Which run.
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
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// One record of a member.
#[derive(Debug, clap::Args)]
pub(crate) struct Act {
    /// The member's user id.
    #[arg(value_name = "USER")]
    pub(crate) user: String,
    /// The record's subscription id.
    #[arg(value_name = "SUBSCRIPTION")]
    pub(crate) subscription: String,
    #[command(flatten)]
    pub(crate) as_of: AsOf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues pay u-1 1b4e28ba-2fa1-51d2-883f-0016d3cca427                collect it now
  dues pay u-1 1b4e28ba-2fa1-51d2-883f-0016d3cca427 --new-account  after the account was closed, and the member has named another

Exit codes: 1 also when nothing was debited, or the gateway refused. 0 when the debit was sent, also if its answer is not known yet.")]
pub(crate) struct Pay {
    #[command(flatten)]
    pub(crate) act: Act,
    /// The member has put another account on file since the last return.
    #[arg(long)]
    pub(crate) new_account: bool,
    #[command(flatten)]
    pub(crate) age: AgeArgs,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues cancel u-1 1b4e28ba-2fa1-51d2-883f-0016d3cca427        when what was paid for ends
  dues cancel u-1 1b4e28ba-2fa1-51d2-883f-0016d3cca427 --now  at once

Exit codes: 1 also when the record's state does not allow it; the message says why.")]
pub(crate) struct Cancel {
    #[command(flatten)]
    pub(crate) act: Act,
    /// At once.
    #[arg(long)]
    pub(crate) now: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues pause u-1 1b4e28ba-2fa1-51d2-883f-0016d3cca427 --months 2  let billing rest for two months

Exit codes: 1 also when the record's state does not allow it; the message says why.")]
pub(crate) struct Pause {
    #[command(flatten)]
    pub(crate) act: Act,
    /// For how many months.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=12))]
    pub(crate) months: u32,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues notify                what falls due within three days, each record once
  dues notify --days 7       within a week
  dues tail events --last 5  what others were told

Exit codes: 0 also when another run is under way and nothing was done.")]
pub(crate) struct Notify {
    /// How many days ahead.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=366))]
    pub(crate) days: u32,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) as_of: AsOf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues risk                            the sixty days to now
  dues risk --as-of 2026-03-01 --json  to that day, for programs: `over` says what is over its limit

Exit codes: 0 also when a rate is over its limit.")]
pub(crate) struct Risk {
    #[command(flatten)]
    pub(crate) as_of: AsOf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues sandbox account u-1 0001  debits from u-1 come back with R01
  dues sandbox deliver           what has become of debits by now")]
pub(crate) struct Sandbox {
    #[command(subcommand)]
    pub(crate) command: SandboxCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SandboxCommand {
    /// Give a member an account: its last four digits say what happens to debits (0001: returned with R01, 0110: settles and is returned late
    /// with R10, 0200: refunded, 0300: charged back, 0400: collected at once, 0501: refused with R01).
    #[command(after_help = "Examples:
  dues sandbox account u-1 0001  returned with R01, insufficient funds
  dues sandbox account u-1 0110  settles, and is returned late with R10
  dues sandbox account u-1 1234  nothing goes wrong")]
    Account {
        /// The member's user id.
        #[arg(value_name = "USER")]
        user: String,
        /// Four digits.
        #[arg(value_name = "MASK", value_parser = read_mask)]
        mask: String,
    },
    /// Bring in what has become of debits by now: settlements, returns, refunds.
    #[command(after_help = "Examples:
  dues sandbox deliver                            settlements, returns and refunds until now
  dues sandbox deliver --as-of 2026-02-05 --json  until that day, for programs")]
    Deliver {
        #[command(flatten)]
        as_of: AsOf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

fn read_mask(text: &str) -> Result<String, String> {
    if text.len() == 4 && text.bytes().all(|b| b.is_ascii_digit()) { Ok(text.to_owned()) } else { Err("not four digits".to_owned()) }
}
