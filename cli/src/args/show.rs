//! `dues show`.

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues show u-1         billing records, tier, access and its reason, credits, passes, groups
  dues show u-1 --json  with the tables' attribute names

Exit codes: 0 also for an unknown user, who is INACTIVE; `dues explain` fails for one.")]
pub(crate) struct ShowArgs {
    /// User id of the member.
    #[arg(value_name = "USER")]
    pub(crate) user: String,
    /// Print JSON, with the tables' attribute names.
    #[arg(long)]
    pub(crate) json: bool,
}
