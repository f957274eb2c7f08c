//! Entitlements: tiers, profiles, credits, passes, and Stripe events.

pub mod credits;
pub mod group_effect;
pub mod profile;
pub mod rows;
pub mod stripe;
pub mod tier;
