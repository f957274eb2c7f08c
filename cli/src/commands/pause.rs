//! `dues pause`.

use dues_processors::collections::commands::Command;
use std::path::Path;

use super::record_command;
use crate::args::PauseArgs;
use crate::output::Error;

pub(crate) async fn run(data: &Path, args: &PauseArgs) -> Result<(), Error> {
    record_command::run(data, &args.record, Command::Pause { months: args.months }).await
}
