//! `dues history`.

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues history 1b4e28ba-2fa1-51d2-883f-0016d3cca427         every version, with its event and source
  dues history 1b4e28ba-2fa1-51d2-883f-0016d3cca427 --json  with the tables' attribute names

Exit codes: 1 also when there is no such record.")]
pub(crate) struct HistoryArgs {
    /// Subscription id of the billing record.
    #[arg(value_name = "SUBSCRIPTION")]
    pub(crate) subscription: String,
    /// Print JSON, with the tables' attribute names.
    #[arg(long)]
    pub(crate) json: bool,
}
