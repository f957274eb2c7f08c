//! `dues money`: money that arrived and pays for nothing.

use dues_processors::api::money_json;
use dues_processors::collections::Collector;
use dues_processors::collections::gateway::sandbox::{Odds, Sandbox};
use dues_processors::collections::money::MoneyError;
use dues_store::Store;
use dues_store::embedded::Embedded;
use std::path::Path;

use crate::args::MoneyCommand;
use crate::local::clock::clock;
use crate::local::followers::catch_up;
use crate::local::gateway::AnyGateway;
use crate::output::{self, Error};

pub(crate) async fn run(data: &Path, command: &MoneyCommand) -> Result<(), Error> {
    let store = Store { clock: clock(command.as_of()), ..output::open_existing(data)? };
    let collector = || Collector::new(store.clone(), Sandbox::new(store.clone(), Odds::NONE));
    let decided = match command {
        MoneyCommand::List { status, json } => return list(&store, *status, *json).await,
        MoneyCommand::Show { id } => return show(&store, id).await,
        MoneyCommand::Apply { id, to, actor, .. } => {
            collector().apply_money(id, &to.as_str().into(), &actor.name()).await
        }
        MoneyCommand::Dismiss { id, reason, actor, .. } => {
            collector().dismiss_money(id, reason, &actor.name()).await
        }
        MoneyCommand::Refund { id, actor, gateway: args, .. } => {
            let collector = Collector::new(store.clone(), AnyGateway::new(&store, args)?);
            collector.refund_money(id, &actor.name()).await
        }
    };
    let row = decided.map_err(message)?;
    output::print_line(&format!("{}: {}", row.id, row.status.as_str()))?;
    catch_up(&store).await
}

pub(super) fn message(error: MoneyError) -> Error {
    match error {
        MoneyError::Commit(error) => error.into(),
        MoneyError::Unknown(_)
        | MoneyError::Decided { .. }
        | MoneyError::Impossible(_)
        | MoneyError::InvalidAmount(_)
        | MoneyError::Refused(_)
        | MoneyError::Unknowable(_) => Error::Message(error.to_string()),
    }
}

async fn list(
    store: &Store<Embedded>,
    status: dues_store::billing::money::MoneyStatus,
    as_json: bool,
) -> Result<(), Error> {
    let rows = store.money_rows(status).await?;
    if as_json {
        return rows.iter().try_for_each(|row| output::print_line(&money_json(row).to_string()));
    }
    if rows.is_empty() {
        return output::print_line(&format!("no unapplied money is {}", status.as_str()));
    }
    let mut table = output::table(["id", "member", "amount", "settled", "reason"]);
    for row in &rows {
        table.add_row([
            row.id.clone(),
            row.user_id.to_string(),
            format!("{} {}", row.amount, row.currency),
            row.settled_at.to_rfc3339(),
            row.reason.as_str().to_owned(),
        ]);
    }
    output::print_line(&table.to_string())
}

async fn show(store: &Store<Embedded>, id: &str) -> Result<(), Error> {
    match store.money_row(id).await? {
        Some(row) => output::print_json(&money_json(&row)),
        None => Err(Error::Message(format!("no unapplied money {id}"))),
    }
}
