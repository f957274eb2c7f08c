//! The paths of users, of what they subscribe to, and of what all of them share.

use serde_json::json;

use super::shapes::{cents, second};
use super::{FLAG, List, One, PLAN, USER, What, changes, gives, lists, makes, marks, saves};
use crate::api::openapi::{any, flag, id, or_null, text, text_or_null, words};
use crate::api::places::Place;

pub(super) const USERS: &[Place<What>] = &[
    Place::get("/models/figureforge/users", What::List(List::Users), || {
        lists("figureforge_list_users", "The users with an email, however it is capitalised.", USER.shape).asked(
            "email",
            "The email.",
            id(),
        )
    }),
    Place::get("/models/figureforge/users/{user_id}", What::One(One::User), || gives("figureforge_get_user", "A user.", USER.shape)),
    Place::put("/models/figureforge/users/{user_id}", makes("user.saved"), || {
        let optional = json!({"display_name": text_or_null(), "created_at": or_null(second())});
        saves("figureforge_save_user", "Saves a user. One who is deleted stays so.", USER, json!({"email": email()}), optional)
    }),
    Place::delete("/models/figureforge/users/{user_id}", changes("user.deleted"), || {
        marks("figureforge_delete_user", "Deletes a user; the row stays, and says when.", USER)
    }),
    Place::post("/models/figureforge/users/{user_id}/restore", changes("user.restored"), || {
        marks("figureforge_restore_user", "Brings a deleted user back.", USER)
    }),
    Place::get("/models/figureforge/users/{user_id}/images", What::List(List::ImagesOfUser), || {
        lists("figureforge_list_user_images", "A user's images, the newest first.", "FigureforgeImage")
    }),
    Place::get("/models/figureforge/users/{user_id}/jobs", What::List(List::JobsOfUser), || {
        lists("figureforge_list_user_jobs", "A user's jobs.", "FigureforgeJob")
    }),
    Place::get("/models/figureforge/users/{user_id}/subscriptions", What::List(List::SubscriptionsOfUser), || {
        lists("figureforge_list_user_subscriptions", "A user's subscriptions that Stripe has not ended.", "FigureforgeSubscription")
    }),
];

pub(super) const SUBSCRIPTIONS: &[Place<What>] =
    &[Place::get("/models/figureforge/subscriptions/{stripe_sub_id}", What::One(One::Subscription), || {
        gives("figureforge_get_subscription", "The subscription that Stripe calls so, whose ever it is.", "FigureforgeSubscription")
    })];

pub(super) const PLANS: &[Place<What>] = &[
    Place::get("/models/figureforge/plans", What::List(List::Plans), || {
        lists("figureforge_list_plans", "The plans that can be bought, or those that cannot, the oldest first.", PLAN.shape).asked(
            "active",
            "Whether they can be bought.",
            words(["true", "false"]),
        )
    }),
    Place::get("/models/figureforge/plans/{plan_id}", What::One(One::Plan), || gives("figureforge_get_plan", "A plan.", PLAN.shape)),
    Place::put("/models/figureforge/plans/{plan_id}", makes("plan.saved"), || {
        let optional = json!({
            "price_cents": or_null(cents()), "interval": text_or_null(), "stripe_price_id": text_or_null(), "created_at": or_null(second()),
        });
        saves("figureforge_save_plan", "Saves a plan.", PLAN, json!({"name": text(), "active": flag()}), optional)
    }),
    Place::delete("/models/figureforge/plans/{plan_id}", changes("plan.deleted"), || {
        marks("figureforge_delete_plan", "Deletes a plan; the row stays, and says when.", PLAN)
    }),
    Place::post("/models/figureforge/plans/{plan_id}/restore", changes("plan.restored"), || {
        marks("figureforge_restore_plan", "Brings a deleted plan back.", PLAN)
    }),
];

pub(super) const FLAGS: &[Place<What>] = &[
    Place::get("/models/figureforge/flags", What::List(List::Flags), || lists("figureforge_list_flags", "The feature flags.", FLAG.shape)),
    Place::get("/models/figureforge/flags/{flag_name}", What::One(One::Flag), || {
        gives("figureforge_get_flag", "A feature flag.", FLAG.shape)
    }),
    Place::put("/models/figureforge/flags/{flag_name}", makes("flag.set"), || {
        let optional = json!({"description": text_or_null(), "value": any(), "created_at": or_null(second())});
        saves("figureforge_set_flag", "Sets a feature flag.", FLAG, json!({"enabled": flag()}), optional)
    }),
    Place::delete("/models/figureforge/flags/{flag_name}", changes("flag.deleted"), || {
        marks("figureforge_delete_flag", "Deletes a feature flag; the row stays, and says when.", FLAG)
    }),
    Place::post("/models/figureforge/flags/{flag_name}/restore", changes("flag.restored"), || {
        marks("figureforge_restore_flag", "Brings a deleted feature flag back.", FLAG)
    }),
];

fn email() -> serde_json::Value {
    json!({"type": "string", "minLength": 3, "maxLength": 256, "pattern": "^[^@]+@[^@]+$"})
}
