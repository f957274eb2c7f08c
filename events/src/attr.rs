//! The attribute names of the tables, spelled once.

/// The attributes of `billing-activity` that seed 001 names, in its order.
pub const SEED_001: [&str; 21] = [
    USER_ID,
    BILLING_DATE,
    SUBSCRIPTION_ID,
    BILLING_AMOUNT,
    BILLING_STATUS,
    BILLING_PERIOD,
    TRANSACTION_ID,
    USIO_ERROR,
    INITIAL_RUN_DATE,
    COMPLETION_DATE,
    LAST_RUN_DATE,
    CREATED_DATE,
    PROCESS,
    UPDATED_EVENT,
    TERM,
    RECEIPT_ACCOUNT_MASK,
    RECEIPT_TIER_NAME,
    RECEIPT_PAYMENT_TYPE,
    BILLING_WEEK,
    PAUSE_DURATION_MONTHS,
    IS_PENDING_DOWNGRADE,
];

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $text;)*
    };
}

names! {
    /// Partition key: whose record.
    USER_ID = "user_id";
    /// Sort key of the primary table: the due date.
    BILLING_DATE = "billing_date";
    /// The record's UUID.
    SUBSCRIPTION_ID = "subscription_id";
    /// What is charged, as decimal text.
    BILLING_AMOUNT = "billing_amount";
    /// The state.
    BILLING_STATUS = "billing_status";
    /// `MM/YYYY` of the due date.
    BILLING_PERIOD = "billing_period";
    /// Confirmation of the latest attempt.
    TRANSACTION_ID = "transaction_id";
    /// The latest failure, empty when completed.
    USIO_ERROR = "usio_error";
    /// The first attempt.
    INITIAL_RUN_DATE = "initial_run_date";
    /// When a terminal state was reached.
    COMPLETION_DATE = "completion_date";
    /// The latest update; sort key of the history table.
    LAST_RUN_DATE = "last_run_date";
    /// When the record was created.
    CREATED_DATE = "created_date";
    /// What last updated it.
    PROCESS = "process";
    /// Tag of a lifecycle update.
    UPDATED_EVENT = "updated_event";
    /// MONTHLY or YEARLY.
    TERM = "term";
    /// Last four digits of the account.
    RECEIPT_ACCOUNT_MASK = "receipt_account_mask";
    /// `Tier:version`.
    RECEIPT_TIER_NAME = "receipt_tier_name";
    /// Such as ACH.
    RECEIPT_PAYMENT_TYPE = "receipt_payment_type";
    /// Which Friday, for Friday billing.
    BILLING_WEEK = "billing_week";
    /// Length of the pause.
    PAUSE_DURATION_MONTHS = "pause_duration_months";
    /// A downgrade waits for the period's end.
    IS_PENDING_DOWNGRADE = "is_pending_downgrade";

    /// Counts the commits of this record; what the compare-and-set of the commit protocol checks.
    VERSION = "version";
    /// The events that this record has taken, as [`crate::stamp::Applied`] packs them.
    APPLIED = "applied";
    /// The date that all due dates are counted from.
    ANCHOR_DATE = "anchor_date";
    /// When the membership that this record belongs to began: (re)activation time.
    MEMBER_SINCE = "member_since";
    /// `cognito` or `local`.
    PROVIDER = "provider";
    /// How many debits were sent for this period.
    ATTEMPTS = "attempts";
    /// The idempotency key of the latest attempt that was made here.
    ATTEMPT_KEY = "attempt_key";
    /// The due date that a reminder was sent for.
    DUE_NOTICE = "due_notice";
    /// Confirmations of attempts before the current one.
    EARLIER_TRANSACTION_IDS = "earlier_transaction_ids";
    /// The record of the following period.
    NEXT_SUBSCRIPTION_ID = "next_subscription_id";
    /// A requested cancellation takes effect then.
    CANCEL_AT = "cancel_at";
    /// The tier that a pending downgrade leads to.
    PENDING_TIER_NAME = "pending_tier_name";
    /// The amount that a pending downgrade leads to.
    PENDING_AMOUNT = "pending_amount";
    /// Why the user may not be debited any more.
    COLLECTION_BAR = "collection_bar";
    /// The record of a reactivation that replaced this one: it is not collected any more.
    SUPERSEDED_BY = "superseded_by";
    /// Marks a row that is being moved to another due date: its removal is not a cancellation.
    MOVED_TO = "moved_to";

    /// History: the event behind the row.
    EVENT_ID = "event_id";
    /// History: where the event came from and what it was.
    SOURCE = "source";
    /// History: the version that the event found.
    PREVIOUS_VERSION = "previous_version";
    /// History: `applied`, or `ignored: …` with the reason.
    OUTCOME = "outcome";
    /// History: the event's stamp, so that a row can be rolled forward without the event.
    STAMP = "stamp";

    /// `gg_core`: partition key, `USER#<id>`.
    PK = "PK";
    /// `gg_core`: sort key, which tells what the row is about.
    SK = "SK";
    /// `gg_core`: the kind of row.
    TYPE = "type";
    /// `gg_core`: when the row was made.
    CREATED_AT = "createdAt";
    /// `gg_core`: when the row last changed.
    UPDATED_AT = "updatedAt";
    /// Profile: the tier; subscription: the tier of its plan is in [`PLAN_TIER`].
    TIER = "tier";
    /// Profile: the tier that dues by ACH have paid for.
    DUES_TIER = "duesTier";
    /// Profile: until when they have.
    DUES_UNTIL = "duesUntil";
    /// Profile: which billing record they were.
    DUES_RECORD = "duesRecord";
    /// Subscription: Stripe's id of it.
    SUBSCRIPTION = "subscriptionId";
    /// Subscription: its tier.
    PLAN_TIER = "planTier";
    /// Subscription: how it stands.
    SUBSCRIPTION_STATUS = "status";
    /// Subscription: Stripe's id of the customer.
    STRIPE_CUSTOMER_ID = "stripeCustomerId";
    /// Subscription: when the current period began.
    CURRENT_PERIOD_START = "currentPeriodStart";
    /// Subscription: when it ends.
    CURRENT_PERIOD_END = "currentPeriodEnd";
    /// Subscription: whether it will not be renewed.
    CANCEL_AT_PERIOD_END = "cancelAtPeriodEnd";
    /// Founder pass: which.
    PASS_TYPE = "passType";
    /// Founder pass: the payment that bought it.
    STRIPE_PAYMENT_INTENT_ID = "stripePaymentIntentId";
    /// Founder pass: when it was bought.
    PURCHASED_AT = "purchasedAt";
    /// Founder pass: always true.
    LIFETIME_ACCESS = "lifetimeAccess";
    /// Founder pass: the tier that it gives.
    GRANTED_TIER = "grantedTier";
    /// Entitlements: how many events there are.
    FACTS = "facts";
    /// Entitlements: the time up to which months have been counted.
    SEEN_AT = "seenAt";
    /// Entitlements: where the user stands.
    STANDING = "standing";
    /// Entitlements: an event, as much of it as is kept.
    STRIPE_EVENT = "event";
    /// Entitlements: the place of an event in the order in which they came.
    PLACE = "place";
    /// Entitlements: when an event was told.
    TOLD_AT = "toldAt";
    /// Entitlements: how many events have ever waited for an object.
    WAITERS = "waiters";
    /// Entitlements: where a waiting event is among the parked ones.
    PARKED_ID = "parkedId";
    /// Journal: the state of an aggregate.
    STATE = "state";
    /// Journal: a fact.
    FACT = "fact";
    /// Groups effect: the group that the user was put into.
    GROUP = "group";
    /// Groups effect: groups that the user was put into when it was last run.
    ADDED = "added";
    /// Groups effect: groups that the user was taken out of then.
    REMOVED = "removed";
    /// Groups effect: how many calls that took.
    CALLS = "calls";
    /// Groups effect: when it was last run to its end.
    APPLIED_AT = "appliedAt";
    /// Groups effect: the deliveries that have begun it and have not told how it ended.
    UNDER_WAY = "underWay";
    /// Groups effect: why it is parked.
    PARKED = "parked";
    /// Credits: how many there are.
    BALANCE = "balance";
    /// Credits: when some were last bought.
    LAST_TOP_UP = "lastTopUp";
    /// Credits: when those of a month were last granted.
    LAST_RESET = "lastReset";
    /// Credits: when they expire, in seconds of the Unix epoch. DynamoDB removes rows by it.
    EXPIRES_AT = "expiresAt";
    /// Credits: when a lasting membership brings the next ones, in seconds of the Unix epoch.
    NEXT_GRANT_AT = "nextGrantAt";
    /// Movement: its id.
    MOVEMENT_ID = "movementId";
    /// Movement: grant, top-up and so on.
    KIND = "kind";
    /// Movement: how many credits, negative when they go.
    AMOUNT = "amount";
    /// Movement: when it happened.
    OCCURRED_AT = "occurredAt";
    /// Movement: the payment that it comes from.
    PAYMENT_ID = "paymentId";
    /// Movement: the movement that it takes back.
    TAKES_BACK = "takesBack";
    /// Movement: what the credits were spent on.
    FEATURE = "feature";
}

/// What starts the names that stay in history and never reach the primary table.
pub const DATA_PREFIX: &str = "data_";
