//! One session of a user. The profile embeds the session that started last. It receives a whole summary per
//! session, so that facts of different sessions cannot be mixed up in any order of arrival.

use dues_events::{Time, Value};
use serde::{Deserialize, Serialize};

use super::{Fact, ProfileFact, rows, user_aggregate};
use crate::model::{Latest, Recorded};

/// A fact about a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionFact {
    /// The user signed in, or a token was renewed.
    Started(Started),
    /// The session was used.
    Accessed(SessionRef),
    /// The session was ended.
    Ended(SessionRef),
}

/// A session and its user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRef {
    /// The user's id.
    pub user_id: String,
    /// The session's id.
    pub session_id: String,
}

/// The start of a session. Of its tokens only the hashes are stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The user's id.
    pub user_id: String,
    /// The session's id.
    pub session_id: String,
    /// SHA-256 of the access token.
    pub access_token_hash: Option<String>,
    /// SHA-256 of the refresh token.
    pub refresh_token_hash: Option<String>,
    /// When the session began.
    pub issued_at: Time,
    /// When the session expires.
    pub expires_at: Time,
    /// When the biometric check must be repeated.
    pub biometric_expires_at: Option<Time>,
    /// The client's user agent.
    pub user_agent: Option<String>,
    /// The address of the client.
    pub source_ip: Option<String>,
}

/// State of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    started: Option<Latest<Started>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accessed: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<Time>,
}

/// A session as the profile stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Time of the latest start. The session with the later one is current.
    pub since: Time,
    /// The version of the session's state.
    pub version: u64,
    /// The latest start.
    pub started: Started,
    /// When the session was last used.
    pub accessed: Option<Time>,
    /// When the session was ended explicitly.
    pub ended: Option<Time>,
}

impl Session {
    pub(super) fn merge(&mut self, recorded: &Recorded<Fact>, fact: &SessionFact) {
        match fact {
            SessionFact::Started(started) => Latest::update(&mut self.started, recorded, started.clone()),
            SessionFact::Accessed(_) => self.accessed = self.accessed.max(Some(recorded.at)),
            SessionFact::Ended(_) => self.ended = self.ended.max(Some(recorded.at)),
        }
    }

    /// The summary for the profile; `None` before the session has started.
    pub(super) fn follows(&self, version: u64) -> Option<(String, Recorded<Fact>)> {
        let Latest { at, value: started, .. } = self.started.clone()?;
        let (user, id) =
            (user_aggregate(&started.user_id), format!("session:{}@{version}", started.session_id));
        let summary = Summary { since: at, version, started, accessed: self.accessed, ended: self.ended };
        let last = Some(at).max(self.accessed).max(self.ended).unwrap_or(at);
        Some((
            user,
            Recorded {
                id: id.into(),
                at: last,
                fact: Fact::Profile(ProfileFact::Session(Box::new(summary))),
            },
        ))
    }
}

impl Summary {
    /// Order of summaries: the greatest is current.
    pub(super) fn place(&self) -> (Time, &str, u64) {
        (self.since, &self.started.session_id, self.version)
    }

    /// The value that the profile embeds.
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
