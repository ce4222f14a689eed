//! Following a session as server-sent events.
//!
//! A task pumps the session's stream into a channel with room for one piece; the body of the answer
//! is its other end. So a slow reader holds up its own cursor and nothing else, and one that stops
//! reading for the stall time is let go: what it missed is in the journal.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use auth::Principal;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use domain::{Cursor, EventSeq};
use session::{From, SessionHandle, Subscription};
use tokio::sync::mpsc;

use super::reading::{Named, about, enter, query, single};
use super::shapes::Following;
use crate::http::answer::refusal;
use crate::http::body::misshapen;
use crate::service::{Service, Slot};

mod teller;

use teller::Teller;

/// How often an open stream says that it lives.
const COMMENT_EVERY: Duration = Duration::from_secs(15);

/// Follows a session.
#[utoipa::path(get, path = "/api/v1/sessions/{id}/stream", tag = "sessions",
    params(("id" = String, Path), Following,
        ("Last-Event-ID" = Option<String>, Header,
            description = "as `after`, and before it: what a reader that comes back has seen")),
    responses((status = 200, body = String, content_type = "text/event-stream",
        description = "events `update`, `turn` and `resync`")))]
pub(super) async fn stream(
    State(service): State<Arc<Service>>,
    Extension(principal): Extension<Principal>,
    named: Named,
    (uri, headers): (Uri, HeaderMap),
) -> Result<Response, Response> {
    let Following { after } = query(&uri)?;
    let seen = single(&headers, "last-event-id")?.filter(|seen| !seen.is_empty());
    let from = match seen.or(after.as_deref()) {
        Some(after) => {
            from_after(after).ok_or_else(|| misshapen("this is no place in a stream"))?
        }
        None => From::Head,
    };
    let id = named.id()?;
    let slot = service.take_slot(&principal).ok_or_else(too_many)?;
    let attached = enter(&service, &principal, (id, from)).await?;
    let (pieces, mut body) = mpsc::channel(1);
    let teller = Teller::new(&service, &attached, from);
    let pump = Pump {
        service: Arc::clone(&service),
        principal,
        subscription: attached.subscription,
        teller,
        pieces,
        _attached: attached.handle,
        _slot: slot,
    };
    service.connections.spawn(pump.run());
    let body = futures_util::stream::poll_fn(move |context| {
        let next = body.poll_recv(context);
        next.map(|piece| piece.map(Ok::<Bytes, Infallible>))
    });
    let mut response = Body::from_stream(body).into_response();
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    let never = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, never);
    Ok(about(id, response))
}

/// Moves a session's stream to one reader.
struct Pump {
    service: Arc<Service>,
    principal: Principal,
    subscription: Subscription,
    teller: Teller,
    pieces: mpsc::Sender<Bytes>,
    /// Being attached is what keeps the session in memory.
    _attached: SessionHandle,
    _slot: Slot,
}

/// The reader has left, or is let go.
struct Gone;

impl Pump {
    async fn run(mut self) {
        let (service, principal) = (Arc::clone(&self.service), self.principal.clone());
        tokio::select! {
            biased;
            () = revoked(&service, &principal) => {}
            // Err means that there is nobody to tell; the session goes on.
            _ = self.follow() => {}
        }
    }

    /// Ends with the session, which ends before the service does.
    async fn follow(&mut self) -> Result<(), Gone> {
        let first = self.teller.first();
        self.send(first).await?;
        let reader = self.pieces.clone();
        loop {
            let next = tokio::select! {
                biased;
                () = reader.closed() => return Err(Gone),
                next = self.subscription.next() => Some(next),
                () = tokio::time::sleep(COMMENT_EVERY) => None,
            };
            let piece = match next {
                Some(Ok(Some(deliveries))) => self.teller.tell(deliveries),
                Some(Ok(None)) => return Ok(()),
                Some(Err(error)) => {
                    tracing::warn!(%error, "the journal could not be read");
                    return Ok(());
                }
                None => Bytes::from_static(b":\n\n"),
            };
            self.send(piece).await?;
        }
    }

    async fn send(&self, piece: Bytes) -> Result<(), Gone> {
        if piece.is_empty() {
            return Ok(());
        }
        let sending = self.pieces.send(piece);
        match tokio::time::timeout(self.service.limits.stall, sending).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Gone),
        }
    }
}

/// Returns when the reader's token is none any more.
async fn revoked(service: &Service, principal: &Principal) {
    let mut tokens = service.tokens_changed.subscribe();
    // It may have been revoked between admission and here.
    tokens.mark_changed();
    while tokens.changed().await.is_ok() {
        if !service.still_admits(principal) {
            return;
        }
    }
    std::future::pending().await
}

/// A place as it is written: `SEQ`, `EPOCH.SEQ` or `EPOCH.SEQ.OFFSET`.
fn from_after(after: &str) -> Option<From> {
    let numbers = after.split('.').map(|part| part.parse::<u64>().ok());
    let (epoch, seq, offset) = match numbers.collect::<Option<Vec<_>>>()?[..] {
        [seq] => (None, seq, 0),
        [epoch, seq] => (Some(epoch), seq, 0),
        [epoch, seq, offset] => (Some(epoch), seq, offset),
        _ => return None,
    };
    let cursor = Cursor {
        epoch: epoch.unwrap_or_default(),
        seq: EventSeq(seq),
        offset,
    };
    let epoch_given = epoch.is_some();
    Some(From::After {
        cursor,
        epoch_given,
    })
}

fn too_many() -> Response {
    let message = "there are too many clients";
    refusal(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message)
}

#[cfg(test)]
mod tests {
    use super::from_after;

    #[test]
    fn a_place_is_a_number_or_an_id_and_nothing_else() {
        for good in ["0", "12", "0.12", "1.12.400"] {
            assert!(from_after(good).is_some(), "{good}");
        }
        for bad in [
            "",
            ".",
            "1.",
            "-1",
            "+1.",
            "a",
            "1.2.3.4",
            "99999999999999999999",
        ] {
            assert!(from_after(bad).is_none(), "{bad}");
        }
    }
}
