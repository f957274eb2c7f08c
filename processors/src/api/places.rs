//! The paths of a read model, as a list: from it a request finds what it asks for, and the OpenAPI document its description. There is no other list,
//! so what is answered is described, and what is described is answered.

use serde_json::Value;

use super::openapi::{Operation, Part};
use super::{Request, Response};

/// A method of a path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<W: 'static> {
    /// Such as `GET`.
    pub(super) method: &'static str,
    /// The whole path; what stands in braces is an id.
    pub(super) path: &'static str,
    /// What it asks for.
    pub(super) asks: W,
    /// How it is described.
    pub(super) described: fn() -> Operation,
}

/// All paths of a read model. Where two of them fit a request, the first one is meant.
pub(super) type Places<W> = &'static [&'static [Place<W>]];

impl<W> Place<W> {
    pub(super) const fn get(path: &'static str, asks: W, described: fn() -> Operation) -> Self {
        Self { method: "GET", path, asks, described }
    }

    pub(super) const fn put(path: &'static str, asks: W, described: fn() -> Operation) -> Self {
        Self { method: "PUT", path, asks, described }
    }

    pub(super) const fn post(path: &'static str, asks: W, described: fn() -> Operation) -> Self {
        Self { method: "POST", path, asks, described }
    }

    pub(super) const fn delete(path: &'static str, asks: W, described: fn() -> Operation) -> Self {
        Self { method: "DELETE", path, asks, described }
    }
}

/// The ids of a path, by the names that the path has for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ids<'a>(Vec<(&'static str, &'a str)>);

impl<'a> Ids<'a> {
    /// The id of that name; empty, which no id is, when the path has none of that name.
    pub(super) fn get(&self, name: &str) -> &'a str {
        self.0.iter().find(|(known, _)| *known == name).map_or("", |(_, id)| id)
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &'a str)> + '_ {
        self.0.iter().copied()
    }

    /// What they name, for people.
    pub(super) fn name(&self) -> String {
        self.iter().map(|(name, id)| format!("{} {id}", name.trim_end_matches("_id").replace('_', " "))).collect::<Vec<_>>().join(", ")
    }
}

/// What a request asks for, and the ids of its path; or the answer to a path that is not there, or to a method that it does not take.
pub(super) fn find<'a, W>(places: Places<W>, path: &[&'a str], request: Request<'_>) -> Result<(&'static W, Ids<'a>), Response> {
    let Some((template, ids)) = fitting(places, path) else {
        return Err(Response::error(404, "no_such_path", format!("there is no {}", request.path)));
    };
    let here = || all(places).filter(|place| place.path == template);
    match here().find(|place| place.method == request.method) {
        Some(place) => Ok((&place.asks, ids)),
        None => Err(Response::not_allowed(here().map(|place| place.method).collect::<Vec<_>>().join(", "))),
    }
}

/// The path as it is described.
pub(super) fn template<W>(places: Places<W>, path: &[&str]) -> Option<&'static str> {
    fitting(places, path).map(|(template, _)| template)
}

/// Adds the descriptions of all paths.
pub(super) fn described<W>(places: Places<W>, part: Part) -> Part {
    all(places).fold(part, |part, place| {
        // An id that is too long is the id of nothing.
        let missing: &[u16] = if place.path.contains('{') { &[404] } else { &[] };
        part.with(place.method, place.path, (place.described)().errors(missing).errors(&[500, 503]))
    })
}

/// Adds shapes.
pub(super) fn shaped<const N: usize>(part: Part, shapes: [(&str, Value); N]) -> Part {
    shapes.into_iter().fold(part, |part, (name, schema)| part.shape(name, schema))
}

fn all<W>(places: Places<W>) -> impl Iterator<Item = &'static Place<W>> {
    places.iter().flat_map(|group| group.iter())
}

fn fitting<'a, W>(places: Places<W>, path: &[&'a str]) -> Option<(&'static str, Ids<'a>)> {
    all(places).find_map(|place| Some((place.path, ids(place.path, path)?)))
}

/// The ids, if the path is of that kind. Both models and their names were read before.
fn ids<'a>(template: &'static str, path: &[&'a str]) -> Option<Ids<'a>> {
    let mut wanted = template.split('/').skip(MODEL_SEGMENTS);
    let mut ids = Vec::new();
    for segment in path {
        let wanted = wanted.next()?;
        match wanted.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            Some(name) => ids.push((name, *segment)),
            None if wanted == *segment => {}
            None => return None,
        }
    }
    wanted.next().is_none().then_some(Ids(ids))
}

/// Nothing, `models`, and the name of the model.
const MODEL_SEGMENTS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: Places<u8> = &[
        &[Place::get("/models/m/things/new", 1, nothing)],
        &[
            Place::get("/models/m/things/{thing_id}", 2, nothing),
            Place::put("/models/m/things/{thing_id}", 3, nothing),
            Place::post("/models/m/things/{thing_id}/parts/{part_name}", 4, nothing),
        ],
    ];

    fn nothing() -> Operation {
        Operation::new("nothing", "Nothing.")
    }

    fn found(method: &str, path: &str) -> Result<(u8, String), (u16, Option<String>)> {
        let segments: Vec<&str> = path.split('/').collect();
        let found = find(PLACES, &segments, Request { method, path, query: "", body: b"" });
        found.map(|(asks, ids)| (*asks, ids.name())).map_err(|no| (no.status, no.allow.map(Into::into)))
    }

    #[test]
    fn the_first_path_that_fits_is_meant() {
        assert_eq!(found("GET", "things/new"), Ok((1, String::new())));
        assert_eq!(found("GET", "things/t-1"), Ok((2, "thing t-1".to_owned())));
        assert_eq!(found("POST", "things/t-1/parts/p"), Ok((4, "thing t-1, part name p".to_owned())));
    }

    #[test]
    fn other_methods_are_told_which_there_are_and_other_paths_that_there_are_none() {
        assert_eq!(found("PUT", "things/new"), Err((405, Some("GET".to_owned()))), "that is no thing");
        assert_eq!(found("POST", "things/t-1"), Err((405, Some("GET, PUT".to_owned()))));
        for no in ["things", "", "things/t-1/parts", "things/t-1/parts/p/q", "other/t-1"] {
            assert_eq!(found("GET", no), Err((404, None)), "{no}");
        }
    }
}
