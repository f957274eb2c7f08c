//! Decodes application events: `figureforge.<entity>.<what>`, with the entity's id among the fields.

use dues_events::usage::storable_value;
use dues_events::wire::WireError;
use dues_events::wire::app_events::AppEvent;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::image::ImageFact;
use super::job::{End, JobFact};
use super::moderation::FlagStatus;
use super::report::{ReportFact, ReportStatus};
use super::soft_delete::Lifecycle;
use super::validation::{Id, Name, Tags};
use super::{Fact, report_aggregate};

#[derive(Deserialize)]
struct OfUser {
    user_id: Name,
}

#[derive(Deserialize)]
struct OfJob {
    job_id: Id,
}

#[derive(Deserialize)]
struct OfImage {
    image_id: Id,
}

#[derive(Deserialize)]
struct OfReport {
    image_id: Id,
    report_id: Id,
}

#[derive(Deserialize)]
struct OfPlan {
    plan_id: Id,
}

#[derive(Deserialize)]
struct OfFlag {
    flag_name: Id,
}

#[derive(Deserialize)]
struct Succeeded {
    image_id: Id,
    cost_cents: Option<u32>,
}

#[derive(Deserialize)]
struct Failed {
    error: Option<String>,
}

#[derive(Deserialize)]
struct Tagged {
    tags: Tags,
}

#[derive(Deserialize)]
struct Favorited {
    favorited_count: u32,
}

#[derive(Deserialize)]
struct Flagged {
    flag_status: FlagStatus,
}

/// The aggregate and the fact; `None` for an unknown event type.
pub(super) fn read(event: &AppEvent) -> Result<Option<(String, Fact)>, WireError> {
    let Some((entity, what)) = event.kind.split_once('.') else { return Ok(None) };
    // JSON that is stored unchanged must fit into the table.
    for field in ["prompt_json", "value"] {
        let json = event.body.get(field).unwrap_or(&Json::Null);
        storable_value(json)
            .map_err(|why| WireError { field: field.to_owned(), problem: why.to_string() })?;
    }
    let fact = match entity {
        "user" => said(event, what, "saved")?.map(Fact::User),
        "plan" => said(event, what, "saved")?.map(Fact::Plan),
        "flag" => said(event, what, "set")?.map(Fact::Flag),
        "job" => job(event, what)?.map(Fact::Job),
        "image" => image(event, what)?.map(Fact::Image),
        "report" => report(event, what)?.map(Fact::Report),
        _ => None,
    };
    let Some(fact) = fact else { return Ok(None) };
    let aggregate = match entity {
        "user" => format!("user:{}", event.read::<OfUser>()?.user_id),
        "plan" => format!("plan:{}", event.read::<OfPlan>()?.plan_id),
        "flag" => format!("flag:{}", event.read::<OfFlag>()?.flag_name),
        "job" => format!("job:{}", event.read::<OfJob>()?.job_id),
        "image" => format!("image:{}", event.read::<OfImage>()?.image_id),
        _ => {
            let OfReport { image_id, report_id } = event.read()?;
            report_aggregate(image_id.as_str(), report_id.as_str())
        }
    };
    Ok(Some((aggregate, fact)))
}

fn said<T: DeserializeOwned>(
    event: &AppEvent,
    what: &str,
    saved: &str,
) -> Result<Option<Lifecycle<T>>, WireError> {
    Ok(match what {
        "deleted" => Some(Lifecycle::Deleted),
        "restored" => Some(Lifecycle::Restored),
        _ if what == saved => Some(Lifecycle::Saved(event.read()?)),
        _ => None,
    })
}

fn job(event: &AppEvent, what: &str) -> Result<Option<JobFact>, WireError> {
    Ok(Some(match what {
        "queued" => JobFact::Queued(event.read()?),
        "started" => JobFact::Started,
        "succeeded" => {
            let Succeeded { image_id, cost_cents } = event.read()?;
            JobFact::Ended(End::Succeeded { image_id, cost_cents })
        }
        "failed" => JobFact::Ended(End::Failed { error: event.read::<Failed>()?.error }),
        "cancelled" => JobFact::Ended(End::Cancelled {}),
        "deleted" => JobFact::Gone(true),
        "restored" => JobFact::Gone(false),
        _ => return Ok(None),
    }))
}

fn image(event: &AppEvent, what: &str) -> Result<Option<ImageFact>, WireError> {
    Ok(Some(match what {
        "saved" => ImageFact::Saved(Box::new(event.read()?)),
        "tagged" => ImageFact::Tagged(event.read::<Tagged>()?.tags),
        "favorited" => ImageFact::Favorited(event.read::<Favorited>()?.favorited_count),
        "flagged" => ImageFact::Flagged(event.read::<Flagged>()?.flag_status),
        "deleted" => ImageFact::Gone(true),
        "restored" => ImageFact::Gone(false),
        "purged" => ImageFact::Purged,
        _ => return Ok(None),
    }))
}

fn report(event: &AppEvent, what: &str) -> Result<Option<ReportFact>, WireError> {
    Ok(Some(match what {
        "filed" => ReportFact::Filed(event.read()?),
        "reviewed" => ReportFact::Judged(ReportStatus::Reviewed),
        "dismissed" => ReportFact::Judged(ReportStatus::Dismissed),
        "upheld" => ReportFact::Judged(ReportStatus::Upheld),
        "deleted" => ReportFact::Gone(true),
        "restored" => ReportFact::Gone(false),
        _ => return Ok(None),
    }))
}
