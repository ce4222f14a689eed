//! Letting a client in.

use std::sync::Arc;

use auth::Scope;
use domain::FailureKind;
use domain::clock::Timestamp;

use super::{SessionActor, Stopping};
use crate::attach;
use crate::handle::{
    AttachError, Attached, AttachmentId, Entrance, Presence, SessionHandle, Snapshot,
};
use crate::session_roots;
use crate::subscription::Subscription;

impl SessionActor {
    /// Lets somebody in who may, and gives the right to come back.
    pub(super) async fn attach(&mut self, entrance: Entrance) -> Result<Attached, AttachError> {
        match &self.stopping {
            None => {}
            Some(Stopping::Shutdown(_)) => return Err(AttachError::Failed(FailureKind::Draining)),
            Some(Stopping::Close(_) | Stopping::Delete(_)) => return Err(AttachError::NotFound),
        }
        if self.read_only.is_none() {
            self.ensure_open().await.map_err(AttachError::Failed)?;
        }
        let (now, gate) = (Timestamp::now(), &self.engine.gate);
        let shown = entrance.resume_token.as_ref();
        let grant = shown.and_then(|shown| {
            let tokens = &mut self.resume.tokens;
            tokens.present(shown.reveal(), now, |token| gate.knows(token, now))
        });
        let Some(state) = self.readable() else {
            return Err(AttachError::NotFound);
        };
        let scope = attach::check(self.id, state, &entrance, grant.as_ref())?;
        // Each time: the data directory may have been moved since.
        if let Some(roots) = self.roots() {
            session_roots::check_safe(self.engine.shell.as_ref(), &roots).await?;
        }
        let head = self.feed.head();
        let (cursor, resync) = attach::start(state, &head, entrance.from);
        let damaged_at = self
            .read_only
            .as_ref()
            .map(|read_only| read_only.damaged_at);
        let snapshot = Snapshot {
            damaged_at,
            ..attach::snapshot((state, &self.engine), &head, resync, self.attaches > 1)
        };
        let rewinds = Arc::from(state.rewinds());
        let id = AttachmentId(self.attaches);
        let known = grant.as_ref().map(|grant| grant.line).or(entrance.after);
        let line = known.unwrap_or_else(|| self.resume.tokens.new_line());
        let place = (line, scope);
        let issued = self
            .resume
            .tokens
            .issue(&entrance.principal, place, grant.as_ref(), now);
        // Not waited for: the client may still enter as who it is.
        drop(self.resume.save());
        let presence = Presence::new(id, line, Arc::clone(&self.bell));
        if scope == Scope::Control {
            self.attachments.push((id, Arc::downgrade(&presence)));
        } else {
            self.observers.push(Arc::downgrade(&presence));
        }
        let (store, feed) = (self.engine.store.clone(), Arc::clone(&self.feed));
        let view = self.view();
        let are_servers_used = scope == Scope::Control && self.take_servers(entrance.servers);
        Ok(Attached {
            are_servers_used,
            handle: SessionHandle::new(
                self.id,
                (entrance.principal, scope),
                self.mailbox_sender.clone(),
                presence,
            ),
            subscription: Subscription::new(self.id, store, feed, cursor).passing_over(rewinds),
            snapshot,
            view,
            // Without one it can still come back as whoever it is.
            resume_token: issued.ok(),
        })
    }
}
