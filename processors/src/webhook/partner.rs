//! Stripe's events from EventBridge, where Stripe is a partner. The bus vouches for the sender, so there is no signature.

use serde::Serialize;

use super::take;
use crate::eventbridge::EventBridgeEvent;
use crate::inbox::{Inbox, InboxError};

/// What the sources of Stripe's events start with; the account follows.
pub const SOURCE: &str = "aws.partner/stripe.com/";

/// Why an event was not taken. Lambda delivers it again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PartnerError {
    /// Somebody else's event: a rule of the bus lets through what it should not.
    #[error("an event from {0:?} is not Stripe's: its source would start with {SOURCE}")]
    NotStripe(String),
    /// It could not be stored.
    #[error(transparent)]
    Inbox(#[from] InboxError),
}

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Received {
    /// Whether it is in the inbox; otherwise its type is not for us.
    pub handled: bool,
}

/// Puts an event into the inbox.
///
/// # Errors
/// It has to be delivered again, or is not Stripe's.
pub async fn stripe_partner<I: Inbox>(inbox: &I, event: EventBridgeEvent) -> Result<Received, PartnerError> {
    if !event.source.starts_with(SOURCE) {
        tracing::error!(delivery = event.id, source = event.source, "an event that is not Stripe's came as Stripe's");
        return Err(PartnerError::NotStripe(event.source));
    }
    let handled = take(inbox, event.detail.to_string().as_bytes()).await?;
    Ok(Received { handled })
}
