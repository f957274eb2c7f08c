//! Driving parked records through again.

use chrono::TimeDelta;
use dues_events::Rejection;
use dues_store::parked::Parked;
use dues_store::{Engine, StoreError};

use crate::ach_handler::{self, AchHandler};
use crate::batch::{Context, Fate, Incoming, Report, process};
use crate::memberships::{self, Memberships};

/// Runs a batch of a stream, by the stream's name; `None` for a stream that nothing here reads.
pub async fn process_stream<E: Engine>(context: &Context<E>, stream: &str, records: &[Incoming]) -> Option<Report> {
    match stream {
        ach_handler::STREAM => Some(process::<AchHandler, E>(context, records).await),
        memberships::STREAM => Some(process::<Memberships, E>(context, records).await),
        _ => None,
    }
}

/// Drives one parked record through its handler. What goes through is taken out of the parked ones; what does not, stays.
///
/// # Errors
/// What the store could not do.
pub async fn redrive<E: Engine>(context: &Context<E>, parked: &Parked) -> Result<Fate, StoreError> {
    let redriving = Context { hold: TimeDelta::zero(), redriving: true, ..context.clone() };
    let record = Incoming { sequence: parked.sequence.clone(), arrived: parked.parked_at, data: parked.body.clone() };
    let report = process_stream(&redriving, &parked.stream, &[record]).await;
    let fate = report.and_then(|report| report.fates.into_iter().next());
    let fate = fate.ok_or_else(|| StoreError::Invalid(format!("no handler reads stream {}", parked.stream)))?;
    match &fate {
        Fate::Applied | Fate::Duplicate | Fate::Ignored | Fate::Skipped => context.store.unpark(parked).await?,
        Fate::Parked | Fate::Failed(_) => {}
    }
    Ok(fate)
}

/// Drives those through that only came too early, again and again until none moves. Gives each that went through, with its fate.
///
/// # Errors
/// What the store could not do.
pub async fn release_waiting<E: Engine>(context: &Context<E>, stream: &str) -> Result<Vec<(Parked, Fate)>, StoreError> {
    let mut released = Vec::new();
    loop {
        let before = released.len();
        for parked in context.store.parked_with(stream, Rejection::NotYetSent.code()).await? {
            let fate = redrive(context, &parked).await?;
            if !matches!(fate, Fate::Parked | Fate::Failed(_)) {
                released.push((parked, fate));
            }
        }
        if released.len() == before {
            return Ok(released);
        }
    }
}
