//! HTML that cannot be broken by what it shows: the templates are part of the program, and everything that is put into them is escaped.

use dues_events::{EventId, Money, MovementId, PlanTier, SubscriptionId, TransactionId, UserId};
use rust_decimal::Decimal;
use std::fmt::Write as _;

/// A piece of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Html(String);

/// What can be put into a template.
pub(super) trait Part: Sync {
    fn write(&self, page: &mut String);
}

impl Html {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// A piece made of one template.
    pub(super) fn of(template: &'static str, parts: &[&dyn Part]) -> Self {
        let mut html = Self::new();
        html.put(template, parts);
        html
    }

    /// Adds a template, each `{}` in it replaced by the next part.
    pub(super) fn put(&mut self, template: &'static str, parts: &[&dyn Part]) {
        let mut pieces = template.split("{}");
        self.0.push_str(pieces.next().unwrap_or_default());
        for (n, piece) in pieces.enumerate() {
            if let Some(part) = parts.get(n) {
                part.write(&mut self.0);
            }
            self.0.push_str(piece);
        }
        debug_assert_eq!(template.matches("{}").count(), parts.len(), "{template}");
    }

    pub(super) fn add(&mut self, piece: &Self) {
        self.0.push_str(&piece.0);
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// A piece of a page is one already.
impl Part for Html {
    fn write(&self, page: &mut String) {
        page.push_str(&self.0);
    }
}

impl Part for str {
    fn write(&self, page: &mut String) {
        for letter in self.chars() {
            match letter {
                '&' => page.push_str("&amp;"),
                '<' => page.push_str("&lt;"),
                '>' => page.push_str("&gt;"),
                '"' => page.push_str("&quot;"),
                '\'' => page.push_str("&#39;"),
                // A control character has no place in a page; browsers would drop or misread it.
                other if other.is_control() && !matches!(other, '\n' | '\t') => page.push('\u{fffd}'),
                other => page.push(other),
            }
        }
    }
}

impl<T: Part + ?Sized> Part for &T {
    fn write(&self, page: &mut String) {
        (**self).write(page);
    }
}

impl Part for String {
    fn write(&self, page: &mut String) {
        self.as_str().write(page);
    }
}

impl<T: Part> Part for Option<T> {
    fn write(&self, page: &mut String) {
        if let Some(part) = self {
            part.write(page);
        }
    }
}

macro_rules! ids {
    ($($id:ty),*) => { $(impl Part for $id {
        fn write(&self, page: &mut String) {
            self.as_str().write(page);
        }
    })* };
}

ids!(EventId, MovementId, PlanTier, SubscriptionId, TransactionId, UserId);

/// Digits, signs and points need no escaping.
macro_rules! numbers {
    ($($number:ty),*) => { $(impl Part for $number {
        fn write(&self, page: &mut String) {
            // Writing into a string does not fail.
            let _ = write!(page, "{self}");
        }
    })* };
}

numbers!(u16, u32, u64, usize, i32, i64, Decimal, Money, chrono::NaiveDate);

/// A text as one segment of a path or one value of a query: letters, digits and a few signs stay, everything else is percent-encoded.
pub(crate) fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            other => {
                let _ = write!(out, "%{other:02X}");
            }
        }
    }
    // A browser would take these for the folder and the one above it.
    if out == "." || out == ".." { out.replace('.', "%2E") } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_an_id_says_it_stays_text() {
        let id = UserId::from("<script>alert('1')</script>\"&\u{1b}");
        let shown = Html::of("<a title=\"{}\">{}</a>", &[&id, &id.as_str()]).into_string();
        let safe = "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot;&amp;\u{fffd}";
        assert_eq!(shown, format!("<a title=\"{safe}\">{safe}</a>"));
    }

    #[test]
    fn a_value_that_looks_like_a_template_is_not_one() {
        assert_eq!(Html::of("<p>{} {}</p>", &[&"{}", &"b"]).into_string(), "<p>{} b</p>");
    }

    #[test]
    fn pieces_are_put_in_as_they_are() {
        let bold = Html::of("<b>{}</b>", &[&"a<b"]);
        assert_eq!(Html::of("<p>{}{}</p>", &[&bold, &None::<Html>]).into_string(), "<p><b>a&lt;b</b></p>");
    }

    #[test]
    fn ids_become_segments_of_a_path() {
        for (id, path) in [
            ("u-1", "u-1"),
            ("auth0|a/b", "auth0%7Ca%2Fb"),
            ("a b?c#d", "a%20b%3Fc%23d"),
            ("\"><script>", "%22%3E%3Cscript%3E"),
            ("ä", "%C3%A4"),
            ("..", "%2E%2E"),
        ] {
            assert_eq!(segment(id), path);
        }
    }
}
