//! `dues sweep`.

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues sweep         complete what a crash interrupted
  dues sweep --json  print the counts as JSON

`dues serve` does this every hour.")]
pub(crate) struct SweepArgs {
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
