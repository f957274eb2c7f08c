//! The log on standard error: text lines on a terminal, one JSON object per line otherwise. It carries ids,
//! never record contents.

use dues_processors::runtime::log::{line, timestamp};
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

/// Log level, with overrides for single modules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LogFilter {
    level: Option<LevelFilter>,
    modules: Vec<(String, LevelFilter)>,
}

impl LogFilter {
    /// Parses `info`, or `info,dues_store=debug`. Rejects unknown levels: taken for a module name, they
    /// would silence everything else.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut filter = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match word.split_once('=') {
                None => filter.level = Some(level(word)?),
                Some((module, word)) if is_module_path(module) => {
                    filter.modules.push((module.to_owned(), level(word)?));
                }
                Some((module, _)) => {
                    return Err(format!("{module:?} is not a module path such as dues_store"));
                }
            }
        }
        Ok(filter)
    }

    fn targets(&self, default: LevelFilter) -> Targets {
        Targets::new().with_default(self.level.unwrap_or(default)).with_targets(self.modules.iter().cloned())
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
    known
        .map(|(_, level)| *level)
        .ok_or_else(|| format!("{word:?} is not one of {}", LEVELS.map(|(name, _)| name).join(", ")))
}

fn is_module_path(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':'))
}

/// Starts the log. The first call wins: there is one log per process.
pub(crate) fn init(filter: &LogFilter, default: LevelFilter) {
    let lines: Box<dyn Layer<Registry> + Send + Sync> = if std::io::stderr().is_terminal() {
        // Write errors of the log are not logged.
        Box::new(
            fmt::layer()
                .with_timer(Utc)
                .with_ansi(is_coloured())
                .with_writer(|| output::Stderr)
                .log_internal_errors(false),
        )
    } else {
        Box::new(
            fmt::layer()
                .event_format(Json)
                .with_ansi(false)
                .with_writer(|| output::Stderr)
                .log_internal_errors(false),
        )
    };
    // Fails only if this function ran before.
    let _ = tracing::subscriber::set_global_default(registry().with(lines).with(filter.targets(default)));
}

/// Starts the log of a server. Panics are logged with their location but without their message, which may
/// quote a record.
pub(crate) fn init_server(filter: &LogFilter) {
    init(filter, LevelFilter::INFO);
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "panicked");
    }));
}

/// `NO_COLOR` with any value turns colours off (no-color.org).
fn is_coloured() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
}

/// Timestamps in UTC.
struct Utc;

impl FormatTime for Utc {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        writer.write_str(&timestamp(SystemClock.now()))
    }
}

/// One JSON object per line.
struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
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
    fn a_level_and_module_overrides_are_parsed() {
        let filter = LogFilter::parse("warn, dues_store=debug,dues::serve=off").unwrap();
        let filter = filter.targets(LevelFilter::INFO);
        assert!(filter.would_enable("dues", &Level::WARN) && !filter.would_enable("dues", &Level::INFO));
        assert!(
            filter.would_enable("dues_store::parked", &Level::DEBUG)
                && !filter.would_enable("dues_store", &Level::TRACE)
        );
        assert!(!filter.would_enable("dues::serve::jobs", &Level::ERROR));
        // Everything else keeps the default.
        let filter = LogFilter::parse("dues_store=debug").unwrap().targets(LevelFilter::INFO);
        assert!(filter.would_enable("dues", &Level::INFO) && !filter.would_enable("dues", &Level::DEBUG));
        assert_eq!(LogFilter::parse(""), Ok(LogFilter::default()));
    }

    #[test]
    fn unknown_levels_are_rejected_by_name() {
        for (text, named) in [
            ("loud", "\"loud\""),
            ("info,dues_store", "\"dues_store\""),
            ("dues_store=2", "\"2\""),
            ("a b=info", "\"a b\""),
        ] {
            let error = LogFilter::parse(text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
