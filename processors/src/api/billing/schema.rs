//! Bodies and responses of billing records. The structs only describe rows; their own codec writes them.

#![allow(dead_code, reason = "schemas of rows that the records' codec writes")]

use chrono::{DateTime, Utc};
use dues_events::billing::attempts::UnappliedReason;
use dues_events::billing::record::{INACTIVE, Status};
use dues_store::billing::money::MoneyStatus;
use serde::Serialize;
use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{IntoParams, ToSchema};

use crate::api::document::one_of;

fn statuses() -> RefOr<Schema> {
    one_of(Status::ALL.map(Status::as_str))
}

fn memberships() -> RefOr<Schema> {
    one_of(Status::ALL.map(Status::as_str).into_iter().chain([INACTIVE]))
}

fn terms() -> RefOr<Schema> {
    one_of(["MONTHLY", "YEARLY"])
}

/// Collect a billing record.
#[derive(ToSchema)]
#[schema(as = PaySubscription)]
pub(super) struct Pay {
    /// Whether the member has given a new account since the last return.
    new_account: Option<bool>,
    /// Whether the member has authorised the debit again (after R08), or its terms were corrected (R11).
    authorised: Option<bool>,
}

/// Cancel a membership.
#[derive(ToSchema)]
#[schema(as = CancelSubscription)]
pub(super) struct Cancel {
    /// Now, instead of at the end of the paid period.
    now: Option<bool>,
}

/// Pause billing.
#[derive(ToSchema)]
#[schema(as = PauseSubscription)]
pub(super) struct Pause {
    #[schema(minimum = 1, maximum = 12)]
    pause_duration_months: u32,
}

/// Move a record to another due date.
#[derive(ToSchema)]
#[schema(as = MoveSubscription)]
pub(super) struct Move {
    /// The new due date: RFC 3339, or a day.
    #[schema(schema_with = time_or_day)]
    to: String,
}

/// Refund a paid record.
#[derive(ToSchema)]
#[schema(as = RefundSubscription)]
pub(super) struct Refund {
    /// Dollars and cents; everything that is left of the payment unless given.
    #[schema(pattern = r"^[0-9]+(\.[0-9]{1,2})?$")]
    amount: Option<String>,
}

/// Apply unapplied money to a record.
#[derive(ToSchema)]
pub(super) struct ApplyMoney {
    /// An open record of the same member.
    #[schema(min_length = 1, max_length = 256)]
    subscription_id: String,
}

/// Dismiss unapplied money.
#[derive(ToSchema)]
pub(super) struct DismissMoney {
    /// Why nothing is done about it.
    #[schema(min_length = 1, max_length = 256)]
    reason: String,
}

fn money_statuses() -> RefOr<Schema> {
    one_of(MoneyStatus::ALL.map(MoneyStatus::as_str))
}

fn unapplied_reasons() -> RefOr<Schema> {
    one_of(UnappliedReason::ALL.map(UnappliedReason::as_str))
}

/// `status` of the list of unapplied money.
#[derive(IntoParams)]
pub(super) struct OfStatus {
    /// What became of it; `OPEN` unless given.
    #[param(schema_with = money_statuses, required = false)]
    status: Option<String>,
}

/// Unapplied money, oldest first.
#[derive(Serialize, ToSchema)]
pub(super) struct MoneyList {
    pub(super) money: Vec<UnappliedMoney>,
}

/// Money that arrived and pays for nothing.
#[derive(Serialize, ToSchema)]
pub(super) struct UnappliedMoney {
    /// The record and the transaction.
    pub(super) id: String,
    /// What became of it.
    #[schema(schema_with = money_statuses)]
    pub(super) status: &'static str,
    /// The member whom the payment names.
    pub(super) user_id: String,
    /// The record that the payment names.
    pub(super) subscription_id: String,
    #[schema(required)]
    pub(super) transaction_id: Option<String>,
    /// How much of it is left.
    pub(super) amount: String,
    /// ISO 4217.
    #[schema(pattern = "^[A-Z]{3}$")]
    pub(super) currency: String,
    pub(super) settled_at: DateTime<Utc>,
    /// Why it pays for nothing.
    #[schema(schema_with = unapplied_reasons)]
    pub(super) reason: &'static str,
    /// Who decided about money without a record; other decisions are in the record's history.
    #[schema(required)]
    pub(super) actor: Option<String>,
    #[schema(required)]
    pub(super) decided_at: Option<DateTime<Utc>>,
    /// What was decided, and why.
    #[schema(required)]
    pub(super) note: Option<String>,
}

/// `at` of `explain`.
#[derive(IntoParams)]
pub(super) struct At {
    /// As of that time: RFC 3339, or a day.
    #[param(schema_with = time_or_day, required = false)]
    at: Option<String>,
}

fn time_or_day() -> RefOr<Schema> {
    use utoipa::openapi::schema::{AnyOfBuilder, KnownFormat, ObjectBuilder, SchemaFormat, Type};
    let text = |format| {
        ObjectBuilder::new().schema_type(Type::String).format(Some(SchemaFormat::KnownFormat(format)))
    };
    let any = AnyOfBuilder::new().item(text(KnownFormat::DateTime)).item(text(KnownFormat::Date));
    Schema::AnyOf(any.build()).into()
}

/// A user's billing records.
#[derive(Serialize, ToSchema)]
pub(super) struct Subscriptions {
    pub(super) user_id: String,
    /// The status of the membership.
    #[schema(schema_with = memberships)]
    pub(super) status: String,
    #[schema(value_type = Vec<Record>)]
    pub(super) subscriptions: Vec<Value>,
}

/// The history of a billing record.
#[derive(Serialize, ToSchema)]
#[schema(as = SubscriptionHistory)]
pub(super) struct RecordHistory {
    pub(super) user_id: String,
    pub(super) subscription_id: String,
    #[schema(value_type = Vec<HistoryRow>)]
    pub(super) rows: Vec<Value>,
}

/// A billing record: one period of a membership. Attributes of other writers are in it as they were read.
#[derive(ToSchema)]
pub(super) struct Record {
    user_id: String,
    /// When it falls due.
    billing_date: DateTime<Utc>,
    subscription_id: String,
    /// Dollars and cents.
    #[schema(pattern = r"^-?[0-9]+(\.[0-9]+)?$")]
    billing_amount: String,
    #[schema(schema_with = statuses)]
    billing_status: String,
    /// `MM/YYYY` of the due date.
    billing_period: String,
    /// Confirmation of the latest attempt; empty before the first.
    transaction_id: String,
    /// The latest failure; empty when there is none.
    usio_error: String,
    /// What last updated it.
    process: String,
    /// The latest lifecycle update.
    updated_event: String,
    #[schema(schema_with = terms)]
    term: String,
    /// Last four digits of the account.
    receipt_account_mask: String,
    /// `Tier:version`.
    receipt_tier_name: String,
    receipt_payment_type: String,
    /// The first attempt.
    #[schema(nullable = false)]
    initial_run_date: Option<DateTime<Utc>>,
    #[schema(nullable = false)]
    completion_date: Option<DateTime<Utc>>,
    /// The latest update.
    #[schema(nullable = false)]
    last_run_date: Option<DateTime<Utc>>,
    #[schema(nullable = false)]
    created_date: Option<DateTime<Utc>>,
    /// The date that all due dates are counted from.
    #[schema(nullable = false)]
    anchor_date: Option<DateTime<Utc>>,
    #[schema(nullable = false)]
    member_since: Option<DateTime<Utc>>,
    /// When a requested cancellation takes effect.
    #[schema(nullable = false)]
    cancel_at: Option<DateTime<Utc>>,
    /// The due date to which it is being moved.
    #[schema(nullable = false)]
    moved_to: Option<DateTime<Utc>>,
    /// The due date that a reminder was sent for.
    #[schema(nullable = false)]
    due_notice: Option<DateTime<Utc>>,
    /// `cognito` or `local`.
    #[schema(nullable = false)]
    provider: Option<String>,
    /// The record of the next period.
    #[schema(nullable = false)]
    next_subscription_id: Option<String>,
    /// Idempotency key of the latest attempt.
    #[schema(nullable = false)]
    attempt_key: Option<String>,
    /// Why the user may not be debited.
    #[schema(nullable = false)]
    collection_bar: Option<String>,
    /// The bank's notification of change, with its time, while no new account is on file: debits wait.
    #[schema(nullable = false)]
    awaits_correction: Option<String>,
    /// When the member put a new account on file.
    #[schema(nullable = false)]
    new_account_at: Option<DateTime<Utc>>,
    /// The day on which a failed record is presented again.
    #[schema(nullable = false)]
    retry_at: Option<DateTime<Utc>>,
    /// Why on that day.
    #[schema(nullable = false)]
    retry_reason: Option<String>,
    /// The record of a reactivation that replaced this one.
    #[schema(nullable = false)]
    superseded_by: Option<String>,
    /// The tier that a pending downgrade leads to.
    #[schema(nullable = false)]
    pending_tier_name: Option<String>,
    #[schema(nullable = false)]
    pending_amount: Option<String>,
    /// How much of the payment went back to the member.
    #[schema(nullable = false)]
    refunded_amount: Option<String>,
    pause_duration_months: u32,
    /// Which Friday, for Friday billing.
    #[schema(nullable = false)]
    billing_week: Option<u32>,
    #[schema(nullable = false)]
    is_pending_downgrade: Option<bool>,
    /// Debits of this period.
    #[schema(nullable = false)]
    attempts: Option<u32>,
    /// Confirmations of earlier attempts.
    #[schema(nullable = false)]
    earlier_transaction_ids: Option<Vec<String>>,
    /// Counts the commits of this record.
    #[schema(nullable = false)]
    version: Option<i64>,
}

/// A billing record after an event, and the event. Fields of the event itself start with `data_`.
#[derive(ToSchema)]
pub(super) struct HistoryRow {
    #[schema(inline)]
    #[serde(flatten)]
    record: Record,
    #[schema(nullable = false)]
    event_id: Option<String>,
    /// Where the event came from and what it was.
    source: String,
    /// `applied`, or `ignored: …` with the reason.
    outcome: String,
    /// The version that the event found.
    previous_version: i64,
}

/// A billing record, and the outcome of a command on it.
#[derive(ToSchema)]
pub(super) struct Outcome {
    #[serde(flatten)]
    record: Record,
    /// Such as `collected`.
    outcome: String,
    /// Why the answer of the payment gateway is not known.
    #[schema(nullable = false)]
    in_doubt: Option<String>,
}

/// A user's timeline.
#[derive(ToSchema)]
pub(super) struct Explained {
    user_id: String,
    at: DateTime<Utc>,
    #[schema(schema_with = memberships)]
    status: String,
    story: Vec<TimelineEntry>,
    records: Vec<ExplainedRecord>,
    access: ExplainedAccess,
    tiers: Vec<TierChange>,
    credits: i64,
    next: Vec<NextStep>,
    parked: Vec<ParkedRecord>,
}

/// What happened, and its cause.
#[derive(ToSchema)]
struct TimelineEntry {
    at: DateTime<Utc>,
    sentence: String,
    source: String,
    /// Who acted, where a person did.
    #[schema(required)]
    actor: Option<String>,
    #[schema(required)]
    event_id: Option<String>,
    #[schema(required)]
    subscription_id: Option<String>,
    #[schema(required)]
    from: Option<String>,
    #[schema(required)]
    to: Option<String>,
    followed: Vec<String>,
}

/// A record as it is.
#[derive(ToSchema)]
struct ExplainedRecord {
    subscription_id: String,
    due: DateTime<Utc>,
    #[schema(schema_with = statuses)]
    status: String,
    amount: String,
    tier: String,
    attempts: u32,
}

/// The tier that the user has, and why.
#[derive(ToSchema)]
struct ExplainedAccess {
    tier: String,
    source: String,
    #[schema(required)]
    until: Option<DateTime<Utc>>,
    why: String,
}

/// A change of tier.
#[derive(ToSchema)]
struct TierChange {
    at: DateTime<Utc>,
    from: String,
    to: String,
    /// The Cognito group.
    #[schema(required)]
    group: Option<String>,
}

/// What happens next.
#[derive(ToSchema)]
struct NextStep {
    #[schema(required)]
    at: Option<DateTime<Utc>>,
    subscription_id: String,
    sentence: String,
}

/// A record of a stream that could not be applied.
#[derive(ToSchema)]
struct ParkedRecord {
    parked_id: String,
    stream: String,
    code: String,
    reason: String,
    #[schema(required)]
    event_id: Option<String>,
}
