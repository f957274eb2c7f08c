//! figureforge: users, subscriptions, generation jobs, images with their tags and reports, plans and feature
//! flags, in one table.
//!
//! The figureforge model specifies the values of the index keys, not the attributes that hold them. Here
//! each index has its own partition attribute, so that an item is in exactly those indexes for which it has
//! the attributes.

use super::{Index, Table, TableId};

/// `created_at`, in seconds of the Unix epoch.
pub const CREATED_AT: &str = "created_at";

/// A user by email: `EMAIL#<email>`, `USER#<user_id>`.
pub const BY_EMAIL: Index = Index::sorted("byEmail", "email_pk", "email_sk");
/// The owner of a subscription: `SUB#<stripe_sub_id>`, `USER#<user_id>`.
pub const BY_STRIPE_SUB: Index = Index::sorted("byStripeSub", "stripe_sub_pk", "stripe_sub_sk");
/// Jobs by status and time: `JOBSTATUS#<status>`.
pub const JOBS_BY_STATUS: Index = Index::numbered("jobsByStatus", "job_status_pk", CREATED_AT);
/// A user's images, by time: `USER#<user_id>`.
pub const IMAGES_BY_USER: Index = Index::numbered("imagesByUser", "image_user_pk", CREATED_AT);
/// Reports by status and time: `REPORTSTATUS#<status>`.
pub const REPORTS_BY_STATUS: Index = Index::numbered("reportsByStatus", "report_status_pk", CREATED_AT);
/// Active and inactive plans, by time: `PLANACTIVE#<true|false>`.
pub const PLANS_BY_ACTIVE: Index = Index::numbered("plansByActive", "plan_active_pk", CREATED_AT);

/// The figureforge table. Its changes are streamed: the tags follow the images.
pub const FIGUREFORGE: Table = Table {
    id: TableId::Figureforge,
    name: "figureforge",
    partition: "pk",
    sort: Some("sk"),
    indexes: &[BY_EMAIL, BY_STRIPE_SUB, JOBS_BY_STATUS, IMAGES_BY_USER, REPORTS_BY_STATUS, PLANS_BY_ACTIVE],
    stream: true,
    ttl: None,
};
