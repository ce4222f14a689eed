//! Other roads to a server than a plain WebSocket: Streamable HTTP, TLS, and what stands in between.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::json;
use testkit::client::text_of;
use testkit::ferry::Ferry;
use testkit::script::{Script, say, stream, tool};
use testkit::{AcpClient, Choice, Home, Program, wait_for};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, UnixStream};
use tokio::process::ChildStdout;

use crate::project::run;
use crate::support::{binary, echo};

/// A server that comes back on the same socket, and a road to it for single requests.
async fn serve_for_requests(script: impl Into<serde_json::Value>) -> (Program, Ferry, String) {
    let home = Home::new(binary(), script).env("FASTNESS_LIMITS_RECONNECT_FIRST_MS", 50);
    let socket = home.data_dir().with_file_name("run").join("socket");
    let home = home.env("FASTNESS_UNIX", socket.display());
    let server = Program::serve_in(home).await;
    let ferry = Ferry::to(socket).await;
    let url = ferry.url().replacen("ws", "http+sse", 1);
    (server, ferry, url)
}

async fn editor(server: &Program, arguments: &[&str]) -> AcpClient {
    let mut editor = AcpClient::spawn(server.home(), "acp", arguments);
    editor.initialize_with(json!({})).await;
    editor
}

#[tokio::test]
async fn an_editor_works_over_streamable_http() {
    let script = Script::new()
        .call([tool("write", json!({"path": "a.txt", "content": "hello"}))])
        .call([say("it is written")]);
    let (server, _ferry, url) = serve_for_requests(script).await;
    let mut editor = editor(&server, &["--server", &url]).await;
    editor.on_permission(Choice::Allow);
    let session = editor.new_session().await;
    assert_eq!(editor.prompt(&session, "write").await.text, "it is written");
    assert_eq!(server.home().read("a.txt").as_deref(), Some("hello"));
    // A second session has a stream of its own, and an old one is replayed over its own.
    let second = editor.new_session().await;
    assert_eq!(editor.prompt(&second, "write").await.text, "it is written");
    editor
        .call("session/close", json!({"sessionId": second}))
        .await
        .unwrap();
    let unknown = "0".repeat(32);
    let missing = editor.load_session(&unknown).await.unwrap_err();
    assert_eq!(missing.code, -32_002);
    let replayed = editor.load_session(&second).await.unwrap();
    assert!(text_of(&replayed, "agent_message_chunk").ends_with("it is written"));
    editor.leave().await;
}

#[tokio::test]
async fn b_21_over_http_a_turn_goes_on_over_cut_connections() {
    let script = Script::new().call([stream("0123456789", 200, 10), say("end")]);
    let (server, ferry, url) = serve_for_requests(script).await;
    let mut editor = editor(&server, &["--server", &url]).await;
    let session = editor.new_session().await;
    let request = editor.start_prompt(&session, "count").await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        let has_digits = |text: &str| text.contains('0');
        let more = editor.updates_until(|update| update.text().is_some_and(has_digits));
        seen.extend(more.await);
        let before = ferry.taken();
        ferry.cut();
        wait_for("the bridge calls again", || ferry.taken() > before).await;
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
async fn b_21_over_http_a_server_that_was_killed_is_resumed() {
    let (mut server, _ferry, url) = serve_for_requests(echo()).await;
    let mut editor = editor(&server, &["--server", &url]).await;
    let session = editor.new_session().await;
    assert_eq!(editor.prompt(&session, "one").await.text, "you said one");
    for word in ["two", "three"] {
        server.kill9().await;
        server = server.restart().await;
        let told = editor.prompt(&session, word).await;
        assert_eq!(told.text, format!("you said {word}"));
    }
}

/// A server with a certificate of its own in `cert.pem`.
async fn serve_tls() -> Program {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let home = Home::new(binary(), echo());
    home.write("cert.pem", &made.cert.pem());
    home.write("key.pem", &made.signing_key.serialize_pem());
    let home = home.env("FASTNESS_TLS_CERT", "cert.pem");
    Program::serve_in(home.env("FASTNESS_TLS_KEY", "key.pem")).await
}

#[tokio::test]
async fn tls_is_spoken_by_every_road_and_a_strange_certificate_is_refused_with_a_hint() {
    let server = serve_tls().await;
    let host = server.url().strip_prefix("https://").unwrap().to_owned();
    let named = host.replace("127.0.0.1", "localhost");
    let ask = async |url: &str, more: &[&str]| {
        let arguments = [&["hi", "--server", url][..], more].concat();
        run(server.home(), "ask", &arguments).await
    };
    for url in [
        format!("wss://{host}"),
        format!("https://{named}/acp"),
        format!("https+sse://{host}"),
        "local".to_owned(),
    ] {
        let (told, code) = ask(&url, &["--ca-file", "cert.pem"]).await;
        assert_eq!((told.trim(), code), ("you said hi", Some(0)), "{url}");
    }
    for url in [format!("wss://{host}"), format!("https+sse://{host}")] {
        let (told, code) = ask(&url, &[]).await;
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains("is not trusted"), "{told}");
        assert!(told.contains("--ca-file"), "{told}");
    }
    let (told, code) = ask("local", &["--ca-file", "key.pem"]).await;
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("holds no certificate"), "{told}");
    let (told, _) = run(server.home(), "doctor", &[]).await;
    assert!(told.contains("running at https://"), "{told}");
}

/// Something that lets requests through, but answers 400 to whoever wants to upgrade.
async fn proxy_without_upgrades(server: PathBuf) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let server = server.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                    if client.read_buf(&mut head).await.unwrap() == 0 {
                        return;
                    }
                }
                if head
                    .to_ascii_lowercase()
                    .windows(8)
                    .any(|word| word == b"upgrade:")
                {
                    let no = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                    client.write_all(no).await.unwrap();
                    return;
                }
                let mut server = UnixStream::connect(server).await.unwrap();
                server.write_all(&head).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    address
}

#[tokio::test]
async fn where_no_websocket_gets_through_single_requests_do() {
    let (server, _ferry, url) = serve_for_requests(echo()).await;
    let socket = server
        .home()
        .data_dir()
        .with_file_name("run")
        .join("socket");
    let proxy = proxy_without_upgrades(socket).await;
    let ask = async |url: &str| run(server.home(), "ask", &["hi", "--server", url]).await;
    let (told, code) = ask(&format!("http://{proxy}")).await;
    assert_eq!((told.trim(), code), ("you said hi", Some(0)));
    let (told, code) = ask(&format!("ws://{proxy}")).await;
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("HTTP status 400"), "{told}");
    let (told, code) = ask(&url).await;
    assert_eq!((told.trim(), code), ("you said hi", Some(0)));

    let stranger = Home::new(binary(), echo()).env("FASTNESS_TOKEN", "x".repeat(43));
    let url = server.url().replacen("http", "http+sse", 1);
    let (told, code) = run(&stranger, "ask", &["hi", "--server", &url]).await;
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("did not accept the token"), "{told}");
}

/// The number of the server that runs on this home's data, if one does.
fn announced(home: &Home) -> Option<u64> {
    let file = std::fs::read_to_string(home.data_dir().join("server.json")).ok()?;
    let file: serde_json::Value = serde_json::from_str(&file).ok()?;
    file["pid"].as_u64()
}

#[tokio::test]
async fn a_server_that_an_editor_started_ends_when_nobody_has_used_it_for_long() {
    // The turn takes several times as long as the server would stay without it.
    let script = Script::new().call([stream("tick ", 30, 40), say("end")]);
    let home = Home::new(binary(), script).env("FASTNESS_LIMITS_SPAWNED_IDLE_MS", 300);
    let mut editor = AcpClient::spawn(&home, "acp", &["--spawn"]);
    editor.initialize().await;
    let first = announced(&home).unwrap();
    let session = editor.new_session().await;
    editor.start_prompt(&session, "go").await;
    let seen = |update: &testkit::Update| update.text().is_some_and(|text| text.contains("tick"));
    editor.updates_until(seen).await;
    editor.leave().await;
    let process = format!("/proc/{first}");
    let is_gone = || !std::path::Path::new(&process).exists();
    wait_for("the server ends", is_gone).await;
    assert_eq!(announced(&home), None);
    // It let the turn end, though nobody was there any more.
    let kinds = crate::support::stored(&home, &session);
    assert_eq!(
        kinds.last().map(String::as_str),
        Some("result"),
        "{kinds:?}"
    );
    let said = home.events(&session);
    let said = said
        .iter()
        .find(|event| event["type"] == "assistant.message");
    assert!(said.unwrap()["text"].as_str().unwrap().ends_with("end"));
    // Whoever comes next has a server again.
    let mut next = AcpClient::spawn(&home, "acp", &["--spawn"]);
    next.initialize().await;
    next.load_session(&session).await.unwrap();
    assert_ne!(announced(&home), Some(first));
    next.leave().await;
    let second = announced(&home).map(|pid| format!("/proc/{pid}"));
    wait_for("the second ends too", || {
        second
            .as_ref()
            .is_none_or(|process| !std::path::Path::new(process).exists())
    })
    .await;
}

/// A server's machine that sleeps for longer than the client takes silence for life.
async fn sleeping(scheme: &str) {
    let script = Script::new().call([stream("tick ", 40, 20), say("end")]);
    let home = Home::new(binary(), script)
        .env("FASTNESS_LIMITS_RECONNECT_FIRST_MS", 20)
        .env("FASTNESS_LIMITS_RECONNECT_MOST_MS", 200)
        .env("FASTNESS_LIMITS_RECONNECT_TRIES", 1_000)
        .env("FASTNESS_LIMITS_CLIENT_CONNECT_MS", 300)
        .env("FASTNESS_LIMITS_CLIENT_REQUEST_MS", 300)
        .env("FASTNESS_LIMITS_PING_MS", 50)
        .env("FASTNESS_LIMITS_CLIENT_SILENCE_MS", 300);
    let socket = home.data_dir().with_file_name("run").join("socket");
    let server = Program::serve_in(home.env("FASTNESS_UNIX", socket.display())).await;
    let ferry = Ferry::to(socket).await;
    let url = ferry.url().replacen("ws", scheme, 1);
    let mut editor = editor(&server, &["--server", &url]).await;
    let session = editor.new_session().await;
    let request = editor.start_prompt(&session, "go").await;
    let is_text =
        |update: &testkit::Update| update.text().is_some_and(|text| text.contains("tick"));
    let mut seen = editor.updates_until(is_text).await;
    let pid = server
        .pid()
        .and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed()));
    let signal = |signal| rustix::process::kill_process(pid.unwrap(), signal).unwrap();
    let before = ferry.taken();
    signal(rustix::process::Signal::STOP);
    // The bridge has noticed, and has called in vain at least once.
    wait_for("the bridge calls again and again", || {
        ferry.taken() > before + 2
    })
    .await;
    signal(rustix::process::Signal::CONT);
    let answer = editor.wait(&request).await.unwrap();
    assert_eq!(answer["stopReason"], "end_turn");
    seen.extend(editor.take_updates(&session));
    let said = seen.iter().filter(|update| !update.is_greeting());
    let text = text_of(said, "agent_message_chunk");
    assert_eq!(text, format!("{}end", "tick ".repeat(40)));
}

#[tokio::test]
async fn b_21_a_server_that_slept_is_found_again_and_nothing_is_lost_or_doubled() {
    sleeping("ws").await;
}

#[tokio::test]
async fn a_session_is_followed_from_anywhere_and_over_a_restart() {
    let (mut server, _ferry, road) = serve_for_requests(echo()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "one").await.text, "you said one");
    // Somebody elsewhere, with nothing of the server's but its address and a token.
    let elsewhere = Home::new(binary(), echo())
        .env("FASTNESS_TOKEN", server.token())
        .env("FASTNESS_LIMITS_RECONNECT_FIRST_MS", 50);
    let tail = ["tail", &session[..8], "--server", &road];
    let (told, code) = run(&elsewhere, "sessions", &tail).await;
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("you:\none\n"), "{told}");
    assert!(told.contains("assistant:\nyou said one\n"), "{told}");
    let (told, _) = run(&elsewhere, "sessions", &[&tail[..], &["-n", "1"]].concat()).await;
    assert!(!told.contains("you:\none\n"), "{told}");

    let mut following = elsewhere.command("sessions");
    let mut following = following.args(tail).arg("-f").spawn().unwrap();
    let mut output = following.stdout.take().unwrap();
    let mut seen = String::new();
    read_until(&mut output, &mut seen, "you said one").await;
    client.prompt(&session, "two").await;
    read_until(&mut output, &mut seen, "you said two").await;
    server = server.restart().await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.load_session(&session).await.unwrap();
    client.prompt(&session, "three").await;
    read_until(&mut output, &mut seen, "you said three").await;
    assert_eq!(seen.matches("you said two").count(), 1, "{seen}");
    let pid = following
        .id()
        .and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed()));
    rustix::process::kill_process(pid.unwrap(), rustix::process::Signal::INT).unwrap();
    assert_eq!(following.wait().await.unwrap().code(), Some(130));

    let (told, code) = run(&elsewhere, "sessions", &["tail", "ffff", "--server", &road]).await;
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("has no session ffff"), "{told}");
}

/// Reads a program's output until it says `expected`.
async fn read_until(output: &mut ChildStdout, seen: &mut String, expected: &str) {
    let reading = async {
        let mut chunk = [0; 1024];
        while !seen.contains(expected) {
            let count = output.read(&mut chunk).await.unwrap();
            assert!(count > 0, "it ended; it said {seen}");
            seen.push_str(&String::from_utf8_lossy(&chunk[..count]));
        }
    };
    let read = tokio::time::timeout(testkit::program::DEADLINE, reading).await;
    read.unwrap_or_else(|_| panic!("{expected} did not come"));
}
