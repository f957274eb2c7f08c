//! A document's job, driven by the objects of S3: an upload, a marker while it is processed, a result.
//!
//! The seed asks S3 for three objects whenever somebody wants to know. Here S3 tells when they come and go, and the job is a row. S3 tells at least once
//! and in any order; each object has a sequencer that grows with its changes, so the greatest one of a key says how it is.

use dues_events::{Item, Time, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::rows;

/// What starts the sort key of a job.
pub const JOB: &str = "JOB#";
/// What starts the key of every object of a user's.
const USERS: &str = "users/";
/// What stands between the user and the place.
const DOCUMENTS: &str = "/documents/";
/// The most digits of a sequencer.
const DIGITS: usize = 64;

/// Where an object of a document lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The document.
    Upload,
    /// The marker of work on it.
    Processing,
    /// The result.
    Result,
    /// The marker of work that failed.
    Failed,
}

impl Place {
    /// Their folders and what their names end with.
    const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::Upload, "uploads/", ""),
        (Self::Processing, "processing/", ".processing"),
        (Self::Result, "results/", ".json"),
        (Self::Failed, "failed/", ".failed"),
    ];

    /// As ids have it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Upload => "upload",
            Self::Processing => "processing",
            Self::Result => "result",
            Self::Failed => "failed",
        }
    }
}

/// Which object a key names: user, place and file. A file's name is all that is left, with dots, blanks and slashes; `None` for a key of something else.
#[must_use]
pub fn read_key(key: &str) -> Option<(&str, Place, &str)> {
    let (user, rest) = key.strip_prefix(USERS)?.split_once(DOCUMENTS)?;
    let read = |(place, folder, ending): (Place, &str, &str)| {
        let file = rest.strip_prefix(folder)?.strip_suffix(ending)?;
        // A folder is an object whose name ends with a slash.
        (!file.is_empty() && !file.ends_with('/')).then_some((user, place, file))
    };
    (!user.is_empty() && !user.contains('/')).then(|| Place::ALL.into_iter().find_map(read)).flatten()
}

/// A sequencer as it can be compared: hexadecimal digits, with zeros before them to one length.
#[must_use]
pub fn read_sequencer(text: &str) -> Option<String> {
    let fits = (1..=DIGITS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    fits.then(|| format!("{:0>DIGITS$}", text.to_ascii_lowercase()))
}

/// What is known of a document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// Whose.
    pub user: String,
    /// Its name.
    pub file: String,
    /// Its objects.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub objects: BTreeMap<Place, Object>,
    /// The latest failure that an application told of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// How an object is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Object {
    /// Which change says so; the greatest counts.
    pub sequencer: String,
    /// When that was.
    pub at: Time,
    /// Whether it was removed.
    pub gone: bool,
}

/// Work that failed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Failure {
    /// When.
    pub at: Time,
    /// Why.
    pub error_message: Option<String>,
}

impl Document {
    /// That an object came or went.
    #[must_use]
    pub fn object(user: &str, file: &str, place: Place, object: Object) -> Self {
        Self { user: user.to_owned(), file: file.to_owned(), objects: [(place, object)].into_iter().collect(), failure: None }
    }

    /// Adds what somebody else knows.
    pub(super) fn join(&mut self, other: &Self) {
        self.user.clone_from(&other.user);
        self.file.clone_from(&other.file);
        for (place, object) in &other.objects {
            if self.objects.get(place).is_none_or(|known| known < object) {
                self.objects.insert(*place, object.clone());
            }
        }
        self.failure = self.failure.take().max(other.failure.clone());
    }

    /// The row; `None` when nothing is left of it.
    pub(super) fn row(&self) -> Option<Item> {
        let there = |place: Place| self.objects.get(&place).filter(|object| !object.gone).map(|object| object.at);
        let (uploaded, processing, result) = (there(Place::Upload), there(Place::Processing), there(Place::Result));
        let failure = self.failure(there(Place::Failed)).filter(|failure| Some(failure.at) >= uploaded.max(processing));
        let status = match (result, uploaded, &failure, processing) {
            (Some(_), _, _, _) => "completed",
            (None, None, _, _) => return None,
            (None, Some(_), Some(_), _) => "failed",
            (None, Some(_), None, Some(_)) => "processing",
            (None, Some(_), None, None) => "pending",
        };
        let mut data = rows::map([("status", Value::text(status)), ("file_name", Value::text(self.file.as_str()))]);
        let times =
            [("uploaded_at", uploaded), ("processing_started_at", processing.filter(|_| status == "processing")), ("completed_at", result)];
        for (name, at) in times.into_iter().filter_map(|(name, at)| at.map(|at| (name, at))) {
            data.set_text(name, rows::text(at));
        }
        if result.is_some() {
            data.set_text("result_location", format!("{USERS}{}{DOCUMENTS}results/{}.json", self.user, self.file));
        }
        if let Some(message) = failure.filter(|_| status == "failed").and_then(|failure| failure.error_message) {
            data.set_text("error_message", message);
        }
        let times = self.objects.values().map(|object| object.at).chain(self.failure.iter().map(|failure| failure.at));
        let created = uploaded.or(result)?;
        let updated = times.max().unwrap_or(created);
        Some(rows::row(rows::user_partition(&self.user), format!("{JOB}{}", self.file), "job", Value::M(data), created, updated))
    }

    /// The latest failure: an application's word, or a marker, which says nothing more.
    fn failure(&self, marker: Option<Time>) -> Option<Failure> {
        let marked = marker.map(|at| Failure { at, error_message: None });
        match (self.failure.clone(), marked) {
            // Both tell of one failure: the application says why.
            (Some(told), Some(marked)) => Some(Failure { at: told.at.max(marked.at), ..told }),
            (told, marked) => told.or(marked),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_user_place_and_file() {
        let read = |key: &'static str| read_key(key);
        assert_eq!(read("users/u-1/documents/uploads/blood test.v2.pdf"), Some(("u-1", Place::Upload, "blood test.v2.pdf")));
        assert_eq!(read("users/u-1/documents/processing/a.pdf.processing"), Some(("u-1", Place::Processing, "a.pdf")));
        assert_eq!(read("users/u-1/documents/results/2026/röntgen.pdf.json"), Some(("u-1", Place::Result, "2026/röntgen.pdf")));
        assert_eq!(read("users/u-1/documents/failed/a.pdf.failed"), Some(("u-1", Place::Failed, "a.pdf")));
        for other in [
            "users/u-1/documents/uploads/",
            "users/u-1/documents/results/a.pdf",
            "users//documents/uploads/a",
            "users/a/b/documents/uploads/a",
            "x",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn sequencers_compare_by_their_value() {
        let read = |text: &str| read_sequencer(text).unwrap();
        assert!(read("0055AED6DCD90281E5") < read("0055AED6DCD90281E6"));
        assert!(read("FF") < read("100") && read("ff") == read("00FF"));
        assert_eq!((read_sequencer(""), read_sequencer("xyz")), (None, None));
    }
}
