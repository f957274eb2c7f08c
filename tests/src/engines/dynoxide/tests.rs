//! Properties of the in-process DynamoDB that other tests rely on.

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::{
    AttributeValue, KeysAndAttributes, PutRequest, ReturnConsumedCapacity,
    ReturnValuesOnConditionCheckFailure, WriteRequest,
};

use super::*;
use crate::engines::small_table::{create, put, text};

fn always(fault: Fault) -> Option<FaultHook> {
    Some(Arc::new(move |_| fault))
}

#[tokio::test]
async fn a_condition_that_fails_gives_back_the_item_that_is_there() {
    let client = Dynoxide::new().client();
    create(&client, "people").await;
    put(&client, "people", "ada", 1).await;
    let refused = client
        .put_item()
        .table_name("people")
        .item("pk", text("ada"))
        .item("sk", AttributeValue::N("1".into()))
        .condition_expression("attribute_not_exists(pk)")
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .send()
        .await
        .unwrap_err()
        .into_service_error();
    let PutItemError::ConditionalCheckFailedException(failed) = refused else { panic!("{refused:?}") };
    let old = failed.item().unwrap();
    assert_eq!(old["pk"], text("ada"));
    assert_eq!(old["group"], text("all"));
}

#[tokio::test]
async fn a_missing_table_is_the_sdk_s_typed_error() {
    let client = Dynoxide::new().client();
    let refused = client.get_item().table_name("none").key("pk", text("x")).send().await.unwrap_err();
    assert!(refused.into_service_error().is_resource_not_found_exception());
}

#[tokio::test]
async fn a_query_over_an_index_comes_in_pages() {
    let dynoxide = Dynoxide::new();
    let client = dynoxide.client();
    create(&client, "people").await;
    for number in 0..5 {
        put(&client, "people", "ada", number).await;
    }
    dynoxide.reset_calls();
    let items: Vec<_> = client
        .query()
        .table_name("people")
        .index_name("by_group")
        .key_condition_expression("#g = :g")
        .expression_attribute_names("#g", "group")
        .expression_attribute_values(":g", text("all"))
        .return_consumed_capacity(ReturnConsumedCapacity::Total)
        .limit(2)
        .into_paginator()
        .items()
        .send()
        .collect::<Result<_, _>>()
        .await
        .unwrap();
    let numbers: Vec<&str> = items.iter().map(|item| item["sk"].as_n().unwrap().as_str()).collect();
    assert_eq!(numbers, ["0", "1", "2", "3", "4"]);
    let calls = dynoxide.calls();
    assert_eq!(calls.len(), 3);
    assert!(calls.iter().all(|call| call.operation == "Query" && call.capacity == Some(0.5)), "{calls:?}");
}

#[tokio::test]
async fn calls_are_written_down_with_their_tables_and_capacity() {
    let dynoxide = Dynoxide::new();
    let client = dynoxide.client();
    create(&client, "aaa").await;
    create(&client, "bbb").await;
    dynoxide.reset_calls();
    put(&client, "aaa", "ada", 1).await;
    let one = |pk| {
        let put = PutRequest::builder().item("pk", text(pk)).item("sk", AttributeValue::N("1".into()));
        WriteRequest::builder().put_request(put.build().unwrap()).build()
    };
    client
        .batch_write_item()
        .request_items("bbb", vec![one("x")])
        .request_items("aaa", vec![one("y"), one("z")])
        .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
        .send()
        .await
        .unwrap();
    client.scan().table_name("none").send().await.unwrap_err();
    let call = |operation: &str, tables: &[&str], capacity, error: Option<&str>| Call {
        operation: operation.into(),
        tables: tables.iter().map(|table| (*table).to_owned()).collect(),
        capacity,
        fault: Fault::None,
        error: error.map(str::to_owned),
    };
    assert_eq!(
        dynoxide.calls(),
        [
            // The item and its copy in the index; the batch's items have no group, so no index entry.
            call("PutItem", &["aaa"], Some(2.0), None),
            call("BatchWriteItem", &["aaa", "bbb"], Some(3.0), None),
            call("Scan", &["none"], None, Some("ResourceNotFoundException")),
        ]
    );
}

#[tokio::test]
async fn a_throttle_and_a_dropped_request_do_nothing_and_a_dropped_response_hides_what_was_done() {
    let dynoxide = Dynoxide::new();
    let client = dynoxide.client();
    create(&client, "people").await;
    let try_put = |pk: &str| {
        let put = client.put_item().table_name("people").item("pk", text(pk));
        put.item("sk", AttributeValue::N("1".into())).send()
    };

    dynoxide.set_fault(always(Fault::Throttle));
    let refused = try_put("throttled").await.unwrap_err().into_service_error();
    assert!(refused.is_provisioned_throughput_exceeded_exception(), "{refused:?}");

    dynoxide.set_fault(always(Fault::DropRequest));
    let lost = try_put("lost").await.unwrap_err();
    assert!(
        matches!(&lost, aws_sdk_dynamodb::error::SdkError::DispatchFailure(why) if why.is_io()),
        "{lost:?}"
    );

    dynoxide.set_fault(always(Fault::DropResponse));
    let unsure = try_put("done").await.unwrap_err();
    assert!(
        matches!(&unsure, aws_sdk_dynamodb::error::SdkError::DispatchFailure(why) if why.is_timeout()),
        "{unsure:?}"
    );

    dynoxide.set_fault(None);
    let there = client.scan().table_name("people").send().await.unwrap();
    let keys: Vec<_> = there.items().iter().map(|item| item["pk"].clone()).collect();
    assert_eq!(keys, [text("done")]);
}

#[tokio::test]
async fn half_of_a_batch_is_handed_back_and_the_rest_is_done() {
    let dynoxide = Dynoxide::new();
    let client = dynoxide.client();
    create(&client, "people").await;
    let writes = (0..5)
        .map(|number| {
            let put =
                PutRequest::builder().item("pk", text("p")).item("sk", AttributeValue::N(number.to_string()));
            WriteRequest::builder().put_request(put.build().unwrap()).build()
        })
        .collect();
    // Only the first batch: the hook sees the number of the call.
    dynoxide.reset_calls();
    dynoxide
        .set_fault(Some(Arc::new(|call| if call.number == 0 { Fault::Unprocessed } else { Fault::None })));
    let answer = client.batch_write_item().request_items("people", writes).send().await.unwrap();
    let back = answer.unprocessed_items().unwrap()["people"].clone();
    assert_eq!(back.len(), 2);
    assert_eq!(client.scan().table_name("people").send().await.unwrap().count(), 3);
    let answer = client.batch_write_item().request_items("people", back).send().await.unwrap();
    assert!(answer.unprocessed_items().unwrap().is_empty());
    assert_eq!(client.scan().table_name("people").send().await.unwrap().count(), 5);

    dynoxide.set_fault(always(Fault::Unprocessed));
    let key = |number: u32| {
        [("pk".to_owned(), text("p")), ("sk".to_owned(), AttributeValue::N(number.to_string()))].into()
    };
    let keys = KeysAndAttributes::builder().keys(key(0)).keys(key(1)).build().unwrap();
    let answer = client.batch_get_item().request_items("people", keys).send().await.unwrap();
    assert_eq!(answer.responses().unwrap()["people"].len(), 1);
    assert_eq!(answer.unprocessed_keys().unwrap()["people"].keys().len(), 1);
}

#[tokio::test]
async fn the_sdk_retries_only_when_asked_to() {
    let dynoxide = Dynoxide::new();
    create(&dynoxide.client(), "people").await;
    let quick = RetryConfig::standard().with_max_attempts(3).with_initial_backoff(Duration::from_millis(1));
    for (client, attempts) in [(dynoxide.client(), 1), (dynoxide.client_with(quick), 3)] {
        dynoxide.reset_calls();
        dynoxide.set_fault(always(Fault::Throttle));
        client.scan().table_name("people").send().await.unwrap_err();
        assert_eq!(dynoxide.calls().len(), attempts);
    }
}

#[tokio::test(start_paused = true)]
async fn latency_is_waited_for_on_tokio_s_clock() {
    let dynoxide = Dynoxide::new();
    let client = dynoxide.client();
    create(&client, "people").await;
    dynoxide.set_latency(Duration::from_secs(2));
    let before = tokio::time::Instant::now();
    client.scan().table_name("people").send().await.unwrap();
    assert_eq!(before.elapsed().as_secs(), 2);
}

#[tokio::test]
async fn the_stream_of_a_table_has_its_changes_in_order() {
    let dynoxide = Dynoxide::new();
    let client = dynoxide.client();
    create(&client, "people").await;
    put(&client, "people", "ada", 1).await;
    put(&client, "people", "bob", 2).await;
    let ask = |operation: &str, body: Value| dynoxide.request(operation, &body).unwrap();
    let streams = ask("ListStreams", json!({"TableName": "people"}));
    let arn = streams["Streams"][0]["StreamArn"].clone();
    let stream = ask("DescribeStream", json!({"StreamArn": arn}));
    let shard = stream["StreamDescription"]["Shards"][0]["ShardId"].clone();
    let from = json!({"StreamArn": arn, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"});
    let iterator = ask("GetShardIterator", from)["ShardIterator"].clone();
    let records = ask("GetRecords", json!({"ShardIterator": iterator}));
    let keys: Vec<&Value> = records["Records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| &record["dynamodb"]["Keys"]["pk"]["S"])
        .collect();
    assert_eq!(keys, ["ada", "bob"]);
}
