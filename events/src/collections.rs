//! Collections: ACH return codes, eligibility for a debit, when to present again, and the signals that
//! trigger a debit.

pub mod ach;
pub mod correction;
pub mod eligibility;
pub mod incomes;
pub mod retry_plan;
pub mod wire;
