//! `dues move`.

use dues_processors::collections::commands::Command;
use std::path::Path;

use super::record_command;
use crate::args::MoveArgs;
use crate::output::Error;

pub(crate) async fn run(data: &Path, args: &MoveArgs) -> Result<(), Error> {
    record_command::run(data, &args.record, Command::Move { to: args.to }).await
}
