//! `cargo xtask bench lambda`: time from process start to the first request for an invocation, and size of
//! the artifact.

use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::package::{megabytes, native};
use crate::step::{Doing, Failure, Result, step};
use crate::workspace::Workspace;

/// Starts per handler.
const STARTS: usize = 20;
/// Goal for the median start.
const MAX_START: Duration = Duration::from_millis(50);
/// Goal for the size of the zip.
const MAX_ZIP_BYTES: u64 = 12_000_000;
/// Environment of the handlers; each reads what it needs.
const SETTINGS: [(&str, &str); 10] = [
    ("AWS_REGION", "eu-central-1"),
    ("AWS_ACCESS_KEY_ID", "none"),
    ("AWS_SECRET_ACCESS_KEY", "none"),
    ("COLLECTIONS_QUEUE_URL", "https://sqs.example.com/q"),
    ("EVENT_BUS_NAME", "bus"),
    ("STRIPE_STREAM_NAME", "stripe"),
    ("STRIPE_SECRET_ARN", "arn"),
    ("GATEWAY_URL", "https://payments.example.com"),
    ("GATEWAY_SECRET_ARN", "arn"),
    ("USER_POOL_ID", "pool"),
];

/// Measures the handlers with the most different setup.
pub fn lambda(workspace: &Workspace) -> Result<()> {
    let zip = step("package bootstrap", || native(workspace))?;
    let mut slow = Vec::new();
    for handler in ["ach-handler", "stripe", "projector", "api"] {
        let mut times = (0..STARTS).map(|_| first_request(workspace, handler)).collect::<Result<Vec<_>>>()?;
        times.sort_unstable();
        let (median, worst) = (times[STARTS / 2], times[STARTS - 1]);
        println!("{handler:<12} first request after {median:.1?} (median of {STARTS}; slowest {worst:.1?})");
        if median > MAX_START {
            slow.push(format!("{handler} takes {median:.1?}, the goal is {MAX_START:?}"));
        }
    }
    let size = std::fs::metadata(&zip).doing("look at the zip")?.len();
    println!("zip          {} MB", megabytes(size));
    if size > MAX_ZIP_BYTES {
        slow.push(format!("the zip has {} MB, the goal is {}", megabytes(size), megabytes(MAX_ZIP_BYTES)));
    }
    Failure::unless_none("missed goals", &slow)
}

/// Time from process start until the process requests an event from Lambda.
fn first_request(workspace: &Workspace, handler: &str) -> Result<Duration> {
    let listener = TcpListener::bind("127.0.0.1:0").doing("stand in for Lambda")?;
    let address = listener.local_addr().doing("stand in for Lambda")?;
    let mut command = Command::new(workspace.target.join("release/bootstrap"));
    command
        .env_clear()
        .envs(SETTINGS)
        .env("_HANDLER", handler)
        .env("AWS_LAMBDA_RUNTIME_API", address.to_string());
    command.envs([
        ("AWS_LAMBDA_FUNCTION_NAME", "f"),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "512"),
        ("AWS_LAMBDA_FUNCTION_VERSION", "1"),
    ]);
    let started = Instant::now();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().doing("start bootstrap")?;
    let mut line = String::new();
    let request = accept_connection(&listener, &mut child).and_then(|stream| {
        BufReader::new(stream).read_line(&mut line).doing("read the request of bootstrap")
    });
    let taken = started.elapsed();
    // It waits for an event: kill it.
    child.kill().and_then(|()| child.wait()).doing("end bootstrap")?;
    request?;
    if line.starts_with("GET /2018-06-01/runtime/invocation/next ") {
        Ok(taken)
    } else {
        Err(Failure::new(format!("{handler} sent an unexpected request: {line:?}")))
    }
}

/// The first connection; fails if the process exits before.
fn accept_connection(listener: &TcpListener, child: &mut Child) -> Result<TcpStream> {
    listener.set_nonblocking(true).doing("stand in for Lambda")?;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                return stream.set_nonblocking(false).doing("stand in for Lambda").map(|()| stream);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(Failure::new(format!("stand in for Lambda: {error}"))),
        }
        if let Some(status) = child.try_wait().doing("check bootstrap")? {
            return Err(Failure::new(format!("bootstrap exited before its first request: {status}")));
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}
