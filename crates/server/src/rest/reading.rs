//! What a request says: the session in its path, its query, its body.

use auth::Principal;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use domain::SessionId;
use domain::limits::{REST_BODY_BYTES_MAX, TITLE_BYTES_MAX};
use serde::de::DeserializeOwned;
use session::handle::Reply;
use session::{Attached, CommandError, Entrance, From};
use tokio::sync::oneshot;

use crate::http::access_log::About;
use crate::http::answer::{attach_refusal, command_refusal, not_found};
use crate::http::body::{self, misshapen};
use crate::service::Service;

/// The session that a path names, if it names one at all.
pub(super) struct Named(Option<SessionId>);

impl Named {
    /// The session. Asked for after the body was read, so that what is no id and what is nobody's
    /// are refused alike.
    pub(super) fn id(&self) -> Result<SessionId, Response> {
        self.0.ok_or_else(not_found)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let path: Result<Path<String>, PathRejection> =
            Path::from_request_parts(parts, state).await;
        let named = path.ok().and_then(|Path(named)| named.parse().ok());
        Ok(Self(named))
    }
}

/// What the query says.
pub(super) fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Response> {
    let query = Query::try_from_uri(uri);
    let refused = |error: axum::extract::rejection::QueryRejection| misshapen(&error.body_text());
    query.map(|Query(query)| query).map_err(refused)
}

/// What the body says.
pub(super) async fn object<T: DeserializeOwned>(
    service: &Service,
    request: Request,
) -> Result<T, Response> {
    let bytes = body::read(&service.limits, request, REST_BODY_BYTES_MAX).await?;
    body::object(&bytes)
}

/// A header that may stand once.
pub(super) fn single<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Response> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    match (value.to_str(), values.next()) {
        (Ok(value), None) => Ok(Some(value.trim())),
        (Ok(_) | Err(_), _) => Err(misshapen(&format!("{name} must stand once, in plain text"))),
    }
}

/// Refuses a title that is no title.
pub(super) fn check_title(title: Option<&str>) -> Result<(), Response> {
    match title {
        Some(title) if title.trim().is_empty() || title.len() > TITLE_BYTES_MAX => {
            let message = format!("a title has between 1 and {TITLE_BYTES_MAX} bytes");
            Err(misshapen(&message))
        }
        Some(_) | None => Ok(()),
    }
}

/// Enters a session.
pub(super) async fn enter(
    service: &Service,
    principal: &Principal,
    (id, from): (SessionId, From),
) -> Result<Attached, Response> {
    let entrance = Entrance::new(principal, from);
    let attaching = service.sessions.attach(id, entrance);
    attaching.await.map_err(|error| attach_refusal(&error))
}

/// Has a session do something; returns when it is stored.
pub(super) async fn done<T: Send + 'static>(
    ask: impl FnOnce(Reply<Result<T, CommandError>>),
) -> Result<T, Response> {
    let (reply, done) = oneshot::channel();
    ask(Box::new(move |outcome| {
        // The asker may have gone; the change stands all the same.
        let _ = reply.send(outcome);
    }));
    let outcome = done.await.unwrap_or(Err(CommandError::Closed));
    outcome.map_err(|error| command_refusal(&error))
}

/// Says in the log which session an answer is about.
pub(super) fn about(id: SessionId, mut response: Response) -> Response {
    response.extensions_mut().insert(About(id));
    response
}
