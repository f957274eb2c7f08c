//! Batches as Lambda delivers them, and the response that names what to redeliver.

use super::*;
use aws_lambda_events::event::streams::DynamoDbEventResponse;
use dues_processors::projector::projector as handler;
use dues_processors::runtime::redrive::redrive_change;
use dues_store::{TableId, TableNames};
use dues_tests::aws::cognito_pool::SAGE;
use serde_json::{Value, json};
use std::collections::BTreeMap;

dues_tests::on_engines! {
    what_cannot_be_read_is_parked_and_the_others_go_on,
    the_answer_names_the_first_that_failed,
    a_table_may_have_another_name,
    when_not_even_parking_works_the_record_comes_again,
}

const ARN: &str = "arn:aws:dynamodb:eu-central-1:123456789012:table/gg_core/stream/2026-03-01T00:00:00.000";

/// A stream record.
fn record(change: &Change, arn: &str) -> Value {
    let mut record = change.to_json();
    record["eventSourceARN"] = json!(arn);
    record
}

async fn handle<E: Engine, D: Directory>(
    projector: &Projector<E, D>,
    records: &[Value],
) -> DynamoDbEventResponse {
    handler(projector, serde_json::from_value(json!({"Records": records})).unwrap()).await
}

/// The sequence numbers in a response.
fn named(answer: &DynamoDbEventResponse) -> Vec<&str> {
    answer.batch_item_failures.iter().map(|failure| failure.item_identifier.as_deref().unwrap()).collect()
}

fn users<const N: usize>() -> [UserId; N] {
    std::array::from_fn(|n| format!("u-{n}").into())
}

async fn what_cannot_be_read_is_parked_and_the_others_go_on<E: Engine>(engine: E) {
    let projector = projector(&engine, accepts_all);
    let [ada, bob] = users();
    let good = record(&save(&engine, &ada, "SAGE", "cognito", "1").await, ARN);
    let mut poison = record(&save(&engine, &bob, "SAGE", "cognito", "2").await, ARN);
    poison["dynamodb"]["NewImage"]["tier"] = json!({"N": 5});
    let mut homeless = good.clone();
    homeless["eventSourceARN"] = json!("arn:aws:kinesis:eu-central-1:123456789012:stream/site-payments");
    let foreign =
        record(&change(None, Some(profile(&bob, "SAGE", "cognito")), "4"), &ARN.replace("gg_core", "orders"));
    let garbage = json!("not even an object");
    let records = [poison.clone(), good, homeless, foreign, garbage];
    for _ in 0..2 {
        assert_eq!(named(&handle(&projector, &records).await), Vec::<&str>::new());
    }
    assert_eq!(
        (local_groups(&engine, &ada).await, local_groups(&engine, &bob).await),
        (vec![SAGE.to_owned()], vec![])
    );

    let all = projector.store.parked().await.unwrap();
    let mut reasons: Vec<_> = all
        .iter()
        .map(|p| (p.stream.as_str(), p.code.as_str(), p.reason.as_str(), p.sequence.as_str()))
        .collect();
    reasons.sort_unstable();
    assert_eq!(
        reasons,
        [
            (
                "changes",
                "malformed",
                "eventSourceARN: \"arn:aws:kinesis:eu-central-1:123456789012:stream/site-payments\" names no table",
                "1"
            ),
            ("changes", "malformed", "eventSourceARN: is missing", ""),
            ("gg_core", "malformed", "dynamodb.NewImage.tier.N: is not a number as text", "2"),
        ]
    );
    let whole = all.iter().find(|parked| parked.stream == "gg_core").unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&whole.body).unwrap(), poison, "as it came");
    assert_eq!(
        redrive_change(&projector, whole).await.unwrap(),
        Outcome::Parked,
        "it is as unreadable as before"
    );

    // A later version may read what this one cannot.
    let mut mended = whole.clone();
    mended.body =
        String::from_utf8(mended.body).unwrap().replace(r#"{"N":5}"#, r#"{"S":"SAGE"}"#).into_bytes();
    assert_eq!(redrive_change(&projector, &mended).await.unwrap(), Outcome::Applied);
    assert_eq!((parked(&engine).await.len(), local_groups(&engine, &bob).await), (2, vec![SAGE.to_owned()]));
}

async fn the_answer_names_the_first_that_failed<E: Engine>(engine: E) {
    let [calm, busy, gone] = users();
    let (throttled, lost) = (busy.clone(), gone.clone());
    let projector = projector(&engine, move |_, user| match user {
        user if *user == throttled => Some(DirectoryError::Throttled("slowly".into())),
        user if *user == lost => Some(DirectoryError::NoSuchUser),
        _ => None,
    });
    let mut changes = Vec::new();
    for (n, (user, tier)) in [
        (&gone, "SAGE"),
        (&calm, "INITIATE"),
        (&busy, "SAGE"),
        (&calm, "SAGE"),
        (&busy, "free"),
        (&gone, "free"),
    ]
    .into_iter()
    .enumerate()
    {
        changes.push(save(&engine, user, tier, "cognito", &format!("10{n}")).await);
    }
    let outcomes = projector.project(&changes).await.outcomes;
    let failed = |why: &str| Outcome::Failed(why.into());
    assert_eq!(
        outcomes,
        [
            Outcome::Parked,
            Outcome::Applied,
            failed("throttled: slowly"),
            Outcome::Duplicate,
            failed("behind a record that failed: throttled: slowly"),
            Outcome::Parked
        ]
    );
    let records: Vec<Value> = changes.iter().map(|change| record(change, ARN)).collect();
    let answer = handle(&projector, &records).await;
    assert_eq!(
        serde_json::to_value(&answer).unwrap(),
        json!({"batchItemFailures": [{"itemIdentifier": "102"}]})
    );
    assert_eq!(named(&handle(&projector, &records[..2]).await), Vec::<&str>::new());
    assert_eq!(named(&handle(&projector, &records[3..]).await), ["104"]);
}

async fn a_table_may_have_another_name<E: Engine>(engine: E) {
    let tables = TableNames::from(BTreeMap::from([(TableId::GgCore, "guild-prod".to_owned())]));
    let projector = Projector { tables, ..projector(&engine, accepts_all) };
    let change = save(&engine, &ada(), "SAGE", "cognito", "1").await;
    handle(&projector, &[record(&change, ARN)]).await;
    assert_eq!(local_groups(&engine, &ada()).await, Vec::<String>::new(), "here that is a foreign table");
    let mut poison = record(&change, &ARN.replace("gg_core", "guild-prod"));
    handle(&projector, std::slice::from_ref(&poison)).await;
    assert_eq!(local_groups(&engine, &ada()).await, [SAGE]);
    poison["eventName"] = json!("TRUNCATE");
    handle(&projector, &[poison]).await;
    let [waiting] = <[_; 1]>::try_from(projector.store.parked().await.unwrap()).unwrap();
    assert_eq!(waiting.stream, "gg_core", "parked under the table's own name");
    assert_eq!(waiting.reason, r#"eventName: "TRUNCATE" is not one of INSERT, MODIFY, REMOVE"#);
}

async fn when_not_even_parking_works_the_record_comes_again<E: Engine>(engine: E) {
    let broken = dues_tests::engines::faulty::Faulty::after(engine.clone(), 0);
    let mut poison = record(&save(&engine, &ada(), "SAGE", "cognito", "7").await, ARN);
    poison["dynamodb"]["NewImage"] = json!(null);
    assert_eq!(named(&handle(&projector(&broken, accepts_all), std::slice::from_ref(&poison)).await), ["7"]);
    assert_eq!(named(&handle(&projector(&engine, accepts_all), &[poison]).await), Vec::<&str>::new());
    assert_eq!(parked(&engine).await.len(), 1);
}
