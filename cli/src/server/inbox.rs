//! The webhook's inbox in the embedded program, a durable local stream; and the webhook's signing secrets.

use dues_processors::entitlements::stripe_webhook::{STREAM, Secrets};
use dues_processors::messaging::inbox::{Inbox, InboxError};
use dues_store::Store;
use dues_store::embedded::Embedded;
use std::path::Path;
use tokio::sync::watch;

use crate::args::ServeArgs;
use crate::output::Error;

/// Appends events to the stream and notifies its handler.
#[derive(Clone)]
pub(super) struct LocalInbox {
    store: Store<Embedded>,
    appended: watch::Sender<()>,
}

impl LocalInbox {
    /// `appended` notifies of new events.
    pub(super) fn new(store: Store<Embedded>, appended: watch::Sender<()>) -> Self {
        Self { store, appended }
    }
}

impl Inbox for LocalInbox {
    async fn put(&self, key: &str, body: &[u8]) -> Result<(), InboxError> {
        let record = (key.to_owned(), body.to_vec());
        match self.store.engine.append(STREAM, self.store.clock.now(), vec![record]).await {
            Ok(_) => {
                self.appended.send_replace(());
                Ok(())
            }
            Err(error) if error.is_transient() => Err(InboxError::Unavailable(error.to_string())),
            Err(error) => Err(InboxError::Refused(error.to_string())),
        }
    }
}

/// Signing secrets from the file, one per line, and from the environment.
pub(super) fn secrets(args: &ServeArgs) -> Result<Secrets, Error> {
    let named = args.stripe_secrets.clone().unwrap_or_default();
    let Some(file) = &args.stripe_secret_file else { return Ok(named) };
    Ok(read_secrets(file)?.and(named))
}

fn read_secrets(file: &Path) -> Result<Secrets, Error> {
    let text = std::fs::read_to_string(file)
        .map_err(|cause| Error::Io { doing: format!("read {}", file.display()), cause })?;
    let secrets = Secrets::read(&text);
    // An empty file is a configuration error: the operator meant to set secrets.
    if secrets.is_empty() {
        Err(Error::Message(format!("there is no secret in {}", file.display())))
    } else {
        Ok(secrets)
    }
}
