//! One task counts for everybody: it counts all records once, when somebody first looks, and from then on follows the change log, once a second and only
//! while somebody looks. Pages and listeners get what it has published, so a hundred of them cost as much as one.

mod count;
mod publish;

use dues_store::Store;
use dues_store::embedded::Embedded;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};

use count::Counter;
pub(super) use publish::{Move, Snapshot};

/// How old what is published may be while somebody looks.
const TICK: Duration = Duration::from_secs(1);
/// How long a page waits for something newer than that, and for the first count, which is soon done in a small store.
const PATIENCE: Duration = Duration::from_millis(400);
const FIRST_PATIENCE: Duration = Duration::from_secs(2);
/// The pause after the store could not be read.
const PAUSE: Duration = Duration::from_secs(5);

/// What is published, and who looks at it. Clones share it.
#[derive(Clone)]
pub(super) struct Watch(Arc<Shared>);

struct Shared {
    store: Store<Embedded>,
    stopping: watch::Receiver<bool>,
    latest: watch::Sender<Arc<Snapshot>>,
    /// Somebody wants to know.
    wanted: Notify,
    listeners: AtomicUsize,
    started: AtomicBool,
}

impl Watch {
    pub(super) fn new(store: Store<Embedded>, stopping: watch::Receiver<bool>) -> Self {
        let latest = watch::channel(Arc::new(Snapshot::empty(&store))).0;
        let (wanted, listeners, started) = (Notify::new(), AtomicUsize::new(0), AtomicBool::new(false));
        Self(Arc::new(Shared { store, stopping, latest, wanted, listeners, started }))
    }

    /// What is known, a second old at the most if the store can be read in time; a page says when it was counted.
    pub(super) async fn look(&self) -> Arc<Snapshot> {
        let mut told = self.listen();
        let seen = told.borrow_and_update().clone();
        let patience = match seen.counting {
            None if self.0.store.clock.uptime().saturating_sub(seen.uptime) < TICK => return seen,
            None => PATIENCE,
            Some(0) => FIRST_PATIENCE,
            // It takes its time: a page says how far it is, and comes at once.
            Some(_) => return seen,
        };
        let wait = self.0.store.clock.sleep(patience);
        tokio::select! {
            // While the first count is under way there is something new often, and none of it is whole.
            _ = told.wait_for(|now| now.counting.is_none() && now.uptime > seen.uptime) => {}
            () = wait => {}
        }
        Arc::clone(&told.borrow())
    }

    /// What was published last, however old it is.
    pub(super) fn latest(&self) -> Arc<Snapshot> {
        Arc::clone(&self.0.latest.borrow())
    }

    /// What tells of everything new.
    pub(super) fn listen(&self) -> watch::Receiver<Arc<Snapshot>> {
        if !self.0.started.swap(true, Ordering::SeqCst) {
            tokio::spawn(run(self.0.clone()));
        }
        self.0.wanted.notify_one();
        self.0.latest.subscribe()
    }

    /// Listens for as long as the guard lives, and keeps the count going. `None` when there are too many already.
    pub(super) fn join(&self, most: usize) -> Option<(Listener, watch::Receiver<Arc<Snapshot>>)> {
        let before = self.0.listeners.fetch_add(1, Ordering::SeqCst);
        let listener = Listener(self.0.clone());
        (before < most).then(|| (listener, self.listen()))
    }

    pub(super) fn stopping(&self) -> watch::Receiver<bool> {
        self.0.stopping.clone()
    }
}

/// Somebody who listens.
pub(super) struct Listener(Arc<Shared>);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.listeners.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn run(shared: Arc<Shared>) {
    let mut stopping = shared.stopping.clone();
    let mut counter = Counter::default();
    while !*stopping.borrow() {
        let here = shared.clone();
        // Reading takes as long as it takes, on a thread where nobody waits.
        let counted = tokio::task::spawn_blocking(move || {
            let result = counter.catch_up(&here.store, || *here.stopping.borrow(), |snapshot| drop(here.latest.send_replace(snapshot)));
            (counter, result)
        });
        let Ok((back, result)) = counted.await else { return };
        counter = back;
        let mut pause = TICK;
        if let Err(error) = result {
            tracing::warn!(%error, "the console could not count: trying again soon");
            (counter, pause) = (Counter::default(), PAUSE);
        }
        tokio::select! {
            () = shared.store.clock.sleep(pause) => {}
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
        if shared.listeners.load(Ordering::SeqCst) == 0 {
            tokio::select! {
                () = shared.wanted.notified() => {}
                _ = stopping.wait_for(|stopping| *stopping) => return,
            }
        }
    }
}
