//! Which events a record has taken: "seen before" and "seen before, but different" are two answers.

use sha2::{Digest as _, Sha256};

use crate::ids::EventId;

/// One event as a record remembers it: 8 bytes of the id's hash, 7 of the content's, and what became of it here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp {
    id: [u8; 8],
    content: [u8; 7],
    /// An event can touch several records. Only the last of its writes carries the seal: an event whose seal is found is done,
    /// one that is found without it was cut short and goes on where it stopped.
    pub sealed: bool,
    /// The event could not happen and was parked. Remembered too: delivered again after the record has changed, it must not happen by accident.
    pub parked: bool,
}

/// The answer to "have you seen this event?".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// No.
    Never,
    /// Yes, the same.
    Same {
        /// Whether it was finished.
        sealed: bool,
    },
    /// Yes, and it was parked.
    Parked,
    /// Its id, with other content.
    Different,
}

const SIZE: usize = 16;

impl Stamp {
    /// Stamps an event by its id and its content, field by field.
    #[must_use]
    pub fn new(id: &EventId, content: &[&str]) -> Self {
        let mut hash = Sha256::new();
        for field in content {
            // The length keeps ("a","bc") and ("ab","c") apart.
            hash.update((field.len() as u64).to_le_bytes());
            hash.update(field.as_bytes());
        }
        Self { id: first(&Sha256::digest(id.as_str().as_bytes())), content: first(&hash.finalize()), sealed: true, parked: false }
    }

    /// The same stamp on a write that is not the event's last.
    #[must_use]
    pub fn unsealed(self) -> Self {
        Self { sealed: false, ..self }
    }

    /// The same stamp on a record that refused the event.
    #[must_use]
    pub fn refused(self) -> Self {
        Self { parked: true, ..self }
    }

    /// Sixteen bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(&self.id);
        bytes[8..15].copy_from_slice(&self.content);
        bytes[15] = u8::from(self.sealed) | u8::from(self.parked) << 1;
        bytes
    }

    /// Reads what [`Stamp::to_bytes`] made.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        (bytes.len() == SIZE).then(|| Self {
            id: first(bytes),
            content: first(&bytes[8..]),
            sealed: bytes[15] & 1 == 1,
            parked: bytes[15] & 2 == 2,
        })
    }

    /// Whether both stand for one event with one content, whatever became of it where.
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

/// The events that a record has taken, oldest first, packed as the `applied` attribute holds them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Applied(Vec<u8>);

/// More events than any billing period can honestly see: beyond this an event is parked instead of growing the row.
pub const MOST_EVENTS: usize = 512;

impl Applied {
    /// Whether, and how, the event was seen.
    #[must_use]
    pub fn seen(&self, stamp: &Stamp) -> Seen {
        let mut seen = Seen::Never;
        for entry in self.0.chunks_exact(SIZE).filter_map(Stamp::read).filter(|entry| entry.id == stamp.id) {
            seen = match (seen, entry.same_event(stamp)) {
                // What went through after all counts, also when it was parked before.
                (Seen::Same { sealed }, true) => Seen::Same { sealed: sealed || (entry.sealed && !entry.parked) },
                (Seen::Never | Seen::Parked | Seen::Different, true) if entry.parked => Seen::Parked,
                (Seen::Never | Seen::Parked | Seen::Different, true) => Seen::Same { sealed: entry.sealed },
                (Seen::Never, false) => Seen::Different,
                (kept @ (Seen::Same { .. } | Seen::Parked | Seen::Different), false) => kept,
            };
        }
        seen
    }

    /// Whether this very stamp is among them.
    #[must_use]
    pub fn holds(&self, stamp: &Stamp) -> bool {
        self.0.chunks_exact(SIZE).any(|entry| entry == stamp.to_bytes())
    }

    /// Remembers one more.
    pub fn push(&mut self, stamp: Stamp) {
        self.0.extend_from_slice(&stamp.to_bytes());
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len() / SIZE
    }

    /// None yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The packed bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Reads packed bytes; `None` when they are not whole stamps.
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
        let stamp = |id: &str, content: &[&str]| Stamp::new(&id.into(), content);
        let mut applied = Applied::default();
        assert_eq!(applied.seen(&stamp("a", &["x"])), Seen::Never);
        applied.push(stamp("a", &["x", "y"]).unsealed());
        assert_eq!(applied.seen(&stamp("a", &["x", "y"])), Seen::Same { sealed: false });
        assert_eq!(applied.seen(&stamp("a", &["xy"])), Seen::Different);
        applied.push(stamp("a", &["x", "y"]));
        assert_eq!(applied.seen(&stamp("a", &["x", "y"])), Seen::Same { sealed: true });
        assert_eq!(applied.seen(&stamp("b", &["x", "y"])), Seen::Never);
        let mut parked = Applied::default();
        parked.push(stamp("a", &["x"]).refused());
        assert_eq!((parked.seen(&stamp("a", &["x"])), parked.seen(&stamp("a", &["y"]))), (Seen::Parked, Seen::Different));
        parked.push(stamp("a", &["x"]));
        assert_eq!(parked.seen(&stamp("a", &["x"])), Seen::Same { sealed: true }, "driven through again");
        assert_eq!((applied.len(), Applied::read(applied.as_bytes())), (2, Some(applied.clone())));
        assert_eq!(Applied::read(&[1, 2, 3]), None);
    }
}
