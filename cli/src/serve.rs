//! `dues serve`: stream ingest, Stripe's webhook and the REST API over HTTP, with the handlers of the local streams and the daily jobs running beside them.
//!
//! It answers programs on this machine; others, when requests have to carry a token.

mod app;
mod guard;
mod inbox;
mod ingest;
mod jobs;
mod metrics;
mod monitor;
mod only;
mod openapi;
mod schedule;
mod session;
mod sign_in;
mod streams;
mod tries;

use dues_store::{SharedClock, Store, SystemClock};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::future::Future;
use std::net::IpAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::args::{LockArgs, Serve};
use crate::output::{self, Error};
use crate::signals::Signals;
use app::App;
use guard::Door;
use only::Only;
pub(crate) use schedule::Timetable;

/// How many threads answer requests.
const ANSWERING: usize = 2;
/// How many connections there are at once; more wait to be accepted.
const MOST: u32 = 256;
/// How long a client may take over the head of a request, and how long a connection may lie idle.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// How long requests that are under way may take when the program is told to stop.
const GRACE: Duration = Duration::from_secs(10);
/// The pause after a connection could not be accepted: there may be too many open files for now.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) async fn run(data: &Path, args: &Serve) -> Result<(), Error> {
    run_by(SystemClock::shared(), data, args).await
}

/// The same by another clock: a demo's time goes on where its months have ended.
pub(crate) async fn run_by(clock: SharedClock, data: &Path, args: &Serve) -> Result<(), Error> {
    let door = Door::new(args)?;
    let host = door.address(&args.host)?;
    let mut signals = Signals::new()?;
    let (stop, stopping) = watch::channel(false);
    let store = Store { clock, ..output::open(data)? };
    let _only = Only::take(data)?;
    let app = Arc::new(App::new(store, args, door, &stopping)?);
    let answering = Answering::new()?;
    let listener = answering.run(listen(host, args.port)).await??;
    let mut tasks = streams::start(&app, &stopping)?;
    let lock = LockArgs { no_wait: false, lease: args.lease };
    tasks.spawn(jobs::run(app.clone(), args.schedule.clone(), lock, stopping.clone()));
    let address = listener.local_addr()?;
    tracing::info!(%address, data = %data.display(), token = app.asks_for_token(), version = env!("CARGO_PKG_VERSION"), "listening");
    output::text(&format!("listening on http://{address}"))?;
    let room = Arc::new(Semaphore::new(MOST as usize));
    let accepting = answering.run(accept(listener, app.clone(), room.clone(), stopping.clone()));
    tokio::select! {
        ended = accepting => ended?,
        () = signals.any() => {}
    }
    tracing::info!("stopping: requests and batches that are under way end");
    stop.send_replace(true);
    let finished = async {
        // Each connection has a place, and so has each request that outlives its connection.
        let _all = room.acquire_many(MOST).await;
        tasks.join_all().await;
    };
    tokio::select! {
        () = finished => {}
        () = app.store.clock.sleep(GRACE) => tracing::warn!("some requests did not end in time"),
        () = signals.any() => tracing::warn!("stopped without waiting for requests that are under way"),
    }
    tracing::info!("stopped");
    Ok(())
}

async fn listen(host: IpAddr, port: u16) -> Result<TcpListener, Error> {
    TcpListener::bind((host, port)).await.map_err(|cause| Error::Io { doing: format!("listen on {host} port {port}"), cause })
}

/// Threads that only answer requests. Those of the handlers compute for milliseconds at a time, and a request that waits for one of them to be done waits
/// longer than for the disk; the system gives threads that ask for little their turn at once.
struct Answering(Option<Runtime>);

impl Answering {
    fn new() -> Result<Self, Error> {
        let runtime = Builder::new_multi_thread().worker_threads(ANSWERING).thread_name("dues-http").enable_all().build()?;
        Ok(Self(Some(runtime)))
    }

    /// Has them do something.
    async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Result<T, Error> {
        let Some(runtime) = &self.0 else { return Err(Error::Said("the server has stopped".to_owned())) };
        runtime.spawn(work).await.map_err(|error| Error::Said(format!("the server broke off: {error}")))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        // Whatever is still under way had its time; nobody may wait here, in the midst of other tasks.
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

/// Lets connections in until the program stops. Each is a task of its own: a slow or broken client keeps nobody waiting.
async fn accept(listener: TcpListener, app: Arc<App>, room: Arc<Semaphore>, mut stopping: watch::Receiver<bool>) {
    let connections = stopping.clone();
    tokio::select! {
        () = accept_all(&listener, &app, &room, &connections) => {}
        () = told(&mut stopping) => {}
    }
}

async fn accept_all(listener: &TcpListener, app: &Arc<App>, room: &Arc<Semaphore>, stopping: &watch::Receiver<bool>) {
    // The room is never closed.
    while let Ok(place) = room.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((client, address)) => {
                // Answers are small and whole: none waits for another. A client that is gone already is found out later.
                let _ = client.set_nodelay(true);
                drop(tokio::spawn(serve(client, address.ip(), app.clone(), place, stopping.clone())));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                app.store.clock.sleep(PAUSE).await;
            }
        }
    }
}

/// Answers one client until it goes, or until the program stops and its request is answered.
async fn serve(client: TcpStream, from: IpAddr, app: Arc<App>, place: OwnedSemaphorePermit, mut stopping: watch::Receiver<bool>) {
    let place = Arc::new(place);
    let service = service_fn(|request| {
        let (app, place) = (app.clone(), place.clone());
        // A task of its own: a client that goes away does not cut a command short and leave its lock behind.
        tokio::spawn(async move {
            let _place = place;
            app.answer(request, from).await
        })
    });
    let connection =
        http1::Builder::new().timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).serve_connection(TokioIo::new(client), service);
    let mut connection = pin!(connection);
    // What goes wrong with a connection is the client's affair.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = told(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

/// Waits until the program stops.
async fn told(stopping: &mut watch::Receiver<bool>) {
    // An error means that the program is gone, which is as good.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}
