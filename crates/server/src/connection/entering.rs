//! Entering sessions: new, load, resume.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use domain::{Cursor, SessionId};
use session::{Attached, From, NewSession, TurnPhase};
use tokio_util::sync::CancellationToken;
use wire::acp::{self, TurnState, TurnStatus};
use wire::rpc::{RequestId, RpcError};

use super::attachment::{Attachment, Pump, Reply};
use super::requests::attach_error;
use super::waiting::Waiting;
use super::{Connection, Event};

/// How a session is entered, which decides what its answer looks like and when it is sent.
#[derive(Clone, Copy)]
enum Way {
    New,
    Load,
    Resume,
}

/// What a request to enter a session leaves to do once the session has let the client in.
struct Entry {
    id: RequestId,
    way: Way,
    ignored: &'static [&'static str],
}

impl Connection {
    pub(super) fn enter_new(
        &mut self,
        id: RequestId,
        new: NewSession,
        ignored: &'static [&'static str],
    ) {
        let entry = Entry {
            id,
            way: Way::New,
            ignored,
        };
        let (enterer, sessions) = (self.enterer(), self.service.sessions.clone());
        let principal = self.principal.clone();
        self.service.connections.spawn(async move {
            let attached = sessions.create(&principal, new).await;
            match attached {
                Ok(attached) => {
                    let session = attached.handle.id();
                    enterer
                        .settle(session, attached, Arc::default(), entry)
                        .await;
                }
                Err(error) => enterer.answers.error(&entry.id, attach_error(&error)),
            }
        });
    }

    pub(super) fn load(&mut self, id: RequestId, attach: acp::Attach) {
        self.enter(id, attach, Way::Load, From::Start);
    }

    pub(super) fn resume(&mut self, id: RequestId, attach: acp::Attach) {
        let meta = &attach.meta;
        let from = match meta.after_seq {
            None => From::Head,
            Some(seq) => {
                let (epoch, offset) = (
                    meta.epoch.unwrap_or_default(),
                    meta.offset.unwrap_or_default(),
                );
                let cursor = Cursor { epoch, seq, offset };
                From::After {
                    cursor,
                    epoch_given: meta.epoch.is_some(),
                }
            }
        };
        self.enter(id, attach, Way::Resume, from);
    }

    fn enter(&mut self, id: RequestId, attach: acp::Attach, way: Way, from: From) {
        let Ok(session) = attach.session else {
            return self.answers.error(&id, RpcError::session_not_found());
        };
        let asks = !attach.mcp_servers.is_empty() || !attach.additional_directories.is_empty();
        let ignored: &[&str] = if asks {
            &["mcpServers", "additionalDirectories"]
        } else {
            &[]
        };
        // A second attach replaces the first: one client follows a session once. What it waits
        // for, it waits for still.
        let before = self.attachments.remove(&session);
        self.attaching.insert(session, VecDeque::new());
        let entry = Entry { id, way, ignored };
        let (enterer, sessions) = (self.enterer(), self.service.sessions.clone());
        let principal = self.principal.clone();
        self.service.connections.spawn(async move {
            let waiting = replace(before).await;
            match sessions
                .attach(&principal, session, from, Some(attach.cwd))
                .await
            {
                Ok(attached) => enterer.settle(session, attached, waiting, entry).await,
                Err(error) => {
                    enterer.answers.error(&entry.id, attach_error(&error));
                    enterer
                        .tell(Event::Attached {
                            session,
                            attachment: None,
                        })
                        .await;
                }
            }
        });
    }

    fn enterer(&self) -> Enterer {
        Enterer {
            service: Arc::clone(&self.service),
            answers: Arc::clone(&self.answers),
            outbox: self.outbox.clone(),
            capabilities: self.capabilities.unwrap_or_default(),
            events: self.events.clone(),
            gone: self.gone.clone(),
        }
    }
}

/// Stops following a session the old way, and gives what the client waits for in it.
async fn replace(before: Option<Attachment>) -> Arc<Waiting> {
    let Some(Attachment {
        waiting,
        stop,
        stopped,
        ..
    }) = before
    else {
        return Arc::default();
    };
    drop(stop);
    // Ends with the batch under way, or with the client.
    stopped.cancelled().await;
    waiting
}

/// What entering takes along into its own task.
struct Enterer {
    service: Arc<crate::service::Service>,
    answers: Arc<super::Answers>,
    outbox: super::Outbox,
    capabilities: acp::ClientCapabilities,
    events: tokio::sync::mpsc::Sender<Event>,
    gone: CancellationToken,
}

impl Enterer {
    /// Registers the attachment, then lets the stream flow: by the time the client knows the
    /// session, the connection does.
    async fn settle(
        self,
        session: SessionId,
        attached: Attached,
        waiting: Arc<Waiting>,
        entry: Entry,
    ) {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let reply = self.reply(session, &attached, entry);
        let snapshot = attached.snapshot;
        let (stop, stopped) = (self.gone.child_token(), CancellationToken::new());
        let attachment = Attachment {
            handle: attached.handle,
            waiting: Arc::clone(&waiting),
            serial,
            stop: stop.clone().drop_guard(),
            stopped: stopped.clone(),
        };
        if !self
            .tell(Event::Attached {
                session,
                attachment: Some(Box::new(attachment)),
            })
            .await
        {
            return;
        }
        let events = self.events.clone();
        let pump = Pump {
            service: self.service,
            session,
            subscription: attached.subscription,
            waiting,
            answers: self.answers,
            outbox: self.outbox,
            capabilities: self.capabilities,
            questions: snapshot
                .questions
                .into_iter()
                .map(|question| question.asked)
                .collect(),
            attached_at: snapshot.head,
            stop,
        };
        pump.run(reply).await;
        stopped.cancel();
        // The connection may be gone too; then there is nothing to detach from.
        let _ = events.send(Event::Detached { session, serial }).await;
    }

    fn reply(&self, session: SessionId, attached: &Attached, entry: Entry) -> Reply {
        let snapshot = &attached.snapshot;
        let late = matches!(entry.way, Way::Load | Way::Resume) && !snapshot.was_loaded;
        let told = acp::Attached {
            settings: self.service.settings(snapshot.mode.name()),
            turn: TurnStatus {
                id: snapshot.turn,
                state: match snapshot.phase {
                    TurnPhase::Running => TurnState::Running,
                    TurnPhase::Waiting => TurnState::Waiting,
                    TurnPhase::Idle => TurnState::Idle,
                },
                prompt_id: snapshot.prompt_id.clone(),
            },
            resume_token: None,
            resync_from: snapshot.resync_from,
            ignored: if late { &[] } else { entry.ignored },
        };
        match entry.way {
            Way::New => Reply::First(entry.id, acp::new_session_result(session, &told)),
            Way::Resume => Reply::First(entry.id, acp::resume_result(&told)),
            Way::Load => Reply::After(entry.id, acp::load_result(&told), snapshot.head),
        }
    }

    /// Tells the connection; says whether it still listens.
    async fn tell(&self, event: Event) -> bool {
        self.events.send(event).await.is_ok()
    }
}
