//! What the program prints: tables for people, JSON for programs, errors on standard error.

use comfy_table::{ContentArrangement, Table, presets};
use dues_events::attr;
use dues_events::record::Record;
use dues_store::embedded::Embedded;
use dues_store::{Store, StoreError, SystemClock};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Said(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{doing}: {cause}")]
    Io { doing: String, cause: std::io::Error },
    #[error(transparent)]
    Bare(#[from] std::io::Error),
}

/// Tells of a failure, and gives the exit code.
pub(crate) fn failed(error: &Error) -> ExitCode {
    // A reader that went away (`dues … | head`) is not worth a message.
    if let Error::Bare(cause) = error
        && cause.kind() == std::io::ErrorKind::BrokenPipe
    {
        return ExitCode::SUCCESS;
    }
    let _ = writeln!(std::io::stderr(), "dues: {error}");
    ExitCode::FAILURE
}

/// Opens the store in that folder, and makes it when it is not there.
pub(crate) fn open(data: &Path) -> Result<Store<Embedded>, Error> {
    std::fs::create_dir_all(data).map_err(|cause| Error::Io { doing: format!("make folder {}", data.display()), cause })?;
    Ok(Store::new(Embedded::open(&data.join("dues.db"))?, SystemClock::shared()))
}

/// Opens the store in that folder for reading what is there.
pub(crate) fn open_existing(data: &Path) -> Result<Store<Embedded>, Error> {
    if !data.join("dues.db").exists() {
        let how = "ingest something first, or name another folder with --data";
        return Err(Error::Said(format!("there is no data in {}: {how}", data.display())));
    }
    open(data)
}

/// Prints a line of JSON.
pub(crate) fn json(value: &serde_json::Value) -> Result<(), Error> {
    Ok(writeln!(std::io::stdout(), "{value}")?)
}

/// Prints text.
pub(crate) fn text(text: &str) -> Result<(), Error> {
    Ok(writeln!(std::io::stdout(), "{text}")?)
}

/// A table with these headings.
pub(crate) fn table<const N: usize>(headings: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Disabled).set_header(headings);
    table
}

/// A progress bar on standard error, when that is a terminal: of bytes when their number is known.
pub(crate) fn progress(length: Option<u64>) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match length {
        Some(length) => (ProgressBar::new(length), "{bar:30} {bytes}/{total_bytes} {msg} {eta}"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes} {msg}"),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// A progress bar on standard error, when that is a terminal, of so many things; their number may become known on the way.
pub(crate) fn progress_of(things: &str, count: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    match ProgressStyle::with_template(&format!("{{bar:30}} {{human_pos}}/{{human_len}} {things} {{per_sec}} {{eta}}")) {
        Ok(style) => ProgressBar::new(count).with_style(style),
        Err(_) => ProgressBar::new(count),
    }
}

/// A counter of things on standard error, when that is a terminal: nobody knows how many there will be.
pub(crate) fn spinner(things: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    match ProgressStyle::with_template(&format!("{{spinner}} {{human_pos}} {things} {{per_sec}}")) {
        Ok(style) => ProgressBar::new_spinner().with_style(style),
        Err(_) => ProgressBar::new_spinner(),
    }
}

/// The status, and what else an operator has to know beside it.
pub(crate) fn status_text(record: &Record) -> String {
    let mut text = record.status().to_string();
    if let Some(at) = &record.cancel_at {
        text += &format!(" (cancels {})", at.at().format("%Y-%m-%d"));
    }
    if record.downgrade.is_some() && record.next.is_none() {
        text += " (downgrade pending)";
    }
    if record.superseded_by.is_some() {
        text += " (superseded)";
    }
    if record.in_doubt().is_some() {
        text += " (answer not known yet)";
    }
    if let Some(bar) = &record.bar {
        text += &format!(" (barred: {bar})");
    }
    text
}

/// The row under its attribute names. The packed list of applied events is for the program, not for readers.
pub(crate) fn record_json(record: &Record) -> serde_json::Value {
    let mut item = record.to_item();
    item.remove(attr::APPLIED);
    item.to_json()
}

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(super::grouped(number), text);
        }
    }
}
