//! The paths of users, and of what signs them in.

use serde_json::json;

use super::{Asked, At, Tell, tells};
use crate::api::openapi::{Operation, flag, id, object, object_with, or_null, shape, text, text_or_null, time};
use crate::api::places::Place;

pub(super) const USERS: &[Place<Asked>] = &[
    Place::post("/models/serenya/users", Asked::Create, || {
        let required = json!({"email": email(), "name": text(), "auth_provider": provider(), "external_id": id()});
        let optional = json!({"id": or_null(id()), "event_id": or_null(id())});
        Operation::new("serenya_create_user", "Makes a user; without an id it is the one that the sign-in stands for.")
            .needs(object_with(required, optional))
            .answer(201, "There is one now.", shape("SerenyaProfile"))
            .answer(200, "The same request has made this one before.", shape("SerenyaProfile"))
            .errors(&[409, 422])
    }),
    Place::post("/models/serenya/users/find", Asked::Find, || {
        let ways = json!([object(json!({"email": id()})), object(json!({"auth_provider": id(), "external_id": id()}))]);
        Operation::new("serenya_find_user", "Finds a user by email, or by what a provider calls them.")
            .needs(json!({"anyOf": ways}))
            .answer(200, "The user.", shape("SerenyaProfile"))
            .errors(&[404, 422])
    }),
    Place::get("/models/serenya/users/{user_id}", Asked::Profile, || {
        Operation::new("serenya_get_user", "A user's profile, with everything embedded.").answer(
            200,
            "The profile.",
            shape("SerenyaProfile"),
        )
    }),
    Place::post("/models/serenya/users/{user_id}", tell("user.updated"), || {
        let optional = json!({"email": or_null(email()), "name": text_or_null(), "account_status": or_null(id())});
        tells("serenya_update_user", "Changes what of a user may change.", json!({}), optional)
    }),
    Place::post("/models/serenya/users/{user_id}/close", tell("account.closed"), || {
        tells("serenya_close_account", "Closes an account.", json!({}), json!({}))
    }),
    Place::post("/models/serenya/users/{user_id}/consents", tell("consent.given"), || {
        let maybe = || or_null(flag());
        let optional = json!({
            "medical_disclaimers": maybe(), "terms_of_service": maybe(), "privacy_policy": maybe(), "consent_version": text_or_null(),
            "ip_address": text_or_null(), "user_agent": text_or_null(),
        });
        tells("serenya_give_consents", "Consents, or no more; what is not said stays as it was.", json!({}), optional)
    }),
    Place::post("/models/serenya/users/{user_id}/device", tell("device.seen"), || {
        let names = ["device_name", "platform", "platform_version", "app_version", "biometric_type", "device_fingerprint", "timezone"];
        let optional = names.into_iter().map(|name| (name.to_owned(), text_or_null())).collect::<serde_json::Map<_, _>>();
        tells("serenya_see_device", "A device was seen.", json!({"device_id": id()}), optional.into())
    }),
];

pub(super) const SIGNED_IN: &[Place<Asked>] = &[
    Place::post("/models/serenya/users/{user_id}/session", tell("session.started"), || {
        let optional = json!({
            "access_token_hash": text_or_null(), "refresh_token_hash": text_or_null(), "issued_at": or_null(time()),
            "expires_at": or_null(time()), "biometric_expires_at": or_null(time()), "user_agent": text_or_null(), "source_ip": text_or_null(),
        });
        let summary = "Somebody has signed in, for a day unless it is said. Tokens are refused: only their hashes may be told.";
        tells("serenya_start_session", summary, json!({"session_id": id()}), optional)
    }),
    Place::post("/models/serenya/users/{user_id}/session/access", tell("session.accessed"), || {
        tells("serenya_access_session", "A session was used.", json!({"session_id": id()}), json!({}))
    }),
    Place::post("/models/serenya/users/{user_id}/session/end", tell("session.ended"), || {
        tells("serenya_end_session", "A session is over.", json!({"session_id": id()}), json!({}))
    }),
    Place::post("/models/serenya/users/{user_id}/biometric", tell("biometric.registered"), || {
        let optional = json!({
            "verification_level": text_or_null(), "challenge_data": or_null(json!({"type": "string", "maxLength": 4096})),
            "challenge_expires_at": or_null(time()),
        });
        let required = json!({"registration_id": id(), "biometric_type": text()});
        tells("serenya_register_biometric", "A face or a finger was registered.", required, optional)
    }),
    Place::post("/models/serenya/users/{user_id}/biometric/verified", tell("biometric.verified"), || {
        tells("serenya_verify_biometric", "It was recognized.", json!({}), json!({}))
    }),
    Place::post("/models/serenya/users/{user_id}/biometric/failed", tell("biometric.failed"), || {
        tells("serenya_fail_biometric", "It was not recognized.", json!({}), json!({"locked_until": or_null(time())}))
    }),
];

const fn tell(kind: &'static str) -> Asked {
    Asked::Tell(Tell { kind, fields: At::Top })
}

fn email() -> serde_json::Value {
    json!({"type": "string", "minLength": 3, "maxLength": 256, "pattern": "^[^@\\s]+@[^@\\s]+$"})
}

fn provider() -> serde_json::Value {
    json!({"type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[^#]+$"})
}
