//! The command line.

use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use dues_events::usage::details;
use dues_events::{Item, Time};
use dues_processors::webhook::Secrets;
use dues_processors::{OUTGOING, STREAMS};
use std::convert::Infallible;
use std::path::PathBuf;

use crate::log::Wanted;
use crate::serve::Timetable;

/// Collects membership dues: facts stream in, one state machine applies them, every state can be explained.
#[derive(Debug, Parser)]
#[command(name = "dues", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder that holds everything.
    #[arg(long, global = true, env = "DUES_DATA", default_value = "dues-data", value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// How much the log on standard error tells: off, error, warn, info, debug or trace; parts of the program can have their own, as in
    /// info,dues_store=debug. Usual is info for serve, and error otherwise.
    #[arg(long, global = true, env = "DUES_LOG", value_name = "LEVEL", default_value = "", hide_default_value = true, value_parser = read_log)]
    pub(crate) log: Wanted,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "Examples:
  dues demo                                          half a year of a made-up company, and the console to look at it
  dues ingest --stream memberships members.ndjson    read membership changes from a file
  dues ingest --stream site-payments -               read settlements from standard input
  dues ingest --stream stripe events.ndjson          read Stripe's events, in any order
  dues collect --process INITIAL                     debit what has fallen due
  dues collect --process RETRY --as-of 2026-02-09    as if it were that day
  dues pay u-1 1b4e28ba-2fa1-51d2-883f-0016d3cca427  collect one record now
  dues show u-1                                      a member's billing records
  dues history 1b4e28ba-2fa1-51d2-883f-0016d3cca427  every change of one record, with its event
  dues parked                                        what could not be processed, and why
  dues explain u-1 --at 2026-03-01                   why was this member charged, or not, or given this tier?
  dues audit                                         is every row what its history says?
  dues replay --dry-run                              what would change if rows were made again from history
  dues tail subscriptions --follow                   what others are told of billing records, as it comes
  dues export all.ndjson                             history as NDJSON; dues --data NEW import all.ndjson reads it
  dues backup monday.db                              everything in one file, while others go on working
  dues risk                                          how many debits come back, against Nacha's limits
  dues usage count u-1 simulations --action run      count an action, if the plan allows it
  dues serve --stripe-secret-file secrets.txt        streams, Stripe's webhook, the REST API and the daily jobs, over HTTP
  dues bench --events 400000                         measure this machine

Exit codes: 0 done (records that had to be parked are counted, not an error), 1 failed, 2 wrong usage.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run months of a made-up company through the real handlers, sum up, and serve the console.
    Demo(Demo),
    /// Read records (NDJSON, one JSON object a line) onto a stream and process them.
    Ingest(Ingest),
    /// Show a member's billing records.
    Show(Show),
    /// Show every change of one billing record, in order, with its event and source.
    History(History),
    /// What could not be processed, and why; and driving it through again.
    Parked(Parked),
    /// Tell a member's story: what happened, because of what, how it stands, and what comes next.
    Explain(Explain),
    /// Fold every history again and compare it with the rows; exit 1 and a precise list where they differ.
    Audit(Audit),
    /// Make rows again from history, compare them with the live ones, and put those right.
    Replay(Replay),
    /// Write everything that cannot be made again as NDJSON: history, events, ledgers, journals.
    Export(Export),
    /// Read an export into an empty folder, and make the rest again from it.
    Import(Import),
    /// Copy everything into one file, while others go on working.
    Backup(Backup),
    /// Collect what is due, from everybody.
    Collect(Collect),
    /// Collect one record now.
    Pay(Pay),
    /// Forgive one record's period.
    Waive(Act),
    /// End one record: when what was paid for ends, or at once.
    Cancel(Cancel),
    /// Let billing of one record rest.
    Pause(Pause),
    /// Let billing of one record go on.
    Resume(Act),
    /// Tell of what falls due soon, once for each record.
    Notify(Notify),
    /// How many debits came back in sixty days, against Nacha's limits.
    Risk(Risk),
    /// The made-up ACH network that collects when no payments service is named.
    Sandbox(Sandbox),
    /// Print the newest records of a local stream, and follow it.
    Tail(Tail),
    /// What plans allow and how much of it was used: count an action, see who uses a feature, forget days that are over.
    Usage(Usage),
    /// Serve stream ingest, Stripe's webhook, the REST API, health and metrics over HTTP; process the streams, and run the jobs at their times.
    Serve(Serve),
    /// Measure settlements per second against plain SQLite writing the same rows.
    Bench(Bench),
    /// Print what a shell needs to complete commands and options.
    Completions(Completions),
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

#[derive(Debug, clap::Args)]
pub(crate) struct Demo {
    /// How many members.
    #[arg(long, default_value_t = 2000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) members: u32,
    /// How many months.
    #[arg(long, default_value_t = 6, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=120))]
    pub(crate) months: u32,
    /// The same seed gives the same company.
    #[arg(long, default_value_t = 7, value_name = "N")]
    pub(crate) seed: u64,
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
pub(crate) struct Ingest {
    /// The stream: site-payments, memberships, stripe, app-events or s3-events.
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(STREAMS))]
    pub(crate) stream: String,
    /// The file, or - for standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The member's user id.
    #[arg(value_name = "USER")]
    pub(crate) user: String,
    /// Print JSON, with the tables' attribute names.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Explain {
    /// The member's user id.
    #[arg(value_name = "USER")]
    pub(crate) user: String,
    /// As of that time: RFC 3339, or a day (its first moment, UTC).
    #[arg(long, value_name = "TIME", value_parser = read_time)]
    pub(crate) at: Option<Time>,
    #[command(flatten)]
    pub(crate) age: AgeArgs,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Audit {
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Replay {
    /// Only that one.
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(crate::replay::names()))]
    pub(crate) read_model: Option<String>,
    /// Only tell what would change; exit 1 when something would.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Export {
    /// The file, which must not be there, or - for standard output.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Import {
    /// The file, or - for standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Backup {
    /// The file, which must not be there.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct History {
    /// The record's subscription id.
    #[arg(value_name = "SUBSCRIPTION")]
    pub(crate) subscription: String,
    /// Print JSON, with the tables' attribute names.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Parked {
    #[command(subcommand)]
    pub(crate) action: Option<ParkedAction>,
    /// Print JSON, with the records themselves.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ParkedAction {
    /// List them, with their reasons (what `dues parked` does by itself).
    List,
    /// Show one whole.
    Show {
        /// Its id, or the start of it.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Drive some through their handlers again; what goes through is taken out.
    Redrive(Redrive),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Redrive {
    #[command(flatten)]
    pub(crate) which: WhichParked,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
    #[command(flatten)]
    pub(crate) age: AgeArgs,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct WhichParked {
    /// That one: its id, or the start of it.
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// All of one stream.
    #[arg(long, value_name = "NAME")]
    pub(crate) stream: Option<String>,
    /// All of them.
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, clap::Args)]
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
}

#[derive(Debug, clap::Args)]
pub(crate) struct BenchServe {
    /// How many events come in as fast as the server takes them.
    #[arg(long, default_value_t = 40_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    pub(crate) events: u32,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

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

#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "UPPER")]
pub(crate) enum ProcessArg {
    /// SCHEDULED records that have fallen due.
    Initial,
    /// ERROR records that ACH lets be presented again.
    Retry,
    /// PAUSED records whose pause ends.
    Pause,
}

/// What time it is.
#[derive(Debug, clap::Args)]
pub(crate) struct AsOf {
    /// As if it were that time: RFC 3339, or a day (its first moment, UTC).
    #[arg(long, value_name = "TIME", value_parser = read_time)]
    pub(crate) as_of: Option<Time>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Collect {
    /// Which run.
    #[arg(long, value_enum, ignore_case = true, value_name = "PROCESS")]
    pub(crate) process: ProcessArg,
    #[command(flatten)]
    pub(crate) as_of: AsOf,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
    #[command(flatten)]
    pub(crate) age: AgeArgs,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
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

/// One record of a member.
#[derive(Debug, clap::Args)]
pub(crate) struct Act {
    /// The member's user id.
    #[arg(value_name = "USER")]
    pub(crate) user: String,
    /// The record's subscription id.
    #[arg(value_name = "SUBSCRIPTION")]
    pub(crate) subscription: String,
    #[command(flatten)]
    pub(crate) as_of: AsOf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Pay {
    #[command(flatten)]
    pub(crate) act: Act,
    /// The member has put another account on file since the last return.
    #[arg(long)]
    pub(crate) new_account: bool,
    #[command(flatten)]
    pub(crate) age: AgeArgs,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Cancel {
    #[command(flatten)]
    pub(crate) act: Act,
    /// At once.
    #[arg(long)]
    pub(crate) now: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Pause {
    #[command(flatten)]
    pub(crate) act: Act,
    /// For how many months.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=12))]
    pub(crate) months: u32,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Notify {
    /// How many days ahead.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=366))]
    pub(crate) days: u32,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) as_of: AsOf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Risk {
    #[command(flatten)]
    pub(crate) as_of: AsOf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Sandbox {
    #[command(subcommand)]
    pub(crate) command: SandboxCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SandboxCommand {
    /// Give a member an account: its last four digits say what happens to debits (0001: returned with R01, 0110: settles and is returned late
    /// with R10, 0200: refunded, 0300: charged back, 0400: collected at once, 0501: refused with R01).
    Account {
        /// The member's user id.
        #[arg(value_name = "USER")]
        user: String,
        /// Four digits.
        #[arg(value_name = "MASK", value_parser = read_mask)]
        mask: String,
    },
    /// Bring in what has become of debits by now: settlements, returns, refunds.
    Deliver {
        #[command(flatten)]
        as_of: AsOf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Tail {
    /// The stream: subscriptions and events tell others, the others are read here.
    #[arg(value_name = "STREAM", value_parser = clap::builder::PossibleValuesParser::new(OUTGOING.into_iter().chain(STREAMS)))]
    pub(crate) stream: String,
    /// How many of the newest records.
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) last: usize,
    /// From the record with this number on.
    #[arg(long, value_name = "N", conflicts_with_all = ["all", "last"])]
    pub(crate) from: Option<u64>,
    /// All records that are kept: a day's.
    #[arg(long, conflicts_with = "last")]
    pub(crate) all: bool,
    /// Go on with what comes, until interrupted.
    #[arg(long)]
    pub(crate) follow: bool,
    /// Print one JSON object a record.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Usage {
    #[command(subcommand)]
    pub(crate) command: UsageCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum UsageCommand {
    /// Count an action, if the user's plan allows one more today.
    Count(UsageCount),
    /// Who has used a feature today.
    Who {
        /// The feature.
        #[arg(value_name = "FEATURE")]
        feature: String,
        /// Only those who have used it at least so often.
        #[arg(long, default_value_t = 1, value_name = "N")]
        at_least: u64,
        #[command(flatten)]
        as_of: AsOf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Forget what was used on days that are over.
    Reset {
        #[command(flatten)]
        as_of: AsOf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct UsageCount {
    /// The user's id.
    #[arg(value_name = "USER")]
    pub(crate) user: String,
    /// The feature.
    #[arg(value_name = "FEATURE")]
    pub(crate) feature: String,
    /// What was done, such as simulation_run.
    #[arg(long, value_name = "TYPE")]
    pub(crate) action: String,
    /// Names the action: with the same key it is counted once.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// What is to be remembered of it: a JSON object.
    #[arg(long, value_name = "JSON", value_parser = read_details, default_value = "{}")]
    pub(crate) details: Item,
    #[command(flatten)]
    pub(crate) as_of: AsOf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
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

fn read_log(text: &str) -> Result<Wanted, String> {
    Wanted::parse(text)
}

fn read_timetable(text: &str) -> Result<Timetable, String> {
    Timetable::parse(text)
}

fn read_secrets(text: &str) -> Result<Secrets, Infallible> {
    Ok(Secrets::read(text))
}

fn read_details(text: &str) -> Result<Item, String> {
    let json = serde_json::from_str(text).map_err(|why| format!("is not JSON: {why}"))?;
    details(&json).map_err(|why| why.to_string())
}

pub(crate) fn read_time(text: &str) -> Result<Time, String> {
    dues_events::time::parse_or_day(text).ok_or_else(|| "neither an RFC 3339 time nor a day such as 2026-02-01".to_owned())
}

fn read_mask(text: &str) -> Result<String, String> {
    if text.len() == 4 && text.bytes().all(|b| b.is_ascii_digit()) { Ok(text.to_owned()) } else { Err("not four digits".to_owned()) }
}
