//! Record statuses, as spelled in the tables.

/// The status of a record, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// Waits for an attempt.
    Scheduled,
    /// A debit is in flight.
    AchSent,
    /// Paid.
    Completed,
    /// The latest attempt failed.
    Error,
    /// Waived.
    Waived,
    /// Cancelled.
    Cancelled,
    /// Billing is paused.
    Paused,
    /// The pause expired.
    PausedSkipped,
    /// Refunded.
    Refunded,
    /// Too old to collect.
    Stale,
}

impl Status {
    /// Every stored status. `INACTIVE` is not stored: readers get it for a user without an active record.
    pub const ALL: [Self; 10] = [
        Self::Scheduled,
        Self::AchSent,
        Self::Completed,
        Self::Error,
        Self::Waived,
        Self::Cancelled,
        Self::Paused,
        Self::PausedSkipped,
        Self::Refunded,
        Self::Stale,
    ];

    /// The spelling in the tables.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "SCHEDULED",
            Self::AchSent => "ACHSENT",
            Self::Completed => "COMPLETED",
            Self::Error => "ERROR",
            Self::Waived => "WAIVED",
            Self::Cancelled => "CANCELLED",
            Self::Paused => "PAUSED",
            Self::PausedSkipped => "PAUSED_SKIPPED",
            Self::Refunded => "REFUNDED",
            Self::Stale => "STALE",
        }
    }

    /// Parses the spelling in the tables.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
