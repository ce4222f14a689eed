//! Answers that do not end: server-sent events for one reader.
//!
//! Whoever tells puts pieces into a channel with room for one; the body of the answer is its other
//! end. So a slow reader holds up nobody else. One that takes nothing for the stall time is let go
//! where the bytes are written, which ends the body, and one whose token ends is let go here.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use auth::Principal;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::http::answer::refusal;
use crate::roster::Listed;
use crate::service::{Service, Slot};

/// How often an open stream says that it lives.
pub(super) const COMMENT_EVERY: Duration = Duration::from_secs(15);

/// What it says then; also what comes first, so that the reader's end sees an answer at once.
pub(super) const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// The other end of an answer that goes on.
pub(super) struct Reader {
    service: Arc<Service>,
    principal: Principal,
    pieces: mpsc::Sender<Bytes>,
    _slot: Slot,
    _listed: Listed,
}

/// The reader has left, or is let go.
pub(super) struct Gone;

impl Reader {
    /// Room for one more reader, and the answer for it.
    ///
    /// # Errors
    /// If there is no room.
    pub(super) fn open(
        service: &Arc<Service>,
        principal: &Principal,
    ) -> Result<(Self, Response), Response> {
        let slot = service.take_slot(principal).ok_or_else(too_many)?;
        let (pieces, mut body) = mpsc::channel(1);
        let reader = Self {
            service: Arc::clone(service),
            principal: principal.clone(),
            pieces,
            _slot: slot,
            _listed: service.roster.list_stream(principal),
        };
        let body = futures_util::stream::poll_fn(move |context| {
            let next = body.poll_recv(context);
            next.map(|piece| piece.map(Ok::<Bytes, Infallible>))
        });
        let mut response = Body::from_stream(body).into_response();
        let kind = HeaderValue::from_static("text/event-stream");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        let never = HeaderValue::from_static("no-store");
        response.headers_mut().insert(header::CACHE_CONTROL, never);
        Ok((reader, response))
    }

    /// Sends a piece once the one before it was taken.
    ///
    /// # Errors
    /// If the reader has left or was let go.
    pub(super) async fn send(&self, piece: Bytes) -> Result<(), Gone> {
        if piece.is_empty() {
            return Ok(());
        }
        self.pieces.send(piece).await.map_err(|_| Gone)
    }

    /// Returns when the reader has left.
    pub(super) async fn left(&self) {
        self.pieces.closed().await;
    }

    /// What ends `telling` early: that the reader's token is none any more.
    pub(super) fn while_admitted(
        &self,
        telling: impl Future<Output = Result<(), Gone>>,
    ) -> impl Future<Output = ()> {
        let (service, principal) = (Arc::clone(&self.service), self.principal.clone());
        async move {
            tokio::select! {
                biased;
                () = revoked(&service, &principal) => {}
                // Err means that there is nobody to tell; what is told of goes on.
                _ = telling => {}
            }
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

fn too_many() -> Response {
    let message = "there are too many clients";
    refusal(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use auth::{Credential, Gate};
    use bytes::Bytes;
    use domain::clock::Timestamp;
    use futures_util::StreamExt as _;
    use tokio::time::{Instant, sleep};

    use super::Reader;
    use crate::connection::tests::service;

    #[tokio::test(start_paused = true)]
    async fn a_piece_may_take_its_time_until_the_connection_ends_and_the_reader_leaves_the_roster()
    {
        let service = Arc::new(service());
        let principal = Gate::this_process_only()
            .admit(&Credential::ThisProcess, Timestamp(0.0))
            .unwrap();
        let (reader, response) = Reader::open(&service, &principal).ok().unwrap();
        assert_eq!(service.roster.shown(Instant::now()).0, 1);
        let piece = || Bytes::from_static(b"x");
        // There is room for one; the next waits for whoever reads, who may be slow.
        assert!(reader.send(piece()).await.is_ok());
        let mut body = response.into_body().into_data_stream();
        let slowly = async {
            sleep(service.limits.stall * 10).await;
            body.next().await.unwrap().unwrap()
        };
        let (sent, taken) = tokio::join!(reader.send(piece()), slowly);
        assert!(sent.is_ok());
        assert_eq!(taken, piece());
        // Whether anything is taken at all, its connection knows.
        let (sent, ()) = tokio::join!(reader.send(piece()), async { drop(body) });
        assert!(sent.is_err());
        drop(reader);
        assert_eq!(service.roster.shown(Instant::now()).0, 0);
    }
}
