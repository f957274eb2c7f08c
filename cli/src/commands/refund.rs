//! `dues refund`.

use dues_events::{SubscriptionId, UserId};
use dues_processors::collections::Collector;
use std::path::Path;

use super::{money, record_command};
use crate::args::RefundArgs;
use crate::local::followers::catch_up;
use crate::local::gateway::AnyGateway;
use crate::output::{self, Error};

pub(crate) async fn run(data: &Path, args: &RefundArgs) -> Result<(), Error> {
    let store = record_command::open_store(data, &args.record)?;
    let collector = Collector::new(store.clone(), AnyGateway::new(&store, &args.gateway)?);
    let (user, id) = (args.record.user.as_str(), args.record.subscription.as_str());
    let (user, id) = (UserId::from(user), SubscriptionId::from(id));
    let refunded = collector.refund_record(&user, &id, args.amount, &args.record.actor.name()).await;
    let (record, amount) = refunded.map_err(money::message)?;
    if args.record.json {
        output::print_json(&output::record_json(&record))?;
    } else {
        output::print_line(&format!("{id}: refund of ${amount} requested"))?;
    }
    catch_up(&store).await
}
