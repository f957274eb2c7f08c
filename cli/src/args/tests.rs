//! Every command has examples in its help, and every example is a command line that the program accepts.

use clap::{ArgMatches, Command, CommandFactory as _};

use super::Args;

/// All subcommands below this command, each with its path.
fn subcommands(command: &Command, path: &[String]) -> Vec<(Vec<String>, Command)> {
    let mut all = Vec::new();
    for command in command.get_subcommands() {
        let path = [path, &[command.get_name().to_owned()]].concat();
        all.extend(subcommands(command, &path));
        all.push((path, command.clone()));
    }
    all
}

fn after_help(command: &Command) -> String {
    command.get_after_help().map(ToString::to_string).unwrap_or_default()
}

/// The command lines of the `Examples:` block, without their remarks and shell redirections.
fn examples(help: &str) -> Vec<&str> {
    let block = help.split("\n\n").find_map(|block| block.strip_prefix("Examples:\n")).unwrap_or_default();
    let lines = block.lines().map(str::trim).filter(|line| line.starts_with("dues "));
    lines
        .map(|line| {
            ["  ", " | ", " > ", " < "]
                .iter()
                .fold(line, |line, cut| line.split_once(cut).map_or(line, |(line, _)| line))
        })
        .collect()
}

/// The subcommand path of a parsed command line.
fn path_of(matches: &ArgMatches) -> Vec<String> {
    let mut path = Vec::new();
    let mut next = matches.subcommand();
    while let Some((name, matches)) = next {
        path.push(name.to_owned());
        next = matches.subcommand();
    }
    path
}

#[test]
fn every_command_has_examples_that_parse() {
    let root = Args::command();
    let mut all = subcommands(&root, &[]);
    assert!(all.len() > 30, "{}", all.len());
    all.push((Vec::new(), root));
    for (path, command) in all {
        let help = after_help(&command);
        let examples = examples(&help);
        let is_own = |example: &&str| match Args::command().try_get_matches_from(example.split(' ')) {
            Ok(matches) => path_of(&matches).starts_with(&path),
            Err(error) => panic!("{example:?}, an example of {path:?}: {error}"),
        };
        // Parse all of them, also when the first one already counts.
        let own = examples.iter().filter(|example| is_own(example)).count();
        assert!(own > 0, "{path:?} has no example of its own: {help:?}");
    }
}

#[test]
fn examples_are_cut_at_remarks_and_redirections() {
    let help = "Examples:\n  dues audit    fold\n  dues export - | gzip > a.gz\n  cat a | dues audit\n\n\
                More:\n  dues nonsense";
    assert_eq!(examples(help), ["dues audit", "dues export -"]);
    assert!(Args::command().try_get_matches_from(["dues", "audit", "--deep"]).is_err());
}

#[test]
fn the_command_line_is_well_formed() {
    Args::command().debug_assert();
}
