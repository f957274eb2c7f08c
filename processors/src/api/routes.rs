//! Routes are declared once, each with its description. [`Served`] builds the `axum` router from them,
//! [`Document`] the OpenAPI document.
//!
//! Not with `utoipa-axum`: its `routes!` cannot name handlers that are generic over the engine, and every
//! binary with the router would also link the document, which the Lambda functions do not use.

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::map_response;
use axum::response::IntoResponse as _;
use axum::routing::{MethodFilter, MethodRouter};

use super::Route;
use super::document::{Document, Operation};
use super::response::Response;

/// A target for route declarations.
pub trait Routes<S>: Sized {
    /// Declares a route. Path segments in braces are ids.
    #[must_use]
    fn route<H: Handler<T, S>, T: 'static>(
        self,
        method: Method,
        path: &'static str,
        handler: H,
        describe: impl FnOnce() -> Operation,
    ) -> Self;

    /// Starts a group: the routes that follow have this tag.
    #[must_use]
    fn tag(self, name: &'static str, description: &'static str) -> Self;
}

/// The routes as an `axum` router.
pub struct Served<S> {
    paths: Vec<(&'static str, Vec<Method>, MethodRouter<S>)>,
}

impl<S> Default for Served<S> {
    fn default() -> Self {
        Self { paths: Vec::new() }
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> for Served<S> {
    fn route<H: Handler<T, S>, T: 'static>(
        mut self,
        method: Method,
        path: &'static str,
        handler: H,
        _: impl FnOnce() -> Operation,
    ) -> Self {
        // Cannot fail: methods are constants of this crate and of `dues`, and all have a filter.
        let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::TRACE);
        match self.paths.iter_mut().find(|(known, ..)| *known == path) {
            Some((_, methods, router)) => {
                methods.push(method);
                *router = std::mem::take(router).on(filter, handler);
            }
            None => self.paths.push((path, vec![method], MethodRouter::new().on(filter, handler))),
        }
        self
    }

    fn tag(self, _: &'static str, _: &'static str) -> Self {
        self
    }
}

impl<S: Clone + Send + Sync + 'static> Served<S> {
    /// The router. Undeclared methods of a known path are 405, `HEAD` included.
    pub fn router(self) -> Router<S> {
        self.paths.into_iter().fold(Router::new(), |router, (path, methods, route)| {
            let allowed = methods.iter().map(Method::as_str).collect::<Vec<_>>().join(", ");
            let refused = move || {
                let refused = Response::not_allowed(allowed.clone());
                async move { refused }
            };
            let named = map_response(move |mut response: axum::response::Response| async move {
                response.extensions_mut().insert(Route(path));
                response
            });
            router.route(path, route.head(refused.clone()).fallback(refused).layer(named))
        })
    }
}

impl<S> Routes<S> for Document {
    fn route<H: Handler<T, S>, T: 'static>(
        self,
        method: Method,
        path: &'static str,
        _: H,
        describe: impl FnOnce() -> Operation,
    ) -> Self {
        self.with(&method, path, describe())
    }

    fn tag(self, name: &'static str, description: &'static str) -> Self {
        self.with_tag(name, description)
    }
}

/// 404 for unknown paths.
pub async fn no_such_path(request: Request) -> axum::response::Response {
    let path = request.uri().path();
    Response::error(404, "no_such_path", format!("there is no {path}")).into_response()
}
