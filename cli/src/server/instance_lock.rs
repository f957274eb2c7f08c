//! One `dues serve` per data directory: two would run every job and read every stream twice.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;

use crate::output::Error;

/// The lock file. The kernel holds the lock, so it ends with the process, even after a crash.
const FILE: &str = "serve.lock";

/// Held while the server runs.
#[derive(Debug)]
pub(crate) struct InstanceLock(#[expect(dead_code, reason = "dropping it lets go of the lock")] File);

impl InstanceLock {
    /// Locks the directory; the error names the process that holds it.
    pub(crate) fn acquire(data: &Path) -> Result<Self, Error> {
        let path = data.join(FILE);
        let doing = |what: &str| {
            let doing = format!("{what} {}", path.display());
            move |cause| Error::Io { doing, cause }
        };
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(doing("open"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut who = String::new();
                // The holder may not have written its process id yet.
                let _ = file.read_to_string(&mut who);
                let who = who.trim();
                let process = if who.is_empty() { String::new() } else { format!(" (process {who})") };
                let how = "stop it first, or name another folder with --data; other commands work beside it";
                return Err(Error::Message(format!(
                    "another dues serve{process} has the data in {}: {how}",
                    data.display()
                )));
            }
            Err(TryLockError::Error(cause)) => return Err(doing("lock")(cause)),
        }
        file.set_len(0).and_then(|()| file.rewind()).map_err(doing("write"))?;
        writeln!(file, "{}", std::process::id()).map_err(doing("write"))?;
        Ok(Self(file))
    }
}
