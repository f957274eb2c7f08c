//! A document's processing job, driven by S3 objects: an upload, a marker while it is processed, a result.
//!
//! S3 notifications create and update the job's row, so that a status request does not query S3. They arrive
//! at least once and in any order. The sequencer of a key grows with each change, so the greatest one wins.

use dues_events::{Item, Time, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::rows;

/// The sort key prefix of a job.
pub const JOB: &str = "JOB#";
/// The prefix of every user's object keys.
const USERS: &str = "users/";
/// The part of an object key between the user and the folder.
const DOCUMENTS: &str = "/documents/";
/// The longest sequencer, in digits.
const DIGITS: usize = 64;

/// The role of a document's S3 object, given by its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectKind {
    /// The uploaded document.
    Upload,
    /// The marker of a document that is being processed.
    Processing,
    /// The result.
    Result,
    /// The marker of a document that could not be processed.
    Failed,
}

impl ObjectKind {
    /// Folder and file name suffix of each kind.
    const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::Upload, "uploads/", ""),
        (Self::Processing, "processing/", ".processing"),
        (Self::Result, "results/", ".json"),
        (Self::Failed, "failed/", ".failed"),
    ];

    /// The kind's name, as used in ids.
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

/// Parses an object key into user, kind and file. The file name is the whole rest and may contain dots,
/// blanks and slashes. `None` for other keys.
#[must_use]
pub fn read_key(key: &str) -> Option<(&str, ObjectKind, &str)> {
    let (user, rest) = key.strip_prefix(USERS)?.split_once(DOCUMENTS)?;
    let read = |(place, folder, ending): (ObjectKind, &str, &str)| {
        let file = rest.strip_prefix(folder)?.strip_suffix(ending)?;
        // S3 represents a folder as an object with a trailing slash.
        (!file.is_empty() && !file.ends_with('/')).then_some((user, place, file))
    };
    (!user.is_empty() && !user.contains('/')).then(|| ObjectKind::ALL.into_iter().find_map(read)).flatten()
}

/// A sequencer in comparable form: lower-case hexadecimal digits, zero-padded to one length.
#[must_use]
pub fn read_sequencer(text: &str) -> Option<String> {
    let fits = (1..=DIGITS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    fits.then(|| format!("{:0>DIGITS$}", text.to_ascii_lowercase()))
}

/// State of a document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// The owner's id.
    pub user: String,
    /// The file name.
    pub file: String,
    /// The latest known state of each object.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub objects: BTreeMap<ObjectKind, Object>,
    /// The latest failure reported by an application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// State of an S3 object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Object {
    /// The sequencer of the change; the greatest wins.
    pub sequencer: String,
    /// When the change happened.
    pub at: Time,
    /// Whether the object was deleted.
    pub gone: bool,
}

/// A processing failure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Failure {
    /// When it failed.
    pub at: Time,
    /// The reason, if reported.
    pub error_message: Option<String>,
}

impl Document {
    /// A document with one object created or deleted.
    #[must_use]
    pub fn object(user: &str, file: &str, place: ObjectKind, object: Object) -> Self {
        Self {
            user: user.to_owned(),
            file: file.to_owned(),
            objects: [(place, object)].into_iter().collect(),
            failure: None,
        }
    }

    /// Merges another state: the greatest sequencer of each object, the latest failure.
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

    /// The row; `None` without an upload or a result.
    pub(super) fn row(&self) -> Option<Item> {
        let there = |place: ObjectKind| {
            self.objects.get(&place).filter(|object| !object.gone).map(|object| object.at)
        };
        let (uploaded, processing, result) =
            (there(ObjectKind::Upload), there(ObjectKind::Processing), there(ObjectKind::Result));
        let failure = self
            .failure(there(ObjectKind::Failed))
            .filter(|failure| Some(failure.at) >= uploaded.max(processing));
        let status = match (result, uploaded, &failure, processing) {
            (Some(_), _, _, _) => "completed",
            (None, None, _, _) => return None,
            (None, Some(_), Some(_), _) => "failed",
            (None, Some(_), None, Some(_)) => "processing",
            (None, Some(_), None, None) => "pending",
        };
        let mut data =
            rows::map([("status", Value::text(status)), ("file_name", Value::text(self.file.as_str()))]);
        let times = [
            ("uploaded_at", uploaded),
            ("processing_started_at", processing.filter(|_| status == "processing")),
            ("completed_at", result),
        ];
        for (name, at) in times.into_iter().filter_map(|(name, at)| at.map(|at| (name, at))) {
            data.set_text(name, rows::text(at));
        }
        if result.is_some() {
            data.set_text(
                "result_location",
                format!("{USERS}{}{DOCUMENTS}results/{}.json", self.user, self.file),
            );
        }
        if let Some(message) =
            failure.filter(|_| status == "failed").and_then(|failure| failure.error_message)
        {
            data.set_text("error_message", message);
        }
        let times = self
            .objects
            .values()
            .map(|object| object.at)
            .chain(self.failure.iter().map(|failure| failure.at));
        let created = uploaded.or(result)?;
        let updated = times.max().unwrap_or(created);
        Some(rows::row(
            rows::user_partition(&self.user),
            format!("{JOB}{}", self.file),
            "job",
            Value::M(data),
            created,
            updated,
        ))
    }

    /// The latest failure, from an application or from the marker object, which has no message.
    fn failure(&self, marker: Option<Time>) -> Option<Failure> {
        let marked = marker.map(|at| Failure { at, error_message: None });
        match (self.failure.clone(), marked) {
            // Both report one failure; only the application gives the reason.
            (Some(reported), Some(marked)) => Some(Failure { at: reported.at.max(marked.at), ..reported }),
            (reported, marked) => reported.or(marked),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_user_place_and_file() {
        let read = |key: &'static str| read_key(key);
        assert_eq!(
            read("users/u-1/documents/uploads/blood test.v2.pdf"),
            Some(("u-1", ObjectKind::Upload, "blood test.v2.pdf"))
        );
        assert_eq!(
            read("users/u-1/documents/processing/a.pdf.processing"),
            Some(("u-1", ObjectKind::Processing, "a.pdf"))
        );
        assert_eq!(
            read("users/u-1/documents/results/2026/röntgen.pdf.json"),
            Some(("u-1", ObjectKind::Result, "2026/röntgen.pdf"))
        );
        assert_eq!(
            read("users/u-1/documents/failed/a.pdf.failed"),
            Some(("u-1", ObjectKind::Failed, "a.pdf"))
        );
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
