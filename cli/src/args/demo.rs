//! `dues demo`.

use super::CompanyArgs;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues demo                                        2,000 members for six months, then the console until Ctrl-C
  dues demo --members 200 --months 3 --headless    a small company, without the console
  dues demo --headless --json                      the summary as JSON
  dues --data dues-data/demo show customer-000000  every command works on the demo's data

Exit codes: 1 also when the closing audit finds rows that differ from their history.")]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    pub(crate) company: CompanyArgs,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Exit after the summary instead of serving the console.
    #[arg(long)]
    pub(crate) headless: bool,
    /// Port of the console; any free port if it is taken.
    #[arg(long, default_value_t = 8787, value_name = "PORT")]
    pub(crate) port: u16,
}
