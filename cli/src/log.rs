//! The log, always on standard error: lines for people on a terminal, one JSON object a line otherwise. It carries ids, never what a record says.

use dues_processors::log::{line, stamp};
use dues_store::{Clock as _, SystemClock};
use serde_json::Value;
use std::io::IsTerminal as _;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{self, FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::{Layer, registry};

use crate::output;

/// What to write: everything of a level and graver, and of some parts of the program more, or less.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    level: Option<LevelFilter>,
    parts: Vec<(String, LevelFilter)>,
}

impl Wanted {
    /// Reads `info`, or `info,dues_store=debug`. A word that is no level is refused: it would be taken for a part's name, and everything else fall silent.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut wanted = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match word.split_once('=') {
                None => wanted.level = Some(level(word)?),
                Some((part, word)) if is_part(part) => wanted.parts.push((part.to_owned(), level(word)?)),
                Some((part, _)) => return Err(format!("{part:?} is not a part of the program, such as dues_store")),
            }
        }
        Ok(wanted)
    }

    fn filter(&self, usual: LevelFilter) -> Targets {
        Targets::new().with_default(self.level.unwrap_or(usual)).with_targets(self.parts.iter().cloned())
    }
}

fn level(word: &str) -> Result<LevelFilter, String> {
    const LEVELS: [(&str, LevelFilter); 6] = [
        ("off", LevelFilter::OFF),
        ("error", LevelFilter::ERROR),
        ("warn", LevelFilter::WARN),
        ("info", LevelFilter::INFO),
        ("debug", LevelFilter::DEBUG),
        ("trace", LevelFilter::TRACE),
    ];
    let known = LEVELS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
    known.map(|(_, level)| *level).ok_or_else(|| format!("{word:?} is not one of {}", LEVELS.map(|(name, _)| name).join(", ")))
}

/// Whether this may be the path of a module.
fn is_part(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | ':'))
}

/// Begins to write what is wanted; where nothing is said, what is usual. Who begins first is heeded: there is one log.
pub(crate) fn begin(wanted: &Wanted, usual: LevelFilter) {
    let lines: Box<dyn Layer<Registry> + Send + Sync> = if std::io::stderr().is_terminal() {
        // Nobody can be told that nobody listens, so errors of writing are not written either.
        Box::new(fmt::layer().with_timer(Utc).with_ansi(colours()).with_writer(|| output::Paper).log_internal_errors(false))
    } else {
        Box::new(fmt::layer().event_format(Json).with_ansi(false).with_writer(|| output::Paper).log_internal_errors(false))
    };
    // The only other one that can be there is ours.
    let _ = tracing::subscriber::set_global_default(registry().with(lines).with(wanted.filter(usual)));
}

/// The same for a program that serves: a panic is a line of the log too, with its place but without its words, which may hold what a record says.
pub(crate) fn begin_serving(wanted: &Wanted) {
    begin(wanted, LevelFilter::INFO);
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "panicked");
    }));
}

/// Who sets NO_COLOR, to whatever, wants none (no-color.org).
fn colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
}

/// When something happened.
struct Utc;

impl FormatTime for Utc {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        writer.write_str(&stamp(SystemClock.now()))
    }
}

/// A line for programs.
struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> std::fmt::Result {
        let mut line = line(event, SystemClock.now());
        line.insert("target".into(), event.metadata().target().into());
        writeln!(writer, "{}", Value::Object(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn a_level_and_parts_that_have_their_own_are_read() {
        let wanted = Wanted::parse("warn, dues_store=debug,dues::serve=off").unwrap();
        let filter = wanted.filter(LevelFilter::INFO);
        assert!(filter.would_enable("dues", &Level::WARN) && !filter.would_enable("dues", &Level::INFO));
        assert!(filter.would_enable("dues_store::parked", &Level::DEBUG) && !filter.would_enable("dues_store", &Level::TRACE));
        assert!(!filter.would_enable("dues::serve::jobs", &Level::ERROR));
        // What is not said is as usual.
        let filter = Wanted::parse("dues_store=debug").unwrap().filter(LevelFilter::INFO);
        assert!(filter.would_enable("dues", &Level::INFO) && !filter.would_enable("dues", &Level::DEBUG));
        assert_eq!(Wanted::parse(""), Ok(Wanted::default()));
    }

    #[test]
    fn what_is_no_level_is_refused_by_name() {
        for (text, named) in
            [("loud", "\"loud\""), ("info,dues_store", "\"dues_store\""), ("dues_store=2", "\"2\""), ("a b=info", "\"a b\"")]
        {
            let why = Wanted::parse(text).unwrap_err();
            assert!(why.contains(named), "{text}: {why}");
        }
    }
}
