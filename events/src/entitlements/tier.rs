//! Tiers, lowest first.

/// A tier.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum PlanTier {
    /// No payment.
    #[default]
    #[serde(rename = "free")]
    Free,
    /// The first paid tier.
    Initiate,
    /// The second.
    Journeyman,
    /// The third; founding members have it for life.
    Sage,
    /// The highest; guild builders have it for life.
    Guildmaster,
}

impl PlanTier {
    /// Every tier, lowest first.
    pub const ALL: [Self; 5] = [Self::Free, Self::Initiate, Self::Journeyman, Self::Sage, Self::Guildmaster];

    /// The spelling in tables and in Stripe's metadata.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Initiate => "INITIATE",
            Self::Journeyman => "JOURNEYMAN",
            Self::Sage => "SAGE",
            Self::Guildmaster => "GUILDMASTER",
        }
    }

    /// Parses the spelling of [`PlanTier::as_str`].
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.as_str() == text)
    }

    /// Credits granted for a month's payment.
    #[must_use]
    pub fn monthly_credits(self) -> u32 {
        match self {
            Self::Free => 0,
            Self::Initiate => 2,
            Self::Journeyman => 5,
            Self::Sage | Self::Guildmaster => 15,
        }
    }
}

impl std::fmt::Display for PlanTier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_are_in_order_and_read_as_they_are_spelled() {
        let tiers = PlanTier::ALL.map(|tier| (tier.as_str(), tier.monthly_credits()));
        assert_eq!(
            tiers,
            [("free", 0), ("INITIATE", 2), ("JOURNEYMAN", 5), ("SAGE", 15), ("GUILDMASTER", 15)]
        );
        assert!(PlanTier::ALL.is_sorted());
        assert_eq!(PlanTier::ALL.map(|tier| PlanTier::read(tier.as_str())), PlanTier::ALL.map(Some));
        assert_eq!(
            (PlanTier::read("sage"), PlanTier::read("FREE"), PlanTier::default()),
            (None, None, PlanTier::Free)
        );
    }
}
