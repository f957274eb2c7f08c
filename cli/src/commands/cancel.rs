//! `dues cancel`.

use dues_processors::collections::commands::Command;
use std::path::Path;

use super::record_command;
use crate::args::CancelArgs;
use crate::output::Error;

pub(crate) async fn run(data: &Path, args: &CancelArgs) -> Result<(), Error> {
    record_command::run(data, &args.record, Command::Cancel { now: args.now }).await
}
