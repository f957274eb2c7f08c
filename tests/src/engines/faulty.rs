//! An engine that crashes: after a number of writes every call fails, as after a power failure.

use dues_events::Item;
use dues_store::table::Table;
use dues_store::{
    Condition, Cursor, Edit, Engine, Key, Op, Page, Query, StoreError, Transacted, Updated, Written,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Forwards calls until its writes are used up. The last write happens but reports a failure, like one that
/// lost its response.
#[derive(Debug, Clone)]
pub struct Faulty<E> {
    inner: E,
    plug: Plug,
}

/// A countdown to a crash. Clones share it: an engine and a gateway can crash together.
#[derive(Debug, Clone)]
pub struct Plug(Arc<AtomicU64>);

impl Plug {
    /// Crashes at the n-th step.
    pub fn after(steps: u64) -> Self {
        Self(Arc::new(AtomicU64::new(steps)))
    }

    /// Whether the countdown is over.
    pub fn is_pulled(&self) -> bool {
        self.0.load(Ordering::SeqCst) == 0
    }

    /// Counts a step.
    pub fn step(&self) {
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
    }
}

impl<E> Faulty<E> {
    /// Crashes at the n-th write.
    pub fn after(inner: E, writes: u64) -> Self {
        Self::on(inner, Plug::after(writes))
    }

    /// Crashes with the plug; every write is a step.
    pub fn on(inner: E, plug: Plug) -> Self {
        Self { inner, plug }
    }

    /// Whether it has crashed.
    pub fn stopped(&self) -> bool {
        self.plug.is_pulled()
    }

    fn alive(&self) -> Result<(), StoreError> {
        if self.stopped() { Err(StoreError::Unavailable("the plug is pulled".into())) } else { Ok(()) }
    }

    fn spend(&self) -> Result<(), StoreError> {
        self.plug.step();
        self.alive()
    }
}

impl<E: Engine> Engine for Faulty<E> {
    async fn get(&self, table: &'static Table, key: Key) -> Result<Option<Item>, StoreError> {
        self.alive()?;
        self.inner.get(table, key).await
    }

    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        self.alive()?;
        self.inner.query(query).await
    }

    async fn scan(
        &self,
        table: &'static Table,
        start: Option<Cursor>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        self.alive()?;
        self.inner.scan(table, start, limit).await
    }

    async fn put(
        &self,
        table: &'static Table,
        item: Item,
        condition: Condition,
    ) -> Result<Written, StoreError> {
        self.alive()?;
        let written = self.inner.put(table, item, condition).await?;
        self.spend()?;
        Ok(written)
    }

    async fn delete(
        &self,
        table: &'static Table,
        key: Key,
        condition: Condition,
    ) -> Result<Written, StoreError> {
        self.alive()?;
        let written = self.inner.delete(table, key, condition).await?;
        self.spend()?;
        Ok(written)
    }

    async fn update(
        &self,
        table: &'static Table,
        key: Key,
        edits: Vec<Edit>,
        condition: Condition,
    ) -> Result<Updated, StoreError> {
        self.alive()?;
        let updated = self.inner.update(table, key, edits, condition).await?;
        self.spend()?;
        Ok(updated)
    }

    async fn transact(&self, ops: Vec<Op>) -> Result<Transacted, StoreError> {
        self.alive()?;
        let transacted = self.inner.transact(ops).await?;
        self.spend()?;
        Ok(transacted)
    }

    async fn put_batch(
        &self,
        items: Vec<(&'static Table, Item)>,
    ) -> Result<Vec<(&'static Table, Item)>, StoreError> {
        self.alive()?;
        let left = self.inner.put_batch(items).await?;
        self.spend()?;
        Ok(left)
    }
}
