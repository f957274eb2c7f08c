//! `dues parked`.

use clap::Subcommand;

use super::{AgeArgs, GatewayArgs, LockArgs};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues parked                               list parked records with their reasons
  dues parked --json                        include the records themselves
  dues parked show 3f2a                     one record, by a prefix of its id
  dues parked redrive --stream memberships  redrive every parked record of a stream")]
pub(crate) struct ParkedArgs {
    #[command(subcommand)]
    pub(crate) action: Option<ParkedAction>,
    /// Print JSON, including the records themselves.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ParkedAction {
    /// List parked records with their reasons (the default).
    #[command(after_help = "Examples:
  dues parked list         the same as `dues parked`
  dues parked list --json  include the records themselves")]
    List,
    /// Show one parked record in full.
    #[command(after_help = "Examples:
  dues parked show 3f2a  by a prefix of its id

Exit codes: 1 also when the prefix matches no parked record, or several.")]
    Show {
        /// Id of the parked record, or a unique prefix.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Process parked records again; those that succeed are removed.
    Redrive(RedriveArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues parked redrive 3f2a                    one record, by a prefix of its id
  dues parked redrive --stream site-payments  every parked record of a stream
  dues parked redrive --all --json            all of them; JSON output with each outcome

Exit codes: 0 also when some stay parked; the summary counts them and gives the reasons.")]
pub(crate) struct RedriveArgs {
    #[command(flatten)]
    pub(crate) selection: ParkedSelection,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
    #[command(flatten)]
    pub(crate) age: AgeArgs,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct ParkedSelection {
    /// Id of a parked record, or a unique prefix.
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Every parked record of this stream.
    #[arg(long, value_name = "NAME")]
    pub(crate) stream: Option<String>,
    /// Every parked record.
    #[arg(long)]
    pub(crate) all: bool,
}
