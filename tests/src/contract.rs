//! The contract of the `Engine` trait and of the access patterns of billing-activity. Each function is one
//! clause; `tests/contract.rs` runs them on every engine.

// The function names are sentences and need no documentation.
#![allow(missing_docs)]

use dues_events::billing::record::{Closed, FailedAttempt, Failure, Pause};
use dues_events::{GoTime, Item, Record, State, Status, SubscriptionId, UserId, Value};
use dues_store::parked::Parked;
use dues_store::table::figureforge::{FIGUREFORGE, JOBS_BY_STATUS};
use dues_store::table::usage::{BY_FEATURE_AND_DATE, USER_USAGE};
use dues_store::table::{BILLING_ACTIVITY, BY_STATUS, BY_SUBSCRIPTION, HISTORY, LOCKS};
use dues_store::{
    Condition, Edit, Engine, Key, Op, Order, Query, Sorted, StoreError, Transacted, Updated, Written,
};

use std::collections::BTreeSet;

use crate::fixtures::company::{
    all, context, deliver, dump, membership, monthly, payment, records, store, t,
};

fn row(user: &str, date: &str, status: &str, subscription: &str) -> Item {
    let mut item = Item::new();
    for (name, text) in [
        ("user_id", user),
        ("billing_date", date),
        ("billing_status", status),
        ("subscription_id", subscription),
    ] {
        item.set_text(name, text);
    }
    item
}

fn key(user: &str, date: &str) -> Key {
    Key { partition: user.into(), sort: Some(date.into()) }
}

/// A SCHEDULED record, created by the memberships handler.
async fn scheduled<E: Engine>(engine: &E, user: &str, day: &str) -> Record {
    let context = context(engine.clone());
    deliver(
        &context,
        &[membership(&format!("mem-{user}"), "ACTIVATE", user, "2026-01-05T00:00:00Z", monthly(day))],
        10,
    )
    .await;
    records(engine, user).await.pop().unwrap()
}

/// A copy of a record with another key and state.
/// A copy in another state, as a reader of its row sees it: with the attempts that the state follows from.
fn copy(record: &Record, n: usize, date: &str, state: State) -> Record {
    let copy = Record {
        subscription_id: SubscriptionId::from(format!("00000000-0000-4000-8000-{n:012}")),
        billing_date: GoTime::read(date).unwrap().unwrap(),
        last_run_date: Some(GoTime::nine_digits(t("2026-01-05T00:00:00Z"))),
        applied: Default::default(),
        version: 0,
        state,
        ..record.clone()
    };
    Record::from_item(copy.to_item()).unwrap()
}

fn error() -> State {
    State::Error(FailedAttempt { transaction_id: None, failure: Failure::new(None, Some("declined")) })
}

pub async fn a_query_can_ask_for_the_sort_keys_that_start_alike<E: Engine>(engine: E) {
    for (user, date) in
        [("u", "A#1"), ("u", "A#2"), ("u", "A#é"), ("u", "B#1"), ("u", "A"), ("u", "a#3"), ("v", "A#4")]
    {
        assert_eq!(engine.put(&HISTORY, bare_row(user, date), Condition::NoItem).await, Ok(Written::Done));
    }
    let asked = async |query: Query| {
        let page = engine.query(query).await.unwrap();
        let keys: Vec<String> =
            page.items.iter().map(|item| item.text("last_run_date").unwrap().to_owned()).collect();
        (keys, page.next)
    };
    let all = Query::prefix(&HISTORY, "u", "A#");
    assert_eq!(asked(all.clone()).await, (vec!["A#1".to_owned(), "A#2".into(), "A#é".into()], None));
    let (first, next) = asked(Query { limit: Some(2), ..all.clone() }).await;
    assert_eq!(first, ["A#1", "A#2"]);
    assert_eq!(asked(Query { start: next, ..all.clone() }).await.0, ["A#é"], "from where the page ended");
    assert_eq!(asked(Query { order: Order::Descending, limit: Some(1), ..all }).await.0, ["A#é"]);
    assert_eq!(asked(Query::prefix(&HISTORY, "u", "C")).await, (vec![], None));
}

pub async fn an_index_is_read_by_its_sort_key<E: Engine>(engine: E) {
    // One index is sorted by text, one by number. Items without the sort key, or with one of another type,
    // are not in the index.
    let rows =
        [("a", "2026-01-02", 9), ("b", "2026-01-01", 10), ("c", "2026-01-03", 100), ("d", "2026-01-02", 11)];
    for (user, day, second) in rows {
        let mut usage = Item::new();
        for (name, text) in
            [("user_id", user), ("feature_date_key", "f"), ("feature_name", "f"), ("reset_date", day)]
        {
            usage.set_text(name, text);
        }
        engine.put(&USER_USAGE, usage.clone(), Condition::Always).await.unwrap();
        usage.remove("reset_date");
        usage.set_text("user_id", format!("{user}-never"));
        engine.put(&USER_USAGE, usage, Condition::Always).await.unwrap();
        let mut job = Item::new();
        for (name, text) in [("pk", user), ("sk", "JOB"), ("job_status_pk", "JOBSTATUS#queued")] {
            job.set_text(name, text);
        }
        job.set("created_at", Value::number(second));
        engine.put(&FIGUREFORGE, job, Condition::Always).await.unwrap();
    }
    let usage = |sorted| Query { sorted, ..Query::index(&USER_USAGE, BY_FEATURE_AND_DATE.name, "f") };
    let jobs =
        |sorted| Query { sorted, ..Query::index(&FIGUREFORGE, JOBS_BY_STATUS.name, "JOBSTATUS#queued") };
    let number = Value::number;
    for (query, expected) in [
        (usage(Sorted::All), "badc"),
        (Query { order: Order::Descending, ..usage(Sorted::All) }, "cdab"),
        (usage(Sorted::at(Value::text("2026-01-02"))), "ad"),
        (usage(Sorted::Between(Value::text("2026-01-02"), Value::text("2026-01-03"))), "adc"),
        (usage(Sorted::Prefix("2026-01-0".into())), "badc"),
        (usage(Sorted::Prefix("2026-02".into())), ""),
        (jobs(Sorted::All), "abdc"),
        (Query { order: Order::Descending, ..jobs(Sorted::All) }, "cdba"),
        (jobs(Sorted::Between(number(10), number(99))), "bd"),
        (jobs(Sorted::at(number(100))), "c"),
    ] {
        let name = if query.index == Some(JOBS_BY_STATUS.name) { "pk" } else { "user_id" };
        // Pages of two: the second continues where the first ended.
        let mut query = Query { limit: Some(2), ..query };
        let mut seen = String::new();
        loop {
            let page = engine.query(query.clone()).await.unwrap();
            page.items.iter().for_each(|item| seen.push_str(item.text(name).unwrap()));
            match page.next {
                Some(next) => query.start = Some(next),
                None => break,
            }
        }
        let sorts = |text: &str| text.replace("da", "ad");
        assert_eq!(sorts(&seen), sorts(expected), "{query:?}: those of one sort key may come in any order");
    }
}

fn bare_row(user: &str, at: &str) -> Item {
    let mut item = Item::new();
    item.set_text("user_id", user);
    item.set_text("last_run_date", at);
    item
}

pub async fn conditions_decide_whether_a_write_happens<E: Engine>(engine: E) {
    let put =
        async |item: &Item, condition| engine.put(&BILLING_ACTIVITY, item.clone(), condition).await.unwrap();
    let mut first = row("u", "d", "SCHEDULED", "s");
    first.set("version", Value::number(9));
    assert_eq!(
        put(&first, Condition::Equals("version", Value::number(9))).await,
        Written::Refused(None),
        "there is nothing yet"
    );
    assert_eq!(put(&first, Condition::NoItem).await, Written::Done);
    assert_eq!(
        put(&first, Condition::NoItem).await,
        Written::Refused(Some(Box::new(first.clone()))),
        "the refusal has the current row"
    );
    for (condition, holds) in [
        (Condition::Always, true),
        (Condition::Equals("version", Value::number(9)), true),
        (Condition::Equals("version", Value::number(10)), false),
        (Condition::Equals("version", Value::text("9")), false),
        (Condition::Less("version", Value::number(10)), true),
        (Condition::Less("version", Value::number(9)), false),
        (Condition::AtLeast("version", Value::number(9)), true),
        (Condition::AtLeast("version", Value::number(10)), false),
        (Condition::Less("billing_status", Value::text("T")), true),
        (Condition::Missing("version"), false),
        (Condition::Equals("user_id", Value::text("u")), true),
        (Condition::Equals("billing_date", Value::text("d")), true),
        (Condition::Equals("billing_date", Value::text("e")), false),
        (Condition::Missing("user_id"), false),
        (Condition::Missing("no_such"), true),
        (Condition::Less("no_such", Value::number(1)), false),
        (
            Condition::All(vec![
                Condition::Missing("no_such"),
                Condition::Equals("version", Value::number(9)),
            ]),
            true,
        ),
        (
            Condition::All(vec![
                Condition::Missing("no_such"),
                Condition::Equals("version", Value::number(8)),
            ]),
            false,
        ),
        (
            Condition::Any(vec![
                Condition::NoItem,
                Condition::Equals("billing_status", Value::text("SCHEDULED")),
            ]),
            true,
        ),
        (Condition::Any(vec![Condition::NoItem, Condition::Missing("version")]), false),
        (Condition::All(vec![Condition::Any(vec![Condition::Missing("no_such")])]), true),
        (Condition::All(vec![Condition::Always, Condition::Missing("version")]), false),
        (
            Condition::All(vec![
                Condition::Missing("no_such"),
                Condition::Any(vec![Condition::Equals("version", Value::number(9))]),
            ]),
            true,
        ),
        (
            Condition::Any(vec![
                Condition::NoItem,
                Condition::All(vec![Condition::Missing("no_such"), Condition::Missing("nor_this")]),
            ]),
            true,
        ),
    ] {
        let written = put(&first, condition.clone()).await;
        assert_eq!(written == Written::Done, holds, "{condition:?}: {written:?}");
    }
    let delete = async |condition| engine.delete(&BILLING_ACTIVITY, key("u", "d"), condition).await.unwrap();
    assert_eq!(
        delete(Condition::Equals("version", Value::number(1))).await,
        Written::Refused(Some(Box::new(first.clone())))
    );
    assert_eq!(engine.get(&BILLING_ACTIVITY, key("u", "d")).await.unwrap(), Some(first));
    assert_eq!(delete(Condition::Equals("version", Value::number(9))).await, Written::Done);
    assert_eq!(delete(Condition::Always).await, Written::Done, "removing what is not there is done");
    assert_eq!(engine.get(&BILLING_ACTIVITY, key("u", "d")).await.unwrap(), None);
}

pub async fn an_update_changes_what_it_names_and_makes_what_is_missing<E: Engine>(engine: E) {
    let update = async |edits, condition| {
        engine.update(&BILLING_ACTIVITY, key("u", "d"), edits, condition).await.unwrap()
    };
    let mut expected = Item::new();
    expected.set_text("user_id", "u");
    expected.set_text("billing_date", "d");
    assert_eq!(
        update(vec![], Condition::Equals("version", Value::number(1))).await,
        Updated::Refused(None),
        "there is nothing yet"
    );
    assert_eq!(
        engine.get(&BILLING_ACTIVITY, key("u", "d")).await.unwrap(),
        None,
        "a refused update makes nothing"
    );
    for (edits, changes) in [
        (
            vec![Edit::Add("version", 1), Edit::Set("note", Value::text("first"))],
            vec![("version", "1"), ("note", "first")],
        ),
        (vec![Edit::Add("version", 41)], vec![("version", "42")]),
        (vec![Edit::Add("version", -44), Edit::Add("other", -7)], vec![("version", "-2"), ("other", "-7")]),
        (
            vec![Edit::Set("note", Value::text("")), Edit::Remove("other"), Edit::Remove("no_such")],
            vec![("note", "")],
        ),
        (vec![Edit::Set("version", Value::number(9)), Edit::Remove("note")], vec![("version", "9")]),
        (vec![], vec![]),
    ] {
        edits
            .iter()
            .filter(|edit| matches!(edit, Edit::Remove(_)))
            .for_each(|edit| drop(expected.remove(edit.name())));
        for (name, text) in changes {
            expected.set(name, if name == "note" { Value::text(text) } else { Value::N(text.into()) });
        }
        assert_eq!(
            update(edits.clone(), Condition::Always).await,
            Updated::Done(Box::new(expected.clone())),
            "{edits:?}"
        );
        assert_eq!(
            engine.get(&BILLING_ACTIVITY, key("u", "d")).await.unwrap().as_ref(),
            Some(&expected),
            "{edits:?}"
        );
    }
    let raise = || vec![Edit::Set("version", Value::number(10))];
    let refused = Updated::Refused(Some(Box::new(expected.clone())));
    for condition in
        [Condition::NoItem, Condition::Equals("version", Value::number(8)), Condition::Missing("version")]
    {
        assert_eq!(update(raise(), condition).await, refused, "the refusal has the current row");
    }
    assert_eq!(
        engine.get(&BILLING_ACTIVITY, key("u", "d")).await.unwrap().as_ref(),
        Some(&expected),
        "a refused update changes nothing"
    );
    expected.set("version", Value::number(10));
    assert_eq!(
        update(raise(), Condition::Equals("version", Value::number(9))).await,
        Updated::Done(Box::new(expected))
    );
    let lock = Key { partition: "a lock".into(), sort: None };
    let made = engine
        .update(&LOCKS, lock.clone(), vec![Edit::Set("data", Value::B(vec![0, 255]))], Condition::NoItem)
        .await
        .unwrap();
    let Updated::Done(made) = made else { panic!("{made:?}") };
    assert_eq!(engine.get(&LOCKS, lock).await.unwrap().as_ref(), Some(&*made), "a table without a sort key");
    assert_eq!((made.len(), made.get("data")), (2, Some(&Value::B(vec![0, 255]))));
}

pub async fn an_update_that_cannot_be_made_is_invalid_and_changes_nothing<E: Engine>(engine: E) {
    let before = row("u", "d", "SCHEDULED", "s");
    engine.put(&BILLING_ACTIVITY, before.clone(), Condition::NoItem).await.unwrap();
    let whole = |sort: Option<&str>| Key { partition: "u".into(), sort: sort.map(str::to_owned) };
    for (key, edits) in [
        (key("u", "d"), vec![Edit::Set("user_id", Value::text("other"))]),
        (key("u", "d"), vec![Edit::Remove("billing_date")]),
        (key("u", "d"), vec![Edit::Set("note", Value::text("once")), Edit::Remove("note")]),
        (key("u", "d"), vec![Edit::Set("note", Value::text("x")), Edit::Add("billing_status", 1)]),
        (whole(None), vec![Edit::Add("version", 1)]),
        (whole(Some("")), vec![Edit::Add("version", 1)]),
    ] {
        let error = engine
            .update(&BILLING_ACTIVITY, key.clone(), edits.clone(), Condition::Always)
            .await
            .unwrap_err();
        assert!(matches!(error, StoreError::Invalid(_)), "{key:?} {edits:?}: {error}");
    }
    assert_eq!(all(&engine, &BILLING_ACTIVITY).await, [before]);
}

pub async fn updates_at_once_add_up<E: Engine>(engine: E) {
    let add = |n: i64| {
        engine.update(
            &LOCKS,
            Key { partition: "sum".into(), sort: None },
            vec![Edit::Add("n", n)],
            Condition::Always,
        )
    };
    let sums = futures::future::join_all((1..=60).map(add)).await;
    let after = |updated: Updated| match updated {
        Updated::Done(item) => item.get("n").and_then(Value::as_u64).unwrap(),
        Updated::Refused(there) => panic!("{there:?}"),
    };
    let mut sums: Vec<u64> = sums.into_iter().map(|sum| after(sum.unwrap())).collect();
    sums.sort_unstable();
    sums.dedup();
    assert_eq!(
        (sums.len(), sums.last()),
        (60, Some(&1830)),
        "each saw a sum of its own, and the last the whole"
    );
}

pub async fn an_index_follows_updates<E: Engine>(engine: E) {
    let found = async |status: &str| {
        engine
            .query(Query::index(&BILLING_ACTIVITY, BY_STATUS.name, status))
            .await
            .unwrap()
            .items
            .iter()
            .map(Item::to_json)
            .collect::<Vec<_>>()
    };
    let update = async |edits| {
        engine.update(&BILLING_ACTIVITY, key("u", "d"), edits, Condition::Always).await.unwrap()
    };
    let mut expected = Vec::new();
    for edits in [
        vec![Edit::Set("billing_status", Value::text("SCHEDULED"))],
        vec![Edit::Add("version", 1)],
        vec![
            Edit::Set("billing_status", Value::text("ACHSENT")),
            Edit::Set("subscription_id", Value::text("s")),
        ],
        vec![Edit::Remove("billing_status")],
    ] {
        let Updated::Done(item) = update(edits).await else { panic!("refused") };
        let status = item.text("billing_status").unwrap_or_default();
        expected.push((status.to_owned(), found("SCHEDULED").await.len(), found("ACHSENT").await.len()));
        if !status.is_empty() {
            assert_eq!(found(status).await, [item.to_json()], "the index has the whole item");
        }
    }
    let seen: Vec<_> =
        expected.iter().map(|(status, scheduled, sent)| (status.as_str(), *scheduled, *sent)).collect();
    assert_eq!(seen, [("SCHEDULED", 1, 0), ("SCHEDULED", 1, 0), ("ACHSENT", 0, 1), ("", 0, 0)]);
    let by_id = engine.query(Query::index(&BILLING_ACTIVITY, BY_SUBSCRIPTION.name, "s")).await.unwrap();
    assert_eq!(by_id.items.len(), 1);
}

fn lock_key(name: &str) -> Key {
    Key { partition: name.into(), sort: None }
}

fn lock_row(name: &str, n: u64) -> Item {
    [("PartitionKey".into(), Value::text(name)), ("n".into(), Value::number(n))].into_iter().collect()
}

/// All rows of the tables that the transaction clauses write.
async fn three_tables<E: Engine>(engine: &E) -> [Vec<Item>; 3] {
    [all(engine, &BILLING_ACTIVITY).await, all(engine, &HISTORY).await, all(engine, &LOCKS).await]
}

pub async fn a_transaction_does_all_of_it<E: Engine>(engine: E) {
    let old = row("u", "old", "SCHEDULED", "s-old");
    engine.put(&BILLING_ACTIVITY, old.clone(), Condition::NoItem).await.unwrap();
    engine.put(&LOCKS, lock_row("there", 1), Condition::NoItem).await.unwrap();
    let new = row("u", "new", "ACHSENT", "s-new");
    let ops = vec![
        Op::Put(&BILLING_ACTIVITY, new.clone(), Condition::NoItem),
        Op::Update(
            &LOCKS,
            lock_key("sum"),
            vec![Edit::Add("n", 7), Edit::Set("note", Value::text("made"))],
            Condition::NoItem,
        ),
        Op::Update(
            &LOCKS,
            lock_key("there"),
            vec![Edit::Add("n", -3)],
            Condition::Equals("n", Value::number(1)),
        ),
        Op::Delete(
            &BILLING_ACTIVITY,
            key("u", "old"),
            Condition::Equals("billing_status", Value::text("SCHEDULED")),
        ),
        Op::Delete(&LOCKS, lock_key("nothing"), Condition::Always),
        Op::Check(&LOCKS, lock_key("not there"), Condition::NoItem),
        Op::Check(&LOCKS, lock_key("whatever"), Condition::Always),
    ];
    assert_eq!(engine.transact(ops).await.unwrap(), Transacted::Done);
    let mut made = lock_row("sum", 7);
    made.set_text("note", "made");
    let mut less = lock_row("there", 1);
    less.set("n", Value::N("-2".into()));
    assert_eq!(all(&engine, &BILLING_ACTIVITY).await, [new]);
    let mut locks = all(&engine, &LOCKS).await;
    locks.sort_by_key(|lock| lock.text("PartitionKey").map(str::to_owned));
    assert_eq!(locks, [made, less]);
    let found = async |status: &str| {
        engine.query(Query::index(&BILLING_ACTIVITY, BY_STATUS.name, status)).await.unwrap().items.len()
    };
    assert_eq!((found("SCHEDULED").await, found("ACHSENT").await), (0, 1), "the index follows");
}

pub async fn a_refused_transaction_changes_nothing_and_names_the_failed_condition<E: Engine>(engine: E) {
    let there = row("u", "d", "SCHEDULED", "s");
    engine.put(&BILLING_ACTIVITY, there.clone(), Condition::NoItem).await.unwrap();
    engine.put(&LOCKS, lock_row("l", 5), Condition::NoItem).await.unwrap();
    let before = three_tables(&engine).await;
    let put = |condition| Op::Put(&HISTORY, history_row(), condition);
    let add = |condition| Op::Update(&LOCKS, lock_key("l"), vec![Edit::Add("n", 1)], condition);
    let delete = |condition| Op::Delete(&BILLING_ACTIVITY, key("u", "d"), condition);
    let check = |condition| Op::Check(&BILLING_ACTIVITY, key("u", "none"), condition);
    let six = || Condition::AtLeast("n", Value::number(6));
    for (ops, place, was) in [
        (vec![put(Condition::NoItem), add(six())], 1, Some(lock_row("l", 5))),
        (vec![add(six()), put(Condition::NoItem)], 0, Some(lock_row("l", 5))),
        (
            vec![put(Condition::NoItem), add(Condition::Always), delete(Condition::NoItem)],
            2,
            Some(there.clone()),
        ),
        (
            vec![
                delete(Condition::Always),
                add(Condition::Always),
                check(Condition::Equals("version", Value::number(1))),
            ],
            2,
            None,
        ),
        (vec![put(Condition::Equals("version", Value::number(1))), add(six())], 0, None),
        (
            vec![delete(Condition::Always), Op::Check(&LOCKS, lock_key("l"), Condition::NoItem), put(six())],
            1,
            Some(lock_row("l", 5)),
        ),
        (
            vec![Op::Put(&BILLING_ACTIVITY, row("u", "d", "ACHSENT", "s"), Condition::NoItem)],
            0,
            Some(there.clone()),
        ),
        (vec![check(Condition::NoItem), add(Condition::Missing("n"))], 1, Some(lock_row("l", 5))),
    ] {
        let outcome = engine.transact(ops.clone()).await.unwrap();
        assert_eq!(outcome, Transacted::Refused { place, there: was.map(Box::new) }, "{ops:?}");
        assert_eq!(three_tables(&engine).await, before, "{ops:?}");
    }
    let only_checks = vec![
        check(Condition::NoItem),
        Op::Check(&LOCKS, lock_key("l"), Condition::Equals("n", Value::number(5))),
    ];
    assert_eq!(engine.transact(only_checks).await.unwrap(), Transacted::Done);
    assert_eq!(three_tables(&engine).await, before);
}

fn history_row() -> Item {
    [("user_id", "u"), ("last_run_date", "d")]
        .into_iter()
        .map(|(name, text)| (name.into(), Value::text(text)))
        .collect()
}

pub async fn a_transaction_that_cannot_be_is_invalid_and_does_nothing<E: Engine>(engine: E) {
    engine.put(&BILLING_ACTIVITY, row("u", "d", "SCHEDULED", "s"), Condition::NoItem).await.unwrap();
    let before = three_tables(&engine).await;
    let put = |n: usize| Op::Put(&LOCKS, lock_row(&format!("l-{n}"), 1), Condition::Always);
    let update = |key: Key, edits| Op::Update(&BILLING_ACTIVITY, key, edits, Condition::Always);
    let add = |name| vec![Edit::Add(name, 1)];
    let no_sort = || Key { partition: "u".into(), sort: None };
    for ops in [
        vec![],
        (0..101).map(put).collect(),
        vec![put(1), put(2), put(1)],
        vec![put(1), Op::Check(&LOCKS, lock_key("l-1"), Condition::NoItem)],
        vec![put(1), Op::Put(&BILLING_ACTIVITY, history_row(), Condition::Always)],
        vec![put(1), update(key("u", "d"), vec![])],
        vec![put(1), update(key("u", "d"), vec![Edit::Remove("billing_date")])],
        vec![put(1), update(key("u", "d"), vec![Edit::Add("version", 1), Edit::Remove("version")])],
        vec![put(1), update(key("u", "d"), add("billing_status"))],
        vec![put(1), update(no_sort(), add("version"))],
        vec![put(1), update(key("", "d"), add("version"))],
        vec![put(1), Op::Delete(&BILLING_ACTIVITY, no_sort(), Condition::Always)],
        vec![put(1), Op::Check(&BILLING_ACTIVITY, key("u", ""), Condition::NoItem)],
    ] {
        let error = engine.transact(ops.clone()).await.unwrap_err();
        assert!(matches!(error, StoreError::Invalid(_)), "{ops:?}: {error}");
        assert_eq!(three_tables(&engine).await, before, "{ops:?}");
    }
    assert_eq!(
        engine.transact((0..100).map(put).collect()).await.unwrap(),
        Transacted::Done,
        "a hundred can be"
    );
    assert_eq!(all(&engine, &LOCKS).await.len(), 100);
}

/// Sixty concurrent transfers of 3 from one balance to another, while it suffices.
pub async fn transactions_at_once_add_up<E: Engine>(engine: E) {
    engine.put(&LOCKS, lock_row("from", 100), Condition::NoItem).await.unwrap();
    let three = || Value::number(3);
    let one = async |n: usize| loop {
        let ops = vec![
            Op::Put(&HISTORY, row_of_transfer(n), Condition::NoItem),
            Op::Update(&LOCKS, lock_key("from"), vec![Edit::Add("n", -3)], Condition::AtLeast("n", three())),
            Op::Update(&LOCKS, lock_key("to"), vec![Edit::Add("n", 3)], Condition::Always),
        ];
        match engine.transact(ops).await {
            Ok(Transacted::Done) => return true,
            Ok(Transacted::Refused { place, .. }) => {
                assert_eq!(place, 1);
                return false;
            }
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
    };
    let done = futures::future::join_all((0..60).map(one)).await.into_iter().filter(|done| *done).count();
    let sum = async |name: &str| {
        engine.get(&LOCKS, lock_key(name)).await.unwrap().unwrap().get("n").and_then(Value::as_u64)
    };
    assert_eq!((done, sum("from").await, sum("to").await), (33, Some(1), Some(99)));
    assert_eq!(all(&engine, &HISTORY).await.len(), 33, "those that were refused left nothing");
}

fn row_of_transfer(n: usize) -> Item {
    let mut item = history_row();
    item.set_text("last_run_date", format!("{n:03}"));
    item
}

pub async fn every_kind_of_value_comes_back<E: Engine>(engine: E) {
    let mut item = row("u", "d", "SCHEDULED", "1b4e28ba-2fa1-11d2-883f-0016d3cca427");
    for (name, value) in [
        ("empty", Value::text("")),
        ("text", Value::text("ä\u{1f600}\n\"")),
        ("number", Value::N("-12345678901234567890.5".into())),
        ("bytes", Value::B(vec![0, 1, 255])),
        ("yes", Value::Bool(true)),
        ("nil", Value::Null),
        ("list", Value::L(vec![Value::number(1), Value::text("x"), Value::L(vec![])])),
        ("map", Value::M([("k".into(), Value::Bool(false))].into_iter().collect())),
        ("texts", Value::Ss(vec!["a".into(), "b".into()])),
        ("numbers", Value::Ns(vec!["7".into()])),
    ] {
        item.set(name, value);
    }
    engine.put(&BILLING_ACTIVITY, item.clone(), Condition::Always).await.unwrap();
    assert_eq!(engine.get(&BILLING_ACTIVITY, key("u", "d")).await.unwrap(), Some(item.clone()));
    let found = engine
        .query(Query::index(&BILLING_ACTIVITY, BY_SUBSCRIPTION.name, "1b4e28ba-2fa1-11d2-883f-0016d3cca427"))
        .await
        .unwrap();
    assert_eq!(found.items, [item]);
    let mut lock = Item::new();
    lock.set_text("PartitionKey", "subscription-billing:user_id:u");
    engine.put(&LOCKS, lock.clone(), Condition::NoItem).await.unwrap();
    let there = engine
        .get(&LOCKS, Key { partition: "subscription-billing:user_id:u".into(), sort: None })
        .await
        .unwrap();
    assert_eq!(there, Some(lock), "a table without a sort key");
}

pub async fn a_missing_key_is_refused<E: Engine>(engine: E) {
    let mut item = row("u", "d", "SCHEDULED", "s");
    item.remove("billing_date");
    let error = engine.put(&BILLING_ACTIVITY, item.clone(), Condition::Always).await.unwrap_err();
    assert_eq!(error.to_string(), "invalid: billing-activity: key attribute billing_date is missing");
    assert!(!error.is_transient());
    assert!(engine.put_batch(vec![(&BILLING_ACTIVITY, item)]).await.is_err());
}

/// Keys are listed in pages, each once, grouped by partition; batch reads return items in the requested
/// order.
pub async fn keys_are_listed_and_many_items_are_read_at_once<E: Engine>(engine: E) {
    for table in [&BILLING_ACTIVITY, &LOCKS] {
        let mut written = BTreeSet::new();
        for n in 0..23 {
            let mut item = Item::new();
            item.set_text(table.partition, format!("u-{}", if table.sort.is_some() { n / 5 } else { n }));
            if let Some(sort) = table.sort {
                item.set_text(sort, format!("2026-01-{:02}", n + 1));
            }
            item.set("n", Value::number(n));
            engine.put(table, item.clone(), Condition::Always).await.unwrap();
            let key = Key::of(table, &item).unwrap();
            written.insert((key.partition, key.sort));
        }
        for limit in [1, 7, 23, 100] {
            let (mut start, mut keys) = (None, Vec::new());
            loop {
                let page = engine.keys(table, start, limit).await.unwrap();
                assert!(page.keys.len() <= limit as usize);
                keys.extend(page.keys);
                match page.next {
                    Some(next) => start = Some(next),
                    None => break,
                }
            }
            let met: Vec<&str> = keys
                .chunk_by(|a, b| a.partition == b.partition)
                .map(|some| some[0].partition.as_str())
                .collect();
            assert_eq!(
                met.iter().collect::<BTreeSet<_>>().len(),
                met.len(),
                "{limit}: a partition came in two pieces"
            );
            assert_eq!(keys.len(), written.len(), "{limit}");
            assert_eq!(
                keys.into_iter().map(|key| (key.partition, key.sort)).collect::<BTreeSet<_>>(),
                written,
                "{limit}"
            );
        }
        let mut asked: Vec<_> =
            written.into_iter().rev().map(|(partition, sort)| (table, Key { partition, sort })).collect();
        asked.insert(
            3,
            (table, Key { partition: "no-such-user".into(), sort: table.sort.map(|_| "nothing".into()) }),
        );
        for (n, ((_, key), item)) in asked.clone().into_iter().zip(engine.get_many(asked).await).enumerate() {
            let item = item.unwrap();
            assert_eq!(item.is_some(), n != 3, "{key:?}");
            assert!(item.is_none_or(|item| Key::of(table, &item).unwrap() == key));
        }
    }
}

pub async fn partitions_are_read_in_pages_both_ways<E: Engine>(engine: E) {
    let dates: Vec<String> = (1..=25).map(|n| format!("2026-01-{n:02}")).collect();
    for date in &dates {
        engine
            .put(&BILLING_ACTIVITY, row("u", date, "SCHEDULED", &format!("s-{date}")), Condition::NoItem)
            .await
            .unwrap();
    }
    engine
        .put(&BILLING_ACTIVITY, row("other", "2026-01-01", "SCHEDULED", "s"), Condition::NoItem)
        .await
        .unwrap();
    for order in [Order::Ascending, Order::Descending] {
        let mut read = Vec::new();
        let mut query = Query { order, limit: Some(10), ..Query::partition(&BILLING_ACTIVITY, "u") };
        let mut pages = 0;
        loop {
            let page = engine.query(query.clone()).await.unwrap();
            read.extend(page.items.iter().map(|item| item.text("billing_date").unwrap().to_owned()));
            pages += 1;
            match page.next {
                Some(next) => query.start = Some(next),
                None => break,
            }
        }
        assert_eq!(pages, 3);
        let mut expected = dates.clone();
        if order == Order::Descending {
            expected.reverse();
        }
        assert_eq!(read, expected);
    }
    let filter = Condition::AtLeast("billing_date", Value::text("2026-01-24"));
    let page = engine
        .query(Query { filter, ..Query::index(&BILLING_ACTIVITY, BY_STATUS.name, "SCHEDULED") })
        .await
        .unwrap();
    assert_eq!(page.items.len(), 2, "a filter may name key attributes");
    let many = engine
        .query_many(vec![
            Query::partition(&BILLING_ACTIVITY, "other"),
            Query::partition(&BILLING_ACTIVITY, "no-such-user"),
            Query::partition(&BILLING_ACTIVITY, "u"),
        ])
        .await;
    assert_eq!(many.into_iter().map(|page| page.unwrap().items.len()).collect::<Vec<_>>(), [1, 0, 25]);
}

pub async fn an_index_follows_its_items<E: Engine>(engine: E) {
    let in_status = async |status: &str| {
        let page = engine.query(Query::index(&BILLING_ACTIVITY, BY_STATUS.name, status)).await.unwrap();
        let mut users: Vec<String> =
            page.items.iter().map(|item| item.text("user_id").unwrap().to_owned()).collect();
        users.sort();
        users.join(" ")
    };
    for user in ["a", "b", "c"] {
        engine.put(&BILLING_ACTIVITY, row(user, "d", "SCHEDULED", user), Condition::NoItem).await.unwrap();
    }
    assert_eq!((in_status("SCHEDULED").await.as_str(), in_status("ACHSENT").await.as_str()), ("a b c", ""));
    engine.put(&BILLING_ACTIVITY, row("b", "d", "ACHSENT", "b"), Condition::Always).await.unwrap();
    assert_eq!((in_status("SCHEDULED").await.as_str(), in_status("ACHSENT").await.as_str()), ("a c", "b"));
    let mut without = row("c", "d", "", "c");
    without.remove("billing_status");
    engine.put(&BILLING_ACTIVITY, without, Condition::Always).await.unwrap();
    engine.delete(&BILLING_ACTIVITY, key("a", "d"), Condition::Always).await.unwrap();
    assert_eq!(
        (in_status("SCHEDULED").await.as_str(), in_status("ACHSENT").await.as_str()),
        ("", "b"),
        "an item without the key is not in the index"
    );
    assert_eq!(all(&engine, &BILLING_ACTIVITY).await.len(), 2);
    assert!(engine.query(Query::index(&BILLING_ACTIVITY, "no-such-index", "x")).await.is_err());
}

pub async fn an_index_is_paged_while_its_items_move_on<E: Engine>(engine: E) {
    for n in 0..30 {
        engine
            .put(
                &BILLING_ACTIVITY,
                row(&format!("u-{n:02}"), "d", "SCHEDULED", &format!("s-{n}")),
                Condition::NoItem,
            )
            .await
            .unwrap();
    }
    let mut seen = Vec::new();
    let mut query = Query { limit: Some(7), ..Query::index(&BILLING_ACTIVITY, BY_STATUS.name, "SCHEDULED") };
    loop {
        let page = engine.query(query.clone()).await.unwrap();
        for item in &page.items {
            // As in a collection: the item leaves the partition that is being paged.
            let user = item.text("user_id").unwrap();
            seen.push(user.to_owned());
            engine
                .put(
                    &BILLING_ACTIVITY,
                    row(user, "d", "ACHSENT", item.text("subscription_id").unwrap()),
                    Condition::Always,
                )
                .await
                .unwrap();
        }
        match page.next {
            Some(next) => query.start = Some(next),
            None => break,
        }
    }
    seen.sort();
    assert_eq!(seen, (0..30).map(|n| format!("u-{n:02}")).collect::<Vec<_>>(), "each once, none passed over");
}

pub async fn add_writes_both_tables_and_get_by_id_finds_it<E: Engine>(engine: E) {
    let store = store(engine.clone());
    let mut record =
        copy(&scheduled(&engine, "seed", "2026-01-31").await, 1, "2026-02-01T00:00:00.1Z", State::Scheduled);
    record.user_id = "u-add".into();
    record.data.set_text("data_note", "history only");
    assert_eq!(store.add(&record, "import").await.unwrap(), Written::Done);
    let found = store.get_by_id(&record.subscription_id).await.unwrap().unwrap();
    assert_eq!(
        (found.billing_date.text().as_str(), found.version, found.data.is_empty()),
        ("2026-02-01T00:00:00.1Z", 1, true)
    );
    let history = store.history_by_id(&record.subscription_id).await.unwrap();
    assert_eq!((history.len(), history[0].record.data.text("data_note")), (1, Some("history only")));
    assert_eq!(
        dues_projections::billing::record::replay(&history),
        Some(found.clone()),
        "history equals the primary row"
    );
    assert!(
        matches!(store.add(&record, "import").await.unwrap(), Written::Refused(Some(_))),
        "a record that is there is left as it is"
    );
    assert_eq!(store.get_by_id(&"no such".into()).await.unwrap(), None);
}

pub async fn add_all_moves_colliding_records_apart<E: Engine>(engine: E) {
    let store = store(engine.clone());
    let seed = scheduled(&engine, "seed", "2026-01-31").await;
    let mut many: Vec<Record> = (0..60)
        .map(|n| copy(&seed, n, "2026-02-01T00:00:00Z", if n == 30 { State::Scheduled } else { error() }))
        .collect();
    many.iter_mut().for_each(|record| record.user_id = "u-many".into());
    let written = store.add_all(many, "import").await.unwrap();
    let records = records(&engine, "u-many").await;
    assert_eq!((written.len(), records.len()), (60, 60), "none overwrites another");
    assert_eq!(
        (records[0].status(), records[0].billing_date.text().as_str()),
        (Status::Scheduled, "2026-02-01T00:00:00Z"),
        "the SCHEDULED one keeps its date"
    );
    assert_eq!(records[2].billing_date.text(), "2026-02-01T02:00:00Z", "the others are moved by hours");
    for record in &records {
        let history = store.history_by_id(&record.subscription_id).await.unwrap();
        assert_eq!(dues_projections::billing::record::replay(&history).as_ref(), Some(record));
    }
}

pub async fn users_are_listed_by_time_and_not_by_text<E: Engine>(engine: E) {
    let store = store(engine.clone());
    let seed = scheduled(&engine, "seed", "2026-01-31").await;
    let dates = [
        "2026-02-01T00:00:05Z",
        "2026-02-01T00:00:05.1Z",
        "2026-02-01T00:00:05.15Z",
        "2026-02-02T02:00:00+03:00",
        "2026-02-03T00:00:00Z",
    ];
    let user = UserId::from("u-list");
    for (n, date) in dates.iter().enumerate().rev() {
        store
            .add(&Record { user_id: user.clone(), ..copy(&seed, n, date, error()) }, "import")
            .await
            .unwrap();
    }
    let texts =
        |records: Vec<Record>| records.iter().map(|record| record.billing_date.text()).collect::<Vec<_>>();
    assert_eq!(texts(store.list_by_user_id(&user).await.unwrap()), dates);
    let mut recent = dates.to_vec();
    recent.reverse();
    assert_eq!(texts(store.get_recent_subscriptions(&user, 24).await.unwrap()), recent, "newest first");
    assert_eq!(store.get_recent_subscriptions(&user, 2).await.unwrap().len(), 2, "one page");
    assert_eq!(store.list_by_user_id(&"no-such-user".into()).await.unwrap(), []);
}

pub async fn status_pages_compare_instants<E: Engine>(engine: E) {
    let store = store(engine.clone());
    let seed = scheduled(&engine, "seed", "2027-01-31").await;
    let noon = t("2026-02-01T12:00:00Z");
    // Before, at and after noon, in notations that sort differently as text.
    let spellings = [
        "2026-02-01T11:59:59.9Z",
        "2026-02-01T12:00:00Z",
        "2026-02-01T12:00:00.1Z",
        "2026-02-01T14:59:59+03:00",
        "2026-02-01T09:00:01-03:00",
        "2025-06-01T00:00:00Z",
    ];
    let states: [(&str, State); 3] =
        [("s", State::Scheduled), ("e", error()), ("p", State::Paused(Pause { months: 1, last: None }))];
    for (group, (name, state)) in states.iter().enumerate() {
        for (n, date) in spellings.iter().enumerate() {
            let user_id = UserId::from(format!("{name}{n}"));
            store
                .add(&Record { user_id, ..copy(&seed, group * 10 + n, date, state.clone()) }, "import")
                .await
                .unwrap();
        }
    }
    let done = State::Cancelled(Closed { at: None, last: None });
    store
        .add(&Record { user_id: "c0".into(), ..copy(&seed, 99, "2026-02-01T11:00:00Z", done) }, "import")
        .await
        .unwrap();
    let users = |page: dues_store::billing::pages::StatusPage| {
        assert!(page.next.is_none() && page.unreadable.is_empty());
        let mut users: Vec<String> = page.records.iter().map(|record| record.user_id.to_string()).collect();
        users.sort();
        users.join(" ")
    };
    assert_eq!(users(store.scheduled_page(noon, None).await.unwrap()), "s0 s3 s5");
    assert_eq!(users(store.retry_page(noon, None).await.unwrap()), "e2 e4");
    assert_eq!(users(store.paused_page(noon, None).await.unwrap()), "p0 p3 p5");
    let to = t("2026-02-01T12:00:00.1Z");
    assert_eq!(
        users(store.notification_page(Status::Scheduled, noon, to, None).await.unwrap()),
        "s1",
        "from included, to excluded"
    );
}

pub async fn a_row_that_cannot_be_read_does_not_stop_the_page<E: Engine>(engine: E) {
    let store = store(engine.clone());
    scheduled(&engine, "u-good", "2026-01-31").await;
    engine
        .put(&BILLING_ACTIVITY, row("u-bad", "2026-01-01T00:00:00Z", "SCHEDULED", "s"), Condition::NoItem)
        .await
        .unwrap();
    let page = store.scheduled_page(t("2026-03-01T00:00:00Z"), None).await.unwrap();
    assert_eq!((page.records.len(), page.unreadable.len()), (1, 1));
    assert_eq!(
        page.unreadable[0].to_string(),
        "billing_amount of row u-bad/2026-01-01T00:00:00Z: is missing"
    );
}

pub async fn an_administrator_moves_a_record<E: Engine>(engine: E) {
    let store = store(engine.clone());
    let original = scheduled(&engine, "u", "2026-01-31").await;
    let mut updated = original.clone();
    updated.plan.amount = "1.00".parse().unwrap();
    let changed = store.admin_update(&original, updated, "ops-7").await.unwrap().unwrap();
    assert_eq!(
        (records(&engine, "u").await, changed.plan.amount.to_string().as_str()),
        (vec![changed.clone()], "1.00")
    );
    assert_eq!(
        store.admin_update(&original, original.clone(), "ops-7").await.unwrap(),
        None,
        "another writer has changed it since"
    );

    let moved = Record { billing_date: GoTime::trimmed(t("2026-02-14T00:00:00Z")), ..changed.clone() };
    let moved = store.admin_update(&changed, moved, "ops-7").await.unwrap().unwrap();
    assert_eq!(records(&engine, "u").await, std::slice::from_ref(&moved), "one row, at its new place");
    assert_eq!(store.get_by_id(&moved.subscription_id).await.unwrap().as_ref(), Some(&moved));
    let history = store.history_by_id(&moved.subscription_id).await.unwrap();
    assert_eq!(history.iter().map(|row| row.record.version).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(history[2].record.data.text("data_actor"), Some("ops-7"));
    assert_eq!(dues_projections::billing::record::replay(&history), Some(moved.clone()));

    let context = context(engine.clone());
    deliver(&context, &[payment("p-1", "SUBMITTED", &moved, "c-1", "2026-02-14T00:00:00Z")], 10).await;
    assert_eq!(
        records(&engine, "u").await.iter().map(|r| r.billing_date.text()).collect::<Vec<_>>(),
        ["2026-02-14T00:00:00Z", "2026-02-28T00:00:00Z"]
    );
}

pub async fn an_interrupted_move_is_completed_by_the_next_reader<E: Engine>(engine: E) {
    let store = store(engine.clone());
    let original = scheduled(&engine, "u", "2026-01-31").await;
    // The state after a crash that followed marking the old row.
    let marked = Record {
        moved_to: Some(GoTime::trimmed(t("2026-02-14T00:00:00Z"))),
        version: original.version + 1,
        ..original.clone()
    };
    engine.put(&BILLING_ACTIVITY, marked.to_item(), Condition::Always).await.unwrap();
    assert_eq!(
        store.get_by_id(&original.subscription_id).await.unwrap().unwrap().status(),
        Status::Scheduled,
        "still found"
    );
    let context = context(engine.clone());
    deliver(&context, &[payment("p-1", "SUBMITTED", &original, "c-1", "2026-02-14T00:00:00Z")], 10).await;
    let records = records(&engine, "u").await;
    assert_eq!(
        (records.len(), records[0].status(), records[0].billing_date.text().as_str()),
        (2, Status::AchSent, "2026-02-14T00:00:00Z")
    );
    assert!(records.iter().all(|record| record.moved_to.is_none()));
}

pub async fn parked_records_come_back_whole<E: Engine>(engine: E) {
    let store = store(engine.clone());
    let parked = |stream: &str, body: Vec<u8>, code: &str| Parked {
        stream: stream.into(),
        id: Parked::id_of(stream, &body),
        code: code.into(),
        reason: "payment.amount: is missing".into(),
        event_id: Some("e".into()),
        user_id: None,
        sequence: "line 7".into(),
        parked_at: t("2026-03-01T00:00:00Z"),
        body,
    };
    let large = parked("site-payments", (0..1_000_000u32).map(|n| (n % 251) as u8).collect(), "malformed");
    let small = parked("memberships", b"{".to_vec(), "malformed");
    let empty = parked("site-payments", Vec::new(), "not_yet");
    for one in [&large, &small, &empty, &small] {
        store.park(one).await.unwrap();
    }
    let mut all_parked = store.parked().await.unwrap();
    all_parked.sort_by_key(|p| std::cmp::Reverse(p.body.len()));
    assert_eq!(all_parked, [large.clone(), small, empty.clone()], "each once, however often it was parked");
    assert_eq!(store.parked_with("site-payments", "not_yet").await.unwrap(), [empty]);
    assert_eq!(store.find_parked("site-payments", &large.id).await.unwrap().as_ref(), Some(&large));
    assert_eq!(store.find_parked("memberships", &large.id).await.unwrap(), None);
    for (stream, count) in [(None, 3), (Some("site-payments"), 2), (Some("stripe"), 0)] {
        let (mut start, mut ids) = (None, std::collections::BTreeSet::new());
        loop {
            let (page, next) = store.parked_page(stream, start, 1).await.unwrap();
            assert!(page.len() <= 1, "the parts of a record are not records");
            ids.extend(page.into_iter().map(|parked| parked.id));
            match next {
                Some(next) => start = Some(next),
                None => break,
            }
        }
        assert_eq!(ids.len(), count, "{stream:?}");
    }
    store.unpark(&large).await.unwrap();
    assert_eq!(store.parked().await.unwrap().len(), 2);
    assert_eq!(all(&engine, &dues_store::table::PARKED).await.len(), 2, "with all its parts");
}

pub async fn rows_of_go_writers_are_taken_over<E: Engine>(engine: E) {
    let record = Record {
        version: 0,
        applied: Default::default(),
        ..copy(
            &scheduled(&engine, "seed", "2026-01-31").await,
            1,
            "2026-02-01T00:00:00.1Z",
            State::AchSent(Some("c-1".into())),
        )
    };
    for (user, last_run) in [("u-go", "2026-02-01T08:00:00.15Z"), ("u-zero", "0001-01-01T00:00:00Z")] {
        let mut item =
            Record { user_id: user.into(), subscription_id: format!("sub-{user}").into(), ..record.clone() }
                .to_item();
        for name in ["anchor_date", "member_since", "provider", "version"] {
            item.remove(name);
        }
        item.set_text("last_run_date", last_run);
        item.set_text("legacy", "kept");
        engine.put(&BILLING_ACTIVITY, item, Condition::NoItem).await.unwrap();
        let before = records(&engine, user).await.pop().unwrap();
        let context = context(engine.clone());
        let outcomes =
            deliver(&context, &[payment("p-go", "COMPLETED", &before, "c-1", "2026-02-03T00:00:00Z")], 10)
                .await;
        assert_eq!(outcomes, [dues_processors::Outcome::Applied], "{user}");
        let row = engine.get(&BILLING_ACTIVITY, key(user, "2026-02-01T00:00:00.1Z")).await.unwrap().unwrap();
        assert_eq!(
            (row.text("billing_status"), row.text("legacy"), row.get("version")),
            (Some("COMPLETED"), Some("kept"), Some(&Value::number(1)))
        );
    }
}

pub async fn the_sweeper_finishes_what_was_cut_short<E: Engine>(engine: E) {
    let context = context(engine.clone());
    let record = scheduled(&engine, "u", "2026-01-31").await;
    let script = [
        payment("p-1", "SUBMITTED", &record, "c-1", "2026-02-01T00:00:00Z"),
        payment("p-2", "COMPLETED", &record, "c-1", "2026-02-03T00:00:00Z"),
    ];
    deliver(&context, &script, 10).await;
    let whole = dump(&engine).await;
    // Delete the next record's row, then the record's own, as if the last primary write were lost.
    for (user, date) in [("u", "2026-02-28T00:00:00Z"), ("u", "2026-01-31T00:00:00Z")] {
        engine.delete(&BILLING_ACTIVITY, key(user, date), Condition::Always).await.unwrap();
        let swept = context.store.sweep(|_| {}).await.unwrap();
        assert_eq!(dump(&engine).await, whole, "{swept:?}");
    }
    assert_eq!(context.store.sweep(|_| {}).await.unwrap().rolled_forward, 0, "nothing is left to do");
    let history = all(&engine, &HISTORY).await;
    assert_eq!(history.len(), 4);
}

pub async fn two_handlers_at_once_end_as_one<E: Engine>(engine: E) {
    let record = scheduled(&engine, "u", "2026-01-31").await;
    let script: Vec<_> = (0..6)
        .flat_map(|n| {
            let transaction = format!("c-{n}");
            let at = |hour: usize| format!("2026-02-01T{:02}:00:00Z", n * 2 + hour);
            [
                payment(&format!("s-{n}"), "SUBMITTED", &record, &transaction, &at(0)),
                payment(&format!("r-{n}"), "RETURNED", &record, &transaction, &at(1)),
            ]
        })
        .collect();
    let one = context(engine.clone());
    let (a, b, c) =
        tokio::join!(deliver(&one, &script, 100), deliver(&one, &script, 3), deliver(&one, &script, 1));
    let applied: usize =
        [a, b, c].iter().flatten().filter(|outcome| **outcome == dues_processors::Outcome::Applied).count();
    let store = store(engine.clone());
    let now = records(&engine, "u").await;
    let history = store.history_by_id(&record.subscription_id).await.unwrap();
    let mut events: Vec<_> = history.iter().map(|row| row.event_id.clone().unwrap()).collect();
    let count = events.len();
    events.sort();
    events.dedup();
    assert_eq!(events.len(), count, "each event has one history row");
    assert_eq!(dues_projections::billing::record::replay(&history).as_ref(), Some(&now[0]));
    assert_eq!((now.len(), now[1].status()), (2, Status::Scheduled), "one next record");
    assert!(applied >= 2 && now[0].applied.len() == count, "{applied} applied");
}
