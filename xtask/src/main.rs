//! `cargo xtask …`: see [`USAGE`].

use std::process::ExitCode;

use xtask::{bench, package, test, workspace::Workspace};

const USAGE: &str = "\
cargo xtask test [-- ARGS]   format, lints, hygiene, then every test; ARGS go to the test runner
cargo xtask check            only what needs no installing: format, lints, hygiene
cargo xtask package          the Lambda artifact, as target/lambda/bootstrap.zip
cargo xtask bench lambda     how fast that starts, and how large it is

DUES_CACHE=FOLDER            keep build artefacts and the Python environment there";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let command = args.next();
    let rest: Vec<String> = args.skip_while(|arg| arg == "--").collect();
    let outcome = match command.as_deref() {
        Some("test") => Workspace::find().and_then(|workspace| test::test(&workspace, &rest)),
        Some("check") => Workspace::find().and_then(|workspace| test::check(&workspace)),
        Some("package") => Workspace::find().and_then(|workspace| package::package(&workspace)),
        Some("bench") if rest == ["lambda"] => Workspace::find().and_then(|workspace| bench::lambda(&workspace)),
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
