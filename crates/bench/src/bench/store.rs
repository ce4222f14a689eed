//! `cargo xtask bench store`: a store of very many sessions, and one very large session.
//!
//! Both are written by the journal itself, on a disk that does not sync, so that they are made in
//! seconds.

mod unsynced;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::clock::Timestamp;
use domain::{Event, SessionId};
use journal::{Entry, FileStore, StoreError, Writer};
use serde_json::{Value, json};

use super::client::{Client, Line, Pipes, connect};
use super::program::{Running, Server, acp, write_script};
use super::table::{Row, Samples, Table, mebibytes, time};
use super::{Group, Plan, because};
use crate::Failure;
use unsynced::Unsynced;

/// What is measured, by the name that `--only` looks at.
pub(super) const GROUPS: &[(&str, Group)] = &[("list", list), ("prompt", prompt)];

/// Pages that are asked for after the first.
const PAGES: usize = 200;

/// Bytes of each tool's output in the large session.
const OUTPUT_BYTES: usize = 100_000;

/// Longest wait for an answer over REST.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// Lists of a store with many sessions: the first page after a start, and those after it.
fn list(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let folder = plan.scratch()?;
    let data = folder.path().join("data");
    let script = write_script(folder.path(), &json!([{"text": "done"}]))?;
    eprintln!("generating {} sessions …", plan.sessions);
    write_sessions(&data, plan.sessions)?;
    // The first start after all of them were made reads them; later ones do not.
    for start in ["first start", "later start"] {
        let began = Instant::now();
        let server = Server::start(plan, &data, &script)?;
        let ready = began.elapsed();
        let first = timed(|| rest_page(&server, None).map(drop))?;
        if start == "later start" {
            push_list(table, &format!("REST, first page, {start}"), &[first]);
            measure_pages(plan, &server, table)?;
        } else {
            push_list(table, &format!("REST, first page, {start}"), &[first]);
        }
        let resident = server.running.resident_bytes()?;
        eprintln!("ready in {}, then {}", time(ready), mebibytes(resident));
    }
    // Each process of an editor has a catalogue of its own.
    let (_running, stdin, stdout) = Running::start(acp(plan, &data, &script))?;
    let mut client = Client::initialize(Pipes { stdin, stdout })?;
    let first = timed(|| acp_page(&mut client, None).map(drop))?;
    push_list(table, "ACP over stdio, first page", &[first]);
    Ok(())
}

fn measure_pages(plan: &Plan, server: &Server, table: &mut Table) -> Result<(), Failure> {
    let pages = PAGES.min(plan.rounds);
    let mut client = Client::initialize(connect(server)?)?;
    let (mut rest, mut socket) = (Vec::new(), Vec::new());
    let (mut after_rest, mut after_socket) = (None, None);
    for _ in 0..pages {
        rest.push(timed(|| {
            after_rest = rest_page(server, after_rest.take())?;
            Ok(())
        })?);
        socket.push(timed(|| {
            after_socket = acp_page(&mut client, after_socket.take())?;
            Ok(())
        })?);
    }
    push_list(table, "REST, later pages", &rest);
    push_list(table, "ACP over WebSocket, later pages", &socket);
    let mut busy = Vec::new();
    for _ in 0..pages {
        client.new_session(&plan.folder)?;
        busy.push(timed(|| acp_page(&mut client, None).map(drop))?);
    }
    push_list(table, "ACP, first page after a new session each", &busy);
    Ok(())
}

fn push_list(table: &mut Table, what: &str, samples: &[Duration]) {
    let measured = match samples {
        [one] => time(*one),
        many => Samples::new(many.to_vec()).to_string(),
    };
    table.push(Row {
        what: &format!("list: {what}"),
        measured,
        beside: String::new(),
        ratio: None,
        aim: "≤ 20 ms",
    });
}

/// One page over REST; gives the cursor of the next.
fn rest_page(server: &Server, after: Option<String>) -> Result<Option<String>, Failure> {
    let query = after.map_or_else(String::new, |cursor| format!("?cursor={cursor}"));
    let (address, token) = (&server.address, &server.token);
    let request = format!(
        "GET /api/v1/sessions{query} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
         connection: close\r\n\r\n"
    );
    let mut stream = TcpStream::connect(address).map_err(because("cannot connect"))?;
    stream
        .set_read_timeout(Some(SILENCE_MAX))
        .map_err(because("cannot set a deadline"))?;
    let sent = stream.write_all(request.as_bytes());
    sent.map_err(because("cannot ask"))?;
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    read.map_err(because("cannot read the answer"))?;
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let page: Value = serde_json::from_str(body).map_err(because("a page is not JSON"))?;
    cursor_of(&page)
}

fn acp_page<L: Line>(
    client: &mut Client<L>,
    after: Option<String>,
) -> Result<Option<String>, Failure> {
    let params = after.map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
    cursor_of(&client.request("session/list", &params)?.result)
}

fn cursor_of(page: &Value) -> Result<Option<String>, Failure> {
    match page["sessions"].as_array() {
        Some(sessions) if !sessions.is_empty() => {
            Ok(page["nextCursor"].as_str().map(str::to_owned))
        }
        _ => Err(format!("a page without sessions: {page}")),
    }
}

/// One prompt into a session of 1 GB: how far memory grows.
fn prompt(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let folder = plan.scratch()?;
    let data = folder.path().join("data");
    let script = write_script(folder.path(), &json!([{"text": "done"}]))?;
    let turns = plan.large_events * 1_000 / OUTPUT_BYTES as u64;
    eprintln!("generating a session of {turns} turns …");
    let id = write_large(&data, folder.path(), turns)?;
    let server = Server::start(plan, &data, &script)?;
    let mut client = Client::initialize(connect(&server)?)?;
    let before = server.running.resident_bytes()?;
    let id = id.to_string();
    for what in ["load", "first prompt", "second prompt"] {
        server.running.forget_peak()?;
        let took = timed(|| match what {
            "load" => client.load(&id, folder.path()).map(drop),
            _ => client.prompt(&id).map(drop),
        })?;
        let growth = server.running.peak_bytes()?.saturating_sub(before);
        table.push(Row {
            what: &format!("{what}, session of {turns} turns with 100 KB of tool output each"),
            measured: format!("{} over idle", mebibytes(growth)),
            beside: format!("{} idle; {}", mebibytes(before), time(took)),
            ratio: None,
            aim: "≤ 100 MB",
        });
    }
    Ok(())
}

/// Makes `count` sessions with a turn each.
pub(super) fn write_sessions(data: &Path, count: u64) -> Result<(), Failure> {
    let store = unsynced_store(data)?;
    for number in 0..count {
        let at = Timestamp(1_700_000_000.0 + number as f64);
        let cwd = format!("/srv/project-{}", number % 100);
        let mut writer = new_session(&store, &cwd, at)?;
        let events = turn_events(1, &format!("task {number}"), None)?;
        writer.append(events, at).map_err(failed)?;
        writer.save_meta().map_err(failed)?;
    }
    Ok(())
}

/// Makes a session of `turns` turns, each with a tool call that has a long output.
fn write_large(data: &Path, cwd: &Path, turns: u64) -> Result<SessionId, Failure> {
    let store = unsynced_store(data)?;
    let cwd = cwd.to_string_lossy();
    let mut writer = new_session(&store, &cwd, Timestamp::now())?;
    let line = "src/main.rs:12: warning: unused variable “x” in `main`\n";
    let output = line.repeat(OUTPUT_BYTES / line.len());
    for turn in 1..=turns {
        let events = turn_events(turn, "look at it again", Some(&output))?;
        writer.append(events, Timestamp::now()).map_err(failed)?;
    }
    writer.save_meta().map_err(failed)?;
    Ok(writer.session())
}

fn unsynced_store(data: &Path) -> Result<FileStore, Failure> {
    Ok(FileStore::with_storage(Arc::new(Unsynced::open(data)?)))
}

fn new_session(store: &FileStore, cwd: &str, at: Timestamp) -> Result<Writer, Failure> {
    let created = event(
        json!({"type": "session.created", "owner": "local", "cwd": cwd,
        "epoch": 0, "realDirectories": [cwd]}),
    )?;
    let made = store.create(SessionId::random(), vec![created], at);
    made.map(|(writer, _)| writer).map_err(failed)
}

/// A whole turn, with the output of a tool call if it makes one.
fn turn_events(turn: u64, prompt: &str, output: Option<&str>) -> Result<Vec<Entry>, Failure> {
    let message = format!("message-{turn}");
    let mut events = vec![
        json!({"type": "user.message", "text": prompt, "messageId": format!("prompt-{turn}"),
            "blocks": [{"type": "text", "text": prompt}]}),
        json!({"type": "turn.started", "turn": turn}),
    ];
    if let Some(output) = output {
        let call = format!("call-{turn}");
        events.push(
            json!({"type": "tool.use", "turn": turn, "callId": call, "name": "bash", "title": "cargo check",
            "kind": "execute", "input": {"command": "cargo check"}}),
        );
        events.push(
            json!({"type": "tool.result", "callId": call, "status": "completed",
            "text": output}),
        );
    }
    events.push(json!({"type": "message.started", "messageId": message, "kind": "text"}));
    events.push(json!({"type": "assistant.message", "messageId": message, "text": "done"}));
    events.push(json!({"type": "result", "turn": turn, "stopReason": "end_turn"}));
    let events = events.into_iter().map(|json| event(json).map(Entry::Event));
    events.collect()
}

fn event(json: Value) -> Result<Event, Failure> {
    let kind = json["type"].as_str().unwrap_or_default();
    let event = Event::from_json(kind, &json.to_string()).map_err(because("not an event"))?;
    if let Event::Unknown(unknown) = &event {
        return Err(format!("not an event of today: {unknown:?}"));
    }
    Ok(event)
}

/// A failure of the journal, as a sentence.
fn failed(error: StoreError) -> Failure {
    because("the journal failed")(error)
}

fn timed(work: impl FnOnce() -> Result<(), Failure>) -> Result<Duration, Failure> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed())
}
