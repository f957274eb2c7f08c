//! Bookings of read models: a fact, the state that it is merged into and the rows that differ are written
//! in one transaction. The rows can be rebuilt from the facts.

use dues_events::{EventId, Item};
use dues_projections::model::{Model, Recorded};
use dues_store::engine::TRANSACTION;
use dues_store::journal::{Aggregate, JournalHead, fact as journal_fact};
use dues_store::table::{Table, TableId};
use dues_store::{Condition, Engine, Key, Op, Store, StoreError, Transacted};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::outcome::FactOutcome;

/// Facts per booking.
const TOGETHER: usize = 20;
/// Attempts before contention is an error.
const TRIES: u32 = 50;
/// Longest pause after contention.
const PAUSE: Duration = Duration::from_millis(50);

/// Rows by table and key.
type Rows = BTreeMap<(TableId, String, String), (&'static Table, Item)>;

/// Records facts of one aggregate and returns the outcome of each.
///
/// # Errors
/// Any [`StoreError`]. Some facts may be booked: a retry finds them as duplicates.
pub async fn record_facts<M: Model, E: Engine>(
    store: &Store<E>,
    aggregate: &str,
    facts: &[Recorded<M::Fact>],
) -> Result<Vec<FactOutcome>, StoreError> {
    let mut booked = Vec::with_capacity(facts.len());
    for some in facts.chunks(TOGETHER) {
        let (some, stands) = record_batch::<M, E>(store, aggregate, some).await?;
        booked.extend(some);
        follow::<M, E>(store, aggregate, stands).await?;
    }
    Ok(booked)
}

/// Records the facts that follow for other aggregates, transitively. After a crash, a retry finds those
/// already recorded as duplicates and continues from there.
async fn follow<M: Model, E: Engine>(
    store: &Store<E>,
    aggregate: &str,
    stands: Stands<M::State>,
) -> Result<(), StoreError> {
    let mut seen = BTreeSet::new();
    let mut next = vec![(aggregate.to_owned(), stands)];
    while let Some((name, (version, state))) = next.pop() {
        // Two aggregates may follow each other: an unchanged version has nothing to add.
        if seen.insert((name.clone(), version)) {
            for (other, fact) in M::follows(&name, version, &state) {
                let (_, stands) = record_batch::<M, E>(store, &other, &[fact]).await?;
                next.push((other, stands));
            }
        }
    }
    Ok(())
}

/// The result of a decision on an aggregate's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision<F, R> {
    /// The fact is booked now.
    Applied(Recorded<F>),
    /// A fact with that id was booked before: this one.
    Known(Recorded<F>),
    /// Refused; nothing was written.
    Refused(R),
}

/// Decides on an aggregate's current state and books the fact if the state is unchanged; otherwise decides
/// anew. So no two concurrent decisions are based on the same state. An id that is in the journal is not
/// decided again.
pub async fn decide<M: Model, R, E: Engine>(
    store: &Store<E>,
    aggregate: &str,
    id: &EventId,
    decision: impl Fn(&M::State) -> Result<Recorded<M::Fact>, R>,
) -> Result<Decision<M::Fact, R>, StoreError> {
    let journal = Aggregate::new(M::NAME, aggregate);
    for _ in 0..TRIES {
        let head = store.journal_head(&journal).await?;
        // After the head: a fact booked after this read raises the head's version, and the condition on the
        // head fails.
        if let Some(known) = store.journal_fact(&journal, id).await? {
            follow::<M, E>(store, aggregate, (head.version, read_state(&head)?)).await?;
            return Ok(Decision::Known(read(&known)?));
        }
        let before: M::State = read_state(&head)?;
        let fact = match decision(&before) {
            Ok(fact) => fact,
            Err(refusal) => return Ok(Decision::Refused(refusal)),
        };
        let mut after = before.clone();
        M::merge(&mut after, &fact);
        let facts = vec![journal.fact_op(&fact.id, &json(&fact)?, store.clock.now())];
        match store.engine.transact(booking::<M>(&journal, head.version, (&before, &after), facts)?).await {
            Ok(Transacted::Done) => {
                follow::<M, E>(store, aggregate, (head.version + 1, after)).await?;
                return Ok(Decision::Applied(fact));
            }
            Ok(Transacted::Refused { .. }) => {}
            Err(error) if error.is_busy() => store.clock.sleep(PAUSE * fastrand::u32(1..=10) / 10).await,
            Err(error) => return Err(error),
        }
    }
    Err(StoreError::Contended(TRIES))
}

/// An aggregate's version and state.
type Stands<S> = (u64, S);

/// The state of an aggregate.
pub async fn load_state<M: Model, E: Engine>(store: &Store<E>, name: &str) -> Result<M::State, StoreError> {
    read_state(&store.journal_head(&Aggregate::new(M::NAME, name)).await?)
}

/// A fact of an aggregate.
pub async fn load_fact<M: Model, E: Engine>(
    store: &Store<E>,
    name: &str,
    id: &EventId,
) -> Result<Option<Recorded<M::Fact>>, StoreError> {
    let there = store.journal_fact(&Aggregate::new(M::NAME, name), id).await?;
    there.map(|there| read(&there)).transpose()
}

async fn record_batch<M: Model, E: Engine>(
    store: &Store<E>,
    name: &str,
    facts: &[Recorded<M::Fact>],
) -> Result<(Vec<FactOutcome>, Stands<M::State>), StoreError> {
    let aggregate = Aggregate::new(M::NAME, name);
    let mut booked: Vec<FactOutcome> = repeats(facts);
    for _ in 0..TRIES {
        let head = store.journal_head(&aggregate).await?;
        let before: M::State = read_state(&head)?;
        let mut after = before.clone();
        let (mut places, mut ops) = (Vec::new(), Vec::new());
        for (n, fact) in facts.iter().enumerate().filter(|(n, _)| booked[*n] == FactOutcome::Applied) {
            M::merge(&mut after, fact);
            places.push(n);
            ops.push(aggregate.fact_op(&fact.id, &json(fact)?, store.clock.now()));
        }
        if places.is_empty() {
            return Ok((booked, (head.version, before)));
        }
        match store.engine.transact(booking::<M>(&aggregate, head.version, (&before, &after), ops)?).await {
            Ok(Transacted::Done) => return Ok((booked, (head.version + 1, after))),
            Ok(Transacted::Refused { place, .. }) => {
                // The operations start with the head; the facts follow.
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

/// The operations of a booking: the head first, then the facts, then the rows that differ.
fn booking<M: Model>(
    aggregate: &Aggregate,
    version: u64,
    states: (&M::State, &M::State),
    facts: Vec<Op>,
) -> Result<Vec<Op>, StoreError> {
    let (name, (before, after)) = (&aggregate.name, states);
    let mut ops = vec![aggregate.head_op(&JournalHead { version: version + 1, state: json(after)? })];
    ops.extend(facts);
    ops.extend(differences(&rows::<M>(name, before)?, &rows::<M>(name, after)?));
    if ops.len() > TRANSACTION {
        return Err(StoreError::Invalid(format!(
            "{} {name}: {} rows change at once, the most is {TRANSACTION}",
            M::NAME,
            ops.len()
        )));
    }
    Ok(ops)
}

/// Marks facts that occur twice in one call.
fn repeats<F: PartialEq>(facts: &[Recorded<F>]) -> Vec<FactOutcome> {
    let mut first: BTreeMap<&EventId, &Recorded<F>> = BTreeMap::new();
    let outcomes = facts.iter().map(|fact| match first.get(&fact.id) {
        None => {
            first.insert(&fact.id, fact);
            FactOutcome::Applied
        }
        Some(known) if *known == fact => FactOutcome::Duplicate,
        Some(_) => FactOutcome::ConflictingContent,
    });
    outcomes.collect()
}

/// Whether the booked fact with that id has the same content.
async fn known<F, E>(
    store: &Store<E>,
    aggregate: &Aggregate,
    fact: &Recorded<F>,
) -> Result<FactOutcome, StoreError>
where
    F: PartialEq + serde::de::DeserializeOwned,
    E: Engine,
{
    let there = store.journal_fact(aggregate, &fact.id).await?;
    let same =
        there.map(|there| read::<Recorded<F>>(&there)).transpose()?.is_some_and(|there| there == *fact);
    Ok(if same { FactOutcome::Duplicate } else { FactOutcome::ConflictingContent })
}

/// Rebuilds the rows of an aggregate from its facts alone.
pub fn rebuild_rows<M: Model>(name: &str, facts: &[Item]) -> Result<Vec<(&'static Table, Item)>, StoreError> {
    let mut state = M::State::default();
    for fact in facts {
        M::merge(&mut state, &read(journal_fact(fact)?)?);
    }
    Ok(rows::<M>(name, &state)?.into_values().collect())
}

fn rows<M: Model>(name: &str, state: &M::State) -> Result<Rows, StoreError> {
    let place = |(table, item): (&'static str, Item)| {
        let table = TableId::from_name(table)
            .ok_or_else(|| StoreError::Invalid(format!("{}: there is no table {table}", M::NAME)))?
            .definition();
        let Key { partition, sort } = Key::of(table, &item)?;
        Ok(((table.id, partition, sort.unwrap_or_default()), (table, item)))
    };
    M::rows(name, state).into_iter().map(place).collect()
}

/// The operations from some rows to others.
fn differences(before: &Rows, after: &Rows) -> Vec<Op> {
    let gone = before.iter().filter(|(key, _)| !after.contains_key(*key)).map(
        |((_, partition, sort), (table, _))| {
            let sort = table.sort.map(|_| sort.clone());
            Op::Delete(table, Key { partition: partition.clone(), sort }, Condition::Always)
        },
    );
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
