//! Ministack, AWS in one process, running for as long as this value lives.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::step::{Doing, Failure, Result};

/// Runs ministack, and ends its process group at the end of its standard input.
const PROGRAM: &str = include_str!("ministack.py");

/// Startup takes a second on an idle machine; allow for a busy one.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(60);

/// A running ministack. It and its children end when this is dropped or this process dies.
#[derive(Debug)]
pub struct Ministack {
    child: Child,
    port: u16,
}

impl Ministack {
    /// Starts one on a free port of the loopback interface and waits until it answers.
    pub fn start(python: &Path, log: &Path) -> Result<Self> {
        Self::start_with(python, log, &[])
    }

    /// Like [`Ministack::start`], with extra environment variables for ministack.
    pub fn start_with(python: &Path, log: &Path, settings: &[(&str, &str)]) -> Result<Self> {
        let out = File::options().create(true).append(true).open(log).doing("open ministack's log")?;
        let err = out.try_clone().doing("open ministack's log")?;
        let port = free_port().doing("find a free port")?;
        let child = Command::new(python)
            .args(["-c", PROGRAM])
            .env("BIND_HOST", "127.0.0.1")
            .env("GATEWAY_PORT", port.to_string())
            .env("MINISTACK_HOST", "127.0.0.1")
            // Without this the functions it runs would call the real AWS.
            .env("AWS_ENDPOINT_URL", endpoint(port))
            .env("PYTHONUNBUFFERED", "1")
            .envs(settings.iter().copied())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(out)
            .stderr(err)
            .spawn()
            .doing("start ministack")?;
        let mut started = Self { child, port };
        started.wait_until_it_answers(log)?;
        Ok(started)
    }

    /// Its address, as `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        endpoint(self.port)
    }

    fn wait_until_it_answers(&mut self, log: &Path) -> Result<()> {
        let deadline = Instant::now() + STARTUP_TIMEOUT;
        while !answers(self.port) {
            if let Some(status) = self.child.try_wait().doing("look after ministack")? {
                return Err(Failure::new(format!("ministack stopped ({status}); see {}", log.display())));
            }
            if Instant::now() > deadline {
                return Err(Failure::new(format!("ministack does not answer; see {}", log.display())));
            }
            sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for Ministack {
    fn drop(&mut self) {
        // Closing its standard input ends its whole process group.
        drop(self.child.stdin.take());
        let deadline = Instant::now() + Duration::from_secs(5);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            sleep(Duration::from_millis(20));
        }
        // Both fail only if the process has exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn endpoint(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn answers(port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream
            .write_all(b"GET /_ministack/health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
        let mut start = [0; 12];
        stream.read_exact(&mut start)?;
        Ok(String::from_utf8_lossy(&start).into_owned())
    };
    ask().is_ok_and(|line| line.ends_with(" 200"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_does_not_answer() {
        assert!(!answers(free_port().unwrap()));
    }

    #[test]
    fn a_program_that_stops_at_once_is_reported_with_its_log() {
        let log = std::env::temp_dir().join(format!("dues-xtask-{}.log", std::process::id()));
        let failure = Ministack::start(Path::new("false"), &log).unwrap_err().to_string();
        std::fs::remove_file(&log).unwrap();
        assert!(failure.starts_with("ministack stopped (exit status: 1); see "), "{failure}");
    }
}
