//! `dues bench serve`: events per second ingested over HTTP and processed, against `dues bench` in the same
//! run; acknowledgement latency at 70 % of that load; and the server's memory.
//!
//! The server is this program in a process of its own. Latency is measured from the time a request was due,
//! not from when it was sent, so that a slow server does not hide delays (coordinated omission).

use dues_processors::billing::ach_handler::STREAM;
use dues_processors::runtime::changes::STREAM as CHANGES;
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
use crate::args::BenchServeArgs;
use crate::local::followers::{FOLLOWERS, PROJECTOR};
use crate::memory;
use crate::output::{self, Error};

/// Concurrent clients.
const CLIENTS: u32 = 50;
/// Records per request.
const REQUEST_RECORDS: u32 = 20;
/// Load at which latency is measured, in percent of the maximum.
const LOAD_PERCENT: u32 = 70;
/// Additional events for the latency measurement, in percent.
const PACED_PERCENT: u32 = 50;
/// How long the followers are observed.
const FOLLOW_WINDOW: Duration = Duration::from_secs(5);
/// Upper limit of events in the `dues bench` comparison.
const MAX_COMPARED_EVENTS: u32 = 100_000;

pub(crate) async fn run(data: &Path, args: &BenchServeArgs) -> Result<(), Error> {
    let folder = Folder::new(data)?;
    let compared = measure(&folder.0.join("fresh"), args.events.min(MAX_COMPARED_EVENTS), 0, args.json)
        .await?
        .events_per_s();
    let served = folder.0.join("served");
    let paced = args.events * PACED_PERCENT / 100;
    let store = filled(&served, args.events + paced).await?;
    let mut server = Server::start(&served, args.events + paced).await?;
    let flood = flood(&server, &store, args.events).await?;
    let pace = pace(&server, args.events..args.events + paced, flood.per_s * f64::from(LOAD_PERCENT) / 100.0)
        .await?;
    let follow = follow(&store).await?;
    server.stop()?;
    report(args, compared, &flood, &pace, &follow)
}

/// A store with a pending debit for every member; the followers skip the changes of filling it.
async fn filled(folder: &Path, members: u32) -> Result<Store<Embedded>, Error> {
    let store = output::open(folder)?;
    workload::fill(&store, 0..members, Fill::Sent).await?;
    for follower in FOLLOWERS {
        store.engine.set_checkpoint(follower, CHANGES, store.engine.last_change()?).await?;
    }
    Ok(store)
}

/// A `dues serve` process, killed on drop.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    async fn start(folder: &Path, members: u32) -> Result<Self, Error> {
        let program = std::env::current_exe()?;
        let mut command = Command::new(program);
        command
            .arg("--data")
            .arg(folder)
            .args(["serve", "--host", "127.0.0.1", "--port", "0"])
            .env("DUES_SCHEDULE", "off");
        // No backpressure: the measurement is of the maximum rate.
        command.env("DUES_MAX_BACKLOG", members.to_string());
        for token in ["DUES_TOKEN", "DUES_TOKEN_FILE"] {
            command.env_remove(token);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        match line.trim_end().strip_prefix("listening on http://") {
            Some(address) => Ok(Self { child, address: address.to_owned() }),
            None => Err(Error::Message("the server did not start".to_owned())),
        }
    }

    fn resident_mb(&self) -> u64 {
        memory::process_status_kb(&self.child.id().to_string(), "VmRSS:") / 1024
    }

    fn peak_mb(&self) -> u64 {
        memory::process_status_kb(&self.child.id().to_string(), "VmHWM:") / 1024
    }

    fn stop(&mut self) -> Result<(), Error> {
        // Acknowledged records are durable: kill is safe.
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if the process has exited.
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

    /// Sends the settlements of these members until they are accepted; counts 429 responses.
    async fn send(&mut self, members: std::ops::Range<u32>, refused: &AtomicU64) -> Result<(), Error> {
        let lines: Vec<Vec<u8>> = members.map(|member| workload::settlement(member).data).collect();
        let body = Bytes::from(lines.join(&b'\n'));
        loop {
            let request = Request::post(format!("/streams/{STREAM}"))
                .header(HOST, "localhost")
                .body(Full::new(body.clone()))
                .map_err(request_failed)?;
            self.connection.ready().await.map_err(request_failed)?;
            let answer = self.connection.send_request(request).await.map_err(request_failed)?;
            let (status, after) = (answer.status(), answer.headers().get(RETRY_AFTER).cloned());
            answer.into_body().collect().await.map_err(request_failed)?;
            match (status, after) {
                (StatusCode::ACCEPTED, _) => return Ok(()),
                (StatusCode::TOO_MANY_REQUESTS, Some(after)) => {
                    refused.fetch_add(1, Ordering::Relaxed);
                    let seconds = after.to_str().ok().and_then(|text| text.parse().ok()).unwrap_or(1);
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                    // The server closes the connection when it rejects before reading the body.
                    self.connection = connect(&self.address).await?;
                }
                (status, _) => return Err(Error::Message(format!("the server responded with {status}"))),
            }
        }
    }
}

async fn connect(address: &str) -> Result<SendRequest<Full<Bytes>>, Error> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(request_failed)?;
    tokio::spawn(connection);
    Ok(sender)
}

fn request_failed(error: impl std::fmt::Display) -> Error {
    Error::Message(format!("request failed: {error}"))
}

async fn clients(server: &Server) -> Result<Vec<Client>, Error> {
    try_join_all((0..CLIENTS).map(|_| Client::connect(&server.address))).await
}

/// Result of sending at full speed.
struct Flood {
    per_s: f64,
    refused: u64,
    /// Resident memory after each tenth of the events, in MB.
    memory: Vec<u64>,
    peak_mb: u64,
}

/// All clients send as fast as they are acknowledged, until the last record is processed.
async fn flood(server: &Server, store: &Store<Embedded>, events: u32) -> Result<Flood, Error> {
    let (next, refused) = (AtomicU32::new(0), AtomicU64::new(0));
    let engine = &store.engine;
    let mut clients = clients(server).await?;
    let start = Instant::now();
    let sending = try_join_all(clients.iter_mut().map(async |client| {
        loop {
            let first = next.fetch_add(REQUEST_RECORDS, Ordering::Relaxed);
            if first >= events {
                return Ok::<_, Error>(());
            }
            client.send(first..(first + REQUEST_RECORDS).min(events), &refused).await?;
        }
    }));
    let watching = async {
        let (mut memory, mut looked) = (Vec::new(), 0);
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            // The stream is new: its sequence numbers count the records.
            let done = engine.checkpoint(STREAM, STREAM)?;
            while done * 10 >= looked * u64::from(events) && looked <= 10 {
                memory.push(server.resident_mb());
                looked += 1;
            }
            if done >= u64::from(events) {
                return Ok::<_, Error>(memory);
            }
        }
    };
    let (_, memory) = tokio::try_join!(sending, watching)?;
    let spent = start.elapsed();
    Ok(Flood {
        per_s: f64::from(events) / spent.as_secs_f64(),
        refused: refused.into_inner(),
        memory,
        peak_mb: server.peak_mb(),
    })
}

/// Acknowledgement latencies, sorted.
struct Pace {
    per_s: f64,
    took: Vec<Duration>,
    refused: u64,
}

/// Sends at a fixed rate, independent of responses.
async fn pace(server: &Server, members: std::ops::Range<u32>, per_s: f64) -> Result<Pace, Error> {
    let between = Duration::from_secs_f64(f64::from(REQUEST_RECORDS) / per_s);
    let mut clients = clients(server).await?;
    let refused = AtomicU64::new(0);
    let start = Instant::now();
    let requests: Vec<(u32, u32)> = (0..).zip(members.clone().step_by(REQUEST_RECORDS as usize)).collect();
    let took = try_join_all((0_u32..).zip(clients.iter_mut()).map(async |(client, connection)| {
        let mut took = Vec::new();
        for (n, first) in requests.iter().filter(|(n, _)| n % CLIENTS == client) {
            let due = start + between * *n;
            tokio::time::sleep_until(due.into()).await;
            connection.send(*first..(first + REQUEST_RECORDS).min(members.end), &refused).await?;
            took.push(due.elapsed());
        }
        Ok::<_, Error>(took)
    }))
    .await?;
    let spent = start.elapsed();
    let mut took: Vec<Duration> = took.into_iter().flatten().collect();
    took.sort();
    Ok(Pace {
        per_s: f64::from(members.end - members.start) / spent.as_secs_f64(),
        took,
        refused: refused.into_inner(),
    })
}

/// Progress of the projector after ingest has stopped.
struct Follow {
    /// Unprocessed changes, and changes processed per second.
    behind: u64,
    per_s: f64,
}

/// Observes how fast the projector drains its backlog.
async fn follow(store: &Store<Embedded>) -> Result<Follow, Error> {
    let (engine, start) = (&store.engine, Instant::now());
    let before = engine.checkpoint(PROJECTOR, CHANGES)?;
    let behind = engine.last_change()?.saturating_sub(before);
    // The projector's own writes add changes too, so the end of the log is not a target.
    tokio::time::sleep(FOLLOW_WINDOW).await;
    let followed = engine.checkpoint(PROJECTOR, CHANGES)? - before;
    Ok(Follow { behind, per_s: followed as f64 / start.elapsed().as_secs_f64() })
}

impl Pace {
    /// A percentile of the latencies, in milliseconds.
    fn percentile_ms(&self, percent: usize) -> f64 {
        let index = (self.took.len() * percent / 100).min(self.took.len().saturating_sub(1));
        self.took.get(index).copied().unwrap_or_default().as_secs_f64() * 1000.0
    }
}

fn report(
    args: &BenchServeArgs,
    compared: f64,
    flood: &Flood,
    pace: &Pace,
    follow: &Follow,
) -> Result<(), Error> {
    let rounded = |value: f64, places: i32| (value * 10f64.powi(places)).round() / 10f64.powi(places);
    let share = flood.per_s / compared;
    let (early, late) =
        (flood.memory.get(2).copied().unwrap_or(0), flood.memory.last().copied().unwrap_or(0));
    if args.json {
        return output::print_json(&json!({
            "events": args.events, "clients": CLIENTS, "records_per_request": REQUEST_RECORDS,
            "bench_events_per_s": rounded(compared, 0), "ingest_events_per_s": rounded(flood.per_s, 0),
            "share": rounded(share, 3),
            "refused": flood.refused + pace.refused, "paced_events_per_s": rounded(pace.per_s, 0),
            "load": LOAD_PERCENT,
            "acknowledged_p50_ms": rounded(pace.percentile_ms(50), 1),
            "acknowledged_p99_ms": rounded(pace.percentile_ms(99), 1),
            "acknowledged_most_ms": rounded(pace.percentile_ms(100), 1),
            "memory_mb": flood.memory, "peak_memory_mb": flood.peak_mb, "memory_at_two_tenths_mb": early,
            "memory_at_the_end_mb": late,
            "changes_behind": follow.behind, "changes_followed_per_s": rounded(follow.per_s, 0),
        }));
    }
    output::print_line(&format!(
        "{:.0} events/s ingested over HTTP and processed; dues bench: {compared:.0}/s (ratio {share:.2})",
        flood.per_s
    ))?;
    output::print_line(&format!(
        "at {LOAD_PERCENT} % of that ({:.0}/s) acknowledgement latency: p50 {:.1} ms, p99 {:.1} ms, max \
            {:.1} ms",
        pace.per_s,
        pace.percentile_ms(50),
        pace.percentile_ms(99),
        pace.percentile_ms(100)
    ))?;
    output::print_line(&format!(
        "server memory: {early} MB after 20 % of the events, {late} MB after all, {} MB peak",
        flood.peak_mb
    ))?;
    output::print_line(&format!(
        "projector backlog: {} changes, drained at {:.0}/s once ingest stopped",
        output::grouped(follow.behind),
        follow.per_s
    ))
}
