//! Routes of the read model `serenya`. A command is applied once under its `event_id`; `occurred_at`
//! defaults to now. A user named `find` is shadowed by the route of that name.

mod handlers;
mod schema;

use axum::extract::State;
use axum::http::Method;
use dues_store::Engine;
use utoipa::ToSchema;

use super::Shared;
use super::document::Operation;
use super::extract::{Body, Ids};
use super::routes::Routes;
use super::schema::{ErrorBody, FreeForm};
use crate::collections::gateway::Gateway;
use crate::runtime::json_fields::Fields;
use handlers::{Event, Nesting};
use schema as s;

/// Declares the routes.
pub(super) fn declare<E: Engine, G: Gateway, R: Routes<Shared<E, G>>>(routes: R) -> R {
    let about = "Profiles with sessions and consents, payments, limits, documents and configuration (read \
        model serenya).";
    documents(money(accounts(settings(routes.tag("serenya", about)))))
}

fn settings<E: Engine, G: Gateway, R: Routes<Shared<E, G>>>(routes: R) -> R {
    routes
        .route(Method::GET, "/models/serenya/subscription-tiers", handlers::tiers, || {
            Operation::new("serenya_list_tiers", "What each tier allows and costs.")
                .answer::<s::Tiers>(200, "The tiers, by name.")
                .errors(&[500, 503])
        })
        .route(Method::POST, "/models/serenya/chat-options", handlers::chat_options, || {
            Operation::new(
                "serenya_list_chat_options",
                "Questions about a document, and about each metric of a result.",
            )
            .body::<s::ChatOptions>()
            .answer::<FreeForm>(200, "The options of the deployment.")
            .errors(&[422, 500, 503])
        })
        .route(Method::GET, "/models/serenya/config/{config_key}", handlers::config, || {
            Operation::new("serenya_get_config", "A configuration.")
                .query::<s::Version>()
                .answer::<s::Config>(200, "The configuration.")
                .errors(&[404, 422, 500, 503])
        })
        .route(Method::POST, "/models/serenya/config/{config_key}", handlers::save_config, || {
            Operation::new("serenya_save_config", "Saves a version of a configuration.")
                .needs::<s::SaveConfig>()
                .answer::<s::SavedConfig>(200, "Saved, now or before.")
                .errors(&[404, 409, 422, 500, 503])
        })
}

fn accounts<E: Engine, G: Gateway, R: Routes<Shared<E, G>>>(routes: R) -> R {
    let r = routes
        .route(Method::POST, "/models/serenya/users", handlers::create, || {
            Operation::new(
                "serenya_create_user",
                "Creates a user; without an id it is derived from the sign-in.",
            )
            .needs::<s::CreateUser>()
            .answer::<s::Profile>(201, "Created.")
            .answer::<s::Profile>(200, "Created before by the same request.")
            .errors(&[409, 422, 500, 503])
        })
        .route(Method::POST, "/models/serenya/users/find", handlers::find, || {
            Operation::new(
                "serenya_find_user",
                "Finds a user by email, or by the id of an identity provider.",
            )
            .needs_either::<s::FindByEmail, s::FindByExternalId>()
            .answer::<s::Profile>(200, "The user.")
            .errors(&[404, 422, 500, 503])
        })
        .route(Method::GET, "/models/serenya/users/{user_id}", handlers::profile, || {
            Operation::new("serenya_get_user", "A user's profile, with everything embedded.")
                .answer::<s::Profile>(200, "The profile.")
                .errors(&[404, 500, 503])
        });
    let r = event(r, "/models/serenya/users/{user_id}", "user.updated", || {
        changes::<s::UpdateUser>("serenya_update_user", "Changes a user.")
    });
    let r = event(r, "/models/serenya/users/{user_id}/close", "account.closed", || {
        changes::<s::Command>("serenya_close_account", "Closes an account.")
    });
    let r = event(r, "/models/serenya/users/{user_id}/consents", "consent.given", || {
        changes::<s::GiveConsents>(
            "serenya_give_consents",
            "Gives or withdraws consents; those that are not given stay as they are.",
        )
    });
    let r = event(r, "/models/serenya/users/{user_id}/device", "device.seen", || {
        changes::<s::SeeDevice>("serenya_see_device", "Records the current device.")
    });
    let r = event(r, "/models/serenya/users/{user_id}/session", "session.started", || {
        changes::<s::StartSession>(
            "serenya_start_session",
            "Starts a session, for a day unless given. Tokens are rejected: send their hashes.",
        )
    });
    let r = event(r, "/models/serenya/users/{user_id}/session/access", "session.accessed", || {
        changes::<s::SessionCommand>("serenya_access_session", "Records the use of a session.")
    });
    let r = event(r, "/models/serenya/users/{user_id}/session/end", "session.ended", || {
        changes::<s::SessionCommand>("serenya_end_session", "Ends a session.")
    });
    let r = event(r, "/models/serenya/users/{user_id}/biometric", "biometric.registered", || {
        changes::<s::RegisterBiometric>("serenya_register_biometric", "Registers a biometric.")
    });
    let r = event(r, "/models/serenya/users/{user_id}/biometric/verified", "biometric.verified", || {
        changes::<s::Command>("serenya_verify_biometric", "Records a successful verification.")
    });
    event(r, "/models/serenya/users/{user_id}/biometric/failed", "biometric.failed", || {
        changes::<s::FailBiometric>("serenya_fail_biometric", "Records a failed verification.")
    })
}

fn money<E: Engine, G: Gateway, R: Routes<Shared<E, G>>>(routes: R) -> R {
    let r = routes
        .route(Method::GET, "/models/serenya/users/{user_id}/subscription", handlers::subscription, || {
            Operation::new("serenya_get_subscription", "A user's subscription, with its usage.")
                .answer::<s::Subscription>(200, "The current one.")
                .errors(&[404, 500, 503])
        })
        .route(Method::GET, "/models/serenya/users/{user_id}/payments", handlers::payments, || {
            Operation::new("serenya_list_payments", "A user's payments, latest first.")
                .query::<s::PaymentLimit>()
                .answer::<s::Payments>(200, "The payments.")
                .errors(&[404, 422, 500, 503])
        })
        .route(Method::GET, "/models/serenya/users/{user_id}/usage", handlers::check_usage, || {
            Operation::new("serenya_check_usage", "Whether a user may use a feature now.")
                .query::<s::Feature>()
                .answer::<s::Usage>(200, "Whether, and the usage where there is a limit.")
                .errors(&[404, 422, 500, 503])
        })
        .route(Method::POST, "/models/serenya/users/{user_id}/usage", handlers::count_usage, || {
            Operation::new(
                "serenya_count_document",
                "Counts a document if one more is allowed; once for each event_id.",
            )
            .needs::<s::Command>()
            .answer::<s::Counted>(200, "Counted, now or before.")
            .answer_either::<s::LimitReached, ErrorBody>(
                429,
                "The period's limit is reached, or the server is too busy.",
            )
            .errors(&[404, 409, 422, 500, 503])
        });
    let r = nested(
        r,
        "/models/serenya/users/{user_id}/subscription",
        "subscription.updated",
        Nesting::Subscription,
        || {
            changes::<s::UpdateSubscription>(
                "serenya_update_subscription",
                "Sets the subscription, as an application reports it.",
            )
        },
    );
    let r =
        nested(r, "/models/serenya/users/{user_id}/payments", "payment.recorded", Nesting::Payment, || {
            changes::<s::RecordPayment>(
                "serenya_record_payment",
                "Records a payment of a store, or by hand. Only the SHA-256 of the receipt is stored.",
            )
        });
    event(r, "/models/serenya/users/{user_id}/payments/{payment_id}/refunds", "payment.refunded", || {
        changes::<s::RecordRefund>(
            "serenya_record_refund",
            "Records a refund; all of the payment unless an amount is given.",
        )
    })
}

fn documents<E: Engine, G: Gateway, R: Routes<Shared<E, G>>>(routes: R) -> R {
    let r = routes
        .route(Method::GET, "/models/serenya/users/{user_id}/jobs", handlers::jobs, || {
            Operation::new("serenya_list_jobs", "The processing of a user's documents, latest upload first.")
                .query::<s::JobLimit>()
                .answer::<s::Jobs>(200, "The jobs.")
                .errors(&[404, 422, 500, 503])
        })
        .route(Method::GET, "/models/serenya/users/{user_id}/jobs/{file_name}", handlers::job, || {
            Operation::new(
                "serenya_get_job",
                "The processing of a document. A slash in its name is written %2F.",
            )
            .answer::<s::Job>(200, "The job.")
            .answer_either::<s::MissingJob, ErrorBody>(404, "No such document.")
            .errors(&[500, 503])
        });
    event(r, "/models/serenya/users/{user_id}/jobs/{file_name}/failed", "document.failed", || {
        changes::<s::FailJob>("serenya_fail_job", "Marks a document as failed.")
    })
}

/// Routes a command with its fields at the top level of the event.
fn event<E: Engine, G: Gateway, R: Routes<Shared<E, G>>>(
    routes: R,
    path: &'static str,
    kind: &'static str,
    describe: impl FnOnce() -> Operation,
) -> R {
    nested(routes, path, kind, Nesting::None, describe)
}

/// Routes a command with its fields nested in an object of the event.
fn nested<E: Engine, G: Gateway, R: Routes<Shared<E, G>>>(
    routes: R,
    path: &'static str,
    kind: &'static str,
    nesting: Nesting,
    describe: impl FnOnce() -> Operation,
) -> R {
    let handler = move |State(api): State<Shared<E, G>>, ids: Ids, Body(fields): Body<Fields>| async move {
        handlers::apply(api.store(), Event { kind, nesting }, &ids, fields).await
    };
    routes.route(Method::POST, path, handler, describe)
}

/// Describes a command that changes a user.
fn changes<B: ToSchema>(name: &str, summary: &str) -> Operation {
    Operation::new(name, summary)
        .needs::<B>()
        .answer::<s::Changed>(200, "Applied, now or before, and the user as of then.")
        .errors(&[404, 409, 422, 500, 503])
}
