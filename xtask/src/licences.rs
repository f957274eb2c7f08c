//! Licence expressions: can a crate be used under licences that we accept?

/// The accepted licences. Keep in step with `deny.toml`.
pub const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MPL-2.0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether an expression can be satisfied with accepted licences alone: every side of an `AND`, one side of
/// an `OR`. The old form `MIT/Apache-2.0` means `OR`. A malformed expression is an error with the reason.
pub fn acceptable(expression: &str) -> Result<bool, String> {
    let mut parser = Parser { tokens: tokens(expression), at: 0 };
    let answer = parser.any()?;
    match parser.peek() {
        None => Ok(answer),
        Some(extra) => Err(format!("unexpected `{extra}`")),
    }
}

/// `OR` binds loosest, then `AND`, then `WITH`.
struct Parser {
    tokens: Vec<String>,
    at: usize,
}

impl Parser {
    fn any(&mut self) -> Result<bool, String> {
        let mut answer = self.all()?;
        while self.take("OR") || self.take("/") {
            answer |= self.all()?;
        }
        Ok(answer)
    }

    fn all(&mut self) -> Result<bool, String> {
        let mut answer = self.one()?;
        while self.take("AND") {
            answer &= self.one()?;
        }
        Ok(answer)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.take("(") {
            let answer = self.any()?;
            return if self.take(")") { Ok(answer) } else { Err("a `(` is never closed".into()) };
        }
        let mut licence = self.name()?;
        if self.take("WITH") {
            licence = format!("{licence} WITH {}", self.name()?);
        }
        // `GPL-2.0+` is that version or a later one, so accepting the version accepts this.
        Ok(ALLOWED.contains(&licence.trim_end_matches('+')))
    }

    fn name(&mut self) -> Result<String, String> {
        match self.peek() {
            Some(word) if !["AND", "OR", "WITH", "(", ")", "/"].contains(&word) => {
                let word = word.to_owned();
                self.at += 1;
                Ok(word)
            }
            Some(word) => Err(format!("a licence was expected before `{word}`")),
            None => Err("a licence was expected at the end".into()),
        }
    }

    fn take(&mut self, token: &str) -> bool {
        let taken = self.peek().is_some_and(|next| next.eq_ignore_ascii_case(token));
        self.at += usize::from(taken);
        taken
    }

    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.at).map(String::as_str)
    }
}

fn tokens(expression: &str) -> Vec<String> {
    ["(", ")", "/"]
        .iter()
        .fold(expression.to_owned(), |text, mark| text.replace(mark, &format!(" {mark} ")))
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_and_their_answers() {
        let table = [
            ("MIT", true),
            ("GPL-3.0-only", false),
            ("MIT OR Apache-2.0", true),
            ("MIT/Apache-2.0", true),
            ("Apache-2.0 / MIT", true),
            ("MIT OR Apache-2.0 OR LGPL-2.1-or-later", true),
            ("GPL-2.0-only OR LGPL-2.1-or-later", false),
            ("MIT AND GPL-3.0-only", false),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("(MIT OR Apache-2.0) AND OpenSSL", false),
            ("MIT OR Apache-2.0 AND OpenSSL", true),
            ("OpenSSL AND MIT OR ISC", true),
            ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("GPL-2.0-only WITH Classpath-exception-2.0", false),
            ("MIT WITH Made-up-exception", false),
            ("MPL-2.0+", true),
        ];
        for (expression, expected) in table {
            assert_eq!(acceptable(expression), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_accepted() {
        for broken in ["", "MIT OR", "(MIT", "MIT)", "MIT Apache-2.0", "AND MIT", "MIT WITH"] {
            assert!(acceptable(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn deny_toml_allows_the_same() {
        let deny = include_str!("../../deny.toml");
        let list = deny.split_once("allow = [").unwrap().1.split_once(']').unwrap().0;
        let listed: Vec<&str> =
            list.lines().filter_map(|line| line.trim().strip_prefix('"')?.strip_suffix("\",")).collect();
        assert_eq!(listed, ALLOWED);
    }
}
