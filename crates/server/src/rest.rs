//! REST under `/api/v1`: sessions for scripts, CI jobs and pages, one request at a time.
//!
//! [`ROUTES`] is the whole of it. What is taken and given is typed in [`shapes`], and [`openapi`]
//! describes it from those types. Nothing here knows more of a session than any client does:
//! requests enter it, act and leave; [`stream`] is a client that stays.

#![expect(
    clippy::result_large_err,
    reason = "an answer is what a check gives instead of its result, once per request"
)]

mod about;
mod changes;
mod events;
mod files;
mod openapi;
mod operations;
mod permissions;
mod prompts;
mod reading;
mod server_view;
mod sessions;
mod shapes;
mod shares;
mod sse;
mod stream;

use std::sync::Arc;

use axum::Router;
use axum::routing::{MethodFilter, MethodRouter, on};

use crate::service::Service;

/// Where everything here is.
const PREFIX: &str = "/api/v1";

/// One thing that can be asked for: how, where, and who answers.
struct Route {
    method: MethodFilter,
    path: &'static str,
    handler: fn(MethodFilter) -> MethodRouter<Arc<Service>>,
}

/// Short for a row of [`ROUTES`].
const fn route(
    method: MethodFilter,
    path: &'static str,
    handler: fn(MethodFilter) -> MethodRouter<Arc<Service>>,
) -> Route {
    Route {
        method,
        path,
        handler,
    }
}

const GET: MethodFilter = MethodFilter::GET;
const POST: MethodFilter = MethodFilter::POST;
const PATCH: MethodFilter = MethodFilter::PATCH;
const DELETE: MethodFilter = MethodFilter::DELETE;

/// All that can be asked for.
const ROUTES: &[Route] = &[
    route(POST, "/sessions", |m| on(m, sessions::create)),
    route(GET, "/sessions", |m| on(m, sessions::list)),
    route(GET, "/sessions/changes", |m| on(m, changes::changes)),
    route(GET, "/sessions/{id}", |m| on(m, sessions::one)),
    route(PATCH, "/sessions/{id}", |m| on(m, sessions::change)),
    route(DELETE, "/sessions/{id}", |m| on(m, sessions::delete)),
    route(POST, "/sessions/{id}/fork", |m| on(m, sessions::fork)),
    route(GET, "/sessions/{id}/events", |m| on(m, events::events)),
    route(GET, "/sessions/{id}/stream", |m| on(m, stream::stream)),
    route(POST, "/sessions/{id}/prompts", |m| on(m, prompts::prompt)),
    route(POST, "/sessions/{id}/cancel", |m| on(m, prompts::cancel)),
    route(POST, "/sessions/{id}/share", |m| on(m, shares::share)),
    route(GET, "/sessions/{id}/shares", |m| on(m, shares::list)),
    route(DELETE, "/sessions/{id}/shares/{shareId}", |m| {
        on(m, shares::end)
    }),
    route(GET, "/sessions/{id}/files", |m| on(m, files::files)),
    route(GET, "/permissions", |m| on(m, permissions::list)),
    route(POST, "/permissions/{id}", |m| on(m, permissions::answer)),
    route(GET, "/usage", |m| on(m, about::usage)),
    route(GET, "/server", |m| on(m, server_view::server)),
    route(GET, "/info", |m| on(m, about::info)),
    route(GET, "/openapi.json", |m| on(m, openapi::openapi)),
];

/// Where each of them leads.
pub(crate) fn routes() -> Router<Arc<Service>> {
    ROUTES.iter().fold(Router::new(), |router, route| {
        let path = format!("{PREFIX}{}", route.path);
        router.route(&path, (route.handler)(route.method))
    })
}
