//! `dues usage`: counts actions against plans, tells who uses a feature, and forgets days that are over.

use dues_events::GoTime;
use dues_events::usage::{Used, reset_at, reset_date};
use dues_processors::read_models::usage::{Settings, count, count_json};
use dues_processors::usage_reset::usage_reset;
use dues_store::Store;
use dues_store::embedded::Embedded;
use dues_store::usage::count::{Asked, Counted};
use serde_json::{Value, json};
use std::path::Path;

use crate::args::{UsageCommand, UsageCount};
use crate::clock::clock;
use crate::follow::catch_up;
use crate::output::{self, Error};
use crate::settings;

pub(crate) async fn run(data: &Path, command: &UsageCommand) -> Result<(), Error> {
    let settings = settings::usage()?;
    match command {
        UsageCommand::Count(args) => {
            let store = Store { clock: clock(args.as_of.as_of), ..output::open(data)? };
            let counted = count_one(&store, &settings, args).await;
            // The log follows.
            catch_up(&store).await?;
            counted
        }
        UsageCommand::Who { feature, at_least, as_of, json } => {
            let store = Store { clock: clock(as_of.as_of), ..output::open_existing(data)? };
            known(&settings, feature)?;
            let day = store.clock.now().date_naive();
            let mut used = store.usage_of_feature(feature, reset_date(day), *at_least, usize::MAX).await?;
            used.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.user.cmp(&b.user)));
            who(feature, &used, *json)
        }
        UsageCommand::Reset { as_of, json } => {
            let store = Store { clock: clock(as_of.as_of), ..output::open_existing(data)? };
            let bar = output::progress_of("rows", 0);
            let reset = usage_reset(&store, &settings, |reset| bar.set_position(reset.rows)).await?;
            bar.finish_and_clear();
            catch_up(&store).await?;
            if *json {
                return output::json(&json!(reset));
            }
            output::text(&format!("forgot {} rows of usage up to {}", output::grouped(reset.rows), reset.through))
        }
    }
}

async fn count_one(store: &Store<Embedded>, settings: &Settings, args: &UsageCount) -> Result<(), Error> {
    known(settings, &args.feature)?;
    if args.action.is_empty() || args.user.is_empty() || args.key.as_deref() == Some("") {
        return Err(Error::Said("user, action and key must not be empty".to_owned()));
    }
    let asked = Asked {
        user: args.user.as_str().into(),
        feature: args.feature.clone(),
        kind: args.action.clone(),
        details: args.details.clone(),
        key: args.key.as_deref().map(Into::into),
    };
    match count(store, settings, &asked).await? {
        Counted::Done(count) if args.json => output::json(&count_json(&asked.user, &count)),
        Counted::Done(count) => {
            let most = count.limit.map_or(String::new(), |limit| format!(" of {limit}"));
            output::text(&format!("{}: {} {}{most} today, on plan {}", asked.user, count.feature, count.after, count.action.plan))
        }
        Counted::AtLimit { used, limit } => {
            let reset = GoTime::trimmed(reset_at(store.clock.now())).text();
            Err(Error::Said(format!(
                "{} has used {} {used} times today, the most is {limit}: again after {reset}",
                asked.user, asked.feature
            )))
        }
        Counted::Different => Err(Error::Said("the key was used for another action: nothing was counted".to_owned())),
    }
}

fn who(feature: &str, used: &[Used], json: bool) -> Result<(), Error> {
    if json {
        let rows: Vec<Value> = used.iter().map(|used| used.to_item().to_json()).collect();
        return output::json(&json!({"feature": feature, "usage": rows}));
    }
    if used.is_empty() {
        return output::text(&format!("nobody has used {feature} so often today"));
    }
    let mut table = output::table(["user", "used", "limit", "last"]);
    for used in used {
        let limit = used.limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
        table.add_row([used.user.to_string(), used.count.to_string(), limit, GoTime::trimmed(used.updated_at).text()]);
    }
    output::text(&table.to_string())
}

fn known(settings: &Settings, feature: &str) -> Result<(), Error> {
    let features = settings.plans.features();
    if features.contains(feature) {
        return Ok(());
    }
    let known = features.into_iter().collect::<Vec<_>>().join(", ");
    Err(Error::Said(format!("{feature:?} is not one of {known}")))
}
