//! `dues pay`: debits one billing record now.

use dues_processors::collections::UserCollection;
use dues_processors::collections::commands::{Command, CommandReply};
use std::path::Path;

use super::record_command::{execute, finish, open_store};
use crate::args::PayArgs;
use crate::local::gateway::collector;
use crate::local::lock_wait::retry_while_locked;
use crate::output::Error;

pub(crate) async fn run(data: &Path, args: &PayArgs) -> Result<(), Error> {
    let store = open_store(data, &args.record)?;
    let collector = collector(&store, &args.gateway, &args.age, &args.lock)?;
    let pay = Command::Pay { new_account: args.new_account, authorised: args.authorised };
    let is_locked = |reply: &CommandReply| matches!(reply, CommandReply::Collected(UserCollection::Locked));
    let reply = retry_while_locked(&store.clock, &args.lock, "this member is", is_locked, async || {
        execute(&collector, &args.record, pay).await
    })
    .await?;
    finish(&collector, &args.record, reply).await
}
