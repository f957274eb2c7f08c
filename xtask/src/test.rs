//! The steps of `cargo xtask test`, `test quick` and `check`, in order.

use std::process::Command;

use crate::ministack::Ministack;
use crate::step::{Result, heading, run, step, works};
use crate::workspace::Workspace;
use crate::{browser, hygiene, package, python, repository};

/// Binaries of `dues-tests` that run on the model and the embedded engine.
const QUICK_BINARIES: [&str; 8] =
    ["store", "billing", "collections", "entitlements", "usage", "figureforge", "serenya", "operators"];

/// Excludes tests that need ministack, DynamoDB or Stripe's Python library.
const QUICK_FILTER: &str = "not (test(ministack) or test(dynamo) or test(cognito) or test(groups::) or \
    test(webhook::) or test(signatures::))";

/// Format, lints, documentation, dependencies, tracked files. Installs nothing.
pub fn check(workspace: &Workspace) -> Result<()> {
    step("format", || run(&mut workspace.cargo(&["fmt", "--all", "--check"])))?;
    step("lints", || {
        let lint = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
        run(&mut workspace.cargo(&lint))
    })?;
    step("documentation", || {
        let document = ["doc", "--workspace", "--no-deps", "--locked", "--quiet"];
        run(workspace.cargo(&document).env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    step("dependencies", || hygiene::check(workspace))?;
    step("tracked files", || repository::check(workspace))
}

/// The fast loop: unit tests, and the tests on the model and the embedded engine. Installs nothing, starts
/// no server, builds no release.
pub fn quick(workspace: &Workspace, args: &[String]) -> Result<()> {
    let units = ["dues-events", "dues-projections", "dues-store", "dues-processors", "xtask"];
    let units = units.iter().flat_map(|name| ["--package", name]);
    heading("quick tests");
    if !works(&mut workspace.cargo(&["nextest", "--version"])) {
        return run(workspace.cargo(&["test", "--locked", "--lib"]).args(units).args(args));
    }
    let binaries = QUICK_BINARIES.iter().flat_map(|name| ["--test", name]);
    let mut command = workspace.cargo(&["nextest", "run", "--locked", "--no-fail-fast", "--lib"]);
    run(command
        .args(units)
        .args(["--package", "dues-tests"])
        .args(binaries)
        .args(["-E", QUICK_FILTER])
        .args(args))
}

/// Everything. On success the last thing printed is the test runner's own summary.
pub fn test(workspace: &Workspace, args: &[String]) -> Result<()> {
    workspace.trim()?;
    check(workspace)?;
    let python = step("install what the tests need", || {
        python::install(&workspace.target, &workspace.root.join("tests/requirements.txt"))
    })?;
    step("install a browser", || {
        browser::install(&workspace.target, &workspace.root.join("tests/browser/package.json"))
    })?;
    let ministack = step("start ministack", || {
        let log = workspace.target.join("ministack.log");
        // Replace the log of the last run.
        let _ = std::fs::remove_file(&log);
        let ministack = Ministack::start(&python, &log)?;
        println!("{}, logging to {}", ministack.endpoint(), log.display());
        Ok(ministack)
    })?;
    step("build the program", || {
        run(&mut workspace.cargo(&["build", "--release", "--locked", "--package", "dues"]))
    })?;
    let artifact = step("package bootstrap", || package::native(workspace))?;
    let environment = [("DUES_BOOTSTRAP", artifact.as_os_str())];
    step("documentation tests", || {
        run(for_tests(workspace, &ministack, &["test", "--doc", "--workspace", "--locked"]).arg("--quiet"))
    })?;

    heading("tests");
    let runner: &[&str] = if works(&mut workspace.cargo(&["nextest", "--version"])) {
        &["nextest", "run", "--workspace", "--locked", "--no-fail-fast"]
    } else {
        // The documentation tests have run already.
        &["test", "--workspace", "--locked", "--no-fail-fast", "--lib", "--bins", "--tests"]
    };
    run(for_tests(workspace, &ministack, runner).envs(environment).args(args))
}

/// A cargo command with the addresses of ministack and the program in its environment.
fn for_tests(workspace: &Workspace, ministack: &Ministack, args: &[&str]) -> Command {
    let program = format!("release/dues{}", std::env::consts::EXE_SUFFIX);
    let mut command = workspace.cargo(args);
    command.env("DUES_TEST_AWS", ministack.endpoint()).env("DUES_BIN", workspace.target.join(program));
    command
}
