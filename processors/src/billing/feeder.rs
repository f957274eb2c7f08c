//! `kinesis-feeder`: publishes changes. Every change of a billing record goes onto the stream
//! `subscriptions`; the business events that follow from it, credits and tiers included, go onto the bus.
//!
//! Delivery is at least once, under the same id every time. The order of a user's changes holds because only
//! one of them is in flight: the next is sent when all publications of the one before are accepted. A
//! request that fails in part, a crash or a redelivery can repeat messages, but not reorder them. Users do
//! not wait for each other: a round sends the next change of every user in as few requests as possible.

use aws_lambda_events::event::streams::DynamoDbEventResponse;
use dues_events::UserId;
use dues_events::billing::record::ReadError;
use dues_projections::billing::feed;
use dues_projections::billing::feed::{Message, Publications};
use dues_store::{Engine, Store, TableId, TableNames};

use crate::aws::triggers::dynamodb_streams::{DynamoStreamEvent, handle};
use crate::messaging::bus::Bus;
use crate::messaging::outbox::{Outbox, Outgoing, PublishError};
use crate::runtime::changes::{Change, Follower};
use crate::runtime::followers::park_change;
use crate::runtime::lanes::{Batch, BatchReport, Entry, Lane, Outcome, behind, lanes_by};
use crate::runtime::parking::Poison;

/// The name of its checkpoint, and the prefix of the stream names of its parked changes.
pub const NAME: &str = "kinesis-feeder";
/// Parked with this code: the row cannot be decoded.
const UNREADABLE: &str = "unreadable";
/// Parked with this code: the stream or the bus rejected the message.
const REFUSED: &str = "message_refused";

/// The feeder: its tables and sinks.
#[derive(Clone)]
pub struct KinesisFeeder<E, O, B> {
    /// The tables, for parking.
    pub store: Store<E>,
    /// The stream `subscriptions`.
    pub outbox: O,
    /// The bus.
    pub bus: B,
    /// The deployment's table names.
    pub tables: TableNames,
}

/// `kinesis-feeder`: handles a batch of a table's stream. The response names the first record to redeliver.
pub async fn kinesis_feeder<E: Engine, O: Outbox, B: Bus>(
    feeder: &KinesisFeeder<E, O, B>,
    event: DynamoStreamEvent,
) -> DynamoDbEventResponse {
    handle(feeder, event).await
}

impl<E: Engine, O: Outbox, B: Bus> KinesisFeeder<E, O, B> {
    /// With the default table names.
    pub fn new(store: Store<E>, outbox: O, bus: B) -> Self {
        Self { store, outbox, bus, tables: TableNames::default() }
    }

    /// Publishes changes.
    pub async fn feed(&self, changes: &[Change]) -> BatchReport {
        let mut batch = Batch::new(changes.len());
        let decode = |change| publications(change).map_err(|error| Poison::new(UNREADABLE, error));
        let park = |index: usize, poison| self.park(&changes[index], poison);
        let entries = batch.decode(changes.iter().enumerate(), decode, park).await;
        let mut lanes = lanes_by(entries, |publications| &publications.user);
        // Sinks that keep the order of a request take the whole lane in one.
        let per_lane = if O::IN_ORDER && B::IN_ORDER { usize::MAX } else { 1 };
        while !lanes.is_empty() {
            let round = take_round(&mut lanes, per_lane);
            let answers = self.send(&round).await;
            for (Entry { index, item }, answer) in round.into_iter().zip(answers) {
                let outcome = match answer {
                    Ok(()) => Outcome::Applied,
                    Err(PublishError::Rejected(why)) => {
                        park_change(self, &changes[index], Poison::new(REFUSED, why), &item.user).await
                    }
                    Err(PublishError::Transient(why)) => Outcome::Failed(why),
                };
                if let Outcome::Failed(why) = &outcome {
                    stop_lane(&mut batch, &mut lanes, &item.user, why);
                }
                batch.settle(index, outcome);
            }
        }
        batch.report()
    }

    /// Publishes one parked change again. A change that is still unreadable or rejected stays parked.
    pub(crate) async fn repeat(&self, change: &Change) -> Outcome {
        let item = match publications(change) {
            Ok(Some(publications)) => publications,
            Ok(None) => return Outcome::Skipped,
            Err(_) => return Outcome::Parked,
        };
        match self.send(&[Entry { index: 0, item }]).await.into_iter().collect::<Result<(), PublishError>>() {
            Ok(()) => Outcome::Applied,
            Err(PublishError::Rejected(_)) => Outcome::Parked,
            Err(PublishError::Transient(why)) => Outcome::Failed(why),
        }
    }

    /// Sends the publications of a round. Returns the result of each change.
    async fn send(&self, round: &[Entry<Publications>]) -> Vec<Result<(), PublishError>> {
        let updates: Vec<Outgoing> = round.iter().filter_map(|entry| entry.item.update.clone()).collect();
        let messages: Vec<Message> = round.iter().filter_map(|entry| entry.item.message.clone()).collect();
        let (updates, messages) = futures::join!(self.outbox.put_many(&updates), self.bus.publish(&messages));
        let (mut updates, mut messages) = (updates.into_iter(), messages.into_iter());
        round
            .iter()
            .map(|Entry { item, .. }| {
                both(answer(&item.update, &mut updates), answer(&item.message, &mut messages))
            })
            .collect()
    }

    async fn park(&self, change: &Change, poison: Poison) -> Outcome {
        let user = change.partition().trim_start_matches("USER#").into();
        park_change(self, change, poison, &user).await
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

    async fn follow(&self, changes: &[Change]) -> BatchReport {
        self.feed(changes).await
    }
}

/// The publications of a change; `None` for a table that is not published.
fn publications(change: &Change) -> Result<Option<Publications>, ReadError> {
    let (old, new) = (change.old.as_ref(), change.new.as_ref());
    match change.table.id {
        TableId::BillingActivity => feed::billing_publications(old, new),
        TableId::GgCore => feed::core_publications(old, new),
        TableId::History
        | TableId::Locks
        | TableId::Parked
        | TableId::Sandbox
        | TableId::Groups
        | TableId::Entitlements
        | TableId::Journal
        | TableId::UserSubscriptions
        | TableId::UserUsage
        | TableId::ActionsLog
        | TableId::Figureforge
        | TableId::Serenya
        | TableId::UnappliedMoney => Ok(None),
    }
}

/// Takes the next changes of every lane, in the order of the batch.
fn take_round(lanes: &mut Vec<Lane<UserId, Publications>>, per_lane: usize) -> Vec<Entry<Publications>> {
    let next =
        |lane: &mut Lane<_, _>| lane.entries.drain(..per_lane.min(lane.entries.len())).collect::<Vec<_>>();
    let mut round: Vec<Entry<Publications>> = lanes.iter_mut().flat_map(next).collect();
    lanes.retain(|lane| !lane.entries.is_empty());
    round.sort_by_key(|entry| entry.index);
    round
}

/// Fails the rest of a user's lane: it must not overtake the change that failed.
fn stop_lane(batch: &mut Batch, lanes: &mut Vec<Lane<UserId, Publications>>, user: &UserId, why: &str) {
    if let Some(stopped) = lanes.iter().position(|lane| lane.key == *user) {
        for entry in lanes.remove(stopped).entries {
            batch.settle(entry.index, behind(why));
        }
    }
}

/// The result of one publication; `Ok` if there was none to send.
fn answer<T>(
    sent: &Option<T>,
    answers: &mut impl Iterator<Item = Result<(), PublishError>>,
) -> Result<(), PublishError> {
    match sent {
        None => Ok(()),
        Some(_) => {
            answers.next().unwrap_or_else(|| Err(PublishError::Transient("was not answered".to_owned())))
        }
    }
}

/// The result of a change with two publications. A transient failure wins: the change is redelivered.
fn both(one: Result<(), PublishError>, other: Result<(), PublishError>) -> Result<(), PublishError> {
    match (one, other) {
        (Err(PublishError::Transient(why)), _) | (_, Err(PublishError::Transient(why))) => {
            Err(PublishError::Transient(why))
        }
        (Err(PublishError::Rejected(why)), _) | (_, Err(PublishError::Rejected(why))) => {
            Err(PublishError::Rejected(why))
        }
        (Ok(()), Ok(())) => Ok(()),
    }
}
