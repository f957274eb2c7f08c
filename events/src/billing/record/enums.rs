//! Enums of a record: tiers, providers, processes and tags.

/// Tier and version in one text, as in `receipt_tier_name`: `Plus:v2`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TierName(String);

impl TierName {
    /// Joins tier and version.
    #[must_use]
    pub fn new(tier: &str, version: &str) -> Self {
        Self(if version.is_empty() { tier.to_owned() } else { format!("{tier}:{version}") })
    }

    /// Wraps the stored text.
    #[must_use]
    pub fn read(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The stored text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The tier: the part before the colon.
    #[must_use]
    pub fn tier(&self) -> &str {
        self.0.split_once(':').map_or(self.0.as_str(), |(tier, _)| tier)
    }

    /// The version: the part after the colon; empty when there is none.
    #[must_use]
    pub fn version(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, version)| version)
    }
}

/// Where the user signs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// Cognito; groups follow the tier.
    Cognito,
    /// Local sign-in; there are no groups.
    Local,
}

impl Provider {
    /// The spelling in tables and on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cognito => "cognito",
            Self::Local => "local",
        }
    }

    /// Parses the spelling of [`Provider::as_str`].
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        [Self::Cognito, Self::Local].into_iter().find(|provider| provider.as_str() == text)
    }
}

macro_rules! tags {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
            /// A value of another writer, kept unchanged.
            Other(Box<str>),
        }

        impl $name {
            /// The spelling in the tables.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Other(text) => text,
                }
            }

            /// Parses the spelling in the tables.
            #[must_use]
            pub fn read(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)*
                    other => Self::Other(other.into()),
                }
            }
        }
    };
}

tags! {
    /// The collection stage or process that last updated a record.
    Process {
        /// First scheduled attempt.
        Initial = "INITIAL",
        /// Daily retry of an ERROR record.
        Retry = "RETRY",
        /// Run over past-due PAUSED records.
        Pause = "PAUSE",
        /// Income was detected.
        Webhook = "WEBHOOK",
        /// A balance was reported.
        WebhookBalance = "WEBHOOK_BALANCE",
        /// Manual batch.
        Batch = "BATCH",
        /// Reactivation of the user.
        Reactivation = "REACTIVATION",
        /// Repayment by the member.
        ManualRepayment = "MANUAL_REPAYMENT",
        /// Not known.
        NotIdentified = "NOT_IDENTIFIED",
    }
}

tags! {
    /// Tag of a lifecycle update.
    UpdatedEvent {
        /// The pause window expired.
        PauseSkipped = "pause-skipped",
        /// The resume date is near.
        PausePendingResume = "pause-pending-resume",
        /// Resumed.
        PauseResume = "pause-resume",
        /// Reactivated.
        UserReactivated = "user-reactivated",
    }
}
