//! Settings of a deployment.

use dues_projections::figureforge::presign::{DEFAULT_TTL_SECONDS, MAX_TTL_SECONDS, Signer};

/// Default number of open reports that block an image.
const AUTO_BLOCK_REPORTS: u32 = 5;

/// The settings of `figureforge`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How many open reports block an image without human review; 0 for never.
    pub auto_block_reports: u32,
    /// How long a signed URL is valid, in seconds.
    pub signed_url_ttl: u32,
    /// Signs URLs; `None` unless the deployment has credentials for it.
    pub signer: Option<Signer>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { auto_block_reports: AUTO_BLOCK_REPORTS, signed_url_ttl: DEFAULT_TTL_SECONDS, signer: None }
    }
}

impl Settings {
    /// The environment variable with the settings.
    pub const VARIABLE: &'static str = "DUES_FIGUREFORGE";

    /// Parses `auto_block_reports=5,signed_url_ttl=600`; missing entries keep their defaults.
    ///
    /// # Errors
    /// Names the invalid entry.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut settings = Self::default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let wrong = |why: &str| format!("{}: {entry:?} {why}", Self::VARIABLE);
            let (name, value) = entry.split_once('=').ok_or_else(|| wrong("has no value"))?;
            let number: u32 = value.trim().parse().map_err(|_| wrong("is not a whole number"))?;
            match name.trim() {
                "auto_block_reports" => settings.auto_block_reports = number,
                "signed_url_ttl" if (1..=MAX_TTL_SECONDS).contains(&number) => {
                    settings.signed_url_ttl = number
                }
                "signed_url_ttl" => {
                    return Err(wrong(&format!("is not from 1 to {MAX_TTL_SECONDS} seconds")));
                }
                _ => return Err(wrong("is not one of auto_block_reports, signed_url_ttl")),
            }
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_what_is_wrong_is_named() {
        assert_eq!(Settings::default().signed_url_ttl, 600, "ten minutes");
        let read = Settings::parse("signed_url_ttl=60, auto_block_reports=0").unwrap();
        assert_eq!((read.signed_url_ttl, read.auto_block_reports), (60, 0));
        for (text, wrong) in [
            ("ttl=1", "DUES_FIGUREFORGE: \"ttl=1\" is not one of auto_block_reports, signed_url_ttl"),
            ("signed_url_ttl", "DUES_FIGUREFORGE: \"signed_url_ttl\" has no value"),
            ("signed_url_ttl=0", "DUES_FIGUREFORGE: \"signed_url_ttl=0\" is not from 1 to 604800 seconds"),
            ("auto_block_reports=-1", "DUES_FIGUREFORGE: \"auto_block_reports=-1\" is not a whole number"),
        ] {
            assert_eq!(Settings::parse(text).unwrap_err(), wrong);
        }
    }
}
