//! A secret in Secrets Manager: read when it is first needed, kept, and read again when it has grown old.
//!
//! The SDK reads it, and not Amazon's extension: that is a layer whose owner differs by region, and a second process in every environment that starts
//! before the function does. One request in five minutes needs neither.

use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::error::DisplayErrorContext;
use dues_store::SharedClock;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// How long a value is used before it is read again. Whoever changes a secret leaves both in force for longer.
pub const FRESH: Duration = Duration::from_secs(300);
/// How long an old value is used when it could not be read again.
const PATIENCE: Duration = Duration::from_secs(30);

/// It could not be read, and never has been.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("secret {id}: {why}")]
pub struct SecretError {
    /// Which.
    pub id: String,
    /// What Secrets Manager said.
    pub why: String,
}

/// A secret. Clones share what was read.
#[derive(Clone)]
pub struct Secret {
    client: Client,
    id: String,
    clock: SharedClock,
    kept: Arc<Mutex<Option<Kept>>>,
}

struct Kept {
    value: Arc<str>,
    /// Until which uptime it is good.
    until: Duration,
}

impl Secret {
    /// The secret with that ARN.
    #[must_use]
    pub fn new(client: Client, id: String, clock: SharedClock) -> Self {
        Self { client, id, clock, kept: Arc::default() }
    }

    /// What it says, which no log shows. An old value is better than none: what cannot be read again is kept.
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
                old.until = now + PATIENCE;
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
