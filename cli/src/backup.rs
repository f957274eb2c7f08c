//! `dues backup`: everything, as it is at one moment, in one file, while others go on working.

use dues_store::embedded::Embedded;
use serde_json::json;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use crate::args::Backup;
use crate::output::{self, Error};

/// How often the progress bar moves.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) async fn run(data: &Path, args: &Backup) -> Result<(), Error> {
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
    copy(&store.engine, &part, data).await?;
    File::open(&part).and_then(|file| file.sync_all()).map_err(|cause| io("write", cause))?;
    std::fs::rename(&part, &args.file).map_err(|cause| io("rename", cause))?;
    let bytes = std::fs::metadata(&args.file)?.len();
    if args.json {
        return output::json(&json!({"file": args.file, "bytes": bytes}));
    }
    output::text(&format!("{} bytes in {}: put it into a folder as dues.db to use it", output::grouped(bytes), args.file.display()))
}

/// Copies, with a progress bar: how much of the file is there by now. What was deleted from the store is not copied, so it may end before the bar does.
async fn copy(engine: &Embedded, part: &Path, data: &Path) -> Result<(), Error> {
    let bar = output::progress(std::fs::metadata(data.join("dues.db")).ok().map(|found| found.len()));
    let mut copying = tokio::task::spawn_blocking({
        let (engine, part) = (engine.clone(), part.to_owned());
        move || engine.backup(&part)
    });
    let copied = loop {
        tokio::select! {
            copied = &mut copying => break copied,
            () = tokio::time::sleep(LOOK) => bar.set_position(std::fs::metadata(part).map_or(0, |found| found.len())),
        }
    };
    bar.finish_and_clear();
    Ok(copied.map_err(|error| Error::Said(format!("the backup broke off: {error}")))??)
}
