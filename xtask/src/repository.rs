//! Rejects tracked files that contain a path of this machine, the host of a registry, or a real key, and
//! wording or width that [`prose`] rejects.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use crate::prose;
use crate::step::{Doing, Failure, Result, output};
use crate::workspace::Workspace;

/// Registry hosts. Each is in two halves, so that this file does not contain what it looks for.
const HOSTS: &[(&str, &str)] = &[
    ("index.crates", ".io"),
    ("static.crates", ".io"),
    ("pypi.", "org"),
    ("files.python", "hosted.org"),
    ("registry.npm", "js.org"),
    ("registry.yarn", "pkg.com"),
    ("deb.", "debian.org"),
    ("archive.", "ubuntu.com"),
];

/// Folders that belong to a person or a machine, in two halves likewise; a name must follow.
const HOMES: &[(&str, &str)] = &[("/ro", "ot/"), ("/ho", "me/"), ("/Us", "ers/")];

/// What an access key id starts with (long-lived, temporary), in two halves; 16 capitals or digits follow.
const KEYS: &[(&str, &str)] = &[("AK", "IA"), ("AS", "IA")];

/// Checks every tracked file.
pub fn check(workspace: &Workspace) -> Result<()> {
    let listed = output(Command::new("git").current_dir(&workspace.root).args(["ls-files", "-z"]))?;
    let here = workspace.root.to_string_lossy().into_owned();
    let (mut found, mut worded) = (Vec::new(), Vec::new());
    let mut looked_at = 0_usize;
    for name in listed.split('\0').filter(|name| !name.is_empty()) {
        let bytes = match read(&workspace.root.join(name))? {
            Some(bytes) => bytes,
            None => continue,
        };
        looked_at += 1;
        let text = String::from_utf8_lossy(&bytes);
        worded.extend(prose::problems(name, &text));
        for (number, line) in text.lines().enumerate() {
            if let Some(what) = problem(line, &here) {
                found.push(format!("{name}:{}: {what}", number + 1));
            }
        }
    }
    Failure::unless_none("tracked files with something of a machine in them", &found)?;
    Failure::unless_none("tracked files with retired words or wide lines", &worded)?;
    println!(
        "{looked_at} tracked files: no machine's path, registry host or key, no retired word, no wide line"
    );
    Ok(())
}

/// A tracked file that was just deleted, or a link to a folder, has nothing to read.
fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) => Ok(None),
        Err(error) => Err(error).doing(format!("read {}", path.display())),
    }
}

/// What is wrong with a line, without repeating a key.
fn problem(line: &str, here: &str) -> Option<&'static str> {
    let joined = |halves: &(&str, &str)| format!("{}{}", halves.0, halves.1);
    // A root such as `/app` is too short to distinguish from an ordinary word.
    let names_here = here.matches('/').count() > 1 && line.contains(here);
    if names_here || HOMES.iter().any(|home| names_a_folder(line, &joined(home))) {
        Some("an absolute path of a machine")
    } else if HOSTS.iter().any(|host| line.contains(&joined(host))) {
        Some("a registry's host")
    } else if KEYS.iter().any(|start| has_key(line, &joined(start))) {
        Some("what looks like an AWS access key id")
    } else {
        None
    }
}

/// A home folder followed by a name is a person's folder; one without, or inside a web address, is not.
fn names_a_folder(line: &str, home: &str) -> bool {
    line.match_indices(home).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + home.len()..].chars().next();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '.' || c == '}')
            && after.is_some_and(|c| c.is_alphanumeric() || c == '.' || c == '_')
    })
}

/// AWS's own documentation uses ids that end in EXAMPLE; those are allowed.
fn has_key(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        let fits = |c: &char| c.is_ascii_uppercase() || c.is_ascii_digit();
        let rest: String = line[at + start.len()..].chars().take_while(fits).collect();
        let inside_a_word = line[..at].chars().next_back().is_some_and(|c| c.is_ascii_alphanumeric());
        rest.len() == 16 && !rest.ends_with("EXAMPLE") && !inside_a_word
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_what_is_wrong_with_them() {
        let path = Some("an absolute path of a machine");
        let key = Some("what looks like an AWS access key id");
        let table: &[(&[&str], Option<&str>)] = &[
            (&["let x = \"/ro", "ot/.cargo/bin\";"], path),
            (&["see /ho", "me/ada/dues"], path),
            (&["see /ho", "me/ and nothing more"], None),
            (&["https://example.com/ho", "me/page"], None),
            (&["built in /some/where/", "dues/target"], path),
            (&["index = \"https://pypi.", "org/simple\""], Some("a registry's host")),
            (&["registry+https://github.com/rust-lang/crates.io-index"], None),
            (&["id: AK", "IA0123456789ABCDEF"], key),
            (&["id: AK", "IAIOSFODNN7EXAMPLE"], None),
            (&["id: AK", "IA0123"], None),
            (&["TWAK", "IA0123456789ABCDEF"], None),
            (&["plain text"], None),
        ];
        for (parts, expected) in table {
            assert_eq!(problem(&parts.concat(), "/some/where/dues"), *expected, "{parts:?}");
        }
    }

    #[test]
    fn this_file_passes_its_own_check() {
        for line in include_str!("repository.rs").lines() {
            assert_eq!(problem(line, concat!("/some/where/", "else")), None, "{line}");
        }
    }

    #[test]
    fn the_tracked_files_of_this_workspace_pass() {
        check(&Workspace::find().unwrap()).unwrap();
    }
}
