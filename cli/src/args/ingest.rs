//! `dues ingest`.

use clap::builder::PossibleValuesParser;
use dues_processors::STREAMS;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues ingest --stream memberships members.ndjson         one JSON object per line
  dues ingest --stream site-payments - < payments.ndjson  from standard input
  dues ingest --stream stripe events.ndjson --json        print the counts as JSON
  dues parked                                             list the records that could not be processed

Exit codes: 0 also when records were parked; the summary counts them.
Ingest is idempotent: ingesting the same file again changes nothing.")]
pub(crate) struct IngestArgs {
    /// The stream.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(STREAMS))]
    pub(crate) stream: String,
    /// The file, or - for standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
