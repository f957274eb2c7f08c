//! Generated events and a small company.

pub mod company;
pub mod figureforge;
pub mod serenya;
pub mod stripe;
pub mod usage;
pub mod webhook;
