//! `cargo xtask test` and `cargo xtask check`: the steps, in order.

use std::process::Command;

use crate::ministack::Ministack;
use crate::step::{Result, heading, run, step, works};
use crate::workspace::Workspace;
use crate::{browser, hygiene, package, python, repository};

/// What needs no installing: format, lints, dependencies, tracked files.
pub fn check(workspace: &Workspace) -> Result<()> {
    step("format", || run(&mut workspace.cargo(&["fmt", "--all", "--check"])))?;
    step("lints", || {
        let lint = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
        run(&mut workspace.cargo(&lint))
    })?;
    step("dependencies", || hygiene::check(workspace))?;
    step("tracked files", || repository::check(workspace))
}

/// Everything. On success the last thing printed is the test runner's own summary.
pub fn test(workspace: &Workspace, args: &[String]) -> Result<()> {
    workspace.trim()?;
    check(workspace)?;
    let python =
        step("install what the tests need", || python::install(&workspace.target, &workspace.root.join("tests/requirements.txt")))?;
    step("install a browser", || browser::install(&workspace.target, &workspace.root.join("tests/browser/package.json")))?;
    let ministack = step("start ministack", || {
        let log = workspace.target.join("ministack.log");
        // The last run's log has had its day.
        let _ = std::fs::remove_file(&log);
        let ministack = Ministack::start(&python, &log)?;
        println!("{}, logging to {}", ministack.endpoint(), log.display());
        Ok(ministack)
    })?;
    step("build the program", || run(&mut workspace.cargo(&["build", "--release", "--locked", "--package", "dues"])))?;
    let artifact = step("package bootstrap", || package::native(workspace))?;
    let environment = [("DUES_BOOTSTRAP", artifact.as_os_str())];
    step("documentation tests", || run(for_tests(workspace, &ministack, &["test", "--doc", "--workspace", "--locked"]).arg("--quiet")))?;

    heading("tests");
    let runner: &[&str] = if works(&mut workspace.cargo(&["nextest", "--version"])) {
        &["nextest", "run", "--workspace", "--locked", "--no-fail-fast"]
    } else {
        // The documentation tests have run already.
        &["test", "--workspace", "--locked", "--no-fail-fast", "--lib", "--bins", "--tests"]
    };
    run(for_tests(workspace, &ministack, runner).envs(environment).args(args))
}

/// A cargo command that tells the tests where ministack and the real program are.
fn for_tests(workspace: &Workspace, ministack: &Ministack, args: &[&str]) -> Command {
    let program = format!("release/dues{}", std::env::consts::EXE_SUFFIX);
    let mut command = workspace.cargo(args);
    command.env("DUES_TEST_AWS", ministack.endpoint()).env("DUES_BIN", workspace.target.join(program));
    command
}
