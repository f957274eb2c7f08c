//! Parameters, bodies and responses of `serenya`.

#![allow(
    dead_code,
    reason = "schemas: rows are written by their codec, commands are read by the event's decoder"
)]

use chrono::{DateTime, Utc};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AnyOfBuilder, ObjectBuilder, Schema, Type};
use utoipa::{IntoParams, ToSchema};

use crate::api::document::one_of;
use crate::api::schema::Id;

fn outcomes() -> RefOr<Schema> {
    one_of(["applied", "known"])
}

fn payment_statuses() -> RefOr<Schema> {
    one_of(["pending", "completed", "failed"])
}

fn refund_statuses() -> RefOr<Schema> {
    one_of(["pending", "partially_refunded", "refunded", "charged_back", "returned"])
}

fn job_statuses() -> RefOr<Schema> {
    one_of(["pending", "processing", "completed", "failed"])
}

fn not_found() -> RefOr<Schema> {
    one_of(["not_found"])
}

fn usage_limit() -> RefOr<Schema> {
    one_of(["usage_limit"])
}

/// Dollars with two decimals at the most, as a number or as text.
fn amount() -> RefOr<Schema> {
    let number = ObjectBuilder::new().schema_type(Type::Number).minimum(Some(0)).maximum(Some(1_000_000));
    let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some(r"^[0-9]{1,7}(\.[0-9]{1,2})?$"));
    Schema::AnyOf(AnyOfBuilder::new().item(number).item(text).build()).into()
}

/// Which version.
#[derive(IntoParams)]
pub(super) struct Version {
    /// The version; the highest unless given.
    #[param(nullable = false)]
    version: Option<String>,
}

/// How many payments.
#[derive(IntoParams)]
pub(super) struct PaymentLimit {
    /// How many; 20 unless given.
    #[param(minimum = 1, maximum = 1000, nullable = false)]
    limit: Option<u32>,
}

/// How many jobs.
#[derive(IntoParams)]
pub(super) struct JobLimit {
    /// How many; 50 unless given.
    #[param(minimum = 1, maximum = 1000, nullable = false)]
    limit: Option<u32>,
}

/// Which feature.
#[derive(IntoParams)]
pub(super) struct Feature {
    /// The feature; `document_processing` unless given.
    #[param(nullable = false)]
    feature: Option<String>,
}

/// The tiers, by name.
#[derive(ToSchema)]
#[schema(as = SerenyaTiers)]
pub(super) struct Tiers(BTreeMap<String, Tier>);

/// A command without further fields.
#[derive(ToSchema)]
#[schema(as = SerenyaCommand)]
pub(super) struct Command {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
}

/// A document.
#[derive(ToSchema)]
#[schema(as = SerenyaChatDocument)]
pub(super) struct ChatOptions {
    #[schema(rename = "documentType")]
    document_type: Option<String>,
    #[schema(rename = "availableMetrics")]
    available_metrics: Option<Vec<String>>,
}

/// Save a version of a configuration.
#[derive(ToSchema)]
#[schema(as = SerenyaSaveConfig)]
pub(super) struct SaveConfig {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
    version: Id,
    #[schema(required = false)]
    features: Value,
    #[schema(required = false)]
    limits: Value,
    #[schema(required = false)]
    services: Value,
}

/// A configuration was saved.
#[derive(ToSchema)]
#[schema(as = SerenyaSavedConfig)]
pub(super) struct SavedConfig {
    config_key: String,
    #[schema(schema_with = outcomes)]
    outcome: String,
}

/// Create a user.
#[derive(ToSchema)]
#[schema(as = SerenyaCreateUser)]
pub(super) struct CreateUser {
    #[schema(min_length = 3, max_length = 256, pattern = r"^[^@\s]+@[^@\s]+$")]
    email: String,
    name: String,
    #[schema(min_length = 1, max_length = 256, pattern = "^[^#]+$")]
    auth_provider: String,
    external_id: Id,
    id: Option<Id>,
    event_id: Option<Id>,
}

/// Find a user by email.
#[derive(ToSchema)]
#[schema(as = SerenyaFindByEmail)]
pub(super) struct FindByEmail {
    email: Id,
}

/// Find a user by the id of an identity provider.
#[derive(ToSchema)]
#[schema(as = SerenyaFindByExternalId)]
pub(super) struct FindByExternalId {
    auth_provider: Id,
    external_id: Id,
}

/// Change a user.
#[derive(ToSchema)]
#[schema(as = SerenyaUpdateUser)]
pub(super) struct UpdateUser {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
    #[schema(min_length = 3, max_length = 256, pattern = r"^[^@\s]+@[^@\s]+$")]
    email: Option<String>,
    name: Option<String>,
    account_status: Option<Id>,
}

/// Give or withdraw consents.
#[derive(ToSchema)]
#[schema(as = SerenyaGiveConsents)]
pub(super) struct GiveConsents {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
    medical_disclaimers: Option<bool>,
    terms_of_service: Option<bool>,
    privacy_policy: Option<bool>,
    consent_version: Option<String>,
    ip_address: Option<String>,
    user_agent: Option<String>,
}

/// Record the current device.
#[derive(ToSchema)]
#[schema(as = SerenyaSeeDevice)]
pub(super) struct SeeDevice {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
    device_id: Id,
    device_name: Option<String>,
    platform: Option<String>,
    platform_version: Option<String>,
    app_version: Option<String>,
    biometric_type: Option<String>,
    device_fingerprint: Option<String>,
    timezone: Option<String>,
}

/// Start a session.
#[derive(ToSchema)]
#[schema(as = SerenyaStartSession)]
pub(super) struct StartSession {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
    session_id: Id,
    access_token_hash: Option<String>,
    refresh_token_hash: Option<String>,
    issued_at: Option<DateTime<Utc>>,
    expires_at: Option<DateTime<Utc>>,
    biometric_expires_at: Option<DateTime<Utc>>,
    user_agent: Option<String>,
    source_ip: Option<String>,
}

/// A command on a session.
#[derive(ToSchema)]
#[schema(as = SerenyaSessionCommand)]
pub(super) struct SessionCommand {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
    session_id: Id,
}

/// Register a biometric.
#[derive(ToSchema)]
#[schema(as = SerenyaRegisterBiometric)]
pub(super) struct RegisterBiometric {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
    registration_id: Id,
    biometric_type: String,
    verification_level: Option<String>,
    #[schema(max_length = 4096)]
    challenge_data: Option<String>,
    challenge_expires_at: Option<DateTime<Utc>>,
}

/// Record a failed verification.
#[derive(ToSchema)]
#[schema(as = SerenyaFailBiometric)]
pub(super) struct FailBiometric {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
    locked_until: Option<DateTime<Utc>>,
}

/// Set the subscription.
#[derive(ToSchema)]
#[schema(as = SerenyaUpdateSubscription)]
pub(super) struct UpdateSubscription {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
    subscription_id: Id,
    subscription_type: Id,
    subscription_status: String,
    provider: String,
    start_date: DateTime<Utc>,
    external_subscription_id: Option<String>,
    end_date: Option<DateTime<Utc>>,
    #[schema(nullable = false)]
    auto_renew: Option<bool>,
    #[schema(nullable = false, minimum = 0, maximum = 4294967295_i64)]
    trial_period_days: Option<i64>,
    #[schema(nullable = false, minimum = 0, maximum = 4294967295_i64)]
    grace_period_days: Option<i64>,
}

/// Record a payment.
#[derive(ToSchema)]
#[schema(as = SerenyaRecordPayment)]
pub(super) struct RecordPayment {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
    #[schema(schema_with = amount)]
    amount: Value,
    payment_id: Option<Id>,
    subscription_id: Option<String>,
    #[schema(pattern = "^[Uu][Ss][Dd]$")]
    currency: Option<String>,
    #[schema(schema_with = payment_statuses, required = false)]
    payment_status: Option<String>,
    payment_method: Option<String>,
    provider_transaction_id: Option<String>,
    provider_receipt_data: Option<String>,
    #[schema(nullable = false)]
    provider_sandbox: Option<bool>,
    initiated_at: Option<DateTime<Utc>>,
    platform: Option<String>,
    app_version: Option<String>,
}

/// Record a refund.
#[derive(ToSchema)]
#[schema(as = SerenyaRecordRefund)]
pub(super) struct RecordRefund {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
    refund_id: Id,
    #[schema(schema_with = amount, required = false)]
    refund_amount: Value,
    refund_reason: Option<String>,
}

/// Mark a document as failed.
#[derive(ToSchema)]
#[schema(as = SerenyaFailJob)]
pub(super) struct FailJob {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
    error_message: Option<String>,
}

/// A user after a command.
#[derive(ToSchema)]
#[schema(as = SerenyaChanged)]
pub(super) struct Changed {
    user_id: String,
    #[schema(schema_with = outcomes)]
    outcome: String,
    profile: Profile,
}

/// A user.
#[derive(ToSchema)]
#[schema(as = SerenyaProfile)]
pub(super) struct Profile {
    id: String,
    email: String,
    name: String,
    auth_provider: String,
    external_id: String,
    account_status: String,
    consents: Consents,
    #[schema(required)]
    current_device: Option<Device>,
    #[schema(required)]
    current_session: Option<Session>,
    #[schema(required)]
    biometric: Option<Biometric>,
    subscription: Subscription,
}

/// What a user has consented to.
#[derive(ToSchema)]
#[schema(as = SerenyaConsents)]
pub(super) struct Consents {
    medical_disclaimers: bool,
    terms_of_service: bool,
    privacy_policy: bool,
    #[schema(required)]
    consent_version: Option<String>,
    #[schema(required)]
    consent_date: Option<DateTime<Utc>>,
    ip_address: Option<String>,
    user_agent: Option<String>,
}

/// A device.
#[derive(ToSchema)]
#[schema(as = SerenyaDevice)]
pub(super) struct Device {
    device_id: String,
    #[schema(required)]
    device_name: Option<String>,
    #[schema(required)]
    platform: Option<String>,
    #[schema(required)]
    platform_version: Option<String>,
    #[schema(required)]
    app_version: Option<String>,
    #[schema(required)]
    biometric_type: Option<String>,
    #[schema(required)]
    device_fingerprint: Option<String>,
    #[schema(required)]
    timezone: Option<String>,
    last_active_at: DateTime<Utc>,
}

/// A session.
#[derive(ToSchema)]
#[schema(as = SerenyaSession)]
pub(super) struct Session {
    session_id: String,
    #[schema(required)]
    access_token_hash: Option<String>,
    #[schema(required)]
    refresh_token_hash: Option<String>,
    issued_at: DateTime<Utc>,
    expires_at: DateTime<Utc>,
    last_accessed_at: DateTime<Utc>,
    #[schema(required)]
    biometric_expires_at: Option<DateTime<Utc>>,
    #[schema(required)]
    user_agent: Option<String>,
    #[schema(required)]
    source_ip: Option<String>,
}

/// A registered biometric.
#[derive(ToSchema)]
#[schema(as = SerenyaBiometric)]
pub(super) struct Biometric {
    registration_id: String,
    biometric_type: String,
    is_verified: bool,
    #[schema(required)]
    verification_level: Option<String>,
    #[schema(required)]
    challenge_data: Option<String>,
    #[schema(required)]
    challenge_expires_at: Option<DateTime<Utc>>,
    #[schema(required)]
    last_verification_at: Option<DateTime<Utc>>,
    failure_count: u64,
    #[schema(required)]
    locked_until: Option<DateTime<Utc>>,
}

/// A subscription, with its usage.
#[derive(ToSchema)]
#[schema(as = SerenyaSubscription)]
pub(super) struct Subscription {
    subscription_id: String,
    subscription_type: String,
    subscription_status: String,
    provider: String,
    #[schema(required)]
    external_subscription_id: Option<String>,
    start_date: DateTime<Utc>,
    #[schema(required)]
    end_date: Option<DateTime<Utc>>,
    auto_renew: bool,
    trial_period_days: u64,
    grace_period_days: u64,
    usage_current_period: PeriodUsage,
}

/// The usage of a period.
#[derive(ToSchema)]
#[schema(as = SerenyaPeriodUsage)]
pub(super) struct PeriodUsage {
    documents_processed: u64,
    period_start: DateTime<Utc>,
    period_end: DateTime<Utc>,
}

/// A user's payments.
#[derive(ToSchema)]
#[schema(as = SerenyaPayments)]
pub(super) struct Payments {
    user_id: String,
    payments: Vec<Payment>,
}

/// A payment.
#[derive(ToSchema)]
#[schema(as = SerenyaPayment)]
pub(super) struct Payment {
    payment_id: String,
    user_id: String,
    #[schema(required)]
    subscription_id: Option<String>,
    #[schema(required)]
    amount: Option<f64>,
    #[schema(required)]
    currency: Option<String>,
    #[schema(schema_with = payment_statuses)]
    payment_status: String,
    #[schema(required)]
    payment_method: Option<String>,
    #[schema(required)]
    provider_transaction_id: Option<String>,
    #[schema(required)]
    provider_receipt_data: Option<String>,
    provider_sandbox: bool,
    initiated_at: DateTime<Utc>,
    #[schema(required)]
    processed_at: Option<DateTime<Utc>>,
    #[schema(required)]
    platform: Option<String>,
    #[schema(required)]
    app_version: Option<String>,
    /// Null unless refunded.
    #[schema(required, schema_with = refund_statuses_or_null)]
    refund_status: Option<String>,
    #[schema(required)]
    refund_amount: Option<f64>,
    #[schema(required)]
    refunded_at: Option<DateTime<Utc>>,
    #[schema(required)]
    refund_reason: Option<String>,
    /// Only of currencies other than dollars.
    #[schema(nullable = false)]
    amount_minor_units: Option<u64>,
    /// Only of currencies other than dollars.
    #[schema(nullable = false)]
    refund_amount_minor_units: Option<u64>,
}

fn refund_statuses_or_null() -> RefOr<Schema> {
    let null = ObjectBuilder::new().schema_type(Type::Null);
    Schema::AnyOf(AnyOfBuilder::new().item(refund_statuses()).item(null).build()).into()
}

/// The processing of a user's documents.
#[derive(ToSchema)]
#[schema(as = SerenyaJobs)]
pub(super) struct Jobs {
    user_id: String,
    jobs: Vec<Job>,
}

/// The processing of a document.
#[derive(ToSchema)]
#[schema(as = SerenyaJob)]
pub(super) struct Job {
    #[schema(schema_with = job_statuses)]
    status: String,
    file_name: String,
    #[schema(nullable = false)]
    uploaded_at: Option<DateTime<Utc>>,
    #[schema(nullable = false)]
    processing_started_at: Option<DateTime<Utc>>,
    #[schema(nullable = false)]
    completed_at: Option<DateTime<Utc>>,
    #[schema(nullable = false)]
    result_location: Option<String>,
    #[schema(nullable = false)]
    error_message: Option<String>,
}

/// No such document.
#[derive(ToSchema)]
#[schema(as = SerenyaMissingJob)]
pub(super) struct MissingJob {
    #[schema(schema_with = not_found)]
    status: String,
    file_name: String,
}

/// A version of a configuration.
#[derive(ToSchema)]
#[schema(as = SerenyaConfig)]
pub(super) struct Config {
    config_key: String,
    version: String,
    features: Value,
    limits: Value,
    services: Value,
}

/// What a tier allows and costs.
#[derive(ToSchema)]
#[schema(as = SerenyaTier)]
pub(super) struct Tier {
    tier_name: String,
    medical_reports: bool,
    #[schema(required)]
    max_documents_per_month: Option<u64>,
    priority_processing: bool,
    advanced_analytics: bool,
    export_capabilities: bool,
    #[schema(required)]
    chat_interactions_per_day: Option<u64>,
    storage_gb: u64,
    retention_days: u64,
    support_level: String,
    monthly_price_usd: f64,
    yearly_price_usd: f64,
    #[schema(required)]
    apple_product_id: Option<String>,
    #[schema(required)]
    google_product_id: Option<String>,
}

/// Whether a feature may be used.
#[derive(ToSchema)]
#[schema(as = SerenyaUsage)]
pub(super) struct Usage {
    allowed: bool,
    #[schema(nullable = false)]
    reason: Option<String>,
    #[schema(nullable = false)]
    usage: Option<u64>,
    #[schema(nullable = false)]
    limit: Option<u64>,
    #[schema(nullable = false)]
    period_end: Option<DateTime<Utc>>,
}

/// A document was counted.
#[derive(ToSchema)]
#[schema(as = SerenyaCounted)]
pub(super) struct Counted {
    allowed: bool,
    #[schema(schema_with = outcomes)]
    outcome: String,
    #[schema(nullable = false)]
    reason: Option<String>,
    #[schema(nullable = false)]
    usage: Option<u64>,
    #[schema(nullable = false)]
    limit: Option<u64>,
    #[schema(nullable = false)]
    period_end: Option<DateTime<Utc>>,
}

/// The period's limit is reached.
#[derive(ToSchema)]
#[schema(as = SerenyaRefused)]
pub(super) struct LimitReached {
    allowed: bool,
    error: LimitError,
    #[schema(nullable = false)]
    reason: Option<String>,
    #[schema(nullable = false)]
    usage: Option<u64>,
    #[schema(nullable = false)]
    limit: Option<u64>,
    #[schema(nullable = false)]
    period_end: Option<DateTime<Utc>>,
}

/// Why it was not counted.
#[derive(ToSchema)]
#[schema(as = SerenyaLimitError)]
pub(super) struct LimitError {
    #[schema(schema_with = usage_limit)]
    code: String,
    message: String,
}
