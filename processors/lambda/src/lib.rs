//! The AWS Lambda artifact: all handlers in one binary, `bootstrap`, which serves the one that the
//! function's `_HANDLER` names.
//!
//! To add a handler, add it to [`Function`]; the compiler then demands its name, how it starts
//! ([`mod@start`]) and its permissions ([`permissions`]). The template is tested against those.

pub mod clients;
pub mod env;
pub mod function;
pub mod log;
pub mod permissions;
pub mod secret;
pub mod start;

mod collecting;

pub use clients::Clients;
pub use env::{Env, Unset};
pub use function::Function;
pub use start::{Failed, Handle, start};
