//! What operators ask, check, put right and take along.

use dues_events::Time;
use std::path::PathBuf;

use super::{AgeArgs, read_time};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues show u-1         records, tier, what they may use and why, credits, passes, groups
  dues show u-1 --json  with the tables' attribute names

Exit codes: 0 also for a user of whom nothing is known: they are INACTIVE. `dues explain` fails then.")]
pub(crate) struct Show {
    /// The member's user id.
    #[arg(value_name = "USER")]
    pub(crate) user: String,
    /// Print JSON, with the tables' attribute names.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues explain u-1                                   everything until now, and what comes next
  dues explain u-1 --at 2026-03-01                   as it stood when that day began
  dues explain u-1 --at 2026-03-01T15:30:00Z --json  to the second, for programs

Exit codes: 1 also when nothing is known of that member.")]
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
#[command(after_help = "Examples:
  dues history 1b4e28ba-2fa1-51d2-883f-0016d3cca427         every change, with its event and source
  dues history 1b4e28ba-2fa1-51d2-883f-0016d3cca427 --json  with the tables' attribute names

Exit codes: 1 also when there is no such record.")]
pub(crate) struct History {
    /// The record's subscription id.
    #[arg(value_name = "SUBSCRIPTION")]
    pub(crate) subscription: String,
    /// Print JSON, with the tables' attribute names.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues audit         every history folded again, every row compared
  dues audit --json  all findings, also beyond the fifty that people are shown

Exit codes: 0 when all rows agree, 1 when one differs; what differs is on standard output. `dues replay` puts it right.")]
pub(crate) struct Audit {
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues replay --dry-run           what would change; nothing is written
  dues replay                     put rows right that are not what history makes them
  dues replay --read-model usage  only that one

Exit codes: with --dry-run 1 when rows would change; without it 0 when they were put right.")]
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
#[command(after_help = "Examples:
  dues export all.ndjson                into a new file
  dues export - | gzip > all.ndjson.gz  to standard output

Exit codes: 1 also when the file is there already; it is left as it is.")]
pub(crate) struct Export {
    /// The file, which must not be there, or - for standard output.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues --data restored import all.ndjson  into a new folder
  dues --data restored audit              is everything as its history says?

Exit codes: 1 also when the folder has rows already.")]
pub(crate) struct Import {
    /// The file, or - for standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dues backup monday.db         while `dues serve` goes on
  dues backup monday.db --json  its size, for programs

To use it, put it into a folder under the name dues.db.

Exit codes: 1 also when the file is there already; it is left as it is.")]
pub(crate) struct Backup {
    /// The file, which must not be there.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
