//! Parameters, bodies and responses of `figureforge`: its rows, without the keys of the table.

#![allow(
    dead_code,
    reason = "schemas: rows are written by their codec, commands are read by the event's decoder"
)]

use chrono::{DateTime, Utc};
use dues_events::entitlements::stripe::SubscriptionStatus;
use dues_projections::figureforge::job::JobStatus;
use dues_projections::figureforge::moderation::FlagStatus;
use dues_projections::figureforge::report::ReportStatus;
use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{IntoParams, ToSchema};

use crate::api::document::one_of;
use crate::api::schema::Id;

fn subscription_statuses() -> RefOr<Schema> {
    one_of(SubscriptionStatus::ALL.map(SubscriptionStatus::as_str))
}

fn job_statuses() -> RefOr<Schema> {
    one_of(JobStatus::ALL.map(JobStatus::as_str))
}

fn flag_statuses() -> RefOr<Schema> {
    one_of(FlagStatus::ALL.map(FlagStatus::as_str))
}

fn report_statuses() -> RefOr<Schema> {
    one_of(ReportStatus::ALL.map(ReportStatus::as_str))
}

fn booleans() -> RefOr<Schema> {
    one_of(["true", "false"])
}

/// Which users.
#[derive(IntoParams)]
pub(super) struct Email {
    /// The email address.
    #[param(min_length = 1, max_length = 256)]
    email: String,
}

/// Which jobs.
#[derive(IntoParams)]
pub(super) struct OfJobStatus {
    /// The state.
    #[param(schema_with = job_statuses)]
    status: String,
}

/// Which reports.
#[derive(IntoParams)]
pub(super) struct OfReportStatus {
    /// The state.
    #[param(schema_with = report_statuses)]
    status: String,
}

/// Which plans.
#[derive(IntoParams)]
pub(super) struct Active {
    /// Whether they can be bought.
    #[param(schema_with = booleans)]
    active: String,
}

/// A command without further fields.
#[derive(ToSchema)]
#[schema(as = FigureforgeCommand)]
pub(super) struct Event {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
}

/// Save a user.
#[derive(ToSchema)]
#[schema(as = FigureforgeSaveUser)]
pub(super) struct SaveUser {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
    #[schema(min_length = 3, max_length = 256, pattern = "^[^@]+@[^@]+$")]
    email: String,
    display_name: Option<String>,
    /// Unix seconds.
    #[schema(minimum = 0, maximum = 253402300799_i64)]
    created_at: Option<i64>,
}

/// Save a plan.
#[derive(ToSchema)]
#[schema(as = FigureforgeSavePlan)]
pub(super) struct SavePlan {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
    name: String,
    active: bool,
    #[schema(minimum = 0, maximum = 4294967295_i64)]
    price_cents: Option<i64>,
    interval: Option<String>,
    stripe_price_id: Option<String>,
    /// Unix seconds.
    #[schema(minimum = 0, maximum = 253402300799_i64)]
    created_at: Option<i64>,
}

/// Set a feature flag.
#[derive(ToSchema)]
#[schema(as = FigureforgeSetFlag)]
pub(super) struct SetFlag {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
    enabled: bool,
    description: Option<String>,
    #[schema(required = false)]
    value: Value,
    /// Unix seconds.
    #[schema(minimum = 0, maximum = 253402300799_i64)]
    created_at: Option<i64>,
}

/// Queue a job.
#[derive(ToSchema)]
#[schema(as = FigureforgeQueueJob)]
pub(super) struct QueueJob {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
    user_id: Id,
    #[schema(required = false)]
    prompt_json: Value,
    provider: Option<String>,
    provider_model_id: Option<String>,
    /// Unix seconds.
    #[schema(minimum = 0, maximum = 253402300799_i64)]
    created_at: Option<i64>,
}

/// End a job with an image.
#[derive(ToSchema)]
#[schema(as = FigureforgeSucceedJob)]
pub(super) struct SucceedJob {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
    image_id: Id,
    #[schema(minimum = 0, maximum = 4294967295_i64)]
    cost_cents: Option<i64>,
}

/// End a job without an image.
#[derive(ToSchema)]
#[schema(as = FigureforgeFailJob)]
pub(super) struct FailJob {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
    error: Option<String>,
}

/// Save an image.
#[derive(ToSchema)]
#[schema(as = FigureforgeSaveImage)]
pub(super) struct SaveImage {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
    url: String,
    user_id: Option<Id>,
    #[schema(max_items = 500)]
    tags: Option<Vec<Id>>,
    #[schema(required = false)]
    prompt_json: Value,
    provider: Option<String>,
    provider_model_id: Option<String>,
    #[schema(minimum = 0, maximum = 4294967295_i64)]
    cost_cents: Option<i64>,
    #[schema(minimum = 0, maximum = 4294967295_i64)]
    favorited_count: Option<i64>,
    #[schema(nullable = false)]
    public: Option<bool>,
    #[schema(nullable = false)]
    private_gallery_ids: Option<Vec<Id>>,
    #[schema(schema_with = flag_statuses, required = false)]
    flag_status: Option<String>,
    /// Unix seconds.
    #[schema(minimum = 0, maximum = 253402300799_i64)]
    created_at: Option<i64>,
}

/// Replace the tags of an image.
#[derive(ToSchema)]
#[schema(as = FigureforgeTagImage)]
pub(super) struct TagImage {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
    #[schema(max_items = 500)]
    tags: Vec<Id>,
}

/// Set how many users favorite an image.
#[derive(ToSchema)]
#[schema(as = FigureforgeFavoriteImage)]
pub(super) struct FavoriteImage {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
    #[schema(minimum = 0, maximum = 4294967295_i64)]
    favorited_count: i64,
}

/// Set the moderation status of an image.
#[derive(ToSchema)]
#[schema(as = FigureforgeFlagImage)]
pub(super) struct FlagImage {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
    #[schema(schema_with = flag_statuses)]
    flag_status: String,
}

/// Report an image.
#[derive(ToSchema)]
#[schema(as = FigureforgeFileReport)]
pub(super) struct FileReport {
    event_id: Id,
    /// When it happened; now unless given.
    occurred_at: Option<DateTime<Utc>>,
    reason: String,
    reporter_id: Option<Id>,
    /// Unix seconds.
    #[schema(minimum = 0, maximum = 253402300799_i64)]
    created_at: Option<i64>,
}

/// A user.
#[derive(ToSchema)]
#[schema(as = FigureforgeUser)]
pub(super) struct User {
    user_id: String,
    email: String,
    #[schema(required)]
    display_name: Option<String>,
    /// Unix seconds.
    created_at: i64,
    /// Unix seconds; null unless deleted.
    #[schema(required)]
    deleted_at: Option<i64>,
}

/// A Stripe subscription.
#[derive(ToSchema)]
#[schema(as = FigureforgeSubscription)]
pub(super) struct Subscription {
    user_id: String,
    stripe_sub_id: String,
    #[schema(required)]
    stripe_customer_id: Option<String>,
    #[schema(schema_with = subscription_statuses)]
    status: String,
    #[schema(required)]
    plan_id: Option<String>,
    #[schema(required)]
    plan: Option<String>,
    /// Unix seconds.
    #[schema(required)]
    current_period_start: Option<i64>,
    /// Unix seconds.
    #[schema(required)]
    current_period_end: Option<i64>,
    cancel_at_period_end: bool,
    /// Unix seconds.
    created_at: i64,
    /// Unix seconds; null unless deleted.
    #[schema(required)]
    deleted_at: Option<i64>,
}

/// A plan.
#[derive(ToSchema)]
#[schema(as = FigureforgePlan)]
pub(super) struct Plan {
    plan_id: String,
    name: String,
    #[schema(required)]
    price_cents: Option<u64>,
    #[schema(required)]
    interval: Option<String>,
    #[schema(required)]
    stripe_price_id: Option<String>,
    active: bool,
    /// Unix seconds.
    created_at: i64,
    /// Unix seconds; null unless deleted.
    #[schema(required)]
    deleted_at: Option<i64>,
}

/// A feature flag.
#[derive(ToSchema)]
#[schema(as = FigureforgeFlag)]
pub(super) struct Flag {
    flag_name: String,
    enabled: bool,
    #[schema(required)]
    description: Option<String>,
    value: Value,
    /// Unix seconds.
    created_at: i64,
    /// Unix seconds; null unless deleted.
    #[schema(required)]
    deleted_at: Option<i64>,
}

/// A generation job.
#[derive(ToSchema)]
#[schema(as = FigureforgeJob)]
pub(super) struct Job {
    job_id: String,
    user_id: String,
    #[schema(schema_with = job_statuses)]
    status: String,
    prompt_json: Value,
    #[schema(required)]
    provider: Option<String>,
    #[schema(required)]
    provider_model_id: Option<String>,
    #[schema(required)]
    image_id: Option<String>,
    #[schema(required)]
    cost_cents: Option<u64>,
    #[schema(required)]
    error: Option<String>,
    /// Unix seconds.
    #[schema(required)]
    started_at: Option<i64>,
    /// Unix seconds.
    #[schema(required)]
    ended_at: Option<i64>,
    /// Unix seconds.
    created_at: i64,
    /// Unix seconds; null unless deleted.
    #[schema(required)]
    deleted_at: Option<i64>,
}

/// An image.
#[derive(ToSchema)]
#[schema(as = FigureforgeImage)]
pub(super) struct Image {
    image_id: String,
    #[schema(required)]
    user_id: Option<String>,
    url: String,
    tags: Vec<String>,
    prompt_json: Value,
    #[schema(required)]
    provider: Option<String>,
    #[schema(required)]
    provider_model_id: Option<String>,
    #[schema(required)]
    cost_cents: Option<u64>,
    favorited_count: u64,
    public: bool,
    private_gallery_ids: Vec<String>,
    #[schema(schema_with = flag_statuses)]
    flag_status: String,
    /// Unix seconds.
    created_at: i64,
    /// Unix seconds; null unless deleted.
    #[schema(required)]
    deleted_at: Option<i64>,
}

/// A report of an image.
#[derive(ToSchema)]
#[schema(as = FigureforgeReport)]
pub(super) struct Report {
    image_id: String,
    report_id: String,
    #[schema(required)]
    reporter_id: Option<String>,
    reason: String,
    #[schema(schema_with = report_statuses)]
    status: String,
    /// Unix seconds.
    created_at: i64,
    /// Unix seconds; null unless deleted.
    #[schema(required)]
    deleted_at: Option<i64>,
}

/// An image with a tag.
#[derive(ToSchema)]
#[schema(as = FigureforgeTagged)]
pub(super) struct TaggedImage {
    tag: String,
    image_id: String,
    /// Unix seconds.
    created_at: i64,
}

/// A signed URL of an image.
#[derive(ToSchema)]
#[schema(as = FigureforgeSignedUrl)]
pub(super) struct SignedUrl {
    image_id: String,
    key: String,
    #[schema(format = "uri")]
    url: String,
    /// Seconds.
    expires_in: u32,
}

/// The key of a purged user.
#[derive(ToSchema)]
#[schema(as = FigureforgeUserKey)]
#[serde(deny_unknown_fields)]
pub(super) struct UserKey {
    user_id: String,
}

/// The key of a purged plan.
#[derive(ToSchema)]
#[schema(as = FigureforgePlanKey)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanKey {
    plan_id: String,
}

/// The key of a purged flag.
#[derive(ToSchema)]
#[schema(as = FigureforgeFlagKey)]
#[serde(deny_unknown_fields)]
pub(super) struct FlagKey {
    flag_name: String,
}

/// The key of a purged job.
#[derive(ToSchema)]
#[schema(as = FigureforgeJobKey)]
#[serde(deny_unknown_fields)]
pub(super) struct JobKey {
    job_id: String,
}

/// The key of a purged image.
#[derive(ToSchema)]
#[schema(as = FigureforgeImageKey)]
#[serde(deny_unknown_fields)]
pub(super) struct ImageKey {
    image_id: String,
}

/// The key of a purged report.
#[derive(ToSchema)]
#[schema(as = FigureforgeReportKey)]
#[serde(deny_unknown_fields)]
pub(super) struct ReportKey {
    image_id: String,
    report_id: String,
}

/// A page of users.
#[derive(ToSchema)]
#[schema(as = FigureforgeUsers)]
pub(super) struct Users {
    items: Vec<User>,
    /// `after` of the next page; null on the last.
    #[schema(required)]
    next: Option<String>,
}

/// A page of subscriptions.
#[derive(ToSchema)]
#[schema(as = FigureforgeSubscriptions)]
pub(super) struct Subscriptions {
    items: Vec<Subscription>,
    /// `after` of the next page; null on the last.
    #[schema(required)]
    next: Option<String>,
}

/// A page of plans.
#[derive(ToSchema)]
#[schema(as = FigureforgePlans)]
pub(super) struct Plans {
    items: Vec<Plan>,
    /// `after` of the next page; null on the last.
    #[schema(required)]
    next: Option<String>,
}

/// A page of flags.
#[derive(ToSchema)]
#[schema(as = FigureforgeFlags)]
pub(super) struct Flags {
    items: Vec<Flag>,
    /// `after` of the next page; null on the last.
    #[schema(required)]
    next: Option<String>,
}

/// A page of jobs.
#[derive(ToSchema)]
#[schema(as = FigureforgeJobs)]
pub(super) struct Jobs {
    items: Vec<Job>,
    /// `after` of the next page; null on the last.
    #[schema(required)]
    next: Option<String>,
}

/// A page of images.
#[derive(ToSchema)]
#[schema(as = FigureforgeImages)]
pub(super) struct Images {
    items: Vec<Image>,
    /// `after` of the next page; null on the last.
    #[schema(required)]
    next: Option<String>,
}

/// A page of reports.
#[derive(ToSchema)]
#[schema(as = FigureforgeReports)]
pub(super) struct Reports {
    items: Vec<Report>,
    /// `after` of the next page; null on the last.
    #[schema(required)]
    next: Option<String>,
}

/// A page of images with a tag.
#[derive(ToSchema)]
#[schema(as = FigureforgeTaggedImages)]
pub(super) struct TaggedImages {
    items: Vec<TaggedImage>,
    /// `after` of the next page; null on the last.
    #[schema(required)]
    next: Option<String>,
}
