//! Collections: ACH return codes, eligibility for a debit, and the signals that trigger one.

pub mod ach;
pub mod eligibility;
pub mod wire;
