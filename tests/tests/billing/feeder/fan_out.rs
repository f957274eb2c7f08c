//! Ten thousand changes, with partial failures, lost answers and handlers that die: nothing is lost or
//! reordered, and repeats are identical.

use super::*;
use dues_processors::billing::feeder::{KinesisFeeder, kinesis_feeder};
use dues_processors::runtime::changes::DynamoStreamEvent;
use dues_store::embedded::Embedded;
use dues_store::{Engine as _, TableId};
use dues_tests::engines::embedded;
use dues_tests::fixtures::company::store;
use dues_tests::lossy_streams::{Leaky, Seen};
use futures::FutureExt as _;
use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::task::Poll;
use std::time::{SystemTime, UNIX_EPOCH};

const CHANGES: usize = 10_000;
const USERS: usize = 300;

#[tokio::test]
async fn every_consumer_sees_every_change_of_a_user_in_order_at_least_once_and_repeats_are_the_same() {
    let seed = match std::env::var("DUES_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs(),
    };
    println!("DUES_SEED={seed} repeats this run");
    let mut dice = fastrand::Rng::with_seed(seed);
    let (engine, _folder) = embedded();
    live(&engine, &mut dice).await;
    let log: Vec<Change> = engine
        .changes(0, usize::MAX >> 1)
        .unwrap()
        .into_iter()
        .map(|logged| change(logged.table, logged.old, logged.new, &logged.seq.to_string()))
        .collect();
    assert_eq!(log.len(), CHANGES);

    let odds = [0, 0, 2, 10, 100, 500];
    let (outbox, bus) = (Leaky::new(seed ^ 1, &odds), Leaky::new(seed ^ 2, &odds));
    let (deaths, repeats) = deliver(&engine, &log, &outbox, &bus, &mut dice).await;
    println!("{deaths} handlers died, {repeats} batches had to come again in part");
    assert!(
        deaths > 20 && repeats > 20,
        "seed {seed}: only {deaths} handlers died and {repeats} batches failed"
    );

    let (expected_updates, expected_messages) = expected(&log);
    for (name, taken, expected) in
        [("subscriptions", outbox.taken(), expected_updates), ("the bus", bus.taken(), expected_messages)]
    {
        let count: usize = expected.values().map(Vec::len).sum();
        assert!(taken.len() > count + 100, "seed {seed}: {name} has no repeats worth the name");
        assert_eq!(first_occurrences(&taken, seed), expected, "seed {seed}: {name}");
    }
    assert!(store(engine).parked().await.unwrap().is_empty());
}

/// Generates the changes: random writes for users of which a few are busy and most are not.
async fn live(engine: &Embedded, dice: &mut fastrand::Rng) {
    let mut users: Vec<(String, u64)> = (0..USERS).map(|n| (format!("u-{n}"), 0)).collect();
    let mut rows = Vec::new();
    while rows.len() < CHANGES {
        let n = dice.usize(..USERS).min(dice.usize(..USERS));
        let (user, written) = &mut users[n];
        *written += 1;
        rows.push(match dice.u32(..10) {
            0 => (&GG_CORE, top_up(user, *written, t("2026-02-01T00:00:00Z"))),
            1 | 2 => (&GG_CORE, profile(user, dice.choice(["free", "INITIATE", "SAGE"]).unwrap(), *written)),
            _ => (
                &BILLING_ACTIVITY,
                billing(user, dice.choice(["SCHEDULED", "ACHSENT", "PAUSED"]).unwrap(), *written),
            ),
        });
    }
    for batch in rows.chunks(1000) {
        engine.put_batch(batch.to_vec()).await.unwrap();
    }
}

/// Delivers the log as Lambda does: a whole batch again when its handler dies, otherwise from the record
/// that the response names. Returns how often each happened.
async fn deliver(
    engine: &Embedded,
    log: &[Change],
    outbox: &Leaky,
    bus: &Leaky,
    dice: &mut fastrand::Rng,
) -> (u32, u32) {
    let feeder = KinesisFeeder::new(store(engine.clone()), outbox.clone(), bus.clone());
    let records: Vec<Json> = log.iter().map(record).collect();
    let (mut at, mut deaths, mut repeats) = (0, 0, 0);
    while at < records.len() {
        let batch = &records[at..records.len().min(at + dice.usize(1..300))];
        let handled = kinesis_feeder(&feeder, DynamoStreamEvent { records: batch.to_vec() });
        let life = if dice.u32(..4) == 0 { dice.usize(1..15) } else { usize::MAX };
        let Some(answer) = alive_for(life, handled).await else {
            deaths += 1;
            continue;
        };
        // It may also die after all work is done, before the response is seen.
        if dice.u32(..20) == 0 {
            deaths += 1;
            continue;
        }
        at += match answer.batch_item_failures.first() {
            None => batch.len(),
            Some(failure) => {
                repeats += 1;
                let number = failure.item_identifier.as_deref().unwrap();
                batch.iter().position(|record| record["dynamodb"]["SequenceNumber"] == number).unwrap()
            }
        };
    }
    (deaths, repeats)
}

/// Polls a future at most this many times, then drops it.
async fn alive_for<T>(steps: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = steps;
    std::future::poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.poll_unpin(context).map(Some)
    })
    .await
}

type Sequences = BTreeMap<String, Vec<String>>;

/// What each user's consumers must see, in order, derived from the log without the feeder's code.
fn expected(log: &[Change]) -> (Sequences, Sequences) {
    let (mut updates, mut messages) = (Sequences::new(), Sequences::new());
    for change in log {
        let (old, new) = (change.old.as_ref(), change.new.as_ref().unwrap());
        let user = change.partition().trim_start_matches("USER#").to_owned();
        let text = |item: Option<&Item>, name: &str| item.and_then(|item| item.text(name)).map(str::to_owned);
        let mut publish = |what: String| messages.entry(user.clone()).or_default().push(what);
        let version = new.get("version").and_then(Value::as_u64).unwrap_or_default();
        if change.table.id == TableId::BillingActivity {
            updates.entry(user.clone()).or_default().push(format!("version {version}"));
            let (before, after) = (text(old, "billing_status"), text(Some(new), "billing_status"));
            // A record may start at a later version here: an imported one.
            if before != after && (old.is_some() || version == 1) {
                publish(format!("status {before:?} {after:?} version {version}"));
            }
        } else if new.text("SK").unwrap().starts_with("LEDGER#") {
            publish(format!("credits {}", new.text("movementId").unwrap()));
        } else {
            let (before, after) =
                (text(old, "tier").unwrap_or("free".into()), text(Some(new), "tier").unwrap());
            if before != after {
                publish(format!("tier {before} {after}"));
            }
        }
    }
    (updates, messages)
}

/// What a user's consumer sees after dropping repeats, which must be byte-identical.
fn first_occurrences(taken: &[Seen], seed: u64) -> Sequences {
    let mut known: HashMap<&str, &Seen> = HashMap::new();
    let mut sequences = Sequences::new();
    for seen in taken {
        match known.insert(&seen.id, seen) {
            Some(before) => assert_eq!(before, seen, "seed {seed}: a repeat is another message"),
            None => sequences.entry(seen.user.clone()).or_default().push(entitlement_change(seen)),
        }
    }
    sequences
}

fn entitlement_change(seen: &Seen) -> String {
    let text = String::from_utf8(seen.data.clone()).unwrap();
    let json: Json = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
    assert_eq!(json["id"], seen.id, "{text}");
    let word = |name: &str| json[name].as_str().map(str::to_owned);
    match text.split(' ').next().unwrap() {
        "SubscriptionStatusChanged" => {
            format!("status {:?} {:?} version {}", word("old_status"), word("new_status"), json["version"])
        }
        "CreditsGranted" => format!("credits {}", word("movement_id").unwrap()),
        "TierChanged" => format!("tier {} {}", word("old_tier").unwrap(), word("new_tier").unwrap()),
        _ => format!("version {}", json["version"]),
    }
}
