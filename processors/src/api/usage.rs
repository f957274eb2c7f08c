//! The paths below `/models/usage/`.

use dues_store::{Engine, Store};

use super::{Request, Response};

/// Answers a request; the path has no percent-encoding any more.
pub(super) async fn answer<E: Engine>(_store: &Store<E>, path: &[&str], _request: Request<'_>) -> Response {
    Response::error(404, "no_such_path", format!("there is no /models/usage/{}", path.join("/")))
}
