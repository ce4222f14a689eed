//! `fastness acp --server`: an editor on stdio, a durable session behind it, and what happens between.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::text_of;
use testkit::ferry::Ferry;
use testkit::process::memory_of;
use testkit::script::{Script, pause, say, stream, tool};
use testkit::{AcpClient, Choice, Home, Program, Reply, wait_for};
use testkit::{bridged, rounds};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;

use crate::support::{binary, echo};

const MIB: u64 = 1024 * 1024;

/// A home in which servers come back soon.
fn quick(script: impl Into<Value>) -> Home {
    Home::new(binary(), script).env("FASTNESS_LIMITS_RECONNECT_FIRST_MS", 50)
}

/// An editor that was started with the bridge to `server`, wherever that is.
async fn editor(server: &Program) -> AcpClient {
    editor_with(server, json!({})).await
}

async fn editor_with(server: &Program, capabilities: Value) -> AcpClient {
    let mut editor = AcpClient::spawn(server.home(), "acp", &["--server", "local"]);
    editor.initialize_with(capabilities).await;
    editor
}

/// An editor whose bridge goes by a road that can be cut.
async fn by_ferry(server: &Program, ferry: &Ferry, capabilities: Value) -> AcpClient {
    let url = ferry.url();
    let mut editor = AcpClient::spawn(server.home(), "acp", &["--server", &url]);
    editor.initialize_with(capabilities).await;
    editor
}

/// A server, and a road to it that can be cut.
async fn serve_for_ferry(script: impl Into<Value>) -> (Program, Ferry) {
    let home = quick(script);
    let socket = home.data_dir().with_file_name("run").join("socket");
    let home = home.env("FASTNESS_UNIX", socket.display());
    let server = Program::serve_in(home).await;
    (server, Ferry::to(socket).await)
}

/// The bridge as a bare process.
fn bare(home: &Home, arguments: &[&str]) -> Child {
    home.command("acp").args(arguments).spawn().unwrap()
}

#[tokio::test]
async fn an_editor_works_with_a_server_as_with_an_agent_of_its_own() {
    let script = Script::new()
        .call([tool("write", json!({"path": "a.txt", "content": "hello"}))])
        .call([say("it is written")]);
    let server = Program::serve_in(quick(script)).await;
    let mut editor = editor(&server).await;
    editor.on_permission(Choice::Allow);
    let session = editor.new_session().await;
    assert_eq!(editor.prompt(&session, "write").await.text, "it is written");
    assert_eq!(server.home().read("a.txt").as_deref(), Some("hello"));
    editor.leave().await;
    // The session lives on in the server, for this editor or another one.
    let mut other = AcpClient::connect_ws(&server).await;
    let replayed = other.load_session(&session).await.unwrap();
    assert!(text_of(&replayed, "agent_message_chunk").ends_with("it is written"));
}

#[tokio::test]
async fn b_21_a_turn_goes_on_over_cut_connections_without_a_byte_lost_or_doubled() {
    let script = Script::new().call([stream("0123456789", 200, 10), say("end")]);
    let (server, ferry) = serve_for_ferry(script).await;
    let mut editor = by_ferry(&server, &ferry, json!({})).await;
    let session = editor.new_session().await;
    let request = editor.start_prompt(&session, "count").await;
    let mut seen = Vec::new();
    for cut in 1..=5 {
        seen.extend(
            editor
                .updates_until(|update| update.text().is_some_and(|text| text.contains('0')))
                .await,
        );
        ferry.cut();
        wait_for("the bridge calls again", || ferry.taken() > cut).await;
    }
    let answer = editor.wait(&request).await.unwrap();
    assert_eq!(answer["stopReason"], "end_turn");
    seen.extend(editor.take_updates(&session));
    let said = seen.iter().filter(|update| !update.is_greeting());
    let text = text_of(said, "agent_message_chunk");
    assert_eq!(text, format!("{}end", "0123456789".repeat(200)));
    assert_eq!(text_of(&seen, "user_message_chunk"), "");
}

#[tokio::test]
async fn b_21_a_server_that_is_killed_comes_back_elsewhere_and_the_editor_goes_on() {
    let plan = rounds::Plan {
        binary: binary().into(),
        seed: 7,
        rounds: 4,
    };
    let report = bridged::run(&plan, &mut |_| {}).await.unwrap();
    assert_eq!(report.rounds, 4);
    assert!(report.bytes > 0, "{report:?}");
}

#[tokio::test]
async fn b_21_a_server_that_drains_lets_the_turn_end_and_comes_back() {
    let server = Program::serve_in(quick(echo())).await;
    let mut editor = editor(&server).await;
    let session = editor.new_session().await;
    assert_eq!(editor.prompt(&session, "one").await.text, "you said one");
    let server = server.restart().await;
    assert_eq!(editor.prompt(&session, "two").await.text, "you said two");
    assert_eq!(
        editor.call("session/list", json!({})).await.unwrap()["sessions"][0]["sessionId"],
        session
    );
    editor.leave().await;
    drop(server);
}

#[tokio::test]
async fn b_21_a_bridge_that_slept_goes_on_where_it_was() {
    let script = Script::new().call([stream("tick ", 60, 20), say("end")]);
    let home = quick(script)
        .env("FASTNESS_LIMITS_PING_MS", 100)
        .env("FASTNESS_LIMITS_PONG_MS", 100)
        .env("FASTNESS_LIMITS_STALL_MS", 300);
    let server = Program::serve_in(home).await;
    let mut bridge = bare(server.home(), &["--server", "local"]);
    let pid = bridge.id().unwrap().to_string();
    let (stdout, stdin) = (bridge.stdout.take().unwrap(), bridge.stdin.take().unwrap());
    let mut editor = AcpClient::over(stdout, stdin).in_directory(server.home().workspace());
    editor.initialize().await;
    let session = editor.new_session().await;
    let request = editor.start_prompt(&session, "go").await;
    editor
        .updates_until(|update| update.text() == Some("tick "))
        .await;
    signal(&pid, "STOP").await;
    wait_for("the server drops the sleeper", || {
        server.stderr().contains("disconnected")
    })
    .await;
    signal(&pid, "CONT").await;
    assert!(editor.wait(&request).await.is_ok());
    let rest = text_of(&editor.take_updates(&session), "agent_message_chunk");
    assert_eq!(rest, format!("{}end", "tick ".repeat(59)));
}

async fn signal(pid: &str, name: &str) {
    let status = tokio::process::Command::new(testkit::system::program("kill"))
        .args(["-s", name, pid])
        .status();
    assert!(status.await.unwrap().success());
}

#[tokio::test]
async fn b_16_what_is_not_json_is_answered_and_the_bridge_stays() {
    let server = Program::serve_in(quick(echo())).await;
    let mut editor = editor(&server).await;
    for garbage in ["not json", "{\"jsonrpc\":", "[1, 2", "{\"a\": \u{1}}"] {
        editor.raw(garbage).await;
        let answer = editor.next_stray().await;
        assert_eq!(answer["id"], Value::Null);
        assert_eq!(answer["error"]["code"], -32_700, "{garbage}");
    }
    let session = editor.new_session().await;
    assert_eq!(editor.prompt(&session, "hi").await.text, "you said hi");
}

#[tokio::test]
async fn a_message_beyond_what_the_server_takes_is_refused_by_the_bridge() {
    let home = quick(echo()).env("FASTNESS_LIMITS_LINE_BYTES_MAX", 20 * MIB);
    let server = Program::serve_in(home).await;
    let mut editor = editor(&server).await;
    let session = editor.new_session().await;
    // More than the server's 16 MiB, less than a line may have; then more than that.
    let large = "x".repeat(17 * 1024 * 1024);
    let refused = editor.try_prompt(&session, &large).await.unwrap_err();
    assert_eq!(refused.code, -32_012);
    assert_eq!(refused.data["limit"], "message_bytes_max");
    editor.raw(&"y".repeat(21 * 1024 * 1024)).await;
    assert_eq!(editor.next_stray().await["error"]["code"], -32_600);
    // One that just fits goes through.
    let fits = "z".repeat(15 * 1024 * 1024);
    let answer = editor.prompt(&session, &fits).await;
    assert_eq!(answer.text.len(), fits.len() + "you said ".len());
}

#[tokio::test]
async fn b_15_an_editor_that_stops_reading_costs_a_bounded_amount_and_catches_up() {
    let chunk = "x".repeat(64 * 1024);
    let script = Script::new().call([stream(&chunk, 800, 0), say("end")]);
    let server = Program::serve_in(quick(script)).await;
    let mut bridge = bare(server.home(), &["--server", "local"]);
    let pid = bridge.id().unwrap();
    let mut stdin = bridge.stdin.take().unwrap();
    let mut stdout = bridge.stdout.take().unwrap();
    let cwd = server.home().workspace();
    let mut say = String::new();
    for (id, method, params) in [
        (1, "initialize", json!({"protocolVersion": 1})),
        (2, "session/new", json!({"cwd": cwd, "mcpServers": []})),
    ] {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        say.push_str(&format!("{message}\n"));
    }
    stdin.write_all(say.as_bytes()).await.unwrap();
    let mut read = String::new();
    let session = loop {
        let mut bytes = vec![0; 64 * 1024];
        let count = stdout.read(&mut bytes).await.unwrap();
        read.push_str(&String::from_utf8_lossy(&bytes[..count]));
        let at = read.find("\"sessionId\":\"").map(|at| at + 13);
        if let Some(session) = at.and_then(|at| read.get(at..at + 32)) {
            break session.to_owned();
        }
    };
    let before = memory_of(pid, "VmRSS:");
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
    let prompt = json!({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": prompt});
    stdin
        .write_all(format!("{prompt}\n").as_bytes())
        .await
        .unwrap();
    // 50 MiB are said while nobody reads; the turn ends all the same.
    let journal = |what: &str| {
        let events = server.home().events(&session);
        events.iter().any(|event| event["type"] == what)
    };
    wait_for("the turn ends without a reader", || journal("result")).await;
    let grown = memory_of(pid, "VmRSS:").saturating_sub(before);
    assert!(grown < 16 * MIB, "the bridge took {grown} bytes");
    let mut bytes = vec![0; 256 * 1024];
    let mut tail = Vec::new();
    let mut count_x = 0;
    loop {
        let count = stdout.read(&mut bytes).await.unwrap();
        assert!(count > 0, "the bridge ended");
        count_x += bytes[..count].iter().filter(|byte| **byte == b'x').count();
        tail.extend_from_slice(&bytes[..count]);
        let keep = tail.len().saturating_sub(4 * 1024);
        tail.drain(..keep);
        if String::from_utf8_lossy(&tail).contains("\"stopReason\"") {
            break;
        }
    }
    // The letter stands in a few other words of the protocol as well, such as "text".
    let text = 800 * 64 * 1024;
    assert!((text..text + 20_000).contains(&count_x), "{count_x}");
}

#[tokio::test]
async fn b_15_a_server_that_stops_reading_holds_up_the_editor_and_no_memory() {
    let server = Program::serve_in(quick(echo())).await;
    let mut bridge = bare(server.home(), &["--server", "local"]);
    let pid = bridge.id().unwrap();
    let (stdout, mut stdin) = (bridge.stdout.take().unwrap(), bridge.stdin.take().unwrap());
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": 1}});
    stdin
        .write_all(format!("{hello}\n").as_bytes())
        .await
        .unwrap();
    let mut reader = tokio::io::BufReader::new(stdout);
    let mut line = String::new();
    tokio::io::AsyncBufReadExt::read_line(&mut reader, &mut line)
        .await
        .unwrap();
    let before = memory_of(pid, "VmRSS:");
    server.suspend();
    // 64 MiB of notifications that nobody takes: the pipe fills, and then the editor waits.
    let notice =
        json!({"jsonrpc": "2.0", "method": "_x/y", "params": {"pad": "p".repeat(1 << 20)}});
    let notice = format!("{notice}\n");
    let writing = async {
        for _ in 0..64 {
            stdin.write_all(notice.as_bytes()).await.unwrap();
        }
    };
    let held = tokio::time::timeout(Duration::from_secs(2), writing).await;
    assert!(held.is_err(), "somebody took 64 MiB");
    let grown = memory_of(pid, "VmRSS:").saturating_sub(before);
    assert!(grown < 32 * MIB, "the bridge took {grown} bytes");
    server.wake();
    // What was cut off in mid-line is garbage; after it the bridge serves again.
    stdin.write_all(b"\n").await.unwrap();
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "session/list", "params": {}});
    stdin
        .write_all(format!("{list}\n").as_bytes())
        .await
        .unwrap();
    while !line.contains("\"sessions\"") {
        line.clear();
        tokio::io::AsyncBufReadExt::read_line(&mut reader, &mut line)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn the_editors_own_files_are_used_also_after_a_cut() {
    let script = Script::new()
        .call([tool("read", json!({"path": "notes.txt"})), pause(10)])
        .call([
            say("first ${result}"),
            pause(600),
            tool("read", json!({"path": "notes.txt"})),
        ])
        .call([say(" then ${result}")]);
    let (server, ferry) = serve_for_ferry(script).await;
    server.home().write("notes.txt", "the server's own text");
    let files = json!({"fs": {"readTextFile": true}});
    let mut editor = by_ferry(&server, &ferry, files).await;
    editor.on_request(
        "fs/read_text_file",
        Reply::Result(json!({"content": "not saved yet"})),
    );
    let session = editor.new_session().await;
    let request = editor.start_prompt(&session, "read").await;
    editor
        .updates_until(|update| update.text().is_some_and(|text| text.contains("first")))
        .await;
    ferry.cut();
    editor.wait(&request).await.unwrap();
    let text = text_of(&editor.take_updates(&session), "agent_message_chunk");
    assert!(text.contains("not saved yet"), "{text}");
    assert_eq!(editor.requests().len(), 2);
}

#[tokio::test]
async fn a_question_that_was_open_when_the_connection_broke_is_not_asked_twice() {
    let script = Script::new()
        .call([tool("write", json!({"path": "a.txt", "content": "hello"}))])
        .call([say("done")]);
    let (server, ferry) = serve_for_ferry(script).await;
    let mut editor = by_ferry(&server, &ferry, json!({})).await;
    editor.on_permission(Choice::Hold);
    let session = editor.new_session().await;
    let request = editor.start_prompt(&session, "write").await;
    let question = editor.next_request().await;
    assert_eq!(question.method, "session/request_permission");
    ferry.cut();
    wait_for("the bridge calls again", || ferry.taken() > 1).await;
    let chosen = json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}});
    editor.answer(&question, Ok(chosen)).await;
    editor.wait(&request).await.unwrap();
    assert_eq!(server.home().read("a.txt").as_deref(), Some("hello"));
    assert_eq!(editor.requests().len(), 1);
}

#[tokio::test]
async fn b_01_a_server_that_does_not_come_back_ends_the_bridge_with_a_clear_error() {
    let home = quick(Script::new().call([stream("tick ", 6_000, 10)]))
        .env("FASTNESS_LIMITS_RECONNECT_TRIES", 3);
    let mut server = Program::serve_in(home).await;
    let mut bridge = bare(server.home(), &["--server", "local"]);
    let (stdout, stdin) = (bridge.stdout.take().unwrap(), bridge.stdin.take().unwrap());
    let mut editor = AcpClient::over(stdout, stdin).in_directory(server.home().workspace());
    editor.initialize().await;
    let session = editor.new_session().await;
    let request = editor.start_prompt(&session, "go").await;
    editor
        .updates_until(|update| update.text() == Some("tick "))
        .await;
    server.kill9().await;
    let error = editor.wait(&request).await.unwrap_err();
    assert!(
        error.message.contains("did not come back after 3 tries"),
        "{error}"
    );
    assert_eq!(error.data["kind"], "connection_lost");
    let output = bridge.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("did not come back after 3 tries"), "{said}");
}

#[tokio::test]
async fn a_bridge_to_nowhere_says_so_at_once() {
    let home = quick(echo());
    let mut editor = AcpClient::spawn(&home, "acp", &["--server", "local"]);
    let params = json!({"protocolVersion": 1});
    let error = editor.call("initialize", params).await.unwrap_err();
    assert!(error.message.contains("none runs"), "{error}");
    assert_eq!(editor.closed().await, None);
    editor.leave().await;
}

#[tokio::test]
async fn the_bridge_ends_with_its_input_and_leaves_nothing_behind() {
    let server = Program::serve_in(quick(Script::new().call([stream("tick ", 6_000, 10)]))).await;
    let mut bridge = bare(server.home(), &["--server", "local"]);
    let pid = bridge.id().unwrap();
    let (stdout, stdin) = (bridge.stdout.take().unwrap(), bridge.stdin.take().unwrap());
    let mut editor = AcpClient::over(stdout, stdin).in_directory(server.home().workspace());
    editor.initialize().await;
    let session = editor.new_session().await;
    editor.start_prompt(&session, "go").await;
    editor
        .updates_until(|update| update.text() == Some("tick "))
        .await;
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    assert_eq!(children.unwrap_or_default(), "");
    drop(editor);
    let status = tokio::time::timeout(Duration::from_secs(10), bridge.wait()).await;
    assert_eq!(status.unwrap().unwrap().code(), Some(0));
    // The turn is the server's, and goes on.
    let mut other = AcpClient::connect_ws(&server).await;
    let resumed = other.resume_session(&session, json!({})).await.unwrap();
    assert_eq!(resumed["_meta"]["fastness"]["turn"]["state"], "running");
}

#[tokio::test]
async fn two_editors_share_the_server_that_one_of_them_started() {
    let home = quick(echo());
    let mut first = AcpClient::spawn(&home, "acp", &["--spawn"]);
    let mut second = AcpClient::spawn(&home, "acp", &["--spawn"]);
    tokio::join!(first.initialize(), second.initialize());
    let announced = std::fs::read_to_string(home.data_dir().join("server.json")).unwrap();
    let announced: Value = serde_json::from_str(&announced).unwrap();
    let server = announced["pid"].as_u64().unwrap().to_string();
    let session = first.new_session().await;
    assert_eq!(first.prompt(&session, "hi").await.text, "you said hi");
    second.load_session(&session).await.unwrap();
    first.leave().await;
    assert_eq!(second.prompt(&session, "ho").await.text, "you said ho");
    second.leave().await;
    signal(&server, "TERM").await;
    let proc = format!("/proc/{server}");
    wait_for("the server ends", || !std::path::Path::new(&proc).exists()).await;
}

#[tokio::test]
async fn a_bridge_reaches_a_server_by_its_unix_socket_without_a_token() {
    let home = quick(echo());
    let socket = home.data_dir().with_file_name("run").join("socket");
    let home = home.arg("--unix").arg(socket.display().to_string());
    let server = Program::serve_in(home).await;
    let other = quick(echo());
    let url = format!("unix:{}", socket.display());
    let mut editor = AcpClient::spawn(&other, "acp", &["--server", &url]);
    let mut editor = {
        editor.initialize().await;
        editor.in_directory(server.home().workspace())
    };
    let session = editor.new_session().await;
    assert_eq!(editor.prompt(&session, "hi").await.text, "you said hi");
    let server = server.restart().await;
    assert_eq!(editor.prompt(&session, "ho").await.text, "you said ho");
    drop(server);
}
