//! The README's example is what the program prints. `DUES_BLESS=1` writes it into the README.

use std::process::Command;
use tempfile::TempDir;

use crate::pages::{page, root};

/// The command at the end of the example.
const COMMAND: &str = "dues explain u-1 --at 2026-02-10\n```\n\n```text\n";

/// Needs the program: `cargo xtask test` builds it and names it in `DUES_BIN`. Without it the test has
/// nothing to compare with: the quick loop builds no program.
#[test]
fn the_example_is_what_the_program_prints() {
    let Some(program) = std::env::var_os("DUES_BIN") else { return };
    let folder = TempDir::new().unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(&program);
        command.arg("--data").arg(folder.path()).args(args).current_dir(root()).env_remove("DUES_TIERS");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let members = ["ingest", "--stream", "memberships", "docs/example/members.ndjson"];
    let payments = ["ingest", "--stream", "site-payments", "docs/example/payments.ndjson"];
    run(&members);
    run(&payments);
    let printed = run(&["explain", "u-1", "--at", "2026-02-10"]);

    let readme = page("README.md");
    let start = readme.find(COMMAND).expect("the README has the example") + COMMAND.len();
    let end = start + readme[start..].find("\n```").expect("the example ends") + 1;
    if std::env::var_os("DUES_BLESS").is_some() {
        let blessed = format!("{}{}\n{}", &readme[..start], printed.trim_end(), &readme[end..]);
        std::fs::write(root().join("README.md"), blessed).unwrap();
    } else {
        assert_eq!(readme[start..end].trim_end(), printed.trim_end(), "DUES_BLESS=1 updates the README");
    }
    for again in [&members, &payments] {
        let counts = run(&[&again[..], &["--json"]].concat());
        assert!(counts.contains("\"applied\":0"), "{counts}");
    }
}
