//! Read models: a fact, the state that it is merged into and the rows that differ are booked in one transaction, and can be made again from the facts.

use dues_events::{EventId, Item};
use dues_projections::model::{Model, Told};
use dues_store::engine::TRANSACTION;
use dues_store::journal::{Aggregate, JournalHead, fact as journal_fact};
use dues_store::table::{EMBEDDED, Table};
use dues_store::{Condition, Engine, Key, Op, Store, StoreError, Transacted};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How many facts are booked at once.
const TOGETHER: usize = 20;
/// How often a booking is tried that others were faster than.
const TRIES: u32 = 50;
/// The longest pause after others were in the way.
const PAUSE: Duration = Duration::from_millis(50);

/// What became of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Booked {
    /// It is in the journal now, and the rows follow it.
    Applied,
    /// It was in the journal.
    Duplicate,
    /// Another fact with its id is in the journal.
    Different,
}

/// Rows by table and key.
type Rows = BTreeMap<(&'static str, String, String), (&'static Table, Item)>;

/// Tells facts of one aggregate. Gives what became of each.
///
/// # Errors
/// What the store could not do. Some of the facts may have been booked: told again they are duplicates.
pub async fn tell<M: Model, E: Engine>(store: &Store<E>, aggregate: &str, facts: &[Told<M::Fact>]) -> Result<Vec<Booked>, StoreError> {
    let mut booked = Vec::with_capacity(facts.len());
    for some in facts.chunks(TOGETHER) {
        let (some, stands) = tell_some::<M, E>(store, aggregate, some).await?;
        booked.extend(some);
        follow::<M, E>(store, aggregate, stands).await?;
    }
    Ok(booked)
}

/// Tells other aggregates what follows for them, and on from there. Whoever was told before a crash cut this short says that it knows, and what follows
/// from there is told again.
async fn follow<M: Model, E: Engine>(store: &Store<E>, aggregate: &str, stands: Stands<M::State>) -> Result<(), StoreError> {
    let mut seen = BTreeSet::new();
    let mut next = vec![(aggregate.to_owned(), stands)];
    while let Some((name, (version, state))) = next.pop() {
        // Two aggregates may tell each other: one that stands as it did has nothing to add.
        if seen.insert((name.clone(), version)) {
            for (other, told) in M::follows(&name, version, &state) {
                let (_, stands) = tell_some::<M, E>(store, &other, &[told]).await?;
                next.push((other, stands));
            }
        }
    }
    Ok(())
}

/// What somebody decides who has seen how an aggregate stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decided<F, R> {
    /// The fact is in the journal now.
    Applied(Told<F>),
    /// A fact with that id was in the journal: this one.
    Known(Told<F>),
    /// It was refused, and nothing was written.
    Refused(R),
}

/// Decides on an aggregate as it stands, and books the fact if it still stands so; otherwise it is decided anew. So of many who ask at once no two see
/// the same state. An id that is in the journal is not decided again.
///
/// # Errors
/// What the store could not do.
pub async fn decide<M: Model, R, E: Engine>(
    store: &Store<E>,
    aggregate: &str,
    id: &EventId,
    decision: impl Fn(&M::State) -> Result<Told<M::Fact>, R>,
) -> Result<Decided<M::Fact, R>, StoreError> {
    let journal = Aggregate::new(M::NAME, aggregate);
    for _ in 0..TRIES {
        let head = store.journal_head(&journal).await?;
        // After the head: a fact that is not there now came with a later version, which the condition on the head will see.
        if let Some(known) = store.journal_fact(&journal, id).await? {
            follow::<M, E>(store, aggregate, (head.version, read_state(&head)?)).await?;
            return Ok(Decided::Known(read(&known)?));
        }
        let before: M::State = read_state(&head)?;
        let told = match decision(&before) {
            Ok(told) => told,
            Err(refusal) => return Ok(Decided::Refused(refusal)),
        };
        let mut after = before.clone();
        M::merge(&mut after, &told);
        let facts = vec![journal.fact_op(&told.id, &json(&told)?, store.clock.now())];
        match store.engine.transact(booking::<M>(&journal, head.version, (&before, &after), facts)?).await {
            Ok(Transacted::Done) => {
                follow::<M, E>(store, aggregate, (head.version + 1, after)).await?;
                return Ok(Decided::Applied(told));
            }
            Ok(Transacted::Refused { .. }) => {}
            Err(error) if error.is_busy() => store.clock.sleep(PAUSE * fastrand::u32(1..=10) / 10).await,
            Err(error) => return Err(error),
        }
    }
    Err(StoreError::Contended(TRIES))
}

/// How an aggregate stands: its version and its state.
type Stands<S> = (u64, S);

/// The state of an aggregate.
///
/// # Errors
/// What the store could not do, or a state that cannot be read.
pub async fn state<M: Model, E: Engine>(store: &Store<E>, name: &str) -> Result<M::State, StoreError> {
    read_state(&store.journal_head(&Aggregate::new(M::NAME, name)).await?)
}

/// A fact of an aggregate.
///
/// # Errors
/// What the store could not do, or a fact that cannot be read.
pub async fn fact<M: Model, E: Engine>(store: &Store<E>, name: &str, id: &EventId) -> Result<Option<Told<M::Fact>>, StoreError> {
    let there = store.journal_fact(&Aggregate::new(M::NAME, name), id).await?;
    there.map(|there| read(&there)).transpose()
}

async fn tell_some<M: Model, E: Engine>(
    store: &Store<E>,
    name: &str,
    facts: &[Told<M::Fact>],
) -> Result<(Vec<Booked>, Stands<M::State>), StoreError> {
    let aggregate = Aggregate::new(M::NAME, name);
    let mut booked: Vec<Booked> = repeats(facts);
    for _ in 0..TRIES {
        let head = store.journal_head(&aggregate).await?;
        let before: M::State = read_state(&head)?;
        let mut after = before.clone();
        let (mut places, mut ops) = (Vec::new(), Vec::new());
        for (n, told) in facts.iter().enumerate().filter(|(n, _)| booked[*n] == Booked::Applied) {
            M::merge(&mut after, told);
            places.push(n);
            ops.push(aggregate.fact_op(&told.id, &json(told)?, store.clock.now()));
        }
        if places.is_empty() {
            return Ok((booked, (head.version, before)));
        }
        match store.engine.transact(booking::<M>(&aggregate, head.version, (&before, &after), ops)?).await {
            Ok(Transacted::Done) => return Ok((booked, (head.version + 1, after))),
            Ok(Transacted::Refused { place, .. }) => {
                // The head comes first, then the facts.
                if let Some(n) = place.checked_sub(1).and_then(|place| places.get(place)).copied() {
                    booked[n] = known(store, &aggregate, &facts[n]).await?;
                }
            }
            Err(error) if error.is_busy() => store.clock.sleep(PAUSE * fastrand::u32(1..=10) / 10).await,
            Err(error) => return Err(error),
        }
    }
    Err(StoreError::Contended(TRIES))
}

/// What is written at once: the head first, then the facts, then the rows that differ.
fn booking<M: Model>(aggregate: &Aggregate, version: u64, states: (&M::State, &M::State), facts: Vec<Op>) -> Result<Vec<Op>, StoreError> {
    let (name, (before, after)) = (&aggregate.name, states);
    let mut ops = vec![aggregate.head_op(&JournalHead { version: version + 1, state: json(after)? })];
    ops.extend(facts);
    ops.extend(differences(&rows::<M>(name, before)?, &rows::<M>(name, after)?));
    if ops.len() > TRANSACTION {
        return Err(StoreError::Invalid(format!("{} {name}: {} rows change at once, the most is {TRANSACTION}", M::NAME, ops.len())));
    }
    Ok(ops)
}

/// Facts that are told twice at once.
fn repeats<F: PartialEq>(facts: &[Told<F>]) -> Vec<Booked> {
    let mut first: BTreeMap<&EventId, &Told<F>> = BTreeMap::new();
    let told = facts.iter().map(|told| match first.get(&told.id) {
        None => {
            first.insert(&told.id, told);
            Booked::Applied
        }
        Some(known) if *known == told => Booked::Duplicate,
        Some(_) => Booked::Different,
    });
    told.collect()
}

/// Whether the fact that the journal has is this one.
async fn known<F, E>(store: &Store<E>, aggregate: &Aggregate, told: &Told<F>) -> Result<Booked, StoreError>
where
    F: PartialEq + serde::de::DeserializeOwned,
    E: Engine,
{
    let there = store.journal_fact(aggregate, &told.id).await?;
    let same = there.map(|there| read::<Told<F>>(&there)).transpose()?.is_some_and(|there| there == *told);
    Ok(if same { Booked::Duplicate } else { Booked::Different })
}

/// The rows of an aggregate, made again from the rows of its facts alone.
///
/// # Errors
/// A fact that cannot be read.
pub fn made<M: Model>(name: &str, facts: &[Item]) -> Result<Vec<(&'static Table, Item)>, StoreError> {
    let mut state = M::State::default();
    for fact in facts {
        M::merge(&mut state, &read(journal_fact(fact)?)?);
    }
    Ok(rows::<M>(name, &state)?.into_values().collect())
}

fn rows<M: Model>(name: &str, state: &M::State) -> Result<Rows, StoreError> {
    let place = |(table, item): (&'static str, Item)| {
        let known = EMBEDDED.into_iter().find(|known| known.name == table);
        let table = known.ok_or_else(|| StoreError::Invalid(format!("{}: there is no table {table}", M::NAME)))?;
        let Key { partition, sort } = Key::of(table, &item)?;
        Ok(((table.name, partition, sort.unwrap_or_default()), (table, item)))
    };
    M::rows(name, state).into_iter().map(place).collect()
}

/// What leads from some rows to others.
fn differences(before: &Rows, after: &Rows) -> Vec<Op> {
    let gone = before.iter().filter(|(key, _)| !after.contains_key(*key)).map(|((_, partition, sort), (table, _))| {
        let sort = table.sort.map(|_| sort.clone());
        Op::Delete(table, Key { partition: partition.clone(), sort }, Condition::Always)
    });
    let changed = after.iter().filter(|(key, row)| before.get(*key) != Some(*row));
    gone.chain(changed.map(|(_, (table, item))| Op::Put(table, item.clone(), Condition::Always))).collect()
}

fn read_state<S: Default + serde::de::DeserializeOwned>(head: &JournalHead) -> Result<S, StoreError> {
    if head.state.is_empty() { Ok(S::default()) } else { read(&head.state) }
}

fn read<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|e| StoreError::Invalid(format!("the journal: {e}")))
}

fn json<T: serde::Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|e| StoreError::Invalid(format!("the journal: {e}")))
}
