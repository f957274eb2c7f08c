//! `dues pay`, `waive`, `cancel`, `pause`, `resume`: one record of one member.

use dues_events::{SubscriptionId, UserId};
use dues_processors::collections::commands::{Command, Reply, command};
use dues_processors::collections::{Collector, Outcome, Visit};
use dues_processors::gateway::Gateway;
use dues_processors::gateway::sandbox::{Odds, Sandbox};
use dues_store::embedded::Embedded;
use dues_store::{CommitError, Store};
use std::path::Path;

use crate::args::{Act, Pay};
use crate::clock::clock;
use crate::follow::catch_up;
use crate::gateway::collector;
use crate::output::{self, Error};
use crate::patience::patiently;

pub(crate) async fn pay(data: &Path, args: &Pay) -> Result<(), Error> {
    let store = open(data, &args.act)?;
    let collector = collector(&store, &args.gateway, &args.age, &args.lock)?;
    let pay = Command::Pay { new_account: args.new_account };
    let is_locked = |reply: &Reply| matches!(reply, Reply::Visited(Visit::Locked));
    let reply = patiently(&store.clock, &args.lock, "the member is", is_locked, async || ask(&collector, &args.act, pay).await).await?;
    tell_and_catch_up(&collector, &args.act, reply).await
}

pub(crate) async fn run(data: &Path, act: &Act, command: Command) -> Result<(), Error> {
    let store = open(data, act)?;
    // These call no gateway.
    let collector = Collector::new(store.clone(), Sandbox::new(store, Odds::NONE));
    let reply = ask(&collector, act, command).await?;
    tell_and_catch_up(&collector, act, reply).await
}

fn open(data: &Path, act: &Act) -> Result<Store<Embedded>, Error> {
    Ok(Store { clock: clock(act.as_of.as_of), ..output::open_existing(data)? })
}

async fn ask<G: Gateway>(collector: &Collector<Embedded, G>, act: &Act, what: Command) -> Result<Reply, Error> {
    let (user, id) = (UserId::from(act.user.as_str()), SubscriptionId::from(act.subscription.as_str()));
    command(collector, &user, &id, what).await.map_err(|error| match error {
        CommitError::Rejected(rejection) => Error::Said(format!("{} cannot be done: {rejection}", what.verb())),
        CommitError::Store(error) => error.into(),
    })
}

async fn tell_and_catch_up<G: Gateway>(collector: &Collector<Embedded, G>, act: &Act, reply: Reply) -> Result<(), Error> {
    let told = tell(collector, act, reply).await;
    catch_up(&collector.store).await?;
    told
}

async fn tell<G: Gateway>(collector: &Collector<Embedded, G>, act: &Act, reply: Reply) -> Result<(), Error> {
    let id = SubscriptionId::from(act.subscription.as_str());
    if let Reply::Visited(visit) = &reply {
        refused(visit)?;
    }
    let record = match reply {
        Reply::Changed(record) => *record,
        Reply::Visited(_) => {
            collector.store.get_by_id(&id).await?.ok_or_else(|| Error::Said(format!("there is no billing record {id}")))?
        }
    };
    if act.json {
        return output::json(&output::record_json(&record));
    }
    let transaction = record.state.transaction_id().map(|id| format!(", transaction {id}")).unwrap_or_default();
    output::text(&format!("{}: {}{transaction}", record.subscription_id, output::status_text(&record)))
}

/// A payment that did not lead to a debit is a failure of the command.
fn refused(visit: &Visit) -> Result<(), Error> {
    let looked = match visit {
        Visit::Locked => return Err(Error::Said("another worker is collecting from this member: try again in a moment".into())),
        Visit::Done(looked) => looked,
    };
    match looked.first().map(|looked| &looked.outcome) {
        Some(Outcome::Left(reason)) => Err(Error::Said(format!("nothing was debited: {reason}"))),
        Some(Outcome::Refused(reason)) => Err(Error::Said(format!("the gateway refused: {reason}"))),
        Some(Outcome::Stale) => Err(Error::Said("nothing was debited: the record was too old, and is STALE now".into())),
        Some(Outcome::Cancelled) => {
            Err(Error::Said("nothing was debited: the cancellation that was asked for is due, and the record is CANCELLED now".into()))
        }
        Some(Outcome::InDoubt(reason)) => {
            output::say(&format!("the debit's answer is not known yet, and is found out by the next run: {reason}"));
            Ok(())
        }
        Some(Outcome::Sent | Outcome::Collected | Outcome::Free | Outcome::PauseExpired | Outcome::PauseEnding) | None => Ok(()),
    }
}
