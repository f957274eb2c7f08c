//! `dues import`.

use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues --data restored import all.ndjson  into a new data directory
  dues --data restored audit              check every row against its history

Every decision in the history is taken again; a history that is wrong is not imported.
Exit codes: 1 also when the data directory already has rows, or the history in the file is wrong.")]
pub(crate) struct ImportArgs {
    /// The file, or - for standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Import a history that is wrong, as it is; audit names its rows.
    #[arg(long)]
    pub(crate) force: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
