//! The functions, by name.

/// A function of the deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Function {
    /// What became of debits.
    AchHandler,
    /// Who joins, leaves, pauses and changes tier.
    Memberships,
    /// The door that Stripe knocks on: its webhook, and its events on the bus.
    Stripe,
    /// Stripe's events, from the inbox to the entitlements.
    StripeWorker,
    /// What follows from a change of the tables.
    Projector,
    /// Queues the users for whom there is something to collect.
    CollectionsJob,
    /// Collects from them.
    CollectionsWorker,
    /// Collects when income was seen.
    WebhookWorker,
    /// Collects when a balance was seen.
    WebhookBalanceWorker,
    /// Collects from the users of an operator's list.
    BatchWorker,
    /// Tells of what falls due soon.
    NotifierScheduler,
    /// Tells others of changes of the tables.
    KinesisFeeder,
    /// What applications tell, for the read models.
    AppEvents,
    /// Objects that come and go in S3, for the read models.
    S3Events,
    /// Forgets what was used on days that are over.
    UsageReset,
    /// The REST API.
    Api,
}

/// There is no such function.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("_HANDLER: there is no handler {0:?}; the handlers are {names}", names = Function::ALL.map(Function::name).join(", "))]
pub struct NoSuchFunction(pub String);

impl Function {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::AchHandler,
        Self::Memberships,
        Self::Stripe,
        Self::StripeWorker,
        Self::Projector,
        Self::CollectionsJob,
        Self::CollectionsWorker,
        Self::WebhookWorker,
        Self::WebhookBalanceWorker,
        Self::BatchWorker,
        Self::NotifierScheduler,
        Self::KinesisFeeder,
        Self::AppEvents,
        Self::S3Events,
        Self::UsageReset,
        Self::Api,
    ];

    /// What `_HANDLER` calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AchHandler => "ach-handler",
            Self::Memberships => "memberships",
            Self::Stripe => "stripe",
            Self::StripeWorker => "stripe-worker",
            Self::Projector => "projector",
            Self::CollectionsJob => "collections-job",
            Self::CollectionsWorker => "collections-worker",
            Self::WebhookWorker => "webhook-worker",
            Self::WebhookBalanceWorker => "webhook-balance-worker",
            Self::BatchWorker => "batch-worker",
            Self::NotifierScheduler => "notifier-scheduler",
            Self::KinesisFeeder => "kinesis-feeder",
            Self::AppEvents => "app-events",
            Self::S3Events => "s3-events",
            Self::UsageReset => "usage-reset",
            Self::Api => "api",
        }
    }

    /// The one with that name.
    ///
    /// # Errors
    /// [`NoSuchFunction`] lists the names that there are.
    pub fn named(name: &str) -> Result<Self, NoSuchFunction> {
        Self::ALL.into_iter().find(|function| function.name() == name).ok_or_else(|| NoSuchFunction(name.to_owned()))
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
            error.starts_with("_HANDLER: there is no handler \"projektor\"; the handlers are ach-handler, memberships, stripe, "),
            "{error}"
        );
        assert!(Function::ALL.iter().all(|function| error.contains(function.name())), "{error}");
    }
}
