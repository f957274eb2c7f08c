//! `dues pause`.

use super::RecordArgs;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues pause u-1 1b4e28ba-2fa1-51d2-883f-0016d3cca427 --months 2  no billing for two months

Exit codes: 1 also when the record's status does not allow it; the message names the reason.")]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    pub(crate) record: RecordArgs,
    /// Length of the pause in months.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=12))]
    pub(crate) months: u32,
}
