//! Fifty clients send records while the server is killed, again and again: what was acknowledged is
//! processed, once.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::Sender;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dues_store::embedded::Embedded;
use dues_store::table::HISTORY;
use dues_store::{Engine as _, Store, SystemClock};

use crate::ingest_http::processed;
use crate::support::records::{activate, plain};
use crate::support::run::{Dues, alone};
use crate::support::server::{Serving, TIMEOUT};
use crate::support::workload::Dice;

const CLIENTS: usize = 50;
const KILLS: usize = 20;
/// Members per request, each with two records: they join, and they cancel.
const MEMBERS: usize = 5;

#[test]
fn acknowledged_records_of_fifty_clients_are_processed_once_through_twenty_kills() {
    let _alone = alone();
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mut dice = Dice::new(seed);
    let dues = Dues::new();
    let (mut acknowledged, mut unanswered) = (BTreeSet::new(), BTreeSet::new());
    for round in 0..KILLS {
        let serving = Serving::start(&dues);
        let (acknowledge, acknowledgements) = std::sync::mpsc::channel();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (address, acknowledge) = (serving.address, acknowledge.clone());
                std::thread::spawn(move || send(address, &format!("{round}-{client}"), &acknowledge))
            })
            .collect();
        drop(acknowledge);
        // Kill at any moment after the first acknowledgement.
        let first = acknowledgements.recv_timeout(TIMEOUT).unwrap();
        std::thread::sleep(Duration::from_millis(20) + dice.within(Duration::from_millis(300)));
        serving.kill();
        acknowledged.extend(std::iter::once(first).chain(acknowledgements).flatten());
        unanswered.extend(clients.into_iter().flat_map(|client| client.join().unwrap()));
    }
    let serving = Serving::start(&dues);
    processed(&dues, "memberships");
    serving.signal("-TERM");
    assert_eq!(serving.ended().0.code(), Some(0));
    println!(
        "seed {seed}: {} members were acknowledged, {} requests were cut short",
        acknowledged.len(),
        unanswered.len() / MEMBERS
    );
    assert!(acknowledged.len() > KILLS * CLIENTS, "{} are too few", acknowledged.len());
    assert!(!unanswered.is_empty(), "no kill cut a request short");

    let changes = changes(&dues);
    for user in &acknowledged {
        assert_eq!(
            changes.get(user).map(Vec::as_slice),
            Some(&[format!("join-{user}"), format!("leave-{user}")][..]),
            "seed {seed}"
        );
    }
    // An unacknowledged member has both events or none, and comes from one of the unanswered requests.
    for (user, events) in changes.iter().filter(|(user, _)| !acknowledged.contains(*user)) {
        assert!(unanswered.contains(user) && events.len() == 2, "seed {seed}: {user} {events:?}");
    }
    assert_eq!(dues.parked(), Vec::<serde_json::Value>::new());
    let audit = dues.run(&["audit"]);
    assert_eq!(audit.status.code(), Some(0), "seed {seed}: {}", String::from_utf8_lossy(&audit.stdout));
}

/// Sends members until a request is not answered, and reports the acknowledged ones. Returns those of the
/// last request.
fn send(address: SocketAddr, name: &str, acknowledge: &Sender<Vec<String>>) -> Vec<String> {
    let mut connection = TcpStream::connect(address).map(BufReader::new);
    for n in 0.. {
        let users: Vec<String> = (0..MEMBERS).map(|member| format!("u-{name}-{n}-{member}")).collect();
        let joins = users.iter().map(|user| activate(&format!("join-{user}"), user).to_string());
        let leaves = users
            .iter()
            .map(|user| plain(&format!("leave-{user}"), "CANCEL", user, "2026-01-06").to_string());
        let body = joins.chain(leaves).collect::<Vec<_>>().join("\n");
        match connection.as_mut().map(|connection| exchange(connection, &body)) {
            Ok(Ok(202)) => acknowledge.send(users.clone()).unwrap(),
            Ok(Ok(429)) => std::thread::sleep(Duration::from_millis(50)),
            Ok(Ok(status)) => panic!("answered with {status}"),
            Ok(Err(_)) | Err(_) => return users,
        }
    }
    Vec::new()
}

/// One of many requests on a connection. Returns the status.
fn exchange(connection: &mut BufReader<TcpStream>, body: &str) -> std::io::Result<u16> {
    connection.get_ref().set_read_timeout(Some(TIMEOUT))?;
    let head = format!(
        "POST /streams/memberships HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    connection.get_mut().write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
    let (mut status, mut length) = (0, 0);
    loop {
        let mut line = String::new();
        if connection.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end() {
            "" => break,
            line if status == 0 => {
                status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
            }
            line => {
                length =
                    line.strip_prefix("content-length: ").map_or(length, |length| length.parse().unwrap_or(0))
            }
        }
    }
    let mut answer = vec![0; length];
    connection.read_exact(&mut answer)?;
    Ok(status)
}

/// The events that changed each user's records, in order; an event that changed them twice appears twice.
fn changes(dues: &Dues) -> BTreeMap<String, Vec<String>> {
    let store = Store::new(Embedded::open(&dues.data().join("dues.db")).unwrap(), SystemClock::shared());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut changes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut start = None;
    loop {
        let page = runtime.block_on(store.engine.scan(&HISTORY, start, 1000)).unwrap();
        for row in page.items {
            let text = |name: &str| row.text(name).unwrap_or_default().to_owned();
            changes.entry(text("user_id")).or_default().push(text("event_id"));
        }
        start = page.next;
        if start.is_none() {
            return changes;
        }
    }
}
