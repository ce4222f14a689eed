//! Following a session as server-sent events.
//!
//! A task pumps the session's stream to its [`Reader`]. So a slow reader holds up its own cursor and
//! nothing else; what one that was let go has missed is in the journal.

use std::sync::Arc;

use auth::Principal;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use domain::{Cursor, EventSeq};
use session::{From, SessionHandle, Subscription};

use super::reading::{Named, about, enter, query, single};
use super::shapes::Following;
use super::sse::{COMMENT, COMMENT_EVERY, Gone, Reader};
use crate::http::body::misshapen;
use crate::service::Service;

mod teller;

use teller::Teller;

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
    let (reader, response) = Reader::open(&service, &principal)?;
    let attached = enter(&service, &principal, (id, from)).await?;
    let teller = Teller::new(&service, &attached, from);
    let pump = Pump {
        subscription: attached.subscription,
        teller,
        _attached: attached.handle,
    };
    service.connections.spawn(pump.run(reader));
    Ok(about(id, response))
}

/// Moves a session's stream to one reader.
struct Pump {
    subscription: Subscription,
    teller: Teller,
    /// Being attached is what keeps the session in memory.
    _attached: SessionHandle,
}

impl Pump {
    async fn run(mut self, reader: Reader) {
        reader.while_admitted(self.follow(&reader)).await;
    }

    /// Ends with the session, which ends before the service does.
    async fn follow(&mut self, reader: &Reader) -> Result<(), Gone> {
        reader.send(self.teller.first()).await?;
        loop {
            let next = tokio::select! {
                biased;
                () = reader.left() => return Err(Gone),
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
                None => COMMENT,
            };
            reader.send(piece).await?;
        }
    }
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
