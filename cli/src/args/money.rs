//! `dues money` and `dues refund`.

use dues_events::{Money, Time};

use super::{ActorArgs, AsOf, GatewayArgs, RecordArgs};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues money list  money that arrived and pays for nothing")]
pub(crate) struct MoneyArgs {
    #[command(subcommand)]
    pub(crate) command: MoneyCommand,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum MoneyCommand {
    /// List money that arrived and pays for nothing.
    #[command(after_help = "Examples:
  dues money list                      money that needs a decision
  dues money list --status DISMISSED   what was dismissed
  dues money list --json               one JSON object per row")]
    List {
        /// OPEN, APPLIED, REFUNDING, DISMISSED or GONE.
        #[arg(long, default_value = "OPEN", ignore_case = true, value_parser = parse_status)]
        status: MoneyStatusArg,
        /// Print one JSON object per row.
        #[arg(long)]
        json: bool,
    },
    /// Show one.
    #[command(after_help = "Examples:
  dues money show 1b4e28ba-2fa1-51d2-883f-0016d3cca427:c-991  what arrived, and what was decided")]
    Show {
        /// The id that `dues money list` prints.
        id: String,
    },
    /// Apply it to an open billing record of the member, which it has to pay in full.
    #[command(after_help = "Examples:
  dues money apply 1b4e28ba-2fa1-51d2-883f-0016d3cca427:c-991 9f0c28ba-2fa1-51d2-883f-0016d3cca427 --as ada

Exit codes: 1 also when it does not pay that record; the message names the reason.")]
    Apply {
        /// The id that `dues money list` prints.
        id: String,
        /// Subscription id of the record to pay.
        to: String,
        #[command(flatten)]
        actor: ActorArgs,
        #[command(flatten)]
        as_of: AsOf,
    },
    /// Refund it through the payments service.
    #[command(after_help = "Examples:
  dues money refund 1b4e28ba-2fa1-51d2-883f-0016d3cca427:c-991 --as ada

Exit codes: 1 also when the payments service refuses, or its answer is not known; then run it again.")]
    Refund {
        /// The id that `dues money list` prints.
        id: String,
        #[command(flatten)]
        actor: ActorArgs,
        #[command(flatten)]
        as_of: AsOf,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Dismiss it, with a reason.
    #[command(after_help = "Examples:
  dues money dismiss 1b4e28ba-2fa1-51d2-883f-0016d3cca427:c-991 --reason test-transfer --as ada")]
    Dismiss {
        /// The id that `dues money list` prints.
        id: String,
        /// Why nothing is done about it.
        #[arg(long)]
        reason: String,
        #[command(flatten)]
        actor: ActorArgs,
        #[command(flatten)]
        as_of: AsOf,
    },
}

impl MoneyCommand {
    /// The time that a decision takes for now.
    pub(crate) fn as_of(&self) -> Option<Time> {
        match self {
            Self::List { .. } | Self::Show { .. } => None,
            Self::Apply { as_of, .. } | Self::Refund { as_of, .. } | Self::Dismiss { as_of, .. } => {
                as_of.as_of
            }
        }
    }
}

pub(crate) type MoneyStatusArg = dues_store::billing::money::MoneyStatus;

fn parse_status(text: &str) -> Result<MoneyStatusArg, String> {
    MoneyStatusArg::read(&text.to_uppercase())
        .ok_or_else(|| "not one of OPEN, APPLIED, REFUNDING, DISMISSED, GONE".to_owned())
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues refund u-1 1b4e28ba-2fa1-51d2-883f-0016d3cca427 --as ada                all of it
  dues refund u-1 1b4e28ba-2fa1-51d2-883f-0016d3cca427 --amount 5.00 --as ada  a part

The record stays COMPLETED until the bank reports that the money has gone back.
Exit codes: 1 also when the record is not paid, or the payments service refuses.")]
pub(crate) struct RefundArgs {
    #[command(flatten)]
    pub(crate) record: RecordArgs,
    /// How much; all that is left of the payment if not given.
    #[arg(long, value_name = "AMOUNT")]
    pub(crate) amount: Option<Money>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}
