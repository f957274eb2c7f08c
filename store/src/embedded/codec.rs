//! Rows as bytes.
//!
//! Hand-written for two properties that serde formats do not combine: attribute names that every row repeats
//! take one byte, and one attribute can be read without decoding the rest, which is how the writer's inner
//! loop checks conditions.

use dues_events::item::Name;
use dues_events::{Item, Value, attributes};

/// Names encoded as one byte. The position is the code, and is on disk: append only.
const NAMES: [&str; 49] = [
    attributes::USER_ID,
    attributes::BILLING_DATE,
    attributes::SUBSCRIPTION_ID,
    attributes::BILLING_AMOUNT,
    attributes::BILLING_STATUS,
    attributes::BILLING_PERIOD,
    attributes::TRANSACTION_ID,
    attributes::USIO_ERROR,
    attributes::INITIAL_RUN_DATE,
    attributes::COMPLETION_DATE,
    attributes::LAST_RUN_DATE,
    attributes::CREATED_DATE,
    attributes::PROCESS,
    attributes::UPDATED_EVENT,
    attributes::TERM,
    attributes::RECEIPT_ACCOUNT_MASK,
    attributes::RECEIPT_TIER_NAME,
    attributes::RECEIPT_PAYMENT_TYPE,
    attributes::BILLING_WEEK,
    attributes::PAUSE_DURATION_MONTHS,
    attributes::IS_PENDING_DOWNGRADE,
    attributes::VERSION,
    attributes::APPLIED,
    attributes::ANCHOR_DATE,
    attributes::MEMBER_SINCE,
    attributes::PROVIDER,
    attributes::ATTEMPTS,
    attributes::EARLIER_TRANSACTION_IDS,
    attributes::NEXT_SUBSCRIPTION_ID,
    attributes::CANCEL_AT,
    attributes::PENDING_TIER_NAME,
    attributes::PENDING_AMOUNT,
    attributes::COLLECTION_BAR,
    attributes::SUPERSEDED_BY,
    attributes::EVENT_ID,
    attributes::SOURCE,
    attributes::PREVIOUS_VERSION,
    attributes::OUTCOME,
    attributes::TOKEN,
    attributes::MOVED_TO,
    "data_amount",
    "data_payment_id",
    "data_processor",
    "stream",
    attributes::DATA_EVENT,
    attributes::DATA_CHAIN,
    attributes::CHAIN,
    attributes::DATA_ACTOR,
    attributes::ATTEMPT_LOG,
];

/// Code that precedes a name written in full.
const SPELLED: u8 = 255;

const TEXT: u8 = 0;
const NUMBER: u8 = 1;
const BYTES: u8 = 2;
const FALSE: u8 = 3;
const TRUE: u8 = 4;
const NULL: u8 = 5;
const LIST: u8 = 6;
const MAP: u8 = 7;
const TEXTS: u8 = 8;
const NUMBERS: u8 = 9;
const BYTES_SET: u8 = 10;

/// The bytes are not the output of [`encode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the stored row is damaged")]
pub(crate) struct Damaged;

/// Encodes an item, without the attributes that have columns of their own.
pub(crate) fn encode(item: &Item, without: [Option<&str>; 2]) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    for (name, value) in item {
        if !without.contains(&Some(name.as_ref())) {
            put_attribute(&mut out, name, value);
        }
    }
    out
}

/// Decodes an item.
pub(crate) fn decode(bytes: &[u8]) -> Result<Item, Damaged> {
    let mut reader = Reader(bytes);
    // A billing record has about thirty attributes, and so has its history; two more are columns.
    let mut item = Item::with_capacity(bytes.len().div_ceil(16).min(36));
    while !reader.0.is_empty() {
        let (name, value) = reader.attribute()?;
        item.set(name, value);
    }
    Ok(item)
}

/// Reads one attribute, skipping the others.
pub(crate) fn find(bytes: &[u8], wanted: &str) -> Result<Option<Value>, Damaged> {
    let mut reader = Reader(bytes);
    while !reader.0.is_empty() {
        let name = match reader.name()? {
            Ok(name) | Err(name) => name,
        };
        if name == wanted {
            return reader.value().map(Some);
        }
        reader.skip()?;
    }
    Ok(None)
}

fn put_attribute(out: &mut Vec<u8>, name: &str, value: &Value) {
    match NAMES.iter().position(|known| *known == name) {
        // The array is shorter than 255.
        Some(code) => out.push(code as u8),
        None => {
            out.push(SPELLED);
            put_bytes(out, name.as_bytes());
        }
    }
    put_value(out, value);
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    let mut tagged = |tag: u8, bytes: &[u8]| {
        out.push(tag);
        put_bytes(out, bytes);
    };
    match value {
        Value::S(text) => tagged(TEXT, text.as_bytes()),
        Value::N(number) => tagged(NUMBER, number.as_bytes()),
        Value::B(bytes) => tagged(BYTES, bytes),
        Value::Bool(false) => out.push(FALSE),
        Value::Bool(true) => out.push(TRUE),
        Value::Null => out.push(NULL),
        Value::L(values) => {
            out.push(LIST);
            put_length(out, values.len());
            values.iter().for_each(|value| put_value(out, value));
        }
        Value::M(item) => {
            out.push(MAP);
            put_length(out, item.len());
            item.iter().for_each(|(name, value)| put_attribute(out, name, value));
        }
        Value::Ss(texts) => put_set(out, TEXTS, texts),
        Value::Ns(numbers) => put_set(out, NUMBERS, numbers),
        Value::Bs(all) => put_set(out, BYTES_SET, all),
    }
}

fn put_set<T: AsRef<[u8]>>(out: &mut Vec<u8>, tag: u8, members: &[T]) {
    out.push(tag);
    put_length(out, members.len());
    members.iter().for_each(|member| put_bytes(out, member.as_ref()));
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_length(out: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Result<u8, Damaged> {
        let (first, rest) = self.0.split_first().ok_or(Damaged)?;
        self.0 = rest;
        Ok(*first)
    }

    fn length(&mut self) -> Result<usize, Damaged> {
        let mut length = 0;
        for shift in (0..=28).step_by(7) {
            let byte = self.byte()?;
            length |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(length);
            }
        }
        Err(Damaged)
    }

    fn bytes(&mut self) -> Result<&'a [u8], Damaged> {
        let length = self.length()?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Damaged)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<&'a str, Damaged> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Damaged)
    }

    /// A known name (`Ok`), or one written in full (`Err`).
    fn name(&mut self) -> Result<Result<&'static str, &'a str>, Damaged> {
        match self.byte()? {
            SPELLED => self.text().map(Err),
            code => NAMES.get(usize::from(code)).map(|name| Ok(*name)).ok_or(Damaged),
        }
    }

    fn attribute(&mut self) -> Result<(Name, Value), Damaged> {
        let name = match self.name()? {
            Ok(known) => Name::Borrowed(known),
            Err(spelled) => Name::Owned(spelled.to_owned()),
        };
        Ok((name, self.value()?))
    }

    fn value(&mut self) -> Result<Value, Damaged> {
        Ok(match self.byte()? {
            TEXT => Value::S(self.text()?.to_owned()),
            NUMBER => Value::N(self.text()?.to_owned()),
            BYTES => Value::B(self.bytes()?.to_vec()),
            FALSE => Value::Bool(false),
            TRUE => Value::Bool(true),
            NULL => Value::Null,
            LIST => Value::L(self.many(Self::value)?),
            MAP => Value::M(self.many(Self::attribute)?.into_iter().collect()),
            TEXTS => Value::Ss(self.many(|reader| reader.text().map(str::to_owned))?),
            NUMBERS => Value::Ns(self.many(|reader| reader.text().map(str::to_owned))?),
            BYTES_SET => Value::Bs(self.many(|reader| reader.bytes().map(<[u8]>::to_vec))?),
            _ => return Err(Damaged),
        })
    }

    fn many<T>(&mut self, mut one: impl FnMut(&mut Self) -> Result<T, Damaged>) -> Result<Vec<T>, Damaged> {
        let count = self.length()?;
        (0..count).map(|_| one(self)).collect()
    }

    fn skip(&mut self) -> Result<(), Damaged> {
        match self.0.first() {
            Some(&(TEXT | NUMBER | BYTES)) => {
                self.byte()?;
                self.bytes().map(|_| ())
            }
            Some(_) | None => self.value().map(|_| ()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            ".{0,40}".prop_map(Value::S),
            any::<u64>().prop_map(Value::number),
            any::<Vec<u8>>().prop_map(Value::B),
            any::<bool>().prop_map(Value::Bool),
            Just(Value::Null),
            prop::collection::vec(".{0,5}", 0..4).prop_map(Value::Ss),
            prop::collection::vec("[0-9]{1,5}", 0..4).prop_map(Value::Ns),
            prop::collection::vec(any::<Vec<u8>>(), 0..4).prop_map(Value::Bs),
        ];
        leaf.prop_recursive(3, 24, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::L),
                prop::collection::vec((names(), inner), 0..5)
                    .prop_map(|all| Value::M(all.into_iter().map(|(n, v)| (n.into(), v)).collect())),
            ]
        })
    }

    fn names() -> impl Strategy<Value = String> {
        prop_oneof![prop::sample::select(NAMES.as_slice()).prop_map(str::to_owned), ".{0,200}"]
    }

    proptest! {
        #[test]
        fn every_item_comes_back(all in prop::collection::vec((names(), values()), 0..12)) {
            let item: Item = all.into_iter().map(|(name, value)| (name.into(), value)).collect();
            let bytes = encode(&item, [None, None]);
            prop_assert_eq!(decode(&bytes).unwrap(), item.clone());
            for (name, value) in &item {
                let found = find(&bytes, name).unwrap();
                prop_assert_eq!(found.as_ref(), Some(value));
            }
            prop_assert_eq!(find(&bytes, "no such name").unwrap(), item.get("no such name").cloned());
        }

        #[test]
        fn damaged_bytes_are_an_error_and_never_a_panic(bytes in any::<Vec<u8>>()) {
            let _ = decode(&bytes);
            let _ = find(&bytes, "version");
        }
    }

    /// The codes are on disk: a name may be appended, never moved.
    #[test]
    fn codes_stay_where_they_are() {
        assert_eq!(
            (NAMES[0], NAMES[20], NAMES[21], NAMES[38], NAMES[43]),
            ("user_id", "is_pending_downgrade", "version", "stamp", "stream")
        );
        let mut sorted = NAMES.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), NAMES.len(), "a name stands twice");
    }
}
