//! `dues completions`: what a shell needs to complete commands and options.

use clap::{Command, CommandFactory as _};
use clap_complete::generate;
use std::io::Write as _;

use crate::args::{Args, Completions};
use crate::output::Error;

pub(crate) fn run(args: &Completions) -> Result<(), Error> {
    // Written whole: the generator panics where a reader has gone away.
    let mut script = Vec::new();
    generate(args.shell, &mut visible(&Args::command()), "dues", &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}

/// A command as its help shows it. The generator would offer hidden options too, such as those for secrets, which have no place on a command line.
fn visible(command: &Command) -> Command {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned();
    let about = command.get_about().cloned().unwrap_or_default();
    Command::new(command.get_name().to_owned()).about(about).args(shown).subcommands(command.get_subcommands().map(visible))
}
