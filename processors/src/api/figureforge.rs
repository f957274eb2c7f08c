//! Routes of the read model `figureforge`. A command has an `event_id` and becomes an event like those of
//! the stream `app-events`. A repeated command changes nothing; the same id with other content is 409.
//! `occurred_at` defaults to now.

mod handlers;
mod schema;

use axum::extract::State;
use axum::http::Method;
use dues_store::Engine;
use utoipa::ToSchema;

use super::Shared;
use super::document::Operation;
use super::extract::{Body, Ids, Parameters};
use super::page::PageOf;
use super::routes::Routes;
use crate::collections::gateway::Gateway;
use crate::runtime::json_fields::Fields;
use handlers::{Command, List, One};
use schema as s;

/// Declares the routes.
pub(super) fn declare<E: Engine, G: Gateway, R: Routes<Shared<E, G>>>(routes: R) -> R {
    let about = "Users, subscriptions, jobs, images with tags and reports, plans and feature flags (read \
        model figureforge).";
    let routes = routes.tag("figureforge", about);
    images(jobs(plans_and_flags(users(routes))))
}

fn users<E: Engine, G: Gateway, R: Routes<Shared<E, G>>>(r: R) -> R {
    let r = list(r, "/models/figureforge/users", List::Users, || {
        lists::<s::Users>("list_users", "The users with an email address, in any case.").query::<s::Email>()
    });
    let r =
        one(r, "/models/figureforge/users/{user_id}", One::User, || gives::<s::User>("get_user", "A user."));
    let r = create(r, "/models/figureforge/users/{user_id}", "user.saved", || {
        saves::<s::SaveUser, s::User>("save_user", "Saves a user. A deleted user stays deleted.")
    });
    let r = change(r, Method::DELETE, "/models/figureforge/users/{user_id}", "user.deleted", || {
        marks::<s::User, s::UserKey>("delete_user", "Soft-deletes a user.")
    });
    let r = change(r, Method::POST, "/models/figureforge/users/{user_id}/restore", "user.restored", || {
        marks::<s::User, s::UserKey>("restore_user", "Restores a deleted user.")
    });
    let r = list(r, "/models/figureforge/users/{user_id}/images", List::ImagesOfUser, || {
        lists::<s::Images>("list_user_images", "A user's images, newest first.")
    });
    let r = list(r, "/models/figureforge/users/{user_id}/jobs", List::JobsOfUser, || {
        lists::<s::Jobs>("list_user_jobs", "A user's jobs.")
    });
    let r = list(r, "/models/figureforge/users/{user_id}/subscriptions", List::SubscriptionsOfUser, || {
        lists::<s::Subscriptions>(
            "list_user_subscriptions",
            "A user's subscriptions that Stripe has not ended.",
        )
    });
    one(r, "/models/figureforge/subscriptions/{stripe_sub_id}", One::Subscription, || {
        gives::<s::Subscription>("get_subscription", "The subscription with that Stripe id, of any user.")
    })
}

fn plans_and_flags<E: Engine, G: Gateway, R: Routes<Shared<E, G>>>(r: R) -> R {
    let r = list(r, "/models/figureforge/plans", List::Plans, || {
        lists::<s::Plans>("list_plans", "The plans that can be bought, or those that cannot, oldest first.")
            .query::<s::Active>()
    });
    let r =
        one(r, "/models/figureforge/plans/{plan_id}", One::Plan, || gives::<s::Plan>("get_plan", "A plan."));
    let r = create(r, "/models/figureforge/plans/{plan_id}", "plan.saved", || {
        saves::<s::SavePlan, s::Plan>("save_plan", "Saves a plan.")
    });
    let r = change(r, Method::DELETE, "/models/figureforge/plans/{plan_id}", "plan.deleted", || {
        marks::<s::Plan, s::PlanKey>("delete_plan", "Soft-deletes a plan.")
    });
    let r = change(r, Method::POST, "/models/figureforge/plans/{plan_id}/restore", "plan.restored", || {
        marks::<s::Plan, s::PlanKey>("restore_plan", "Restores a deleted plan.")
    });
    let r = list(r, "/models/figureforge/flags", List::Flags, || {
        lists::<s::Flags>("list_flags", "The feature flags.")
    });
    let r = one(r, "/models/figureforge/flags/{flag_name}", One::Flag, || {
        gives::<s::Flag>("get_flag", "A feature flag.")
    });
    let r = create(r, "/models/figureforge/flags/{flag_name}", "flag.set", || {
        saves::<s::SetFlag, s::Flag>("set_flag", "Sets a feature flag.")
    });
    let r = change(r, Method::DELETE, "/models/figureforge/flags/{flag_name}", "flag.deleted", || {
        marks::<s::Flag, s::FlagKey>("delete_flag", "Soft-deletes a feature flag.")
    });
    change(r, Method::POST, "/models/figureforge/flags/{flag_name}/restore", "flag.restored", || {
        marks::<s::Flag, s::FlagKey>("restore_flag", "Restores a deleted feature flag.")
    })
}

fn jobs<E: Engine, G: Gateway, R: Routes<Shared<E, G>>>(r: R) -> R {
    let r = list(r, "/models/figureforge/jobs", List::Jobs, || {
        lists::<s::Jobs>("list_jobs", "The jobs in a state, oldest first.").query::<s::OfJobStatus>()
    });
    let r = one(r, "/models/figureforge/jobs/{job_id}", One::Job, || gives::<s::Job>("get_job", "A job."));
    let r = create(r, "/models/figureforge/jobs/{job_id}", "job.queued", || {
        saves::<s::QueueJob, s::Job>("queue_job", "Queues the generation of an image.")
    });
    let r = change(r, Method::DELETE, "/models/figureforge/jobs/{job_id}", "job.deleted", || {
        marks::<s::Job, s::JobKey>("delete_job", "Soft-deletes a job.")
    });
    let r = change(r, Method::POST, "/models/figureforge/jobs/{job_id}/start", "job.started", || {
        marks::<s::Job, s::JobKey>("start_job", "Starts a job.")
    });
    let r = change(r, Method::POST, "/models/figureforge/jobs/{job_id}/succeed", "job.succeeded", || {
        alters::<s::SucceedJob, s::Job, s::JobKey>(
            "succeed_job",
            "Ends a job with an image. The first end of a job is final.",
        )
    });
    let r = change(r, Method::POST, "/models/figureforge/jobs/{job_id}/fail", "job.failed", || {
        alters::<s::FailJob, s::Job, s::JobKey>("fail_job", "Ends a job without an image.")
    });
    let r = change(r, Method::POST, "/models/figureforge/jobs/{job_id}/cancel", "job.cancelled", || {
        marks::<s::Job, s::JobKey>("cancel_job", "Cancels a job.")
    });
    change(r, Method::POST, "/models/figureforge/jobs/{job_id}/restore", "job.restored", || {
        marks::<s::Job, s::JobKey>("restore_job", "Restores a deleted job.")
    })
}

fn images<E: Engine, G: Gateway, R: Routes<Shared<E, G>>>(r: R) -> R {
    let r = one(r, "/models/figureforge/images/{image_id}", One::Image, || {
        gives::<s::Image>("get_image", "An image.")
    });
    let r = create(r, "/models/figureforge/images/{image_id}", "image.saved", || {
        saves::<s::SaveImage, s::Image>(
            "save_image",
            "Saves an image. Tags, favorites and flag stay as they are unless given; a purged image does not \
                come back.",
        )
    });
    let r = change(r, Method::DELETE, "/models/figureforge/images/{image_id}", "image.deleted", || {
        marks::<s::Image, s::ImageKey>("delete_image", "Soft-deletes an image.")
    });
    let r =
        change(r, Method::POST, "/models/figureforge/images/{image_id}/restore", "image.restored", || {
            marks::<s::Image, s::ImageKey>("restore_image", "Restores a deleted image.")
        });
    let r = change(r, Method::POST, "/models/figureforge/images/{image_id}/purge", "image.purged", || {
        marks::<s::Image, s::ImageKey>("purge_image", "Deletes an image for good.")
    });
    let r = change(r, Method::PUT, "/models/figureforge/images/{image_id}/tags", "image.tagged", || {
        alters::<s::TagImage, s::Image, s::ImageKey>("tag_image", "Replaces the tags of an image.")
    });
    let r =
        change(r, Method::PUT, "/models/figureforge/images/{image_id}/favorites", "image.favorited", || {
            alters::<s::FavoriteImage, s::Image, s::ImageKey>(
                "favorite_image",
                "Sets how many users favorite an image.",
            )
        });
    let r = change(r, Method::PUT, "/models/figureforge/images/{image_id}/flag", "image.flagged", || {
        alters::<s::FlagImage, s::Image, s::ImageKey>(
            "flag_image",
            "Sets the moderation status of an image; it settles all earlier reports.",
        )
    });
    let r = one(r, "/models/figureforge/images/{image_id}/url", One::Url, || {
        Operation::new(
            "figureforge_sign_image_url",
            "A signed URL that reads an image for a while, public or not.",
        )
        .answer::<s::SignedUrl>(
            200,
            "The URL. Deleted, blocked and removed images have none, nor has a deployment without a signer.",
        )
        .errors(&[404, 500, 503])
    });
    let r = list(r, "/models/figureforge/tags/{tag}", List::Tag, || {
        lists::<s::TaggedImages>("list_images_by_tag", "The public images with a tag.")
    });
    let r = list(r, "/models/figureforge/reports", List::Reports, || {
        lists::<s::Reports>("list_reports", "The reports in a state, oldest first.")
            .query::<s::OfReportStatus>()
    });
    let r = list(r, "/models/figureforge/images/{image_id}/reports", List::ReportsOfImage, || {
        lists::<s::Reports>("list_image_reports", "The reports of an image.")
    });
    let r = one(r, "/models/figureforge/images/{image_id}/reports/{report_id}", One::Report, || {
        gives::<s::Report>("get_report", "A report.")
    });
    let r = create(r, "/models/figureforge/images/{image_id}/reports/{report_id}", "report.filed", || {
        saves::<s::FileReport, s::Report>("file_report", "Reports an image.")
    });
    let r = change(
        r,
        Method::DELETE,
        "/models/figureforge/images/{image_id}/reports/{report_id}",
        "report.deleted",
        || marks::<s::Report, s::ReportKey>("delete_report", "Soft-deletes a report."),
    );
    let r = change(
        r,
        Method::POST,
        "/models/figureforge/images/{image_id}/reports/{report_id}/review",
        "report.reviewed",
        || marks::<s::Report, s::ReportKey>("review_report", "Starts the review of a report."),
    );
    let r = change(
        r,
        Method::POST,
        "/models/figureforge/images/{image_id}/reports/{report_id}/dismiss",
        "report.dismissed",
        || marks::<s::Report, s::ReportKey>("dismiss_report", "Dismisses a report."),
    );
    let r = change(
        r,
        Method::POST,
        "/models/figureforge/images/{image_id}/reports/{report_id}/uphold",
        "report.upheld",
        || {
            marks::<s::Report, s::ReportKey>(
                "uphold_report",
                "Upholds a report and removes the image. Final.",
            )
        },
    );
    change(
        r,
        Method::POST,
        "/models/figureforge/images/{image_id}/reports/{report_id}/restore",
        "report.restored",
        || marks::<s::Report, s::ReportKey>("restore_report", "Restores a deleted report."),
    )
}

fn one<E: Engine, G: Gateway, R: Routes<Shared<E, G>>>(
    routes: R,
    path: &'static str,
    one: One,
    describe: impl FnOnce() -> Operation,
) -> R {
    let handler = move |State(api): State<Shared<E, G>>, ids: Ids| async move {
        handlers::find(api.store(), api.read_models.figureforge(), one, &ids).await
    };
    routes.route(Method::GET, path, handler, describe)
}

fn list<E: Engine, G: Gateway, R: Routes<Shared<E, G>>>(
    routes: R,
    path: &'static str,
    list: List,
    describe: impl FnOnce() -> Operation,
) -> R {
    let handler = move |State(api): State<Shared<E, G>>, ids: Ids, parameters: Parameters| async move {
        handlers::page_of(api.store(), list, &ids, &parameters).await
    };
    routes.route(Method::GET, path, handler, describe)
}

/// Routes a command that may create its row.
fn create<E: Engine, G: Gateway, R: Routes<Shared<E, G>>>(
    routes: R,
    path: &'static str,
    kind: &'static str,
    describe: impl FnOnce() -> Operation,
) -> R {
    command(routes, Method::PUT, path, Command { kind, creates: true }, describe)
}

/// Routes a command on an existing row.
fn change<E: Engine, G: Gateway, R: Routes<Shared<E, G>>>(
    routes: R,
    method: Method,
    path: &'static str,
    kind: &'static str,
    describe: impl FnOnce() -> Operation,
) -> R {
    command(routes, method, path, Command { kind, creates: false }, describe)
}

fn command<E: Engine, G: Gateway, R: Routes<Shared<E, G>>>(
    routes: R,
    method: Method,
    path: &'static str,
    command: Command,
    describe: impl FnOnce() -> Operation,
) -> R {
    let handler = move |State(api): State<Shared<E, G>>, ids: Ids, Body(fields): Body<Fields>| async move {
        handlers::run(api.store(), command, &ids, fields).await
    };
    routes.route(method, path, handler, describe)
}

/// Describes a route that returns one row, deleted or not.
fn gives<T: ToSchema>(name: &str, summary: &str) -> Operation {
    Operation::new(&format!("figureforge_{name}"), summary)
        .answer::<T>(200, "The row; deleted_at is set when it is deleted.")
        .errors(&[404, 500, 503])
}

/// Describes a route that returns a page of rows.
fn lists<T: ToSchema>(name: &str, summary: &str) -> Operation {
    Operation::new(&format!("figureforge_{name}"), summary)
        .query::<PageOf>()
        .answer::<T>(200, "A page, without deleted rows.")
        .errors(&[404, 422, 500, 503])
}

/// Describes a command that creates or saves a row.
fn saves<B: ToSchema, T: ToSchema>(name: &str, summary: &str) -> Operation {
    let answered = Operation::new(&format!("figureforge_{name}"), summary)
        .needs::<B>()
        .answer::<T>(200, "The row, changed now or before.");
    answered.errors(&[404, 409, 422, 500, 503])
}

/// Describes a command that changes a row. A purged row is returned as its key only.
fn alters<B: ToSchema, T: ToSchema, K: ToSchema>(name: &str, summary: &str) -> Operation {
    Operation::new(&format!("figureforge_{name}"), summary)
        .needs::<B>()
        .answer_either::<T, K>(200, "The row, changed now or before; only its key when it is purged.")
        .errors(&[404, 409, 422, 500, 503])
}

/// Describes a command without further fields that changes a row.
fn marks<T: ToSchema, K: ToSchema>(name: &str, summary: &str) -> Operation {
    alters::<s::Event, T, K>(name, summary)
}
