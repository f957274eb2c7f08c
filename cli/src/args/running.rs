//! The server, the demo, the measurements, and what a shell completes.

use clap::Subcommand;
use clap_complete::Shell;
use dues_processors::webhook::Secrets;
use std::convert::Infallible;
use std::path::PathBuf;

use super::{AgeArgs, GatewayArgs};
use crate::serve::Timetable;

/// A made-up company.
#[derive(Debug, clap::Args)]
pub(crate) struct CompanyArgs {
    /// How many members the made-up company has.
    #[arg(long, default_value_t = 2000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) members: u32,
    /// How many months of it are lived through.
    #[arg(long, default_value_t = 6, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=120))]
    pub(crate) months: u32,
    /// The same seed gives the same company.
    #[arg(long, default_value_t = 7, value_name = "N")]
    pub(crate) seed: u64,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues demo                                        half a year of 2,000 members, then the console until Ctrl-C
  dues demo --members 200 --months 3 --headless    a small one, without the console
  dues demo --headless --json                      the summary, for programs
  dues --data dues-data/demo show customer-000000  what it leaves can be looked at with every command

Exit codes: 1 also when the audit at its end finds rows that differ from their history.")]
pub(crate) struct Demo {
    #[command(flatten)]
    pub(crate) company: CompanyArgs,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Exit after the summary, instead of serving the console.
    #[arg(long)]
    pub(crate) headless: bool,
    /// The port of the console; another one when it is taken.
    #[arg(long, default_value_t = 8787, value_name = "PORT")]
    pub(crate) port: u16,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues serve                                        the console, the streams, the REST API: http://127.0.0.1:8787
  dues serve --stripe-secret-file secrets.txt       and Stripe's webhook
  dues serve --host 0.0.0.0 --token-file token.txt  for other machines, with a token
  dues serve --schedule retry=06:30,notifier=off    jobs at other times
  dues serve --log info,dues_store=debug            with a log that tells more of one part

Exit codes: 0 when SIGINT or SIGTERM ended it; 1 also when another `dues serve` has the data, or the port is taken.")]
pub(crate) struct Serve {
    /// The address to listen on: this machine's own, or another one when requests have to carry a token.
    #[arg(long, env = "DUES_HOST", default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub(crate) host: String,
    /// The port; 0 for any that is free.
    #[arg(long, env = "DUES_PORT", default_value_t = 8787, value_name = "PORT")]
    pub(crate) port: u16,
    /// A file with the secrets of Stripe's webhook, one on a line; DUES_STRIPE_SECRETS can hold them too, with commas between them.
    #[arg(long, env = "DUES_STRIPE_SECRET_FILE", value_name = "FILE")]
    pub(crate) stripe_secret_file: Option<PathBuf>,
    /// The secrets of Stripe's webhook, from the environment only.
    #[arg(long, env = "DUES_STRIPE_SECRETS", hide = true, hide_env_values = true, value_parser = read_secrets)]
    pub(crate) stripe_secrets: Option<Secrets>,
    /// A file with the token that requests have to carry (Authorization: Bearer); DUES_TOKEN can hold it too.
    #[arg(long, env = "DUES_TOKEN_FILE", value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// The token that requests have to carry, from the environment only.
    #[arg(id = "serve_token", long = "token", env = "DUES_TOKEN", hide = true, hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// When the jobs run, in UTC: off, or changes to the usual times such as retry=06:30,notifier=off.
    #[arg(long, env = "DUES_SCHEDULE", value_name = "JOB=HH:MM,…", default_value = "", hide_default_value = true, value_parser = read_timetable)]
    pub(crate) schedule: Timetable,
    /// How many records of a stream may wait to be processed: beyond that, more are refused with 429.
    #[arg(long, env = "DUES_MAX_BACKLOG", default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) max_backlog: u64,
    #[command(flatten)]
    pub(crate) age: AgeArgs,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
    /// How long a lock outlives its holder.
    #[arg(long, env = "DUES_LOCK_LEASE_SECONDS", hide = true, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) lease: u64,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues bench                                        settlements and debits a second, against plain SQLite
  dues bench --events 400000 --rows 1000000 --json  also on a large store, for programs
  dues bench --collections 0                        settlements alone
  dues bench serve                                  over HTTP
  dues bench audit                                  how fast history is folded again")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(crate) command: Option<BenchCommand>,
    /// How many settlements.
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    pub(crate) events: u32,
    /// Measure also on a store that holds so many rows already.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) rows: u32,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Collect from so many members, and say how many a second; 0 for none.
    #[arg(long, default_value_t = 20_000, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(crate) collections: u32,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Measure events per second over HTTP against the same without, the time of an acknowledgement, and the server's memory.
    Serve(BenchServe),
    /// Measure how many events per second audit and replay fold again and compare with the rows.
    Audit(BenchAudit),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues bench serve                         events a second over HTTP, and how long an answer takes
  dues bench serve --events 100000 --json  more of them, for programs")]
pub(crate) struct BenchServe {
    /// How many events come in as fast as the server takes them.
    #[arg(long, default_value_t = 40_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    pub(crate) events: u32,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues bench audit                         the demo's company, audited and replayed
  dues bench audit --members 20000 --json  a larger one, for programs")]
pub(crate) struct BenchAudit {
    #[command(flatten)]
    pub(crate) company: CompanyArgs,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = INSTALLING)]
pub(crate) struct Completions {
    /// The shell.
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

const INSTALLING: &str = "Examples:
  dues completions bash > ~/.local/share/bash-completion/completions/dues
  dues completions zsh > ~/.zfunc/_dues              with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
  dues completions fish > ~/.config/fish/completions/dues.fish
  dues completions elvish > ~/.config/elvish/lib/dues.elv    and `use dues` in ~/.config/elvish/rc.elv
  dues completions powershell | Out-String | Invoke-Expression    in the file that $PROFILE names

A new shell has them. For the one that is open: source <(dues completions bash), or the same with zsh.";

fn read_timetable(text: &str) -> Result<Timetable, String> {
    Timetable::parse(text)
}

fn read_secrets(text: &str) -> Result<Secrets, Infallible> {
    Ok(Secrets::read(text))
}
