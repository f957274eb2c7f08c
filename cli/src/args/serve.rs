//! `dues serve`.

use dues_processors::entitlements::stripe_webhook::Secrets;
use std::convert::Infallible;
use std::path::PathBuf;

use super::{AgeArgs, GatewayArgs};
use crate::commands::serve::Timetable;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues serve                                        console, ingest and REST API on http://127.0.0.1:8787
  dues serve --stripe-secret-file secrets.txt       also accept Stripe webhooks
  dues serve --host 0.0.0.0 --token-file token.txt  listen on all interfaces; requests need the token
  dues serve --schedule retry=06:30,notifier=off    change when jobs run
  dues serve --log info,dues_store=debug            more log output from one module

Exit codes: 0 after SIGINT or SIGTERM; 1 also when another `dues serve` uses the data directory, or the port
is taken.")]
pub(crate) struct ServeArgs {
    /// IP address to listen on. Any address but a loopback one requires a token.
    #[arg(long, env = "DUES_HOST", default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub(crate) host: String,
    /// Port to listen on; 0 picks a free one.
    #[arg(long, env = "DUES_PORT", default_value_t = 8787, value_name = "PORT")]
    pub(crate) port: u16,
    /// File with the signing secrets of the Stripe webhook, one per line. Alternatively set
    /// DUES_STRIPE_SECRETS, comma-separated.
    #[arg(long, env = "DUES_STRIPE_SECRET_FILE", value_name = "FILE")]
    pub(crate) stripe_secret_file: Option<PathBuf>,
    /// Signing secrets of the Stripe webhook; environment only.
    #[arg(
        long,
        env = "DUES_STRIPE_SECRETS",
        hide = true,
        hide_env_values = true,
        value_parser = parse_secrets
    )]
    pub(crate) stripe_secrets: Option<Secrets>,
    /// File with the bearer token that requests must carry. Alternatively set DUES_TOKEN.
    #[arg(long, env = "DUES_TOKEN_FILE", value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Bearer token that requests must carry; environment only.
    #[arg(id = "serve_token", long = "token", env = "DUES_TOKEN", hide = true, hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// When jobs run, in UTC: `off`, or changes to the default times such as retry=06:30,notifier=off.
    #[arg(
        long,
        env = "DUES_SCHEDULE",
        value_name = "JOB=HH:MM,…",
        default_value = "",
        hide_default_value = true,
        value_parser = parse_timetable
    )]
    pub(crate) schedule: Timetable,
    /// Unprocessed records a stream may hold; beyond that, ingest answers 429.
    #[arg(
        long,
        env = "DUES_MAX_BACKLOG",
        default_value_t = 100_000,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=10_000_000)
    )]
    pub(crate) max_backlog: u64,
    #[command(flatten)]
    pub(crate) age: AgeArgs,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
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

fn parse_timetable(text: &str) -> Result<Timetable, String> {
    Timetable::parse(text)
}

fn parse_secrets(text: &str) -> Result<Secrets, Infallible> {
    Ok(Secrets::read(text))
}
