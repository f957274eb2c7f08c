//! An event source mapping as Lambda documents it, for what ministack's mappings do not support: partial
//! failures, bisection, limits of retries and age, and the failure destination. It drives a function over
//! the records of one shard, with the settings of the template.

use chrono::TimeDelta;
use dues_events::Time;
use futures::future::join_all;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// A record of a shard.
#[derive(Debug, Clone, PartialEq)]
pub struct Shard {
    /// The sequence number.
    pub sequence: String,
    /// The partition key: records with the same key stay in order.
    pub key: String,
    /// When the record arrived on the stream.
    pub arrived: Time,
    /// The record as in Lambda's event.
    pub record: Value,
}

/// The settings of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// Maximum records per batch.
    pub batch_size: usize,
    /// Whether a batch that fails as a whole is bisected.
    pub bisect: bool,
    /// Maximum retries of a batch.
    pub retries: u64,
    /// Age beyond which records go to the failure destination.
    pub age: TimeDelta,
    /// Concurrent batches per shard.
    pub parallel: u64,
}

/// The result of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Driven {
    /// The sequence numbers of each invocation.
    pub invocations: Vec<Vec<String>>,
    /// The sequence numbers of each batch sent to the failure destination.
    pub given_up: Vec<Vec<String>>,
}

impl Mapping {
    /// Reads the properties of a mapping in the template.
    pub fn of(properties: &Value) -> Self {
        let number =
            |name: &str| properties[name].as_u64().unwrap_or_else(|| panic!("the mapping has no {name}"));
        assert_eq!(properties["FunctionResponseTypes"], json!(["ReportBatchItemFailures"]));
        Self {
            batch_size: usize::try_from(number("BatchSize")).unwrap(),
            bisect: properties["BisectBatchOnFunctionError"] == true,
            retries: number("MaximumRetryAttempts"),
            age: TimeDelta::seconds(number("MaximumRecordAgeInSeconds").try_into().unwrap()),
            parallel: number("ParallelizationFactor"),
        }
    }

    /// Drives a function over a shard. Lanes of different keys run concurrently, each in order.
    pub async fn drive(
        &self,
        shard: Vec<Shard>,
        now: Time,
        invoke: impl AsyncFn(Value) -> Result<Value, String>,
    ) -> Driven {
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

    async fn drive_lane(
        &self,
        lane: Vec<Shard>,
        now: Time,
        invoke: &impl AsyncFn(Value) -> Result<Value, String>,
    ) -> Driven {
        let mut driven = Driven::default();
        let mut waiting: VecDeque<(Vec<Shard>, u64)> =
            lane.chunks(self.batch_size).map(|batch| (batch.to_vec(), 0)).collect();
        while let Some((batch, tried)) = waiting.pop_front() {
            let (old, batch): (Vec<Shard>, Vec<Shard>) =
                batch.into_iter().partition(|record| now - record.arrived > self.age);
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
                // Records before it are done. The rest is a new batch if there was progress, else a retry.
                Ok(Some(first)) => {
                    waiting.push_front((batch[first..].to_vec(), if first > 0 { 0 } else { tried + 1 }))
                }
                // Bisection does not count as a retry.
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

/// The index of the lowest sequence number that the response reports; an unknown one fails the whole batch.
fn first_failure(answer: &Value, batch: &[Shard]) -> Option<usize> {
    let failures = answer["batchItemFailures"].as_array()?;
    let place = |failure: &Value| {
        batch.iter().position(|record| failure["itemIdentifier"] == record.sequence.as_str())
    };
    failures.iter().map(|failure| place(failure).unwrap_or(0)).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::company::t;
    use std::sync::Mutex;

    const MAPPING: Mapping =
        Mapping { batch_size: 4, bisect: true, retries: 2, age: TimeDelta::hours(1), parallel: 1 };
    const NOW: &str = "2026-03-01T00:00:00Z";

    fn shard(count: usize) -> Vec<Shard> {
        let record =
            |n: usize| Shard { sequence: n.to_string(), key: "u".into(), arrived: t(NOW), record: json!(n) };
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
        let driven = MAPPING
            .drive(
                shard(4),
                t(NOW),
                async |event| if holds(&event, 2) { Err("broken".into()) } else { Ok(json!({})) },
            )
            .await;
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
        assert_eq!(
            (invoked, driven.given_up),
            (["0123", "23", "23", "4"].map(String::from).to_vec(), vec![])
        );
    }

    #[tokio::test]
    async fn limits_hold_and_an_unknown_id_fails_the_whole_batch() {
        let driven = MAPPING.drive(shard(2), t(NOW), async |_| Ok(failed("no-such-record"))).await;
        assert_eq!(
            (driven.invocations.len(), driven.given_up),
            (3, vec![vec!["0".to_owned(), "1".to_owned()]])
        );
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
            let order: Vec<usize> = driven
                .invocations
                .concat()
                .iter()
                .map(|n| n.parse().unwrap())
                .filter(|n: &usize| n % 7 == key)
                .collect();
            assert!(order.is_sorted() && order.len() >= 5, "{order:?}");
        }
    }
}
