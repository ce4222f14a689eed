//! From the model's chunk to the client's frame: a model server on loopback writes the time into
//! each chunk, and the client looks at its clock when the chunk is there.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::client::{Client, connect};
use super::super::program::{Server, serve_model};
use super::super::table::{Row, Samples, Table};
use super::super::{Plan, because};
use crate::Failure;

/// Chunks that are timed.
const CHUNKS: usize = 500;

/// Time between two of them: slower than they travel, so that each travels alone.
const PAUSE: Duration = Duration::from_millis(2);

pub(super) fn measure(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let folder = plan.scratch()?;
    let listener = TcpListener::bind("127.0.0.1:0").map_err(because("cannot listen"))?;
    let address = listener.local_addr().map_err(because("cannot listen"))?;
    let epoch = Instant::now();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            std::thread::spawn(move || answer(stream, epoch));
        }
    });
    let data = folder.path().join("data");
    let mut command = serve_model(plan, &data, "openai-chat:clock");
    command.env("OPENAI_BASE_URL", format!("http://{address}"));
    command.env("OPENAI_API_KEY", "none");
    let server = Server::started(command)?;
    let mut client = Client::initialize(connect(&server)?)?;
    let session = client.new_session(folder.path())?;
    let mut waits = Vec::new();
    client.begin_prompt(&session)?;
    client.each_until_answer(|message| {
        let text = message["params"]["update"]["content"]["text"].as_str();
        let stamp = text.and_then(|text| text.strip_prefix("at "));
        if let Some(Ok(nanos)) = stamp.map(|stamp| stamp.trim().parse()) {
            waits.push(epoch.elapsed().saturating_sub(Duration::from_nanos(nanos)));
        }
    })?;
    if waits.len() < CHUNKS / 2 {
        return Err(format!("only {} chunks came one by one", waits.len()));
    }
    let bare = Samples::new(bare(epoch)?);
    let waits = Samples::new(waits);
    table.push(Row {
        what: "from the model's chunk to the client's frame",
        measured: waits.to_string(),
        beside: format!("the same bytes over one bare socket {bare}"),
        ratio: waits.ratio(&bare),
        aim: "",
    });
    Ok(())
}

/// One answer in the format of chat completions, a chunk at a time.
fn answer(mut stream: TcpStream, epoch: Instant) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    reader.take(length).read_to_end(&mut Vec::new())?;
    stream.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
    )?;
    for _ in 0..CHUNKS {
        std::thread::sleep(PAUSE);
        stream.write_all(chunk(epoch).as_bytes())?;
    }
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    stream.write_all(format!("data: {end}\n\ndata: [DONE]\n\n").as_bytes())
}

fn chunk(epoch: Instant) -> String {
    let stamp = format!("at {} ", epoch.elapsed().as_nanos());
    let delta = json!({"choices": [{"index": 0, "delta": {"content": stamp}}]});
    format!("data: {delta}\n\n")
}

/// What the loopback takes for the same chunks, read and parsed.
fn bare(epoch: Instant) -> Result<Vec<Duration>, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(because("cannot listen"))?;
    let address = listener.local_addr().map_err(because("cannot listen"))?;
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        for _ in 0..CHUNKS {
            std::thread::sleep(PAUSE);
            stream.write_all(chunk(epoch).as_bytes())?;
        }
        Ok::<(), std::io::Error>(())
    });
    let stream = TcpStream::connect(address).map_err(because("cannot connect"))?;
    let mut waits = Vec::new();
    for line in BufReader::new(stream).lines() {
        let line = line.map_err(because("cannot read a chunk"))?;
        let Some(data) = line.strip_prefix("data: ") else {
            continue;
        };
        let chunk: Value = serde_json::from_str(data).map_err(because("not JSON"))?;
        let text = chunk["choices"][0]["delta"]["content"].as_str();
        let stamp = text.and_then(|text| text.strip_prefix("at "));
        if let Some(Ok(nanos)) = stamp.map(|stamp| stamp.trim().parse()) {
            waits.push(epoch.elapsed().saturating_sub(Duration::from_nanos(nanos)));
        }
    }
    Ok(waits)
}
