//! One session of a user. The profile embeds the one that was started last; it is told of each as it stands, so that what is said of one session
//! cannot be mistaken for another's, in whatever order it comes.

use dues_events::{Time, Value};
use serde::{Deserialize, Serialize};

use super::{Fact, ProfileFact, rows, user_aggregate};
use crate::model::{Latest, Told};

/// What is told of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionFact {
    /// Somebody has signed in, or a token was renewed.
    Started(Started),
    /// It was used.
    Accessed(Named),
    /// It is over.
    Ended(Named),
}

/// Which session, and whose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Whose.
    pub user_id: String,
    /// Which.
    pub session_id: String,
}

/// A session that has begun. Of its tokens only the hashes are known here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Whose.
    pub user_id: String,
    /// Which.
    pub session_id: String,
    /// SHA-256 of the access token.
    pub access_token_hash: Option<String>,
    /// SHA-256 of the refresh token.
    pub refresh_token_hash: Option<String>,
    /// When it began.
    pub issued_at: Time,
    /// When it is over.
    pub expires_at: Time,
    /// When the biometric check has to be made again.
    pub biometric_expires_at: Option<Time>,
    /// Of the app.
    pub user_agent: Option<String>,
    /// Where from.
    pub source_ip: Option<String>,
}

/// How a session stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    started: Option<Latest<Started>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accessed: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<Time>,
}

/// A session as the profile knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Since when it is what it is: of two sessions the later one is the current one.
    pub since: Time,
    /// Which version of it says so.
    pub version: u64,
    /// What began.
    pub started: Started,
    /// When it was used last.
    pub accessed: Option<Time>,
    /// When it ended, if somebody ended it.
    pub ended: Option<Time>,
}

impl Session {
    pub(super) fn merge(&mut self, told: &Told<Fact>, fact: &SessionFact) {
        match fact {
            SessionFact::Started(started) => Latest::put(&mut self.started, told, started.clone()),
            SessionFact::Accessed(_) => self.accessed = self.accessed.max(Some(told.at)),
            SessionFact::Ended(_) => self.ended = self.ended.max(Some(told.at)),
        }
    }

    /// The profile hears of it once it has begun.
    pub(super) fn follows(&self, version: u64) -> Option<(String, Told<Fact>)> {
        let Latest { at, value: started, .. } = self.started.clone()?;
        let (user, id) = (user_aggregate(&started.user_id), format!("session:{}@{version}", started.session_id));
        let summary = Summary { since: at, version, started, accessed: self.accessed, ended: self.ended };
        let last = Some(at).max(self.accessed).max(self.ended).unwrap_or(at);
        Some((user, Told { id: id.into(), at: last, fact: Fact::Profile(ProfileFact::Session(Box::new(summary))) }))
    }
}

impl Summary {
    /// Of two, the one with the greater place counts.
    pub(super) fn place(&self) -> (Time, &str, u64) {
        (self.since, &self.started.session_id, self.version)
    }

    /// As the profile embeds it.
    pub(super) fn value(&self) -> Value {
        let started = &self.started;
        Value::M(rows::map([
            ("session_id", Value::text(started.session_id.as_str())),
            ("access_token_hash", rows::optional(started.access_token_hash.as_deref())),
            ("refresh_token_hash", rows::optional(started.refresh_token_hash.as_deref())),
            ("issued_at", rows::time(Some(started.issued_at))),
            ("expires_at", rows::time(Some(started.expires_at))),
            ("last_accessed_at", rows::time(self.accessed.max(Some(started.issued_at)))),
            ("biometric_expires_at", rows::time(started.biometric_expires_at)),
            ("user_agent", rows::optional(started.user_agent.as_deref())),
            ("source_ip", rows::optional(started.source_ip.as_deref())),
        ]))
    }
}
