//! Links and paths in the documents resolve.

use std::path::Path;

use crate::pages::{Page, code_spans, files, prose, root};

/// The first folders of the repository's paths.
const FOLDERS: [&str; 9] =
    ["cli/", "docs/", "events/", "infra/", "processors/", "projections/", "store/", "tests/", "xtask/"];

#[test]
fn relative_links_lead_to_files_and_headings() {
    let mut broken = Vec::new();
    for page in files("md") {
        for (line, text) in prose(&page.text) {
            for target in targets(text) {
                if let Some(problem) = problem(&page, target) {
                    broken.push(format!("{}:{line}: {target} {problem}", page.path.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn paths_between_backticks_exist() {
    let mut missing = Vec::new();
    for page in files("md") {
        for (line, text) in prose(&page.text) {
            for path in code_spans(text).filter(|span| is_path(span)).flat_map(expand) {
                if !root().join(&path).exists() {
                    missing.push(format!("{}:{line}: {path}", page.path.display()));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// The link targets of a line: the text between `](` and `)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

fn problem(page: &Page, target: &str) -> Option<&'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() {
        root().join(&page.path)
    } else {
        root().join(page.path.parent().unwrap_or(Path::new(""))).join(file)
    };
    if !path.exists() {
        return Some("does not exist");
    }
    if anchor.is_empty() {
        return None;
    }
    let text = std::fs::read_to_string(path).ok()?;
    let found = prose(&text).any(|(_, line)| line.starts_with('#') && slug(line) == anchor);
    (!found).then_some("has no such heading")
}

/// The anchor that GitHub gives a heading.
fn slug(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Whether a code span is a path of this repository, and not a command or a pattern.
fn is_path(span: &str) -> bool {
    FOLDERS.iter().any(|folder| span.starts_with(folder))
        && span.chars().all(|c| c.is_ascii_alphanumeric() || "/._-{},".contains(c))
}

/// Expands `a/{b,c}.rs` into its two paths.
fn expand(path: &str) -> Vec<String> {
    match path.split_once('{').and_then(|(start, rest)| Some((start, rest.split_once('}')?))) {
        Some((start, (names, end))) => names.split(',').map(|name| format!("{start}{name}{end}")).collect(),
        None => vec![path.to_owned()],
    }
}

#[test]
fn headings_have_the_anchors_of_github() {
    assert_eq!(slug("## `subscriptions` (published)"), "subscriptions-published");
    assert_eq!(expand("a/{b,c}.rs"), ["a/b.rs", "a/c.rs"]);
    assert!(is_path("cli/src/main.rs") && !is_path("cli/…") && !is_path("dues show"));
}
