//! The code and tests that `docs/spec` names, and the variables that the program reads.

use std::collections::BTreeSet;

use crate::pages::{code_spans, files, page, prose, root};

/// The keywords that declare a name.
const DECLARES: [&str; 8] = ["fn", "struct", "enum", "trait", "const", "static", "mod", "type"];

/// Every name that the sources declare.
fn declared() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for source in files("rs") {
        let words = source.text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty());
        let mut before = "";
        for word in words {
            if DECLARES.contains(&before) {
                names.insert(word.to_owned());
            }
            before = word;
        }
    }
    names
}

/// The cells of a table row.
fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

#[test]
fn code_and_tests_that_the_specification_names_exist() {
    let declared = declared();
    let mut missing = Vec::new();
    for spec in files("md").into_iter().filter(|page| page.path.starts_with("docs/spec")) {
        let mut columns: Vec<usize> = Vec::new();
        for (line, text) in prose(&spec.text) {
            if !text.starts_with('|') {
                columns.clear();
                continue;
            }
            let cells = cells(text);
            if columns.is_empty() {
                let named = |cell: &&str| ["code", "test", "tests"].contains(cell);
                columns = (0..cells.len()).filter(|n| named(&cells[*n])).collect();
                continue;
            }
            for span in columns.iter().filter_map(|n| cells.get(*n)).flat_map(|cell| code_spans(cell)) {
                let name = span.rsplit("::").next().unwrap_or(span);
                if !span.contains('/') && !span.contains('.') && !declared.contains(name) {
                    missing.push(format!("{}:{line}: {span}", spec.path.display()));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn every_environment_variable_is_documented() {
    let documented = page("docs/configuration.md");
    let mut missing = BTreeSet::new();
    for source in files("rs") {
        let path = source.path.to_string_lossy();
        if path.starts_with("tests") || path.starts_with("xtask") || path.contains("/tests/") {
            continue;
        }
        // Variable names are string literals; a constant with such a name is not a variable.
        for word in source.text.split('"').filter(|word| is_variable(word)) {
            if !documented.contains(&format!("`{word}`")) {
                missing.insert(format!("{path}: {word}"));
            }
        }
    }
    assert!(missing.is_empty(), "not in docs/configuration.md:\n{missing:#?}");
}

fn is_variable(word: &str) -> bool {
    let rest = word.strip_prefix("DUES_").unwrap_or_default();
    !rest.is_empty() && rest.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

#[test]
fn the_specification_has_a_page_for_each_system() {
    for system in ["gg_core", "billing-activity", "usage", "figureforge", "serenya"] {
        assert!(root().join("docs/spec").join(system).with_extension("md").exists(), "{system}");
    }
}
