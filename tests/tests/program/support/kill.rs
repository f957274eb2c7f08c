//! The program, killed at its n-th sync or write. `tests/kill/kill_at.c` counts inside the process.

use dues_store::embedded::Embedded;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

use super::run::Dues;
use super::server::{TIMEOUT, head};

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
    let status = command(dues, args, on, n).stdout(Stdio::null()).status().unwrap();
    match status.code() {
        Some(code) => (Ended::Exited(code), calls(dues)),
        None => {
            assert_eq!(status.signal(), Some(SIGKILL), "{args:?}");
            (Ended::Killed, 0)
        }
    }
}

/// The program with the library that counts.
fn command(dues: &Dues, args: &[&str], on: Counted, n: u64) -> Command {
    let mut command = dues.command(args);
    command
        .env("LD_PRELOAD", library())
        .env("KILL_ON", if on == Counted::Syncs { "sync" } else { "write" })
        .env("KILL_AT", n.to_string())
        .env("KILL_COUNT", dues.beside("calls"))
        .env(LEASE.0, LEASE.1)
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// The calls of a run that was not killed.
fn calls(dues: &Dues) -> u64 {
    std::fs::read_to_string(dues.beside("calls")).expect("the library was loaded").parse().unwrap()
}

/// `dues serve`, killed at its n-th sync. Errors say that it has ended.
pub(crate) struct KilledServer {
    child: Child,
    address: String,
    /// To see how far it is.
    engine: Embedded,
}

impl KilledServer {
    /// Starts a server without jobs; 0 lets it live.
    pub(crate) fn start(dues: &Dues, n: u64) -> Result<Self, String> {
        let args = ["serve", "--port", "0", "--schedule", "off"];
        let mut child = command(dues, &args, Counted::Syncs, n).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        match line.trim_end().strip_prefix("listening on http://") {
            Some(address) => {
                let engine = Embedded::open(&dues.data().join("dues.db")).unwrap();
                Ok(Self { child, address: address.to_owned(), engine })
            }
            None => Err(format!("it did not start: {}", child.wait().unwrap())),
        }
    }

    /// Posts a body; it has to be accepted.
    pub(crate) fn post(&self, path: &str, body: &str) -> Result<(), String> {
        let exchange = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(&self.address)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.write_all(head("POST", path, &[], body.len()).as_bytes())?;
            stream.write_all(body.as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        match exchange() {
            Ok(answer) if answer.starts_with("HTTP/1.1 202 ") => Ok(()),
            Ok(answer) if answer.is_empty() => Err("no answer".to_owned()),
            Ok(answer) => panic!("{path} {body}: {answer}"),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Waits until the stream's handler has processed all records.
    pub(crate) fn wait_until_processed(&mut self, stream: &str) -> Result<(), String> {
        let deadline = Instant::now() + TIMEOUT;
        while self.engine.checkpoint(stream, stream).unwrap() < self.engine.last_record(stream).unwrap() {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Err(status.to_string());
            }
            assert!(Instant::now() < deadline, "the stream is not processed");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Stops it as an operator does. Returns its calls.
    pub(crate) fn stop(mut self, dues: &Dues) -> Result<u64, String> {
        // Fails only when the process is gone already.
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        match self.child.wait().unwrap() {
            status if status.success() => Ok(calls(dues)),
            status => Err(status.to_string()),
        }
    }
}

impl Drop for KilledServer {
    fn drop(&mut self) {
        // Both fail only when the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
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
