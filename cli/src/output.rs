//! Output: tables for people, JSON for programs, errors and progress on standard error.

use comfy_table::{ContentArrangement, Table, presets};
use dues_events::Money;
use dues_events::billing::record::{Record, Status};
use dues_store::embedded::Embedded;
use dues_store::{CommitError, Store, StoreError, SystemClock};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use rust_decimal::Decimal;
use std::io::{self, IsTerminal as _, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::LazyLock;

pub(crate) use dues_processors::api::record_json;

/// Failure of a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Message(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error("{doing}: {cause}")]
    Io { doing: String, cause: io::Error },
    #[error(transparent)]
    Output(#[from] io::Error),
}

/// Prints a failure and returns the exit code.
pub(crate) fn report_failure(error: &Error) -> ExitCode {
    // `dues … | head` closes the pipe early: not a failure.
    if let Error::Output(cause) = error
        && cause.kind() == io::ErrorKind::BrokenPipe
    {
        return ExitCode::SUCCESS;
    }
    notice(&format!("dues: {error}"));
    ExitCode::FAILURE
}

/// Opens the store in a data directory; creates both if needed.
pub(crate) fn open(data: &Path) -> Result<Store<Embedded>, Error> {
    std::fs::create_dir_all(data)
        .map_err(|cause| Error::Io { doing: format!("create directory {}", data.display()), cause })?;
    Ok(Store::new(Embedded::open(&data.join("dues.db"))?, SystemClock::shared()))
}

/// Opens the store in a data directory; fails if there is none.
pub(crate) fn open_existing(data: &Path) -> Result<Store<Embedded>, Error> {
    if !data.join("dues.db").exists() {
        let hint = "ingest something first, or choose another directory with --data";
        return Err(Error::Message(format!("no data in {}: {hint}", data.display())));
    }
    open(data)
}

/// Prints a line of JSON.
pub(crate) fn print_json(value: &serde_json::Value) -> Result<(), Error> {
    Ok(writeln!(io::stdout(), "{value}")?)
}

/// Prints text.
pub(crate) fn print_line(text: &str) -> Result<(), Error> {
    Ok(writeln!(io::stdout(), "{text}")?)
}

/// All visible progress bars; they are suspended while a line is written to standard error.
static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// Standard error that suspends the progress bars while writing.
pub(crate) struct Stderr;

impl Write for Stderr {
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

/// Prints a line to standard error, apart from the command's output. Write errors are ignored.
pub(crate) fn notice(text: &str) {
    let _ = Stderr.write_all(format!("{text}\n").as_bytes());
}

/// A table with these headings.
pub(crate) fn table<const N: usize>(headings: [&str; N]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(headings);
    table
}

/// A progress bar over bytes, or a byte counter if the length is unknown; only on a terminal.
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

/// A progress bar over `count` things, only on a terminal. The length can be set later.
pub(crate) fn progress_of(things: &str, count: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    shown(
        ProgressBar::new(count),
        &format!("{{bar:30}} {{human_pos}}/{{human_len}} {things} {{per_sec}} {{eta}}"),
    )
}

/// A counter of things with unknown total, only on a terminal.
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

/// The status, with the flags that qualify it.
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
        text += " (awaiting the gateway's answer)";
    }
    let refunded = record.refunded_amount();
    if record.status() == Status::Completed && refunded > Money::ZERO {
        text += &format!(" (refunded {})", dollars(refunded.decimal()));
    }
    for money in record.unapplied_money().iter().filter(|money| money.is_open()) {
        text += &format!(" (unapplied: {} {})", money.amount, money.currency);
    }
    if let Some(notice) = record.correction.awaited() {
        text += &format!(" (awaits correction: {}, by {})", notice.code, notice.correct_by());
    }
    if let Some(bar) = &record.bar {
        text += &format!(" (barred: {bar})");
    }
    text
}

/// `$1,234.50`.
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
        for (cents, text) in [
            (0, "$0.00"),
            (5, "$0.05"),
            (149_900, "$1,499.00"),
            (123_456_789, "$1,234,567.89"),
            (-250, "−$2.50"),
        ] {
            assert_eq!(dollars(Decimal::new(cents, 2)), text);
        }
        assert_eq!(dollars(Decimal::new(5, 0)), "$5.00");
    }
}
