//! An event source mapping as Lambda documents it, for what ministack's mappings pass over: partial failures, bisecting, limits of retries and age, and
//! what becomes of what is given up. It drives a function over the records of one shard; its settings are those of the template.

use chrono::TimeDelta;
use dues_events::Time;
use futures::future::join_all;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// A record of a shard.
#[derive(Debug, Clone, PartialEq)]
pub struct Shard {
    /// Its sequence number.
    pub sequence: String,
    /// Its partition key: records with one key stay in order.
    pub key: String,
    /// When it came onto the stream.
    pub arrived: Time,
    /// As it stands in Lambda's event.
    pub record: Value,
}

/// The settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// The most records of a batch.
    pub batch_size: usize,
    /// Whether a batch that fails as a whole is cut into halves.
    pub bisect: bool,
    /// How often a batch is tried again.
    pub retries: u64,
    /// The age at which records are given up.
    pub age: TimeDelta,
    /// How many batches of a shard are under way at once.
    pub parallel: u64,
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Driven {
    /// The sequence numbers of each invocation.
    pub invocations: Vec<Vec<String>>,
    /// Those of each batch that went to the destination for failures.
    pub given_up: Vec<Vec<String>>,
}

impl Mapping {
    /// Reads the properties of a mapping in the template.
    pub fn of(properties: &Value) -> Self {
        let number = |name: &str| properties[name].as_u64().unwrap_or_else(|| panic!("the mapping has no {name}"));
        assert_eq!(properties["FunctionResponseTypes"], json!(["ReportBatchItemFailures"]));
        Self {
            batch_size: usize::try_from(number("BatchSize")).unwrap(),
            bisect: properties["BisectBatchOnFunctionError"] == true,
            retries: number("MaximumRetryAttempts"),
            age: TimeDelta::seconds(number("MaximumRecordAgeInSeconds").try_into().unwrap()),
            parallel: number("ParallelizationFactor"),
        }
    }

    /// Drives a function over a shard. Lanes of different keys go at once, each in order.
    pub async fn drive(&self, shard: Vec<Shard>, now: Time, invoke: impl AsyncFn(Value) -> Result<Value, String>) -> Driven {
        let mut lanes: BTreeMap<u64, Vec<Shard>> = BTreeMap::new();
        for record in shard {
            let mut hasher = DefaultHasher::new();
            record.key.hash(&mut hasher);
            lanes.entry(hasher.finish() % self.parallel.max(1)).or_default().push(record);
        }
        let lanes = join_all(lanes.into_values().map(|lane| self.drive_lane(lane, now, &invoke))).await;
        let mut driven = Driven::default();
        for lane in lanes {
            driven.invocations.extend(lane.invocations);
            driven.given_up.extend(lane.given_up);
        }
        driven
    }

    async fn drive_lane(&self, lane: Vec<Shard>, now: Time, invoke: &impl AsyncFn(Value) -> Result<Value, String>) -> Driven {
        let mut driven = Driven::default();
        let mut waiting: VecDeque<(Vec<Shard>, u64)> = lane.chunks(self.batch_size).map(|batch| (batch.to_vec(), 0)).collect();
        while let Some((batch, tried)) = waiting.pop_front() {
            let (old, batch): (Vec<Shard>, Vec<Shard>) = batch.into_iter().partition(|record| now - record.arrived > self.age);
            if !old.is_empty() {
                driven.given_up.push(sequences(&old));
            }
            if batch.is_empty() {
                continue;
            }
            if tried > self.retries {
                driven.given_up.push(sequences(&batch));
                continue;
            }
            driven.invocations.push(sequences(&batch));
            let records: Vec<&Value> = batch.iter().map(|record| &record.record).collect();
            match invoke(json!({"Records": records})).await.map(|answer| first_failure(&answer, &batch)) {
                Ok(None) => {}
                // What came before it is done. What is left of a batch that came further is another batch.
                Ok(Some(first)) => waiting.push_front((batch[first..].to_vec(), if first > 0 { 0 } else { tried + 1 })),
                // Cutting is no retry.
                Err(_) if self.bisect && batch.len() > 1 => {
                    let (one, other) = batch.split_at(batch.len() / 2);
                    waiting.push_front((other.to_vec(), tried));
                    waiting.push_front((one.to_vec(), tried));
                }
                Err(_) => waiting.push_front((batch, tried + 1)),
            }
        }
        driven
    }
}

fn sequences(batch: &[Shard]) -> Vec<String> {
    batch.iter().map(|record| record.sequence.clone()).collect()
}

/// The place of the lowest sequence number that the answer names; an answer that names something else fails the whole batch.
fn first_failure(answer: &Value, batch: &[Shard]) -> Option<usize> {
    let failures = answer["batchItemFailures"].as_array()?;
    let place = |failure: &Value| batch.iter().position(|record| failure["itemIdentifier"] == record.sequence.as_str());
    failures.iter().map(|failure| place(failure).unwrap_or(0)).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::t;
    use std::sync::Mutex;

    const MAPPING: Mapping = Mapping { batch_size: 4, bisect: true, retries: 2, age: TimeDelta::hours(1), parallel: 1 };
    const NOW: &str = "2026-03-01T00:00:00Z";

    fn shard(count: usize) -> Vec<Shard> {
        let record = |n: usize| Shard { sequence: n.to_string(), key: "u".into(), arrived: t(NOW), record: json!(n) };
        (0..count).map(record).collect()
    }

    fn holds(event: &Value, n: u64) -> bool {
        event["Records"].as_array().unwrap().contains(&json!(n))
    }

    fn failed(name: &str) -> Value {
        json!({"batchItemFailures": [{"itemIdentifier": name}]})
    }

    #[tokio::test]
    async fn a_record_that_breaks_its_batch_is_cut_out_and_given_up_alone() {
        let driven =
            MAPPING.drive(shard(4), t(NOW), async |event| if holds(&event, 2) { Err("broken".into()) } else { Ok(json!({})) }).await;
        let invoked: Vec<String> = driven.invocations.iter().map(|batch| batch.concat()).collect();
        assert_eq!(invoked, ["0123", "01", "23", "2", "2", "2", "3"]);
        assert_eq!(driven.given_up, [["2"]]);
    }

    #[tokio::test]
    async fn a_batch_goes_on_from_the_record_that_failed() {
        let times = Mutex::new(0);
        let answer = async |event: Value| {
            let mut times = times.lock().unwrap();
            *times += u32::from(holds(&event, 2));
            Ok(if *times < 3 && holds(&event, 2) { failed("2") } else { json!({"batchItemFailures": []}) })
        };
        let driven = MAPPING.drive(shard(5), t(NOW), answer).await;
        let invoked: Vec<String> = driven.invocations.iter().map(|batch| batch.concat()).collect();
        assert_eq!((invoked, driven.given_up), (["0123", "23", "23", "4"].map(String::from).to_vec(), vec![]));
    }

    #[tokio::test]
    async fn limits_hold_and_a_name_that_nobody_knows_fails_the_whole_batch() {
        let driven = MAPPING.drive(shard(2), t(NOW), async |_| Ok(failed("nobody"))).await;
        assert_eq!((driven.invocations.len(), driven.given_up), (3, vec![vec!["0".to_owned(), "1".to_owned()]]));
        let late = MAPPING.drive(shard(2), t("2026-03-01T01:00:01Z"), async |_| Ok(json!({}))).await;
        assert_eq!((late.invocations.len(), late.given_up.len()), (0, 1), "too old to be tried");
    }

    #[tokio::test]
    async fn keys_go_side_by_side_and_each_stays_in_order() {
        let mut many = shard(40);
        many.iter_mut().enumerate().for_each(|(n, record)| record.key = format!("u-{}", n % 7));
        let parallel = Mapping { batch_size: 3, parallel: 10, ..MAPPING };
        let driven = parallel.drive(many, t(NOW), async |_| Ok(json!({}))).await;
        for key in 0..7 {
            let order: Vec<usize> =
                driven.invocations.concat().iter().map(|n| n.parse().unwrap()).filter(|n: &usize| n % 7 == key).collect();
            assert!(order.is_sorted() && order.len() >= 5, "{order:?}");
        }
    }
}
