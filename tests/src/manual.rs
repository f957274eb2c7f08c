//! A clock that a test moves: what time it is, and how much has passed, are two hands of it.

use dues_events::Time;
use dues_store::{Clock, SharedClock};
use futures::future::BoxFuture;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// Stands until it is moved. Clones are the same clock.
#[derive(Debug, Clone)]
pub struct Manual {
    now: Arc<Mutex<Time>>,
    uptime: watch::Sender<Duration>,
}

impl Manual {
    /// Starts at that time.
    pub fn at(now: Time) -> Self {
        Self { now: Arc::new(Mutex::new(now)), uptime: watch::Sender::new(Duration::from_secs(1000)) }
    }

    /// To be given to a store.
    pub fn shared(&self) -> SharedClock {
        Arc::new(self.clone())
    }

    /// Lets time pass, on both hands; who sleeps wakes when it is time.
    pub fn advance(&self, passed: Duration) {
        *self.now.lock().unwrap() += passed;
        self.uptime.send_modify(|uptime| *uptime += passed);
    }

    /// Sets what time it is, as an operator or a time server does; nothing has passed.
    pub fn set_now(&self, now: Time) {
        *self.now.lock().unwrap() = now;
    }
}

impl Clock for Manual {
    fn now(&self) -> Time {
        *self.now.lock().unwrap()
    }

    fn uptime(&self) -> Duration {
        *self.uptime.borrow()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let mut uptime = self.uptime.subscribe();
        let due = self.uptime() + duration;
        Box::pin(async move {
            if uptime.wait_for(|uptime| *uptime >= due).await.is_err() {
                // Nobody is left who could move it.
                std::future::pending().await
            }
        })
    }
}
