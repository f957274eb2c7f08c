//! A step: a heading, something that may fail, and how long it took.

use std::fmt;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Why a step failed: one sentence, or one line per finding.
#[derive(Debug)]
pub struct Failure(String);

/// Result of a task.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure with this message.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }

    /// All findings of a check, one per line; `Ok` if there are none.
    pub fn unless_none(what: &str, found: &[String]) -> Result<()> {
        if found.is_empty() { Ok(()) } else { Err(Self(format!("{what}:\n  {}", found.join("\n  ")))) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// Adds what this layer was doing to an error from below.
pub trait Doing<T> {
    /// `what` reads as in "could not `what`: …".
    fn doing(self, what: impl fmt::Display) -> Result<T>;
}

impl<T, E: fmt::Display> Doing<T> for std::result::Result<T, E> {
    fn doing(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|cause| Failure(format!("could not {what}: {cause}")))
    }
}

/// Prints the heading of a step.
pub fn heading(name: &str) {
    println!("\n=== {name}");
}

/// Runs a step under its heading and prints how long it took.
pub fn step<T>(name: &str, body: impl FnOnce() -> Result<T>) -> Result<T> {
    heading(name);
    let started = Instant::now();
    let outcome = body();
    let word = if outcome.is_ok() { "done" } else { "FAILED" };
    println!("--- {name}: {word} in {:.1?}", started.elapsed());
    outcome
}

/// Runs a command that shares our output; a non-zero exit is a failure.
pub fn run(command: &mut Command) -> Result<()> {
    let line = command_line(command);
    let status = command.stdin(Stdio::null()).status().doing(format!("run {line}"))?;
    if status.success() { Ok(()) } else { Err(Failure(format!("{line}: {status}"))) }
}

/// Runs a command and returns its standard output; its standard error goes to ours.
pub fn output(command: &mut Command) -> Result<String> {
    let line = command_line(command);
    let output =
        command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().doing(format!("run {line}"))?;
    if !output.status.success() {
        return Err(Failure(format!("{line}: {}", output.status)));
    }
    String::from_utf8(output.stdout).doing(format!("read what {line} printed"))
}

/// Whether a command runs successfully: detects what is installed.
pub fn works(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The command as a person would type it, without the folder it was found in.
fn command_line(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
    let args = command.get_args().map(|arg| arg.to_string_lossy());
    std::iter::once(name).chain(args).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_is_named_with_its_exit() {
        let failure = run(Command::new("sh").args(["-c", "exit 3"])).unwrap_err();
        assert_eq!(failure.to_string(), "sh -c exit 3: exit status: 3");
    }

    #[test]
    fn a_missing_command_is_a_failure_not_a_panic() {
        assert!(!works(&mut Command::new("no-such-program-anywhere")));
        assert!(run(&mut Command::new("no-such-program-anywhere")).is_err());
    }

    #[test]
    fn findings_are_listed_one_to_a_line() {
        assert!(Failure::unless_none("bad", &[]).is_ok());
        let failure = Failure::unless_none("bad", &["a".into(), "b".into()]).unwrap_err();
        assert_eq!(failure.to_string(), "bad:\n  a\n  b");
    }
}
