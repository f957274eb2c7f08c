//! Errors of handlers.

use axum::response::IntoResponse;
use dues_events::wire::WireError;
use dues_store::StoreError;

use super::Response;

/// A failed request.
#[derive(Debug)]
pub(super) enum Error {
    /// A field is invalid.
    Field(WireError),
    /// The store failed.
    Store(StoreError),
    /// Any other error response.
    Refused(Box<Response>),
}

impl Error {
    /// An invalid field.
    pub(super) fn field(field: &str, problem: impl Into<String>) -> Self {
        Self::Field(WireError { field: field.to_owned(), problem: problem.into() })
    }

    /// An error with a status, a code and a message.
    pub(super) fn new(status: u16, code: &str, message: impl Into<String>) -> Self {
        Response::error(status, code, message).into()
    }

    /// 404: `what` does not exist.
    pub(super) fn not_found(what: impl std::fmt::Display) -> Self {
        Self::new(404, "not_found", format!("there is no {what}"))
    }
}

impl From<WireError> for Error {
    fn from(error: WireError) -> Self {
        Self::Field(error)
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Response> for Error {
    fn from(response: Response) -> Self {
        Self::Refused(Box::new(response))
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> axum::response::Response {
        let response = match self {
            Self::Field(error) => Response::error(422, "invalid_field", error.to_string()),
            // The cause goes to the log only.
            Self::Store(error) if error.is_transient() => {
                tracing::warn!(%error, "api: store unavailable");
                Response::error(503, "unavailable", "the records cannot be reached now: try again soon")
            }
            Self::Store(error) => {
                tracing::error!(%error, "api: store failed");
                Response::error(500, "store", "the records cannot be read or written")
            }
            Self::Refused(response) => *response,
        };
        response.into_response()
    }
}
