//! `dues backup`.

use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues backup monday.db         online: `dues serve` keeps running
  dues backup monday.db --json  print its size as JSON

To restore, copy the file into an empty data directory as dues.db.

Exit codes: 1 also when the file exists; it is not overwritten.")]
pub(crate) struct BackupArgs {
    /// The file, which must not exist.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
