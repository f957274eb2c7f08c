//! `dues usage`: counts actions against plan limits, lists users of a feature, deletes past days.

use dues_events::GoTime;
use dues_events::usage::{DailyUsage, reset_at, reset_date};
use dues_processors::usage::reset::usage_reset;
use dues_processors::usage::{Settings, count, count_json};
use dues_store::Store;
use dues_store::embedded::Embedded;
use dues_store::usage::count::{ActionRequest, CountOutcome};
use serde_json::{Value, json};
use std::path::Path;

use crate::args::{UsageCommand, UsageCountArgs};
use crate::local::clock::clock;
use crate::local::followers::catch_up;
use crate::local::settings;
use crate::output::{self, Error};

pub(crate) async fn run(data: &Path, command: &UsageCommand) -> Result<(), Error> {
    let settings = settings::usage()?;
    match command {
        UsageCommand::Count(args) => {
            let store = Store { clock: clock(args.as_of.as_of), ..output::open(data)? };
            let counted = count_one(&store, &settings, args).await;
            // The action log is written by the projector.
            catch_up(&store).await?;
            counted
        }
        UsageCommand::Who { feature, at_least, as_of, json } => {
            let store = Store { clock: clock(as_of.as_of), ..output::open_existing(data)? };
            check_feature(&settings, feature)?;
            let day = store.clock.now().date_naive();
            let mut used = store.usage_of_feature(feature, reset_date(day), *at_least, usize::MAX).await?;
            used.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.user.cmp(&b.user)));
            print_users(feature, &used, *json)
        }
        UsageCommand::Reset { as_of, json } => {
            let store = Store { clock: clock(as_of.as_of), ..output::open_existing(data)? };
            let bar = output::progress_of("rows", 0);
            let reset = usage_reset(&store, &settings, |reset| bar.set_position(reset.rows)).await?;
            bar.finish_and_clear();
            catch_up(&store).await?;
            if *json {
                return output::print_json(&json!(reset));
            }
            output::print_line(&format!(
                "{} usage rows deleted, through {}",
                output::grouped(reset.rows),
                reset.through
            ))
        }
    }
}

async fn count_one(store: &Store<Embedded>, settings: &Settings, args: &UsageCountArgs) -> Result<(), Error> {
    check_feature(settings, &args.feature)?;
    if args.action.is_empty() || args.user.is_empty() || args.key.as_deref() == Some("") {
        return Err(Error::Message("user, action and key must not be empty".to_owned()));
    }
    let request = ActionRequest {
        user: args.user.as_str().into(),
        feature: args.feature.clone(),
        kind: args.action.clone(),
        details: args.details.clone(),
        key: args.key.as_deref().map(Into::into),
    };
    match count(store, settings, &request).await? {
        CountOutcome::Done(count) if args.json => output::print_json(&count_json(&request.user, &count)),
        CountOutcome::Done(count) => {
            let limit = count.limit.map_or(String::new(), |limit| format!(" of {limit}"));
            output::print_line(&format!(
                "{}: {} {}{limit} today, plan {}",
                request.user, count.feature, count.after, count.action.plan
            ))
        }
        CountOutcome::AtLimit { used, limit } => {
            let reset = GoTime::trimmed(reset_at(store.clock.now())).text();
            Err(Error::Message(format!(
                "{} has reached the daily limit of {}: {used} of {limit} used, resets at {reset}",
                request.user, request.feature
            )))
        }
        CountOutcome::Different => Err(Error::Message(
            "the key was already used for a different action; nothing was counted".to_owned(),
        )),
    }
}

fn print_users(feature: &str, used: &[DailyUsage], json: bool) -> Result<(), Error> {
    if json {
        let rows: Vec<Value> = used.iter().map(|used| used.to_item().to_json()).collect();
        return output::print_json(&json!({"feature": feature, "usage": rows}));
    }
    if used.is_empty() {
        return output::print_line(&format!("no user of {feature} today reaches that count"));
    }
    let mut table = output::table(["user", "used", "limit", "last used"]);
    for used in used {
        let limit = used.limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
        table.add_row([
            used.user.to_string(),
            used.count.to_string(),
            limit,
            GoTime::trimmed(used.updated_at).text(),
        ]);
    }
    output::print_line(&table.to_string())
}

fn check_feature(settings: &Settings, feature: &str) -> Result<(), Error> {
    let features = settings.plans.features();
    if features.contains(feature) {
        return Ok(());
    }
    let known = features.into_iter().collect::<Vec<_>>().join(", ");
    Err(Error::Message(format!("unknown feature {feature:?}: the plans have {known}")))
}
