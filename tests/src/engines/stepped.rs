//! An engine with every call a step that waits for a scheduler's permission, over any other engine.
//!
//! Actors share a [`Stage`]. An actor that calls the engine announces the call as a [`Step`] and waits; the
//! scheduler of [`crate::explorer`] grants one step at a time. So one thread runs every interleaving of the
//! actors' calls, and the same choices always give the same run.

use dues_events::{Item, Value};
use dues_store::table::{BILLING_ACTIVITY, LOCKS, Table};
use dues_store::{
    Condition, Cursor, Edit, Engine, Key, Op, Page, Query, StoreError, Transacted, Updated, Written,
};
use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use crate::engines::memory::Memory;

/// One call of an actor: to the engine or to a gateway.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Step {
    /// The call, such as `put`.
    pub call: &'static str,
    /// What it reads and writes.
    pub touches: Vec<Touch>,
}

/// A part of the shared state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Touch {
    /// The table, or `gateway`.
    pub table: &'static str,
    /// The partition; `None` for the whole table, as for an index.
    pub partition: Option<String>,
    /// The sort key; `None` for the whole partition.
    pub sort: Option<String>,
    /// Whether it is written.
    pub write: bool,
}

impl Touch {
    fn row(table: &Table, key: &Key, write: bool) -> Self {
        let sort = Some(key.sort.clone().unwrap_or_default());
        Self { table: table.name, partition: Some(key.partition.clone()), sort, write }
    }

    fn overlaps(&self, other: &Self) -> bool {
        let same = |a: &Option<String>, b: &Option<String>| a.is_none() || b.is_none() || a == b;
        self.table == other.table
            && same(&self.partition, &other.partition)
            && same(&self.sort, &other.sort)
            && (self.write || other.write)
    }
}

impl Step {
    /// A call that touches one thing.
    pub fn new(call: &'static str, touch: Touch) -> Self {
        Self { call, touches: vec![touch] }
    }

    /// Whether the order of two steps makes no difference: they touch different rows, or only read.
    pub fn commutes_with(&self, other: &Self) -> bool {
        !self.touches.iter().any(|a| other.touches.iter().any(|b| a.overlaps(b)))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<7}", self.call)?;
        for touch in &self.touches {
            let part = |part: &Option<String>| part.as_deref().map_or_else(|| "*".to_owned(), short);
            write!(f, " {} {}/{}", touch.table, part(&touch.partition), part(&touch.sort))?;
        }
        Ok(())
    }
}

/// A granted step with its result.
#[derive(Debug, Clone)]
pub struct Line {
    /// Which actor.
    pub actor: usize,
    /// What it called.
    pub step: Step,
    /// What it wrote, and the answer.
    pub result: String,
}

/// A debit that reached the gateway, with what a judge needs to know about that moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Debited {
    /// Which actor submitted it.
    pub actor: usize,
    /// The attempt key.
    pub key: String,
    /// The record.
    pub subscription: String,
    /// The amount, as text.
    pub amount: String,
    /// Whether a history row named the key by then.
    pub on_record: bool,
    /// The record's row at that moment.
    pub row: Option<Item>,
    /// All billing rows when the actor last read or wrote one of them: what it could know.
    pub known: Vec<Item>,
}

/// The state that the actors of one run share.
#[derive(Clone, Default)]
pub struct Stage(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    actors: Vec<Actor>,
    /// Order-independent hash of all rows that were written.
    rows: u64,
    debits: Vec<Debited>,
    trace: Option<Vec<Line>>,
    /// Whether every step is granted at once.
    free: bool,
}

#[derive(Default)]
struct Actor {
    waiting: Vec<Waiting>,
    granted: Option<u64>,
    running: usize,
    announced: u64,
    /// Hash of all its calls and their results: its local state is a function of these.
    log: u64,
    /// Whether it may submit debits, so that what it knows matters.
    debits: bool,
    known: Vec<Item>,
}

struct Waiting {
    id: u64,
    step: Step,
    waker: Waker,
}

impl Stage {
    /// A stage for that many actors.
    pub fn new(actors: usize, traced: bool) -> Self {
        let actors = (0..actors).map(|_| Actor::default()).collect();
        let trace = traced.then(Vec::new);
        Self(Arc::new(Mutex::new(State { actors, trace, ..State::default() })))
    }

    /// A stage for one actor that need not wait, at a gateway with those debits.
    pub fn free(debits: Vec<Debited>) -> Self {
        let actors = vec![Actor::default()];
        Self(Arc::new(Mutex::new(State { actors, debits, free: true, ..State::default() })))
    }

    /// The step that an actor waits for. Of calls that it makes at once, the first one goes first.
    pub fn next_step(&self, actor: usize) -> Option<Step> {
        self.state().actors[actor].waiting.first().map(|waiting| waiting.step.clone())
    }

    /// Whether a granted call of the actor has not returned.
    pub fn is_running(&self, actor: usize) -> bool {
        let state = self.state();
        state.actors[actor].running > 0 || state.actors[actor].granted.is_some()
    }

    /// Grants the actor its next step.
    pub fn grant(&self, actor: usize) {
        let waker = {
            let actor = &mut self.state().actors[actor];
            let waiting = actor.waiting.remove(0);
            actor.granted = Some(waiting.id);
            waiting.waker
        };
        waker.wake();
    }

    /// A hash of everything that decides how the run goes on.
    pub fn fingerprint(&self) -> u64 {
        let state = self.state();
        let mut hash = DefaultHasher::new();
        for actor in &state.actors {
            (actor.log, actor.waiting.len()).hash(&mut hash);
            if actor.debits {
                hash_items(&actor.known).hash(&mut hash);
            }
        }
        state.outcome().hash(&mut hash);
        hash.finish()
    }

    /// A hash of what the run leaves behind: rows and debits.
    pub fn outcome(&self) -> u64 {
        self.state().outcome()
    }

    /// The debits so far.
    pub fn debits(&self) -> Vec<Debited> {
        self.state().debits.clone()
    }

    /// The trace so far.
    pub fn trace(&self) -> Vec<Line> {
        self.state().trace.clone().unwrap_or_default()
    }

    /// Declares that the actor may submit debits.
    pub fn may_debit(&self, actor: usize) {
        self.state().actors[actor].debits = true;
    }

    /// Books a debit; `false` if the key is known.
    pub(crate) fn book(&self, mut debit: Debited) -> bool {
        let mut state = self.state();
        if state.debits.iter().any(|known| known.key == debit.key) {
            return false;
        }
        debit.known.clone_from(&state.actors[debit.actor].known);
        state.debits.push(debit);
        true
    }

    /// Waits for the scheduler's permission.
    pub(crate) async fn turn(&self, actor: usize, step: Step) -> Call {
        Turn { stage: self.clone(), actor, step: Some(step), id: None }.await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl State {
    fn outcome(&self) -> u64 {
        let mut hash = DefaultHasher::new();
        self.rows.hash(&mut hash);
        for debit in &self.debits {
            (&debit.key, &debit.amount, debit.on_record).hash(&mut hash);
            hash_items(debit.row.as_slice()).hash(&mut hash);
            hash_items(&debit.known).hash(&mut hash);
        }
        hash.finish()
    }
}

/// Resolves when the scheduler grants the step.
struct Turn {
    stage: Stage,
    actor: usize,
    step: Option<Step>,
    id: Option<u64>,
}

impl Future for Turn {
    type Output = Call;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Call> {
        let stage = self.stage.clone();
        let mut state = stage.state();
        let free = state.free;
        let actor = &mut state.actors[self.actor];
        if free {
            actor.running += 1;
            let step = self.step.take().unwrap();
            return Poll::Ready(Call { stage: stage.clone(), actor: self.actor, step });
        }
        let Some(id) = self.id else {
            actor.announced += 1;
            self.id = Some(actor.announced);
            let step = self.step.clone().unwrap();
            actor.waiting.push(Waiting { id: actor.announced, step, waker: cx.waker().clone() });
            return Poll::Pending;
        };
        if actor.granted == Some(id) {
            actor.granted = None;
            actor.running += 1;
            let step = self.step.take().unwrap();
            self.id = None;
            return Poll::Ready(Call { stage: stage.clone(), actor: self.actor, step });
        }
        if let Some(waiting) = actor.waiting.iter_mut().find(|waiting| waiting.id == id) {
            waiting.waker.clone_from(cx.waker());
        }
        Poll::Pending
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let mut state = self.stage.state();
            let actor = &mut state.actors[self.actor];
            actor.waiting.retain(|waiting| waiting.id != id);
            actor.granted = actor.granted.filter(|granted| *granted != id);
        }
    }
}

/// A granted call, until it has returned.
pub(crate) struct Call {
    stage: Stage,
    actor: usize,
    step: Step,
}

impl Call {
    /// Notes the result: its hash, and its text if the run is traced.
    pub(crate) fn returns(&self, result: u64, text: impl FnOnce() -> String) {
        let mut state = self.stage.state();
        let actor = &mut state.actors[self.actor];
        let mut hash = DefaultHasher::new();
        (actor.log, &self.step, result).hash(&mut hash);
        actor.log = hash.finish();
        if let Some(trace) = &mut state.trace {
            trace.push(Line { actor: self.actor, step: self.step.clone(), result: text() });
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.stage.state().actors[self.actor].running -= 1;
    }
}

/// The engine of one actor. Inner futures are boxed: the handlers' are large enough without a second engine.
#[derive(Clone)]
pub struct Stepped<E> {
    /// The tables, without steps.
    pub inner: E,
    /// Where the steps are granted.
    pub stage: Stage,
    /// The actor that makes the calls.
    pub actor: usize,
    own_locks: Option<Memory>,
}

impl<E: Engine> Stepped<E> {
    /// The engine of that actor.
    pub fn new(inner: E, stage: Stage, actor: usize) -> Self {
        Self { inner, stage, actor, own_locks: None }
    }

    /// With a lock table of its own, and no steps for it: no lock excludes this actor.
    #[must_use]
    pub fn with_own_locks(self) -> Self {
        Self { own_locks: Some(Memory::default()), ..self }
    }

    fn own_locks(&self, table: &Table) -> Option<&Memory> {
        self.own_locks.as_ref().filter(|_| table.id == LOCKS.id)
    }

    async fn turn(&self, step: Step) -> Call {
        self.stage.turn(self.actor, step).await
    }

    /// Remembers the billing rows as this actor could know them now.
    async fn knows(&self, table: &'static Table) -> Result<(), StoreError> {
        if table.id == BILLING_ACTIVITY.id && self.stage.state().actors[self.actor].debits {
            let rows = Box::pin(self.inner.scan(&BILLING_ACTIVITY, None, 1000)).await?.items;
            self.stage.state().actors[self.actor].known = rows;
        }
        Ok(())
    }

    /// Performs a write to these rows, and keeps the hash of all rows up to date.
    async fn write<T>(
        &self,
        rows: Vec<(&'static Table, Key)>,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let before = self.hashes(&rows).await?;
        let done = work.await?;
        let after = self.hashes(&rows).await?;
        self.stage.state().rows ^= before ^ after;
        for (table, _) in rows {
            self.knows(table).await?;
        }
        Ok(done)
    }

    async fn hashes(&self, rows: &[(&'static Table, Key)]) -> Result<u64, StoreError> {
        let mut all = 0;
        for (table, key) in rows {
            if let Some(item) = Box::pin(self.inner.get(table, key.clone())).await? {
                let mut hash = DefaultHasher::new();
                (table.name, key, hash_row(table, &item)).hash(&mut hash);
                all ^= hash.finish();
            }
        }
        Ok(all)
    }
}

impl<E: Engine> Engine for Stepped<E> {
    async fn get(&self, table: &'static Table, key: Key) -> Result<Option<Item>, StoreError> {
        if let Some(locks) = self.own_locks(table) {
            return locks.get(table, key).await;
        }
        let call = self.turn(Step::new("get", Touch::row(table, &key, false))).await;
        let found = Box::pin(self.inner.get(table, key)).await?;
        self.knows(table).await?;
        call.returns(found.as_ref().map_or(0, |item| hash_row(table, item)), || found_text(found.as_ref()));
        Ok(found)
    }

    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        let (table, partition) = (query.table, query.partition.clone());
        let partition = query.index.is_none().then_some(partition);
        let call =
            self.turn(Step::new("query", Touch { table: table.name, partition, sort: None, write: false }));
        let call = call.await;
        let page = Box::pin(self.inner.query(query)).await?;
        self.knows(table).await?;
        call.returns(hash_page(table, &page), || page_text(&page));
        Ok(page)
    }

    async fn scan(
        &self,
        table: &'static Table,
        start: Option<Cursor>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        let touch = Touch { table: table.name, partition: None, sort: None, write: false };
        let call = self.turn(Step::new("scan", touch)).await;
        let page = Box::pin(self.inner.scan(table, start, limit)).await?;
        self.knows(table).await?;
        call.returns(hash_page(table, &page), || page_text(&page));
        Ok(page)
    }

    async fn put(
        &self,
        table: &'static Table,
        item: Item,
        condition: Condition,
    ) -> Result<Written, StoreError> {
        if let Some(locks) = self.own_locks(table) {
            return locks.put(table, item, condition).await;
        }
        let key = Key::of(table, &item)?;
        let call = self.turn(Step::new("put", Touch::row(table, &key, true))).await;
        let text = row_text(&item);
        let written =
            self.write(vec![(table, key)], Box::pin(self.inner.put(table, item, condition))).await?;
        call.returns(hash_written(table, &written), || format!("{text} → {}", written_text(&written)));
        Ok(written)
    }

    async fn delete(
        &self,
        table: &'static Table,
        key: Key,
        condition: Condition,
    ) -> Result<Written, StoreError> {
        if let Some(locks) = self.own_locks(table) {
            return locks.delete(table, key, condition).await;
        }
        let call = self.turn(Step::new("delete", Touch::row(table, &key, true))).await;
        let written = self
            .write(vec![(table, key.clone())], Box::pin(self.inner.delete(table, key, condition)))
            .await?;
        call.returns(hash_written(table, &written), || written_text(&written));
        Ok(written)
    }

    async fn update(
        &self,
        table: &'static Table,
        key: Key,
        edits: Vec<Edit>,
        condition: Condition,
    ) -> Result<Updated, StoreError> {
        if let Some(locks) = self.own_locks(table) {
            return locks.update(table, key, edits, condition).await;
        }
        let call = self.turn(Step::new("update", Touch::row(table, &key, true))).await;
        let names: Vec<&str> = edits.iter().map(Edit::name).collect();
        let names = names.join(", ");
        let updated = self
            .write(vec![(table, key.clone())], Box::pin(self.inner.update(table, key, edits, condition)))
            .await?;
        let (hash, text) = match &updated {
            Updated::Done(item) => (hash_row(table, item), "done".to_owned()),
            Updated::Refused(there) => {
                (!there.as_ref().map_or(0, |item| hash_row(table, item)), refused(there.as_deref()))
            }
        };
        call.returns(hash, || format!("{names} → {text}"));
        Ok(updated)
    }

    async fn transact(&self, ops: Vec<Op>) -> Result<Transacted, StoreError> {
        let rows: Vec<(&'static Table, Key)> =
            ops.iter().map(|op| Ok((op.table(), op.key()?))).collect::<Result<_, StoreError>>()?;
        let touches = ops.iter().zip(&rows);
        let touches =
            touches.map(|(op, (table, key))| Touch::row(table, key, !matches!(op, Op::Check(..)))).collect();
        let call = self.turn(Step { call: "transact", touches }).await;
        let transacted = self.write(rows, Box::pin(self.inner.transact(ops))).await?;
        let (hash, text) = match &transacted {
            Transacted::Done => (1, "done".to_owned()),
            Transacted::Refused { place, there } => {
                let there = there.as_deref();
                (!(hash_items(there) ^ *place as u64), format!("at {place}: {}", refused(there)))
            }
        };
        call.returns(hash, || text);
        Ok(transacted)
    }

    async fn put_batch(
        &self,
        items: Vec<(&'static Table, Item)>,
    ) -> Result<Vec<(&'static Table, Item)>, StoreError> {
        let rows: Vec<(&'static Table, Key)> = items
            .iter()
            .map(|(table, item)| Ok((*table, Key::of(table, item)?)))
            .collect::<Result<_, StoreError>>()?;
        let touches = rows.iter().map(|(table, key)| Touch::row(table, key, true)).collect();
        let call = self.turn(Step { call: "batch", touches }).await;
        let left = self.write(rows, Box::pin(self.inner.put_batch(items))).await?;
        call.returns(left.len() as u64, || format!("{} unprocessed", left.len()));
        Ok(left)
    }
}

/// Attributes of lock rows that differ between runs.
const RANDOM: [&str; 3] = ["ownerName", "recordVersionNumber", "data"];

fn hash_row(table: &Table, item: &Item) -> u64 {
    let mut hash = DefaultHasher::new();
    for (name, value) in item.iter() {
        if table.id != LOCKS.id || !RANDOM.contains(&&**name) {
            name.hash(&mut hash);
            hash_value(value, &mut hash);
        }
    }
    // Not zero, which means that there is no row.
    hash.finish() | 1
}

fn hash_items<'a>(items: impl IntoIterator<Item = &'a Item>) -> u64 {
    let mut hash = DefaultHasher::new();
    for item in items {
        hash_row(&BILLING_ACTIVITY, item).hash(&mut hash);
    }
    hash.finish()
}

fn hash_value(value: &Value, hash: &mut DefaultHasher) {
    match value {
        Value::S(text) | Value::N(text) => text.hash(hash),
        Value::B(bytes) => bytes.hash(hash),
        Value::Bool(value) => value.hash(hash),
        Value::L(values) => values.iter().for_each(|value| hash_value(value, hash)),
        Value::Null | Value::M(_) | Value::Ss(_) | Value::Ns(_) | Value::Bs(_) => {
            format!("{value:?}").hash(hash)
        }
    }
}

fn hash_page(table: &Table, page: &Page) -> u64 {
    let mut hash = DefaultHasher::new();
    page.items.iter().for_each(|item| hash_row(table, item).hash(&mut hash));
    page.next.is_some().hash(&mut hash);
    hash.finish()
}

fn hash_written(table: &Table, written: &Written) -> u64 {
    match written {
        Written::Done => 1,
        Written::Refused(there) => !there.as_ref().map_or(0, |item| hash_row(table, item)),
    }
}

fn written_text(written: &Written) -> String {
    match written {
        Written::Done => "done".to_owned(),
        Written::Refused(there) => refused(there.as_deref()),
    }
}

fn refused(there: Option<&Item>) -> String {
    format!("REFUSED, there is {}", found_text(there))
}

fn found_text(found: Option<&Item>) -> String {
    found.map_or_else(|| "nothing".to_owned(), row_text)
}

fn page_text(page: &Page) -> String {
    format!("[{}]", page.items.iter().map(row_text).collect::<Vec<_>>().join(" | "))
}

/// The attributes that distinguish a row from another, in one line.
fn row_text(item: &Item) -> String {
    const SHOWN: [&str; 14] = [
        "event_id",
        "subscription_id",
        "billing_status",
        "version",
        "billing_amount",
        "transaction_id",
        "attempt_key",
        "cancel_at",
        "superseded_by",
        "collection_bar",
        "next_subscription_id",
        "outcome",
        "code",
        "isReleased",
    ];
    let shown = SHOWN.iter().filter_map(|name| {
        let (Value::S(text) | Value::N(text)) = item.get(name)? else { return None };
        let text = short(text);
        if text.is_empty() {
            return None;
        }
        Some(match *name {
            "billing_status" | "subscription_id" | "event_id" => text,
            "billing_amount" => format!("${text}"),
            "version" => format!("v{text}"),
            name => format!("{name}={text}"),
        })
    });
    let text = shown.collect::<Vec<_>>().join(" ");
    if text.is_empty() { "a row".to_owned() } else { text }
}

/// Shortens UUIDs inside a text to eight digits.
pub fn short(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let is_uuid = rest.len() >= 36
            && rest.is_char_boundary(36)
            && rest[..36].bytes().enumerate().all(|(n, b)| match n {
                8 | 13 | 18 | 23 => b == b'-',
                _ => b.is_ascii_hexdigit(),
            });
        if is_uuid {
            out.push_str(&rest[..8]);
            rest = &rest[36..];
        } else {
            let next = rest.chars().next().unwrap();
            out.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    out
}
