//! `kinesis-feeder`: tells others of changes. Every change of a billing record goes onto the stream `subscriptions`; what it means, and which credits and
//! tiers users get, goes onto the bus.
//!
//! A change is told at least once, and under the same id every time. The order of a user's changes is kept because no more than one of them is on its
//! way: the next is sent when all that the one before it has to tell was taken. A request that fails in part, a crash and a redelivery can then
//! repeat messages, but not swap them. Users do not wait for each other: a round sends the next change of all of them in as few requests as take them.

use aws_lambda_events::event::streams::DynamoDbEventResponse;
use dues_events::UserId;
use dues_events::record::ReadError;
use dues_projections::feed::{self, Message, Told};
use dues_store::table::{BILLING_ACTIVITY, GG_CORE};
use dues_store::{Engine, Store, TableNames};
use std::collections::{BTreeMap, VecDeque};

use crate::batch::{Fate, Report};
use crate::bus::Bus;
use crate::changes::follower::{handle, park_change};
use crate::changes::{Change, DynamoStreamEvent, Follower};
use crate::outbox::{NotTaken, Outbox, Outgoing};

/// Its name: of its checkpoint, and before the slash of what it has parked.
pub const NAME: &str = "kinesis-feeder";
/// Why a change is parked whose row cannot be read.
const UNREADABLE: &str = "unreadable";
/// Why a change is parked whose message nobody takes.
const REFUSED: &str = "message_refused";

/// What the feeder works with.
#[derive(Clone)]
pub struct KinesisFeeder<E, O, B> {
    /// The tables, for what has to be parked.
    pub store: Store<E>,
    /// The stream `subscriptions`.
    pub outbox: O,
    /// The bus.
    pub bus: B,
    /// What the deployment calls the tables.
    pub tables: TableNames,
}

/// `kinesis-feeder`: handles a batch of a table's stream. The answer names the first record that has to be delivered again.
pub async fn kinesis_feeder<E: Engine, O: Outbox, B: Bus>(
    feeder: &KinesisFeeder<E, O, B>,
    event: DynamoStreamEvent,
) -> DynamoDbEventResponse {
    handle(feeder, event).await
}

impl<E: Engine, O: Outbox, B: Bus> KinesisFeeder<E, O, B> {
    /// With the tables' usual names.
    pub fn new(store: Store<E>, outbox: O, bus: B) -> Self {
        Self { store, outbox, bus, tables: TableNames::default() }
    }

    /// Tells of these changes.
    pub async fn feed(&self, changes: &[Change]) -> Report {
        let mut fates = vec![Fate::Skipped; changes.len()];
        let mut lanes: BTreeMap<UserId, VecDeque<(usize, Told)>> = BTreeMap::new();
        for (place, change) in changes.iter().enumerate() {
            match told(change) {
                Ok(Some(told)) => lanes.entry(told.user.clone()).or_default().push_back((place, told)),
                Ok(None) => {}
                Err(error) => {
                    let user = change.partition().trim_start_matches("USER#").into();
                    fates[place] = park_change(self, change, UNREADABLE, error.to_string(), &user).await;
                }
            }
        }
        while !lanes.is_empty() {
            let round = take_round(&mut lanes, if O::IN_ORDER && B::IN_ORDER { usize::MAX } else { 1 });
            let answers = self.send(&round).await;
            for ((place, told), answer) in round.into_iter().zip(answers) {
                fates[place] = match answer {
                    Ok(()) => Fate::Applied,
                    // Delivering it again cannot help: somebody has to look.
                    Err(NotTaken::Never(why)) => park_change(self, &changes[place], REFUSED, why, &told.user).await,
                    Err(NotTaken::Later(why)) => Fate::Failed(why),
                };
                if let Fate::Failed(why) = &fates[place] {
                    // What comes after a failure must not overtake it.
                    let behind = Fate::Failed(format!("behind a record that failed: {why}"));
                    for (place, _) in lanes.remove(&told.user).unwrap_or_default() {
                        fates[place] = behind.clone();
                    }
                }
            }
        }
        Report { fates }
    }

    /// Tells of one change, once more if need be. What nobody takes, or can read, is parked already.
    pub(crate) async fn repeat(&self, change: &Change) -> Fate {
        let told = match told(change) {
            Ok(Some(told)) => told,
            Ok(None) => return Fate::Skipped,
            Err(_) => return Fate::Parked,
        };
        match self.send(&[(0, told)]).await.into_iter().collect::<Result<(), NotTaken>>() {
            Ok(()) => Fate::Applied,
            Err(NotTaken::Never(_)) => Fate::Parked,
            Err(NotTaken::Later(why)) => Fate::Failed(why),
        }
    }

    /// Sends all that these changes tell. Gives, for each change, why something of it was not taken.
    async fn send(&self, round: &[(usize, Told)]) -> Vec<Result<(), NotTaken>> {
        let updates: Vec<Outgoing> = round.iter().filter_map(|(_, told)| told.update.clone()).collect();
        let messages: Vec<Message> = round.iter().filter_map(|(_, told)| told.message.clone()).collect();
        let (updates, messages) = futures::join!(self.outbox.put_many(&updates), self.bus.publish(&messages));
        let (mut updates, mut messages) = (updates.into_iter(), messages.into_iter());
        round.iter().map(|(_, told)| both(answer(&told.update, &mut updates), answer(&told.message, &mut messages))).collect()
    }
}

impl<E: Engine, O: Outbox, B: Bus> Follower for KinesisFeeder<E, O, B> {
    type Engine = E;

    fn store(&self) -> &Store<E> {
        &self.store
    }

    fn tables(&self) -> &TableNames {
        &self.tables
    }

    fn parked_as(&self, table: &str) -> String {
        format!("{NAME}/{table}")
    }

    async fn follow(&self, changes: &[Change]) -> Report {
        self.feed(changes).await
    }
}

/// What a change tells; nothing, for a table that others are not told of.
fn told(change: &Change) -> Result<Option<Told>, ReadError> {
    let (old, new) = (change.old.as_ref(), change.new.as_ref());
    match change.table.name {
        name if name == BILLING_ACTIVITY.name => feed::billing(old, new),
        name if name == GG_CORE.name => feed::core(old, new),
        _ => Ok(None),
    }
}

/// Takes the next changes of every user, so many of each at the most, in the order in which they came.
fn take_round(lanes: &mut BTreeMap<UserId, VecDeque<(usize, Told)>>, most: usize) -> Vec<(usize, Told)> {
    let mut round: Vec<(usize, Told)> = lanes.values_mut().flat_map(|lane| lane.drain(..most.min(lane.len()))).collect();
    lanes.retain(|_, lane| !lane.is_empty());
    round.sort_by_key(|(place, _)| *place);
    round
}

/// What became of something that was sent, if there was anything to send.
fn answer<T>(sent: &Option<T>, said: &mut impl Iterator<Item = Result<(), NotTaken>>) -> Result<(), NotTaken> {
    match sent {
        None => Ok(()),
        Some(_) => said.next().unwrap_or_else(|| Err(NotTaken::Later("was not answered".to_owned()))),
    }
}

/// What became of a change that tells two things: one that may be taken later has to come again, whatever became of the other.
fn both(one: Result<(), NotTaken>, other: Result<(), NotTaken>) -> Result<(), NotTaken> {
    match (one, other) {
        (Err(NotTaken::Later(why)), _) | (_, Err(NotTaken::Later(why))) => Err(NotTaken::Later(why)),
        (Err(NotTaken::Never(why)), _) | (_, Err(NotTaken::Never(why))) => Err(NotTaken::Never(why)),
        (Ok(()), Ok(())) => Ok(()),
    }
}
