//! A batch: users in parallel, each user in order. One failing user does not stop the others, and poison never stalls the stream.
//!
//! Rarely taken turns are boxed: a batch holds a thousand of these futures at once, and each has room for every turn that is not.

use chrono::TimeDelta;
use dues_events::Time;
use dues_events::decide::{Disposition, Rejection};
use dues_events::event::Event;
use dues_events::ids::{SubscriptionId, UserId};
use dues_events::wire::{WireError, peek};
use dues_store::parked::Parked;
use dues_store::user::UserRecords;
use dues_store::{CommitError, Committed, Engine, Store, StoreError};
use futures::FutureExt as _;
use futures::stream::{FuturesUnordered, StreamExt as _};
use std::collections::HashMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use crate::read_models::ReadModels;

/// What handlers run in.
#[derive(Clone)]
pub struct Context<E> {
    /// The records.
    pub store: Store<E>,
    /// How long a record that came too early is delivered again before it is parked.
    pub hold: TimeDelta,
    /// How many users are worked on at once.
    pub parallel: usize,
    /// Whether parked records are being driven through again: they are decided anew.
    pub redriving: bool,
    /// The read models that are told of what happens.
    pub read_models: ReadModels,
}

impl<E: Engine> Context<E> {
    /// With the usual patience: five minutes, and 128 users at once.
    pub fn new(store: Store<E>) -> Self {
        Self { store, hold: TimeDelta::minutes(5), parallel: 128, redriving: false, read_models: ReadModels::default() }
    }
}

/// A record as a stream delivers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// Names the delivery, never the fact.
    pub sequence: String,
    /// When it came onto the stream.
    pub arrived: Time,
    /// The record.
    pub data: Vec<u8>,
}

/// What a stream's handler has to know.
pub trait Handler: Send + Sync + 'static {
    /// What its records say.
    type Event: Send + Sync;
    /// The stream it reads.
    const STREAM: &'static str;

    /// Reads a record; `None` for a type that is not for this handler.
    ///
    /// # Errors
    /// [`WireError`] names the field.
    fn decode(bytes: &[u8]) -> Result<Option<Self::Event>, WireError>;

    /// Whose event it is: events of one user stay in order.
    fn user(event: &Self::Event) -> &UserId;

    /// Where a refused event is noted: the record, and the event as that record sees it.
    fn target(user: &UserRecords, event: &Self::Event) -> Option<(SubscriptionId, Event)>;

    /// Applies it to the user's records.
    fn apply<E: Engine>(
        store: &Store<E>,
        user: &mut UserRecords,
        event: &Self::Event,
    ) -> impl Future<Output = Result<Committed, CommitError>> + Send;
}

/// What became of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It changed something.
    Applied,
    /// It was known already.
    Duplicate,
    /// It changed nothing, and history says why.
    Ignored,
    /// Its type is not for us.
    Skipped,
    /// It was put aside, with the reason.
    Parked,
    /// It has to be delivered again.
    Failed(String),
}

/// How many records met which fate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Changed something.
    pub applied: u64,
    /// Were known.
    pub duplicate: u64,
    /// Changed nothing.
    pub ignored: u64,
    /// Not for us.
    pub skipped: u64,
    /// Put aside.
    pub parked: u64,
    /// To be delivered again.
    pub failed: u64,
}

impl Counts {
    /// Counts one.
    pub fn count(&mut self, fate: &Fate) {
        match fate {
            Fate::Applied => self.applied += 1,
            Fate::Duplicate => self.duplicate += 1,
            Fate::Ignored => self.ignored += 1,
            Fate::Skipped => self.skipped += 1,
            Fate::Parked => self.parked += 1,
            Fate::Failed(_) => self.failed += 1,
        }
    }

    /// Adds those of another batch.
    pub fn add(&mut self, other: &Self) {
        self.applied += other.applied;
        self.duplicate += other.duplicate;
        self.ignored += other.ignored;
        self.skipped += other.skipped;
        self.parked += other.parked;
        self.failed += other.failed;
    }

    /// Each with its name.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 6] {
        let Self { applied, duplicate, ignored, skipped, parked, failed } = *self;
        [("applied", applied), ("duplicate", duplicate), ("ignored", ignored), ("skipped", skipped), ("parked", parked), ("failed", failed)]
    }
}

/// The fate of every record of a batch, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// One for each record.
    pub fates: Vec<Fate>,
}

impl Report {
    /// The place of the first record that has to be delivered again.
    #[must_use]
    pub fn first_failure(&self) -> Option<usize> {
        self.fates.iter().position(|fate| matches!(fate, Fate::Failed(_)))
    }

    /// How many met which fate.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.fates.iter().for_each(|fate| counts.count(fate));
        counts
    }
}

/// Runs a batch through a handler.
pub async fn process<H: Handler, E: Engine>(context: &Context<E>, records: &[Incoming]) -> Report {
    let mut fates: Vec<Option<Fate>> = Vec::new();
    fates.resize_with(records.len(), || None);
    let mut lanes: Vec<Lane<'_, H>> = Vec::new();
    let mut lane_of: HashMap<UserId, usize> = HashMap::new();
    let mut malformed = FuturesUnordered::new();
    for (place, record) in records.iter().enumerate() {
        match H::decode(&record.data) {
            Ok(Some(event)) => {
                let lane = *lane_of.entry(H::user(&event).clone()).or_insert_with(|| {
                    lanes.push(Lane { user: H::user(&event).clone(), events: Vec::new() });
                    lanes.len() - 1
                });
                lanes[lane].events.push(Letter { place, record, event });
            }
            Ok(None) => fates[place] = Some(Fate::Skipped),
            Err(error) => malformed.push(park_malformed::<H, E>(context, place, record, error)),
        }
    }
    while let Some((place, fate)) = malformed.next().await {
        fates[place] = Some(fate);
    }
    while !lanes.is_empty() {
        let together: Vec<Lane<'_, H>> = lanes.drain(..lanes.len().min(context.parallel.max(1))).collect();
        let users = context.store.load_users(together.iter().map(|lane| &lane.user)).await;
        let mut running: FuturesUnordered<_> = together
            .into_iter()
            .zip(users)
            .map(|(lane, user)| {
                let places = lane.events.iter().map(|letter| letter.place).collect();
                guarded(places, run_lane(context, lane, user))
            })
            .collect();
        while let Some(done) = running.next().await {
            for (place, fate) in done {
                fates[place] = Some(fate);
            }
        }
    }
    // Every record went into a lane or was given its fate above.
    Report { fates: fates.into_iter().map(|fate| fate.unwrap_or_else(|| Fate::Failed("was not reached".into()))).collect() }
}

/// Works on the records of one user, at these places of the batch. A panic fails them, and nobody else's.
pub(crate) async fn guarded(places: Vec<usize>, lane: impl Future<Output = Vec<(usize, Fate)>>) -> Vec<(usize, Fate)> {
    match AssertUnwindSafe(lane).catch_unwind().await {
        Ok(fates) => fates,
        Err(_) => {
            tracing::error!(records = places.len(), "the handler panicked: the records of one user have to be delivered again");
            places.into_iter().map(|place| (place, Fate::Failed("the handler panicked".to_owned()))).collect()
        }
    }
}

/// The events of one user, in order.
struct Lane<'a, H: Handler> {
    user: UserId,
    events: Vec<Letter<'a, H>>,
}

struct Letter<'a, H: Handler> {
    place: usize,
    record: &'a Incoming,
    event: H::Event,
}

async fn run_lane<H: Handler, E: Engine>(
    context: &Context<E>,
    lane: Lane<'_, H>,
    user: Result<UserRecords, StoreError>,
) -> Vec<(usize, Fate)> {
    let mut fates = Vec::with_capacity(lane.events.len());
    let mut held: Vec<(Letter<'_, H>, Rejection)> = Vec::new();
    let mut user = match user {
        Ok(user) => UserRecords { redriving: context.redriving, ..user },
        Err(error) => {
            for letter in &lane.events {
                fates.push((letter.place, Box::pin(store_failed(context, letter, &error)).await));
            }
            return fates;
        }
    };
    let mut broken: Option<StoreError> = None;
    for letter in lane.events {
        if let Some(error) = &broken {
            // What comes after a failure must not overtake it.
            fates.push((letter.place, Fate::Failed(format!("behind a record that failed: {error}"))));
            continue;
        }
        match H::apply(&context.store, &mut user, &letter.event).await {
            Ok(committed) => {
                fates.push((letter.place, fate(committed)));
                if !held.is_empty() {
                    // What came too early may have been waiting for this one, also when another handler was faster with it.
                    held = Box::pin(retry_held(context, &mut user, held, &mut fates)).await;
                }
            }
            Err(CommitError::Rejected(rejection)) => match rejection.disposition() {
                Disposition::Hold => held.push((letter, rejection)),
                Disposition::Park => fates.push((letter.place, Box::pin(rejected(context, &mut user, &letter, &rejection)).await)),
            },
            Err(CommitError::Store(error)) if error.is_transient() => {
                fates.push((letter.place, Fate::Failed(error.to_string())));
                broken = Some(error);
            }
            Err(CommitError::Store(error)) => fates.push((letter.place, Box::pin(store_failed(context, &letter, &error)).await)),
        }
    }
    if !held.is_empty() && broken.is_none() {
        // Another handler may have brought what they wait for, since the records were read.
        if let Ok(now) = Box::pin(context.store.load_user(&lane.user)).await {
            user = UserRecords { redriving: context.redriving, ..now };
            held = Box::pin(retry_held(context, &mut user, held, &mut fates)).await;
        }
    }
    for (letter, rejection) in held {
        let waited = context.store.clock.now() - letter.record.arrived;
        let fate = if rejection.disposition() == Disposition::Hold && waited < context.hold {
            Fate::Failed(rejection.to_string())
        } else {
            Box::pin(rejected(context, &mut user, &letter, &rejection)).await
        };
        fates.push((letter.place, fate));
    }
    fates
}

async fn retry_held<'a, H: Handler, E: Engine>(
    context: &Context<E>,
    user: &mut UserRecords,
    held: Vec<(Letter<'a, H>, Rejection)>,
    fates: &mut Vec<(usize, Fate)>,
) -> Vec<(Letter<'a, H>, Rejection)> {
    let mut still = Vec::new();
    for (letter, _) in held {
        match H::apply(&context.store, user, &letter.event).await {
            Ok(committed) => fates.push((letter.place, fate(committed))),
            // The reason may be another one by now.
            Err(CommitError::Rejected(rejection)) => still.push((letter, rejection)),
            Err(CommitError::Store(error)) => fates.push((letter.place, Fate::Failed(error.to_string()))),
        }
    }
    still
}

fn fate(committed: Committed) -> Fate {
    match committed {
        Committed::Applied => Fate::Applied,
        Committed::Ignored(_) => Fate::Ignored,
        Committed::Duplicate => Fate::Duplicate,
        Committed::Parked => Fate::Parked,
    }
}

async fn park_malformed<H: Handler, E: Engine>(context: &Context<E>, place: usize, record: &Incoming, error: WireError) -> (usize, Fate) {
    (place, park::<H, E>(context, record, "malformed", error.to_string(), peek(&record.data)).await)
}

/// Parks an event that its record refused, and notes that on the record.
async fn rejected<H: Handler, E: Engine>(
    context: &Context<E>,
    user: &mut UserRecords,
    letter: &Letter<'_, H>,
    rejection: &Rejection,
) -> Fate {
    let (event_id, _) = peek(&letter.record.data);
    let whose = H::user(&letter.event).to_string();
    let fate = park::<H, E>(context, letter.record, rejection.code(), rejection.to_string(), (event_id, Some(whose))).await;
    if fate == Fate::Parked
        && let Some((id, event)) = H::target(user, &letter.event)
        && let Err(error) = context.store.refuse(user, &id, &event, rejection).await
    {
        return Fate::Failed(error.to_string());
    }
    fate
}

async fn store_failed<H: Handler, E: Engine>(context: &Context<E>, letter: &Letter<'_, H>, error: &StoreError) -> Fate {
    if error.is_transient() {
        return Fate::Failed(error.to_string());
    }
    // Delivering it again cannot help: somebody has to look at the row.
    let (event_id, _) = peek(&letter.record.data);
    let user = H::user(&letter.event).to_string();
    park::<H, E>(context, letter.record, "store", error.to_string(), (event_id, Some(user))).await
}

/// Parks a record of something that is no stream of a [`Handler`]. Gives [`Fate::Parked`] or [`Fate::Failed`].
pub async fn park_record<E: Engine>(store: &Store<E>, stream: &str, record: &Incoming, code: &str, reason: String) -> Fate {
    park_as(store, stream, record, code, reason, peek(&record.data)).await
}

async fn park<H: Handler, E: Engine>(
    context: &Context<E>,
    record: &Incoming,
    code: &str,
    reason: String,
    who: (Option<String>, Option<String>),
) -> Fate {
    park_as(&context.store, H::STREAM, record, code, reason, who).await
}

/// Parks a record of which is known what it is and whose. Gives [`Fate::Parked`] or [`Fate::Failed`].
pub(crate) async fn park_as<E: Engine>(
    store: &Store<E>,
    stream: &str,
    record: &Incoming,
    code: &str,
    reason: String,
    (event_id, user_id): (Option<String>, Option<String>),
) -> Fate {
    let parked = Parked {
        stream: stream.to_owned(),
        id: Parked::id_of(stream, &record.data),
        code: code.to_owned(),
        reason,
        event_id,
        user_id,
        sequence: record.sequence.clone(),
        parked_at: store.clock.now(),
        body: record.data.clone(),
    };
    match store.park(&parked).await {
        Ok(()) => Fate::Parked,
        Err(error) => Fate::Failed(format!("could not be parked ({}): {error}", parked.reason)),
    }
}
