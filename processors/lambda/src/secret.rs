//! A secret in Secrets Manager: read on first use, cached, and refreshed when it expires.
//!
//! The SDK reads it, not Amazon's extension: that is a layer with a different owner in each region, and a
//! second process in every environment that starts before the function does. One request every five minutes
//! needs neither.

use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::error::DisplayErrorContext;
use dues_store::SharedClock;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// How long a value is used before it is read again. When a secret rotates, both values must stay valid for
/// longer than this.
pub const FRESH: Duration = Duration::from_secs(300);
/// How long an expired value stays in use after a failed refresh.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// The secret could not be read, and no earlier value exists.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("secret {id}: {why}")]
pub struct SecretError {
    /// The secret.
    pub id: String,
    /// The error of Secrets Manager.
    pub why: String,
}

/// A secret. Clones share the cached value.
#[derive(Clone)]
pub struct Secret {
    client: Client,
    id: String,
    clock: SharedClock,
    kept: Arc<Mutex<Option<Kept>>>,
}

struct Kept {
    value: Arc<str>,
    /// The uptime at which it expires.
    until: Duration,
}

impl Secret {
    /// The secret with that ARN.
    #[must_use]
    pub fn new(client: Client, id: String, clock: SharedClock) -> Self {
        Self { client, id, clock, kept: Arc::default() }
    }

    /// The value, which is never logged. If a refresh fails, the old value stays in use.
    ///
    /// # Errors
    /// [`SecretError`] when there is no value at all.
    pub async fn value(&self) -> Result<Arc<str>, SecretError> {
        let mut kept = self.kept.lock().await;
        let now = self.clock.uptime();
        if let Some(kept) = kept.as_ref().filter(|kept| now < kept.until) {
            return Ok(kept.value.clone());
        }
        match (self.read().await, kept.as_mut()) {
            (Ok(value), _) => {
                *kept = Some(Kept { value: value.clone(), until: now + FRESH });
                Ok(value)
            }
            (Err(error), Some(old)) => {
                tracing::warn!(secret = self.id, %error, "an old value is used");
                old.until = now + RETRY_AFTER;
                Ok(old.value.clone())
            }
            (Err(error), None) => Err(error),
        }
    }

    async fn read(&self) -> Result<Arc<str>, SecretError> {
        let failed = |why: String| SecretError { id: self.id.clone(), why };
        let answer = self.client.get_secret_value().secret_id(&self.id).send().await;
        let answer = answer.map_err(|error| failed(DisplayErrorContext(&error).to_string()))?;
        let value = answer.secret_string().map(str::trim).filter(|value| !value.is_empty());
        value.map(Arc::from).ok_or_else(|| failed("holds no text".to_owned()))
    }
}
