//! Running the program in a folder of its own.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The keys of a summary, apart from `read`, which is their sum.
const FATES: [&str; 5] = ["applied", "duplicate", "ignored", "parked", "skipped"];

/// The program's environment variables: tests set all of them explicitly.
const SETTINGS: [&str; 17] = [
    "DUES_DATA",
    "DUES_LOG",
    "NO_COLOR",
    "DUES_GATEWAY_URL",
    "DUES_GATEWAY_TOKEN",
    "DUES_SANDBOX_ODDS",
    "DUES_SANDBOX_SEED",
    "DUES_LOCK_LEASE_SECONDS",
    "DUES_HOST",
    "DUES_PORT",
    "DUES_STRIPE_SECRETS",
    "DUES_STRIPE_SECRET_FILE",
    "DUES_TOKEN",
    "DUES_TOKEN_FILE",
    "DUES_SCHEDULE",
    "DUES_MAX_BACKLOG",
    "OLD_SUBSCRIPTION_DAYS",
];

/// The program, built once if no variable names it.
pub(crate) fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| match std::env::var_os("DUES_BIN") {
        Some(path) => path.into(),
        None => build(),
    })
}

fn build() -> PathBuf {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a folder of the workspace");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--release", "--quiet", "-p", "dues"])
        .current_dir(root)
        .status()
        .unwrap();
    assert!(built.success(), "the program could not be built");
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |target| root.join(target));
    target.join("release").join(format!("dues{}", std::env::consts::EXE_SUFFIX))
}

/// A lock for tests that measure time or load the machine: one of them at a time, also across processes.
pub(crate) fn alone() -> File {
    let file = File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("program-alone.lock")).unwrap();
    file.lock().unwrap();
    file
}

/// A data folder and the program over it.
pub(crate) struct Dues {
    folder: TempDir,
}

impl Dues {
    pub(crate) fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    /// A copy of the data, taken while no program has it open.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::new();
        std::fs::create_dir(copy.data()).unwrap();
        for entry in std::fs::read_dir(self.data()).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), copy.data().join(entry.file_name())).unwrap();
        }
        copy
    }

    /// The data folder; it does not exist before the program creates it.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A path next to the data folder.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file next to the data folder.
    pub(crate) fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.beside(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.arg("--data").arg(self.data()).args(args).current_dir(self.folder.path());
        for setting in SETTINGS {
            command.env_remove(setting);
        }
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).stdin(Stdio::null()).output().unwrap()
    }

    /// The output of a command that must succeed.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        printed(args, self.run(args))
    }

    /// The message of a command that must fail: on standard error, with nothing on standard output.
    pub(crate) fn fails(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(!output.status.success(), "{args:?} succeeded");
        assert!(output.status.code().is_some(), "{args:?} did not exit but died: {}", output.status);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{args:?} failed and printed");
        String::from_utf8(output.stderr).unwrap()
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        self.json_with(args, &[])
    }

    /// The same with settings from the environment.
    pub(crate) fn json_with(&self, args: &[&str], settings: &[(&str, &str)]) -> Value {
        let args = [args, &["--json"]].concat();
        let text = printed(
            &args,
            self.command(&args).envs(settings.iter().copied()).stdin(Stdio::null()).output().unwrap(),
        );
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{args:?} printed {text:?}: {e}"))
    }

    /// Ingests records, and returns how many had which outcome. See [`outcomes`].
    pub(crate) fn ingest(&self, stream: &str, records: &[Value]) -> BTreeMap<String, u64> {
        self.ingest_bytes(stream, &ndjson(records))
    }

    /// The same for raw lines, through standard input.
    pub(crate) fn ingest_bytes(&self, stream: &str, lines: &[u8]) -> BTreeMap<String, u64> {
        let args = ["ingest", "--stream", stream, "-", "--json"];
        let mut command = self.command(&args);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines).unwrap();
        let text = printed(&args, child.wait_with_output().unwrap());
        outcomes(&serde_json::from_str(&text).unwrap())
    }

    pub(crate) fn members(&self, records: &[Value]) -> BTreeMap<String, u64> {
        self.ingest("memberships", records)
    }

    pub(crate) fn payments(&self, records: &[Value]) -> BTreeMap<String, u64> {
        self.ingest("site-payments", records)
    }

    /// A user's records, by due date.
    pub(crate) fn subscriptions(&self, user: &str) -> Vec<Value> {
        let answer = self.json(&["show", user]);
        assert_eq!(answer["user_id"], user);
        answer["subscriptions"].as_array().unwrap().clone()
    }

    /// A user's only record.
    pub(crate) fn only(&self, user: &str) -> Value {
        let mut all = self.subscriptions(user);
        assert_eq!(all.len(), 1, "{user} has {all:#?}");
        all.remove(0)
    }

    /// The id of a user's n-th record.
    pub(crate) fn id(&self, user: &str, n: usize) -> String {
        self.subscriptions(user)[n]["subscription_id"].as_str().unwrap().to_owned()
    }

    /// The output of `show` for a user, without the times of ingestion: two runs over the same facts show
    /// the same.
    pub(crate) fn shown(&self, user: &str) -> String {
        let mut member = self.json(&["show", user]);
        for (part, name) in [
            ("profile", "updatedAt"),
            ("credits", "lastReset"),
            ("credits", "lastTopUp"),
            ("credits", "expiresAt"),
        ] {
            member[part].as_object_mut().unwrap().remove(name);
        }
        member.to_string()
    }

    pub(crate) fn status(&self, user: &str) -> Value {
        self.json(&["show", user])["status"].clone()
    }

    /// The statuses of a user's records, by due date.
    pub(crate) fn statuses(&self, user: &str) -> Vec<String> {
        texts(&self.subscriptions(user), "billing_status")
    }

    pub(crate) fn history(&self, subscription: &str) -> Vec<Value> {
        self.json(&["history", subscription])["rows"].as_array().unwrap().clone()
    }

    /// Event and outcome of each history row.
    pub(crate) fn outcomes(&self, subscription: &str) -> Vec<(String, String)> {
        let rows = self.history(subscription);
        texts(&rows, "event_id").into_iter().zip(texts(&rows, "outcome")).collect()
    }

    pub(crate) fn parked(&self) -> Vec<Value> {
        self.json(&["parked"])["parked"].as_array().unwrap().clone()
    }
}

fn printed(args: &[&str], output: Output) -> String {
    assert!(
        output.status.success(),
        "{args:?}: {} {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The counts of a summary that are not zero. Checks for every ingest its keys, and that `read` is the sum
/// of the others.
pub(crate) fn outcomes(summary: &Value) -> BTreeMap<String, u64> {
    let mut counts: BTreeMap<String, u64> = summary
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, count)| (name.clone(), count.as_u64().unwrap()))
        .collect();
    let read = counts.remove("read").expect("a summary has the count of records read");
    assert_eq!(counts.keys().collect::<Vec<_>>(), FATES, "the keys of {summary}");
    assert_eq!(read, counts.values().sum::<u64>(), "{summary} does not add up");
    counts.retain(|_, count| *count > 0);
    counts
}

/// The same shape, from literals.
pub(crate) fn counts<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<String, u64> {
    counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

/// One line per record.
pub(crate) fn ndjson(records: &[Value]) -> Vec<u8> {
    records.iter().flat_map(|record| format!("{record}\n").into_bytes()).collect()
}

/// One text attribute of every row.
pub(crate) fn texts(rows: &[Value], name: &str) -> Vec<String> {
    rows.iter()
        .map(|row| row[name].as_str().unwrap_or_else(|| panic!("{name} of {row}")).to_owned())
        .collect()
}

/// Asserts that the text contains every one of these parts.
#[track_caller]
pub(crate) fn assert_says(text: &str, wanted: &[&str]) {
    for part in wanted {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
}

/// Asserts that the row has every one of these attributes.
#[track_caller]
pub(crate) fn assert_has(row: &Value, wanted: &Value) {
    for (name, value) in wanted.as_object().unwrap() {
        assert_eq!(&row[name], value, "{name} of {row:#}");
    }
}
