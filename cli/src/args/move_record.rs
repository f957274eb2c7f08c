//! `dues move`.

use dues_events::Time;

use super::{RecordArgs, parse_time};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues move u-1 1b4e28ba-2fa1-51d2-883f-0016d3cca427 --to 2026-03-15  due on another day; later periods stay

Exit codes: 1 also when the record's status does not allow it; the message names the reason.")]
pub(crate) struct MoveArgs {
    #[command(flatten)]
    pub(crate) record: RecordArgs,
    /// The new due date: RFC 3339, or a date (midnight UTC).
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) to: Time,
}
