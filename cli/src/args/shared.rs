//! What several commands are asked.

use clap::ValueEnum;
use dues_events::Time;

/// Where debits go.
#[derive(Debug, clap::Args)]
pub(crate) struct GatewayArgs {
    /// The payments service; without one, a made-up ACH network collects.
    #[arg(long = "gateway", env = "DUES_GATEWAY_URL", value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The payments service's token, from the environment only.
    #[arg(long = "gateway-token", env = "DUES_GATEWAY_TOKEN", hide = true, hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// How often the made-up network returns debits.
    #[arg(long, env = "DUES_SANDBOX_ODDS", value_enum, default_value_t = OddsArg::None, value_name = "ODDS")]
    pub(crate) sandbox_odds: OddsArg,
    /// The same seed gives the same returns.
    #[arg(long, env = "DUES_SANDBOX_SEED", default_value_t = 7, value_name = "N")]
    pub(crate) sandbox_seed: u64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum OddsArg {
    /// Only accounts whose masks say so.
    None,
    /// As a company with ordinary members sees it.
    Usual,
}

/// What time it is.
#[derive(Debug, clap::Args)]
pub(crate) struct AsOf {
    /// As if it were that time: RFC 3339, or a day (its first moment, UTC).
    #[arg(long, value_name = "TIME", value_parser = read_time)]
    pub(crate) as_of: Option<Time>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AgeArgs {
    /// After so many days a record is too old to collect.
    #[arg(long, env = "OLD_SUBSCRIPTION_DAYS", default_value_t = 90, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub(crate) old_days: u32,
}

/// What to do about locks.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LockArgs {
    /// Do not wait for what another worker has.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// How long a lock outlives its holder.
    #[arg(long, env = "DUES_LOCK_LEASE_SECONDS", hide = true, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) lease: u64,
}

pub(crate) fn read_time(text: &str) -> Result<Time, String> {
    dues_events::time::parse_or_day(text).ok_or_else(|| "neither an RFC 3339 time nor a day such as 2026-02-01".to_owned())
}
