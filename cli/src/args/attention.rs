//! `dues attention`.

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues attention         subscriptions at Stripe with an overdue renewal, and what to do
  dues attention --json  one JSON object per line

The entitlement clock lists a subscription three days after the end of its period, if no event has renewed or
ended it: an event was missed. The next event of the subscription removes it from the list.")]
pub(crate) struct AttentionArgs {
    /// Print one JSON object per line.
    #[arg(long)]
    pub(crate) json: bool,
}
