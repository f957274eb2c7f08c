//! Idempotency: which events a record has taken. A duplicate and conflicting content are two answers.

use sha2::{Digest as _, Sha256};

use crate::ids::EventId;

/// The idempotency token of one event on one record: 8 bytes of the id's hash, 7 of the content's, and the
/// outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IdempotencyToken {
    id: [u8; 8],
    content: [u8; 7],
    /// An event can write to several records; only its last write carries the seal. Sealed means done;
    /// unsealed means interrupted, to be continued with the remaining writes.
    pub sealed: bool,
    /// The event was rejected and parked. Recorded so that a redelivery after the record has changed does
    /// not apply it by accident.
    pub parked: bool,
}

/// How to treat an event that its record has parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ParkedEvents {
    /// Redelivery: it stays parked.
    #[default]
    Keep,
    /// Redrive by an operator: decide again.
    Redrive,
}

/// Result of looking up an event on a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// Not taken before.
    Unknown,
    /// Taken before, with the same content.
    Known {
        /// Whether the event's last write is done.
        sealed: bool,
    },
    /// Parked before.
    Parked,
    /// Taken before under the same id, with other content.
    ConflictingContent,
}

const SIZE: usize = 16;

impl IdempotencyToken {
    /// Hashes an event's id and its content, field by field.
    #[must_use]
    pub fn new(id: &EventId, content: &[&str]) -> Self {
        let mut hash = Sha256::new();
        for field in content {
            // The length separates ("a","bc") from ("ab","c").
            hash.update((field.len() as u64).to_le_bytes());
            hash.update(field.as_bytes());
        }
        Self {
            id: first(&Sha256::digest(id.as_str().as_bytes())),
            content: first(&hash.finalize()),
            sealed: true,
            parked: false,
        }
    }

    /// The same token for a write that is not the event's last.
    #[must_use]
    pub fn unsealed(self) -> Self {
        Self { sealed: false, ..self }
    }

    /// The same token for a record that rejected the event.
    #[must_use]
    pub fn as_parked(self) -> Self {
        Self { parked: true, ..self }
    }

    /// The token as 16 bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(&self.id);
        bytes[8..15].copy_from_slice(&self.content);
        bytes[15] = u8::from(self.sealed) | u8::from(self.parked) << 1;
        bytes
    }

    /// Decodes the bytes of [`IdempotencyToken::to_bytes`].
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        (bytes.len() == SIZE).then(|| Self {
            id: first(bytes),
            content: first(&bytes[8..]),
            sealed: bytes[15] & 1 == 1,
            parked: bytes[15] & 2 == 2,
        })
    }

    /// Whether both tokens have the same id and content, ignoring seal and parking.
    #[must_use]
    pub fn same_event(&self, other: &Self) -> bool {
        self.id == other.id && self.content == other.content
    }
}

fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[..N]);
    out
}

/// Tokens of the events that a record has taken, oldest first, packed as in the `applied` attribute.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Applied(Vec<u8>);

/// Limit of events per record, more than any legitimate billing period has. Beyond it, events are parked
/// instead of growing the row.
pub const MAX_EVENTS: usize = 512;

impl Applied {
    /// Looks up an event.
    #[must_use]
    pub fn lookup(&self, token: &IdempotencyToken) -> Lookup {
        let mut found = Lookup::Unknown;
        for entry in
            self.0.chunks_exact(SIZE).filter_map(IdempotencyToken::read).filter(|entry| entry.id == token.id)
        {
            found = match (found, entry.same_event(token)) {
                // An applied entry takes precedence over an earlier parked one.
                (Lookup::Known { sealed }, true) => {
                    Lookup::Known { sealed: sealed || (entry.sealed && !entry.parked) }
                }
                (Lookup::Unknown | Lookup::Parked | Lookup::ConflictingContent, true) if entry.parked => {
                    Lookup::Parked
                }
                (Lookup::Unknown | Lookup::Parked | Lookup::ConflictingContent, true) => {
                    Lookup::Known { sealed: entry.sealed }
                }
                (Lookup::Unknown, false) => Lookup::ConflictingContent,
                (known @ (Lookup::Known { .. } | Lookup::Parked | Lookup::ConflictingContent), false) => {
                    known
                }
            };
        }
        found
    }

    /// Whether exactly this token, with its flags, is present.
    #[must_use]
    pub fn contains(&self, token: &IdempotencyToken) -> bool {
        self.0.chunks_exact(SIZE).any(|entry| entry == token.to_bytes())
    }

    /// Appends a token.
    pub fn push(&mut self, token: IdempotencyToken) {
        self.0.extend_from_slice(&token.to_bytes());
    }

    /// The number of tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len() / SIZE
    }

    /// Whether there are no tokens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The packed bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Decodes packed bytes; `None` when they are not whole tokens.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        bytes.len().is_multiple_of(SIZE).then(|| Self(bytes.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_and_different_are_two_answers() {
        let token = |id: &str, content: &[&str]| IdempotencyToken::new(&id.into(), content);
        let mut applied = Applied::default();
        assert_eq!(applied.lookup(&token("a", &["x"])), Lookup::Unknown);
        applied.push(token("a", &["x", "y"]).unsealed());
        assert_eq!(applied.lookup(&token("a", &["x", "y"])), Lookup::Known { sealed: false });
        assert_eq!(applied.lookup(&token("a", &["xy"])), Lookup::ConflictingContent);
        applied.push(token("a", &["x", "y"]));
        assert_eq!(applied.lookup(&token("a", &["x", "y"])), Lookup::Known { sealed: true });
        assert_eq!(applied.lookup(&token("b", &["x", "y"])), Lookup::Unknown);
        let mut parked = Applied::default();
        parked.push(token("a", &["x"]).as_parked());
        assert_eq!(
            (parked.lookup(&token("a", &["x"])), parked.lookup(&token("a", &["y"]))),
            (Lookup::Parked, Lookup::ConflictingContent)
        );
        parked.push(token("a", &["x"]));
        assert_eq!(
            parked.lookup(&token("a", &["x"])),
            Lookup::Known { sealed: true },
            "driven through again"
        );
        assert_eq!((applied.len(), Applied::read(applied.as_bytes())), (2, Some(applied.clone())));
        assert_eq!(Applied::read(&[1, 2, 3]), None);
    }
}
