//! `dues export`.

use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues export all.ndjson                to a new file
  dues export - | gzip > all.ndjson.gz  to standard output

Exit codes: 1 also when the file exists; it is not overwritten.")]
pub(crate) struct ExportArgs {
    /// The file, which must not exist, or - for standard output.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
