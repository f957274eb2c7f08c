//! How the commands on billing records are described.

use serde_json::{Value, json};

use super::{Operation, Part, shape};
use crate::api::path::{CommandRoute, Route, VERBS, Verb};
use crate::api::records::{ABOUT_BILLING, BILLING};

/// What every command may be refused with.
const REFUSALS: [u16; 5] = [404, 409, 422, 500, 503];

/// The paths of the commands.
pub(in crate::api) fn openapi() -> Part {
    let flag = || json!({"type": ["boolean", "null"]});
    let body = |properties: Value| json!({"type": "object", "properties": properties});
    let described = |verb: Verb| match verb {
        Verb::Pay => Operation::new("pay_subscription", "Collects a billing record now.")
            .body(body(json!({"new_account": flag()})))
            .answer(202, "A debit is under way, or its answer is not known yet.", shape("Outcome"))
            .errors(&[402, 403]),
        Verb::Waive => Operation::new("waive_subscription", "Forgives a billing record's period.").body(body(json!({}))),
        Verb::Cancel => Operation::new("cancel_subscription", "Ends a membership: when what was paid for ends, or at once.")
            .body(body(json!({"now": flag()}))),
        Verb::Pause => {
            let mut asked = body(json!({"pause_duration_months": {"type": "integer", "minimum": 1, "maximum": 12}}));
            asked["required"] = json!(["pause_duration_months"]);
            Operation::new("pause_subscription", "Lets billing rest.").needs(asked)
        }
        Verb::Resume => Operation::new("resume_subscription", "Lets billing go on.").body(body(json!({}))),
    };
    let mut part = Part::new(BILLING, ABOUT_BILLING).shape(
        "Outcome",
        json!({"allOf": [shape("Record"), {"type": "object", "required": ["outcome"], "properties": {"outcome": {"type": "string"}}}]}),
    );
    for verb in VERBS {
        let route = Route::Command(CommandRoute { user: "u".into(), id: "s".into(), verb });
        let operation = described(verb).answer(200, "The record as it is now.", shape("Outcome")).errors(&REFUSALS);
        part = part.with("POST", route.template(), operation);
    }
    part
}
