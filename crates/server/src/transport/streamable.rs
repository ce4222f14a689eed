//! ACP over single HTTP requests: messages come in as POSTs and leave as server-sent events.
//!
//! A [`Remote`] is one client between its requests. Its connection is the same as on a socket; its
//! frames wait in a lane for the connection and one for each session until a GET reads them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use auth::Principal;
use bytes::{BufMut as _, Bytes, BytesMut};
use domain::{ConnectionId, PrincipalId, TraceParent};
use futures_util::Stream;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wire::rpc::Incoming;

use crate::connection::lanes::{Lanes, Refused, Split};
use crate::connection::outbox::{Close, Conflict, Mark, Marked, Reader};
use crate::connection::{self, INBOUND_FRAMES_MAX, Inbound, Opening, Reach, Source};
use crate::service::{Service, Slot};

#[cfg(feature = "test-support")]
pub mod within;

/// How often an open stream says that it lives.
const COMMENT_EVERY: Duration = Duration::from_secs(15);

/// The close code of a client that nobody needs.
const IDLE: u16 = 4408;

/// The clients that come by single requests.
#[derive(Default)]
pub struct Remotes {
    by_id: Mutex<HashMap<String, Arc<Remote>>>,
}

impl Remotes {
    /// The client with this id, if it is `principal`'s.
    pub(crate) fn find(&self, id: &str, principal: &Principal) -> Option<Arc<Remote>> {
        let remotes = self.lock();
        let remote = remotes.get(id)?;
        (remote.principal == *principal.id()).then(|| Arc::clone(remote))
    }

    /// Ends a client's connection; nobody finds it any more.
    pub(crate) fn end(&self, remote: &Remote) {
        self.lock().remove(remote.id.as_str());
        remote.close();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Remote>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One client between its requests.
pub(crate) struct Remote {
    pub(crate) id: ConnectionId,
    principal: PrincipalId,
    lanes: Arc<Split>,
    frames: mpsc::Sender<Inbound>,
    presence: watch::Sender<Presence>,
    end: CancellationToken,
}

/// Whether anybody is there.
#[derive(Clone, Copy)]
struct Presence {
    streams: usize,
    last_seen: Instant,
}

/// The client asks faster than its requests can be taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overloaded;

impl Remote {
    /// Begins a connection with its first message; gives it and the answer to that message.
    pub(crate) async fn open(
        service: &Arc<Service>,
        principal: Principal,
        slot: Slot,
        (initialize, trace): (Incoming, Option<TraceParent>),
    ) -> Option<(Arc<Self>, String)> {
        let (frames, posted) = mpsc::channel(INBOUND_FRAMES_MAX);
        let id = ConnectionId::random();
        let remote = Arc::new(Self {
            id: id.clone(),
            principal: principal.id().clone(),
            lanes: Arc::new(Split::new(service.limits.outbox_bytes_max)),
            frames,
            presence: watch::Sender::new(Presence {
                streams: 0,
                last_seen: Instant::now(),
            }),
            end: CancellationToken::new(),
        });
        let opening = Opening {
            id,
            principal,
            source: Posted {
                frames: posted,
                end: remote.end.clone(),
            },
            lanes: Lanes::Split(Arc::clone(&remote.lanes)),
            reach: Reach::Network,
            trace: None,
        };
        let reader = remote.lanes.main().read_after(None).ok()?;
        service.connections.spawn(serve(
            Arc::clone(service),
            Arc::clone(&remote),
            opening,
            slot,
        ));
        remote
            .frames
            .try_send(Inbound::Parsed(Box::new(initialize), trace))
            .ok()?;
        let first = tokio::time::timeout(service.limits.handshake, reader.next()).await;
        let Some(answer) = first
            .ok()
            .flatten()
            .and_then(|frames| frames.into_iter().next())
        else {
            remote.close();
            return None;
        };
        // Known only now: before, nobody can have its id.
        let name = remote.id.to_string();
        service.remotes.lock().insert(name, Arc::clone(&remote));
        if remote.end.is_cancelled() {
            service.remotes.lock().remove(remote.id.as_str());
        }
        Some((remote, answer.text))
    }

    /// Takes a message.
    ///
    /// # Errors
    /// If those before it have not been taken within `patience`.
    pub(crate) async fn post(
        &self,
        (message, trace): (Incoming, Option<TraceParent>),
        patience: Duration,
    ) -> Result<(), Overloaded> {
        self.seen(|_| {});
        let sent = self
            .frames
            .send_timeout(Inbound::Parsed(Box::new(message), trace), patience);
        sent.await.map_err(|_| Overloaded)
    }

    /// Begins to read the connection's stream, or a session's.
    ///
    /// # Errors
    /// If somebody reads it, what was asked for is not to be had, or too many wait.
    pub(crate) fn read(
        self: &Arc<Self>,
        session: Option<&str>,
        after: Option<Mark>,
    ) -> Result<Open, Refused> {
        let reader = match session {
            Some(session) => self.lanes.read(session, after)?,
            None => {
                let read = self.lanes.main().read_after(after);
                read.map_err(|Conflict| Refused::Conflict)?
            }
        };
        self.seen(|presence| presence.streams += 1);
        Ok(Open {
            reader: Some(reader),
            session: session.map(str::to_owned),
            remote: Arc::clone(self),
        })
    }

    fn close(&self) {
        self.lanes.close(Close::After(1000));
        self.end.cancel();
    }

    fn seen(&self, change: impl FnOnce(&mut Presence)) {
        self.presence.send_modify(|presence| {
            presence.last_seen = Instant::now();
            change(presence);
        });
    }

    /// Ends the connection once nobody has been there for `idle`.
    async fn watch(&self, idle: Duration) {
        let mut presence = self.presence.subscribe();
        loop {
            let now = *presence.borrow_and_update();
            let left = match now.streams {
                0 => now.last_seen + idle,
                _ => Instant::now() + idle,
            };
            tokio::select! {
                changed = presence.changed() => if changed.is_err() {
                    return;
                },
                () = tokio::time::sleep_until(left), if now.streams == 0 => {
                    self.lanes.close(Close::After(IDLE));
                    return self.end.cancel();
                }
            }
        }
    }
}

async fn serve(service: Arc<Service>, remote: Arc<Remote>, opening: Opening<Posted>, slot: Slot) {
    let idle = service.limits.idle;
    let _whatever_happens = Known {
        service: Arc::clone(&service),
        remote: Arc::clone(&remote),
        _slot: slot,
    };
    let serving = connection::serve(service, opening);
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => {}
        () = remote.watch(idle) => serving.await,
    }
}

/// A client that can be found by its id, until its connection has ended, well or not.
struct Known {
    service: Arc<Service>,
    remote: Arc<Remote>,
    _slot: Slot,
}

impl Drop for Known {
    fn drop(&mut self) {
        self.service.remotes.end(&self.remote);
    }
}

/// The messages of one client as they are posted.
struct Posted {
    frames: mpsc::Receiver<Inbound>,
    end: CancellationToken,
}

impl Source for Posted {
    async fn next(&mut self) -> Option<Inbound> {
        tokio::select! {
            biased;
            () = self.end.cancelled() => None,
            frame = self.frames.recv() => frame,
        }
    }
}

/// A stream that is being read.
pub(crate) struct Open {
    reader: Option<Reader>,
    session: Option<String>,
    remote: Arc<Remote>,
}

impl Open {
    /// The stream's bytes, until it ends or another reader takes it over.
    pub(crate) fn into_bytes(self) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> {
        futures_util::stream::unfold(self, async |open| {
            let reader = open.reader.as_ref()?;
            let bytes = tokio::select! {
                biased;
                frames = reader.next() => events(frames?),
                () = tokio::time::sleep(COMMENT_EVERY) => Bytes::from_static(b":\n\n"),
            };
            Some((Ok(bytes), open))
        })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        drop(self.reader.take());
        if let Some(session) = &self.session {
            self.remote.lanes.forget(session);
        }
        self.remote.seen(|presence| presence.streams -= 1);
    }
}

/// Frames as server-sent events. JSON text has no line breaks, so each is one line of data.
fn events(frames: Vec<Marked>) -> Bytes {
    let room = frames
        .iter()
        .map(|frame| frame.text.len() + EVENT_BYTES_EXTRA)
        .sum();
    let mut bytes = BytesMut::with_capacity(room);
    for Marked { text, mark } in frames {
        if let Some(mark) = mark {
            bytes.put_slice(format!("id: {}\n", name_of(mark)).as_bytes());
        }
        bytes.put_slice(b"data: ");
        bytes.put_slice(text.as_bytes());
        bytes.put_slice(b"\n\n");
    }
    bytes.freeze()
}

/// What an event has beside its data, usually.
const EVENT_BYTES_EXTRA: usize = 64;

fn name_of(mark: Mark) -> String {
    let Mark {
        serial,
        number,
        cursor,
    } = mark;
    format!(
        "{serial:x}.{number:x}.{:x}.{:x}.{:x}",
        cursor.epoch, cursor.seq.0, cursor.offset
    )
}

/// The place that `Last-Event-ID` names.
pub(crate) fn mark_named(name: &str) -> Option<Mark> {
    let mut parts = name
        .split('.')
        .map(|part| u64::from_str_radix(part, 16).ok());
    let mut next = || parts.next().flatten();
    let (serial, number, epoch) = (next()?, next()?, next()?);
    let (seq, offset) = (domain::EventSeq(next()?), next()?);
    let cursor = domain::Cursor { epoch, seq, offset };
    parts.next().is_none().then_some(Mark {
        serial,
        number,
        cursor,
    })
}
