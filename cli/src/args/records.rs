//! Records: those that come in, those that go out, and those that are parked.

use clap::Subcommand;
use dues_processors::{OUTGOING, STREAMS};
use std::path::PathBuf;

use super::{AgeArgs, GatewayArgs, LockArgs};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues ingest --stream memberships members.ndjson         one JSON object a line
  dues ingest --stream site-payments - < payments.ndjson  from standard input
  dues ingest --stream stripe events.ndjson --json        the counts, for programs
  dues parked                                             what of it could not be processed, and why

Exit codes: 0 also when records had to be parked: they are counted. Reading the same file again changes nothing.")]
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
#[command(after_help = "Examples:
  dues tail subscriptions --follow            what others are told of billing records, as it comes
  dues tail events --last 5                   the newest five of what it means
  dues tail site-payments --from 1000 --json  what was read, from a number on

Exit codes: 0 also when --follow is interrupted.")]
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
#[command(after_help = "Examples:
  dues parked                               what could not be processed, and why
  dues parked --json                        with the records themselves
  dues parked show 3f2a                     one whole, by the start of its id
  dues parked redrive --stream memberships  drive all of a stream through again")]
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
    #[command(after_help = "Examples:
  dues parked list         the same as `dues parked`
  dues parked list --json  with the records themselves")]
    List,
    /// Show one whole.
    #[command(after_help = "Examples:
  dues parked show 3f2a  by the start of its id

Exit codes: 1 also when no parked record, or more than one, has an id that starts like that.")]
    Show {
        /// Its id, or the start of it.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Drive some through their handlers again; what goes through is taken out.
    Redrive(Redrive),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues parked redrive 3f2a                    one, by the start of its id
  dues parked redrive --stream site-payments  all of a stream
  dues parked redrive --all --json            all of them, and what became of each

Exit codes: 0 also when some stay parked: the summary counts them, and says why.")]
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
