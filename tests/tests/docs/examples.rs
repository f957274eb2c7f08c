//! Each `json` example of `docs/streams.md`, in order, through the handler of its stream.

use dues_events::entitlements::stripe::wire::types;
use dues_processors::collections::Collector;
use dues_processors::runtime::redrive::process_collections;
use dues_processors::{COLLECTION_STREAMS, Outcome, STREAMS};
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
    for (section, examples) in &sections(&page("docs/streams.md")) {
        for example in examples {
            let stream = STREAMS.into_iter().find(|known| known == section);
            let stream = stream.unwrap_or_else(|| panic!("no stream {section}"));
            let outcomes = if COLLECTION_STREAMS.contains(&stream) {
                let delivery = [incoming(example, 1)];
                process_collections(&collector, stream, &delivery).await.unwrap().outcomes
            } else {
                deliver(&context, &[(stream, example.clone())], 1).await
            };
            assert_eq!(outcomes, [Outcome::Applied], "{stream}: {example}");
        }
        if !examples.is_empty() {
            streams.push(section.clone());
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
