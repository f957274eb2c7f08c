//! Where the repository is, and where its artefacts go.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::step::{Doing, Failure, Result, output};

/// Size at which the cache is emptied: each clone of the repository leaves its own artefacts in it.
const CACHE_LIMIT_BYTES: u64 = 12 << 30;

/// This repository on this machine.
#[derive(Debug)]
pub struct Workspace {
    /// The folder with the root `Cargo.toml`.
    pub root: PathBuf,
    /// Where cargo puts artefacts: what it would choose itself, or a folder in the cache.
    pub target: PathBuf,
    /// Whether that folder is in the cache, and so outlives this clone.
    pub cached: bool,
    /// Output of `cargo metadata --locked`.
    pub metadata: Value,
}

impl Workspace {
    /// Finds the workspace that xtask was started in, and prints the target folder.
    pub fn find() -> Result<Self> {
        let cache = cache_folder(
            std::env::var_os("DUES_CACHE"),
            std::env::var_os("CI"),
            std::env::var_os("HOME"),
            |folder| fs::create_dir_all(folder).is_ok(),
        );
        let start = match std::env::var_os("CARGO_MANIFEST_DIR") {
            Some(crate_folder) => PathBuf::from(crate_folder),
            None => std::env::current_dir().doing("find the current folder")?,
        };
        let mut ask = cargo_in(&start);
        ask.args(["metadata", "--format-version", "1", "--locked"]);
        let metadata: Value = serde_json::from_str(&output(&mut ask)?).doing("read cargo metadata")?;
        let root = path_in(&metadata, "workspace_root")?;
        let cached = cache.is_some();
        let target = match cache {
            Some(cache) => cache.join("target"),
            None => path_in(&metadata, "target_directory")?,
        };
        fs::create_dir_all(&target).doing("make the target folder")?;
        println!("target folder: {}", target.display());
        Ok(Self { root, target, cached, metadata })
    }

    /// A cargo command at the root, with the target folder set.
    pub fn cargo(&self, args: &[&str]) -> Command {
        let mut command = cargo_in(&self.root);
        command.args(args).env("CARGO_TARGET_DIR", &self.target);
        command
    }

    /// Empties a cache that exceeds its limit. A target folder outside the cache is left alone.
    pub fn trim(&self) -> Result<()> {
        if !self.cached {
            return Ok(());
        }
        let size = folder_size(&self.target);
        if size <= CACHE_LIMIT_BYTES {
            return Ok(());
        }
        println!("the target folder has grown to {} GiB: starting it anew", size >> 30);
        for name in ["debug", "release"] {
            let folder = self.target.join(name);
            if folder.exists() {
                fs::remove_dir_all(&folder).doing(format!("empty {name} in the target folder"))?;
            }
        }
        Ok(())
    }
}

/// Cargo sets variables about xtask for xtask's own process. Remove them for the cargo commands below it:
/// build scripts may read them and would run again each time.
fn cargo_in(folder: &Path) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.current_dir(folder);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") || text == "CARGO_BIN_NAME" {
            command.env_remove(&name);
        }
    }
    command
}

/// `DUES_CACHE` if it is set; in CI, a folder below the home folder, if it can be created; else none.
fn cache_folder(
    named: Option<OsString>,
    ci: Option<OsString>,
    home: Option<OsString>,
    can_be_made: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    if let Some(named) = named.filter(|name| !name.is_empty()) {
        return Some(std::path::absolute(&named).unwrap_or_else(|_| PathBuf::from(&named)));
    }
    if ci.is_none_or(|value| value != "true") {
        return None;
    }
    let folder = PathBuf::from(home.filter(|home| !home.is_empty())?).join(".cache/dues-ci");
    can_be_made(&folder).then_some(folder)
}

fn path_in(metadata: &Value, field: &str) -> Result<PathBuf> {
    metadata[field]
        .as_str()
        .map(PathBuf::from)
        .ok_or_else(|| Failure::new(format!("cargo metadata has no {field}")))
}

/// The bytes below a folder; unreadable entries count as nothing.
fn folder_size(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => folder_size(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(text: &str) -> Option<OsString> {
        Some(OsString::from(text))
    }

    #[test]
    fn the_named_cache_wins() {
        let found = cache_folder(some("/cache"), some("true"), some("/h"), |_| true);
        assert_eq!(found, Some(PathBuf::from("/cache")));
    }

    #[test]
    fn ci_uses_a_folder_of_the_home_folder_when_it_can_be_made() {
        let ci = |can: bool| cache_folder(None, some("true"), some("/h"), |_| can);
        assert_eq!(ci(true), Some(PathBuf::from("/h/.cache/dues-ci")));
        assert_eq!(ci(false), None);
        assert_eq!(cache_folder(None, some("true"), None, |_| true), None);
    }

    #[test]
    fn a_person_at_a_desk_gets_the_ordinary_target_folder() {
        assert_eq!(cache_folder(None, None, some("/h"), |_| true), None);
        assert_eq!(cache_folder(some(""), some("false"), some("/h"), |_| true), None);
    }
}
