//! The inbox of the one-file program: a durable local stream.

use dues_processors::inbox::{Inbox, InboxError};
use dues_processors::webhook::STREAM;
use dues_store::Store;
use dues_store::embedded::Embedded;
use tokio::sync::watch;

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
