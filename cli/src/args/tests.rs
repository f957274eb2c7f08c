//! Help teaches, and what it teaches is true: every command has examples, and every example is a command line that the program takes.

use clap::{ArgMatches, Command, CommandFactory as _};

use super::Args;

/// All commands below this one, each with the names that lead to it.
fn below(command: &Command, way: &[String]) -> Vec<(Vec<String>, Command)> {
    let mut all = Vec::new();
    for command in command.get_subcommands() {
        let way = [way, &[command.get_name().to_owned()]].concat();
        all.extend(below(command, &way));
        all.push((way, command.clone()));
    }
    all
}

/// What stands behind the options of a command's help.
fn end(command: &Command) -> String {
    command.get_after_help().map(ToString::to_string).unwrap_or_default()
}

/// The command lines among the examples: without the remark behind them, and without what is the shell's.
fn examples(help: &str) -> Vec<&str> {
    let block = help.split("\n\n").find_map(|block| block.strip_prefix("Examples:\n")).unwrap_or_default();
    let lines = block.lines().map(str::trim).filter(|line| line.starts_with("dues "));
    lines
        .map(|line| ["  ", " | ", " > ", " < "].iter().fold(line, |line, cut| line.split_once(cut).map_or(line, |(line, _)| line)))
        .collect()
}

/// The names of the commands that a command line leads to.
fn led_to(matches: &ArgMatches) -> Vec<String> {
    let mut way = Vec::new();
    let mut at = matches.subcommand();
    while let Some((name, matches)) = at {
        way.push(name.to_owned());
        at = matches.subcommand();
    }
    way
}

#[test]
fn every_command_has_examples_that_the_program_takes() {
    let root = Args::command();
    let mut all = below(&root, &[]);
    assert!(all.len() > 30, "{}", all.len());
    all.push((Vec::new(), root));
    for (way, command) in all {
        let help = end(&command);
        let examples = examples(&help);
        let leads = |example: &&str| match Args::command().try_get_matches_from(example.split(' ')) {
            Ok(matches) => led_to(&matches).starts_with(&way),
            Err(why) => panic!("{example:?}, an example of {way:?}: {why}"),
        };
        // All of them are tried, also when the first is one.
        let own = examples.iter().filter(|example| leads(example)).count();
        assert!(own > 0, "{way:?} has no example of its own: {help:?}");
    }
}

#[test]
fn what_is_not_a_command_line_is_found() {
    let help = "Examples:\n  dues audit    fold\n  dues export - | gzip > a.gz\n  cat a | dues audit\n\nMore:\n  dues nonsense";
    assert_eq!(examples(help), ["dues audit", "dues export -"]);
    assert!(Args::command().try_get_matches_from(["dues", "audit", "--deep"]).is_err());
}

#[test]
fn the_command_line_is_well_formed() {
    Args::command().debug_assert();
}
