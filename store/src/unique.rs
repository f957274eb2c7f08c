//! Names that nobody else has.

use uuid::Builder;

/// Different for every caller, here and elsewhere. It need not be hard to guess, so the generator that is there anyway is good enough, and
/// the operating system's, which would come with a second version of its crate, is not needed.
pub(crate) fn unique() -> String {
    Builder::from_random_bytes(fastrand::u128(..).to_le_bytes()).into_uuid().to_string()
}
