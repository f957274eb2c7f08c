//! What each function may do: the calls that it makes, and nothing else. The roles of the template are tested against this, and this against the calls
//! that the functions really make (`tests/tests/permissions.rs`).

use dues_store::table::{BILLING_ACTIVITY, BY_STATUS, BY_SUBSCRIPTION, ENTITLEMENTS, GG_CORE, HISTORY, Index, LOCKS, PARKED, Table};

use crate::function::Function;

/// What a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// A table.
    Table(&'static Table),
    /// One of its indexes.
    Index(&'static Table, &'static Index),
    /// The queue between job and workers.
    Queue,
    /// The stream that Stripe's events lie in.
    Inbox,
    /// The bus.
    Bus,
    /// The user pool.
    Pool,
    /// What Stripe signs with.
    StripeSecret,
    /// The token of the payments service.
    GatewaySecret,
}

/// Calls on one resource, as IAM names them. What DynamoDB does in a transaction goes by the names of its parts.
pub type Permission = (Resource, &'static [&'static str]);

const GET: &str = "dynamodb:GetItem";
const QUERY: &str = "dynamodb:Query";
const PUT: &str = "dynamodb:PutItem";
const UPDATE: &str = "dynamodb:UpdateItem";
const DELETE: &str = "dynamodb:DeleteItem";
const CHECK: &str = "dynamodb:ConditionCheckItem";

const BY_ID: Resource = Resource::Index(&BILLING_ACTIVITY, &BY_SUBSCRIPTION);
const BY_STATE: Resource = Resource::Index(&BILLING_ACTIVITY, &BY_STATUS);

/// The commit protocol: the user's records, history first, and what cannot happen is parked.
const COMMITTING: [Permission; 3] = [
    (Resource::Table(&BILLING_ACTIVITY), &[QUERY, GET, PUT, DELETE]),
    (Resource::Table(&HISTORY), &[PUT, DELETE]),
    (Resource::Table(&PARKED), &[PUT]),
];

/// The collections engine: also what a crash has left in history, the user's lock, and the payments service's token.
const COLLECTING: [Permission; 5] = [
    (Resource::Table(&BILLING_ACTIVITY), &[QUERY, GET, PUT, DELETE]),
    (Resource::Table(&HISTORY), &[QUERY, PUT, DELETE]),
    (Resource::Table(&LOCKS), &[GET, PUT, UPDATE]),
    (Resource::Table(&PARKED), &[PUT]),
    (Resource::GatewaySecret, &["secretsmanager:GetSecretValue"]),
];

/// The calls of a function.
#[must_use]
pub fn permissions(function: Function) -> Vec<Permission> {
    match function {
        Function::AchHandler => [&COMMITTING[..], &[(BY_ID, &[QUERY])]].concat(),
        Function::Memberships => COMMITTING.to_vec(),
        Function::Stripe => vec![(Resource::Inbox, &["kinesis:PutRecord"]), (Resource::StripeSecret, &["secretsmanager:GetSecretValue"])],
        Function::StripeWorker => vec![
            (Resource::Table(&ENTITLEMENTS), &[QUERY, GET, PUT, UPDATE, DELETE]),
            (Resource::Table(&GG_CORE), &[GET, PUT, UPDATE, DELETE, CHECK]),
            (Resource::Table(&PARKED), &[GET, PUT, DELETE]),
        ],
        Function::Projector => vec![
            (Resource::Table(&ENTITLEMENTS), &[QUERY, GET, PUT, UPDATE, DELETE]),
            (Resource::Table(&GG_CORE), &[GET, PUT, UPDATE, DELETE, CHECK]),
            (Resource::Table(&PARKED), &[GET, PUT, DELETE]),
            (
                Resource::Pool,
                &["cognito-idp:AdminListGroupsForUser", "cognito-idp:AdminAddUserToGroup", "cognito-idp:AdminRemoveUserFromGroup"],
            ),
        ],
        Function::CollectionsJob => vec![(BY_STATE, &[QUERY]), (Resource::Queue, &["sqs:SendMessage"])],
        Function::CollectionsWorker | Function::WebhookWorker | Function::WebhookBalanceWorker | Function::BatchWorker => {
            COLLECTING.to_vec()
        }
        Function::NotifierScheduler => vec![
            (BY_STATE, &[QUERY]),
            (Resource::Table(&BILLING_ACTIVITY), &[QUERY, GET, PUT, DELETE]),
            (Resource::Table(&HISTORY), &[PUT, DELETE]),
            (Resource::Table(&LOCKS), &[GET, PUT, UPDATE]),
            (Resource::Bus, &["events:PutEvents"]),
        ],
        Function::Api => {
            let entitlements: [Permission; 3] = [
                (BY_ID, &[QUERY]),
                (Resource::Table(&ENTITLEMENTS), &[QUERY, GET, PUT, UPDATE]),
                (Resource::Table(&GG_CORE), &[QUERY, GET, PUT, UPDATE]),
            ];
            [&COLLECTING[..], &entitlements].concat()
        }
    }
}
