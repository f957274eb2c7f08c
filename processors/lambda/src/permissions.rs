//! The permissions of each function: the calls that it makes, and nothing else. Tests check the roles of the
//! template against this list, and this list against the calls that the functions really make
//! (`tests/tests/permissions.rs`).

use dues_processors::aws::triggers::sqs::COLLECTIONS;
use dues_processors::billing::{ach_handler, memberships};
use dues_processors::collections::batch_worker;
use dues_processors::entitlements::stripe_worker;
use dues_processors::read_models::app_events;
use dues_store::table::figureforge::{
    BY_EMAIL, BY_STRIPE_SUB, FIGUREFORGE, IMAGES_BY_USER, JOBS_BY_STATUS, PLANS_BY_ACTIVE, REPORTS_BY_STATUS,
};
use dues_store::table::serenya::{BY_EMAIL_HASH, BY_EXTERNAL_ID, SERENYA};
use dues_store::table::usage::{
    ACTIONS_LOG, BY_ACTION_TYPE, BY_FEATURE_AND_DATE, BY_RESET_DATE, USER_SUBSCRIPTIONS, USER_USAGE,
};
use dues_store::table::{
    ALL, BILLING_ACTIVITY, BY_MONEY_STATUS, BY_STATUS, BY_SUBSCRIPTION, BY_TIMER, ENTITLEMENTS, GG_CORE,
    HISTORY, Index, JOURNAL, LOCKS, PARKED, Table, UNAPPLIED_MONEY,
};

use crate::function::Function;

/// The resource of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// A table.
    Table(&'static Table),
    /// An index of a table.
    Index(&'static Table, &'static Index),
    /// The queue between job and workers.
    Queue,
    /// The inbox: the stream of Stripe events.
    Inbox,
    /// The stream `subscriptions`, on which changes are published.
    Subscriptions,
    /// The event bus.
    Bus,
    /// The user pool.
    Pool,
    /// Stripe's signing secret.
    StripeSecret,
    /// The token of the payments service.
    GatewaySecret,
}

impl Resource {
    /// Its name; an index follows the name of its table.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Table(table) => table.name.to_owned(),
            Self::Index(table, index) => format!("{}/{}", table.name, index.name),
            Self::Queue => "the queue".to_owned(),
            Self::Inbox => "the inbox".to_owned(),
            Self::Subscriptions => "the stream subscriptions".to_owned(),
            Self::Bus => "the bus".to_owned(),
            Self::Pool => "the pool".to_owned(),
            Self::StripeSecret => "Stripe's secret".to_owned(),
            Self::GatewaySecret => "the gateway's secret".to_owned(),
        }
    }
}

/// Calls on one resource, by their IAM names. A DynamoDB transaction needs the permissions of its parts.
pub type Permission = (Resource, &'static [&'static str]);

const GET: &str = "dynamodb:GetItem";
const QUERY: &str = "dynamodb:Query";
const SCAN: &str = "dynamodb:Scan";
const PUT: &str = "dynamodb:PutItem";
const UPDATE: &str = "dynamodb:UpdateItem";
const DELETE: &str = "dynamodb:DeleteItem";
const CHECK: &str = "dynamodb:ConditionCheckItem";

const BY_ID: Resource = Resource::Index(&BILLING_ACTIVITY, &BY_SUBSCRIPTION);
const BY_STATE: Resource = Resource::Index(&BILLING_ACTIVITY, &BY_STATUS);

/// The commit protocol: reads the user's records, writes history first, parks what cannot apply.
const COMMITTING: [Permission; 3] = [
    (Resource::Table(&BILLING_ACTIVITY), &[QUERY, GET, PUT, DELETE]),
    (Resource::Table(&HISTORY), &[PUT, DELETE]),
    PARKING,
];

/// The collections engine: also reads history for commits that a crash left, takes the user's lock, and
/// reads the payments service's token.
const COLLECTING: [Permission; 4] = [
    (Resource::Table(&BILLING_ACTIVITY), &[QUERY, GET, PUT, DELETE]),
    (Resource::Table(&HISTORY), &[QUERY, PUT, DELETE]),
    (Resource::Table(&LOCKS), &[GET, PUT, UPDATE]),
    (Resource::GatewaySecret, &["secretsmanager:GetSecretValue"]),
];
/// Every commit lists the record's unapplied money, if it has any.
const LISTING_MONEY: Permission = (Resource::Table(&UNAPPLIED_MONEY), &[PUT]);
const PARKING: Permission = (Resource::Table(&PARKED), &[PUT]);
/// Read models record facts in the journal, together with the rows that follow from them.
const BOOKING: Permission = (Resource::Table(&JOURNAL), &[GET, PUT]);

/// The RETRY run plans with a member's incomes.
const READING_INCOMES: Permission = (Resource::Table(&JOURNAL), &[GET]);
/// An income signal is remembered.
const REMEMBERING_INCOMES: Permission = (Resource::Table(&JOURNAL), &[GET, PUT]);

/// What the API needs for entitlements, and for records that are not among a user's recent ones.
const ENTITLING: [Permission; 3] = [
    (BY_ID, &[QUERY]),
    (Resource::Table(&ENTITLEMENTS), &[QUERY, GET, PUT]),
    (Resource::Table(&GG_CORE), &[QUERY, GET, PUT, UPDATE]),
];

/// What the API needs to explain records: their history, and a member's parked records.
const EXPLAINING: [Permission; 2] =
    [(Resource::Index(&HISTORY, &BY_SUBSCRIPTION), &[QUERY]), (Resource::Table(&PARKED), &[SCAN])];

/// What the API needs to query the read models and to record facts in them.
const READ_MODELS: [Permission; 16] = [
    (Resource::Table(&JOURNAL), &[QUERY, GET, PUT]),
    (Resource::Table(&USER_SUBSCRIPTIONS), &[QUERY]),
    (Resource::Table(&USER_USAGE), &[QUERY, PUT, UPDATE]),
    (Resource::Index(&USER_USAGE, &BY_FEATURE_AND_DATE), &[QUERY]),
    (Resource::Table(&ACTIONS_LOG), &[QUERY]),
    (Resource::Index(&ACTIONS_LOG, &BY_ACTION_TYPE), &[QUERY]),
    (Resource::Table(&FIGUREFORGE), &[QUERY, GET, PUT, DELETE]),
    (Resource::Index(&FIGUREFORGE, &BY_EMAIL), &[QUERY]),
    (Resource::Index(&FIGUREFORGE, &BY_STRIPE_SUB), &[QUERY]),
    (Resource::Index(&FIGUREFORGE, &JOBS_BY_STATUS), &[QUERY]),
    (Resource::Index(&FIGUREFORGE, &IMAGES_BY_USER), &[QUERY]),
    (Resource::Index(&FIGUREFORGE, &REPORTS_BY_STATUS), &[QUERY]),
    (Resource::Index(&FIGUREFORGE, &PLANS_BY_ACTIVE), &[QUERY]),
    (Resource::Table(&SERENYA), &[QUERY, GET, PUT, DELETE]),
    (Resource::Index(&SERENYA, &BY_EMAIL_HASH), &[QUERY]),
    (Resource::Index(&SERENYA, &BY_EXTERNAL_ID), &[QUERY]),
];

/// The permissions of a function.
#[must_use]
pub fn permissions(function: Function) -> Vec<Permission> {
    match function {
        // Money without a record has a row that collects the bank's reports.
        Function::AchHandler => {
            with(&COMMITTING, &[(BY_ID, &[QUERY]), (Resource::Table(&UNAPPLIED_MONEY), &[GET, PUT])])
        }
        Function::Memberships => with(&COMMITTING, &[LISTING_MONEY]),
        Function::StripeWebhook => vec![
            (Resource::Inbox, &["kinesis:PutRecord"]),
            (Resource::StripeSecret, &["secretsmanager:GetSecretValue"]),
        ],
        Function::StripeWorker => vec![
            (Resource::Table(&ENTITLEMENTS), &[QUERY, GET, PUT, UPDATE, DELETE]),
            (Resource::Table(&GG_CORE), &[GET, PUT, UPDATE, DELETE]),
            (Resource::Table(&PARKED), &[GET, PUT, DELETE]),
        ],
        Function::Projector => vec![
            (Resource::Table(&ENTITLEMENTS), &[GET, PUT]),
            (Resource::Table(&GG_CORE), &[GET, PUT, UPDATE]),
            (Resource::Table(&PARKED), &[PUT, DELETE]),
            BOOKING,
            (Resource::Table(&USER_SUBSCRIPTIONS), &[PUT]),
            (Resource::Table(&ACTIONS_LOG), &[PUT]),
            (Resource::Table(&FIGUREFORGE), &[GET, PUT, DELETE, CHECK]),
            (Resource::Table(&SERENYA), &[PUT, DELETE]),
            (
                Resource::Pool,
                &[
                    "cognito-idp:AdminListGroupsForUser",
                    "cognito-idp:AdminAddUserToGroup",
                    "cognito-idp:AdminRemoveUserFromGroup",
                ],
            ),
        ],
        Function::CollectionsJob => vec![(BY_STATE, &[QUERY]), (Resource::Queue, &["sqs:SendMessage"])],
        Function::CollectionsWorker => with(&COLLECTING, &[PARKING, LISTING_MONEY, READING_INCOMES]),
        Function::WebhookWorker => with(&COLLECTING, &[PARKING, LISTING_MONEY, REMEMBERING_INCOMES]),
        Function::WebhookBalanceWorker => with(&COLLECTING, &[PARKING, LISTING_MONEY]),
        Function::BatchWorker => with(&COLLECTING, &[PARKING, LISTING_MONEY, (BY_ID, &[QUERY])]),
        Function::NotifierScheduler => vec![
            (BY_STATE, &[QUERY]),
            (Resource::Table(&BILLING_ACTIVITY), &[QUERY, GET, PUT, DELETE]),
            (Resource::Table(&HISTORY), &[PUT, DELETE]),
            (Resource::Table(&LOCKS), &[GET, PUT, UPDATE]),
            LISTING_MONEY,
            (Resource::Bus, &["events:PutEvents"]),
        ],
        Function::Sweep => vec![
            (Resource::Table(&HISTORY), &[SCAN, QUERY, PUT, DELETE]),
            (Resource::Table(&BILLING_ACTIVITY), &[QUERY, GET, PUT, DELETE]),
            (BY_ID, &[QUERY]),
            LISTING_MONEY,
            (Resource::Index(&UNAPPLIED_MONEY, &BY_MONEY_STATUS), &[QUERY]),
        ],
        // Billing history is for heads of an earlier version, which are rebuilt once.
        Function::EntitlementClock => vec![
            (Resource::Index(&ENTITLEMENTS, &BY_TIMER), &[QUERY]),
            (Resource::Table(&ENTITLEMENTS), &[SCAN, QUERY, GET, PUT]),
            (Resource::Table(&GG_CORE), &[PUT, UPDATE]),
            (Resource::Table(&HISTORY), &[QUERY]),
            (Resource::Table(&BILLING_ACTIVITY), &[QUERY]),
        ],
        Function::KinesisFeeder => {
            vec![
                (Resource::Subscriptions, &["kinesis:PutRecords"]),
                (Resource::Bus, &["events:PutEvents"]),
                PARKING,
            ]
        }
        Function::AppEvents => {
            vec![
                BOOKING,
                (Resource::Table(&FIGUREFORGE), &[PUT, DELETE]),
                (Resource::Table(&SERENYA), &[PUT, DELETE]),
                PARKING,
            ]
        }
        Function::S3Events => vec![BOOKING, (Resource::Table(&SERENYA), &[PUT, DELETE]), PARKING],
        Function::UsageReset => vec![
            BOOKING,
            (Resource::Table(&USER_USAGE), &[DELETE]),
            (Resource::Index(&USER_USAGE, &BY_RESET_DATE), &[QUERY]),
            (Resource::Index(&USER_USAGE, &BY_FEATURE_AND_DATE), &[QUERY]),
        ],
        Function::Api => [&COLLECTING[..], &[LISTING_MONEY], &ENTITLING, &EXPLAINING, &READ_MODELS].concat(),
    }
}

/// What triggers a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A Kinesis stream, by its name.
    Stream(&'static str),
    /// The changes of a table.
    Changes(&'static Table),
    /// A queue, by its name.
    Queue(&'static str),
    /// Events or a schedule: Lambda queues and retries them, and forwards what finally fails.
    Events,
    /// Requests: the caller waits for the response.
    Requests,
}

impl Source {
    /// The actions that Lambda itself takes on the source with the function's role.
    #[must_use]
    pub fn actions(self) -> &'static [&'static str] {
        match self {
            Self::Stream(_) => &[
                "kinesis:DescribeStream",
                "kinesis:DescribeStreamSummary",
                "kinesis:GetRecords",
                "kinesis:GetShardIterator",
                "kinesis:ListShards",
            ],
            Self::Changes(_) => &[
                "dynamodb:DescribeStream",
                "dynamodb:GetRecords",
                "dynamodb:GetShardIterator",
                "dynamodb:ListStreams",
            ],
            Self::Queue(_) => &["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"],
            Self::Events | Self::Requests => &[],
        }
    }

    /// Whether final failures go to the queue of failures; a queue has its own dead-letter queue.
    #[must_use]
    pub fn hands_on(self) -> bool {
        match self {
            Self::Stream(_) | Self::Changes(_) | Self::Events => true,
            Self::Queue(_) | Self::Requests => false,
        }
    }
}

/// The triggers of a function.
#[must_use]
pub fn sources(function: Function) -> Vec<Source> {
    match function {
        Function::AchHandler => vec![Source::Stream(ach_handler::STREAM)],
        Function::Memberships => vec![Source::Stream(memberships::STREAM)],
        Function::StripeWebhook => vec![Source::Requests, Source::Events],
        Function::StripeWorker => vec![Source::Stream(stripe_worker::STREAM)],
        Function::Projector => ALL.into_iter().filter(|table| table.stream).map(Source::Changes).collect(),
        Function::CollectionsWorker => vec![Source::Queue(COLLECTIONS)],
        Function::BatchWorker => vec![Source::Queue(batch_worker::QUEUE)],
        Function::KinesisFeeder => vec![Source::Changes(&BILLING_ACTIVITY), Source::Changes(&GG_CORE)],
        Function::AppEvents => vec![Source::Stream(app_events::STREAM)],
        Function::CollectionsJob
        | Function::NotifierScheduler
        | Function::Sweep
        | Function::EntitlementClock
        | Function::WebhookWorker
        | Function::WebhookBalanceWorker
        | Function::S3Events
        | Function::UsageReset => vec![Source::Events],
        Function::Api => vec![Source::Requests],
    }
}

fn with(usual: &[Permission], more: &[Permission]) -> Vec<Permission> {
    [usual, more].concat()
}
