//! The inbox of the one-file program: a durable local stream; and whose signatures open it.

use dues_processors::inbox::{Inbox, InboxError};
use dues_processors::webhook::{STREAM, Secrets};
use dues_store::Store;
use dues_store::embedded::Embedded;
use std::path::Path;
use tokio::sync::watch;

use crate::args::Serve;
use crate::output::Error;

/// Takes events, and says so to whoever waits for them.
#[derive(Clone)]
pub(super) struct LocalInbox {
    store: Store<Embedded>,
    appended: watch::Sender<()>,
}

impl LocalInbox {
    /// With what tells of new events.
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

/// From the file, one on a line, and from the environment.
pub(super) fn secrets(args: &Serve) -> Result<Secrets, Error> {
    let named = args.stripe_secrets.clone().unwrap_or_default();
    let Some(file) = &args.stripe_secret_file else { return Ok(named) };
    Ok(read_secrets(file)?.and(named))
}

fn read_secrets(file: &Path) -> Result<Secrets, Error> {
    let text = std::fs::read_to_string(file).map_err(|cause| Error::Io { doing: format!("read {}", file.display()), cause })?;
    let secrets = Secrets::read(&text);
    // A file that was named and is empty is a mistake, not a wish.
    if secrets.is_empty() { Err(Error::Said(format!("there is no secret in {}", file.display()))) } else { Ok(secrets) }
}
