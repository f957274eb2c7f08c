//! Two processes and one file; one of them is killed.

use dues_store::embedded::Embedded;
use dues_store::table::LOCKS;
use dues_store::{Engine as _, Key, Locks, SystemClock};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

use super::{KEY, acquire, eventually, row, version};

const FILE: &str = "DUES_TEST_LOCK_FILE";
const HOLDER: &str = "lock::process::the_process_that_holds_the_lock";
const LEASE: Duration = Duration::from_secs(2);

fn locks(path: &Path) -> (Embedded, Locks<Embedded>) {
    let engine = Embedded::open(path).unwrap();
    let locks = Locks::new(engine.clone(), SystemClock::shared());
    (engine, locks.with_lease(LEASE).with_heartbeat(Duration::from_millis(100)))
}

/// Ends the other process with the test, however the test ends.
struct Killed(Child);

impl Killed {
    /// SIGKILL: no destructor runs, nothing is released.
    fn now(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // Fails only when the process is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
#[ignore = "runs in a process of its own, started by the test below"]
async fn the_process_that_holds_the_lock() {
    let Ok(path) = std::env::var(FILE) else { return };
    let (_engine, locks) = locks(Path::new(&path));
    let lock = acquire(&locks).await.expect("the file is new");
    lock.run(tokio::time::sleep(Duration::from_secs(60))).await;
}

#[tokio::test]
async fn a_killed_process_is_followed_after_its_lease_and_not_before() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("dues.db");
    let (engine, ours) = locks(&path);
    let mut holder = Command::new(std::env::current_exe().unwrap());
    holder
        .args(["--exact", HOLDER, "--ignored", "--nocapture"])
        .env(FILE, &path)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut holder = Killed(holder.spawn().unwrap());
    let key = || Key { partition: KEY.into(), sort: None };
    eventually("the other's lock", async || engine.get(&LOCKS, key()).await.unwrap().is_some()).await;
    let theirs = row(&engine).await;
    assert_eq!(theirs.text("leaseDuration"), Some("2s"));

    // While it lives, it keeps the lock for longer than its lease.
    let begun = Instant::now();
    while begun.elapsed() < LEASE + LEASE / 4 {
        let before = version(&engine).await;
        assert!(acquire(&ours).await.is_none());
        eventually("a heartbeat of the other", async || version(&engine).await != before).await;
    }

    holder.now();
    // A client that has not seen the lock before waits for the whole lease.
    let stranger = Locks::new(engine.clone(), SystemClock::shared());
    let killed = Instant::now();
    let left = version(&engine).await;
    assert!(acquire(&stranger).await.is_none());
    let mut asked = 1;
    let lock = loop {
        tokio::time::sleep(Duration::from_millis(20)).await;
        asked += 1;
        if let Some(lock) = acquire(&stranger).await {
            break lock;
        }
        assert!(killed.elapsed() < 10 * LEASE, "locked out for good");
        assert_eq!(version(&engine).await, left, "the dead do not write");
    };
    assert!(killed.elapsed() >= LEASE && asked > 10, "after {:?}, asked {asked} times", killed.elapsed());
    assert!(lock.is_held());
    assert_ne!(
        row(&engine).await.text("ownerName"),
        theirs.text("ownerName"),
        "each process has a name of its own"
    );
    lock.release().await;
    assert!(acquire(&ours).await.is_some());
}
