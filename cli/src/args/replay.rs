//! `dues replay`.

use clap::builder::PossibleValuesParser;

use crate::commands::replay::read_model_names;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues replay --dry-run           list the rows that would change; write nothing
  dues replay                     repair rows that differ from their history
  dues replay --read-model usage  only that read model

Exit codes: with --dry-run, 1 when rows would change; without it, 0 when they were repaired.")]
pub(crate) struct ReplayArgs {
    /// Rebuild only this read model.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(read_model_names()))]
    pub(crate) read_model: Option<String>,
    /// Report what would change and write nothing; exit 1 if anything would.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
