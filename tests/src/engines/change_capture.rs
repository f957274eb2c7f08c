//! An engine that captures changes as DynamoDB Streams does, over any other engine.

use dues_events::{Item, Time};
use dues_processors::runtime::changes::Change;
use dues_store::table::Table;
use dues_store::{
    Condition, Cursor, Edit, Engine, Key, Op, Page, Query, StoreError, Transacted, Updated, Written,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, Semaphore};

/// Forwards all calls and logs every change to a table with a stream. Writes are serialised, so that the log
/// is in commit order; reads do not wait. Inner futures are boxed: the handlers' are large enough without a
/// second engine.
#[derive(Debug, Clone)]
pub struct Logged<E> {
    inner: E,
    log: Arc<Mutex<Vec<Change>>>,
    pace: Pace,
}

/// Delay between a caller's read and its write.
#[derive(Debug, Clone)]
enum Pace {
    AtOnce,
    Dawdling,
    Gated(Arc<Gate>),
}

/// Blocks writes until it is opened.
#[derive(Debug)]
pub struct Gate {
    reached: Semaphore,
    go: Semaphore,
}

impl Gate {
    /// Waits until a write has reached the gate.
    pub async fn reached(&self) {
        self.reached.acquire().await.unwrap().forget();
    }

    /// Lets all writes through from now on.
    pub fn open(&self) {
        self.go.add_permits(Semaphore::MAX_PERMITS / 2);
    }
}

impl<E: Engine> Logged<E> {
    /// Starts with an empty log.
    pub fn new(inner: E) -> Self {
        Self { inner, log: Arc::default(), pace: Pace::AtOnce }
    }

    /// The same tables and log, with random delays before writes.
    pub fn dawdling(&self) -> Self {
        Self { pace: Pace::Dawdling, ..self.clone() }
    }

    /// The same tables and log, with writes blocked at a gate.
    pub fn gated(&self) -> (Self, Arc<Gate>) {
        let gate = Arc::new(Gate { reached: Semaphore::new(0), go: Semaphore::new(0) });
        (Self { pace: Pace::Gated(gate.clone()), ..self.clone() }, gate)
    }

    async fn wait(&self) {
        match &self.pace {
            Pace::AtOnce => {}
            Pace::Dawdling => tokio::time::sleep(Duration::from_micros(fastrand::u64(0..3000))).await,
            Pace::Gated(gate) => {
                gate.reached.add_permits(1);
                drop(gate.go.acquire().await.unwrap());
            }
        }
    }

    /// The changes from this index on.
    pub async fn changes(&self, from: usize) -> Vec<Change> {
        self.log.lock().await.get(from..).unwrap_or_default().to_vec()
    }

    async fn look(&self, keys: &[(&'static Table, Key)]) -> Result<Vec<Option<Item>>, StoreError> {
        let mut items = Vec::with_capacity(keys.len());
        for (table, key) in keys {
            items.push(Box::pin(self.inner.get(table, key.clone())).await?);
        }
        Ok(items)
    }

    /// Performs a write to these items and logs what changed.
    async fn noted<T>(
        &self,
        keys: Vec<(&'static Table, Key)>,
        work: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let keys: Vec<_> = keys.into_iter().filter(|(table, _)| table.stream).collect();
        self.wait().await;
        let mut log = self.log.lock().await;
        let before = self.look(&keys).await?;
        let done = work.await?;
        let after = self.look(&keys).await?;
        for (((table, _), old), new) in keys.into_iter().zip(before).zip(after) {
            if old != new {
                let (sequence, arrived) = ((log.len() + 1).to_string(), Time::UNIX_EPOCH);
                log.push(Change { sequence, table, old, new, arrived, by_ttl: false });
            }
        }
        Ok(done)
    }
}

impl<E: Engine> Engine for Logged<E> {
    async fn get(&self, table: &'static Table, key: Key) -> Result<Option<Item>, StoreError> {
        Box::pin(self.inner.get(table, key)).await
    }

    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        Box::pin(self.inner.query(query)).await
    }

    async fn scan(
        &self,
        table: &'static Table,
        start: Option<Cursor>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        Box::pin(self.inner.scan(table, start, limit)).await
    }

    async fn put(
        &self,
        table: &'static Table,
        item: Item,
        condition: Condition,
    ) -> Result<Written, StoreError> {
        let key = Key::of(table, &item)?;
        self.noted(vec![(table, key)], Box::pin(self.inner.put(table, item, condition))).await
    }

    async fn delete(
        &self,
        table: &'static Table,
        key: Key,
        condition: Condition,
    ) -> Result<Written, StoreError> {
        self.noted(vec![(table, key.clone())], Box::pin(self.inner.delete(table, key, condition))).await
    }

    async fn update(
        &self,
        table: &'static Table,
        key: Key,
        edits: Vec<Edit>,
        condition: Condition,
    ) -> Result<Updated, StoreError> {
        self.noted(vec![(table, key.clone())], Box::pin(self.inner.update(table, key, edits, condition)))
            .await
    }

    async fn transact(&self, ops: Vec<Op>) -> Result<Transacted, StoreError> {
        let keys = ops.iter().map(|op| Ok((op.table(), op.key()?))).collect::<Result<_, StoreError>>()?;
        self.noted(keys, Box::pin(self.inner.transact(ops))).await
    }

    async fn put_batch(
        &self,
        items: Vec<(&'static Table, Item)>,
    ) -> Result<Vec<(&'static Table, Item)>, StoreError> {
        let keys = items
            .iter()
            .map(|(table, item)| Ok((*table, Key::of(table, item)?)))
            .collect::<Result<_, StoreError>>()?;
        self.noted(keys, Box::pin(self.inner.put_batch(items))).await
    }
}
