//! Snapshots of the aggregates, shared by all pages. One task scans all records once, on the first page
//! load, then follows the change log once a second while there are readers: a hundred readers cost as much
//! as one.

mod aggregator;
mod snapshot;

use dues_store::Store;
use dues_store::embedded::Embedded;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};

use aggregator::Aggregator;
pub(super) use snapshot::{Snapshot, Transition};

/// The interval between snapshots while there are readers.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long a page waits for a newer snapshot, and for the first one.
const REFRESH_TIMEOUT: Duration = Duration::from_millis(400);
const FIRST_TIMEOUT: Duration = Duration::from_secs(2);
/// The delay after the store could not be read.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// The latest snapshot and its subscribers. Clones share them.
#[derive(Clone)]
pub(super) struct Snapshots(Arc<Shared>);

struct Shared {
    store: Store<Embedded>,
    stopping: watch::Receiver<bool>,
    latest: watch::Sender<Arc<Snapshot>>,
    /// Wakes the task when a page needs a snapshot.
    requested: Notify,
    subscribers: AtomicUsize,
    is_started: AtomicBool,
}

impl Snapshots {
    pub(super) fn new(store: Store<Embedded>, stopping: watch::Receiver<bool>) -> Self {
        let latest = watch::channel(Arc::new(Snapshot::empty(&store))).0;
        let (requested, subscribers, is_started) =
            (Notify::new(), AtomicUsize::new(0), AtomicBool::new(false));
        Self(Arc::new(Shared { store, stopping, latest, requested, subscribers, is_started }))
    }

    /// A snapshot that is at most a second old, if the store can be read in time.
    pub(super) async fn current(&self) -> Arc<Snapshot> {
        let mut updates = self.updates();
        let known = updates.borrow_and_update().clone();
        let timeout = match known.counting {
            None if self.0.store.clock.uptime().saturating_sub(known.uptime) < INTERVAL => return known,
            None => REFRESH_TIMEOUT,
            Some(0) => FIRST_TIMEOUT,
            // A long first scan: show its progress instead of waiting.
            Some(_) => return known,
        };
        let sleep = self.0.store.clock.sleep(timeout);
        tokio::select! {
            // Progress of the first scan is not a complete snapshot.
            _ = updates.wait_for(|new| new.counting.is_none() && new.uptime > known.uptime) => {}
            () = sleep => {}
        }
        Arc::clone(&updates.borrow())
    }

    /// The latest snapshot, of any age.
    pub(super) fn latest(&self) -> Arc<Snapshot> {
        Arc::clone(&self.0.latest.borrow())
    }

    /// Snapshots as they are published; starts or wakes the task.
    fn updates(&self) -> watch::Receiver<Arc<Snapshot>> {
        if !self.0.is_started.swap(true, Ordering::SeqCst) {
            tokio::spawn(run(self.0.clone()));
        }
        self.0.requested.notify_one();
        self.0.latest.subscribe()
    }

    /// Snapshots for a long-lived reader, which keeps the task running until the [`Subscriber`] is dropped.
    /// `None` if there are `limit` readers already.
    pub(super) fn subscribe(&self, limit: usize) -> Option<(Subscriber, watch::Receiver<Arc<Snapshot>>)> {
        let before = self.0.subscribers.fetch_add(1, Ordering::SeqCst);
        let subscriber = Subscriber(self.0.clone());
        (before < limit).then(|| (subscriber, self.updates()))
    }

    pub(super) fn stopping(&self) -> watch::Receiver<bool> {
        self.0.stopping.clone()
    }
}

/// A long-lived reader.
pub(super) struct Subscriber(Arc<Shared>);

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.0.subscribers.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn run(shared: Arc<Shared>) {
    let mut stopping = shared.stopping.clone();
    let mut aggregator = Aggregator::default();
    while !*stopping.borrow() {
        let here = shared.clone();
        // Scans take long: keep them off the threads that serve requests.
        let update = tokio::task::spawn_blocking(move || {
            let result = aggregator.catch_up(
                &here.store,
                || *here.stopping.borrow(),
                |snapshot| drop(here.latest.send_replace(snapshot)),
            );
            (aggregator, result)
        });
        let Ok((returned, result)) = update.await else { return };
        aggregator = returned;
        let mut delay = INTERVAL;
        if let Err(error) = result {
            tracing::warn!(%error, "console aggregates failed, retrying");
            (aggregator, delay) = (Aggregator::default(), RETRY_DELAY);
        }
        tokio::select! {
            () = shared.store.clock.sleep(delay) => {}
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
        if shared.subscribers.load(Ordering::SeqCst) == 0 {
            tokio::select! {
                () = shared.requested.notified() => {}
                _ = stopping.wait_for(|stopping| *stopping) => return,
            }
        }
    }
}
