//! Unique names.

use uuid::Builder;

/// Unique across calls, processes and machines. It need not be hard to guess, so the generator at hand is
/// good enough; the operating system's would add a second version of its crate.
pub(crate) fn unique() -> String {
    Builder::from_random_bytes(fastrand::u128(..).to_le_bytes()).into_uuid().to_string()
}
