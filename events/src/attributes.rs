//! Attribute names of all tables, defined once.

/// The base attributes of `billing-activity`, in their documented order.
pub const BILLING_ACTIVITY_ATTRIBUTES: [&str; 21] = [
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
    /// Partition key: the user.
    USER_ID = "user_id";
    /// Sort key of the primary table: the due date.
    BILLING_DATE = "billing_date";
    /// The record's UUID.
    SUBSCRIPTION_ID = "subscription_id";
    /// The amount to charge, as decimal text.
    BILLING_AMOUNT = "billing_amount";
    /// The record's status.
    BILLING_STATUS = "billing_status";
    /// `MM/YYYY` of the due date.
    BILLING_PERIOD = "billing_period";
    /// Transaction id of the latest attempt.
    TRANSACTION_ID = "transaction_id";
    /// The latest failure; empty when completed.
    USIO_ERROR = "usio_error";
    /// Time of the first attempt.
    INITIAL_RUN_DATE = "initial_run_date";
    /// When the record reached a terminal state.
    COMPLETION_DATE = "completion_date";
    /// Time of the latest update; sort key of the history table.
    LAST_RUN_DATE = "last_run_date";
    /// Creation time of the record.
    CREATED_DATE = "created_date";
    /// The process that last updated the record.
    PROCESS = "process";
    /// Tag of the latest lifecycle update.
    UPDATED_EVENT = "updated_event";
    /// MONTHLY or YEARLY.
    TERM = "term";
    /// Last four digits of the account.
    RECEIPT_ACCOUNT_MASK = "receipt_account_mask";
    /// `Tier:version`.
    RECEIPT_TIER_NAME = "receipt_tier_name";
    /// Payment type, such as ACH.
    RECEIPT_PAYMENT_TYPE = "receipt_payment_type";
    /// Which Friday, for Friday billing.
    BILLING_WEEK = "billing_week";
    /// Length of the pause in months.
    PAUSE_DURATION_MONTHS = "pause_duration_months";
    /// Whether a downgrade is pending until the end of the period.
    IS_PENDING_DOWNGRADE = "is_pending_downgrade";

    /// Number of commits of this record; the condition of the commit's compare-and-set.
    VERSION = "version";
    /// Idempotency tokens of the applied events, packed by [`crate::billing::idempotency::Applied`].
    APPLIED = "applied";
    /// The date from which all due dates are counted.
    ANCHOR_DATE = "anchor_date";
    /// Start of the membership that this record belongs to: the time of its (re)activation.
    MEMBER_SINCE = "member_since";
    /// `cognito` or `local`.
    PROVIDER = "provider";
    /// The highest number of an attempt of this system.
    ATTEMPTS = "attempts";
    /// The attempts with everything that the bank reported on them, as compact JSON.
    ATTEMPT_LOG = "attempt_log";
    /// How much of the payment went back to the member.
    REFUNDED_AMOUNT = "refunded_amount";
    /// A change of several records that has begun with this one, until it is complete.
    PENDING_CHANGE = "pending_change";
    /// Length in months of a pause that goes over to the next record, because this one was collected.
    PAUSE_PASSED_ON = "pause_passed_on";
    /// The due date before the record was moved to another one.
    ORIGINAL_DUE_DATE = "original_due_date";
    /// Older rows of this program: idempotency key of the latest attempt.
    ATTEMPT_KEY = "attempt_key";
    /// The due date for which a reminder was sent.
    DUE_NOTICE = "due_notice";
    /// Older rows of this program: transaction ids of the attempts before the current one.
    EARLIER_TRANSACTION_IDS = "earlier_transaction_ids";
    /// Id of the following period's record.
    NEXT_SUBSCRIPTION_ID = "next_subscription_id";
    /// When a requested cancellation takes effect.
    CANCEL_AT = "cancel_at";
    /// Target tier of a pending downgrade.
    PENDING_TIER_NAME = "pending_tier_name";
    /// Target amount of a pending downgrade.
    PENDING_AMOUNT = "pending_amount";
    /// Why the user is barred from collection.
    COLLECTION_BAR = "collection_bar";
    /// The bank's notification of change, with code and time, while no new account is on file.
    AWAITS_CORRECTION = "awaits_correction";
    /// When the member put a new account on file, after or before a notification of change.
    NEW_ACCOUNT_AT = "new_account_at";
    /// The reactivation's record that replaced this one; this one is not collected again.
    SUPERSEDED_BY = "superseded_by";
    /// New due date of a row that is being moved. Removing such a row is not a cancellation.
    MOVED_TO = "moved_to";

    /// History: id of the event that produced the row.
    EVENT_ID = "event_id";
    /// History: source and type of the event.
    SOURCE = "source";
    /// History: the version before the event.
    PREVIOUS_VERSION = "previous_version";
    /// History: `applied`, or `ignored: …` with the reason.
    OUTCOME = "outcome";
    /// History: the event's idempotency token, so that a row can be rolled forward without the event.
    TOKEN = "stamp";
    /// History: the event itself, as compact JSON: see [`crate::billing::event_codec`].
    DATA_EVENT = "data_event";
    /// History: hash of the row before and of this row.
    DATA_CHAIN = "data_chain";
    /// History: who acted, where a person did.
    DATA_ACTOR = "data_actor";
    /// History: why, in words.
    DATA_REASON = "data_reason";
    /// History: the signal that caused an attempt.
    DATA_CAUSE = "data_cause";
    /// Primary row: the chain's newest link, that of the latest committed history row.
    CHAIN = "chain";

    /// `gg_core`: partition key, `USER#<id>`.
    PK = "PK";
    /// `gg_core`: sort key; its prefix names the kind of row.
    SK = "SK";
    /// `gg_core`: the kind of row.
    TYPE = "type";
    /// `gg_core`: creation time of the row.
    CREATED_AT = "createdAt";
    /// `gg_core`: time of the row's last change.
    UPDATED_AT = "updatedAt";
    /// Profile: the tier. A subscription keeps its tier in [`PLAN_TIER`].
    TIER = "tier";
    /// Profile: the tier paid for by ACH dues.
    DUES_TIER = "duesTier";
    /// Profile: end of the period paid for by ACH dues.
    DUES_UNTIL = "duesUntil";
    /// Profile: the billing record of those dues.
    DUES_RECORD = "duesRecord";
    /// Subscription: its Stripe id.
    SUBSCRIPTION = "subscriptionId";
    /// Subscription: tier of its plan.
    PLAN_TIER = "planTier";
    /// Subscription: its Stripe status.
    SUBSCRIPTION_STATUS = "status";
    /// Subscription: Stripe's customer id.
    STRIPE_CUSTOMER_ID = "stripeCustomerId";
    /// Subscription: start of the current period.
    CURRENT_PERIOD_START = "currentPeriodStart";
    /// Subscription: end of the current period.
    CURRENT_PERIOD_END = "currentPeriodEnd";
    /// Subscription: whether it ends with the current period instead of renewing.
    CANCEL_AT_PERIOD_END = "cancelAtPeriodEnd";
    /// Founder pass: its type.
    PASS_TYPE = "passType";
    /// Founder pass: the payment for it.
    STRIPE_PAYMENT_INTENT_ID = "stripePaymentIntentId";
    /// Founder pass: time of purchase.
    PURCHASED_AT = "purchasedAt";
    /// Founder pass: always true.
    LIFETIME_ACCESS = "lifetimeAccess";
    /// Founder pass: the tier it grants.
    GRANTED_TIER = "grantedTier";
    /// Entitlements: number of events.
    FACTS = "facts";
    /// Entitlements: the time up to which months have been counted.
    SEEN_AT = "seenAt";
    /// Entitlements: the user's current entitlement state.
    STANDING = "standing";
    /// Entitlements: the part of the timer index that a head is in; absent without a timer.
    TIMER_BUCKET = "timerBucket";
    /// Entitlements: when the head must be looked at again without an event, with nine digits.
    TIMER_AT = "timerAt";
    /// Entitlements: since when a user's subscription needs attention.
    SINCE = "since";
    /// Entitlements: an event, reduced to the stored fields.
    STRIPE_EVENT = "event";
    /// Entitlements: position of an event in arrival order.
    PLACE = "place";
    /// When an event or fact was stored.
    RECORDED_AT = "toldAt";
    /// Entitlements: number of events that have ever waited for an object's owner.
    WAITERS = "waiters";
    /// Entitlements: id of a waiting event among the parked records.
    PARKED_ID = "parkedId";
    /// Journal: state of an aggregate.
    STATE = "state";
    /// Journal: a fact.
    FACT = "fact";
    /// Groups effect: the group of the applied tier.
    GROUP = "group";
    /// Groups effect: groups added by the last run.
    ADDED = "added";
    /// Groups effect: groups removed by the last run.
    REMOVED = "removed";
    /// Groups effect: number of API calls of the last run.
    CALLS = "calls";
    /// Groups effect: when the last run completed.
    APPLIED_AT = "appliedAt";
    /// Groups effect: deliveries that started a run and have not recorded its result.
    UNDER_WAY = "underWay";
    /// Groups effect: the code under which it is parked.
    PARKED = "parked";
    /// Credits: the balance.
    BALANCE = "balance";
    /// Credits: time of the last top-up.
    LAST_TOP_UP = "lastTopUp";
    /// Credits: time of the last monthly grant.
    LAST_RESET = "lastReset";
    /// Credits: expiry time, in seconds of the Unix epoch. DynamoDB removes rows by it (TTL).
    EXPIRES_AT = "expiresAt";
    /// Credits: time of the next grant of a founder pass, in seconds of the Unix epoch.
    NEXT_GRANT_AT = "nextGrantAt";
    /// Movement: its id.
    MOVEMENT_ID = "movementId";
    /// Movement: its kind, such as grant or top-up.
    KIND = "kind";
    /// Movement: number of credits; negative when they are taken.
    AMOUNT = "amount";
    /// Movement: when the fact occurred.
    OCCURRED_AT = "occurredAt";
    /// Movement: the payment behind it.
    PAYMENT_ID = "paymentId";
    /// Movement: the movement it reverses.
    TAKES_BACK = "takesBack";
    /// Movement: the feature the credits were spent on.
    FEATURE = "feature";
}

/// Prefix of attributes that are written to history and never to the primary table.
pub const DATA_PREFIX: &str = "data_";
