//! Entering sessions: new, load, resume.
//!
//! The session is asked in a task of its own; the connection swaps streams when the answer is
//! there, so a failed attempt changes nothing, and one client follows a session once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use auth::Secret;
use domain::{Cursor, EventSeq, SessionId, ToolServer};
use session::{Attached, Entrance, From, NewSession, Snapshot, TurnPhase};
use tokio::sync::oneshot;
use tokio_util::sync::DropGuard;
use wire::acp::{self, ResumeToken, TurnState, TurnStatus};
use wire::rpc::{RequestId, RpcError};

use super::attachment::{Attachment, Former, Pump, Reply};
use super::lanes::Lanes;
use super::requests::attach_error;
use super::route::Route;
use super::servers::named_servers;
use super::{Connection, Event};
use crate::service::WantedRoots;

/// How a session is entered, which decides what its answer looks like and when it is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    New,
    Load,
    Resume,
}

impl Way {
    fn label(self) -> meters::label::Way {
        match self {
            Self::New => meters::label::Way::New,
            Self::Load => meters::label::Way::Load,
            Self::Resume => meters::label::Way::Resume,
        }
    }
}

/// A request to enter a session, kept until the session has let the client in.
pub(super) struct Entry {
    id: RequestId,
    way: Way,
    ignored: Vec<&'static str>,
    /// The client reads the session's own stream already.
    is_read: bool,
}

/// A session that has let the client in.
pub(super) struct Entered {
    attached: Attached,
    entry: Entry,
}

impl Connection {
    /// Makes a session in the directories that are `wanted`, and enters it.
    pub(super) fn enter_new(
        &mut self,
        id: RequestId,
        wanted: WantedRoots,
        servers: Vec<ToolServer>,
    ) {
        let (way, ignored) = (Way::New, Vec::new());
        let is_read = matches!(self.lanes, Lanes::One(_));
        let entry = Entry {
            id,
            way,
            ignored,
            is_read,
        };
        let (service, principal) = (Arc::clone(&self.service), self.principal.clone());
        let (answers, events) = (Arc::clone(&self.answers), self.events.clone());
        self.service.connections.spawn(async move {
            let mut roots = match service.check_roots(&principal, wanted).await {
                Ok(roots) => roots.into_iter(),
                Err(why) => return answers.error(&entry.id, RpcError::invalid_params(why)),
            };
            let Some(cwd) = roots.next() else { return };
            let new = NewSession {
                cwd,
                additional_directories: roots.collect(),
                servers,
            };
            match service.sessions.create(&principal, new).await {
                Ok(attached) => {
                    let session = attached.handle.id();
                    let entered = Some(Box::new(Entered { attached, entry }));
                    // A connection that is gone needs no session; it stays for the next one.
                    let _ = events.send(Event::Attached { session, entered }).await;
                }
                Err(error) => answers.error(&entry.id, attach_error(&error)),
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
        let named = [
            ("mcpServers", attach.mcp_servers.is_empty()),
            (
                "additionalDirectories",
                attach.additional_directories.is_empty(),
            ),
        ];
        let ignored = named
            .into_iter()
            .filter(|(_, empty)| !empty)
            .map(|(name, _)| name)
            .collect();
        let entry = Entry {
            id,
            way,
            ignored,
            is_read: self.lanes.is_read(session),
        };
        self.attaching.insert(session, VecDeque::new());
        let before = self.attachments.get(&session);
        let resume_token = attach.meta.resume_token;
        let entrance = Entrance {
            cwd: Some(attach.cwd),
            resume_token: resume_token.map(|token| Secret::new(token.expose())),
            after: before.map(|before| before.handle.line()),
            servers: named_servers(&self.principal, &attach.mcp_servers),
            ..Entrance::new(&self.principal, from)
        };
        let sessions = self.service.sessions.clone();
        let (answers, events) = (Arc::clone(&self.answers), self.events.clone());
        self.service.connections.spawn(async move {
            let attached = sessions.attach(session, entrance).await;
            let entered = match attached {
                Ok(attached) => {
                    let mut entry = entry;
                    if attached.are_servers_used {
                        entry.ignored.retain(|name| *name != "mcpServers");
                    }
                    Some(Box::new(Entered { attached, entry }))
                }
                Err(error) => {
                    answers.error(&entry.id, attach_error(&error));
                    None
                }
            };
            let _ = events.send(Event::Attached { session, entered }).await;
        });
    }

    /// Follows the session from here on, after the stream that it replaces has stopped.
    pub(super) fn entered(&mut self, session: SessionId, entered: Entered) {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let Entered {
            attached:
                Attached {
                    handle,
                    subscription,
                    snapshot,
                    view,
                    resume_token,
                    are_servers_used: _,
                },
            entry,
        } = entered;
        meters::ATTACHES.of(entry.way.label()).count();
        // What the client waits for, it waits for still.
        let before = self.attachments.remove(&session);
        let is_it = |leaving: &mut Attachment| leaving.handle.id() == session;
        let closed: Vec<Attachment> = self.leaving.extract_if(.., is_it).collect();
        let waiting = before
            .as_ref()
            .map(|before| Arc::clone(&before.waiting))
            .unwrap_or_default();
        if entry.way == Way::Load {
            waiting.show_own();
        }
        if snapshot.phase != TurnPhase::Idle {
            waiting.finds_running(snapshot.turn);
        }
        let (stop, (done, stopped)) = (self.gone.child_token(), oneshot::channel());
        let route = Route::new(&self.lanes, session, serial, stop.clone());
        let route = self.by_way_of(route, (session, &snapshot), &entry);
        let cursor = (entry.way == Way::Resume).then(|| subscription.cursor());
        let reply = self.reply((session, cursor), &snapshot, resume_token.as_ref(), entry);
        let reply = Box::new(reply);
        let questions = snapshot.questions.into_iter();
        let pump = Box::new(Pump {
            service: Arc::clone(&self.service),
            session,
            subscription,
            before: None,
            waiting: Arc::clone(&waiting),
            answers: Arc::clone(&self.answers),
            route,
            capabilities: self.capabilities.unwrap_or_default(),
            questions: questions.map(|question| question.asked).collect(),
            attached_at: snapshot.head,
            config: snapshot.config,
            view,
            offered: super::commands::Offered::default(),
            may_act: handle.may_act(),
            stop: stop.clone(),
        });
        if let Some(client) = self.client_side(session) {
            // A turn that this client began before it was away goes on with its files.
            handle.client_came_back(client);
        }
        let attachment = Attachment {
            handle,
            waiting,
            serial,
            stop: stop.drop_guard(),
            stopped,
        };
        self.attachments.insert(session, attachment);
        let events = self.events.clone();
        // Its handle goes now: the new one stands for this client.
        let before = before.map(|before| (before.stop, before.stopped));
        self.service.connections.spawn(async move {
            let pump = take_over(pump, closed, before).await;
            // Nobody may want the subscription back, and the connection may be gone.
            let _ = done.send(pump.run(reply).await);
            let _ = events.send(Event::Detached { session, serial }).await;
        });
    }

    /// The way that what leads up to the attachment takes.
    fn by_way_of(
        &self,
        route: Route,
        (session, snapshot): (SessionId, &Snapshot),
        entry: &Entry,
    ) -> Route {
        if entry.is_read {
            return route;
        }
        let shown = self.service.settings(&snapshot.config);
        let settings = shown.settings();
        let sign = (entry.way != Way::New).then(|| acp::config_option_update(session, &settings));
        route.by_way_of(self.lanes.main(), sign)
    }

    fn reply(
        &self,
        (session, cursor): (SessionId, Option<Cursor>),
        snapshot: &Snapshot,
        resume_token: Option<&Secret>,
        entry: Entry,
    ) -> Reply {
        let resume_token = resume_token.map(|token| ResumeToken::new(token.reveal()));
        let shown = self.service.settings(&snapshot.config);
        let is_queue_wanted = self.capabilities.unwrap_or_default().queue;
        let told = acp::Attached {
            settings: shown.settings(),
            turn: TurnStatus {
                id: snapshot.turn,
                state: match snapshot.phase {
                    TurnPhase::Running => TurnState::Running,
                    TurnPhase::Waiting => TurnState::Waiting,
                    TurnPhase::Idle => TurnState::Idle,
                },
                prompt_id: snapshot.prompt_id.clone(),
            },
            resume_token: resume_token.as_ref(),
            resync_from: snapshot.resync_from,
            cursor,
            damaged_at: snapshot.damaged_at,
            queue: if is_queue_wanted {
                &snapshot.queue
            } else {
                &[]
            },
            ignored: &entry.ignored,
        };
        let (result, after) = match entry.way {
            Way::New => (acp::new_session_result(session, &told), EventSeq(0)),
            Way::Resume => (acp::resume_result(&told), EventSeq(0)),
            Way::Load => (acp::load_result(&told), snapshot.head),
        };
        Reply {
            id: entry.id,
            result,
            after,
        }
    }
}

/// Waits until the streams that `pump` follows on have stopped, and gives it what they left.
async fn take_over(
    mut pump: Box<Pump>,
    closed: Vec<Attachment>,
    before: Option<(DropGuard, oneshot::Receiver<Box<Former>>)>,
) -> Box<Pump> {
    // Whoever closes a session and enters it again at once is first told of its end. If it does not
    // read that stream any more, there is an end to the waiting, and to what it waits for.
    for mut closed in closed {
        let patience = pump.service.limits.stall;
        if tokio::time::timeout(patience, &mut closed.stopped)
            .await
            .is_err()
        {
            drop(closed.stop);
            let left = closed.stopped.await.ok();
            pump.answers.part(&closed.waiting, left);
        }
    }
    if let Some((stop, stopped)) = before {
        drop(stop);
        pump.before = stopped.await.ok();
    }
    pump
}
