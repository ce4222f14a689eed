//! One fetch: a loop over hops, each judged anew, within the limits of the whole.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method, header};
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::answer::{Request, Response};
use crate::connect;
use crate::error::{FetchError, Phase};
use crate::exchange::{self, Outgoing};
use crate::guard::Guard;
use crate::redirect;
use crate::refusal::{RedirectFault, Refusal};
use crate::target::Target;

/// Headers that belong to the connection or that the guard itself decides.
const OURS: &[HeaderName] = &[
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::EXPECT,
    header::ACCEPT_ENCODING,
    header::PROXY_AUTHORIZATION,
];

/// Carries out `request` through `guard`.
///
/// # Errors
/// A refusal, or whatever went wrong on the way.
pub(crate) async fn run(guard: &Guard, request: Request) -> Result<Response, FetchError> {
    if let Some(name) = OURS.iter().find(|name| request.headers.contains_key(*name)) {
        return Err(FetchError::Header(name.to_string()));
    }
    let limit = guard.parts.policy.limits.total;
    let deadline = Instant::now() + limit;
    let permit = timeout_at(deadline, guard.permits.acquire()).await;
    // The semaphore is never closed; if it were, nobody could fetch.
    let _permit = permit.ok().and_then(Result::ok).ok_or(FetchError::Busy)?;
    let phase = Phase::Total;
    let done = timeout_at(deadline, hops(guard, request)).await;
    done.map_err(|_| FetchError::Timeout { phase, limit })?
}

async fn hops(guard: &Guard, request: Request) -> Result<Response, FetchError> {
    let limits = &guard.parts.policy.limits;
    let mut redirects: Vec<Url> = Vec::new();
    let refused = |hop| move |refusal| FetchError::Refused { refusal, hop };
    let target = Target::parse(&request.url).map_err(refused(0))?;
    let mut step = Step {
        target,
        method: request.method,
        headers: request.headers,
        body: request.body,
    };
    loop {
        let hop = redirects.len();
        let admitted = guard.admit(step.target.clone()).await;
        let admitted = admitted.map_err(refused(hop))?;
        let connection = connect::open(&guard.parts, &admitted).await?;
        let outgoing = Outgoing {
            target: &step.target,
            method: &step.method,
            headers: &step.headers,
            body: &step.body,
            user_agent: &guard.parts.user_agent,
        };
        let incoming = exchange::start(connection, outgoing, limits).await?;
        let (status, headers) = (incoming.status(), incoming.headers());
        let next = redirect::next(&step.target, status, headers).map_err(refused(hop + 1))?;
        let Some(next) = next else {
            return incoming
                .finish(step.target.url().clone(), redirects, limits)
                .await;
        };
        if hop >= limits.redirects_max {
            let refusal = Refusal::Redirect(RedirectFault::TooMany);
            return Err(refused(hop + 1)(refusal));
        }
        redirects.push(step.target.url().clone());
        step = step.toward(next, status);
    }
}

/// What the next hop sends.
struct Step {
    target: Target,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
}

impl Step {
    /// What the caller gave is dropped for good once the origin changes: there is no way back to
    /// it from the emptied step.
    fn toward(self, target: Target, status: http::StatusCode) -> Self {
        let is_same_origin = target.has_origin_of(&self.target);
        let method = redirect::method(status, &self.method, is_same_origin);
        let keeps_body = is_same_origin && method == self.method;
        let mut headers = self.headers;
        if !is_same_origin {
            headers.clear();
        }
        if !keeps_body {
            headers.remove(header::CONTENT_TYPE);
        }
        Self {
            target,
            body: if keeps_body { self.body } else { Bytes::new() },
            method,
            headers,
        }
    }
}
