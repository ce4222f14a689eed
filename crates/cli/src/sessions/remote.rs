//! `sessions tail --server`: a session of a server anywhere, over a connection that comes back by
//! itself. It only looks: questions are shown and left to those who may answer them.

mod screen;

use std::collections::VecDeque;

use anyhow::Context;
use client::{ClientError, Line, Transport, TransportError};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use self::screen::Screen;
use crate::reach::{self, Missing};
use crate::render::{self, Exit, Failure, Palette};
use crate::settings::Settings;

/// Most pages of the server's list in which a session is looked for.
const PAGES_MAX: usize = 1_000;

/// When the view ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// When everything is shown that there is.
    Now,
    /// When somebody presses Ctrl-C.
    Interrupted,
}

/// Shows the newest `count` events of the session whose id begins with `id`, and what comes.
///
/// # Errors
/// If the server is not reached, has no such session, or is lost for good.
pub(super) async fn tail(
    id: &str,
    count: u64,
    until: Until,
    settings: &Settings,
) -> anyhow::Result<Exit> {
    let mut interrupt = signal(SignalKind::interrupt()).context("signals cannot be received")?;
    let watching = watch(id, count, until, settings);
    tokio::select! {
        watched = watching => watched,
        _ = interrupt.recv() => Ok(Exit::Interrupted),
    }
}

async fn watch(id: &str, count: u64, until: Until, settings: &Settings) -> anyhow::Result<Exit> {
    let mut server = Server::call(settings).await?;
    server.ask("initialize", greeting(), |_| {}).await?;
    let session = server.find(id).await?;
    let mut screen = Screen::new(render::stdout(), Palette::stdout(&settings.environment));
    let mut newest = Newest::new(count);
    let load = json!({"sessionId": session.id, "cwd": session.cwd, "mcpServers": []});
    let loaded = server.ask("session/load", load, |message| newest.take(message));
    loaded.await?;
    for message in newest.messages() {
        screen.show(message)?;
    }
    screen.flush()?;
    if until == Until::Now {
        screen.end()?;
        return Ok(Exit::Success);
    }
    loop {
        let message = server.next().await?;
        screen.show(&message)?;
        screen.flush()?;
    }
}

fn greeting() -> Value {
    json!({
        "protocolVersion": 1,
        "clientCapabilities": {"_meta": {"fastness": {"turns": true}}},
        "clientInfo": {"name": "fastness-tail", "version": env!("CARGO_PKG_VERSION")},
    })
}

/// A session in the server's list.
struct Found {
    id: String,
    cwd: String,
}

/// The server, as a bridge shows it to an editor: it may break and come back meanwhile.
struct Server {
    outgoing: mpsc::Sender<Line>,
    incoming: mpsc::Receiver<String>,
    carrying: JoinHandle<Result<(), TransportError>>,
    asked: u64,
    wait: std::time::Duration,
}

impl Server {
    async fn call(settings: &Settings) -> anyhow::Result<Self> {
        let dialer = reach::dialer(settings, Missing::IsAnError);
        let transport = Transport::lasting(dialer, &settings.limits).await;
        let (transport, _) = transport.map_err(ClientError::Connect)?;
        let (outgoing, lines) = mpsc::channel(1);
        let (frames, incoming) = mpsc::channel(1);
        Ok(Self {
            outgoing,
            incoming,
            carrying: tokio::spawn(client::bridge(transport, lines, frames)),
            asked: 0,
            wait: settings.limits.client_request,
        })
    }

    /// Asks, and hands on what comes before the answer.
    async fn ask(
        &mut self,
        method: &str,
        params: Value,
        mut meanwhile: impl FnMut(Value),
    ) -> anyhow::Result<Value> {
        self.asked += 1;
        let id = self.asked;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let line = Line::Whole(request.to_string().into());
        if self.outgoing.send(line).await.is_err() {
            return Err(self.lost().await);
        }
        loop {
            let wait = self.wait;
            let message = timeout(wait, self.next()).await.map_err(|_| {
                let seconds = wait.as_secs_f64();
                Failure::new(format!(
                    "the server did not answer {method} within {seconds} s"
                ))
            })??;
            if message["id"] != id || message.get("method").is_some() {
                meanwhile(message);
                continue;
            }
            if let Some(error) = message.get("error") {
                let said = error["message"].as_str().unwrap_or("no reason was given");
                return Err(Failure::new(format!("{method}: {said}")).into());
            }
            return Ok(message["result"].clone());
        }
    }

    async fn next(&mut self) -> anyhow::Result<Value> {
        loop {
            let Some(frame) = self.incoming.recv().await else {
                return Err(self.lost().await);
            };
            if let Ok(message) = serde_json::from_str(&frame) {
                return Ok(message);
            }
        }
    }

    /// Why nothing more comes.
    async fn lost(&mut self) -> anyhow::Error {
        match (&mut self.carrying).await {
            Ok(Err(error)) => ClientError::Connect(error).into(),
            Ok(Ok(())) | Err(_) => Failure::new("the connection ended").into(),
        }
    }

    /// The one session of the server whose id begins with `start`.
    async fn find(&mut self, start: &str) -> anyhow::Result<Found> {
        let mut found: Vec<Found> = Vec::new();
        let mut params = json!({});
        for _ in 0..PAGES_MAX {
            let page = self.ask("session/list", params, |_| {}).await?;
            let sessions = page["sessions"].as_array();
            let text = |session: &Value, key: &str| session[key].as_str().map(str::to_owned);
            let named = sessions.into_iter().flatten().filter_map(|session| {
                let (id, cwd) = (text(session, "sessionId")?, text(session, "cwd")?);
                id.starts_with(start).then_some(Found { id, cwd })
            });
            found.extend(named);
            match page["nextCursor"].as_str() {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => break,
            }
        }
        match (found.pop(), found.is_empty()) {
            (Some(session), true) => Ok(session),
            (None, _) => Err(
                Failure::new(format!("the server has no session {start} for you"))
                    .hint("`session/list` there shows what this token may see")
                    .into(),
            ),
            (Some(_), false) => Err(
                Failure::usage(format!("several sessions begin with {start}"))
                    .hint("write more of the id")
                    .into(),
            ),
        }
    }
}

/// What was replayed of the newest events.
struct Newest {
    count: u64,
    /// By event, oldest first; what belongs to none stands with the one before it.
    events: VecDeque<(u64, Vec<Value>)>,
}

impl Newest {
    fn new(count: u64) -> Self {
        Self {
            count,
            events: VecDeque::new(),
        }
    }

    fn take(&mut self, message: Value) {
        let seq = message["params"]["_meta"]["fastness"]["seq"].as_u64();
        let newest = self.events.back().map_or(0, |(seq, _)| *seq);
        let seq = seq.unwrap_or(newest);
        match self.events.back_mut() {
            Some((same, messages)) if *same == seq => messages.push(message),
            Some(_) | None => self.events.push_back((seq, vec![message])),
        }
        while self.events.len() as u64 > self.count {
            self.events.pop_front();
        }
    }

    fn messages(&self) -> impl Iterator<Item = &Value> {
        self.events.iter().flat_map(|(_, messages)| messages)
    }
}
