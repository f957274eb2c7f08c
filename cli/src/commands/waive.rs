//! `dues waive`.

use dues_processors::collections::commands::Command;
use std::path::Path;

use super::record_command;
use crate::args::RecordArgs;
use crate::output::Error;

pub(crate) async fn run(data: &Path, args: &RecordArgs) -> Result<(), Error> {
    record_command::run(data, args, Command::Waive).await
}
