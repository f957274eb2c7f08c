//! A stream and a bus that drop and reorder messages, and sometimes lose the response to one they accepted.

use dues_processors::messaging::bus::{Bus, Message};
use dues_processors::messaging::outbox::{Outbox, Outgoing, PublishError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A message as a consumer sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The user id.
    pub user: String,
    /// The message id.
    pub id: String,
    /// The payload.
    pub data: Vec<u8>,
}

/// Stores every accepted message in the order of acceptance. Clones share them.
#[derive(Debug, Clone)]
pub struct Leaky {
    taken: Arc<Mutex<Vec<Seen>>>,
    dice: Arc<Mutex<fastrand::Rng>>,
    /// Failures per thousand messages; each request draws one of these rates.
    odds: Arc<Mutex<Vec<u32>>>,
}

impl Leaky {
    /// Requests fail at one of these rates, in messages per thousand.
    pub fn new(seed: u64, odds: &[u32]) -> Self {
        Self {
            taken: Arc::default(),
            dice: Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))),
            odds: Arc::new(Mutex::new(odds.to_vec())),
        }
    }

    /// Accepts everything.
    pub fn sound() -> Self {
        Self::new(0, &[0])
    }

    /// Sets the failure rates of later requests.
    pub fn set_odds(&self, odds: &[u32]) {
        *lock(&self.odds) = odds.to_vec();
    }

    /// The messages accepted so far.
    pub fn taken(&self) -> Vec<Seen> {
        lock(&self.taken).clone()
    }

    /// Accepts the messages of one request in random order, yielding in between, so that a cancelled caller
    /// leaves some accepted.
    async fn request(&self, messages: Vec<Seen>) -> Vec<Result<(), PublishError>> {
        let count = messages.len();
        let mut answers = vec![Ok(()); count];
        let mut places: Vec<usize> = (0..count).collect();
        let odds = {
            let mut dice = lock(&self.dice);
            dice.shuffle(&mut places);
            dice.choice(lock(&self.odds).iter().copied()).unwrap_or_default()
        };
        for (n, place) in places.into_iter().enumerate() {
            if n % 16 == 0 {
                tokio::task::yield_now().await;
            }
            let (fails, arrives) = {
                let mut dice = lock(&self.dice);
                (dice.u32(..1000) < odds, dice.bool())
            };
            if !fails || arrives {
                lock(&self.taken).push(messages[place].clone());
            }
            if fails {
                let why =
                    if arrives { "the answer was lost" } else { "ProvisionedThroughputExceededException" };
                answers[place] = Err(PublishError::Transient(why.to_owned()));
            }
        }
        answers
    }
}

impl Outbox for Leaky {
    async fn put_many(&self, messages: &[Outgoing]) -> Vec<Result<(), PublishError>> {
        let seen = |message: &Outgoing| Seen {
            user: message.key.clone(),
            id: message.id.to_string(),
            data: message.data.clone(),
        };
        self.request(messages.iter().map(seen).collect()).await
    }
}

impl Bus for Leaky {
    async fn publish(&self, messages: &[Message]) -> Vec<Result<(), PublishError>> {
        let seen = |message: &Message| Seen {
            user: message.detail["user_id"].as_str().unwrap().to_owned(),
            id: message.id.to_string(),
            data: format!("{} {:?} {}", message.detail_type, message.at, message.detail).into_bytes(),
        };
        self.request(messages.iter().map(seen).collect()).await
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
