//! Stripe's side: its events, how it signs them, and an inbox that can be looked into.

use dues_events::Time;
use dues_processors::inbox::{Inbox, InboxError};
use dues_processors::webhook::STREAM;
use dues_store::embedded::Embedded;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::json;
use sha2::Sha256;
use std::path::Path;

/// The `Stripe-Signature` header of a body.
pub fn sign(secret: &str, at: i64, body: &[u8]) -> String {
    format!("t={at},v1={}", signature(secret, at, body))
}

/// The signature in it.
pub fn signature(secret: &str, at: i64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("{at}.").as_bytes());
    mac.update(body);
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An event of this type about a user, as small as can be.
pub fn event(id: &str, kind: &str, user: &str) -> Vec<u8> {
    let object = json!({"object": "subscription", "id": "sub_1", "customer": "cus_1", "status": "active", "metadata": {"user_id": user}});
    json!({"id": id, "object": "event", "type": kind, "created": 1_772_452_800, "livemode": false, "data": {"object": object}})
        .to_string()
        .into()
}

/// The name and content of each of the events of both generations of Stripe's API, in the order of their names.
pub fn fixtures() -> Vec<(String, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../events/tests/stripe");
    let files = ["old", "new"].into_iter().flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
    let mut all: Vec<(String, Vec<u8>)> = files
        .map(|file| {
            let path = file.unwrap().path();
            (path.file_stem().unwrap().to_str().unwrap().to_owned(), std::fs::read(&path).unwrap())
        })
        .collect();
    all.sort();
    all
}

/// An inbox that is the durable stream of an embedded store, as in the program.
#[derive(Clone)]
pub struct StreamInbox(pub Embedded);

impl Inbox for StreamInbox {
    async fn put(&self, key: &str, body: &[u8]) -> Result<(), InboxError> {
        let record = (key.to_owned(), body.to_vec());
        self.0.append(STREAM, Time::default(), vec![record]).await.map(drop).map_err(|error| InboxError::Unavailable(error.to_string()))
    }
}

/// Keys and bodies of what is in the inbox, in its order.
pub fn received(engine: &Embedded) -> Vec<(String, Vec<u8>)> {
    engine.records(STREAM, 0, usize::from(u16::MAX)).unwrap().into_iter().map(|record| (record.partition_key, record.data)).collect()
}
