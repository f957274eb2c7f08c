//! Query strings, form bodies and percent-encoding.

use dues_events::Time;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// RFC 3986 unreserved characters stay as they are.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Query-string or form parameters, in order.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses `application/x-www-form-urlencoded`; pairs that are not UTF-8 are dropped.
    pub(crate) fn parse(text: &str) -> Self {
        let decode = |text: &str| percent_decode(&text.replace('+', " "));
        let pairs = text.split('&').filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(name)?, decode(value)?))
        });
        Self(pairs.collect())
    }

    /// The trimmed value of a parameter; `None` if it is absent or empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.trim())
            .filter(|value| !value.is_empty())
    }

    /// A time: RFC 3339, or a date, which means midnight UTC.
    pub(super) fn time(&self, name: &str) -> Result<Option<Time>, String> {
        let Some(text) = self.get(name) else { return Ok(None) };
        crate::args::parse_time(text).map(Some).map_err(|why| format!("{name}: {why}"))
    }
}

/// Decodes a path segment; `None` if it is not UTF-8.
pub(super) fn percent_decode(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(Into::into)
}

/// Encodes a text as one path segment or one query value.
pub(crate) fn percent_encode(text: &str) -> String {
    match text {
        // Browsers resolve these as relative paths.
        "." | ".." => text.replace('.', "%2E"),
        _ => utf8_percent_encode(text, RESERVED).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_values_are_decoded() {
        let query = Query::parse("q=a+b%7Cc%3D&empty=&x=%ff&at=2026-02-01");
        assert_eq!(query.get("q"), Some("a b|c="));
        assert_eq!((query.get("empty"), query.get("x"), query.get("none")), (None, None, None));
        assert_eq!(
            query.time("at").unwrap().map(|at| at.to_rfc3339()),
            Some("2026-02-01T00:00:00+00:00".to_owned())
        );
        assert!(query.time("q").unwrap_err().starts_with("q: "));
    }

    #[test]
    fn ids_become_one_path_segment() {
        for (id, path) in [
            ("u-1", "u-1"),
            ("auth0|a/b", "auth0%7Ca%2Fb"),
            ("a b?c#d", "a%20b%3Fc%23d"),
            ("\"><script>", "%22%3E%3Cscript%3E"),
            ("ä", "%C3%A4"),
            ("..", "%2E%2E"),
        ] {
            assert_eq!(percent_encode(id), path);
            assert_eq!(percent_decode(path).as_deref(), Some(id));
        }
    }
}
