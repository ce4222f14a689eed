//! A client's line over single requests: a post for each message, a stream for the connection and
//! one for each session, all of them cut again and again and taken up after the last event that came.
//!
//! It does what a client must that speaks this transport, and hands on each message once. Whatever
//! the server skips, repeats or mixes up arrives as it is, so clients judge it as on any other line.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use auth::Principal;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use journal::chance::Chance;
use serde_json::Value;
use server::Service;
use server::transport::pipe::Ends;
use server::transport::streamable::within::Within;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use wire::sse::{SseEvent, SseParser};

/// Messages on the way to the server.
const POSTS_MAX: usize = 256;

/// Longest event that is taken.
const EVENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// One stream in so many events is cut after it.
const CUT_EVERY: u64 = 8;

/// Streams of all clients of a world.
#[derive(Default)]
pub(super) struct Counts {
    takeovers: AtomicU64,
    conflicts: AtomicU64,
    cuts_between: AtomicU64,
}

impl Counts {
    /// Streams that were taken up again, those that could not be, and those that were cut between
    /// two updates of one event.
    pub(super) fn told(&self) -> [u64; 3] {
        [&self.takeovers, &self.conflicts, &self.cuts_between].map(|count| count.load(Relaxed))
    }
}

/// How the streams of one line are.
#[derive(Default)]
pub(super) struct Standing {
    /// Streams that are cut and not yet taken up.
    away: AtomicUsize,
    gave_up: AtomicBool,
}

impl Standing {
    /// Whether something may wait for a stream that is not read now.
    pub(super) fn is_away(&self) -> bool {
        self.away.load(Relaxed) > 0
    }

    /// Whether the client left because it could not go on where it was.
    pub(super) fn has_given_up(&self) -> bool {
        self.gave_up.load(Relaxed)
    }
}

/// Connects; at most `frames_max` messages wait for the client.
pub(super) fn connect_as(
    (service, principal): (Arc<Service>, Principal),
    frames_max: usize,
    (chance, counts): (Chance, Arc<Counts>),
) -> (Ends, Arc<Standing>) {
    let (to_agent, from_client) = mpsc::channel(POSTS_MAX);
    let (to_client, from_agent) = mpsc::channel(frames_max);
    let standing = Arc::new(Standing::default());
    let line = Line {
        to_client,
        chance: Mutex::new(chance),
        counts,
        standing: Arc::clone(&standing),
        open: Mutex::default(),
        entering: Mutex::default(),
        over: CancellationToken::new(),
    };
    tokio::spawn(carry((service, principal), from_client, line));
    ((to_agent, from_agent), standing)
}

/// What all streams of one line share.
struct Line {
    to_client: mpsc::Sender<String>,
    chance: Mutex<Chance>,
    counts: Arc<Counts>,
    standing: Arc<Standing>,
    /// Sessions whose stream is read.
    open: Mutex<BTreeSet<String>>,
    /// Requests to enter a session that were not answered yet. Meanwhile no stream is left alone:
    /// the answer would come on the connection's, with no order between it and what follows.
    entering: Mutex<BTreeSet<u64>>,
    over: CancellationToken,
}

/// Begins the connection with the client's first message, then posts what it says.
async fn carry(
    (service, principal): (Arc<Service>, Principal),
    mut from_client: mpsc::Receiver<String>,
    line: Line,
) {
    let Some(first) = from_client.recv().await else {
        return;
    };
    let Some((within, answer)) = Within::open(&service, principal, &first).await else {
        return;
    };
    let (within, line) = (Arc::new(within), Arc::new(line));
    if line.to_client.send(answer).await.is_ok() {
        follow(&within, &line, None);
        tokio::select! {
            () = line.over.cancelled() => {}
            () = line.to_client.closed() => {}
            () = post_all(&mut from_client, &within, &line) => {}
        }
    }
    line.over.cancel();
    // Some say goodbye; of others the server only notices after a while that they are gone.
    if line.chance().one_in(2) {
        within.end();
    }
}

async fn post_all(
    from_client: &mut mpsc::Receiver<String>,
    within: &Arc<Within>,
    line: &Arc<Line>,
) {
    while let Some(frame) = from_client.recv().await {
        let message: Value = serde_json::from_str(&frame).unwrap_or_default();
        let enters = ["session/load", "session/resume"].map(Value::from);
        if let Some(session) = message["params"]["sessionId"].as_str()
            && enters.contains(&message["method"])
        {
            line.entering().extend(message["id"].as_u64());
            while line.standing.is_away() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            line.open_session(within, session);
        }
        if !within.post(&frame).await {
            return line.give_up();
        }
    }
}

impl Line {
    fn chance(&self) -> MutexGuard<'_, Chance> {
        self.chance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entering(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.entering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the stream of a session, if it does not yet.
    fn open_session(self: &Arc<Self>, within: &Arc<Within>, session: &str) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.insert(session.to_owned()) {
            follow(within, self, Some(session.to_owned()));
        }
    }

    /// The client cannot go on here; it will come back over another connection.
    fn give_up(&self) {
        self.standing.gave_up.store(true, Relaxed);
        self.over.cancel();
    }
}

/// One stream of a line.
struct Follower {
    within: Arc<Within>,
    line: Arc<Line>,
    session: Option<String>,
    /// The last event that came.
    last: Option<String>,
}

type Bytewise = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// Why a stream is read no further.
enum Stop {
    /// It is cut here, to be taken up again.
    Cut,
    /// The server has ended it.
    Ended,
    /// Nobody wants it any more.
    Left,
}

/// Opens a stream and follows it. It is open when this returns: what is asked of a session whose
/// stream is opened only later is answered on the connection's, with no order between the two.
fn follow(within: &Arc<Within>, line: &Arc<Line>, session: Option<String>) {
    let follower = Follower {
        within: Arc::clone(within),
        line: Arc::clone(line),
        session,
        last: None,
    };
    match follower.open() {
        Some(stream) => drop(tokio::spawn(follower.run(stream))),
        None => line.give_up(),
    }
}

impl Follower {
    async fn run(mut self, mut stream: Bytewise) {
        loop {
            let over = self.line.over.clone();
            let stop = tokio::select! {
                biased;
                () = over.cancelled() => Stop::Left,
                stop = self.read(&mut stream) => stop,
            };
            match stop {
                Stop::Cut => {}
                // The connection is over with any of its streams.
                Stop::Ended => return self.line.over.cancel(),
                Stop::Left => return,
            }
            match self.take_up(stream).await {
                Some(next) => stream = next,
                None => {
                    self.line.counts.conflicts.fetch_add(1, Relaxed);
                    return self.line.give_up();
                }
            }
        }
    }

    fn open(&self) -> Option<Bytewise> {
        let stream = self
            .within
            .read(self.session.as_deref(), self.last.as_deref());
        stream.map(|stream| -> Bytewise { Box::pin(stream) })
    }

    /// Takes the stream up after the last event: at once while the old one is there, or later.
    async fn take_up(&self, old: Bytewise) -> Option<Bytewise> {
        let (at_once, away_ms) = {
            let mut chance = self.line.chance();
            (chance.one_in(2), chance.below(3) * chance.below(8))
        };
        let at_once = at_once || !self.line.entering().is_empty();
        if !at_once {
            drop(old);
            self.line.standing.away.fetch_add(1, Relaxed);
            tokio::time::sleep(Duration::from_millis(away_ms)).await;
            self.line.standing.away.fetch_sub(1, Relaxed);
        }
        let next = self.open()?;
        self.line.counts.takeovers.fetch_add(1, Relaxed);
        Some(next)
    }

    async fn read(&mut self, stream: &mut Bytewise) -> Stop {
        let mut parser = SseParser::new(EVENT_BYTES_MAX);
        // Updates of one event count only together.
        let mut held = Vec::new();
        while let Some(bytes) = stream.next().await {
            for event in parser.push(&bytes).unwrap_or_default() {
                if !self.take(event, &mut held).await {
                    return Stop::Left;
                }
                // Without any place it could not be taken up.
                if self.last.is_some() && self.line.chance().one_in(CUT_EVERY) {
                    let between = u64::from(!held.is_empty());
                    self.line.counts.cuts_between.fetch_add(between, Relaxed);
                    return Stop::Cut;
                }
            }
        }
        Stop::Ended
    }

    /// Hands a message on, unless it must wait for others; `false` if nobody wants it.
    async fn take(&mut self, event: SseEvent, held: &mut Vec<String>) -> bool {
        let message: Value = serde_json::from_str(&event.data).unwrap_or_default();
        let has_more = message["params"]["_meta"]["fastness"]["more"] == true;
        held.push(event.data);
        if has_more {
            return true;
        }
        for frame in held.drain(..) {
            if self.line.to_client.send(frame).await.is_err() {
                return false;
            }
        }
        if event.id.is_some() {
            self.last = event.id;
        }
        if let Some(id) = message["id"]
            .as_u64()
            .filter(|_| message["method"].is_null())
        {
            self.line.entering().remove(&id);
        }
        if let Some(session) = message["result"]["sessionId"].as_str() {
            self.line.open_session(&self.within, session);
        }
        true
    }
}
