//! What a method and a path ask for.

use dues_events::Item;
use serde_json::{Value, json};

use crate::read_models::figureforge::queries::shown;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What<'a> {
    One(One<'a>),
    List(List<'a>),
    Command(Command<'a>),
}

/// One thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum One<'a> {
    User(&'a str),
    Subscription(&'a str),
    Job(&'a str),
    Image(&'a str),
    Url(&'a str),
    Report(&'a str, &'a str),
    Flag(&'a str),
    Plan(&'a str),
}

impl One<'_> {
    /// What it is called.
    pub(super) fn name(&self) -> String {
        match self {
            Self::User(id) => format!("user {id}"),
            Self::Subscription(id) => format!("subscription {id}"),
            Self::Job(id) => format!("job {id}"),
            Self::Image(id) | Self::Url(id) => format!("image {id}"),
            Self::Report(image, id) => format!("report {id} of image {image}"),
            Self::Flag(name) => format!("flag {name}"),
            Self::Plan(id) => format!("plan {id}"),
        }
    }
}

/// Several things, a page at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List<'a> {
    Users,
    Jobs,
    Reports,
    Plans,
    Flags,
    ImagesOf(&'a str),
    JobsOf(&'a str),
    SubscriptionsOf(&'a str),
    ReportsOf(&'a str),
    Tag(&'a str),
}

impl List<'_> {
    /// An item as it is shown: a row of the tag index says in its key which image it is about.
    pub(super) fn shown(self, item: &Item) -> Value {
        match self {
            Self::Tag(tag) => {
                let image = item.text("sk").and_then(|sort| sort.strip_prefix("IMG#"));
                json!({"tag": tag, "image_id": image, "created_at": item.get("created_at").map(|at| at.to_json())})
            }
            Self::Users
            | Self::Jobs
            | Self::Reports
            | Self::Plans
            | Self::Flags
            | Self::ImagesOf(_)
            | Self::JobsOf(_)
            | Self::SubscriptionsOf(_)
            | Self::ReportsOf(_) => shown(item),
        }
    }
}

/// Something to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command<'a> {
    /// The fact that it makes.
    pub(super) kind: &'static str,
    ids: Vec<(&'static str, &'a str)>,
}

impl<'a> Command<'a> {
    /// What it is about, as the fact names it.
    pub(super) fn ids(&self) -> impl Iterator<Item = (String, Value)> + use<'a> {
        self.ids.clone().into_iter().map(|(name, id)| (name.to_owned(), id.into()))
    }

    /// What it is about, as people name it.
    pub(super) fn name(&self) -> String {
        self.ids.iter().map(|(name, id)| format!("{name} {id}")).collect::<Vec<_>>().join(", ")
    }

    /// Whether what it is about may not be there yet.
    pub(super) fn makes(&self) -> bool {
        ["user.saved", "plan.saved", "flag.set", "job.queued", "image.saved", "report.filed"].contains(&self.kind)
    }
}

/// The methods in the order in which they are named.
const METHODS: [&str; 4] = ["GET", "PUT", "POST", "DELETE"];
/// The sets of methods that paths take.
const SETS: [&str; 4] = ["GET", "PUT", "POST", "GET, PUT, DELETE"];

/// The methods that a path takes, as the `allow` header has them; `None` for a path that there is not.
pub(super) fn allowed(path: &[&str]) -> Option<&'static str> {
    let taken: Vec<&str> = METHODS.into_iter().filter(|method| what(method, path).is_some()).collect();
    SETS.into_iter().find(|set| *set == taken.join(", "))
}

/// What is asked for; `None` for nothing that there is.
pub(super) fn what<'a>(method: &str, path: &[&'a str]) -> Option<What<'a>> {
    match method {
        "GET" => read(path),
        "PUT" => put(path).map(What::Command),
        "POST" => post(path).map(What::Command),
        "DELETE" => delete(path).map(What::Command),
        _ => None,
    }
}

fn read<'a>(path: &[&'a str]) -> Option<What<'a>> {
    let one = match path {
        ["users", id] => One::User(id),
        ["subscriptions", id] => One::Subscription(id),
        ["jobs", id] => One::Job(id),
        ["images", id] => One::Image(id),
        ["images", id, "url"] => One::Url(id),
        ["images", image, "reports", id] => One::Report(image, id),
        ["flags", name] => One::Flag(name),
        ["plans", id] => One::Plan(id),
        _ => return list(path).map(What::List),
    };
    Some(What::One(one))
}

fn list<'a>(path: &[&'a str]) -> Option<List<'a>> {
    Some(match path {
        ["users"] => List::Users,
        ["users", user, "images"] => List::ImagesOf(user),
        ["users", user, "jobs"] => List::JobsOf(user),
        ["users", user, "subscriptions"] => List::SubscriptionsOf(user),
        ["jobs"] => List::Jobs,
        ["reports"] => List::Reports,
        ["images", image, "reports"] => List::ReportsOf(image),
        ["tags", tag] => List::Tag(tag),
        ["flags"] => List::Flags,
        ["plans"] => List::Plans,
        _ => return None,
    })
}

fn put<'a>(path: &[&'a str]) -> Option<Command<'a>> {
    let (kind, ids) = match path {
        ["users", id] => ("user.saved", vec![("user_id", *id)]),
        ["jobs", id] => ("job.queued", vec![("job_id", *id)]),
        ["images", id] => ("image.saved", vec![("image_id", *id)]),
        ["images", id, "tags"] => ("image.tagged", vec![("image_id", *id)]),
        ["images", id, "favorites"] => ("image.favorited", vec![("image_id", *id)]),
        ["images", id, "flag"] => ("image.flagged", vec![("image_id", *id)]),
        ["images", image, "reports", id] => ("report.filed", vec![("image_id", *image), ("report_id", *id)]),
        ["flags", name] => ("flag.set", vec![("flag_name", *name)]),
        ["plans", id] => ("plan.saved", vec![("plan_id", *id)]),
        _ => return None,
    };
    Some(Command { kind, ids })
}

fn post<'a>(path: &[&'a str]) -> Option<Command<'a>> {
    let (kind, ids) = match path {
        ["users", id, "restore"] => ("user.restored", vec![("user_id", *id)]),
        ["flags", name, "restore"] => ("flag.restored", vec![("flag_name", *name)]),
        ["plans", id, "restore"] => ("plan.restored", vec![("plan_id", *id)]),
        ["images", id, "restore"] => ("image.restored", vec![("image_id", *id)]),
        ["images", id, "purge"] => ("image.purged", vec![("image_id", *id)]),
        ["jobs", id, verb] => {
            let kind = match *verb {
                "start" => "job.started",
                "succeed" => "job.succeeded",
                "fail" => "job.failed",
                "cancel" => "job.cancelled",
                "restore" => "job.restored",
                _ => return None,
            };
            (kind, vec![("job_id", *id)])
        }
        ["images", image, "reports", id, verb] => {
            let kind = match *verb {
                "review" => "report.reviewed",
                "dismiss" => "report.dismissed",
                "uphold" => "report.upheld",
                "restore" => "report.restored",
                _ => return None,
            };
            (kind, vec![("image_id", *image), ("report_id", *id)])
        }
        _ => return None,
    };
    Some(Command { kind, ids })
}

fn delete<'a>(path: &[&'a str]) -> Option<Command<'a>> {
    let (kind, ids) = match path {
        ["users", id] => ("user.deleted", vec![("user_id", *id)]),
        ["jobs", id] => ("job.deleted", vec![("job_id", *id)]),
        ["images", id] => ("image.deleted", vec![("image_id", *id)]),
        ["images", image, "reports", id] => ("report.deleted", vec![("image_id", *image), ("report_id", *id)]),
        ["flags", name] => ("flag.deleted", vec![("flag_name", *name)]),
        ["plans", id] => ("plan.deleted", vec![("plan_id", *id)]),
        _ => return None,
    };
    Some(Command { kind, ids })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_says_which_methods_it_takes() {
        for (path, methods) in [
            ("users", "GET"),
            ("users/u", "GET, PUT, DELETE"),
            ("users/u/images", "GET"),
            ("users/u/restore", "POST"),
            ("subscriptions/s", "GET"),
            ("jobs/j", "GET, PUT, DELETE"),
            ("jobs/j/cancel", "POST"),
            ("images/i", "GET, PUT, DELETE"),
            ("images/i/tags", "PUT"),
            ("images/i/url", "GET"),
            ("images/i/reports", "GET"),
            ("images/i/reports/r", "GET, PUT, DELETE"),
            ("images/i/reports/r/uphold", "POST"),
            ("tags/t", "GET"),
            ("flags/f", "GET, PUT, DELETE"),
            ("plans/p", "GET, PUT, DELETE"),
        ] {
            assert_eq!(allowed(&path.split('/').collect::<Vec<_>>()), Some(methods), "{path}");
        }
        for no in ["", "tags", "images", "images/i/likes", "jobs/j/stop", "users/u/images/i"] {
            assert_eq!(allowed(&no.split('/').collect::<Vec<_>>()), None, "{no}");
        }
    }
}
