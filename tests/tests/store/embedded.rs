//! What only the embedded engine has: the change log, durable streams and checkpoints, and the one file that
//! holds them.

use dues_events::{GoTime, Item, Record, Status, Value};
use dues_store::embedded::{Backlog, Embedded};
use dues_store::table::{BILLING_ACTIVITY, HISTORY};
use dues_store::{Condition, Edit, Engine as _, Key, Op, Transacted, Updated};
use dues_tests::engines;
use dues_tests::fixtures::company::{
    context, deliver, dump, membership, monthly, payment, records, store, t,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[tokio::test]
async fn every_change_of_the_primary_table_is_logged_with_both_images() {
    let (engine, _folder) = engines::embedded();
    let context = context(engine.clone());
    deliver(&context, &[membership("m", "ACTIVATE", "u", "2026-01-05T00:00:00Z", monthly("2026-01-31"))], 10)
        .await;
    let record = records(&engine, "u").await.remove(0);
    deliver(&context, &[payment("p-1", "SUBMITTED", &record, "c-1", "2026-02-01T00:00:00Z")], 10).await;
    let changes = engine.changes(0, 100).unwrap();
    let seen: Vec<_> = changes
        .iter()
        .map(|change| {
            let status = |item: &Option<dues_events::Item>| {
                item.as_ref().map(|item| item.text("billing_status").unwrap().to_owned())
            };
            (change.table.name, status(&change.old), status(&change.new))
        })
        .collect();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        seen,
        [
            ("billing-activity", None, some("SCHEDULED")),
            ("billing-activity", some("SCHEDULED"), some("ACHSENT")),
            ("billing-activity", None, some("SCHEDULED")),
        ]
    );
    let now = engine
        .get(&BILLING_ACTIVITY, Key { partition: "u".into(), sort: Some("2026-01-31T00:00:00Z".into()) })
        .await
        .unwrap();
    assert_eq!(changes[1].new, now, "the image is the row");
    engine.put(&BILLING_ACTIVITY, now.unwrap(), Condition::Always).await.unwrap();
    assert_eq!(engine.changes(changes[2].seq, 100).unwrap(), [], "a write that changes nothing is no change");
    assert_eq!(engine.trim_changes(changes[1].seq).await.unwrap(), 2);
    assert_eq!(engine.changes(0, 100).unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_for_a_stream_go_ahead_of_the_writes_that_wait() {
    const WRITES: usize = 10_000;
    let (engine, _folder) = engines::embedded();
    let at = t("2026-01-05T00:00:00Z");
    let mut overtaken = 0;
    // On a busy machine the writes may be done before anything can overtake them: then repeat.
    for round in 0..20 {
        let begun = Arc::new(AtomicUsize::new(0));
        let write = |n: usize| {
            let (engine, begun) = (engine.clone(), begun.clone());
            tokio::spawn(async move {
                let mut item = dues_events::Item::new();
                item.set_text("user_id", format!("u-{round}-{n}"));
                item.set_text("last_run_date", "2026-01-05T00:00:00Z");
                begun.fetch_add(1, Ordering::Relaxed);
                engine.put(&HISTORY, item, Condition::Always).await.unwrap();
            })
        };
        let writes: Vec<_> = (0..WRITES).map(write).collect();
        while begun.load(Ordering::Relaxed) < WRITES {
            tokio::task::yield_now().await;
        }
        engine.append("s", at, vec![("k".into(), b"x".to_vec())]).await.unwrap();
        overtaken = engine.waiting();
        for write in writes {
            write.await.unwrap();
        }
        assert_eq!((engine.waiting(), engine.records("s", 0, 100).unwrap().len()), (0, round + 1));
        if overtaken > 100 {
            break;
        }
    }
    assert!(overtaken > 100, "{overtaken} writes that came before it still waited");
    engine.checkpoint_wal().unwrap();
    assert_eq!(
        engine.backlog("c", "s", 1).unwrap(),
        Backlog { records: 1, since_millis: Some(at.timestamp_millis()) },
        "counted up to a limit"
    );
}

#[tokio::test]
async fn an_update_is_logged_like_any_other_change() {
    let (engine, _folder) = engines::embedded();
    let update = async |edits, condition| {
        let key = Key { partition: "u".into(), sort: Some("d".into()) };
        engine.update(&BILLING_ACTIVITY, key, edits, condition).await.unwrap()
    };
    let Updated::Done(first) = update(vec![Edit::Add("version", 1)], Condition::NoItem).await else {
        panic!("refused")
    };
    let Updated::Done(second) = update(vec![Edit::Add("version", 1)], Condition::Always).await else {
        panic!("refused")
    };
    update(vec![Edit::Add("version", 0), Edit::Remove("no_such")], Condition::Always).await;
    update(vec![Edit::Add("version", 1)], Condition::NoItem).await;
    let seen: Vec<_> =
        engine.changes(0, 100).unwrap().into_iter().map(|change| (change.old, change.new)).collect();
    assert_eq!(
        seen,
        [(None, Some((*first).clone())), (Some(*first), Some(*second))],
        "neither a refused update nor one that changes nothing"
    );
}

#[tokio::test]
async fn a_transaction_is_logged_as_a_whole_or_not_at_all() {
    let (engine, _folder) = engines::embedded();
    let key = |date: &str| Key { partition: "u".into(), sort: Some(date.into()) };
    let add = |date: &str, condition| {
        Op::Update(&BILLING_ACTIVITY, key(date), vec![Edit::Add("version", 1)], condition)
    };
    let missing = || Condition::AtLeast("version", dues_events::Value::number(9));
    assert_eq!(
        engine.transact(vec![add("a", Condition::NoItem), add("b", Condition::NoItem)]).await.unwrap(),
        Transacted::Done
    );
    let refused = engine
        .transact(vec![add("a", Condition::Always), add("c", Condition::NoItem), add("b", missing())])
        .await
        .unwrap();
    assert!(matches!(refused, Transacted::Refused { place: 2, there: Some(_) }), "{refused:?}");
    // In one group commit with refused transactions: rolling back one's savepoint does not undo another.
    let (first, second, third) = tokio::join!(
        engine.transact(vec![add("d", Condition::NoItem)]),
        engine.transact(vec![add("d", Condition::Always), add("b", missing())]),
        engine.transact(vec![
            Op::Delete(&BILLING_ACTIVITY, key("a"), Condition::Always),
            add("d", Condition::Always)
        ]),
    );
    assert_eq!((first, third), (Ok(Transacted::Done), Ok(Transacted::Done)), "{second:?}");
    let seen: Vec<_> = engine
        .changes(0, 100)
        .unwrap()
        .into_iter()
        .map(|c| (c.old.is_some(), c.new.map(|new| new.to_json().to_string())))
        .collect();
    let image = |date: &str, version: u32| {
        Some(format!(r#"{{"billing_date":"{date}","user_id":"u","version":{version}}}"#))
    };
    assert_eq!(
        seen,
        [
            (false, image("a", 1)),
            (false, image("b", 1)),
            (false, image("d", 1)),
            (true, None),
            (true, image("d", 2))
        ]
    );
}

#[tokio::test]
async fn a_moved_record_is_never_nowhere_and_its_removal_is_marked() {
    let (engine, _folder) = engines::embedded();
    let context = context(engine.clone());
    deliver(&context, &[membership("m", "ACTIVATE", "u", "2026-01-05T00:00:00Z", monthly("2026-01-31"))], 10)
        .await;
    let record = records(&engine, "u").await.remove(0);
    let before = engine.changes(0, 100).unwrap().last().unwrap().seq;
    let moved = Record { billing_date: GoTime::trimmed(t("2026-02-14T00:00:00Z")), ..record.clone() };
    store(engine.clone()).admin_update(&record, moved, "ops").await.unwrap().unwrap();
    let mut rows = 1;
    for change in engine.changes(before, 100).unwrap() {
        rows = rows + usize::from(change.new.is_some()) - usize::from(change.old.is_some());
        assert!(rows >= 1, "the record is nowhere");
        if change.new.is_none() {
            let image = Record::from_item(change.old.unwrap()).unwrap();
            assert_eq!(
                image.moved_to.map(|to| to.text()).as_deref(),
                Some("2026-02-14T00:00:00Z"),
                "the removal says that it is a move"
            );
        }
    }
    assert_eq!(rows, 1);
}

#[tokio::test]
async fn streams_and_checkpoints_are_there_after_a_restart() {
    let (engine, folder) = engines::embedded();
    let records = |texts: &[&str]| {
        texts.iter().map(|text| ("u".to_owned(), text.as_bytes().to_vec())).collect::<Vec<_>>()
    };
    let last = engine.append("a", t("2026-01-01T00:00:00Z"), records(&["1", "2"])).await.unwrap();
    engine.append("b", t("2026-01-01T00:00:00Z"), records(&["x"])).await.unwrap();
    engine.append("a", t("2026-01-03T00:00:00Z"), records(&["3"])).await.unwrap();
    engine.set_checkpoint("handler", "a", last).await.unwrap();
    engine.set_checkpoint("handler", "a", last - 1).await.unwrap();
    drop(engine);
    let engine = Embedded::open(&folder.path().join("dues.db")).unwrap();
    assert_eq!(
        (engine.checkpoint("handler", "a").unwrap(), engine.checkpoint("other", "a").unwrap()),
        (last, 0),
        "never backwards"
    );
    let texts = |after| {
        engine
            .records("a", after, 10)
            .unwrap()
            .iter()
            .map(|r| String::from_utf8(r.data.clone()).unwrap())
            .collect::<String>()
    };
    assert_eq!(
        (texts(0).as_str(), texts(last).as_str(), engine.records("a", 0, 1).unwrap().len()),
        ("123", "3", 1)
    );
    assert_eq!(
        engine.trim_stream("a", u64::MAX >> 1, t("2026-01-02T00:00:00Z")).await.unwrap(),
        2,
        "only what is old"
    );
    assert_eq!(
        engine.trim_stream("a", last, t("2027-01-01T00:00:00Z")).await.unwrap(),
        0,
        "only what was read"
    );
    assert_eq!(
        (texts(0).as_str(), engine.last_record("b").unwrap(), engine.last_record("c").unwrap()),
        ("3", last + 1, 0)
    );
}

#[tokio::test]
async fn two_engines_on_one_file_see_each_others_writes() {
    let (one, folder) = engines::embedded();
    let other = Embedded::open(&folder.path().join("dues.db")).unwrap();
    let (a, b) = (context(one.clone()), context(other.clone()));
    let users: Vec<String> = (0..40).map(|n| format!("u-{n}")).collect();
    let join: Vec<_> = users
        .iter()
        .map(|u| membership(&format!("m-{u}"), "ACTIVATE", u, "2026-01-05T00:00:00Z", monthly("2026-01-31")))
        .collect();
    let (x, y) = tokio::join!(deliver(&a, &join, 7), deliver(&b, &join, 11));
    assert_eq!(x.len() + y.len(), 80);
    let applied = x.iter().chain(&y).filter(|outcome| **outcome == dues_processors::Outcome::Applied).count();
    assert_eq!(applied, 40, "each activation happened once");
    assert_eq!(dump(&one).await, dump(&other).await);
    for user in &users {
        assert_eq!(
            records(&one, user).await.iter().map(Record::status).collect::<Vec<_>>(),
            [Status::Scheduled]
        );
    }
}

#[tokio::test]
async fn a_failed_write_fails_no_other_write() {
    let (engine, _folder) = engines::embedded();
    let row = |user: &str| {
        let mut item = dues_events::Item::new();
        item.set_text("user_id", user);
        item.set_text("last_run_date", "2026-01-01T00:00:00.000000000Z");
        item
    };
    let mut bad = row("bad");
    bad.remove("last_run_date");
    let (good, refused, bad) = tokio::join!(
        engine.put(&HISTORY, row("good"), Condition::NoItem),
        engine.put(
            &HISTORY,
            row("no-such-user"),
            Condition::Equals("version", dues_events::Value::number(1))
        ),
        engine.put(&HISTORY, bad, Condition::NoItem)
    );
    assert_eq!(
        (good.unwrap(), refused.unwrap()),
        (dues_store::Written::Done, dues_store::Written::Refused(None))
    );
    assert!(bad.is_err());
}

#[test]
fn files_of_other_programs_and_formats_are_refused() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("other.db");
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    let error = Embedded::open(&path).unwrap_err().to_string();
    assert!(error.contains("it is a database of another program"), "{error}");
    let ours = folder.path().join("dues.db");
    drop(Embedded::open(&ours).unwrap());
    rusqlite::Connection::open(&ours).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let error = Embedded::open(&ours).unwrap_err().to_string();
    assert!(error.contains("its format is 99, this program reads 1"), "{error}");
    std::fs::write(
        folder.path().join("text.db"),
        "this is no database, only a text that is long enough to have a header",
    )
    .unwrap();
    assert!(Embedded::open(&folder.path().join("text.db")).is_err());
    assert!(Embedded::open(&folder.path().join("no/such/folder.db")).is_err());
}

#[test]
fn many_can_make_a_new_file_at_once() {
    for _ in 0..20 {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("dues.db");
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| Embedded::open(&path).unwrap());
            }
        });
    }
}

#[tokio::test]
async fn a_snapshot_and_the_changes_after_it_are_everything_once() {
    let (engine, _folder) = engines::embedded();
    let row = |user: &str, status: &str| {
        let mut item = Item::new();
        for (name, value) in [("user_id", user), ("billing_date", "d"), ("billing_status", status)] {
            item.set_text(name, value);
        }
        item
    };
    assert_eq!(engine.last_change().unwrap(), 0);
    for (user, status) in [("a", "SCHEDULED"), ("b", "SCHEDULED"), ("a", "ACHSENT")] {
        engine.put(&BILLING_ACTIVITY, row(user, status), Condition::Always).await.unwrap();
    }
    let mut seen = Vec::new();
    let place = engine.snapshot(&BILLING_ACTIVITY, |item| {
        seen.push(item);
        std::ops::ControlFlow::Continue(())
    });
    assert_eq!(seen, [row("a", "ACHSENT"), row("b", "SCHEDULED")]);
    assert_eq!(place.unwrap(), 3);
    engine.put(&BILLING_ACTIVITY, row("b", "ACHSENT"), Condition::Always).await.unwrap();
    let after: Vec<_> =
        engine.changes(3, 10).unwrap().into_iter().map(|change| (change.old, change.new)).collect();
    assert_eq!(after, [(Some(row("b", "SCHEDULED")), Some(row("b", "ACHSENT")))]);
    engine.trim_changes(4).await.unwrap();
    assert_eq!(engine.last_change().unwrap(), 4, "what was forgotten has been");
    let mut first = 0;
    engine
        .snapshot(&BILLING_ACTIVITY, |_| {
            first += 1;
            std::ops::ControlFlow::Break(())
        })
        .unwrap();
    assert_eq!(first, 1, "it stops on request");
}

#[tokio::test]
async fn rows_are_found_by_what_is_in_them_and_by_the_start_of_their_keys() {
    let (engine, _folder) = engines::embedded();
    for n in 0..10 {
        let mut item = Item::new();
        let id = format!("1b4e28b{n}-2fa1-51d2-883f-0016d3cca427");
        for (name, value) in
            [("user_id", format!("u-{}", n % 3)), ("billing_date", format!("d-{n}")), ("subscription_id", id)]
        {
            item.set_text(name, value);
        }
        engine.put(&BILLING_ACTIVITY, item, Condition::Always).await.unwrap();
    }
    let of_user = |user: &str| Condition::Equals("user_id", Value::text(user));
    let dates = |items: &[Item]| {
        items.iter().map(|item| item.text("billing_date").unwrap().to_owned()).collect::<Vec<_>>()
    };
    let oldest = engine.written_after(&BILLING_ACTIVITY, 0, 5, &of_user("u-0")).unwrap();
    assert_eq!((dates(&oldest.items), oldest.last), (vec!["d-0".into(), "d-3".into()], Some(5)));
    let newest = engine.written_before(&BILLING_ACTIVITY, u64::MAX, 5, &of_user("u-0")).unwrap();
    assert_eq!((dates(&newest.items), newest.last), (vec!["d-9".into(), "d-6".into()], Some(6)));
    assert_eq!(engine.written_before(&BILLING_ACTIVITY, 1, 5, &Condition::Always).unwrap().last, None);
    assert_eq!(engine.partitions(&BILLING_ACTIVITY, "u-", 2).unwrap(), ["u-0", "u-1"]);
    assert_eq!(engine.partitions(&BILLING_ACTIVITY, "v", 2).unwrap(), Vec::<String>::new());
    assert_eq!(
        engine.partition_sizes(&BILLING_ACTIVITY).unwrap(),
        [("u-0".into(), 4), ("u-1".into(), 3), ("u-2".into(), 3)]
    );
    let by_id =
        |start| dates(&engine.by_uuid_start(&BILLING_ACTIVITY, "subscription_id-index", start, 5).unwrap());
    assert_eq!((by_id("1b4e28b7"), by_id("1b4e28b").len(), by_id("zz").len()), (vec!["d-7".into()], 5, 0));
}

#[tokio::test]
async fn what_waits_on_a_stream_is_counted_with_its_age() {
    let (engine, _folder) = engines::embedded();
    let at = |seconds: i64| dues_events::Time::from_timestamp(seconds, 0).unwrap();
    for (stream, seconds) in [("a", 1), ("b", 2), ("a", 3), ("a", 4)] {
        engine.append(stream, at(seconds), vec![(String::new(), b"x".to_vec())]).await.unwrap();
    }
    assert_eq!(engine.records_between("a", 0, u64::MAX).unwrap(), (3, Some(1000)));
    assert_eq!(engine.records_between("a", 1, 3).unwrap(), (1, Some(3000)));
    assert_eq!(engine.records_between("b", 2, u64::MAX).unwrap(), (0, None));
}
