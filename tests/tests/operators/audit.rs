//! The audit: it agrees with the rows that live traffic writes, and finds every kind of corruption that is
//! planted.

use dues_events::{Item, Value};
use dues_processors::Outcome;
use dues_processors::entitlements::groups::{LocalDirectory, RateLimiter};
use dues_processors::operators::audit::{Finding, FindingKind, audit};
use dues_processors::projector::Projector;
use dues_processors::read_models::ReadModels;
use dues_processors::runtime::changes::Change;
use dues_projections::entitlements::dues::TierMap;
use dues_store::embedded::Embedded;
use dues_store::table::serenya::SERENYA;
use dues_store::table::usage::USER_SUBSCRIPTIONS;
use dues_store::table::{ALL, BILLING_ACTIVITY, ENTITLEMENTS, GG_CORE, HISTORY, JOURNAL, Table};
use dues_store::{Condition, Engine, Key, Store, SystemClock};
use dues_tests::engines::embedded;
use dues_tests::fixtures::company::{
    all, clock, context, deliver, membership, monthly, payment, records, store, t,
};
use dues_tests::fixtures::stripe::{checkout, invoice, invoice_payment, payment_of, refund, subscription};

dues_tests::on_engines! {
    what_live_traffic_has_written_agrees,
    every_kind_of_corruption_is_found,
}

/// Projects every change so far.
async fn project(engine: &Embedded) {
    project_from(engine, 0).await;
}

/// Projects the changes after a position, and returns the last position.
async fn project_from(engine: &Embedded, mut after: u64) -> u64 {
    let projector = Projector {
        limiter: RateLimiter::unlimited(clock()),
        ..Projector::new(store(engine.clone()), Some(LocalDirectory::new(engine.clone())))
    };
    loop {
        let changes = engine.changes(after, 500).unwrap();
        let Some(last) = changes.last() else { return after };
        after = last.seq;
        let arrived = t("2026-03-01T00:00:00Z");
        let read = |change: dues_store::embedded::Change| Change {
            sequence: change.seq.to_string(),
            table: change.table,
            old: change.old,
            new: change.new,
            arrived,
            by_ttl: false,
        };
        let changes: Vec<Change> = changes.into_iter().map(read).collect();
        let report = projector.project(&changes).await;
        assert!(
            !report.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Failed(_) | Outcome::Parked)),
            "{report:?}"
        );
    }
}

/// Two months of three members: paid, returned late, and paid through Stripe with a refund, a pass and a
/// top-up. Returns every row that they leave.
async fn rows() -> Vec<(&'static Table, Item)> {
    let (engine, _folder) = embedded();
    let context = context(engine.clone());
    let joins = ["u-1", "u-2"].map(|user| {
        membership(&format!("m-{user}"), "ACTIVATE", user, "2026-01-05T00:00:00Z", monthly("2026-01-31"))
    });
    deliver(&context, &joins, 10).await;
    for (user, last) in [("u-1", "COMPLETED"), ("u-2", "RETURNED")] {
        let record = records(&engine, user).await.remove(0);
        let sent = [
            payment(&format!("s-{user}"), "SUBMITTED", &record, &format!("c-{user}"), "2026-02-01T00:00:00Z"),
            payment(&format!("d-{user}"), "COMPLETED", &record, &format!("c-{user}"), "2026-02-03T00:00:00Z"),
            payment(&format!("e-{user}"), last, &record, &format!("c-{user}"), "2026-02-05T00:00:00Z"),
        ];
        deliver(&context, &sent, 10).await;
        project(&engine).await;
    }
    let (jan, feb) = ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z");
    let stripe = [
        subscription("e-1", "created", jan, "u-3", "JOURNEYMAN", "active", jan),
        invoice("e-2", "paid", jan, "u-3", jan),
        invoice("e-3", "paid", feb, "u-3", feb),
        invoice_payment("e-4", feb, "u-3", feb),
        refund("e-5", "created", "2026-02-02T00:00:00Z", "re-1", &payment_of("u-3", feb), 1500, "succeeded"),
        checkout("e-6", feb, "u-3", "CREDITS", 500, "pi-top", "paid"),
        checkout("e-7", feb, "u-3", "FOUNDING_MEMBER", 50_000, "pi-pass", "paid"),
    ];
    deliver(&context, &stripe, 10).await;
    project(&engine).await;
    let mut rows = Vec::new();
    for table in ALL {
        rows.extend(all(&engine, table).await.into_iter().map(|item| (table, item)));
    }
    rows
}

/// Writes rows to an engine, and audits them.
async fn findings<E: Engine>(engine: &E, rows: &[(&'static Table, Item)]) -> Vec<Finding> {
    for table in ALL {
        for item in all(engine, table).await {
            engine.delete(table, Key::of(table, &item).unwrap(), Condition::Always).await.unwrap();
        }
    }
    for (table, item) in rows {
        engine.put(table, item.clone(), Condition::Always).await.unwrap();
    }
    let found =
        audit(&store(engine.clone()), &TierMap::default(), &ReadModels::default(), |_| {}).await.unwrap();
    assert!(found.events > 10 && found.rows > 5, "it has looked at them: {found:?}");
    found.findings
}

async fn what_live_traffic_has_written_agrees<E: Engine>(engine: E) {
    assert_eq!(findings(&engine, &rows().await).await, Vec::new());
}

/// Members join, pay and have debits returned, and the followers run, all during an audit: it finds nothing
/// at any time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_audit_beside_others_who_work_finds_nothing() {
    let (engine, _folder) = embedded();
    let working = {
        let engine = engine.clone();
        tokio::spawn(async move {
            let (context, mut place) = (context(engine.clone()), 0);
            for n in 0..120 {
                let user = format!("u-{n}");
                let join = membership(
                    &format!("m-{n}"),
                    "ACTIVATE",
                    &user,
                    "2026-01-05T00:00:00Z",
                    monthly("2026-01-31"),
                );
                deliver(&context, &[join], 1).await;
                let record = records(&engine, &user).await.remove(0);
                for (kind, day) in [("SUBMITTED", "01"), ("COMPLETED", "03"), ("RETURNED", "05")] {
                    let report = payment(
                        &format!("{kind}-{n}"),
                        kind,
                        &record,
                        "c-1",
                        &format!("2026-02-{day}T00:00:00Z"),
                    );
                    deliver(&context, &[report], 1).await;
                }
                place = project_from(&engine, place).await;
            }
        })
    };
    let (mut looked, mut most) = (0, 0);
    // The audit's pauses need a real clock.
    let live = Store::new(engine, SystemClock::shared());
    while !working.is_finished() {
        let found = audit(&live, &TierMap::default(), &ReadModels::default(), |_| {}).await.unwrap();
        assert_eq!(found.findings, Vec::new(), "after {looked} audits");
        (looked, most) = (looked + 1, most.max(found.events));
    }
    working.await.unwrap();
    assert!(looked > 3 && most > 100, "{looked} audits, of {most} events at the most");
}

type Rows = Vec<(&'static Table, Item)>;

/// The first row of a table that matches.
fn find<'a>(rows: &'a mut Rows, table: &'static Table, like: impl Fn(&Item) -> bool) -> &'a mut Item {
    rows.iter_mut().find(|(of, item)| of.id == table.id && like(item)).map(|(_, item)| item).unwrap()
}

fn remove(rows: &mut Rows, table: &'static Table, like: impl Fn(&Item) -> bool) {
    let place = rows.iter().position(|(of, item)| of.id == table.id && like(item)).unwrap();
    rows.remove(place);
}

fn has(name: &'static str, text: &'static str) -> impl Fn(&Item) -> bool {
    move |item| item.text(name).is_some_and(|value| value.starts_with(text))
}

/// The corruption's name, how to plant it, and the kind and text of the finding.
type Plant = (&'static str, fn(&mut Rows), FindingKind, &'static str);

const PLANTS: [Plant; 21] = [
    (
        "a status that was changed by hand",
        |rows| {
            find(rows, &BILLING_ACTIVITY, has("billing_status", "COMPLETED"))
                .set_text("billing_status", "REFUNDED")
        },
        FindingKind::Differs,
        r#"billing_status is "REFUNDED" and should be "COMPLETED""#,
    ),
    (
        "an amount that was changed by hand",
        |rows| {
            find(rows, &BILLING_ACTIVITY, has("billing_status", "SCHEDULED"))
                .set_text("billing_amount", "1.00")
        },
        FindingKind::Differs,
        r#"billing_amount is "1.00" and should be "14.99""#,
    ),
    (
        "an event that the row has forgotten",
        |rows| {
            let row = find(rows, &BILLING_ACTIVITY, has("billing_status", "COMPLETED"));
            let Some(Value::B(applied)) = row.get("applied").cloned() else { panic!("{row:?}") };
            row.set("applied", Value::B(applied[..applied.len() - 16].to_vec()));
        },
        FindingKind::Differs,
        "version is 4 and should be 3",
    ),
    (
        "a record that was lost",
        |rows| remove(rows, &BILLING_ACTIVITY, has("billing_status", "COMPLETED")),
        FindingKind::Missing,
        "history has record",
    ),
    (
        "a record without history",
        |rows| {
            let mut row = find(rows, &BILLING_ACTIVITY, has("billing_status", "SCHEDULED")).clone();
            row.set_text("user_id", "u-9");
            row.set_text("subscription_id", "00000000-0000-4000-8000-000000000009");
            rows.push((&BILLING_ACTIVITY, row));
        },
        FindingKind::Unexplained,
        "record 00000000-0000-4000-8000-000000000009 has no history",
    ),
    (
        "a record that stands twice",
        |rows| {
            let mut row = find(rows, &BILLING_ACTIVITY, has("billing_status", "COMPLETED")).clone();
            row.set_text("billing_date", "2026-01-30T00:00:00Z");
            rows.push((&BILLING_ACTIVITY, row));
        },
        FindingKind::Twice,
        "also stands at",
    ),
    (
        "a row of history that was removed",
        |rows| remove(rows, &HISTORY, has("source", "site-payments SUBSCRIPTION_SUBMITTED")),
        FindingKind::Gap,
        "it builds on version 2, and history has 1 before it",
    ),
    (
        "a commit that was cut short",
        |rows| {
            // The primary row before a record's last event: as history has it, with the tokens applied by
            // then.
            let last = find(rows, &HISTORY, |item| item.text("event_id") == Some("e-u-2")).clone();
            let before = find(rows, &HISTORY, |item| item.text("event_id") == Some("d-u-2")).clone();
            let row = find(rows, &BILLING_ACTIVITY, |item| {
                item.get("subscription_id") == last.get("subscription_id")
            });
            let Some(Value::B(applied)) = row.get("applied").cloned() else { panic!("{row:?}") };
            let mut undone = before;
            for name in [
                "event_id",
                "stamp",
                "source",
                "outcome",
                "previous_version",
                "data_amount",
                "data_payment_id",
                "data_processor",
                "data_event",
            ] {
                undone.remove(name);
            }
            let head = undone.remove("data_chain").unwrap();
            undone.set("chain", head);
            undone.set("applied", Value::B(applied[..applied.len() - 16].to_vec()));
            *row = undone;
        },
        FindingKind::Ahead,
        "version 4 is in history, the row is at version 3",
    ),
    (
        "a row that cannot be read",
        |rows| {
            find(rows, &BILLING_ACTIVITY, has("billing_status", "SCHEDULED"))
                .set_text("billing_amount", "lots")
        },
        FindingKind::Unreadable,
        "billing_amount of row",
    ),
    (
        "the next period's record that was lost with its history",
        |rows| {
            let next = find(rows, &BILLING_ACTIVITY, has("billing_status", "SCHEDULED")).clone();
            rows.retain(|(_, item)| item.get("subscription_id") != next.get("subscription_id"));
        },
        FindingKind::Followup,
        "promises",
    ),
    (
        "a balance that was changed by hand",
        |rows| find(rows, &GG_CORE, has("SK", "CREDITS#BALANCE")).set("balance", Value::number(1000)),
        FindingKind::Balance,
        "the balance is 1000, its ledger adds up to",
    ),
    (
        "credits that no payment brought, with the balance made to fit",
        |rows| {
            let mut grant = find(rows, &GG_CORE, has("SK", "LEDGER#topup:")).clone();
            grant.set_text("SK", "LEDGER#topup:pi-made-up");
            grant.set_text("movementId", "topup:pi-made-up");
            let user = grant.text("PK").unwrap().to_owned();
            rows.push((&GG_CORE, grant));
            let balance = find(rows, &GG_CORE, |item| {
                item.text("PK") == Some(&user) && item.text("SK") == Some("CREDITS#BALANCE")
            });
            let Some(Value::N(there)) = balance.get("balance").cloned() else { panic!("{balance:?}") };
            balance.set("balance", Value::signed(there.parse::<i64>().unwrap() + 10));
        },
        FindingKind::Credits,
        "10 credits stand of it, its payment has brought 0",
    ),
    (
        "a tier that was not paid for",
        |rows| find(rows, &GG_CORE, has("SK", "PROFILE#u-2")).set_text("tier", "SAGE"),
        FindingKind::Tier,
        "it shows SAGE and should show free",
    ),
    (
        "a subscription that was changed by hand",
        |rows| find(rows, &GG_CORE, has("SK", "SUBSCRIPTION#")).set_text("planTier", "GUILDMASTER"),
        FindingKind::Differs,
        r#"planTier is "GUILDMASTER" and should be "JOURNEYMAN""#,
    ),
    (
        "an event of Stripe's that was removed",
        |rows| {
            remove(rows, &ENTITLEMENTS, has("SK", "EVENT#e-6"));
            let head = find(rows, &ENTITLEMENTS, |item| {
                item.text("SK") == Some("HEAD") && item.text("PK") == Some("USER#u-3")
            });
            head.set("facts", Value::number(6));
        },
        FindingKind::Credits,
        "10 credits stand of it, its payment has brought 0",
    ),
    (
        "an event of Stripe's that was removed, and that the head still counts",
        |rows| remove(rows, &ENTITLEMENTS, has("SK", "EVENT#e-6")),
        FindingKind::Gap,
        "there are not as many events as it counts",
    ),
    (
        "a profile that was lost",
        |rows| remove(rows, &GG_CORE, has("SK", "PROFILE#u-1")),
        FindingKind::Missing,
        "the user was booked and has no profile",
    ),
    (
        "a row of a read model that was changed by hand",
        |rows| find(rows, &USER_SUBSCRIPTIONS, has("user_id", "u-3")).set_text("status", "paused"),
        FindingKind::Differs,
        r#"status is "paused" and should be "#,
    ),
    (
        "a row of a read model that was lost",
        |rows| remove(rows, &SERENYA, has("PK", "USER#u-3")),
        FindingKind::Missing,
        "is missing",
    ),
    (
        "a row of a read model without history",
        |rows| {
            let mut row = find(rows, &SERENYA, has("PK", "USER#u-3")).clone();
            row.set_text("PK", "USER#u-9");
            rows.push((&SERENYA, row));
        },
        FindingKind::Unexplained,
        "has no history",
    ),
    (
        "a fact of a read model that cannot be read",
        |rows| find(rows, &JOURNAL, has("SK", "FACT#")).set_text("fact", "{"),
        FindingKind::Unreadable,
        "the journal: EOF",
    ),
];

async fn every_kind_of_corruption_is_found<E: Engine>(engine: E) {
    let clean = rows().await;
    for (what, plant, kind, detail) in PLANTS {
        let mut rows = clean.clone();
        plant(&mut rows);
        let found = findings(&engine, &rows).await;
        let said = found.iter().any(|finding| finding.kind == kind && finding.detail.contains(detail));
        assert!(said, "{what}: {found:#?}");
    }
}
