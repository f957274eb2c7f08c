//! Reads the documents and the sources.

use std::path::{Path, PathBuf};

/// Folders without documents or sources of this repository.
const SKIPPED: [&str; 4] = ["target", "node_modules", ".git", ".venv"];

/// The repository's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a folder of the workspace")
}

pub(crate) struct Page {
    /// Relative to the root.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// Every file of the repository with that extension.
pub(crate) fn files(extension: &str) -> Vec<Page> {
    let mut pages = Vec::new();
    collect(root(), extension, &mut pages);
    assert!(!pages.is_empty(), "no .{extension} file below {}", root().display());
    pages
}

pub(crate) fn page(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn collect(folder: &Path, extension: &str, pages: &mut Vec<Page>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !SKIPPED.contains(&name.as_str()) {
            collect(&path, extension, pages);
        } else if path.extension().is_some_and(|found| found == extension) {
            let text = std::fs::read_to_string(&path).unwrap();
            pages.push(Page { path: path.strip_prefix(root()).unwrap().to_owned(), text });
        }
    }
}

/// The lines of a page outside fenced blocks, numbered from 1.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(n, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then_some((n + 1, line))
    })
}

/// The code spans of a line, without their backticks.
pub(crate) fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}
