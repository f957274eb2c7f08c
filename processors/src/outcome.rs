//! Outcomes of idempotent writes: a fact or command is applied once under its id.

use dues_events::wire::WireError;

/// The outcome of recording a fact under its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactOutcome {
    /// Recorded now.
    Applied,
    /// Recorded before, with the same content.
    Duplicate,
    /// The id was used for other content: nothing was written.
    ConflictingContent,
}

/// The outcome of a command: `T` is the result of an accepted one, `R` the reason of a rejected one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandOutcome<T, R> {
    /// Done now.
    Applied(T),
    /// Done before, under the same id.
    Duplicate(T),
    /// The id was used for another command.
    ConflictingContent,
    /// The current state does not allow it.
    Rejected(R),
    /// The request cannot be decoded.
    Malformed(WireError),
}
