//! `dues bench serve`: how many events a second come in over HTTP and are processed, against `dues bench` on the same machine in the same run; how long
//! an acknowledgement takes at seven tenths of that; and how much memory the server holds while they come.
//!
//! The server is this very program in a process of its own, as `dues serve` runs it, so that its memory is its own. Latency is counted from when a request
//! should have been sent, so that a server which keeps a client waiting is not spared the requests that the client then sends late.

use dues_processors::ach_handler::STREAM;
use dues_processors::changes::STREAM as CHANGES;
use dues_store::Store;
use dues_store::embedded::Embedded;
use futures::future::try_join_all;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{HOST, RETRY_AFTER};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

use super::workload::{self, Fill};
use super::{Folder, measure};
use crate::args::BenchServe;
use crate::follow::{FOLLOWERS, PROJECTOR};
use crate::memory;
use crate::output::{self, Error};

/// How many clients there are.
const CLIENTS: u32 = 50;
/// How many records a request brings.
const BATCH: u32 = 20;
/// The part of the load at which acknowledgements are timed, in hundredths.
const LOAD: u32 = 70;
/// How many of the events are kept for that, in hundredths.
const PACED: u32 = 50;
/// How long it is watched how fast changes are followed.
const WATCHED: Duration = Duration::from_secs(5);
/// The most events that `dues bench` is run with for comparison.
const COMPARED: u32 = 100_000;

pub(crate) async fn run(data: &Path, args: &BenchServe) -> Result<(), Error> {
    let folder = Folder::new(data)?;
    let compared = measure(&folder.0.join("fresh"), args.events.min(COMPARED), 0, args.json).await?.events_per_s();
    let served = folder.0.join("served");
    let paced = args.events * PACED / 100;
    let store = filled(&served, args.events + paced).await?;
    let mut server = Server::start(&served, args.events + paced).await?;
    let flood = flood(&server, &store, args.events).await?;
    let pace = pace(&server, args.events..args.events + paced, flood.per_s * f64::from(LOAD) / 100.0).await?;
    let follow = follow(&store).await?;
    server.stop()?;
    report(args, compared, &flood, &pace, &follow)
}

/// A store whose members all have a debit under way. What their filling in has changed is nobody's business.
async fn filled(folder: &Path, members: u32) -> Result<Store<Embedded>, Error> {
    let store = output::open(folder)?;
    workload::fill(&store, 0..members, Fill::Sent).await?;
    for follower in FOLLOWERS {
        store.engine.set_checkpoint(follower, CHANGES, store.engine.last_change()?).await?;
    }
    Ok(store)
}

/// The program, serving. It ends with this.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    async fn start(folder: &Path, members: u32) -> Result<Self, Error> {
        let program = std::env::current_exe()?;
        let mut command = Command::new(program);
        command.arg("--data").arg(folder).args(["serve", "--host", "127.0.0.1", "--port", "0"]).env("DUES_SCHEDULE", "off");
        // How fast records are taken is what is measured, so however many they are, none is to wait for those before it.
        command.env("DUES_MAX_BACKLOG", members.to_string());
        for token in ["DUES_TOKEN", "DUES_TOKEN_FILE"] {
            command.env_remove(token);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut line = String::new();
        if let Some(said) = child.stdout.take() {
            BufReader::new(said).read_line(&mut line)?;
        }
        match line.trim_end().strip_prefix("listening on http://") {
            Some(address) => Ok(Self { child, address: address.to_owned() }),
            None => Err(Error::Said("the server does not start".to_owned())),
        }
    }

    fn held_mb(&self) -> u64 {
        memory::of(&self.child.id().to_string(), "VmRSS:") / 1024
    }

    fn peak_mb(&self) -> u64 {
        memory::of(&self.child.id().to_string(), "VmHWM:") / 1024
    }

    fn stop(&mut self) -> Result<(), Error> {
        // What it has acknowledged is durable: it needs no farewell.
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client and its connection.
struct Client {
    address: String,
    connection: SendRequest<Full<Bytes>>,
}

impl Client {
    async fn connect(address: &str) -> Result<Self, Error> {
        Ok(Self { address: address.to_owned(), connection: connect(address).await? })
    }

    /// Sends the settlements of these members until they are taken; counts how often it was told to come again.
    async fn send(&mut self, members: std::ops::Range<u32>, refused: &AtomicU64) -> Result<(), Error> {
        let lines: Vec<Vec<u8>> = members.map(|member| workload::settlement(member).data).collect();
        let body = Bytes::from(lines.join(&b'\n'));
        loop {
            let request =
                Request::post(format!("/streams/{STREAM}")).header(HOST, "localhost").body(Full::new(body.clone())).map_err(broken)?;
            self.connection.ready().await.map_err(broken)?;
            let answer = self.connection.send_request(request).await.map_err(broken)?;
            let (status, after) = (answer.status(), answer.headers().get(RETRY_AFTER).cloned());
            answer.into_body().collect().await.map_err(broken)?;
            match (status, after) {
                (StatusCode::ACCEPTED, _) => return Ok(()),
                (StatusCode::TOO_MANY_REQUESTS, Some(after)) => {
                    refused.fetch_add(1, Ordering::Relaxed);
                    let seconds = after.to_str().ok().and_then(|text| text.parse().ok()).unwrap_or(1);
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                    // Who is refused before the body was read is let go.
                    self.connection = connect(&self.address).await?;
                }
                (status, _) => return Err(Error::Said(format!("the server answers with {status}"))),
            }
        }
    }
}

async fn connect(address: &str) -> Result<SendRequest<Full<Bytes>>, Error> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(broken)?;
    tokio::spawn(connection);
    Ok(sender)
}

fn broken(error: impl std::fmt::Display) -> Error {
    Error::Said(format!("a request broke off: {error}"))
}

async fn clients(server: &Server) -> Result<Vec<Client>, Error> {
    try_join_all((0..CLIENTS).map(|_| Client::connect(&server.address))).await
}

/// What came of as many as the server takes.
struct Flood {
    per_s: f64,
    refused: u64,
    /// What the server held after each tenth of the events, in MB.
    memory: Vec<u64>,
    peak_mb: u64,
}

/// All clients send as fast as they are answered; the end is when the last record was processed, not when it was taken.
async fn flood(server: &Server, store: &Store<Embedded>, events: u32) -> Result<Flood, Error> {
    let (next, refused) = (AtomicU32::new(0), AtomicU64::new(0));
    let engine = &store.engine;
    let mut clients = clients(server).await?;
    let start = Instant::now();
    let sending = try_join_all(clients.iter_mut().map(async |client| {
        loop {
            let first = next.fetch_add(BATCH, Ordering::Relaxed);
            if first >= events {
                return Ok::<_, Error>(());
            }
            client.send(first..(first + BATCH).min(events), &refused).await?;
        }
    }));
    let watching = async {
        let (mut memory, mut looked) = (Vec::new(), 0);
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            // Nothing else is on the stream, whose places are numbered from one.
            let done = engine.checkpoint(STREAM, STREAM)?;
            while done * 10 >= looked * u64::from(events) && looked <= 10 {
                memory.push(server.held_mb());
                looked += 1;
            }
            if done >= u64::from(events) {
                return Ok::<_, Error>(memory);
            }
        }
    };
    let (_, memory) = tokio::try_join!(sending, watching)?;
    let spent = start.elapsed();
    Ok(Flood { per_s: f64::from(events) / spent.as_secs_f64(), refused: refused.into_inner(), memory, peak_mb: server.peak_mb() })
}

/// How long acknowledgements took, shortest first.
struct Pace {
    per_s: f64,
    took: Vec<Duration>,
    refused: u64,
}

/// Each client sends at its own times, which do not wait for answers.
async fn pace(server: &Server, members: std::ops::Range<u32>, per_s: f64) -> Result<Pace, Error> {
    let between = Duration::from_secs_f64(f64::from(BATCH) / per_s);
    let mut clients = clients(server).await?;
    let refused = AtomicU64::new(0);
    let start = Instant::now();
    let requests: Vec<(u32, u32)> = (0..).zip(members.clone().step_by(BATCH as usize)).collect();
    let took = try_join_all((0_u32..).zip(clients.iter_mut()).map(async |(client, connection)| {
        let mut took = Vec::new();
        for (n, first) in requests.iter().filter(|(n, _)| n % CLIENTS == client) {
            let due = start + between * *n;
            tokio::time::sleep_until(due.into()).await;
            connection.send(*first..(first + BATCH).min(members.end), &refused).await?;
            took.push(due.elapsed());
        }
        Ok::<_, Error>(took)
    }))
    .await?;
    let spent = start.elapsed();
    let mut took: Vec<Duration> = took.into_iter().flatten().collect();
    took.sort();
    Ok(Pace { per_s: f64::from(members.end - members.start) / spent.as_secs_f64(), took, refused: refused.into_inner() })
}

/// What follows from changes, when no more records come.
struct Follow {
    /// How many changes wait, of all that the records have made, and how many are followed in a second.
    behind: u64,
    per_s: f64,
}

/// Watches for a while how fast the changes are followed that had to wait while records came.
async fn follow(store: &Store<Embedded>) -> Result<Follow, Error> {
    let (engine, start) = (&store.engine, Instant::now());
    let before = engine.checkpoint(PROJECTOR, CHANGES)?;
    let behind = engine.last_change()?.saturating_sub(before);
    // What follows makes changes too, so the end of the log is no goal.
    tokio::time::sleep(WATCHED).await;
    let followed = engine.checkpoint(PROJECTOR, CHANGES)? - before;
    Ok(Follow { behind, per_s: followed as f64 / start.elapsed().as_secs_f64() })
}

impl Pace {
    /// The time that so many hundredths were quicker than, in milliseconds.
    fn hundredth(&self, hundredths: usize) -> f64 {
        let place = (self.took.len() * hundredths / 100).min(self.took.len().saturating_sub(1));
        self.took.get(place).copied().unwrap_or_default().as_secs_f64() * 1000.0
    }
}

fn report(args: &BenchServe, compared: f64, flood: &Flood, pace: &Pace, follow: &Follow) -> Result<(), Error> {
    let rounded = |value: f64, places: i32| (value * 10f64.powi(places)).round() / 10f64.powi(places);
    let share = flood.per_s / compared;
    let (early, late) = (flood.memory.get(2).copied().unwrap_or(0), flood.memory.last().copied().unwrap_or(0));
    if args.json {
        return output::json(&json!({
            "events": args.events, "clients": CLIENTS, "records_per_request": BATCH,
            "bench_events_per_s": rounded(compared, 0), "ingest_events_per_s": rounded(flood.per_s, 0), "share": rounded(share, 3),
            "refused": flood.refused + pace.refused, "paced_events_per_s": rounded(pace.per_s, 0), "load": LOAD,
            "acknowledged_p50_ms": rounded(pace.hundredth(50), 1), "acknowledged_p99_ms": rounded(pace.hundredth(99), 1),
            "acknowledged_most_ms": rounded(pace.hundredth(100), 1),
            "memory_mb": flood.memory, "peak_memory_mb": flood.peak_mb, "memory_at_two_tenths_mb": early, "memory_at_the_end_mb": late,
            "changes_behind": follow.behind, "changes_followed_per_s": rounded(follow.per_s, 0),
        }));
    }
    output::text(&format!("{:.0} events/s over HTTP, processed; dues bench: {compared:.0} ({share:.2} of it)", flood.per_s))?;
    output::text(&format!(
        "at {LOAD} % of that ({:.0}/s) an acknowledgement took {:.1} ms, 99 of 100 under {:.1} ms, the longest {:.1} ms",
        pace.per_s,
        pace.hundredth(50),
        pace.hundredth(99),
        pace.hundredth(100)
    ))?;
    output::text(&format!(
        "the server held {early} MB after two tenths of the events, {late} MB after all, {} MB at the most",
        flood.peak_mb
    ))?;
    output::text(&format!(
        "{} changes of tables had to wait for what follows from them; when no more records came, {:.0} a second were followed",
        output::grouped(follow.behind),
        follow.per_s
    ))
}
