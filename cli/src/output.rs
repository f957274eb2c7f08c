//! What the program prints: tables for people, JSON for programs, errors on standard error.

use comfy_table::{ContentArrangement, Table, presets};
use dues_events::record::Record;
use dues_store::embedded::Embedded;
use dues_store::{Store, StoreError, SystemClock};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use rust_decimal::Decimal;
use std::io::{self, IsTerminal as _, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::LazyLock;

pub(crate) use dues_processors::api::record_json;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Said(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{doing}: {cause}")]
    Io { doing: String, cause: io::Error },
    #[error(transparent)]
    Bare(#[from] io::Error),
}

/// Tells of a failure, and gives the exit code.
pub(crate) fn failed(error: &Error) -> ExitCode {
    // A reader that went away (`dues … | head`) is not worth a message.
    if let Error::Bare(cause) = error
        && cause.kind() == io::ErrorKind::BrokenPipe
    {
        return ExitCode::SUCCESS;
    }
    say(&format!("dues: {error}"));
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
    Ok(writeln!(io::stdout(), "{value}")?)
}

/// Prints text.
pub(crate) fn text(text: &str) -> Result<(), Error> {
    Ok(writeln!(io::stdout(), "{text}")?)
}

/// All bars that are shown: whoever writes on standard error has them out of the way for that long.
static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// Standard error, also while a bar is shown there.
pub(crate) struct Paper;

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        BARS.suspend(|| io::stderr().write_all(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Says something to people, beside what the command prints. Whether anybody listens is their affair.
pub(crate) fn say(text: &str) {
    let _ = Paper.write_all(format!("{text}\n").as_bytes());
}

/// A table with these headings.
pub(crate) fn table<const N: usize>(headings: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Disabled).set_header(headings);
    table
}

/// A progress bar on standard error, when that is a terminal: of bytes when their number is known.
pub(crate) fn progress(length: Option<u64>) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match length {
        Some(length) => (ProgressBar::new(length), "{bar:30} {bytes}/{total_bytes} {msg} {eta}"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes} {msg}"),
    };
    shown(bar, template)
}

/// A progress bar on standard error, when that is a terminal, of so many things; their number may become known on the way.
pub(crate) fn progress_of(things: &str, count: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    shown(ProgressBar::new(count), &format!("{{bar:30}} {{human_pos}}/{{human_len}} {things} {{per_sec}} {{eta}}"))
}

/// A counter of things on standard error, when that is a terminal: nobody knows how many there will be.
pub(crate) fn spinner(things: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    shown(ProgressBar::new_spinner(), &format!("{{spinner}} {{human_pos}} {things} {{per_sec}}"))
}

fn shown(bar: ProgressBar, template: &str) -> ProgressBar {
    let bar = BARS.add(bar);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
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

/// `$1,234.50`; a sum of amounts is never negative.
pub(crate) fn dollars(amount: Decimal) -> String {
    let text = format!("{:.2}", amount.abs());
    let (whole, cents) = text.split_once('.').unwrap_or((&text, "00"));
    let sign = if amount.is_sign_negative() && !amount.is_zero() { "−" } else { "" };
    format!("{sign}${}.{cents}", whole.parse().map_or_else(|_| whole.to_owned(), grouped))
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
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn amounts_are_grouped_and_have_two_decimals() {
        for (cents, text) in [(0, "$0.00"), (5, "$0.05"), (149_900, "$1,499.00"), (123_456_789, "$1,234,567.89"), (-250, "−$2.50")] {
            assert_eq!(dollars(Decimal::new(cents, 2)), text);
        }
        assert_eq!(dollars(Decimal::new(5, 0)), "$5.00");
    }
}
