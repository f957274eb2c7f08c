//! The functions, by name.

/// A function of the deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Function {
    /// Applies settlements, returns, refunds and chargebacks of debits.
    AchHandler,
    /// Applies membership changes: joining, leaving, pausing, changing tier.
    Memberships,
    /// Ingests Stripe events: the signed webhook, and partner events on the bus.
    StripeWebhook,
    /// Applies Stripe events from the inbox to the entitlements.
    StripeWorker,
    /// Derives entitlements, groups and read models from changes of the tables.
    Projector,
    /// Queues the users with something to collect.
    CollectionsJob,
    /// Collects from queued users.
    CollectionsWorker,
    /// Collects on an income signal.
    WebhookWorker,
    /// Collects on a balance signal.
    WebhookBalanceWorker,
    /// Collects from the users on an operator's list.
    BatchWorker,
    /// Publishes what falls due soon.
    NotifierScheduler,
    /// Completes interrupted commits, and lists unapplied money that is not listed.
    Sweep,
    /// Books the timers of entitlements: periods that end, months that bring credits.
    EntitlementClock,
    /// Publishes changes of the tables.
    KinesisFeeder,
    /// Ingests application events for the read models.
    AppEvents,
    /// Ingests S3 object events for the read models.
    S3Events,
    /// Deletes the usage counts of past days.
    UsageReset,
    /// The REST API.
    Api,
}

/// No function has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("_HANDLER: there is no handler {0:?}; the handlers are {names}",
    names = Function::ALL.map(Function::name).join(", "))]
pub struct NoSuchFunction(pub String);

impl Function {
    /// All functions.
    pub const ALL: [Self; 18] = [
        Self::AchHandler,
        Self::Memberships,
        Self::StripeWebhook,
        Self::StripeWorker,
        Self::Projector,
        Self::CollectionsJob,
        Self::CollectionsWorker,
        Self::WebhookWorker,
        Self::WebhookBalanceWorker,
        Self::BatchWorker,
        Self::NotifierScheduler,
        Self::Sweep,
        Self::EntitlementClock,
        Self::KinesisFeeder,
        Self::AppEvents,
        Self::S3Events,
        Self::UsageReset,
        Self::Api,
    ];

    /// Its name in `_HANDLER`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AchHandler => "ach-handler",
            Self::Memberships => "memberships",
            Self::StripeWebhook => "stripe",
            Self::StripeWorker => "stripe-worker",
            Self::Projector => "projector",
            Self::CollectionsJob => "collections-job",
            Self::CollectionsWorker => "collections-worker",
            Self::WebhookWorker => "webhook-worker",
            Self::WebhookBalanceWorker => "webhook-balance-worker",
            Self::BatchWorker => "batch-worker",
            Self::NotifierScheduler => "notifier-scheduler",
            Self::Sweep => "sweep",
            Self::EntitlementClock => "entitlement-clock",
            Self::KinesisFeeder => "kinesis-feeder",
            Self::AppEvents => "app-events",
            Self::S3Events => "s3-events",
            Self::UsageReset => "usage-reset",
            Self::Api => "api",
        }
    }

    /// The function with that name.
    ///
    /// # Errors
    /// [`NoSuchFunction`] lists the valid names.
    pub fn named(name: &str) -> Result<Self, NoSuchFunction> {
        Self::ALL
            .into_iter()
            .find(|function| function.name() == name)
            .ok_or_else(|| NoSuchFunction(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_found_by_its_name_and_an_unknown_name_is_answered_with_all_of_them() {
        for function in Function::ALL {
            assert_eq!(Function::named(function.name()), Ok(function));
        }
        let error = Function::named("projektor").unwrap_err().to_string();
        assert!(
            error.starts_with(
                "_HANDLER: there is no handler \"projektor\"; the handlers are ach-handler, \
                memberships, stripe, "
            ),
            "{error}"
        );
        assert!(Function::ALL.iter().all(|function| error.contains(function.name())), "{error}");
    }
}
