//! The paths of the read model `figureforge`. What changes something carries an `event_id`, and is one of the facts that also come on the stream
//! `app-events`: repeated, it changes nothing; the same id with something else is 409. `occurred_at` may be left out: then it is now.

mod images;
mod jobs;
mod people;
mod shapes;

use serde_json::{Value, json};

use super::page::MOST_LISTED;
use crate::api::openapi::{Operation, Part, id, joined, list, object, object_with, or_null, shape, text_or_null, time};
use crate::api::places::{self, Places, described, shaped};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    One(One),
    List(List),
    Command(Command),
}

/// One thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum One {
    User,
    Subscription,
    Job,
    Image,
    Url,
    Report,
    Flag,
    Plan,
}

/// Several things, a page at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Users,
    Jobs,
    Reports,
    Plans,
    Flags,
    ImagesOfUser,
    JobsOfUser,
    SubscriptionsOfUser,
    ReportsOfImage,
    Tag,
}

/// Something to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Command {
    /// The fact that it makes.
    pub(super) kind: &'static str,
    /// Whether what it is about may not be there yet.
    pub(super) makes: bool,
}

/// All paths.
pub(super) const PLACES: Places<What> =
    &[people::USERS, people::SUBSCRIPTIONS, people::PLANS, people::FLAGS, jobs::JOBS, images::IMAGES, images::REPORTS];

/// The path as it is described.
pub(in crate::api) fn template(path: &[&str]) -> Option<&'static str> {
    places::template(PLACES, path)
}

/// How they are described.
pub(in crate::api) fn openapi() -> Part {
    let about = "Users, subscriptions, jobs, images with tags and reports, plans and feature flags (read model figureforge).";
    described(PLACES, shaped(Part::new("figureforge", about), shapes::all()))
}

/// A command on something that may not be there yet.
const fn makes(kind: &'static str) -> What {
    What::Command(Command { kind, makes: true })
}

/// A command on something that is there.
const fn changes(kind: &'static str) -> What {
    What::Command(Command { kind, makes: false })
}

/// An entity: its shape, and the ids that name it.
#[derive(Clone, Copy)]
struct Entity {
    shape: &'static str,
    ids: &'static [&'static str],
}

const USER: Entity = Entity { shape: "FigureforgeUser", ids: &["user_id"] };
const PLAN: Entity = Entity { shape: "FigureforgePlan", ids: &["plan_id"] };
const FLAG: Entity = Entity { shape: "FigureforgeFlag", ids: &["flag_name"] };
const JOB: Entity = Entity { shape: "FigureforgeJob", ids: &["job_id"] };
const IMAGE: Entity = Entity { shape: "FigureforgeImage", ids: &["image_id"] };
const REPORT: Entity = Entity { shape: "FigureforgeReport", ids: &["image_id", "report_id"] };

/// Gives one thing, also when it is deleted: then it says so.
fn gives(name: &str, summary: &str, entity: &str) -> Operation {
    Operation::new(name, summary).answer(200, "It, with deleted_at when it is deleted.", shape(entity))
}

/// Gives a page of things.
fn lists(name: &str, summary: &str, item: &str) -> Operation {
    Operation::new(name, summary)
        .query("limit", "How many.", json!({"type": "integer", "minimum": 1, "maximum": MOST_LISTED}))
        .query("after", "What the page before calls next.", json!({"type": "string", "pattern": "^([0-9a-f]{2})+$"}))
        .answer(200, "A page. What was deleted is left out.", object(json!({"items": list(shape(item)), "next": text_or_null()})))
        .errors(&[422])
}

/// Makes something, or saves it again.
fn saves(name: &str, summary: &str, entity: Entity, required: Value, optional: Value) -> Operation {
    Operation::new(name, summary)
        .needs(command(required, optional))
        .answer(200, "It is so, now or before.", shape(entity.shape))
        .errors(&[409, 422])
}

/// Changes something that is there. Where the row is gone for good, or was never there, only its ids are left to tell.
fn alters(name: &str, summary: &str, entity: Entity, required: Value, optional: Value) -> Operation {
    let mut gone = object(entity.ids.iter().map(|name| ((*name).to_owned(), id())).collect::<serde_json::Map<_, _>>().into());
    gone["additionalProperties"] = false.into();
    Operation::new(name, summary)
        .needs(command(required, optional))
        .answer(200, "It is so, now or before; only the ids when there is no row.", json!({"anyOf": [shape(entity.shape), gone]}))
        .errors(&[404, 409, 422])
}

/// Changes something, with nothing more to say.
fn marks(name: &str, summary: &str, entity: Entity) -> Operation {
    alters(name, summary, entity, json!({}), json!({}))
}

/// The body of a command.
fn command(required: Value, optional: Value) -> Value {
    object_with(joined(json!({"event_id": id()}), required), joined(json!({"occurred_at": or_null(time())}), optional))
}
