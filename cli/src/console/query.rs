//! What stands behind the question mark.

use dues_events::Time;
use dues_processors::api::decoded_text;

/// Names and values, in order.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads a query, percent-encoded as forms do it. What is not text is left out.
    pub(crate) fn read(text: &str) -> Self {
        let decoded = |text: &str| decoded_text(&text.replace('+', " "));
        let pairs = text.split('&').filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decoded(name)?, decoded(value)?))
        });
        Self(pairs.collect())
    }

    /// The value of that name, unless it is empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }

    /// A time: RFC 3339, or a day, which means its first moment.
    pub(super) fn time(&self, name: &str) -> Result<Option<Time>, String> {
        let Some(text) = self.get(name) else { return Ok(None) };
        crate::args::read_time(text).map(Some).map_err(|why| format!("{name}: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_as_forms_encode_them() {
        let query = Query::read("q=a+b%7Cc%3D&empty=&x=%ff&at=2026-02-01");
        assert_eq!(query.get("q"), Some("a b|c="));
        assert_eq!((query.get("empty"), query.get("x"), query.get("none")), (None, None, None));
        assert_eq!(query.time("at").unwrap().map(|at| at.to_rfc3339()), Some("2026-02-01T00:00:00+00:00".to_owned()));
        assert!(query.time("q").unwrap_err().starts_with("q: "));
    }
}
