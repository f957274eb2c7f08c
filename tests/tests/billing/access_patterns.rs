//! The access patterns of billing-activity, each under its own name, on every engine. Each is called once;
//! the contract suite covers races, crashes and odd rows.

use dues_events::billing::record::{FailedAttempt, Failure, Pause};
use dues_events::{GoTime, Record, State, Status, UserId};
use dues_store::table::{BILLING_ACTIVITY, HISTORY};
use dues_store::{Acquired, Engine, Locks, Store};
use dues_tests::fixtures::company::{all, clock, context, deliver, membership, monthly, records, store, t};

dues_tests::on_engines! {
    add_a_new_subscription_record,
    get_a_subscription_by_its_uuid,
    list_all_subscriptions_for_a_user,
    get_recent_subscriptions,
    get_a_page_of_scheduled_subscriptions_due_before_date,
    get_a_page_of_subscriptions_in_error_status_with_billing_date_after_date,
    get_a_page_of_paused_subscriptions_with_billing_date_before_date,
    get_a_page_of_subscriptions_by_status_within_a_billing_date_range,
    admin_update,
    batch_write_multiple_subscriptions,
    get_all_history_entries_for_a_subscription_uuid,
    append_a_single_history_record,
    batch_append_multiple_history_records,
    lock_subscription_for_billing,
    release_subscription,
}

const USER: &str = "u-1";

/// A record in that state, due on that day.
async fn record<E: Engine>(engine: &E, day: u32, state: State) -> Record {
    let (seed, mut made) = (format!("seed-{day}"), None);
    deliver(
        &context(engine.clone()),
        &[membership(&format!("m-{day}"), "ACTIVATE", &seed, "2026-01-02T00:00:00Z", monthly("2026-01-31"))],
        1,
    )
    .await;
    for record in records(engine, &seed).await {
        engine
            .delete(
                &BILLING_ACTIVITY,
                dues_store::Key::of(&BILLING_ACTIVITY, &record.to_item()).unwrap(),
                dues_store::Condition::Always,
            )
            .await
            .unwrap();
        made = Some(record);
    }
    Record {
        user_id: USER.into(),
        subscription_id: format!("00000000-0000-4000-8000-{day:012}").into(),
        billing_date: GoTime::trimmed(t(&format!("2026-02-{day:02}T00:00:00Z"))),
        last_run_date: Some(GoTime::nine_digits(
            t("2026-01-05T00:00:00Z") + chrono::TimeDelta::seconds(day.into()),
        )),
        applied: Default::default(),
        version: 0,
        state,
        ..made.unwrap()
    }
}

fn failed() -> State {
    State::Error(FailedAttempt { transaction_id: None, failure: Failure::new(None, Some("declined")) })
}

fn paused() -> State {
    State::Paused(Pause { months: 2, last: None })
}

/// Adds records for these days, all in one state.
async fn added<E: Engine>(engine: &E, days: &[u32], state: fn() -> State) -> Store<E> {
    let store = store(engine.clone());
    for day in days {
        store.add(&record(engine, *day, state()).await, "import").await.unwrap();
    }
    store
}

fn scheduled() -> State {
    State::Scheduled
}

fn days(records: &[Record]) -> Vec<String> {
    records.iter().map(|record| record.billing_date.at().format("%d").to_string()).collect()
}

async fn add_a_new_subscription_record<E: Engine>(engine: E) {
    let store = store(engine.clone());
    let mut new = record(&engine, 1, scheduled()).await;
    new.data.set_text("data_note", "only history keeps this");
    store.add(&new, "import").await.unwrap();
    let row = all(&engine, &BILLING_ACTIVITY).await.remove(0);
    assert_eq!(
        (row.text("user_id"), row.text("billing_date"), row.get("data_note")),
        (Some(USER), Some("2026-02-01T00:00:00Z"), None)
    );
    let history: Vec<_> =
        all(&engine, &HISTORY).await.into_iter().filter(|row| row.text("user_id") == Some(USER)).collect();
    assert_eq!((history.len(), history[0].text("data_note")), (1, Some("only history keeps this")));
}

async fn get_a_subscription_by_its_uuid<E: Engine>(engine: E) {
    let store = added(&engine, &[1, 2], scheduled).await;
    let found = store.get_by_id(&"00000000-0000-4000-8000-000000000002".into()).await.unwrap().unwrap();
    assert_eq!(found.billing_date.text(), "2026-02-02T00:00:00Z");
}

async fn list_all_subscriptions_for_a_user<E: Engine>(engine: E) {
    let store = added(&engine, &[3, 1, 2], scheduled).await;
    assert_eq!(
        days(&store.list_by_user_id(&UserId::from(USER)).await.unwrap()),
        ["01", "02", "03"],
        "ascending by billing_date"
    );
}

async fn get_recent_subscriptions<E: Engine>(engine: E) {
    let store = added(&engine, &[3, 1, 2], scheduled).await;
    assert_eq!(
        days(&store.get_recent_subscriptions(&UserId::from(USER), 2).await.unwrap()),
        ["03", "02"],
        "most recent first"
    );
}

async fn get_a_page_of_scheduled_subscriptions_due_before_date<E: Engine>(engine: E) {
    let store = added(&engine, &[1, 2, 10], scheduled).await;
    store.add(&record(&engine, 3, failed()).await, "import").await.unwrap();
    let page = store.scheduled_page(t("2026-02-05T00:00:00Z"), None).await.unwrap();
    assert_eq!((days(&page.records), page.next.is_none()), (vec!["01".to_owned(), "02".into()], true));
}

async fn get_a_page_of_subscriptions_in_error_status_with_billing_date_after_date<E: Engine>(engine: E) {
    let store = added(&engine, &[1, 10, 11], failed).await;
    store.add(&record(&engine, 12, scheduled()).await, "import").await.unwrap();
    assert_eq!(days(&store.retry_page(t("2026-02-10T00:00:00Z"), None).await.unwrap().records), ["11"]);
}

async fn get_a_page_of_paused_subscriptions_with_billing_date_before_date<E: Engine>(engine: E) {
    let store = added(&engine, &[1, 10], paused).await;
    store.add(&record(&engine, 2, failed()).await, "import").await.unwrap();
    assert_eq!(days(&store.paused_page(t("2026-02-10T00:00:00Z"), None).await.unwrap().records), ["01"]);
}

async fn get_a_page_of_subscriptions_by_status_within_a_billing_date_range<E: Engine>(engine: E) {
    let store = added(&engine, &[1, 5, 9, 10], scheduled).await;
    let page = store
        .notification_page(Status::Scheduled, t("2026-02-05T00:00:00Z"), t("2026-02-10T00:00:00Z"), None)
        .await
        .unwrap();
    assert_eq!(days(&page.records), ["05", "09"], "from the first, before the last");
}

async fn admin_update<E: Engine>(engine: E) {
    let store = added(&engine, &[1], scheduled).await;
    let original = records(&engine, USER).await.remove(0);
    let moved = Record { billing_date: GoTime::trimmed(t("2026-02-20T00:00:00Z")), ..original.clone() };
    store.admin_update(&original, moved, "ops").await.unwrap().unwrap();
    assert_eq!(days(&records(&engine, USER).await), ["20"], "the old row is gone, the new one is there");
}

async fn batch_write_multiple_subscriptions<E: Engine>(engine: E) {
    let store = store(engine.clone());
    let mut many = Vec::new();
    for day in 1..=3 {
        let record = record(&engine, day, if day == 1 { scheduled() } else { failed() }).await;
        many.push(Record { billing_date: GoTime::trimmed(t("2026-02-01T00:00:00Z")), ..record });
    }
    store.add_all(many, "upgrade").await.unwrap();
    let dates: Vec<String> =
        records(&engine, USER).await.iter().map(|record| record.billing_date.text()).collect();
    assert_eq!(
        dates,
        ["2026-02-01T00:00:00Z", "2026-02-01T01:00:00Z", "2026-02-01T02:00:00Z"],
        "hours keep them apart"
    );
}

async fn get_all_history_entries_for_a_subscription_uuid<E: Engine>(engine: E) {
    let store = added(&engine, &[1], scheduled).await;
    let record = records(&engine, USER).await.remove(0);
    let changed = Record {
        plan: dues_events::billing::record::Plan { amount: "1.00".parse().unwrap(), ..record.plan.clone() },
        ..record.clone()
    };
    store.admin_update(&record, changed, "ops").await.unwrap().unwrap();
    let history = store.history_by_id(&record.subscription_id).await.unwrap();
    let amounts: Vec<String> = history.iter().map(|row| row.record.plan.amount.to_string()).collect();
    assert_eq!(amounts, ["14.99", "1.00"], "in the order of last_run_date");
}

async fn append_a_single_history_record<E: Engine>(engine: E) {
    let store = added(&engine, &[1], scheduled).await;
    let history = store.history_by_id(&"00000000-0000-4000-8000-000000000001".into()).await.unwrap();
    assert_eq!((history.len(), history[0].record.status()), (1, Status::Scheduled));
}

async fn batch_append_multiple_history_records<E: Engine>(engine: E) {
    let store = store(engine.clone());
    let mut many = Vec::new();
    for day in 1..=28 {
        many.push(record(&engine, day, failed()).await);
    }
    store.add_all(many, "downgrade").await.unwrap();
    assert_eq!(
        store.history_of_user(&UserId::from(USER)).await.unwrap().len(),
        28,
        "more than one batch takes"
    );
}

async fn lock_subscription_for_billing<E: Engine>(engine: E) {
    let (one, other) = (Locks::new(engine.clone(), clock()), Locks::new(engine, clock()));
    let Acquired::Held(_lock) = one.acquire(&UserId::from(USER)).await.unwrap() else {
        panic!("the lock is free")
    };
    assert!(
        matches!(other.acquire(&UserId::from(USER)).await.unwrap(), Acquired::LockedElsewhere),
        "ErrAlreadyLocked, at once"
    );
    assert!(
        matches!(other.acquire(&UserId::from("u-2")).await.unwrap(), Acquired::Held(_)),
        "a lock is one user's"
    );
}

async fn release_subscription<E: Engine>(engine: E) {
    let (one, other) = (Locks::new(engine.clone(), clock()), Locks::new(engine, clock()));
    let Acquired::Held(lock) = one.acquire(&UserId::from(USER)).await.unwrap() else {
        panic!("the lock is free")
    };
    lock.release().await;
    assert!(matches!(other.acquire(&UserId::from(USER)).await.unwrap(), Acquired::Held(_)));
}
