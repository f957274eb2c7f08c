//! A stream and a bus that take what they are sent, but not always, not at once and not in order, and sometimes do not say that they did.

use dues_processors::bus::{Bus, Message};
use dues_processors::outbox::{NotTaken, Outbox, Outgoing};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What one consumer sees: whose, under which id, and the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The user.
    pub user: String,
    /// The message's id.
    pub id: String,
    /// All of it.
    pub data: Vec<u8>,
}

/// Keeps every message that it takes, in the order in which it takes them. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Leaky {
    taken: Arc<Mutex<Vec<Seen>>>,
    dice: Arc<Mutex<fastrand::Rng>>,
    /// How many messages of a thousand fail; it may be set to another number for each request.
    odds: Arc<Mutex<Vec<u32>>>,
}

impl Leaky {
    /// One whose requests fail now and then, each with some of these odds in a thousand.
    pub fn new(seed: u64, odds: &[u32]) -> Self {
        Self {
            taken: Arc::default(),
            dice: Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))),
            odds: Arc::new(Mutex::new(odds.to_vec())),
        }
    }

    /// One that takes everything.
    pub fn sound() -> Self {
        Self::new(0, &[0])
    }

    /// From now on, requests fail with these odds.
    pub fn set_odds(&self, odds: &[u32]) {
        *lock(&self.odds) = odds.to_vec();
    }

    /// What was taken so far.
    pub fn taken(&self) -> Vec<Seen> {
        lock(&self.taken).clone()
    }

    /// One request: its messages are taken one after the other in an order of its own, and the caller may be gone before the last.
    async fn request(&self, messages: Vec<Seen>) -> Vec<Result<(), NotTaken>> {
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
                let why = if arrives { "the answer was lost" } else { "ProvisionedThroughputExceededException" };
                answers[place] = Err(NotTaken::Later(why.to_owned()));
            }
        }
        answers
    }
}

impl Outbox for Leaky {
    async fn put_many(&self, messages: &[Outgoing]) -> Vec<Result<(), NotTaken>> {
        let seen = |message: &Outgoing| Seen { user: message.key.clone(), id: message.id.to_string(), data: message.data.clone() };
        self.request(messages.iter().map(seen).collect()).await
    }
}

impl Bus for Leaky {
    async fn publish(&self, messages: &[Message]) -> Vec<Result<(), NotTaken>> {
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
