//! The paths of generation jobs.

use dues_projections::figureforge::job::JobStatus;
use serde_json::json;

use super::shapes::{cents, name, second};
use super::{JOB, List, One, What, alters, changes, gives, lists, makes, marks, saves};
use crate::api::openapi::{any, id, or_null, text_or_null, words};
use crate::api::places::Place;

pub(super) const JOBS: &[Place<What>] = &[
    Place::get("/models/figureforge/jobs", What::List(List::Jobs), || {
        lists("figureforge_list_jobs", "The jobs in a state, the oldest first, because those are next.", JOB.shape).asked(
            "status",
            "The state.",
            words(JobStatus::ALL.map(JobStatus::as_str)),
        )
    }),
    Place::get("/models/figureforge/jobs/{job_id}", What::One(One::Job), || gives("figureforge_get_job", "A job.", JOB.shape)),
    Place::put("/models/figureforge/jobs/{job_id}", makes("job.queued"), || {
        let optional = json!({
            "prompt_json": any(), "provider": text_or_null(), "provider_model_id": text_or_null(), "created_at": or_null(second()),
        });
        saves("figureforge_queue_job", "Asks for an image.", JOB, json!({"user_id": name()}), optional)
    }),
    Place::delete("/models/figureforge/jobs/{job_id}", changes("job.deleted"), || {
        marks("figureforge_delete_job", "Deletes a job; the row stays, and says when.", JOB)
    }),
    Place::post("/models/figureforge/jobs/{job_id}/start", changes("job.started"), || {
        marks("figureforge_start_job", "Somebody has begun.", JOB)
    }),
    Place::post("/models/figureforge/jobs/{job_id}/succeed", changes("job.succeeded"), || {
        let optional = json!({"cost_cents": or_null(cents())});
        alters("figureforge_succeed_job", "There is an image. The first end of a job is final.", JOB, json!({"image_id": id()}), optional)
    }),
    Place::post("/models/figureforge/jobs/{job_id}/fail", changes("job.failed"), || {
        alters("figureforge_fail_job", "There is no image.", JOB, json!({}), json!({"error": text_or_null()}))
    }),
    Place::post("/models/figureforge/jobs/{job_id}/cancel", changes("job.cancelled"), || {
        marks("figureforge_cancel_job", "Nobody wants it any more.", JOB)
    }),
    Place::post("/models/figureforge/jobs/{job_id}/restore", changes("job.restored"), || {
        marks("figureforge_restore_job", "Brings a deleted job back.", JOB)
    }),
];
