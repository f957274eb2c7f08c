//! Stripe's events from EventBridge, where Stripe is a partner source. The bus authenticates the sender, so
//! there is no signature.

use serde::Serialize;

use super::take;
use crate::aws::triggers::eventbridge::EventBridgeEvent;
use crate::messaging::inbox::{Inbox, InboxError};

/// Prefix of the `source` of Stripe's events; the account follows.
pub const SOURCE: &str = "aws.partner/stripe.com/";

/// Why an event was not accepted. Lambda delivers it again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PartnerError {
    /// Not an event of Stripe: a rule of the bus matches too much.
    #[error("an event from {0:?} is not Stripe's: its source would start with {SOURCE}")]
    NotStripe(String),
    /// The event could not be stored.
    #[error(transparent)]
    Inbox(#[from] InboxError),
}

/// The result of an accepted event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Received {
    /// Whether the event is in the inbox; `false` for a type that is not read here.
    pub handled: bool,
}

/// Stores an event in the inbox.
///
/// # Errors
/// [`PartnerError::NotStripe`] for an event from another source; [`PartnerError::Inbox`] when it could not
/// be stored and must be redelivered.
pub async fn stripe_partner<I: Inbox>(inbox: &I, event: EventBridgeEvent) -> Result<Received, PartnerError> {
    if !event.source.starts_with(SOURCE) {
        tracing::error!(
            delivery = event.id,
            source = event.source,
            "an event that is not Stripe's came as Stripe's"
        );
        return Err(PartnerError::NotStripe(event.source));
    }
    let handled = take(inbox, event.detail.to_string().as_bytes()).await?;
    Ok(Received { handled })
}
