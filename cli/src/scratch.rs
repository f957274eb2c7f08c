//! Rows that are made again, beside those that are there.

use dues_store::embedded::Embedded;
use dues_store::{SharedClock, Store};
use std::path::{Path, PathBuf};

use crate::output::{self, Error};

/// A folder beside the data, for the rows that are made again. It goes when this does.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(data: &Path) -> Result<Self, Error> {
        let folder = data.join(format!("replay-{}", std::process::id()));
        // One of a program that was killed, and had the same number.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).map_err(|cause| Error::Io { doing: format!("make folder {}", folder.display()), cause })?;
        Ok(Self(folder))
    }

    /// An empty store in it.
    pub(crate) fn open(&self, clock: &SharedClock) -> Result<Store<Embedded>, Error> {
        Ok(Store { clock: clock.clone(), ..output::open(&self.0)? })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is in nobody's way.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
