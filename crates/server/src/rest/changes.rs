//! Following the list of sessions as server-sent events.
//!
//! First comes a page of it, as it is listed; then, a few times a second at most, whatever sessions
//! have changed since, each as it is by then.

use std::sync::Arc;

use auth::Principal;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use domain::limits::{CHANGES_EVERY, CHANGES_PER_EVENT_MAX, LIST_PAGE_MAX};
use session::{Changes, FellBehind, Glance, Wanted};

use super::shapes::{Session, SessionChanges};
use super::sse::{COMMENT, COMMENT_EVERY, Gone, Reader};
use crate::service::Service;

/// Follows the sessions that this token may enter.
#[utoipa::path(get, path = "/api/v1/sessions/changes", tag = "sessions",
    responses((status = 200, body = SessionChanges, content_type = "text/event-stream",
        description = "events `sessions`, each with such an object")))]
pub(super) async fn changes(
    State(service): State<Arc<Service>>,
    Extension(principal): Extension<Principal>,
) -> Result<Response, Response> {
    let (reader, response) = Reader::open(&service, &principal)?;
    // It hears from now on, so that nothing falls between the page and what follows it.
    let changes = service.sessions.changes(&principal);
    let telling = Telling {
        service: Arc::clone(&service),
        principal,
        reader,
        changes,
    };
    service.connections.spawn(telling.run());
    Ok(response)
}

/// Tells one reader of sessions.
struct Telling {
    service: Arc<Service>,
    principal: Principal,
    reader: Reader,
    changes: Changes,
}

impl Telling {
    async fn run(self) {
        self.reader.while_admitted(self.follow()).await;
    }

    /// Ends with the service.
    async fn follow(&self) -> Result<(), Gone> {
        self.reader.send(COMMENT).await?;
        let Some(page) = self.page().await else {
            return Ok(());
        };
        self.reader.send(page).await?;
        loop {
            tokio::select! {
                biased;
                () = self.reader.left() => return Err(Gone),
                () = self.service.closing.cancelled() => return Ok(()),
                () = tokio::time::sleep(COMMENT_EVERY) => {
                    self.reader.send(COMMENT).await?;
                    continue;
                }
                () = self.changes.ready() => {}
            }
            let told = match self.changes.take(CHANGES_PER_EVENT_MAX).await {
                Ok(changed) => Some(self.event(changed.sessions, |event| {
                    event.removed = changed.removed.iter().map(ToString::to_string).collect();
                })),
                Err(FellBehind) => self.page().await,
            };
            let Some(told) = told else {
                return Ok(());
            };
            self.reader.send(told).await?;
            // What happens meanwhile is told of together.
            tokio::select! {
                biased;
                () = self.reader.left() => return Err(Gone),
                () = self.service.closing.cancelled() => return Ok(()),
                () = tokio::time::sleep(CHANGES_EVERY) => {}
            }
        }
    }

    /// The newest sessions, with which a reader starts over; `None` if they cannot be listed.
    async fn page(&self) -> Option<Bytes> {
        let wanted = Wanted {
            count_max: LIST_PAGE_MAX,
            ..Wanted::default()
        };
        let listing = self.service.sessions.list(&self.principal, wanted).await;
        let page = listing
            .inspect_err(|error| tracing::warn!(%error, "sessions could not be listed"))
            .ok()?;
        Some(self.event(page.sessions, |event| {
            event.snapshot = true;
            event.next_cursor = page.next.map(|next| next.to_string());
        }))
    }

    /// One event; nothing if there is nothing to say.
    fn event(&self, sessions: Vec<Glance>, add: impl FnOnce(&mut SessionChanges)) -> Bytes {
        let (models, own) = (self.service.models(), self.service.own_model());
        let shown = sessions.into_iter();
        let shown = shown.map(|glance| Session::of(glance, &models, &own));
        let mut event = SessionChanges {
            sessions: shown.collect(),
            ..SessionChanges::default()
        };
        add(&mut event);
        let is_empty = event.sessions.is_empty() && event.removed.is_empty();
        if is_empty && !event.snapshot {
            return Bytes::new();
        }
        match serde_json::to_string(&event) {
            Ok(data) => Bytes::from(format!("event: sessions\ndata: {data}\n\n")),
            // Every shape of ours can be JSON.
            Err(_) => Bytes::new(),
        }
    }
}
