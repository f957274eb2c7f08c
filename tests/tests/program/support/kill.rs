//! The program, killed at its n-th sync or write. `tests/kill/kill_at.c` counts inside the process.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

use super::run::Dues;

/// A killed run's locks are taken over after a second.
pub(crate) const LEASE: (&str, &str) = ("DUES_LOCK_LEASE_SECONDS", "1");
const SIGKILL: i32 = 9;
/// More points than this are sampled.
const MAX_POINTS: u64 = 40;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    /// `fsync` and `fdatasync`: the store between two commits.
    Syncs,
    /// `pwrite`: also half-written commits.
    Writes,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Killed,
    /// By itself: with its exit code.
    Exited(i32),
}

/// Runs a command and kills it at its n-th call; 0 lets it live. Returns its end, and the calls of a run that
/// was not killed.
pub(crate) fn run_killed(dues: &Dues, args: &[&str], on: Counted, n: u64) -> (Ended, u64) {
    let count = dues.beside("calls");
    let mut command = dues.command(args);
    command
        .env("LD_PRELOAD", library())
        .env("KILL_ON", if on == Counted::Syncs { "sync" } else { "write" })
        .env("KILL_AT", n.to_string())
        .env("KILL_COUNT", &count)
        .env(LEASE.0, LEASE.1);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    match status.code() {
        Some(code) => {
            let calls = std::fs::read_to_string(count).expect("the library was loaded").parse().unwrap();
            (Ended::Exited(code), calls)
        }
        None => {
            assert_eq!(status.signal(), Some(SIGKILL), "{args:?}");
            (Ended::Killed, 0)
        }
    }
}

/// The points at which to kill a program that makes so many calls: all, or a sample with every one at the
/// beginning and at the end.
pub(crate) fn points(calls: u64) -> Vec<u64> {
    if calls <= MAX_POINTS {
        return (1..=calls).collect();
    }
    let ends = (1..=MAX_POINTS / 4).chain(calls - MAX_POINTS / 4 + 1..=calls);
    let between = (1..MAX_POINTS / 2).map(|n| calls * n / (MAX_POINTS / 2));
    ends.chain(between).collect::<BTreeSet<u64>>().into_iter().collect()
}

/// The library, compiled once for each test process.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    &LIBRARY
        .get_or_init(|| {
            let folder = TempDir::new().unwrap();
            let library = folder.path().join("kill_at.so");
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kill/kill_at.c");
            let compiled = Command::new("cc")
                .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
                .args([&library, &source])
                .status()
                .expect("a C compiler named cc");
            assert!(compiled.success(), "{} does not compile", source.display());
            (folder, library)
        })
        .1
}
