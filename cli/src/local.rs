//! The local runtime: streams, followers and gateways of the embedded program.

pub(crate) mod clock;
pub(crate) mod feeder;
pub(crate) mod followers;
pub(crate) mod gateway;
pub(crate) mod lock_wait;
pub(crate) mod projector;
pub(crate) mod settings;
pub(crate) mod shutdown;
pub(crate) mod stream_runner;
pub(crate) mod streams;
