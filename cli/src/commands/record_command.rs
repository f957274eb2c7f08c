//! Commands on one billing record, shared by `dues pay`, `waive`, `cancel`, `pause` and `resume`.

use dues_events::{SubscriptionId, UserId};
use dues_processors::collections::commands::{Command, CommandReply, command};
use dues_processors::collections::gateway::Gateway;
use dues_processors::collections::gateway::sandbox::{Odds, Sandbox};
use dues_processors::collections::{Collector, Outcome, UserCollection};
use dues_store::embedded::Embedded;
use dues_store::{CommitError, Store};
use std::path::Path;

use crate::args::RecordArgs;
use crate::local::clock::clock;
use crate::local::followers::catch_up;
use crate::output::{self, Error};

/// Runs a command that needs no payment gateway.
pub(super) async fn run(data: &Path, args: &RecordArgs, command: Command) -> Result<(), Error> {
    let store = open_store(data, args)?;
    let collector = Collector::new(store.clone(), Sandbox::new(store, Odds::NONE));
    let reply = execute(&collector, args, command).await?;
    finish(&collector, args, reply).await
}

pub(super) fn open_store(data: &Path, args: &RecordArgs) -> Result<Store<Embedded>, Error> {
    Ok(Store { clock: clock(args.as_of.as_of), ..output::open_existing(data)? })
}

pub(super) async fn execute<G: Gateway>(
    collector: &Collector<Embedded, G>,
    args: &RecordArgs,
    action: Command,
) -> Result<CommandReply, Error> {
    let (user, id) = (UserId::from(args.user.as_str()), SubscriptionId::from(args.subscription.as_str()));
    command(collector, &user, &id, action, &args.actor.name()).await.map_err(|error| match error {
        CommitError::Rejected(rejection) => {
            Error::Message(format!("{} rejected: {rejection}", action.verb()))
        }
        CommitError::Store(error) => error.into(),
    })
}

/// Prints the result, then lets the followers catch up.
pub(super) async fn finish<G: Gateway>(
    collector: &Collector<Embedded, G>,
    args: &RecordArgs,
    reply: CommandReply,
) -> Result<(), Error> {
    let printed = print_result(collector, args, reply).await;
    catch_up(&collector.store).await?;
    printed
}

async fn print_result<G: Gateway>(
    collector: &Collector<Embedded, G>,
    args: &RecordArgs,
    reply: CommandReply,
) -> Result<(), Error> {
    let id = SubscriptionId::from(args.subscription.as_str());
    if let CommandReply::Collected(collection) = &reply {
        check_debited(collection)?;
    }
    let record = match reply {
        CommandReply::Changed(record) => *record,
        CommandReply::Collected(_) => collector
            .store
            .get_by_id(&id)
            .await?
            .ok_or_else(|| Error::Message(format!("no billing record {id}")))?,
    };
    if args.json {
        return output::print_json(&output::record_json(&record));
    }
    let transaction =
        record.state.transaction_id().map(|id| format!(", transaction {id}")).unwrap_or_default();
    output::print_line(&format!("{}: {}{transaction}", record.subscription_id, output::status_text(&record)))
}

/// A payment without a debit is a failure of the command.
fn check_debited(collection: &UserCollection) -> Result<(), Error> {
    let outcomes = match collection {
        UserCollection::Locked => {
            return Err(Error::Message(
                "another worker is collecting from this member: try again in a moment".into(),
            ));
        }
        UserCollection::Done(outcomes) => outcomes,
    };
    let failure = match outcomes.first().map(|record| &record.outcome) {
        Some(Outcome::Skipped(reason)) => format!("nothing was debited: {reason}"),
        Some(Outcome::Withdrawn(reason)) => format!("nothing was debited: {reason}"),
        Some(Outcome::Refused(reason)) => format!("the gateway refused the debit: {reason}"),
        Some(Outcome::Stale) => "nothing was debited: the record is too old and is now STALE".to_owned(),
        Some(Outcome::Cancelled) => {
            "nothing was debited: a requested cancellation is due, the record is now CANCELLED".to_owned()
        }
        Some(Outcome::InDoubt(reason)) => {
            output::notice(&format!(
                "the gateway's answer is not known yet; the next collections run looks it up: {reason}"
            ));
            return Ok(());
        }
        Some(
            Outcome::Sent | Outcome::Collected | Outcome::Free | Outcome::PauseExpired | Outcome::PauseEnding,
        )
        | None => return Ok(()),
    };
    Err(Error::Message(failure))
}
