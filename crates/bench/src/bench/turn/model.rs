//! A model server on loopback that speaks a provider's wire format and answers at once.
//!
//! It reads a request whole and does not look into it: what it takes is the floor, so it must be
//! little. The newest request is kept, for the floor's own client to send the same again.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::Failure;
use crate::bench::because;

/// Most bytes in one write, as a network would have them come.
const PIECE_BYTES_MAX: usize = 64 * 1024;

/// Whose format is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Chat completions, as OpenAI and many others have them.
    Chat,
    /// Anthropic's messages.
    Messages,
}

/// A model server; it answers until this program ends.
#[derive(Debug)]
pub(super) struct MockModel {
    pub(super) format: Format,
    pub(super) address: SocketAddr,
    newest: Arc<Mutex<Vec<u8>>>,
}

impl Format {
    /// The model's name on the command line.
    pub(super) fn spec(self) -> &'static str {
        match self {
            Self::Chat => "openai-chat:mock",
            Self::Messages => "anthropic:mock",
        }
    }

    /// Where the program is told to look for it.
    pub(super) fn settings(self) -> [&'static str; 2] {
        match self {
            Self::Chat => ["OPENAI_BASE_URL", "OPENAI_API_KEY"],
            Self::Messages => ["ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"],
        }
    }

    /// The path of a request.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Messages => "/v1/messages",
        }
    }

    /// An answer's events: `chunks` pieces of text, usage, and the end.
    fn answer(self, chunks: usize) -> String {
        let words = (1..=chunks).map(|number| format!("word {number} "));
        match self {
            Self::Chat => chat(words),
            Self::Messages => messages(words),
        }
    }
}

impl MockModel {
    /// Starts one that answers everything with `chunks` pieces of text.
    pub(super) fn start(format: Format, chunks: usize) -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(because("cannot listen"))?;
        let address = listener.local_addr().map_err(because("cannot listen"))?;
        let newest = Arc::new(Mutex::new(Vec::new()));
        let answer: Arc<[Vec<u8>]> = pieces(&format.answer(chunks)).into();
        let kept = Arc::clone(&newest);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (answer, kept) = (Arc::clone(&answer), Arc::clone(&kept));
                // A client that goes away is no failure.
                std::thread::spawn(move || serve(stream, &answer, &kept));
            }
        });
        Ok(Self {
            format,
            address,
            newest,
        })
    }

    /// The body of the newest request.
    pub(super) fn newest_request(&self) -> Vec<u8> {
        let newest = self.newest.lock();
        newest.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Answers request after request of one connection.
fn serve(stream: TcpStream, answer: &[Vec<u8>], kept: &Mutex<Vec<u8>>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::with_capacity(PIECE_BYTES_MAX, stream);
    let mut body = Vec::new();
    loop {
        let Some(length) = content_length(&mut reader)? else {
            return Ok(());
        };
        body.clear();
        (&mut reader).take(length).read_to_end(&mut body)?;
        std::mem::swap(
            &mut *kept.lock().unwrap_or_else(PoisonError::into_inner),
            &mut body,
        );
        for piece in answer {
            writer.write_all(piece)?;
        }
    }
}

/// Reads a head; gives the length of the body after it, or `None` at the end of the connection.
fn content_length(reader: &mut impl BufRead) -> std::io::Result<Option<u64>> {
    let (mut line, mut length) = (String::new(), 0);
    loop {
        line.clear();
        match reader.read_line(&mut line)? {
            0 => return Ok(None),
            1 | 2 => return Ok(Some(length)),
            _ => {}
        }
        let (name, value) = line.split_once(':').unwrap_or_default();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
}

/// A whole answer as it is written: the head with the first piece of the body, then the others.
fn pieces(events: &str) -> Vec<Vec<u8>> {
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                transfer-encoding: chunked\r\n\r\n";
    let mut before = head.to_owned();
    for part in events.as_bytes().chunks(PIECE_BYTES_MAX) {
        let size = format!("{before}{:x}\r\n", part.len());
        pieces.push([size.as_bytes(), part, b"\r\n"].concat());
        before.clear();
    }
    if let Some(last) = pieces.last_mut() {
        last.extend_from_slice(b"0\r\n\r\n");
    }
    pieces
}

fn chat(words: impl Iterator<Item = String>) -> String {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        let event = json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000,
            "model": "mock", "choices": [choice],
        });
        format!("data: {event}\n\n")
    };
    let mut events = chunk(json!({"role": "assistant", "content": ""}), Value::Null);
    for word in words {
        events.push_str(&chunk(json!({ "content": word }), Value::Null));
    }
    events.push_str(&chunk(json!({}), json!("stop")));
    let usage = json!({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110});
    let usage = json!({"id": "chatcmpl-1", "choices": [], "usage": usage});
    format!("{events}data: {usage}\n\ndata: [DONE]\n\n")
}

fn messages(words: impl Iterator<Item = String>) -> String {
    let event = |event: Value| {
        let name = event["type"].as_str().unwrap_or_default();
        format!("event: {name}\ndata: {event}\n\n")
    };
    let usage = json!({"input_tokens": 100, "output_tokens": 1});
    let message = json!({"id": "msg_1", "role": "assistant", "content": [], "usage": usage});
    let mut events = event(json!({"type": "message_start", "message": message}));
    let block = json!({"type": "text", "text": ""});
    events.push_str(&event(
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
    ));
    for word in words {
        let delta = json!({"type": "text_delta", "text": word});
        events.push_str(&event(
            json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        ));
    }
    events.push_str(&event(json!({"type": "content_block_stop", "index": 0})));
    let end = json!({"stop_reason": "end_turn"});
    let usage = json!({"output_tokens": 10});
    events.push_str(&event(
        json!({"type": "message_delta", "delta": end, "usage": usage}),
    ));
    events.push_str(&event(json!({"type": "message_stop"})));
    events
}

#[cfg(test)]
mod tests {
    use super::super::floor::Floor;
    use super::{Format, MockModel};

    #[test]
    fn the_floor_reads_every_event_of_an_answer_over_one_connection() {
        for (format, beside) in [(Format::Chat, 4), (Format::Messages, 5)] {
            for chunks in [5, 2_000] {
                let model = MockModel::start(format, chunks).unwrap();
                let mut floor = Floor::connect(&model).unwrap();
                for body in ["{}", "{\"a\":1}"] {
                    let events = floor.ask(body.as_bytes()).unwrap();
                    // The end of a chat completion is no JSON.
                    let last = usize::from(format == Format::Chat);
                    assert_eq!(events + last, chunks + beside, "{format:?}");
                    assert_eq!(model.newest_request(), body.as_bytes());
                }
            }
        }
    }
}
