//! A running `dues serve`, and a client that writes HTTP by hand so that it can send malformed requests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use dues_store::embedded::Embedded;
use dues_tests::fixtures::webhook::{received, sign};
use serde_json::Value;

use crate::kill_ingest::said;
use crate::support::run::Dues;

pub(crate) const SECRET: &str = "whsec_5WbX5kEWLlfzsGNjH64I8lOOqUB6e8FH";
/// Longer than anything takes, also on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// The serving program. It ends with this value.
pub(crate) struct Serving {
    child: Child,
    /// Its lines on standard error.
    lines: Receiver<String>,
    pub(crate) address: SocketAddr,
}

impl Serving {
    /// Serves a data folder on a free port.
    pub(crate) fn start(dues: &Dues) -> Self {
        let file = dues.file("secrets", format!("{SECRET}\n").as_bytes());
        Self::with(dues, &["--stripe-secret-file", &file], &[])
    }

    /// The same with these arguments and settings.
    pub(crate) fn with(dues: &Dues, args: &[&str], settings: &[(&str, &str)]) -> Self {
        let args = [&["serve", "--port", "0"], args].concat();
        let mut command = dues.command(&args);
        // A job that falls due during a test would interfere.
        command
            .env("DUES_SCHEDULE", "off")
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address =
            line.trim_end().strip_prefix("listening on http://").map(|address| address.parse().unwrap());
        let address = address.unwrap_or_else(|| panic!("{line:?}, {}", said(&mut child)));
        Self { lines: lines(child.stderr.take().unwrap()), child, address }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    /// Sends these bytes and returns the response.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        Answer::read(&mut stream)
    }

    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.raw(&[head(method, path, headers, body.len()).as_bytes(), body].concat())
    }

    /// Delivers an event signed now with Stripe's scheme.
    pub(crate) fn webhook(&self, body: &[u8]) -> Answer {
        self.ask("POST", "/webhooks/stripe", &[("Stripe-Signature", &signed(body))], body)
    }

    /// Sends the program a signal.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits until the program's log has a line with this part in its message, and returns the line.
    pub(crate) fn wait_for_log(&self, part: &str) -> Value {
        loop {
            let line = self
                .lines
                .recv_timeout(TIMEOUT)
                .unwrap_or_else(|why| panic!("the log never had {part:?}: {why}"));
            let line: Value =
                serde_json::from_str(&line).unwrap_or_else(|why| panic!("{line:?} is not JSON: {why}"));
            if line["message"].as_str().unwrap().contains(part) {
                return line;
            }
        }
    }

    /// Waits until the program has ended, and returns its standard error.
    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + TIMEOUT;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "the program does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        (self.child.wait().unwrap(), self.lines.iter().collect::<Vec<_>>().join("\n"))
    }

    /// Kills the program, as a power failure does.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Both fail only when the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads lines as they come, so that waiting for one can time out.
fn lines(stderr: ChildStderr) -> Receiver<String> {
    let (sender, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// The head of the only request on a connection.
pub(crate) fn head(method: &str, path: &str, headers: &[(&str, &str)], length: usize) -> String {
    let own = if headers.iter().any(|(name, _)| *name == "Host") { "" } else { "Host: localhost\r\n" };
    let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("{method} {path} HTTP/1.1\r\n{own}Connection: close\r\nContent-Length: {length}\r\n{more}\r\n")
}

/// Delivers an event signed now with Stripe's scheme; `true` when it was answered with 200, `false` for
/// anything else.
pub(crate) fn post_event(address: SocketAddr, body: &[u8]) -> bool {
    let head = head("POST", "/webhooks/stripe", &[("Stripe-Signature", &signed(body))], body.len());
    let exchange = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.write_all(&[head.as_bytes(), body].concat())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    exchange().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 "))
}

/// The `Stripe-Signature` header for a body that is signed now.
pub(crate) fn signed(body: &[u8]) -> String {
    sign(SECRET, now(), body)
}

pub(crate) fn now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_secs().try_into().unwrap()
}

#[derive(Debug)]
pub(crate) struct Answer {
    /// 0 when the connection ended without a response.
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// Reads until the server closes the connection.
    pub(crate) fn read(stream: &mut TcpStream) -> Self {
        let mut bytes = Vec::new();
        // A reset after the response is an end too; a timeout is not.
        if let Err(error) = stream.read_to_end(&mut bytes) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
        }
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).map_or(0, |status| status.parse().unwrap());
        Self { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// The status and the error's code.
    pub(crate) fn refusal(&self) -> (u16, String) {
        (self.status, self.json()["error"]["code"].as_str().unwrap().to_owned())
    }
}

impl Dues {
    /// Keys and bodies of Stripe's events on the local stream.
    pub(crate) fn inbox(&self) -> Vec<(String, Vec<u8>)> {
        received(&Embedded::open(&self.data().join("dues.db")).unwrap())
    }
}

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(25));
    }
}
