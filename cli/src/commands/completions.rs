//! `dues completions`: shell completion scripts.

use clap::{Command, CommandFactory as _};
use clap_complete::generate;
use std::io::Write as _;

use crate::args::{Args, CompletionsArgs};
use crate::output::Error;

pub(crate) fn run(args: &CompletionsArgs) -> Result<(), Error> {
    // Generated into memory first: the generator panics on a closed pipe.
    let mut script = Vec::new();
    generate(args.shell, &mut visible(&Args::command()), "dues", &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}

/// A command without its hidden options: the generator would complete those for secrets, which do not belong
/// on a command line.
fn visible(command: &Command) -> Command {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned();
    let about = command.get_about().cloned().unwrap_or_default();
    Command::new(command.get_name().to_owned())
        .about(about)
        .args(shown)
        .subcommands(command.get_subcommands().map(visible))
}
