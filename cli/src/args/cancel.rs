//! `dues cancel`.

use super::RecordArgs;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues cancel u-1 1b4e28ba-2fa1-51d2-883f-0016d3cca427        at the end of the paid period
  dues cancel u-1 1b4e28ba-2fa1-51d2-883f-0016d3cca427 --now  immediately

Exit codes: 1 also when the record's status does not allow it; the message names the reason.")]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    pub(crate) record: RecordArgs,
    /// Cancel immediately.
    #[arg(long)]
    pub(crate) now: bool,
}
