//! The statuses, as the tables spell them.

/// The status that stands for a state in the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// Waits for an attempt.
    Scheduled,
    /// A debit is under way.
    AchSent,
    /// Paid.
    Completed,
    /// The latest attempt failed.
    Error,
    /// Forgiven.
    Waived,
    /// Cancelled.
    Cancelled,
    /// Billing rests.
    Paused,
    /// The pause ran out.
    PausedSkipped,
    /// Paid back.
    Refunded,
    /// Too old.
    Stale,
}

impl Status {
    /// Every status that is stored. `INACTIVE` is not: it is what a reader gets for a user without an active record.
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

    /// As the tables spell it.
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

    /// Reads the tables' spelling.
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
