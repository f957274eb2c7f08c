//! `cargo xtask …`: see [`USAGE`].

use std::process::ExitCode;

use xtask::{bench, package, test, workspace::Workspace};

const USAGE: &str = "\
cargo xtask test quick       the fast loop: pure crates, model and embedded engine; installs nothing
cargo xtask test [-- ARGS]   all checks and tests, installing what they need; ARGS go to the runner
cargo xtask check            format, lints, documentation, dependencies, tracked files; installs nothing
cargo xtask package          build the Lambda artifact, target/lambda/bootstrap.zip
cargo xtask bench lambda     measure cold start and size of the Lambda artifact

DUES_CACHE=DIR               directory for build artefacts and the Python environment";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let command = args.next();
    let rest: Vec<String> = args.skip_while(|arg| arg == "--").collect();
    let outcome = match command.as_deref() {
        Some("test") if rest.first().is_some_and(|arg| arg == "quick") => {
            Workspace::find().and_then(|workspace| test::quick(&workspace, &rest[1..]))
        }
        Some("test") => Workspace::find().and_then(|workspace| test::test(&workspace, &rest)),
        Some("check") => Workspace::find().and_then(|workspace| test::check(&workspace)),
        Some("package") => Workspace::find().and_then(|workspace| package::package(&workspace)),
        Some("bench") if rest == ["lambda"] => {
            Workspace::find().and_then(|workspace| bench::lambda(&workspace))
        }
        Some("help" | "--help" | "-h") => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        None | Some(_) => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("\nxtask: {failure}");
            ExitCode::FAILURE
        }
    }
}
