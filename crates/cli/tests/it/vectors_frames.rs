//! What lies beneath the messages: WebSocket frames and lines, also those against the rules.

use serde_json::{Value, json};
use testkit::process::memory_of;
use testkit::raw::{Frame, Heard, opcode};
use testkit::script::{Script, stream};
use testkit::{AcpClient, Home, Program, RawSocket, wait_for};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Child;

use crate::support::{binary, echo, serve, stored};

const MIB: u64 = 1024 * 1024;

/// A request that is always answered.
const LIST: &str = r#"{"jsonrpc":"2.0","id":"still there","method":"session/list","params":{}}"#;

async fn still_serves(socket: &mut RawSocket) {
    assert!(socket.text(LIST).await);
    assert_eq!(socket.message().await["id"], "still there");
}

async fn others_are_served(server: &Program) {
    let mut client = AcpClient::connect_ws(server).await;
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "hi").await.text, "you said hi");
}

#[tokio::test]
async fn text_that_is_not_utf8_closes_with_1007() {
    let server = serve(echo()).await;
    let in_parts = vec![
        Frame::more(opcode::TEXT, *b"{\"a\":\"\xe2\x98"),
        Frame::last(opcode::CONTINUATION, *b"\x28\"}"),
    ];
    for frames in [
        vec![Frame::last(opcode::TEXT, *b"{\"a\":\"\xff\"}")],
        vec![Frame::last(opcode::TEXT, *b"\xed\xa0\x80")],
        vec![Frame::last(opcode::TEXT, *b"\xc0\xaf")],
        vec![Frame::last(opcode::TEXT, *b"cut \xf0\x9f\x98")],
        in_parts,
        vec![Frame::last(opcode::CLOSE, *b"\x03\xe8\xff")],
    ] {
        let mut socket = RawSocket::initialized(&server).await;
        for frame in &frames {
            socket.send(frame).await;
        }
        assert_eq!(socket.close_code().await, Some(1007), "{frames:?}");
    }
    others_are_served(&server).await;
}

#[tokio::test]
async fn a_message_may_be_cut_anywhere() {
    let server = serve(echo()).await;
    let mut socket = RawSocket::initialized(&server).await;
    let message = r#"{"jsonrpc":"2.0","id":"☃😀","method":"session/list","params":{}}"#;
    for cut in 0..=message.len() {
        let (head, tail) = message.as_bytes().split_at(cut);
        socket.send(&Frame::more(opcode::TEXT, head)).await;
        // Control frames may stand between the parts of a message.
        socket.send(&Frame::last(opcode::PING, *b"between")).await;
        socket.send(&Frame::more(opcode::CONTINUATION, *b"")).await;
        socket.send(&Frame::last(opcode::CONTINUATION, tail)).await;
        assert_eq!(socket.message().await["id"], "☃😀", "cut at {cut}");
    }
    for byte in Frame::last(opcode::TEXT, LIST).to_bytes() {
        socket.bytes(&[byte]).await;
    }
    assert_eq!(socket.message().await["id"], "still there");
}

#[tokio::test]
async fn frames_against_the_rules_close_with_1002() {
    let server = serve(echo()).await;
    let flagged = |flags, opcode| Frame {
        flags,
        ..Frame::last(opcode, *b"{}")
    };
    let unmasked = Frame {
        is_masked: false,
        ..Frame::last(opcode::TEXT, LIST)
    };
    let text_in_text = vec![
        Frame::more(opcode::TEXT, *b"{"),
        Frame::last(opcode::TEXT, *b"}"),
    ];
    for frames in [
        vec![Frame::more(opcode::PING, *b"")],
        vec![Frame::more(opcode::PONG, *b"")],
        vec![Frame::more(opcode::CLOSE, *b"")],
        vec![Frame::last(opcode::PING, vec![b'x'; 126])],
        vec![Frame::last(opcode::PONG, vec![b'x'; 1_000])],
        vec![Frame::last(opcode::CLOSE, vec![b'x'; 126])],
        vec![Frame::last(opcode::CLOSE, *b"\x03")],
        vec![Frame::last(opcode::CLOSE, *b"\x03\xed")],
        vec![Frame::last(opcode::CLOSE, *b"\x00\x01")],
        vec![Frame::last(3, *b"")],
        vec![Frame::last(7, *b"")],
        vec![Frame::last(11, *b"")],
        vec![flagged(0xc0, opcode::TEXT)],
        vec![flagged(0xa0, opcode::TEXT)],
        vec![flagged(0x90, opcode::PING)],
        vec![Frame::last(opcode::CONTINUATION, *b"{}")],
        text_in_text,
        vec![unmasked],
    ] {
        let mut socket = RawSocket::initialized(&server).await;
        for frame in &frames {
            socket.send(frame).await;
        }
        assert_eq!(socket.close_code().await, Some(1002), "{frames:?}");
    }
    others_are_served(&server).await;
}

#[tokio::test]
async fn binary_frames_and_unasked_pongs_are_ignored() {
    let server = serve(echo()).await;
    let mut socket = RawSocket::initialized(&server).await;
    socket.send(&Frame::last(opcode::BINARY, LIST)).await;
    socket
        .send(&Frame::last(opcode::BINARY, *b"\xff\x00"))
        .await;
    socket.send(&Frame::last(opcode::PONG, *b"unasked")).await;
    still_serves(&mut socket).await;
}

#[tokio::test]
async fn a_message_over_the_limit_is_refused_before_it_is_kept() {
    let server = serve(echo()).await;
    // What serving a client takes anyway, code that is used for the first time too.
    others_are_served(&server).await;
    let before = server.resident_bytes();
    // The length alone is enough: not one byte of it was sent.
    for bytes in [16 * MIB + 1, u64::MAX >> 1] {
        let mut socket = RawSocket::initialized(&server).await;
        let header = Frame::last(opcode::TEXT, *b"").header(bytes);
        socket.bytes(&[&header[..], &[0; 4]].concat()).await;
        assert_eq!(socket.close_code().await, Some(1009));
    }
    let grown = server.resident_bytes_peak().saturating_sub(before);
    assert!(grown < 4 * MIB, "a length took {grown} bytes");
    // In parts it is found when the sum is too much.
    let mut socket = RawSocket::initialized(&server).await;
    let part = vec![b'x'; 1024 * 1024];
    socket.send(&Frame::more(opcode::TEXT, part.clone())).await;
    for _ in 0..16 {
        let part = Frame::more(opcode::CONTINUATION, part.clone());
        if !socket.send(&part).await {
            break;
        }
    }
    assert_eq!(socket.close_code().await, Some(1009));
    // What has come doubles its room as it grows, and room that was outgrown is given back later.
    let grown = server.resident_bytes_peak().saturating_sub(before);
    assert!(grown < 2 * 16 * MIB, "it took {grown} bytes");
    others_are_served(&server).await;
}

#[tokio::test]
async fn a_message_of_exactly_the_limit_is_served() {
    let server = serve(echo()).await;
    let mut socket = RawSocket::initialized(&server).await;
    let head = r#"{"jsonrpc":"2.0","id":"big","method":"m","params":{"x":""#;
    let tail = r#""}}"#;
    let filling = "x".repeat(16 * 1024 * 1024 - head.len() - tail.len());
    socket.text(&[head, &filling, tail].concat()).await;
    let answer = socket.message().await;
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!("big"), &json!(-32601))
    );
}

#[tokio::test]
async fn a_flood_of_pings_costs_no_memory() {
    let server = serve(echo()).await;
    let mut socket = RawSocket::initialized(&server).await;
    let before = server.resident_bytes();
    let ping = Frame::last(opcode::PING, vec![b'p'; 125]).to_bytes();
    let many = ping.repeat(100);
    // Nobody reads the pongs meanwhile.
    for _ in 0..200 {
        if !socket.bytes(&many).await {
            break;
        }
    }
    // A reset may overtake the close frame: whoever floods has not read anything yet.
    match socket.close_code().await {
        None | Some(1008) => {}
        other => panic!("closed with {other:?}"),
    }
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 8 * MIB, "it took {grown} bytes");
    others_are_served(&server).await;
}

#[tokio::test]
async fn pings_at_a_humane_rate_are_answered_with_what_they_carried() {
    let server = serve(echo()).await;
    let mut socket = RawSocket::initialized(&server).await;
    for number in 0..50 {
        let payload = format!("ping {number}").into_bytes();
        socket
            .send(&Frame::last(opcode::PING, payload.clone()))
            .await;
        let pong = Heard::Frame {
            opcode: opcode::PONG,
            payload,
        };
        assert_eq!(socket.hear().await, pong);
    }
    still_serves(&mut socket).await;
}

#[tokio::test]
async fn compression_is_not_negotiated() {
    let server = serve(echo()).await;
    let offered = "sec-websocket-extensions: permessage-deflate; client_max_window_bits\r\n";
    let mut socket = RawSocket::open_with(&server, offered).await;
    assert_eq!(socket.answer.header("sec-websocket-extensions"), None);
    // What looks compressed is against the rules, then: no bomb can go off.
    let compressed = Frame {
        flags: 0xc0,
        ..Frame::last(opcode::TEXT, *b"\xab\x56\x4a\x54\xb2\x52\x30\xac\x05\x00")
    };
    socket.send(&compressed).await;
    assert_eq!(socket.close_code().await, Some(1002));
}

/// A server, a raw client of it that has prompted, and the session.
async fn in_mid_turn(script: Script) -> (Program, RawSocket, String) {
    let server = serve(script).await;
    let mut socket = RawSocket::initialized(&server).await;
    let new = json!({"cwd": server.home().workspace(), "mcpServers": []});
    let made = socket.call("session/new", new).await;
    let session = made["result"]["sessionId"].as_str().unwrap().to_owned();
    let prompt = json!({"jsonrpc": "2.0", "id": 9, "method": "session/prompt",
        "params": {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}});
    socket.text(&prompt.to_string()).await;
    while !socket.message().await.to_string().contains("xyz") {}
    (server, socket, session)
}

#[tokio::test]
async fn a_close_frame_in_mid_turn_is_echoed_and_the_turn_goes_on() {
    let (server, mut socket, session) =
        in_mid_turn(Script::new().call([stream("xyz", 30, 10)])).await;
    socket
        .send(&Frame::last(opcode::CLOSE, *b"\x03\xe8bye"))
        .await;
    assert_eq!(socket.close_code().await, Some(1000));
    assert_eq!(socket.hear().await, Heard::End, "and the server lets go");
    wait_for("the turn goes on to its end", || {
        stored(server.home(), &session)
            .last()
            .is_some_and(|kind| kind == "result")
    })
    .await;
    assert_eq!(
        server.home().events(&session).last().unwrap()["stopReason"],
        "end_turn"
    );
}

#[tokio::test]
async fn a_reset_in_mid_frame_frees_everything() {
    let server = serve(echo()).await;
    others_are_served(&server).await;
    wait_for("everybody has left", || !server.stderr().is_empty()).await;
    let before = server.open_files();
    for cut in [1, 2, 3, 6, 20] {
        let mut socket = RawSocket::initialized(&server).await;
        let frame = Frame::last(opcode::TEXT, LIST).to_bytes();
        socket.bytes(&frame[..cut]).await;
        socket.reset();
    }
    wait_for("all sockets are free again", || {
        server.open_files() <= before
    })
    .await;
    assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
    others_are_served(&server).await;
}

/// `fastness acp` with its three streams in the test's hands.
struct Agent {
    process: Child,
    stdin: Option<tokio::process::ChildStdin>,
    stdout: BufReader<tokio::process::ChildStdout>,
}

impl Agent {
    async fn start(home: &Home) -> Self {
        let mut process = home.command("acp").spawn().unwrap();
        let stdin = process.stdin.take();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let mut agent = Self {
            process,
            stdin,
            stdout,
        };
        let hello =
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#;
        agent.write(format!("{hello}\n").as_bytes()).await;
        assert_eq!(agent.message().await["id"], 0);
        agent
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).await.unwrap();
    }

    async fn message(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }

    async fn still_serves(&mut self) {
        self.write(format!("{LIST}\n").as_bytes()).await;
        assert_eq!(self.message().await["id"], "still there");
    }
}

#[tokio::test]
async fn a_line_of_100_megabytes_is_refused_in_bounded_memory() {
    let home = Home::new(binary(), echo());
    let mut agent = Agent::start(&home).await;
    let before = memory_of(agent.process.id().unwrap(), "VmRSS:");
    let part = vec![b'x'; 1_000_000];
    for _ in 0..100 {
        agent.write(&part).await;
    }
    agent.write(b"\n").await;
    let refused = agent.message().await;
    assert_eq!(
        (&refused["error"]["code"], &refused["id"]),
        (&json!(-32600), &Value::Null)
    );
    agent.still_serves().await;
    // A line of 64 MiB is fine, and a buffer that grows is at times held twice.
    let peak = memory_of(agent.process.id().unwrap(), "VmHWM:") - before;
    assert!(peak < 2 * 64 * MIB + 16 * MIB, "it took {peak} bytes");
}

#[tokio::test]
async fn lines_may_end_as_on_windows() {
    let home = Home::new(binary(), echo());
    let mut agent = Agent::start(&home).await;
    agent.write(format!("{LIST}\r\n").as_bytes()).await;
    assert_eq!(agent.message().await["id"], "still there");
    // Spaces around a message are JSON's own; a second carriage return is one of them.
    agent.write(format!("  {LIST} \r\r\n").as_bytes()).await;
    assert_eq!(agent.message().await["id"], "still there");
    // An empty line is a message that is not JSON, however it ends.
    agent.write(b"\r\n\n").await;
    for _ in 0..2 {
        assert_eq!(agent.message().await["error"]["code"], -32700);
    }
    agent.still_serves().await;
}

#[tokio::test]
async fn a_line_that_is_not_utf8_is_answered_and_the_next_one_served() {
    let home = Home::new(binary(), echo());
    let mut agent = Agent::start(&home).await;
    for line in [
        &b"\xff\n"[..],
        b"{\"a\":\"\xc3\"}\n",
        b"\xed\xa0\x80\n",
        b"\x00\n",
        b"\xef\xbb\xbf{}\n",
    ] {
        agent.write(line).await;
        let refused = agent.message().await;
        assert_eq!(
            (&refused["error"]["code"], &refused["id"]),
            (&json!(-32700), &Value::Null)
        );
    }
    agent.still_serves().await;
}

#[tokio::test]
async fn the_end_of_input_in_mid_message_is_an_orderly_end() {
    let home = Home::new(binary(), echo());
    let mut agent = Agent::start(&home).await;
    let new = json!({"jsonrpc": "2.0", "id": 1, "method": "session/new",
        "params": {"cwd": home.workspace(), "mcpServers": []}});
    agent
        .write(format!("{new}\n{}", &LIST[..20]).as_bytes())
        .await;
    drop(agent.stdin.take());
    let mut answers = [agent.message().await, agent.message().await];
    answers.sort_by_key(|answer| answer["id"].is_null());
    let session = answers[0]["result"]["sessionId"].as_str().unwrap();
    assert_eq!(
        answers[1]["error"]["code"], -32700,
        "what was cut is answered too"
    );
    assert_eq!(agent.process.wait().await.unwrap().code(), Some(0));
    assert_eq!(stored(&home, session)[0], "session.created");
}

#[tokio::test]
async fn a_closed_output_is_an_orderly_end() {
    let home = Home::new(binary(), Script::new().call([stream("x", 20, 10)]));
    let mut agent = Agent::start(&home).await;
    let new = json!({"jsonrpc": "2.0", "id": 1, "method": "session/new",
        "params": {"cwd": home.workspace(), "mcpServers": []}});
    agent.write(format!("{new}\n").as_bytes()).await;
    let made = agent.message().await;
    let session = made["result"]["sessionId"].as_str().unwrap().to_owned();
    let prompt = json!({"jsonrpc": "2.0", "id": 2, "method": "session/prompt",
        "params": {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}});
    agent.write(format!("{prompt}\n").as_bytes()).await;
    // Closed while the answer streams; closed any earlier, the prompt may not have been read yet.
    while agent.message().await["params"]["update"]["sessionUpdate"] != "agent_message_chunk" {}
    let Agent {
        mut process,
        stdin,
        stdout,
    } = agent;
    drop(stdout);
    let status = process.wait().await.unwrap();
    assert_eq!(status.code(), Some(0), "{status}");
    drop(stdin);
    // The log is whole, and says how the turn ended.
    let kinds = stored(&home, &session);
    assert!(
        kinds
            .last()
            .is_some_and(|kind| kind == "result" || kind == "turn.interrupted"),
        "{kinds:?}"
    );
}
