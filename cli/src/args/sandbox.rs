//! `dues sandbox`.

use clap::Subcommand;

use super::AsOf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues sandbox account u-1 0001  debits from u-1 are returned with R01
  dues sandbox deliver           ingest the settlements and returns that are due")]
pub(crate) struct SandboxArgs {
    #[command(subcommand)]
    pub(crate) command: SandboxCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SandboxCommand {
    /// Set a member's test account. Its last four digits choose the outcome of debits: 0001 returned with
    /// R01, 0110 settled and returned late with R10, 0200 refunded, 0300 charged back, 0400 collected at
    /// once, 0501 refused with R01.
    #[command(after_help = "Examples:
  dues sandbox account u-1 0001  returned with R01, insufficient funds
  dues sandbox account u-1 0110  settles, then is returned late with R10
  dues sandbox account u-1 1234  every debit settles")]
    Account {
        /// User id of the member.
        #[arg(value_name = "USER")]
        user: String,
        /// Last four digits of the account.
        #[arg(value_name = "MASK", value_parser = parse_mask)]
        mask: String,
    },
    /// Ingest the sandbox's settlements, returns and refunds that are due.
    #[command(after_help = "Examples:
  dues sandbox deliver                            everything due by now
  dues sandbox deliver --as-of 2026-02-05 --json  everything due by that date; JSON output")]
    Deliver {
        #[command(flatten)]
        as_of: AsOf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

fn parse_mask(text: &str) -> Result<String, String> {
    if text.len() == 4 && text.bytes().all(|b| b.is_ascii_digit()) {
        Ok(text.to_owned())
    } else {
        Err("not four digits".to_owned())
    }
}
