//! `dues pay`.

use super::{AgeArgs, GatewayArgs, LockArgs, RecordArgs};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues pay u-1 1b4e28ba-2fa1-51d2-883f-0016d3cca427                debit this record now
  dues pay u-1 1b4e28ba-2fa1-51d2-883f-0016d3cca427 --new-account  the member has replaced a closed account
  dues pay u-1 1b4e28ba-2fa1-51d2-883f-0016d3cca427 --authorised   the member has lifted a stop payment

Exit codes: 1 also when nothing was debited or the gateway refused the debit.
0 when the debit was sent, even if the gateway's answer is not known yet.")]
pub(crate) struct PayArgs {
    #[command(flatten)]
    pub(crate) record: RecordArgs,
    /// The member has put a new account on file since the last return.
    #[arg(long)]
    pub(crate) new_account: bool,
    /// The member has authorised the debit again (after R08), or its terms were corrected (R11).
    #[arg(long)]
    pub(crate) authorised: bool,
    #[command(flatten)]
    pub(crate) age: AgeArgs,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}
