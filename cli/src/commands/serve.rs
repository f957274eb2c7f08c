//! `dues serve`: ingest, the Stripe webhook and the REST API over HTTP, concurrent with the handlers of the
//! local streams and the daily jobs.
//!
//! Without a token it answers only programs on this machine.

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::response::IntoResponse as _;
use dues_store::{SharedClock, Store, SystemClock};
use hyper::body::Incoming;
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
use tower::ServiceExt as _;

use crate::args::{LockArgs, ServeArgs};
use crate::local::shutdown::Signals;
use crate::output::{self, Error};
use crate::server::app::{App, ClientAddress, router};
use crate::server::auth::Auth;
use crate::server::instance_lock::InstanceLock;
pub(crate) use crate::server::schedule::Timetable;

/// Threads that serve requests.
const ANSWERING: usize = 2;
/// Maximum number of connections; more wait to be accepted.
const MOST: u32 = 256;
/// Time limit for reading a request head, and for an idle connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that requests in progress have to complete at shutdown.
const GRACE: Duration = Duration::from_secs(10);
/// Delay after a connection could not be accepted, which may be for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) async fn run(data: &Path, args: &ServeArgs) -> Result<(), Error> {
    run_by(SystemClock::shared(), data, args).await
}

/// Runs with another clock: the demo's continues at the end of the simulation.
pub(crate) async fn run_by(clock: SharedClock, data: &Path, args: &ServeArgs) -> Result<(), Error> {
    let auth = Auth::new(args)?;
    let host = auth.address(&args.host)?;
    let mut signals = Signals::new()?;
    let (stop, stopping) = watch::channel(false);
    let store = Store { clock, ..output::open(data)? };
    let _instance_lock = InstanceLock::acquire(data)?;
    let app = Arc::new(App::new(store, args, auth, &stopping)?);
    let answering = Answering::new()?;
    let listener = answering.run(listen(host, args.port)).await??;
    let mut tasks = crate::server::streams::start(&app, &stopping)?;
    let lock = LockArgs { no_wait: false, lease: args.lease };
    tasks.spawn(crate::server::jobs::run(app.clone(), args.schedule.clone(), lock, stopping.clone()));
    let address = listener.local_addr()?;
    tracing::info!(%address, data = %data.display(), token = app.requires_token(),
        version = env!("CARGO_PKG_VERSION"), "listening");
    output::print_line(&format!("listening on http://{address}"))?;
    let room = Arc::new(Semaphore::new(MOST as usize));
    let accepting = answering.run(accept(listener, app.clone(), room.clone(), stopping.clone()));
    tokio::select! {
        ended = accepting => ended?,
        () = signals.any() => {}
    }
    tracing::info!("stopping: requests and batches that are under way end");
    stop.send_replace(true);
    let finished = async {
        // Every connection holds a permit, and so does every request that outlives its connection.
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
    TcpListener::bind((host, port))
        .await
        .map_err(|cause| Error::Io { doing: format!("listen on {host} port {port}"), cause })
}

/// A runtime for requests only. Handler threads compute for milliseconds at a time, and a request queued
/// behind them would wait longer than for the disk; the operating system schedules mostly idle threads at
/// once.
struct Answering(Option<Runtime>);

impl Answering {
    fn new() -> Result<Self, Error> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(ANSWERING)
            .thread_name("dues-http")
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// Runs a future on these threads.
    async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Error> {
        let Some(runtime) = &self.0 else { return Err(Error::Message("the server has stopped".to_owned())) };
        runtime.spawn(work).await.map_err(|error| Error::Message(format!("the server broke off: {error}")))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        // Grace is over, and blocking is not allowed inside an async context.
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

/// Accepts connections until shutdown, each in a task of its own: a slow or broken client blocks no other.
async fn accept(
    listener: TcpListener,
    app: Arc<App>,
    room: Arc<Semaphore>,
    mut stopping: watch::Receiver<bool>,
) {
    let (connections, router) = (stopping.clone(), router(&app));
    tokio::select! {
        () = accept_all(&listener, &app, &router, (&room, &connections)) => {}
        () = stop_requested(&mut stopping) => {}
    }
}

async fn accept_all(
    listener: &TcpListener,
    app: &Arc<App>,
    router: &Router,
    (room, stopping): (&Arc<Semaphore>, &watch::Receiver<bool>),
) {
    // The semaphore is never closed.
    while let Ok(place) = room.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((client, address)) => {
                // Responses are small and written whole: do not delay them (Nagle). If the client has
                // disconnected, serving it will fail.
                let _ = client.set_nodelay(true);
                drop(tokio::spawn(serve(client, address.ip(), router.clone(), place, stopping.clone())));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                app.store.clock.sleep(PAUSE).await;
            }
        }
    }
}

/// Serves a connection until it closes, or, at shutdown, until its request is answered.
async fn serve(
    client: TcpStream,
    from: IpAddr,
    router: Router,
    place: OwnedSemaphorePermit,
    mut stopping: watch::Receiver<bool>,
) {
    let place = Arc::new(place);
    let service = service_fn(|request: Request<Incoming>| {
        let (router, place) = (router.clone(), place.clone());
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ClientAddress(from));
        // A task of its own: a client that disconnects must not interrupt a command that holds a lock.
        tokio::spawn(async move {
            let _place = place;
            router.oneshot(request).await.into_response()
        })
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(client), service);
    let mut connection = pin!(connection);
    // Connection errors are the client's.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = stop_requested(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

/// Waits for shutdown.
pub(crate) async fn stop_requested(stopping: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, which is shutdown too.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}
