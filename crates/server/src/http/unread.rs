//! What a handler leaves of a request's body, and what that means for the connection.
//!
//! HTTP/1.1 reads the next request right behind the body of this one. So the rest of a body is read
//! and thrown away if it is short and there, and else the answer says that the connection closes.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use axum::http::header::{EXPECT, TRANSFER_ENCODING, UPGRADE};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use domain::limits::{UNREAD_BODY_BYTES_MAX, UNREAD_BODY_WAIT};
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::answer::refusal;

/// Refuses a request whose body has no certain end: two readers would disagree where the next
/// request begins.
pub(super) fn check_framing(request: &Request<Incoming>) -> Result<(), Response> {
    let headers = request.headers();
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    if let Some(first) = codings.next()
        && (codings.next().is_some() || !first.as_bytes().eq_ignore_ascii_case(b"chunked"))
    {
        let message = "the only transfer coding that is understood is `chunked`";
        let status = StatusCode::NOT_IMPLEMENTED;
        return Err(refusal(status, "unsupported_transfer_coding", message));
    }
    if is_websocket(headers) && !request.body().is_end_stream() {
        let message = "a request for an upgrade to WebSocket has no body";
        let status = StatusCode::BAD_REQUEST;
        return Err(refusal(status, "invalid_request", message));
    }
    Ok(())
}

fn is_websocket(headers: &HeaderMap) -> bool {
    let upgrades = headers.get_all(UPGRADE).iter();
    let upgrades = upgrades.filter_map(|value| value.to_str().ok());
    let mut named = upgrades.flat_map(|value| value.split(','));
    named.any(|name| name.trim().eq_ignore_ascii_case("websocket"))
}

/// The body of a request while its handler has it; what is left comes back.
pub(super) struct LentBody {
    body: Option<Incoming>,
    left: Arc<Mutex<Left>>,
}

/// Where a body stands.
#[derive(Default)]
enum Left {
    /// The handler has it.
    #[default]
    Lent,
    /// It was read to its end.
    Nothing,
    /// It broke off, or its framing is wrong.
    Broken,
    /// The handler did not want this much of it.
    Rest(Incoming),
}

/// Gets back what a handler leaves.
pub(super) struct Leftover {
    left: Arc<Mutex<Left>>,
    /// The client waits to be asked for the body, and was not.
    is_expecting: bool,
}

/// Lends the body of a request to its handler.
pub(super) fn lend(request: Request<Incoming>) -> (Request<LentBody>, Leftover) {
    let is_expecting = request.headers().contains_key(EXPECT);
    let left = if request.body().is_end_stream() {
        Left::Nothing
    } else {
        Left::Lent
    };
    let left = Arc::new(Mutex::new(left));
    let leftover = Leftover {
        left: Arc::clone(&left),
        is_expecting,
    };
    let lend = |body: Incoming| LentBody {
        body: Some(body),
        left,
    };
    (request.map(lend), leftover)
}

impl LentBody {
    fn note(&self, state: Left) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

impl Body for LentBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(body).poll_frame(context));
        match &frame {
            Some(Ok(_)) => {}
            Some(Err(_)) => {
                self.note(Left::Broken);
                self.body = None;
            }
            None => {
                self.note(Left::Nothing);
                self.body = None;
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let ended = SizeHint::with_exact(0);
        self.body.as_ref().map_or(ended, Body::size_hint)
    }
}

impl Drop for LentBody {
    fn drop(&mut self) {
        let Some(body) = self.body.take() else {
            return;
        };
        self.note(if body.is_end_stream() {
            Left::Nothing
        } else {
            Left::Rest(body)
        });
    }
}

impl Leftover {
    /// Reads what is left of the body, if that is little; whether the next request can follow.
    pub(super) async fn discard(self) -> bool {
        let left = {
            let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *left)
        };
        let mut body = match left {
            Left::Nothing => return true,
            Left::Lent | Left::Broken => return false,
            Left::Rest(body) => body,
        };
        // Reading would ask the client to send a body that is not used.
        if self.is_expecting || body.size_hint().lower() > UNREAD_BODY_BYTES_MAX as u64 {
            return false;
        }
        let reading = async {
            let mut room = UNREAD_BODY_BYTES_MAX;
            while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
            {
                let Ok(frame) = frame else { return false };
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                match room.checked_sub(bytes) {
                    Some(left) => room = left,
                    None => return false,
                }
            }
            true
        };
        let read = tokio::time::timeout(UNREAD_BODY_WAIT, reading).await;
        read.unwrap_or(false)
    }
}
