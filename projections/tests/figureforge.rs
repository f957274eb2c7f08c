//! Read model `figureforge`: every rule, and independence of order and repetition.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use dues_events::entitlements::stripe;
use dues_events::entitlements::stripe::{Period, StripeEvent, Subscription, SubscriptionStatus};
use dues_events::wire::app_events::decode;
use dues_events::{IdempotencyToken, Item, Time, UserId};
use dues_projections::figureforge::image::ImageFact;
use dues_projections::figureforge::moderation::{MAX_COUNTED_REPORTS, Reported};
use dues_projections::figureforge::report::{ReportFact, ReportState, ReportStatus, ReportSummary};
use dues_projections::figureforge::{Fact, Figureforge, State, tags};
use dues_projections::model::{Latest, Model, Recorded};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};
use serde_json::{Value, json};

fn at(second: i64) -> Time {
    Time::from_timestamp(1_710_000_000 + second, 0).unwrap()
}

/// An application event as a fact, with its aggregate.
fn recorded(id: &str, second: i64, kind: &str, fields: Value) -> (String, Recorded<Fact>) {
    let mut event = json!({"event_id": id, "type": format!("figureforge.{kind}"),
        "occurred_at": at(second).to_rfc3339()});
    event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let event = decode(event.to_string().as_bytes()).unwrap().unwrap();
    let (aggregate, fact) =
        Figureforge::read(&event).unwrap_or_else(|error| panic!("{kind}: {error}")).unwrap();
    (aggregate, Recorded { id: event.id, at: event.at, fact })
}

fn merged<'a>(facts: impl IntoIterator<Item = &'a Recorded<Fact>>) -> State {
    facts.into_iter().fold(State::default(), |mut state, fact| {
        Figureforge::merge(&mut state, fact);
        state
    })
}

/// The one row of an aggregate.
fn row<'a>(aggregate: &str, facts: impl IntoIterator<Item = &'a Recorded<Fact>>) -> Option<Item> {
    let mut rows = Figureforge::rows(aggregate, &merged(facts));
    assert!(rows.len() <= 1, "{rows:?}");
    rows.pop().map(|(_, item)| item)
}

fn image(id: &str, second: i64, kind: &str, fields: Value) -> Recorded<Fact> {
    let mut all = json!({"image_id": "i-1"});
    all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    recorded(id, second, kind, all).1
}

fn saved(id: &str, second: i64) -> Recorded<Fact> {
    image(
        id,
        second,
        "image.saved",
        json!({"user_id": "u-1", "url": format!("https://cdn/{id}.jpg"), "public": true,
            "tags": [format!("tag:{id}")]}),
    )
}

/// A report's status as the projector records it on the image, and whether the report is deleted.
fn reported(
    report: &str,
    second: i64,
    status: ReportStatus,
    gone: Option<bool>,
    block_at: u32,
) -> Recorded<Fact> {
    let id = format!("report/{report}/{second}{status:?}{gone:?}");
    let status = Latest { at: at(second), by: id.as_str().into(), value: status };
    let gone = gone.map(|value| Latest { at: at(second), by: id.as_str().into(), value });
    let reported = Reported {
        report_id: report.to_owned().try_into().unwrap(),
        summary: ReportSummary { status, gone },
        block_at,
    };
    Recorded { id: id.into(), at: at(second), fact: Fact::Image(ImageFact::Reported(reported)) }
}

fn subscription(
    id: &str,
    second: i64,
    status: SubscriptionStatus,
    tier: &str,
    ended: bool,
) -> Recorded<Fact> {
    let period = Period { start: at(0), end: at(86_400 * 30) };
    let fact = stripe::Fact::Subscription(Subscription {
        id: "sub_1".into(),
        customer: Some("cus_1".into()),
        user: None,
        provider: None,
        tier: Some(tier.into()),
        status,
        period: Some(period),
        cancel_at_period_end: false,
        created_at: at(0),
        ended,
    });
    let (id, source) = (id.into(), "customer.subscription.updated");
    let event = StripeEvent {
        token: IdempotencyToken::new(&id, &[]),
        id,
        created: at(second),
        livemode: false,
        api_version: None,
        source,
        fact,
    };
    let (aggregate, fact) = Figureforge::stripe(&UserId::from("u-1"), &event).unwrap();
    assert_eq!(aggregate, "sub:sub_1");
    Recorded { id: event.id, at: event.created, fact }
}

/// Facts for every kind of aggregate, with equal timestamps and contradictions.
fn histories() -> Vec<(&'static str, Vec<Recorded<Fact>>)> {
    let of = |kind: &str, id: &str, second, fields: Value| recorded(id, second, kind, fields).1;
    let user = |email: &str| json!({"user_id": "u-1", "email": email});
    let job = json!({"job_id": "j-1", "user_id": "u-1", "image_id": "i-1", "error": "out of memory"});
    let report = json!({"image_id": "i-1", "report_id": "r-1", "reason": "spam"});
    let plan = |active: bool| json!({"plan_id": "SAGE", "name": "Sage", "active": active});
    let flag = |enabled: bool| json!({"flag_name": "f-1", "enabled": enabled});
    vec![
        (
            "user:u-1",
            vec![
                of("user.saved", "a", 5, user("Ada@example.com")),
                of("user.saved", "b", 5, user("ada@example.org")),
                of("user.deleted", "c", 6, user("x")),
                of("user.restored", "d", 7, user("x")),
                of("user.deleted", "e", 7, user("x")),
                of(
                    "user.saved",
                    "f",
                    3,
                    json!({"user_id": "u-1", "email": "a@b", "created_at": 1_600_000_000}),
                ),
            ],
        ),
        (
            "job:j-1",
            vec![
                of("job.queued", "a", 5, job.clone()),
                of("job.started", "b", 5, job.clone()),
                of("job.succeeded", "c", 9, job.clone()),
                of("job.failed", "d", 9, job.clone()),
                of("job.cancelled", "e", 10, job.clone()),
                of("job.deleted", "f", 11, job.clone()),
                of("job.restored", "g", 12, job),
            ],
        ),
        (
            "image:i-1",
            vec![
                saved("a", 5),
                saved("b", 8),
                image("c", 6, "image.tagged", json!({"tags": ["x", "y"]})),
                image("d", 9, "image.tagged", json!({"tags": ["z"]})),
                image("e", 9, "image.favorited", json!({"favorited_count": 7})),
                image("f", 7, "image.deleted", json!({})),
                image("g", 8, "image.restored", json!({})),
                image("h", 9, "image.flagged", json!({"flag_status": "clean"})),
                reported("r-1", 8, ReportStatus::Upheld, None, 5),
                reported("r-2", 10, ReportStatus::Filed, None, 1),
                reported("r-2", 11, ReportStatus::Dismissed, Some(true), 5),
            ],
        ),
        (
            "report:i-1/r-1",
            vec![
                of("report.filed", "a", 5, report.clone()),
                of("report.reviewed", "b", 5, report.clone()),
                of("report.upheld", "c", 7, report.clone()),
                of("report.dismissed", "d", 8, report.clone()),
                of("report.upheld", "e", 9, report.clone()),
                of("report.deleted", "f", 9, report.clone()),
                of("report.restored", "g", 9, report),
            ],
        ),
        (
            "plan:SAGE",
            vec![
                of("plan.saved", "a", 5, plan(true)),
                of("plan.saved", "b", 6, plan(false)),
                of("plan.deleted", "c", 7, plan(true)),
                of("plan.restored", "d", 8, plan(true)),
            ],
        ),
        (
            "flag:f-1",
            vec![
                of("flag.set", "a", 5, flag(true)),
                of("flag.set", "b", 5, flag(false)),
                of("flag.deleted", "c", 6, flag(true)),
            ],
        ),
        (
            "sub:sub_1",
            vec![
                subscription("evt_3", 1, SubscriptionStatus::Incomplete, "INITIATE", false),
                subscription("evt_1", 1, SubscriptionStatus::Active, "INITIATE", false),
                subscription("evt_2", 9, SubscriptionStatus::Active, "SAGE", false),
                subscription("evt_0", 9, SubscriptionStatus::Canceled, "SAGE", true),
            ],
        ),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn neither_order_nor_repeats_nor_cuts_matter(seed in any::<u64>()) {
        for (aggregate, facts) in histories() {
            let expected = Figureforge::rows(aggregate, &merged(&facts));
            let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &seed_bytes(seed));
            let mut order: Vec<&Recorded<Fact>> = facts.iter().chain(&facts).collect();
            for n in (1..order.len()).rev() {
                order.swap(n, (random.next_u64() % (n as u64 + 1)) as usize);
            }
            // Between two facts the state is serialized and parsed, as a head is.
            let state = order.iter().fold(State::default(), |state, fact| {
                let mut state: State = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
                Figureforge::merge(&mut state, fact);
                state
            });
            prop_assert_eq!(Figureforge::rows(aggregate, &state), expected, "{}: {:?}", aggregate, order);
        }
    }

    #[test]
    fn a_purged_image_stays_away_in_any_order_of_events(place in 0..12_usize) {
        let (aggregate, mut facts) = histories().swap_remove(2);
        prop_assert!(row(aggregate, &facts).is_some());
        facts.insert(place.min(facts.len()), image("purge", 1, "image.purged", json!({})));
        prop_assert_eq!(row(aggregate, &facts), None);
        prop_assert_eq!(serde_json::to_string(&merged(&facts)).unwrap(),
            serde_json::to_string(&merged([&image("p", 1, "image.purged", json!({}))])).unwrap());
    }
}

fn seed_bytes(seed: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes
}

#[test]
fn every_kind_of_fact_leaves_its_row_as_the_seed_has_it() {
    let rows: Vec<String> = histories()
        .iter()
        .map(|(aggregate, facts)| row(aggregate, facts).unwrap().to_json().to_string())
        .collect();
    let keys = |row: &str| {
        let row: Value = serde_json::from_str(row).unwrap();
        format!("{} {}", row["pk"].as_str().unwrap(), row["sk"].as_str().unwrap())
    };
    assert_eq!(
        rows.iter().map(|row| keys(row)).collect::<Vec<_>>(),
        [
            "USER#u-1 PROFILE",
            "USER#u-1 JOB#j-1",
            "IMG#i-1 META",
            "IMG#i-1 REPORT#r-1",
            "PLAN#SAGE META",
            "FEATUREFLAG#global f-1",
            "USER#u-1 SUB#sub_1"
        ]
    );
    for row in rows {
        let row: Value = serde_json::from_str(&row).unwrap();
        assert!(row["created_at"].is_i64() && row.as_object().unwrap().contains_key("deleted_at"), "{row}");
    }
}

#[test]
fn an_image_has_every_attribute_of_the_seeds_example() {
    let example = json!({"user_id": "u-1", "url": "https://cdn/img.jpg",
        "tags": ["pose:summary", "style:comic"],
        "prompt_json": {"prompt": "p", "negative_prompt": "n", "tags": ["t"]}, "provider": "fal.ai",
        "provider_model_id": "fal/sdxl-foo",
        "cost_cents": 12, "favorited_count": 0, "public": true, "private_gallery_ids": [],
        "flag_status": "clean", "created_at": 1_710_000_000});
    let mut row = row("image:i-1", [&image("a", 5, "image.saved", example.clone())]).unwrap().to_json();
    let fields = row.as_object_mut().unwrap();
    for (name, value) in
        [("pk", "IMG#i-1"), ("sk", "META"), ("image_id", "i-1"), ("image_user_pk", "USER#u-1")]
    {
        assert_eq!(fields.remove(name), Some(json!(value)));
    }
    assert_eq!(fields.remove("deleted_at"), Some(Value::Null));
    assert_eq!(row, example);
}

#[test]
fn a_job_goes_its_way_and_an_end_is_final() {
    let (_, facts) = histories().swap_remove(1);
    let status = |facts: &[&Recorded<Fact>]| {
        row("job:j-1", facts.iter().copied()).map(|row| row.text("status").unwrap().to_owned())
    };
    let [queued, started, succeeded, failed, cancelled, deleted, _] =
        <[Recorded<Fact>; 7]>::try_from(facts).unwrap();
    assert_eq!(status(&[&started, &succeeded]), None, "its user is unknown");
    assert_eq!(status(&[&queued]).unwrap(), "queued");
    assert_eq!(status(&[&started, &queued]).unwrap(), "running", "of one instant");
    assert_eq!(status(&[&cancelled, &started, &queued]).unwrap(), "cancelled");
    assert_eq!(status(&[&cancelled, &failed, &queued]).unwrap(), "failed", "the first end");
    let facts = [&queued, &succeeded, &cancelled, &failed, &deleted];
    assert_eq!(status(&facts).unwrap(), "succeeded");
    let row = row("job:j-1", facts).unwrap();
    assert_eq!(
        (row.text("image_id"), row.text("job_status_pk")),
        (Some("i-1"), None),
        "and listed nowhere when deleted"
    );
}

#[test]
fn reports_decide_whether_an_image_may_be_seen() {
    use ReportStatus::{Dismissed, Filed, Reviewed, Upheld};
    let image_row = saved("a", 0);
    let status = |reports: &[Recorded<Fact>]| {
        let row = row("image:i-1", std::iter::once(&image_row).chain(reports)).unwrap();
        row.text("flag_status").unwrap().to_owned()
    };
    let flagged = |second, status: &str| {
        image(&format!("staff{second}"), second, "image.flagged", json!({"flag_status": status}))
    };
    assert_eq!(status(&[]), "clean");
    assert_eq!(status(&[reported("r-1", 1, Filed, None, 5)]), "human_pending");
    assert_eq!(status(&[reported("r-1", 1, Reviewed, None, 5)]), "human_pending");
    assert_eq!(
        status(&[reported("r-1", 1, Filed, None, 5), reported("r-1", 2, Dismissed, None, 5)]),
        "clean"
    );
    assert_eq!(
        status(&[reported("r-1", 1, Filed, None, 5), reported("r-1", 2, Filed, Some(true), 5)]),
        "clean",
        "it was deleted"
    );
    let one_of_two = [reported("r-1", 1, Dismissed, None, 5), reported("r-2", 1, Filed, None, 5)];
    assert_eq!(status(&one_of_two), "human_pending", "all have to be dismissed");
    let three: Vec<_> = (0..3).map(|n| reported(&format!("r-{n}"), 1, Filed, None, 3)).collect();
    assert_eq!(status(&three[..2]), "human_pending");
    assert_eq!(status(&three), "auto_blocked");
    let never: Vec<_> = (0..9).map(|n| reported(&format!("r-{n}"), 1, Filed, None, 0)).collect();
    assert_eq!(status(&never), "human_pending", "0 blocks nothing");
    assert_eq!(status(&[reported("r-1", 1, Upheld, None, 5)]), "removed");
    assert_eq!(
        status(&[reported("r-1", 1, Upheld, None, 5), flagged(2, "clean")]),
        "clean",
        "the staff has the last word"
    );
    assert_eq!(
        status(&[reported("r-1", 3, Filed, None, 5), flagged(2, "clean")]),
        "human_pending",
        "until another report"
    );
    assert_eq!(status(&[flagged(2, "removed")]), "removed");
}

#[test]
fn an_image_with_thousands_of_reports_keeps_a_small_head() {
    let reports: Vec<_> =
        (0..3000).map(|n| reported(&format!("r-{n:05}"), n, ReportStatus::Dismissed, None, 5)).collect();
    let first = saved("a", 0);
    let state = merged(std::iter::once(&first).chain(&reports));
    let size = serde_json::to_string(&state).unwrap().len();
    assert!(size < MAX_COUNTED_REPORTS * 300, "{size}");
    let status =
        |state: &State| Figureforge::rows("image:i-1", state)[0].1.text("flag_status").unwrap().to_owned();
    assert_eq!(status(&state), "human_pending", "not all of them are known");
    let backwards = merged(reports.iter().rev().chain([&first]));
    assert_eq!(state, backwards);
    let mut settled = state;
    Figureforge::merge(&mut settled, &image("staff", 5000, "image.flagged", json!({"flag_status": "clean"})));
    assert_eq!(status(&settled), "clean");
    Figureforge::merge(&mut settled, &reported("r-99999", 6000, ReportStatus::Upheld, None, 5));
    assert_eq!(status(&settled), "removed", "an upheld one counts, also beyond those that are followed");
}

#[test]
fn a_report_that_is_upheld_stays_so() {
    let (aggregate, facts) = histories().swap_remove(3);
    let row = row(aggregate, &facts).unwrap();
    assert_eq!(
        (row.text("status"), row.text("report_status_pk")),
        (Some("upheld"), Some("REPORTSTATUS#upheld"))
    );
    assert_eq!(ReportState::default().summary(), None);
    assert!(matches!(facts[0].fact, Fact::Report(ReportFact::Filed(_))));
}

#[test]
fn a_subscription_is_as_in_stripes_last_event_and_names_its_plan() {
    let (aggregate, facts) = histories().swap_remove(6);
    let early = row(aggregate, &facts[..2]).unwrap();
    assert_eq!(
        (early.text("status"), early.text("plan")),
        (Some("active"), Some("PLAN#INITIATE")),
        "of one second the later in life"
    );
    let late = row(aggregate, &facts).unwrap();
    let expected = json!({"pk": "USER#u-1", "sk": "SUB#sub_1", "user_id": "u-1", "stripe_sub_id": "sub_1",
        "stripe_customer_id": "cus_1",
        "status": "canceled", "plan_id": "SAGE", "plan": "PLAN#SAGE",
        "current_period_start": at(0).timestamp(),
        "current_period_end": at(86_400 * 30).timestamp(), "cancel_at_period_end": false,
        "stripe_sub_pk": "SUB#sub_1", "stripe_sub_sk": "USER#u-1",
        "created_at": at(0).timestamp(), "deleted_at": at(9).timestamp()});
    assert_eq!(late.to_json(), expected);
}

#[test]
fn an_image_is_found_by_its_tags_while_it_is_public_and_may_be_seen() {
    let found = |facts: &[Recorded<Fact>]| {
        row("image:i-1", facts)
            .map(|row| tags::rows(&row).into_keys().collect::<Vec<_>>())
            .unwrap_or_default()
    };
    assert_eq!(found(&[saved("a", 1)]), ["tag:a"]);
    assert_eq!(
        found(&[saved("a", 1), image("b", 2, "image.tagged", json!({"tags": ["x", "y", "x"]}))]),
        ["x", "y"]
    );
    assert_eq!(
        found(&[saved("a", 1), reported("r-1", 2, ReportStatus::Filed, None, 5)]),
        ["tag:a"],
        "a report alone hides nothing"
    );
    let none: [&[Recorded<Fact>]; 5] = [
        &[],
        &[saved("a", 1), image("b", 2, "image.deleted", json!({}))],
        &[saved("a", 1), reported("r-1", 2, ReportStatus::Upheld, None, 5)],
        &[saved("a", 1), reported("r-1", 2, ReportStatus::Filed, None, 1)],
        &[image("a", 1, "image.saved", json!({"url": "x", "tags": ["x"], "public": false}))],
    ];
    for facts in none {
        assert_eq!(found(facts), [""; 0], "{facts:?}");
    }
    let tag = tags::rows(&row("image:i-1", &[saved("a", 1)]).unwrap()).remove("tag:a").unwrap();
    assert_eq!(
        tag.to_json(),
        json!({"pk": "TAG#tag:a", "sk": "IMG#i-1", "created_at": at(1).timestamp(), "deleted_at": null})
    );
}

#[test]
fn what_is_wrong_with_an_event_is_named() {
    let read = |kind: &str, fields: Value| {
        let mut event = json!({"event_id": "e", "type": format!("figureforge.{kind}"),
            "occurred_at": "2026-01-05T14:00:00Z"});
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        Figureforge::read(&decode(event.to_string().as_bytes()).unwrap().unwrap())
            .map_err(|error| error.to_string())
    };
    for (kind, fields, wrong) in [
        ("image.saved", json!({"image_id": "i-1"}), "url: is missing"),
        ("image.saved", json!({"image_id": "a/b", "url": "x"}), "image_id: has a slash"),
        ("image.saved", json!({"image_id": "i-1", "url": "x", "tags": ["a", ""]}), "tags[1]: is empty"),
        (
            "image.saved",
            json!({"image_id": "i-1", "url": "x", "created_at": -1}),
            "created_at: -1 is not a second from 1970 to 9999",
        ),
        ("image.deleted", json!({}), "image_id: is missing"),
        ("user.saved", json!({"user_id": "u-1", "email": "ada"}), "email: is no email address"),
        ("report.filed", json!({"image_id": "i-1", "reason": "x"}), "report_id: is missing"),
        ("job.succeeded", json!({"job_id": "j-1"}), "image_id: is missing"),
        ("plan.saved", json!({"plan_id": "p", "name": "P"}), "active: is missing"),
    ] {
        assert_eq!(read(kind, fields), Err(wrong.to_owned()));
    }
    assert_eq!(read("image.sold", json!({})), Ok(None));
    assert_eq!(read("album.saved", json!({})), Ok(None));
}
