//! Any bytes give a value or an error: seeded mutations of real messages, through every parser.

use wire::acp::{decode, decode_agent, permission_outcome};
use wire::rpc::{Incoming, parse};
use wire::sse::SseParser;

const SEEDS: [&str; 7] = [
    r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"0123456789abcdef0123456789abcdef","prompt":[{"type":"text","text":"h\u00e9\"\\i"},"x"],"_meta":{"fastness":{"promptId":"p","queue":true}}}}"#,
    r#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocol_version":1,"client_capabilities":{"fs":{"read_text_file":true},"_meta":{"fastness":{"turns":{}}}}}}"#,
    r#"{"jsonrpc":"2.0","id":null,"method":"session/new","params":{"cwd":"/w","mcpServers":[{"type":"http","name":"n","url":"u","headers":[{"name":"a","value":"b"}]}]}}"#,
    r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":-12}}"#,
    r#"{"jsonrpc":"2.0","id":"q","result":{"outcome":{"outcome":"selected","optionId":"x"}}}"#,
    r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"0123456789abcdef0123456789abcdef","update":{"sessionUpdate":"plan"},"_meta":{"fastness":{"seq":1,"epoch":0}}}}"#,
    "event: x\r\ndata: 1\rdata: 2\n\n: c\nid: 5\nretry: 10\ndata: [{}]\n\n",
];

/// Pieces that parsers trip over.
const PIECES: [&[u8]; 12] = [
    b"\"",
    b"\\",
    b"\\ud800",
    b"{",
    b"]",
    b"[[[[[[[[[[",
    b"\xff",
    b"\0",
    b"\r",
    b"1e999",
    b"null",
    b",",
];

#[test]
fn any_bytes_give_a_value_or_an_error() {
    let mut random = Xorshift(0x9e37_79b9_7f4a_7c15);
    for round in 0..20_000 {
        let mut bytes = SEEDS[round % SEEDS.len()].as_bytes().to_vec();
        for _ in 0..=random.below(4) {
            mutate(&mut bytes, &mut random);
        }
        drive(&bytes);
    }
}

/// Pushes the bytes through everything that reads bytes. It must only come back.
fn drive(bytes: &[u8]) {
    match parse(bytes) {
        Ok(
            Incoming::Request { method, params, .. } | Incoming::Notification { method, params },
        ) => {
            let _ = decode(&method, params.as_deref());
            let _ = decode_agent(&method, params.as_deref());
        }
        Ok(Incoming::Response {
            outcome: Ok(result),
            ..
        }) => {
            let _ = permission_outcome(&result);
        }
        Ok(Incoming::Response { .. } | Incoming::Ignored(_)) => {}
        Err(refusal) => assert!(parse(refusal.to_frame().as_bytes()).is_ok()),
    }
    let mut parser = SseParser::new(200);
    for chunk in bytes.chunks(7) {
        let _ = parser.push(chunk);
    }
    let _ = parser.finish();
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Xorshift) {
    let at = random.below(bytes.len().max(1)).min(bytes.len());
    let end = (at + random.below(8)).min(bytes.len());
    match random.below(5) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => drop(bytes.splice(at..end, PIECES[random.below(PIECES.len())].iter().copied())),
        3 => drop(bytes.splice(at..at, bytes[at..end].to_vec())),
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
    }
}

/// A small generator with a fixed seed: a failure repeats.
struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or(0) % bound
    }
}
