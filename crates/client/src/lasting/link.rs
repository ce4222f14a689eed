//! The task behind a lasting connection: it calls, carries, and calls again.
//!
//! Neither side can hold up the other: while the caller does not read, the server's messages wait
//! where they are, but what the caller sends still goes out, and the other way round.

use std::collections::VecDeque;
use std::future::pending;

use domain::Limits;
use domain::limits::{CLOSE_WAIT, REQUESTS_IN_FLIGHT_MAX, STASHED_FRAMES_MAX};
use futures_util::StreamExt;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::ledger::{Effects, Ledger};
use super::{Dialer, LinkState, backoff};
use crate::error::TransportError;
use crate::transport::{FrameIn, FramesIn, Heartbeat, Transport};
use crate::writer;

/// What the caller gets: messages, and at the end why there are no more.
type ToCaller = mpsc::Sender<Result<String, TransportError>>;

pub(super) struct Link {
    dialer: Dialer,
    limits: Limits,
    from_caller: mpsc::Receiver<String>,
    to_caller: ToCaller,
    state: watch::Sender<LinkState>,
    ledger: Ledger,
    /// Messages of the caller that came while there was no connection.
    stash: VecDeque<String>,
    /// Messages for the caller that it has not taken yet.
    undelivered: VecDeque<String>,
    /// Tries since the connection last did anything.
    tries: u32,
}

/// Why a connection, or the whole link, ends.
#[derive(Debug)]
enum Ended {
    /// The caller has gone, or has said all that it wanted.
    ByCaller,
    Lost(TransportError),
}

/// One connection while it lasts.
struct Line {
    frames_in: FramesIn,
    heartbeat: Option<Heartbeat>,
    heard: Instant,
    outgoing: mpsc::Sender<String>,
    unsent: VecDeque<String>,
    /// By when the server must know us again.
    greeted_by: Option<Instant>,
    writer: JoinHandle<TransportError>,
}

impl Link {
    pub(super) fn new(
        dialer: Dialer,
        limits: &Limits,
        from_caller: mpsc::Receiver<String>,
        to_caller: ToCaller,
        state: watch::Sender<LinkState>,
    ) -> Self {
        Self {
            dialer,
            limits: limits.clone(),
            from_caller,
            to_caller,
            state,
            ledger: Ledger::new(limits.message_bytes_max),
            stash: VecDeque::new(),
            undelivered: VecDeque::new(),
            tries: 0,
        }
    }

    /// Runs until the caller leaves or the server does not come back.
    pub(super) async fn run(mut self, first: Option<Transport>) {
        let ended = self.live(first).await;
        if let Ended::Lost(cause) = ended {
            let effects = self.ledger.give_up(&cause.to_string());
            self.undelivered.extend(effects.to_caller);
            while let Some(frame) = self.undelivered.pop_front() {
                // A caller that reads nothing more is gone as well.
                let _ = self.to_caller.send(Ok(frame)).await;
            }
            let _ = self.to_caller.send(Err(cause)).await;
        }
        self.state.send_replace(LinkState::Ended);
    }

    async fn live(&mut self, first: Option<Transport>) -> Ended {
        let mut transport = match first {
            Some(transport) => transport,
            None => match self.call_when_needed().await {
                Ok(transport) => transport,
                Err(ended) => return ended,
            },
        };
        loop {
            self.state.send_replace(LinkState::Connected);
            let cause = match self.carry(transport).await {
                Ended::ByCaller => return Ended::ByCaller,
                Ended::Lost(cause) => cause,
            };
            tracing::info!(%cause, "the connection was lost");
            let effects = self.ledger.lost();
            self.undelivered.extend(effects.to_caller);
            transport = match self.call_again(cause).await {
                Ok(transport) => transport,
                Err(ended) => return ended,
            };
        }
    }

    async fn call_when_needed(&mut self) -> Result<Transport, Ended> {
        let first = self.from_caller.recv().await.ok_or(Ended::ByCaller)?;
        self.stash.push_back(first);
        let dialled = self.dialer.dial().await;
        dialled.map_err(|cause| {
            // The answers to what was asked are made as for any other request.
            while let Some(frame) = self.stash.pop_front() {
                let effects = self.ledger.outgoing(frame);
                self.undelivered.extend(effects.to_caller);
            }
            Ended::Lost(cause)
        })
    }

    /// Calls until somebody answers, it is no use, or it was tried often enough.
    async fn call_again(&mut self, mut cause: TransportError) -> Result<Transport, Ended> {
        if self.ledger.take_progress() {
            self.tries = 0;
        }
        loop {
            if self.tries >= self.limits.reconnect_tries || cause.is_final() {
                return Err(Ended::Lost(TransportError::GaveUp {
                    tries: self.tries,
                    cause: Box::new(cause),
                }));
            }
            let (first, most) = (self.limits.reconnect_first, self.limits.reconnect_most);
            let wait = backoff::delay(self.tries, first, most, backoff::chance());
            self.tries += 1;
            self.state.send_replace(LinkState::Reconnecting {
                attempt: self.tries,
                wait,
                cause: cause.clone(),
            });
            self.pause(wait).await?;
            match self.dialer.dial().await {
                Ok(transport) => return Ok(transport),
                Err(next) => cause = next,
            }
        }
    }

    /// Waits, and notices meanwhile if the caller leaves.
    async fn pause(&mut self, wait: std::time::Duration) -> Result<(), Ended> {
        let over = sleep(wait);
        tokio::pin!(over);
        loop {
            let bytes: usize = self.stash.iter().map(String::len).sum();
            let has_room = bytes <= self.limits.message_bytes_max;
            let may_stash = has_room && self.stash.len() < STASHED_FRAMES_MAX;
            tokio::select! {
                () = &mut over => return Ok(()),
                frame = self.from_caller.recv(), if may_stash => match frame {
                    Some(frame) => self.stash.push_back(frame),
                    None => return Err(Ended::ByCaller),
                },
                permit = reserve(&self.to_caller, !self.undelivered.is_empty()) => {
                    deliver(permit, &mut self.undelivered)?;
                }
                () = self.to_caller.closed() => return Err(Ended::ByCaller),
            }
        }
    }

    /// Carries messages both ways until the connection or the caller ends.
    async fn carry(&mut self, transport: Transport) -> Ended {
        let mut line = Line::new(transport, &self.limits);
        let began = Instant::now();
        let effects = self.ledger.greet();
        if !self.ledger.is_ready() {
            line.greeted_by = Some(began + self.limits.client_request);
        }
        line.unsent.extend(effects.to_server);
        let ended = loop {
            if let Err(ended) = self.step(&mut line).await {
                break ended;
            }
        };
        if began.elapsed() >= self.limits.reconnect_most {
            self.tries = 0;
        }
        match ended {
            Ended::ByCaller => {
                self.part(&mut line).await;
                line.close().await;
                Ended::ByCaller
            }
            Ended::Lost(cause) => Ended::Lost(line.end(cause).await),
        }
    }

    /// Waits for the next thing to happen, and does it.
    async fn step(&mut self, line: &mut Line) -> Result<(), Ended> {
        let may_send = self.ledger.is_ready() && line.unsent.is_empty();
        if may_send {
            line.greeted_by = None;
            if let Some(frame) = self.stash.pop_front() {
                let effects = self.ledger.outgoing(frame);
                self.take(effects, line);
                return Ok(());
            }
        }
        let may_read = self.undelivered.is_empty() && line.unsent.len() < REQUESTS_IN_FLIGHT_MAX;
        let silent_at = line.silent_at().filter(|_| may_read);
        tokio::select! {
            permit = reserve(&line.outgoing, !line.unsent.is_empty()) => {
                let permit = permit.ok_or(Ended::Lost(TransportError::ClosedHere))?;
                if let Some(frame) = line.unsent.pop_front() {
                    permit.send(frame);
                }
            }
            permit = reserve(&self.to_caller, !self.undelivered.is_empty()) => {
                deliver(permit, &mut self.undelivered)?;
                // The time in which we did not read was not the server's silence.
                line.heard = Instant::now();
            }
            frame = self.from_caller.recv(), if may_send => {
                let frame = frame.ok_or(Ended::ByCaller)?;
                let effects = self.ledger.outgoing(frame);
                self.take(effects, line);
            }
            frame = line.frames_in.next(), if may_read => {
                line.heard = Instant::now();
                if let FrameIn::Text(text) = heard(frame)? {
                    let effects = self.ledger.incoming(text);
                    self.take(effects, line);
                }
            }
            () = at(silent_at) => return Err(Ended::Lost(line.silence())),
            () = at(line.greeted_by) => {
                let seconds = self.limits.client_request.as_secs_f64();
                return Err(Ended::Lost(TransportError::Silent { seconds }));
            }
            () = line.outgoing.closed() => return Err(Ended::Lost(TransportError::ClosedHere)),
            () = self.to_caller.closed() => return Err(Ended::ByCaller),
        }
        Ok(())
    }

    fn take(&mut self, effects: Effects, line: &mut Line) {
        line.unsent.extend(effects.to_server);
        self.undelivered.extend(effects.to_caller);
    }

    /// The caller has said its last word: what it asked before is still answered, for a moment.
    async fn part(&mut self, line: &mut Line) {
        let until = Instant::now() + CLOSE_WAIT;
        while self.ledger.is_waiting() || !line.unsent.is_empty() || !self.undelivered.is_empty() {
            tokio::select! {
                permit = reserve(&line.outgoing, !line.unsent.is_empty()) => {
                    let (Some(permit), Some(frame)) = (permit, line.unsent.pop_front()) else {
                        return;
                    };
                    permit.send(frame);
                }
                permit = reserve(&self.to_caller, !self.undelivered.is_empty()) => {
                    if deliver(permit, &mut self.undelivered).is_err() {
                        return;
                    }
                }
                frame = line.frames_in.next(), if self.undelivered.is_empty() => {
                    let Ok(frame) = heard(frame) else { return };
                    if let FrameIn::Text(text) = frame {
                        let effects = self.ledger.incoming(text);
                        self.take(effects, line);
                    }
                }
                () = self.to_caller.closed() => return,
                () = sleep_until(until) => return,
            }
        }
    }
}

impl Line {
    fn new(transport: Transport, limits: &Limits) -> Self {
        let Transport {
            frames_in,
            frames_out,
            heartbeat,
        } = transport;
        let (outgoing, queue) = mpsc::channel(1);
        let ping = heartbeat.map(|heartbeat| heartbeat.ping);
        Self {
            frames_in,
            heartbeat,
            heard: Instant::now(),
            outgoing,
            unsent: VecDeque::new(),
            greeted_by: None,
            writer: tokio::spawn(writer::write(frames_out, queue, ping, limits.stall)),
        }
    }

    fn silent_at(&self) -> Option<Instant> {
        self.heartbeat.map(|beat| self.heard + beat.silence)
    }

    fn silence(&self) -> TransportError {
        let seconds = self.heartbeat.map(|beat| beat.silence.as_secs_f64());
        TransportError::Silent {
            seconds: seconds.unwrap_or_default(),
        }
    }

    /// Says goodbye. A writer that is stuck ends by its own deadline; nobody waits for it that long.
    async fn close(self) -> TransportError {
        drop(self.outgoing);
        match timeout(CLOSE_WAIT, self.writer).await {
            Ok(Ok(cause)) => cause,
            Ok(Err(_)) | Err(_) => TransportError::ClosedHere,
        }
    }

    /// The better of two reasons: the writer may know why the reader failed.
    async fn end(self, cause: TransportError) -> TransportError {
        match (cause, self.close().await) {
            (TransportError::ClosedHere, of_writer) => of_writer,
            (cause, _) => cause,
        }
    }
}

fn heard(frame: Option<Result<FrameIn, TransportError>>) -> Result<FrameIn, Ended> {
    match frame {
        Some(Ok(frame)) => Ok(frame),
        Some(Err(cause)) => Err(Ended::Lost(cause)),
        None => Err(Ended::Lost(TransportError::ClosedByServer {
            code: None,
            reason: String::new(),
        })),
    }
}

fn deliver(
    permit: Option<mpsc::OwnedPermit<Result<String, TransportError>>>,
    undelivered: &mut VecDeque<String>,
) -> Result<(), Ended> {
    let permit = permit.ok_or(Ended::ByCaller)?;
    if let Some(frame) = undelivered.pop_front() {
        permit.send(Ok(frame));
    }
    Ok(())
}

/// A place in a queue, if one is wanted; `None` if its reader is gone.
fn reserve<T>(
    queue: &mpsc::Sender<T>,
    is_wanted: bool,
) -> impl Future<Output = Option<mpsc::OwnedPermit<T>>> + use<T> {
    let queue = is_wanted.then(|| queue.clone());
    async move {
        match queue {
            Some(queue) => queue.reserve_owned().await.ok(),
            None => pending().await,
        }
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => pending().await,
    }
}
