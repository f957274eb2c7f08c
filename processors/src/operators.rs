//! Operator functions, generic over the engine: explain, audit, replay.

pub mod audit;
pub mod explain;
pub mod replay;
