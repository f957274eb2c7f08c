//! Signing secrets; never logged.

use std::fmt;

/// The secrets that Stripe signs with: two during a rotation. None of them is blank.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(Vec<String>);

impl Secrets {
    /// Parses secrets separated by commas or newlines.
    #[must_use]
    pub fn read(text: &str) -> Self {
        Self(
            text.split([',', '\n'])
                .map(str::trim)
                .filter(|secret| !secret.is_empty())
                .map(str::to_owned)
                .collect(),
        )
    }

    /// Adds other secrets.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// Whether there are no secrets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn all(&self) -> &[String] {
        &self.0
    }
}

/// Shows only the number of secrets.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_are_no_secrets_and_none_is_shown() {
        let secrets = Secrets::read(" whsec_one ,\r\n\n whsec_two\n,").and(Secrets::read("whsec_three"));
        assert_eq!(secrets.all(), ["whsec_one", "whsec_two", "whsec_three"]);
        assert_eq!(format!("{secrets:?}"), "Secrets(3)");
        assert!(Secrets::read(" \n , ").is_empty());
    }
}
