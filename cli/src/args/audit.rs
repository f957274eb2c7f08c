//! `dues audit`.

use super::AsOf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues audit         fold every history and compare every row
  dues audit --as-of 2026-07-01
                     as of the end of simulated time
  dues audit --json  list all findings; the text output stops at fifty

Exit codes: 0 when every row matches its history, 1 when one does not; the findings are on standard output.
`dues replay` repairs the rows.")]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    pub(crate) as_of: AsOf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
