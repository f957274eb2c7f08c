//! `stripe-worker`: Stripe's events, from the inbox that the webhook and EventBridge fill to the user's entitlements.
//!
//! Users are worked on in parallel, the events of one user together. An event that names no user finds it by the objects that it names; one whose user
//! nobody has told of yet is parked, and goes through by itself as soon as somebody does.

use aws_lambda_events::event::kinesis::KinesisEvent;
use aws_lambda_events::event::streams::KinesisEventResponse;
use dues_events::UserId;
use dues_events::stripe::StripeEvent;
use dues_events::wire::WireError;
use dues_events::wire::stripe::{decode, peek};
use dues_store::entitlements::Waiting;
use dues_store::parked::Parked;
use dues_store::{Engine, StoreError};
use futures::future::join_all;
use futures::stream::{StreamExt as _, iter};
use std::collections::HashMap;

use crate::batch::{Context, Fate, Incoming, Report, guarded, park_as};
use crate::entitlements::{Told, tell};
use crate::kinesis;

/// The stream it reads.
pub const STREAM: &str = "stripe";
/// Why an event is parked whose user is not known.
pub const UNKNOWN_USER: &str = "unknown_user";

/// Handles one batch of the inbox.
pub async fn stripe<E: Engine>(context: &Context<E>, batch: KinesisEvent) -> KinesisEventResponse {
    let records = kinesis::incoming(batch);
    let report = stripe_worker(context, &records).await;
    kinesis::answer(STREAM, &records, &report, context.store.clock.now())
}

/// An event, and where it stands in the batch.
struct Letter {
    place: usize,
    event: StripeEvent,
    /// It was parked by an earlier delivery, until its user would be known.
    waited: bool,
}

/// Runs a batch of events.
pub async fn stripe_worker<E: Engine>(context: &Context<E>, records: &[Incoming]) -> Report {
    let mut fates: Vec<Option<Fate>> = vec![None; records.len()];
    let mut letters = Vec::with_capacity(records.len());
    for (place, record) in records.iter().enumerate() {
        match read(&record.data) {
            Ok(Some(event)) => letters.push(Letter { place, event, waited: false }),
            Ok(None) => fates[place] = Some(Fate::Skipped),
            Err(error) => fates[place] = Some(put_aside(context, record, "malformed", error.to_string()).await),
        }
    }
    // Twice: the first events may tell whose the others are.
    for last in [false, true] {
        let (lanes, strays) = by_user(context, records, letters, &mut fates).await;
        let guarded = lanes.into_iter().map(|(user, lane)| {
            let places = lane.iter().map(|letter| letter.place).collect();
            guarded(places, run_lane(context, records, user, lane))
        });
        let mut running = iter(guarded).buffer_unordered(context.parallel.max(1));
        while let Some(done) = running.next().await {
            done.into_iter().for_each(|(place, fate)| fates[place] = Some(fate));
        }
        drop(running);
        letters = strays;
        if last {
            for letter in std::mem::take(&mut letters) {
                let fate = wait(context, &records[letter.place], &letter.event).await;
                fates[letter.place] = Some(fate);
            }
        }
    }
    // Every record was given its fate above.
    Report { fates: fates.into_iter().map(|fate| fate.unwrap_or_else(|| Fate::Failed("was not reached".into()))).collect() }
}

/// Reads an event. A tier that there is not must not become no tier: somebody has paid for it.
fn read(bytes: &[u8]) -> Result<Option<StripeEvent>, WireError> {
    let event = decode(bytes)?;
    match event.as_ref().and_then(StripeEvent::unknown_tier) {
        Some(tier) => {
            Err(WireError { field: "data.object.metadata.planTier".to_owned(), problem: format!("{tier:?} is not the name of a tier") })
        }
        None => Ok(event),
    }
}

type Lanes = HashMap<UserId, Vec<Letter>>;

/// Sorts events by user; gives those apart whose user is not known.
async fn by_user<E: Engine>(
    context: &Context<E>,
    records: &[Incoming],
    letters: Vec<Letter>,
    fates: &mut [Option<Fate>],
) -> (Lanes, Vec<Letter>) {
    let (mut lanes, mut strays) = (Lanes::new(), Vec::new());
    let mut found = Vec::with_capacity(letters.len());
    for some in chunks(letters, context.parallel) {
        found.extend(join_all(some.into_iter().map(|letter| whose(context, letter))).await);
    }
    for (letter, user) in found {
        match user {
            Ok(Some(user)) => lanes.entry(user).or_default().push(letter),
            Ok(None) => strays.push(letter),
            Err(error) => fates[letter.place] = Some(failed(context, &records[letter.place], &error).await),
        }
    }
    (lanes, strays)
}

/// Finds out whose an event is, and whether it was waiting to know.
async fn whose<E: Engine>(context: &Context<E>, mut letter: Letter) -> (Letter, Result<Option<UserId>, StoreError>) {
    if let Some(user) = letter.event.user() {
        let user = user.clone();
        return (letter, Ok(Some(user)));
    }
    let owner = match context.store.owner(&letter.event).await {
        Ok(owner) => owner,
        Err(error) => return (letter, Err(error)),
    };
    if owner.user.is_some() && owner.was_waited_for {
        match context.store.is_parked(STREAM, &parked_id(&letter.event)).await {
            Ok(waited) => letter.waited = waited,
            Err(error) => return (letter, Err(error)),
        }
    }
    (letter, Ok(owner.user))
}

fn chunks<T>(mut all: Vec<T>, size: usize) -> Vec<Vec<T>> {
    let mut cut = Vec::new();
    while !all.is_empty() {
        let rest = all.split_off(all.len().min(size.max(1)));
        cut.push(std::mem::replace(&mut all, rest));
    }
    cut
}

/// However often it is delivered, and by whichever door, an event waits once.
pub(crate) fn parked_id(event: &StripeEvent) -> String {
    Parked::id_of(STREAM, event.id.as_str().as_bytes())
}

async fn run_lane<E: Engine>(context: &Context<E>, records: &[Incoming], user: UserId, lane: Vec<Letter>) -> Vec<(usize, Fate)> {
    let events: Vec<StripeEvent> = lane.iter().map(|letter| letter.event.clone()).collect();
    let told = tell(&context.store, &user, &events).await;
    let mut fates = Vec::with_capacity(lane.len());
    for (n, letter) in lane.iter().enumerate() {
        let fate = match &told {
            Ok(told) => match told.get(n) {
                Some(Told::Applied) | None => waits_no_more(context, letter, Fate::Applied).await,
                Some(Told::Duplicate) => waits_no_more(context, letter, Fate::Duplicate).await,
                Some(Told::Different) => {
                    let reason = format!("event {} is known with other content", letter.event.id);
                    put_aside(context, &records[letter.place], "different_content", reason).await
                }
            },
            Err(error) => failed(context, &records[letter.place], error).await,
        };
        fates.push((letter.place, fate));
    }
    fates
}

/// Takes an event out of the parked ones that has gone through after all.
async fn waits_no_more<E: Engine>(context: &Context<E>, letter: &Letter, fate: Fate) -> Fate {
    if !letter.waited {
        return fate;
    }
    let waiting = Waiting { event: letter.event.clone(), parked: parked_id(&letter.event) };
    match context.store.engine.transact(waiting.done(STREAM)).await {
        Ok(_) => fate,
        Err(error) => Fate::Failed(error.to_string()),
    }
}

/// Lets an event wait until somebody tells whose it is.
async fn wait<E: Engine>(context: &Context<E>, record: &Incoming, event: &StripeEvent) -> Fate {
    let objects = event.objects().join(", ");
    let reason = format!("nobody has told yet whose {objects} is: it goes through by itself when somebody does");
    let parked = Parked {
        stream: STREAM.to_owned(),
        id: parked_id(event),
        code: UNKNOWN_USER.to_owned(),
        reason,
        event_id: Some(event.id.to_string()),
        user_id: None,
        sequence: record.sequence.clone(),
        parked_at: context.store.clock.now(),
        body: record.data.clone(),
    };
    let told = match context.store.wait_for_owner(event, &parked).await {
        // Somebody has told just now, and may not have seen that this one waits.
        Ok(Some(user)) => tell(&context.store, &user, std::slice::from_ref(event)).await,
        Ok(None) => return Fate::Parked,
        Err(error) => Err(error),
    };
    let waiting = Waiting { event: event.clone(), parked: parked.id };
    let ended = match told {
        Ok(_) => context.store.engine.transact(waiting.done(STREAM)).await.map(drop),
        Err(error) => Err(error),
    };
    ended.map_or_else(|error| Fate::Failed(error.to_string()), |()| Fate::Applied)
}

async fn failed<E: Engine>(context: &Context<E>, record: &Incoming, error: &StoreError) -> Fate {
    if error.is_transient() {
        return Fate::Failed(error.to_string());
    }
    // Delivering it again cannot help: somebody has to look at the row.
    put_aside(context, record, "store", error.to_string()).await
}

async fn put_aside<E: Engine>(context: &Context<E>, record: &Incoming, code: &str, reason: String) -> Fate {
    park_as(&context.store, STREAM, record, code, reason, peek(&record.data)).await
}
