//! An in-process payments service on a real socket, with the faults of services and networks.
//!
//! Its ledger has one entry per `Idempotency-Key`, however often it is posted; every request is recorded.
//! Faults and answers come from a script, or from a rule that looks at each request: then they do not depend
//! on the order in which concurrent requests arrive.

use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A fault of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    None,
    /// Not performed; never answered.
    Hang,
    /// Performed; never answered.
    HangAfter,
    /// Performed after this delay; not answered.
    Late(Duration),
    /// Performed at once, answered after this delay.
    Slow(Duration),
    /// Not performed; answered with this status.
    Status(u16),
    /// Performed; answered with this status.
    StatusAfter(u16),
    /// Not performed; the connection closes.
    DropBefore,
    /// Performed; the connection closes.
    DropAfter,
    /// Performed; the response is not JSON.
    Garbage,
    /// Performed; the response is not HTTP.
    Noise,
    /// Performed; the response is truncated.
    Half,
    /// Performed; answered twice.
    Twice,
    /// Performed; the response never ends.
    Endless,
    /// Not performed; answered with a redirect.
    Redirect,
    /// Performed; the response has no confirmation id.
    NoConfirmation,
}

impl Fault {
    /// Every fault, with delays relative to the client's timeout.
    #[must_use]
    pub fn all(timeout: Duration) -> Vec<Self> {
        let mut all = vec![
            Self::None,
            Self::Hang,
            Self::HangAfter,
            Self::Late(timeout * 2),
            Self::Slow(timeout / 10),
            Self::Slow(timeout * 2),
            Self::DropBefore,
            Self::DropAfter,
            Self::Garbage,
            Self::Noise,
            Self::Half,
            Self::Twice,
            Self::Endless,
            Self::Redirect,
            Self::NoConfirmation,
        ];
        let statuses = [400, 401, 403, 404, 409, 422, 429, 500, 503];
        all.extend(statuses.into_iter().flat_map(|status| [Self::Status(status), Self::StatusAfter(status)]));
        all
    }
}

/// How the service answers debits. It makes every refund, unless it refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// Accepted: the debit is in progress.
    #[default]
    Accept,
    /// Collected: the money has arrived.
    Collect,
    /// Refused: `402`, R01.
    Refuse,
}

/// A ledger entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The first request with this key.
    pub request: Value,
    /// The response to every request with this key.
    pub answer: Value,
    /// Whether it is a debit and money moves.
    pub is_debit: bool,
    /// Whether it is a refund and money moves.
    pub is_refund: bool,
}

/// A recorded request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The method: `POST` or `GET`.
    pub method: String,
    /// The path, such as `/v1/payments`.
    pub path: String,
    /// The headers, by lower-case name.
    pub headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Seen {
    /// The body of a post.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// Chooses the fault of a request, and the answer if its key is not in the ledger yet.
type Rule = dyn Fn(&Seen) -> (Fault, Policy) + Send + Sync;

/// The service. It stops when dropped.
pub struct Payments {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    accepts: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    policy: Policy,
    rule: Option<Arc<Rule>>,
    ledger: BTreeMap<String, Entry>,
    seen: Vec<Seen>,
    posts: VecDeque<Fault>,
    lookups: VecDeque<Fault>,
}

impl Drop for Payments {
    fn drop(&mut self) {
        self.accepts.abort();
    }
}

impl Payments {
    /// Starts a service without faults on a free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        let accepts = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, shared.clone()));
            }
        });
        Self { address, state, accepts }
    }

    /// The base URL.
    pub fn base(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Sets the policy for keys that are not in the ledger yet.
    pub fn set_policy(&self, policy: Policy) {
        self.state().policy = policy;
    }

    /// Asks this rule about every request from now on, instead of the script and the policy. Confirmations
    /// are named by their keys.
    pub fn set_rule(&self, rule: impl Fn(&Seen) -> (Fault, Policy) + Send + Sync + 'static) {
        self.state().rule = Some(Arc::new(rule));
    }

    /// Sets the faults of the next posts and lookups, in order; later requests have none.
    pub fn script(&self, posts: &[Fault], lookups: &[Fault]) {
        let mut state = self.state();
        state.posts = posts.iter().copied().collect();
        state.lookups = lookups.iter().copied().collect();
    }

    /// All entries by key.
    pub fn ledger(&self) -> BTreeMap<String, Entry> {
        self.state().ledger.clone()
    }

    /// The debits by key.
    pub fn debits(&self) -> BTreeMap<String, Entry> {
        self.ledger().into_iter().filter(|(_, entry)| entry.is_debit).collect()
    }

    /// The refunds by key.
    pub fn refunds(&self) -> BTreeMap<String, Entry> {
        self.ledger().into_iter().filter(|(_, entry)| entry.is_refund).collect()
    }

    /// Every request so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.state().seen.clone()
    }

    /// The number of posts and of lookups.
    pub fn counts(&self) -> (usize, usize) {
        let seen = self.seen();
        let posts = seen.iter().filter(|request| request.method == "POST").count();
        (posts, seen.len() - posts)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers one request and closes the connection.
async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let Some(request) = read_request(&mut stream).await else { return };
    let (fault, policy) = {
        let mut state = lock(&state);
        state.seen.push(request.clone());
        let script = if request.method == "POST" { &mut state.posts } else { &mut state.lookups };
        let scripted = script.pop_front().unwrap_or(Fault::None);
        state.rule.as_ref().map_or((scripted, state.policy), |rule| rule(&request))
    };
    let perform = || perform(&mut lock(&state), &request, policy);
    match fault {
        Fault::None => answer(&mut stream, perform()).await,
        Fault::Hang => hang(&mut stream).await,
        Fault::HangAfter => {
            perform();
            hang(&mut stream).await;
        }
        Fault::Late(by) => {
            tokio::time::sleep(by).await;
            perform();
        }
        Fault::Slow(by) => {
            let done = perform();
            tokio::time::sleep(by).await;
            answer(&mut stream, done).await;
        }
        Fault::Status(status) => answer(&mut stream, (status, secret())).await,
        Fault::StatusAfter(status) => {
            perform();
            answer(&mut stream, (status, secret())).await;
        }
        Fault::DropBefore => {}
        Fault::DropAfter => drop(perform()),
        Fault::Garbage => {
            perform();
            send(&mut stream, &http(200, &format!("<html>{}</html>", secret()))).await;
        }
        Fault::Noise => {
            perform();
            send(&mut stream, &secret().to_string()).await;
        }
        Fault::Half => {
            let (status, body) = perform();
            let whole = http(status, &body.to_string());
            send(&mut stream, &whole[..whole.len() - 9]).await;
        }
        Fault::Twice => {
            let (status, body) = perform();
            send(&mut stream, &http(status, &body.to_string()).repeat(2)).await;
        }
        Fault::Endless => {
            perform();
            send(&mut stream, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n").await;
            while stream.write_all(&[b' '; 4096]).await.is_ok() {}
        }
        Fault::Redirect => {
            send(
                &mut stream,
                "HTTP/1.1 307 Temporary Redirect\r\nlocation: /v2/payments\r\ncontent-length: 0\r\n\r\n",
            )
            .await;
        }
        Fault::NoConfirmation => {
            let (status, mut body) = perform();
            body["confirmation_id"] = Value::Null;
            body["refund_id"] = Value::Null;
            answer(&mut stream, (status, body)).await;
        }
    }
}

/// A body that must not appear anywhere afterwards.
fn secret() -> Value {
    json!({"error": "SECRET account 123456789012"})
}

/// Performs a request, once per key.
fn perform(state: &mut State, request: &Seen, policy: Policy) -> (u16, Value) {
    if request.method != "POST" {
        let key = request.path.rsplit('/').next().unwrap_or_default();
        return match state.ledger.get(key) {
            Some(entry) => (200, entry.answer.clone()),
            None => (404, json!({"status": "unknown"})),
        };
    }
    let body = request.json();
    let key = request.headers["idempotency-key"].clone();
    let number = match state.rule {
        Some(_) => key.clone(),
        None => (state.ledger.len() + 1).to_string(),
    };
    let is_refund = request.path.ends_with("/refunds");
    let moves_money = policy != Policy::Refuse;
    let entry = state.ledger.entry(key).or_insert_with(|| Entry {
        request: body.clone(),
        answer: if is_refund { refund_answer(policy, &number) } else { debit_answer(policy, &number) },
        is_debit: moves_money && !is_refund,
        is_refund: moves_money && is_refund,
    });
    assert_eq!(entry.request, body, "one key stands for one debit or refund");
    (if entry.is_debit || entry.is_refund { 201 } else { 402 }, entry.answer.clone())
}

fn debit_answer(policy: Policy, number: &str) -> Value {
    match policy {
        Policy::Accept => json!({"status": "accepted", "confirmation_id": format!("c-{number}")}),
        Policy::Collect => {
            json!({"status": "collected", "confirmation_id": format!("c-{number}"), "account_mask": "6789",
                "payment_type": "ACH"})
        }
        Policy::Refuse => {
            json!({"status": "refused", "return_code": "R01", "message": "Insufficient funds",
                "confirmation_id": null})
        }
    }
}

fn refund_answer(policy: Policy, number: &str) -> Value {
    match policy {
        Policy::Accept | Policy::Collect => {
            json!({"status": "refunded", "refund_id": format!("r-{number}")})
        }
        Policy::Refuse => json!({"status": "refused", "message": "Refunded before"}),
    }
}

async fn answer(stream: &mut TcpStream, (status, body): (u16, Value)) {
    send(stream, &http(status, &body.to_string())).await;
}

fn http(status: u16, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} Whatever\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Ignores errors: the client may have disconnected.
async fn send(stream: &mut TcpStream, text: &str) {
    if stream.write_all(text.as_bytes()).await.is_ok() {
        stream.flush().await.unwrap_or_default();
    }
}

/// Waits until the client disconnects.
async fn hang(stream: &mut TcpStream) {
    let mut rest = [0; 64];
    while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
}

async fn read_request(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8(bytes[..head].to_vec()).ok()?;
    let mut lines = text.lines();
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let mut body = bytes.split_off(head + 4);
    let length: usize = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Seen { method, path, headers, body })
}
