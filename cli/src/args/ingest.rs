//! `dues ingest`.

use clap::builder::PossibleValuesParser;
use dues_processors::STREAMS;
use std::path::PathBuf;

use super::{AgeArgs, AsOf, GatewayArgs, LockArgs};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues ingest --stream memberships members.ndjson         one JSON object per line
  dues ingest --stream site-payments - < payments.ndjson  from standard input
  dues ingest --stream stripe events.ndjson --json        print the counts as JSON
  dues ingest --stream income-detected incomes.ndjson     may collect what has failed before
  dues parked                                             list the records that could not be processed

Exit codes: 0 also when records were parked; the summary counts them.
Ingest is idempotent: ingesting the same file again changes nothing. The options of debits and locks are for
the streams that may trigger a collection: income-detected, account-balance and batch.")]
pub(crate) struct IngestArgs {
    /// The stream.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(STREAMS))]
    pub(crate) stream: String,
    /// The file, or - for standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) as_of: AsOf,
    #[command(flatten)]
    pub(crate) age: AgeArgs,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
