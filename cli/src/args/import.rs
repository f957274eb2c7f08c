//! `dues import`.

use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues --data restored import all.ndjson  into a new data directory
  dues --data restored audit              check every row against its history

Exit codes: 1 also when the data directory already has rows.")]
pub(crate) struct ImportArgs {
    /// The file, or - for standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
