//! `dues backup`: everything, as it is at one moment, in one file, while others go on working.

use serde_json::json;
use std::fs::File;
use std::path::Path;

use crate::args::Backup;
use crate::output::{self, Error};

pub(crate) fn run(data: &Path, args: &Backup) -> Result<(), Error> {
    let store = output::open_existing(data)?;
    if args.file.exists() {
        return Err(Error::Said(format!("{} is there already", args.file.display())));
    }
    // Under another name until it is whole and on disk: a backup that was cut short is not taken for one.
    let mut name = args.file.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = args.file.with_file_name(name);
    let io = |doing: &str, cause| Error::Io { doing: format!("{doing} {}", part.display()), cause };
    match std::fs::remove_file(&part) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => return Err(io("remove", cause)),
        Ok(()) | Err(_) => {}
    }
    store.engine.backup(&part)?;
    File::open(&part).and_then(|file| file.sync_all()).map_err(|cause| io("write", cause))?;
    std::fs::rename(&part, &args.file).map_err(|cause| io("rename", cause))?;
    let bytes = std::fs::metadata(&args.file)?.len();
    if args.json {
        return output::json(&json!({"file": args.file, "bytes": bytes}));
    }
    output::text(&format!("{} bytes in {}: put it into a folder as dues.db to use it", output::grouped(bytes), args.file.display()))
}
