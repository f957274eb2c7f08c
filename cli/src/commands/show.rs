//! `dues show`: a member's billing records, profile, access, credits, passes, subscriptions and groups.

use dues_events::billing::record::{Record, membership_status};
use dues_events::collections::eligibility::Rules;
use dues_events::collections::retry_plan::RetryPlan;
use dues_events::entitlements::rows::{PassRow, SubscriptionRow};
use dues_events::{Balance, Item, Profile, SubscriptionId, UserId};
use dues_processors::api::{balance_json, planned_record_json};
use dues_processors::collections::planned_retries::planned_retries;
use dues_processors::entitlements;
use dues_processors::entitlements::groups::{Directory as _, LocalDirectory};
use dues_processors::read_models::Section;
use dues_projections::entitlements::access::Access;
use dues_store::Store;
use dues_store::embedded::Embedded;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

use crate::args::ShowArgs;
use crate::local::settings;
use crate::output::{self, Error};

/// Everything about a member.
struct Member {
    user: UserId,
    records: Vec<Record>,
    retries: BTreeMap<SubscriptionId, RetryPlan>,
    profile: Profile,
    access: Access,
    credits: Balance,
    passes: Vec<PassRow>,
    subscriptions: Vec<SubscriptionRow>,
    groups: Vec<String>,
    read_models: Vec<Section>,
}

pub(crate) async fn run(data: &Path, args: &ShowArgs) -> Result<(), Error> {
    let store = output::open_existing(data)?;
    let member = Member::read(&store, UserId::from(args.user.as_str())).await?;
    if args.json { output::print_json(&member.json()) } else { member.print() }
}

impl Member {
    async fn read(store: &Store<Embedded>, user: UserId) -> Result<Self, Error> {
        // Reading never creates a balance row.
        let credits = match store.balance(&user).await? {
            Some(_) => entitlements::credits(store, &user).await?,
            None => Balance::new(user.clone(), store.clock.now()),
        };
        let groups = LocalDirectory::new(store.engine.clone()).groups_of(&user, None).await;
        let records = store.list_by_user_id(&user).await?;
        Ok(Self {
            retries: planned_retries(store, &Rules::default(), &records).await?,
            records,
            profile: store.profile(&user).await?.unwrap_or_else(|| Profile::new(user.clone())),
            access: entitlements::access(store, &user).await?,
            credits,
            passes: store.founder_passes(&user).await?,
            subscriptions: store.subscriptions(&user).await?,
            groups: groups.map_err(|error| Error::Message(format!("groups of {user}: {error}")))?.groups,
            read_models: settings::read_models()?.show(store, &user).await?,
            user,
        })
    }

    fn json(&self) -> Value {
        let plain = |items: Vec<Item>| -> Vec<Value> { items.iter().map(Item::to_json).collect() };
        let shown = |record: &Record| planned_record_json(record, &self.retries);
        let mut member = json!({
            "user_id": self.user.as_str(),
            "status": membership_status(&self.records),
            "subscriptions": self.records.iter().map(shown).collect::<Vec<_>>(),
            "profile": {
                "tier": self.profile.tier.as_str(),
                "provider": self.profile.provider.map(|provider| provider.as_str()),
                "duesTier": self.profile.dues.as_ref().map(|dues| dues.tier.as_str()),
                "duesUntil": self.profile.dues.as_ref().map(|dues| dues.until.text()),
                "updatedAt": self.profile.updated_at.as_ref().map(|at| at.text()),
            },
            "access": {
                "tier": self.access.tier.as_str(),
                "source": self.access.source.as_str(),
                "until": self.access.until.as_ref().map(|until| until.text()),
                "why": self.access.why,
            },
            "credits": balance_json(&self.credits),
            "founder_passes": plain(self.passes.iter().map(PassRow::to_item).collect()),
            "stripe_subscriptions": plain(self.subscriptions.iter().map(SubscriptionRow::to_item).collect()),
            "groups": self.groups,
        });
        for section in &self.read_models {
            member[section.model.name()] = section.json.clone();
        }
        member
    }

    fn print(&self) -> Result<(), Error> {
        output::print_line(&format!("{}: {}", self.user, membership_status(&self.records)))?;
        self.print_records()?;
        let provider = self
            .profile
            .provider
            .map_or(String::new(), |provider| format!(", provider {}", provider.as_str()));
        output::print_line(&format!("profile   {}{provider}", self.profile.tier))?;
        let until =
            self.access.until.as_ref().map_or(String::new(), |until| format!(" until {}", until.text()));
        output::print_line(&format!("access    {}{until}: {}", self.access.tier, self.access.why))?;
        output::print_line(&format!("credits   {}{}", self.credits.balance, self.credit_times()))?;
        for pass in &self.passes {
            output::print_line(&format!(
                "pass      {} ({}), bought {}, {}",
                pass.kind,
                pass.tier,
                pass.purchased_at.text(),
                pass.payment
            ))?;
        }
        for subscription in &self.subscriptions {
            let end = subscription
                .period_end
                .as_ref()
                .map_or(String::new(), |end| format!(", period ends {}", end.text()));
            output::print_line(&format!(
                "stripe    {} {} {}{end}",
                subscription.id, subscription.tier, subscription.status
            ))?;
        }
        let groups = if self.groups.is_empty() { "none".to_owned() } else { self.groups.join(", ") };
        output::print_line(&format!("groups    {groups}"))?;
        for section in &self.read_models {
            for line in &section.lines {
                output::print_line(&format!("{:<9} {line}", section.model.name()))?;
            }
        }
        Ok(())
    }

    fn credit_times(&self) -> String {
        let body = balance_json(&self.credits);
        let times = [("expiresAt", "expire"), ("nextGrantAt", "next grant")];
        times
            .iter()
            .filter_map(|(name, word)| body[*name].as_str().map(|at| format!(", {word} {at}")))
            .collect()
    }

    fn print_records(&self) -> Result<(), Error> {
        if self.records.is_empty() {
            return output::print_line("no billing records");
        }
        let mut table = output::table([
            "due",
            "status",
            "amount",
            "tier",
            "transaction",
            "error",
            "process",
            "subscription",
        ]);
        for record in &self.records {
            table.add_row([
                record.billing_date.at().format("%Y-%m-%d").to_string(),
                output::status_text(record),
                record.plan.amount.to_string(),
                record.plan.tier.as_str().to_owned(),
                record.state.transaction_id().map(ToString::to_string).unwrap_or_default(),
                record
                    .state
                    .last_failure()
                    .map(|failed| failed.failure.text().to_owned())
                    .unwrap_or_default(),
                record.process.as_str().to_owned(),
                record.subscription_id.to_string(),
            ]);
        }
        output::print_line(&table.to_string())?;
        for (id, plan) in &self.retries {
            output::print_line(&format!("retry     {id} is presented again {plan}"))?;
        }
        Ok(())
    }
}
