//! The chain of a record's history: each row carries a hash of the row before it and of its own content, and
//! the primary row carries the newest one. So a row that was changed, added or removed by hand is found.
//!
//! The hash has no key. It finds what was changed without knowing of it; what was changed knowingly, and
//! chained anew, is found because its decisions are taken again (see [`crate::billing::replay`]).
//!
//! Only committed rows are linked: a row builds on the head of the primary row that its event was decided on,
//! and becomes the head with the compare-and-set on that row. A row that lost its race, or was overwritten by
//! a later decision on its event, is in no chain.

use sha2::{Digest as _, Sha256};

use crate::attributes::DATA_CHAIN;
use crate::item::{Item, Value};

const SIZE: usize = 12;

/// A link: 12 bytes of a SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Chain([u8; SIZE]);

impl Chain {
    /// The link of a row that follows `head`; the first one follows none. All of the row counts, except the
    /// link itself.
    #[must_use]
    pub fn following(head: Option<Self>, row: &Item) -> Self {
        let mut hash = Sha256::new();
        hash.update(head.map_or([0; SIZE], |head| head.0));
        for (name, value) in row.iter().filter(|(name, _)| name.as_ref() != DATA_CHAIN) {
            add_bytes(&mut hash, name.as_bytes());
            add(&mut hash, value);
        }
        let mut link = [0; SIZE];
        link.copy_from_slice(&hash.finalize()[..SIZE]);
        Self(link)
    }

    /// The stored value.
    #[must_use]
    pub fn to_value(self) -> Value {
        Value::B(self.0.to_vec())
    }

    /// Decodes the bytes of [`Self::to_value`].
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

/// The length separates ("a","bc") from ("ab","c").
fn add_bytes(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

/// Each type has a tag; sets have no order.
fn add(hash: &mut Sha256, value: &Value) {
    let mut set = |tag: &[u8], mut members: Vec<&[u8]>| {
        members.sort_unstable();
        hash.update(tag);
        hash.update((members.len() as u64).to_le_bytes());
        members.into_iter().for_each(|member| add_bytes(hash, member));
    };
    match value {
        Value::Ss(texts) => set(b"SS", texts.iter().map(String::as_bytes).collect()),
        Value::Ns(numbers) => set(b"NS", numbers.iter().map(String::as_bytes).collect()),
        Value::Bs(all) => set(b"BS", all.iter().map(Vec::as_slice).collect()),
        Value::S(text) => {
            hash.update(b"S");
            add_bytes(hash, text.as_bytes());
        }
        Value::N(number) => {
            hash.update(b"N");
            add_bytes(hash, number.as_bytes());
        }
        Value::B(bytes) => {
            hash.update(b"B");
            add_bytes(hash, bytes);
        }
        Value::Bool(value) => hash.update(if *value { b"T" } else { b"F" }),
        Value::Null => hash.update(b"0"),
        Value::L(values) => {
            hash.update(b"L");
            hash.update((values.len() as u64).to_le_bytes());
            values.iter().for_each(|value| add(hash, value));
        }
        Value::M(item) => {
            hash.update(b"M");
            hash.update((item.len() as u64).to_le_bytes());
            for (name, value) in item {
                add_bytes(hash, name.as_bytes());
                add(hash, value);
            }
        }
    }
}
