//! Entitlements: what payments, subscriptions and passes give a user.

pub mod access;
pub mod dues;
pub mod effective_tier;
pub mod stripe;
