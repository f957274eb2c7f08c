//! `dues backup`: a consistent online copy of the database in one file.

use dues_store::embedded::Embedded;
use serde_json::json;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use crate::args::BackupArgs;
use crate::output::{self, Error};

/// Interval at which the progress bar is updated.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) async fn run(data: &Path, args: &BackupArgs) -> Result<(), Error> {
    let store = output::open_existing(data)?;
    if args.file.exists() {
        return Err(Error::Message(format!("{} already exists", args.file.display())));
    }
    // Written under another name and renamed once it is synced: an interrupted backup is never mistaken for
    // a complete one.
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
        return output::print_json(&json!({"file": args.file, "bytes": bytes}));
    }
    output::print_line(&format!(
        "{} bytes written to {}; to restore, copy it into an empty data directory as dues.db",
        output::grouped(bytes),
        args.file.display()
    ))
}

/// Copies with a progress bar. Free pages are not copied, so the copy may finish before the bar does.
async fn copy(engine: &Embedded, part: &Path, data: &Path) -> Result<(), Error> {
    let bar = output::progress(std::fs::metadata(data.join("dues.db")).ok().map(|found| found.len()));
    let mut copying = tokio::task::spawn_blocking({
        let (engine, part) = (engine.clone(), part.to_owned());
        move || engine.backup(&part)
    });
    let copied = loop {
        tokio::select! {
            copied = &mut copying => break copied,
            () = tokio::time::sleep(PROGRESS_INTERVAL) => {
                bar.set_position(std::fs::metadata(part).map_or(0, |found| found.len()));
            }
        }
    };
    bar.finish_and_clear();
    Ok(copied.map_err(|error| Error::Message(format!("backup failed: {error}")))??)
}
