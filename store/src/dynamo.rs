//! The DynamoDB engine: the engine trait over the AWS SDK. Also runs on any server that speaks DynamoDB's
//! protocol.

mod convert;
mod expression;
mod transact;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{DisplayErrorContext, SdkError};
use aws_sdk_dynamodb::operation::RequestId as _;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::scan::builders::ScanFluentBuilder;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, PutRequest, ReturnConsumedCapacity, ReturnValue, ReturnValuesOnConditionCheckFailure,
    ScalarAttributeType, StreamSpecification, StreamViewType, WriteRequest,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::engine::{
    Condition, Consistency, Cursor, Edit, Engine, Key, Keys, Op, Order, Page, Query, StoreError, Transacted,
    Updated, Written,
};
use crate::table::{Index, Table, TableId, TableNames};
use dues_events::{Item, Value};
use expression::Expression;

/// The DynamoDB engine. Clones share the client.
#[derive(Debug, Clone)]
pub struct Dynamo {
    client: Client,
    /// The clients of tables in other regions.
    elsewhere: Arc<BTreeMap<TableId, Client>>,
    names: TableNames,
    capacity: Option<ReturnConsumedCapacity>,
}

impl Dynamo {
    /// On that client, with the tables' own names.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, elsewhere: Arc::default(), names: TableNames::default(), capacity: None }
    }

    /// With other names for some tables, by their own names: a deployment may use existing tables.
    #[must_use]
    pub fn with_names(self, names: BTreeMap<TableId, String>) -> Self {
        Self { names: names.into(), ..self }
    }

    /// With other clients for some tables, by their own names: existing tables may be in another region. The
    /// tables of one transaction or batch have to be in the same region.
    #[must_use]
    pub fn with_clients(self, elsewhere: BTreeMap<TableId, Client>) -> Self {
        Self { elsewhere: Arc::new(elsewhere), ..self }
    }

    /// Requests the consumed capacity with every call.
    #[must_use]
    pub fn with_capacity(self) -> Self {
        Self { capacity: Some(ReturnConsumedCapacity::Total), ..self }
    }

    /// Creates a table as declared. For tests and local servers; deployments use the template.
    pub async fn create(&self, table: &'static Table) -> Result<(), StoreError> {
        let keys: BTreeSet<&str> = table.key_attributes().collect();
        let definitions = keys.into_iter().map(|name| {
            let kind = if table.is_numeric(name) { ScalarAttributeType::N } else { ScalarAttributeType::S };
            AttributeDefinition::builder()
                .attribute_name(name)
                .attribute_type(kind)
                .build()
                .map_err(|e| invalid(table, &e))
        });
        let indexes =
            table.indexes.iter().map(|index| secondary_index(table, index)).collect::<Result<Vec<_>, _>>()?;
        let stream = table.stream.then(|| {
            StreamSpecification::builder()
                .stream_enabled(true)
                .stream_view_type(StreamViewType::NewAndOldImages)
                .build()
        });
        self.client(table)
            .create_table()
            .table_name(self.name(table))
            .billing_mode(BillingMode::PayPerRequest)
            .set_attribute_definitions(Some(definitions.collect::<Result<_, _>>()?))
            .set_key_schema(Some(key_schema(table, table.partition, table.sort)?))
            .set_global_secondary_indexes(if indexes.is_empty() { None } else { Some(indexes) })
            .set_stream_specification(stream.transpose().map_err(|e| invalid(table, &e))?)
            .send()
            .await
            .map_err(|e| failed(table, "create table", e))?;
        Ok(())
    }

    fn name(&self, table: &'static Table) -> &str {
        self.names.name(table)
    }

    fn client(&self, table: &Table) -> &Client {
        self.elsewhere.get(&table.id).unwrap_or(&self.client)
    }
}

fn key_schema(
    table: &Table,
    partition: &str,
    sort: Option<&str>,
) -> Result<Vec<KeySchemaElement>, StoreError> {
    [Some((partition, KeyType::Hash)), sort.map(|sort| (sort, KeyType::Range))]
        .into_iter()
        .flatten()
        .map(|(name, kind)| {
            KeySchemaElement::builder()
                .attribute_name(name)
                .key_type(kind)
                .build()
                .map_err(|e| invalid(table, &e))
        })
        .collect()
}

fn secondary_index(table: &Table, index: &Index) -> Result<GlobalSecondaryIndex, StoreError> {
    GlobalSecondaryIndex::builder()
        .index_name(index.name)
        .set_key_schema(Some(key_schema(table, index.partition, index.sort)?))
        .projection(Projection::builder().projection_type(ProjectionType::All).build())
        .build()
        .map_err(|e| invalid(table, &e))
}

impl Dynamo {
    /// A scan request for one page of a table.
    fn scanning(&self, table: &'static Table, start: Option<Cursor>, limit: u32) -> ScanFluentBuilder {
        self.client(table)
            .scan()
            .table_name(self.name(table))
            .consistent_read(true)
            .limit(i32::try_from(limit).unwrap_or(i32::MAX))
            .set_exclusive_start_key(start.map(|Cursor(place)| convert::attributes(place)))
            .set_return_consumed_capacity(self.capacity.clone())
    }
}

impl Engine for Dynamo {
    async fn get(&self, table: &'static Table, key: Key) -> Result<Option<Item>, StoreError> {
        let answer = self
            .client(table)
            .get_item()
            .table_name(self.name(table))
            .set_key(Some(convert::key(table, &key)))
            .consistent_read(true)
            .set_return_consumed_capacity(self.capacity.clone())
            .send()
            .await
            .map_err(|e| failed(table, "get item", e))?;
        answer.item.map(convert::item).transpose()
    }

    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        let (partition, sort) = match query.index {
            None => (query.table.partition, query.table.sort),
            Some(name) => {
                let found = query.table.index(name);
                let (_, index) = found
                    .ok_or_else(|| StoreError::Invalid(format!("{}: no index {name}", query.table.name)))?;
                (index.partition, index.sort)
            }
        };
        let mut expression = Expression::default();
        let mut key =
            expression.render(&Condition::Equals(partition, Value::text(query.partition)), query.table);
        if let (Some(sort), Some(key)) = (sort, &mut key) {
            key.push_str(&expression.sorted(sort, &query.sorted));
        }
        let filter = expression.render(&query.filter, query.table);
        let answer = self
            .client(query.table)
            .query()
            .table_name(self.name(query.table))
            .set_index_name(query.index.map(str::to_owned))
            .set_key_condition_expression(key)
            .set_filter_expression(filter)
            .set_expression_attribute_names(expression.names())
            .set_expression_attribute_values(expression.values())
            .scan_index_forward(query.order == Order::Ascending)
            .consistent_read(query.consistency == Consistency::Strong && query.index.is_none())
            .set_limit(query.limit.map(|limit| i32::try_from(limit).unwrap_or(i32::MAX)))
            .set_exclusive_start_key(query.start.map(|Cursor(place)| convert::attributes(place)))
            .set_return_consumed_capacity(self.capacity.clone())
            .send()
            .await
            .map_err(|e| failed(query.table, "query", e))?;
        page(answer.items, answer.last_evaluated_key)
    }

    async fn scan(
        &self,
        table: &'static Table,
        start: Option<Cursor>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        let answer = self.scanning(table, start, limit).send().await.map_err(|e| failed(table, "scan", e))?;
        page(answer.items, answer.last_evaluated_key)
    }

    async fn keys(
        &self,
        table: &'static Table,
        start: Option<Cursor>,
        limit: u32,
    ) -> Result<Keys, StoreError> {
        let names = [("#p", Some(table.partition)), ("#s", table.sort)];
        let names: HashMap<String, String> =
            names.into_iter().filter_map(|(short, name)| Some((short.into(), name?.into()))).collect();
        let scanning = self
            .scanning(table, start, limit)
            .projection_expression(if table.sort.is_some() { "#p, #s" } else { "#p" })
            .set_expression_attribute_names(Some(names));
        let answer = scanning.send().await.map_err(|e| failed(table, "scan", e))?;
        let page = page(answer.items, answer.last_evaluated_key)?;
        Ok(Keys {
            keys: page.items.iter().map(|item| Key::of(table, item)).collect::<Result<_, _>>()?,
            next: page.next,
        })
    }

    async fn put(
        &self,
        table: &'static Table,
        item: Item,
        condition: Condition,
    ) -> Result<Written, StoreError> {
        Key::of(table, &item)?;
        let mut expression = Expression::default();
        let condition = expression.render(&condition, table);
        let answer = self
            .client(table)
            .put_item()
            .table_name(self.name(table))
            .set_item(Some(convert::attributes(item)))
            .set_condition_expression(condition)
            .set_expression_attribute_names(expression.names())
            .set_expression_attribute_values(expression.values())
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .set_return_consumed_capacity(self.capacity.clone())
            .send()
            .await;
        match answer {
            Ok(_) => Ok(Written::Done),
            Err(error) => match error.as_service_error() {
                Some(
                    aws_sdk_dynamodb::operation::put_item::PutItemError::ConditionalCheckFailedException(
                        refused,
                    ),
                ) => Ok(Written::Refused(found(refused.item.clone())?)),
                Some(_) | None => Err(failed(table, "put item", error)),
            },
        }
    }

    async fn delete(
        &self,
        table: &'static Table,
        key: Key,
        condition: Condition,
    ) -> Result<Written, StoreError> {
        let mut expression = Expression::default();
        let condition = expression.render(&condition, table);
        let answer = self
            .client(table)
            .delete_item()
            .table_name(self.name(table))
            .set_key(Some(convert::key(table, &key)))
            .set_condition_expression(condition)
            .set_expression_attribute_names(expression.names())
            .set_expression_attribute_values(expression.values())
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .set_return_consumed_capacity(self.capacity.clone())
            .send()
            .await;
        match answer {
            Ok(_) => Ok(Written::Done),
            Err(error) => match error.as_service_error() {
                Some(DeleteItemError::ConditionalCheckFailedException(refused)) => {
                    Ok(Written::Refused(found(refused.item.clone())?))
                }
                Some(_) | None => Err(failed(table, "delete item", error)),
            },
        }
    }

    async fn update(
        &self,
        table: &'static Table,
        key: Key,
        edits: Vec<Edit>,
        condition: Condition,
    ) -> Result<Updated, StoreError> {
        Edit::check(table, &edits)?;
        let mut expression = Expression::default();
        let edits = expression.edits(&edits);
        let condition = expression.render(&condition, table);
        let answer = self
            .client(table)
            .update_item()
            .table_name(self.name(table))
            .set_key(Some(convert::key(table, &key)))
            .set_update_expression(edits)
            .set_condition_expression(condition)
            .set_expression_attribute_names(expression.names())
            .set_expression_attribute_values(expression.values())
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .set_return_consumed_capacity(self.capacity.clone())
            .send()
            .await;
        match answer {
            Ok(answer) => {
                let after = found(answer.attributes)?;
                let missing =
                    || StoreError::Invalid(format!("{} update item: no item in the answer", table.name));
                after.map(Updated::Done).ok_or_else(missing)
            }
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
                    Ok(Updated::Refused(found(refused.item.clone())?))
                }
                Some(_) | None => Err(failed(table, "update item", error)),
            },
        }
    }

    async fn transact(&self, ops: Vec<Op>) -> Result<Transacted, StoreError> {
        self.write_transaction(ops).await
    }

    async fn put_batch(
        &self,
        items: Vec<(&'static Table, Item)>,
    ) -> Result<Vec<(&'static Table, Item)>, StoreError> {
        let Some(&(first, _)) = items.first() else { return Ok(Vec::new()) };
        let tables: Vec<&'static Table> = items.iter().map(|(table, _)| *table).collect();
        let mut requests: HashMap<String, Vec<WriteRequest>> = HashMap::new();
        for (table, item) in items {
            Key::of(table, &item)?;
            let put = PutRequest::builder()
                .set_item(Some(convert::attributes(item)))
                .build()
                .map_err(|e| invalid(table, &e))?;
            requests
                .entry(self.name(table).to_owned())
                .or_default()
                .push(WriteRequest::builder().put_request(put).build());
        }
        let answer = self
            .client(first)
            .batch_write_item()
            .set_request_items(Some(requests))
            .set_return_consumed_capacity(self.capacity.clone())
            .send()
            .await
            .map_err(|e| failed(first, "batch write", e))?;
        let mut unprocessed = Vec::new();
        for (name, requests) in answer.unprocessed_items.unwrap_or_default() {
            let table = tables.iter().find(|table| self.name(table) == name).copied();
            let table = table
                .ok_or_else(|| StoreError::Invalid(format!("batch write: the answer names table {name}")))?;
            for put in requests.into_iter().filter_map(|request| request.put_request) {
                unprocessed.push((table, convert::item(put.item)?));
            }
        }
        Ok(unprocessed)
    }
}

type Attributes = HashMap<String, aws_sdk_dynamodb::types::AttributeValue>;

fn page(items: Option<Vec<Attributes>>, next: Option<Attributes>) -> Result<Page, StoreError> {
    Ok(Page {
        items: items.unwrap_or_default().into_iter().map(convert::item).collect::<Result<_, _>>()?,
        next: next.filter(|key| !key.is_empty()).map(convert::item).transpose()?.map(Cursor),
    })
}

/// The item in a response, if there is one.
fn found(item: Option<Attributes>) -> Result<Option<Box<Item>>, StoreError> {
    Ok(item.filter(|item| !item.is_empty()).map(convert::item).transpose()?.map(Box::new))
}

fn invalid(table: &Table, error: &dyn std::error::Error) -> StoreError {
    StoreError::Invalid(format!("{}: {error}", table.name))
}

/// A conflict with another transaction. Logged with a count, because deployments monitor its rate.
fn conflict(table: &Table, text: String) -> StoreError {
    tracing::info!(table = table.name, conflicts = 1_u64, "in conflict with another transaction");
    StoreError::Conflict(text)
}

/// Classifies an SDK error by whether the same request can succeed later.
fn failed<E, R>(table: &Table, doing: &str, error: SdkError<E, R>) -> StoreError
where
    E: std::error::Error + aws_sdk_dynamodb::error::ProvideErrorMetadata + 'static,
    R: std::fmt::Debug,
{
    let code = error.as_service_error().and_then(|e| e.code()).map(str::to_owned);
    let request = error.as_service_error().and_then(|e| e.meta().request_id()).unwrap_or("none").to_owned();
    let text = format!("{} {doing} (request {request}): {}", table.name, DisplayErrorContext(&error));
    match code.as_deref() {
        Some(
            "ProvisionedThroughputExceededException"
            | "ThrottlingException"
            | "RequestLimitExceeded"
            | "LimitExceededException",
        ) => StoreError::Throttled(text),
        Some("TransactionConflictException") => conflict(table, text),
        Some("InternalServerError" | "TransactionInProgressException" | "ServiceUnavailable") | None => {
            StoreError::Unavailable(text)
        }
        // Not the record's fault: the request succeeds once the role or credentials are fixed.
        Some(
            "AccessDeniedException"
            | "UnrecognizedClientException"
            | "ExpiredTokenException"
            | "InvalidSignatureException",
        ) => StoreError::Unavailable(text),
        Some(_) => StoreError::Invalid(text),
    }
}
