//! Options that several commands share.

use clap::ValueEnum;
use dues_events::Time;

/// Where debits are sent.
#[derive(Debug, clap::Args)]
pub(crate) struct GatewayArgs {
    /// URL of the payments service. Without it, debits go to the built-in ACH sandbox.
    #[arg(long = "gateway", env = "DUES_GATEWAY_URL", value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Token of the payments service; environment only.
    #[arg(long = "gateway-token", env = "DUES_GATEWAY_TOKEN", hide = true, hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// How often the sandbox returns debits.
    #[arg(long, env = "DUES_SANDBOX_ODDS", value_enum, default_value_t = OddsArg::None, value_name = "ODDS")]
    pub(crate) sandbox_odds: OddsArg,
    /// Seed of the sandbox: the same seed gives the same returns.
    #[arg(long, env = "DUES_SANDBOX_SEED", default_value_t = 7, value_name = "N")]
    pub(crate) sandbox_seed: u64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum OddsArg {
    /// Only accounts with a test mask fail.
    None,
    /// Return rates of an ordinary membership business.
    Usual,
}

/// The time that a command takes for now.
#[derive(Debug, clap::Args)]
pub(crate) struct AsOf {
    /// Run as if it were this time: RFC 3339, or a date (midnight UTC).
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) as_of: Option<Time>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AgeArgs {
    /// Days after which an unpaid record is STALE and no longer collected.
    #[arg(
        long,
        env = "OLD_SUBSCRIPTION_DAYS",
        default_value_t = 90,
        value_name = "DAYS",
        value_parser = clap::value_parser!(u32).range(1..=3650)
    )]
    pub(crate) old_days: u32,
}

/// How locks are taken.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LockArgs {
    /// Skip what another worker has locked instead of waiting for it.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Lease of a lock, in seconds.
    #[arg(
        long,
        env = "DUES_LOCK_LEASE_SECONDS",
        hide = true,
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..=3600)
    )]
    pub(crate) lease: u64,
}

/// One billing record of a member.
#[derive(Debug, clap::Args)]
pub(crate) struct RecordArgs {
    /// User id of the member.
    #[arg(value_name = "USER")]
    pub(crate) user: String,
    /// Subscription id of the billing record.
    #[arg(value_name = "SUBSCRIPTION")]
    pub(crate) subscription: String,
    #[command(flatten)]
    pub(crate) actor: ActorArgs,
    #[command(flatten)]
    pub(crate) as_of: AsOf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Who acts: history keeps the name.
#[derive(Debug, clap::Args)]
pub(crate) struct ActorArgs {
    /// Your name, for history. Default: the user of this machine.
    #[arg(long = "as", env = "DUES_ACTOR", value_name = "NAME")]
    name: Option<String>,
}

impl ActorArgs {
    /// The given name, else the name under which the user is signed in here, else `operator`.
    pub(crate) fn name(&self) -> String {
        let signed_in = || ["USER", "LOGNAME", "USERNAME"].iter().find_map(|name| std::env::var(name).ok());
        let name = self.name.clone().or_else(signed_in).filter(|name| !name.trim().is_empty());
        name.unwrap_or_else(|| "operator".to_owned())
    }
}

/// The simulated company of `dues demo` and `dues bench audit`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompanyArgs {
    /// Number of members.
    #[arg(
        long,
        default_value_t = 2000,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    pub(crate) members: u32,
    /// Number of months to simulate.
    #[arg(long, default_value_t = 6, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=120))]
    pub(crate) months: u32,
    /// Seed of the simulation: the same seed gives the same company.
    #[arg(long, default_value_t = 7, value_name = "N")]
    pub(crate) seed: u64,
}

pub(crate) fn parse_time(text: &str) -> Result<Time, String> {
    dues_events::time::parse_or_day(text)
        .ok_or_else(|| "neither an RFC 3339 time nor a date such as 2026-02-01".to_owned())
}
