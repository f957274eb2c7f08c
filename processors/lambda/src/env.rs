//! The settings of a function, all from environment variables. A missing or invalid one is reported with its
//! name, before the first event.

use dues_events::Money;
use dues_events::collections::eligibility::Rules;
use dues_processors::read_models::ReadModels;
use dues_processors::runtime::settings;
use dues_projections::entitlements::dues::TierMap;
use dues_store::table::{ALL, BILLING_ACTIVITY, HISTORY, LOCKS, Table, TableId};
use std::collections::BTreeMap;

/// The region that the function runs in; Lambda sets it.
pub const REGION: &str = "AWS_REGION";
/// The endpoint of AWS, if not the default.
pub const ENDPOINT: &str = "AWS_ENDPOINT_URL";
/// The region of `billing-activity` and its history, under either of the two names in use.
pub const TABLE_REGIONS: [&str; 2] = ["DYNAMO_DB_REGION", "DYNAMO_REGION"];
/// The region of `locks`.
pub const LOCK_REGION: &str = "DYNAMO_LOCK_REGION";
/// The queue between `collections-job` and `collections-worker`.
pub const QUEUE: &str = "COLLECTIONS_QUEUE_URL";
/// The bus on which due dates and changes are published.
pub const BUS: &str = "EVENT_BUS_NAME";
/// The inbox: the stream of Stripe events.
pub const INBOX: &str = "STRIPE_STREAM_NAME";
/// The stream on which changes are published.
pub const SUBSCRIPTIONS: &str = "SUBSCRIPTIONS_STREAM_NAME";
/// The secret in Secrets Manager with Stripe's signing secrets, separated by newlines or commas.
pub const STRIPE_SECRET: &str = "STRIPE_SECRET_ARN";
/// The address of the payments service.
pub const GATEWAY: &str = "GATEWAY_URL";
/// The secret in Secrets Manager with the payments service's token.
pub const GATEWAY_SECRET: &str = "GATEWAY_SECRET_ARN";
/// The Cognito pool with the groups that follow the tiers; without it no groups are maintained.
pub const POOL: &str = "USER_POOL_ID";
/// The age in days after which a record is too old to collect.
pub const OLD_DAYS: &str = "OLD_SUBSCRIPTION_DAYS";
/// The least income that triggers a collection, in dollars.
pub const INCOME: &str = "INCOME_FROM";
/// The namespace of the metrics.
pub const NAMESPACE: &str = "METRICS_NAMESPACE";

/// A variable that keeps a function from starting: missing or invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unset {
    /// Not set, or empty.
    #[error("{0} is not set")]
    Missing(String),
    /// Invalid: the variable, and why.
    #[error("{0}: {1}")]
    Wrong(String, String),
    /// Invalid: the text names the variable.
    #[error("{0}")]
    Said(String),
}

/// The environment. An empty variable counts as not set: templates cannot omit one.
pub struct Env(Box<Look>);

type Look = dyn Fn(&str) -> Option<String> + Send + Sync;

impl Env {
    /// The environment of this process.
    #[must_use]
    pub fn of_process() -> Self {
        Self::of(|name| std::env::var(name).ok())
    }

    /// An environment from any lookup function.
    pub fn of(look: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Box::new(look))
    }

    /// A variable, if it is set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    /// A required variable.
    ///
    /// # Errors
    /// [`Unset::Missing`] names it.
    pub fn need(&self, name: &str) -> Result<String, Unset> {
        self.get(name).ok_or_else(|| Unset::Missing(name.to_owned()))
    }

    /// A parsed variable, or the default if it is not set.
    fn read<T>(
        &self,
        name: &str,
        otherwise: T,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, Unset> {
        match self.get(name) {
            Some(value) => read(&value).map_err(|why| Unset::Wrong(name.to_owned(), why)),
            None => Ok(otherwise),
        }
    }

    /// The names of the tables in the deployment, where they differ from the default.
    #[must_use]
    pub fn table_names(&self) -> BTreeMap<TableId, String> {
        ALL.into_iter().filter_map(|table| Some((table.id, self.get(&table_variable(table))?))).collect()
    }

    /// The tables in another region than the function, each with its region.
    ///
    /// # Errors
    /// The two variables for one region disagree.
    pub fn table_regions(&self, home: &str) -> Result<BTreeMap<TableId, String>, Unset> {
        let [region, other] = TABLE_REGIONS.map(|name| self.get(name));
        if let (Some(one), Some(two)) = (&region, &other)
            && one != two
        {
            let why = format!(
                "{one} is not the {two} that {} says, and both name the region of {}",
                TABLE_REGIONS[1], BILLING_ACTIVITY.name
            );
            return Err(Unset::Wrong(TABLE_REGIONS[0].to_owned(), why));
        }
        let tables = region.or(other);
        let locks = self.get(LOCK_REGION).or_else(|| tables.clone());
        let all = [(&BILLING_ACTIVITY, &tables), (&HISTORY, &tables), (&LOCKS, &locks)];
        let elsewhere = all.into_iter().filter_map(|(table, region)| Some((table.id, region.clone()?)));
        Ok(elsewhere.filter(|(_, region)| region != home).collect())
    }

    /// The rules of the collections engine.
    ///
    /// # Errors
    /// Names the variable that cannot be parsed.
    pub fn rules(&self) -> Result<Rules, Unset> {
        let usual = Rules::default();
        let days = |text: &str| text.parse().map_err(|_| format!("{text:?} is not a whole number of days"));
        let dollars = |text: &str| text.parse::<Money>().map_err(|error| error.to_string());
        Ok(Rules {
            old_days: self.read(OLD_DAYS, usual.old_days, days)?,
            income_from: self.read(INCOME, usual.income_from, dollars)?,
            ..usual
        })
    }

    /// The map from names on receipts to tiers.
    ///
    /// # Errors
    /// Names the entry that cannot be parsed.
    pub fn tiers(&self) -> Result<TierMap, Unset> {
        settings::tiers(|name| self.get(name)).map_err(Unset::Said)
    }

    /// The read models of the deployment, with their configuration.
    ///
    /// # Errors
    /// Names the variable, and what in it cannot be parsed.
    pub fn read_models(&self) -> Result<ReadModels, Unset> {
        settings::read_models(|name| self.get(name)).map_err(Unset::Said)
    }
}

/// The variable that renames a table, such as `TABLE_BILLING_ACTIVITY`.
#[must_use]
pub fn table_variable(table: &Table) -> String {
    format!("TABLE_{}", table.name.to_uppercase().replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(set: &'static [(&str, &str)]) -> Env {
        Env::of(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    fn regions(set: &'static [(&str, &str)]) -> Result<Vec<(TableId, String)>, Unset> {
        env(set).table_regions("eu-central-1").map(|regions| regions.into_iter().collect())
    }

    #[test]
    fn a_variable_that_is_missing_empty_or_wrong_is_named() {
        assert_eq!(env(&[]).need(QUEUE).unwrap_err().to_string(), "COLLECTIONS_QUEUE_URL is not set");
        assert_eq!(
            env(&[(QUEUE, " ")]).need(QUEUE).unwrap_err().to_string(),
            "COLLECTIONS_QUEUE_URL is not set"
        );
        let days = env(&[(OLD_DAYS, "ninety")]).rules().unwrap_err().to_string();
        assert_eq!(days, "OLD_SUBSCRIPTION_DAYS: \"ninety\" is not a whole number of days");
        assert!(env(&[(INCOME, "-1")]).rules().unwrap_err().to_string().starts_with("INCOME_FROM: "));
        let tiers = env(&[("DUES_TIERS", "Plus=GOLD")]).tiers().unwrap_err().to_string();
        assert_eq!(tiers, "DUES_TIERS: \"Plus=GOLD\": \"GOLD\" is not a tier");
        let models = env(&[("DUES_READ_MODELS", "users")]).read_models().unwrap_err().to_string();
        assert!(models.starts_with("DUES_READ_MODELS: \"users\" is not one of "), "{models}");
    }

    #[test]
    fn what_is_set_is_read_and_the_rest_is_as_usual() {
        assert_eq!(
            env(&[("DUES_PLANS", ""), ("DUES_READ_MODELS", "none")]).read_models(),
            Ok(ReadModels::from_iter([]))
        );
        assert_eq!(env(&[]).read_models(), Ok(ReadModels::default()));
        assert_eq!(env(&[]).rules().unwrap(), Rules::default());
        let rules = env(&[(OLD_DAYS, "30"), (INCOME, "100.50")]).rules().unwrap();
        assert_eq!((rules.old_days, rules.income_from), (30, Money::from_cents(10_050)));
        let names = env(&[("TABLE_BILLING_ACTIVITY", "prod-billing"), ("TABLE_GG_CORE", "")]).table_names();
        assert_eq!(names, BTreeMap::from([(TableId::BillingActivity, "prod-billing".to_owned())]));
    }

    #[test]
    fn the_billing_tables_may_be_in_another_region_and_the_locks_follow_them() {
        assert_eq!(regions(&[]), Ok(vec![]));
        assert_eq!(regions(&[("DYNAMO_REGION", "eu-central-1")]), Ok(vec![]), "here is not elsewhere");
        let us = "us-east-1".to_owned();
        let legacy = [(TableId::BillingActivity, us.clone()), (TableId::History, us.clone())];
        assert_eq!(
            regions(&[("DYNAMO_REGION", "us-east-1"), ("DYNAMO_LOCK_REGION", "eu-central-1")]),
            Ok(legacy.to_vec())
        );
        let all = [&legacy[..], &[(TableId::Locks, us)]].concat();
        assert_eq!(regions(&[("DYNAMO_DB_REGION", "us-east-1")]), Ok(all));
        let error = regions(&[("DYNAMO_DB_REGION", "us-east-1"), ("DYNAMO_REGION", "us-west-2")])
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("DYNAMO_DB_REGION: us-east-1 is not the us-west-2 that DYNAMO_REGION says"),
            "{error}"
        );
    }
}
