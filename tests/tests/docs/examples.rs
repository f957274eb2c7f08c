//! Each `json` example of `docs/streams.md`, in order, through the handler of its stream.

use dues_events::entitlements::stripe::wire::types;
use dues_processors::aws::triggers::eventbridge::{EventBridgeEvent, webhook_balance_worker, webhook_worker};
use dues_processors::collections::Collector;
use dues_processors::collections::batch_worker::batch_worker;
use dues_processors::{Outcome, STREAMS};
use dues_store::Store;
use dues_tests::clock::TestClock;
use dues_tests::engines;
use dues_tests::fixtures::company::{context, deliver, incoming, t};
use dues_tests::gateways::ledger::Ledger;
use serde_json::Value;

use crate::pages::page;

/// The page's sections, each with the values of its `json` blocks.
fn sections(text: &str) -> Vec<(String, Vec<Value>)> {
    let mut sections: Vec<(String, Vec<Value>)> = Vec::new();
    let mut block: Option<String> = None;
    for line in text.lines() {
        match &mut block {
            Some(_) if line == "```" => {
                let json = block.take().unwrap();
                let values = serde_json::Deserializer::from_str(&json).into_iter();
                let section = sections.last_mut().expect("an example stands below a heading");
                section.1.extend(values.map(|v| v.unwrap_or_else(|e| panic!("{e} in {json}"))));
            }
            Some(json) => {
                json.push_str(line);
                json.push('\n');
            }
            None if line == "```json" => block = Some(String::new()),
            None => {
                if let Some(heading) = line.strip_prefix("## ") {
                    sections.push((heading.to_owned(), Vec::new()));
                }
            }
        }
    }
    sections
}

#[tokio::test]
async fn examples_are_applied() {
    let (engine, _folder) = engines::embedded();
    let context = context(engine.clone());
    let store = Store::new(engine, TestClock::manual(t("2026-02-13T09:00:00Z")).shared());
    let collector = Collector::new(store, Ledger::default());
    let mut streams = Vec::new();
    for (section, examples) in sections(&page("docs/streams.md")) {
        for example in &examples {
            match section.as_str() {
                "signals" => {
                    let event: EventBridgeEvent = serde_json::from_value(example.clone()).unwrap();
                    let done = match event.detail_type.as_str() {
                        "income-detected" => webhook_worker(&collector, event).await,
                        "account-balance" => webhook_balance_worker(&collector, event).await,
                        other => panic!("no signal {other}"),
                    };
                    assert_eq!(done.map(|done| done.acted), Ok("visited"), "{example}");
                }
                "batch" => {
                    let done = batch_worker(&collector, &incoming(example, 1)).await.unwrap();
                    assert!(done.iter().all(|(_, visit)| visit.is_some()), "{example}");
                }
                stream => {
                    let stream = STREAMS.into_iter().find(|known| *known == stream);
                    let stream = stream.unwrap_or_else(|| panic!("no stream {section}"));
                    let outcomes = deliver(&context, &[(stream, example.clone())], 1).await;
                    assert_eq!(outcomes, [Outcome::Applied], "{stream}: {example}");
                }
            }
        }
        if !examples.is_empty() {
            streams.push(section);
        }
    }
    for stream in STREAMS {
        assert!(streams.iter().any(|known| known == stream), "no example of {stream}");
    }
}

#[test]
fn every_stripe_type_has_an_example() {
    let sections = sections(&page("docs/streams.md"));
    let (_, examples) = sections.iter().find(|(name, _)| name == "stripe").unwrap();
    for kind in types() {
        assert!(examples.iter().any(|example| example["type"] == kind), "no example of {kind}");
    }
}
