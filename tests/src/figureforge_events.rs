//! Made-up events of figureforge: users, jobs that run and end, images that are tagged, liked, deleted and brought back, reports, plans and flags.

use chrono::{DateTime, TimeDelta};
use fastrand::Rng;
use serde_json::{Value, json};

const TAGS: [&str; 8] =
    ["pose:standing", "pose:sitting", "style:comic", "style:oil", "style:ink", "mood:calm", "subject:cat", "subject:knight"];

/// So many events of these users, the same for the same seed. Their times are near each other, and some fall together; they come in no order.
///
/// # Panics
/// When there are no users.
pub fn events(seed: u64, count: usize, users: &[String]) -> Vec<Value> {
    let mut random = Rng::with_seed(seed);
    // Few enough things that much is told of each of them.
    let things = u64::try_from(count / 12 + 1).unwrap();
    (0..count).map(|n| event(&mut random, &format!("ff-{seed}-{n}"), things, users)).collect()
}

fn event(random: &mut Rng, id: &str, things: u64, users: &[String]) -> Value {
    let user = &users[random.usize(..users.len())];
    let thing = random.u64(..things);
    // Whose a thing is does not change.
    let owner = &users[usize::try_from(thing).unwrap() % users.len()];
    let (kind, mut fields) = match random.u8(..100) {
        0..8 => user_event(random, user),
        8..30 => job_event(random, thing, owner),
        30..75 => image_event(random, thing, owner),
        75..94 => report_event(random, thing, user),
        94..97 => plan_event(random),
        _ => flag_event(random),
    };
    let second = 1_767_225_600 + i64::from(random.u32(..86_400));
    let at = DateTime::from_timestamp(second, 0).unwrap() + TimeDelta::milliseconds(i64::from(random.u8(..2)) * 500);
    fields["event_id"] = id.into();
    fields["type"] = format!("figureforge.{kind}").into();
    fields["occurred_at"] = at.to_rfc3339().into();
    fields
}

fn user_event(random: &mut Rng, user: &str) -> (&'static str, Value) {
    let email = format!("{}@example.com", user.replace(['|', '@'], "-"));
    match random.u8(..10) {
        0 => ("user.deleted", json!({"user_id": user})),
        1 => ("user.restored", json!({"user_id": user})),
        2 => ("user.saved", json!({"user_id": user, "email": format!("New.{email}")})),
        _ => ("user.saved", json!({"user_id": user, "email": email, "display_name": format!("User {user}")})),
    }
}

fn job_event(random: &mut Rng, thing: u64, user: &str) -> (&'static str, Value) {
    let job = format!("job-{thing}");
    match random.u8(..10) {
        0..4 => {
            let prompt = json!({"prompt": "a knight", "negative_prompt": "blurry", "steps": random.u8(10..50)});
            (
                "job.queued",
                json!({"job_id": job, "user_id": user, "prompt_json": prompt, "provider": "fal.ai", "provider_model_id": "fal/sdxl-foo"}),
            )
        }
        4..6 => ("job.started", json!({"job_id": job})),
        6 => ("job.succeeded", json!({"job_id": job, "image_id": image_id(thing), "cost_cents": random.u8(1..50)})),
        7 => ("job.failed", json!({"job_id": job, "error": "out of memory"})),
        8 => ("job.cancelled", json!({"job_id": job})),
        _ => (if random.bool() { "job.deleted" } else { "job.restored" }, json!({"job_id": job})),
    }
}

fn image_id(thing: u64) -> String {
    format!("00000000-0000-4000-8000-{thing:012}")
}

fn tags(random: &mut Rng) -> Vec<&'static str> {
    let count = random.usize(..5);
    (0..count).map(|_| TAGS[random.usize(..TAGS.len())]).collect()
}

fn image_event(random: &mut Rng, thing: u64, user: &str) -> (&'static str, Value) {
    let id = image_id(thing);
    match random.u8(..20) {
        0..9 => {
            let owner = if thing.is_multiple_of(7) { Value::Null } else { user.into() };
            let image = json!({"image_id": id, "user_id": owner, "url": format!("https://cdn.example.com/{id}.jpg"), "tags": tags(random),
                "prompt_json": {"prompt": "a knight", "weight": 0.5, "tags": ["knight"]}, "provider": "fal.ai", "provider_model_id": "fal/sdxl-foo",
                "cost_cents": 12, "public": random.u8(..5) > 0, "private_gallery_ids": [], "created_at": 1_767_000_000 + thing});
            ("image.saved", image)
        }
        9..13 => ("image.tagged", json!({"image_id": id, "tags": tags(random)})),
        13..15 => ("image.favorited", json!({"image_id": id, "favorited_count": random.u8(..)})),
        15 | 16 => ("image.deleted", json!({"image_id": id})),
        17 => ("image.restored", json!({"image_id": id})),
        18 => ("image.flagged", json!({"image_id": id, "flag_status": if random.bool() { "clean" } else { "removed" }})),
        // One in twenty of these is deleted for good, so that most live.
        _ if random.u8(..20) == 0 => ("image.purged", json!({"image_id": id})),
        _ => ("image.restored", json!({"image_id": id})),
    }
}

fn report_event(random: &mut Rng, thing: u64, user: &str) -> (&'static str, Value) {
    let (image, report) = (image_id(thing), format!("report-{}", random.u8(..8)));
    let kind = match random.u8(..20) {
        0..11 => return ("report.filed", json!({"image_id": image, "report_id": report, "reporter_id": user, "reason": "spam"})),
        11..13 => "report.reviewed",
        13..17 => "report.dismissed",
        17 => "report.upheld",
        18 => "report.deleted",
        _ => "report.restored",
    };
    (kind, json!({"image_id": image, "report_id": report}))
}

fn plan_event(random: &mut Rng) -> (&'static str, Value) {
    let (id, cents) = [("INITIATE", 900), ("JOURNEYMAN", 1900), ("SAGE", 4900)][random.usize(..3)];
    match random.u8(..8) {
        0 => ("plan.deleted", json!({"plan_id": id})),
        1 => ("plan.restored", json!({"plan_id": id})),
        _ => ("plan.saved", json!({"plan_id": id, "name": id, "price_cents": cents, "interval": "month", "active": random.u8(..3) > 0})),
    }
}

fn flag_event(random: &mut Rng) -> (&'static str, Value) {
    let name = ["new-gallery", "video", "teaser"][random.usize(..3)];
    match random.u8(..8) {
        0 => ("flag.deleted", json!({"flag_name": name})),
        1 => ("flag.restored", json!({"flag_name": name})),
        _ => ("flag.set", json!({"flag_name": name, "enabled": random.bool(), "value": {"percent": random.u8(..100)}})),
    }
}
