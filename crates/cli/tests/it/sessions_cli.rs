//! `fastness sessions`: looking at what is stored beside a running server, and managing it.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::script::{Script, say, stream, think, tool};
use testkit::{AcpClient, Choice, Home, Program};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::support::{binary, echo, serve};

#[tokio::test]
async fn sessions_are_listed_beside_a_running_server_newest_first() {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let (older, newer) = (client.new_session().await, client.new_session().await);
    client.prompt(&older, "the first question").await;
    client.prompt(&newer, "the second\tquestion").await;
    let listed = sessions(server.home(), &["list"]).await.succeeded();
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[0].starts_with("ID "), "{listed}");
    assert!(lines[1].starts_with(&newer), "{listed}");
    assert!(lines[1].contains("the second question"), "{listed}");
    assert!(lines[2].starts_with(&older), "{listed}");
    assert!(!listed.contains('\x1b'), "colour in a pipe: {listed}");
    let heads = ["AGE", "STATE", "MODEL", "TURNS", "TOKENS", "TITLE"];
    assert!(heads.iter().all(|head| lines[0].contains(head)), "{listed}");
    assert!(lines[1].contains("  idle  "), "{listed}");

    let json = sessions(server.home(), &["list", "--json"])
        .await
        .succeeded();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["id"], newer);
    assert_eq!(json[0]["head"], server.home().events(&newer).len());
    assert_eq!(json[1]["cwd"], json!(server.home().workspace()));
}

#[tokio::test]
async fn a_shown_run_names_the_event_that_allowed_it() {
    let (server, session) = a_session_with_a_tool_run().await;
    let shown = sessions(server.home(), &["show", &session])
        .await
        .succeeded();
    let events = server.home().events(&session);
    let answer = events
        .iter()
        .find(|event| event["type"] == "permission.answered");
    let allowed = format!(
        "write completed, allowed by local in event {}",
        answer.unwrap()["seq"]
    );
    for words in [
        "please write",
        "hm",
        "tool write",
        "may write run? allow_once, allow_always, reject_once",
        "allowed by local (allow_once)",
        &allowed,
        "turn 1 ended",
    ] {
        assert!(shown.contains(words), "no `{words}` in {shown}");
    }
}

#[tokio::test]
async fn export_as_json_gives_every_event_without_its_checksum_and_long_texts_in_place() {
    let long = "word ".repeat(2_000);
    let script = Script::new().call([stream(&long, 40, 0)]);
    let server = serve(script).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "tell me \u{2028} everything").await;
    let exported = sessions(server.home(), &["export", &session, "--format", "json"]).await;
    let exported: Value = serde_json::from_str(&exported.succeeded()).unwrap();
    let mut stored = server.home().events(&session);
    let mut blobs = 0;
    for event in &mut stored {
        let fields = event.as_object_mut().unwrap();
        // What the journal keeps for itself is nobody else's business.
        for own in ["crc", "$batch"] {
            fields.shift_remove(own);
        }
        if event["text"]["$blob"].is_string() {
            event["text"] = json!(long.repeat(40));
            blobs += 1;
        }
    }
    assert_eq!(blobs, 1);
    // Not `assert_eq`: nobody reads a failure of 400 KB.
    assert!(
        exported == Value::Array(stored),
        "the exported events differ"
    );
}

#[tokio::test]
async fn f_17_export_as_json_keeps_fields_that_this_version_does_not_know() {
    let (home, session) = a_finished_session().await;
    // As a later version, or another tool, might have written it.
    let mut events = home.events(&session);
    for event in &mut events {
        let fields = event.as_object_mut().unwrap();
        fields.shift_remove("crc");
        fields.shift_remove("$batch");
        fields.insert("mood".to_owned(), json!({"is": ["good", 1.5e3, null]}));
    }
    let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
    std::fs::write(testkit::kill::journal_path(&home, &session), lines).unwrap();
    let exported = sessions(&home, &["export", &session, "--format", "json"]).await;
    let exported: Value = serde_json::from_str(&exported.succeeded()).unwrap();
    assert_eq!(exported, Value::Array(events));
}

#[tokio::test]
async fn a_torn_end_is_noted_and_is_not_a_failure() {
    let (home, session) = a_finished_session().await;
    let events = home.events(&session).len();
    append(&home, &session, b"{\"seq\":99,\"ts\":1.0,\"ty");
    let exported = sessions(&home, &["export", &session, "--format", "json"]).await;
    assert_eq!(exported.code, Some(0));
    assert!(
        exported.err.contains("did not finish: 22 bytes"),
        "{}",
        exported.err
    );
    let array: Value = serde_json::from_str(&exported.out).unwrap();
    assert_eq!(array.as_array().map(Vec::len), Some(events));
    let shown = sessions(&home, &["show", &session]).await;
    assert!(shown.out.contains("did not finish"), "{}", shown.out);
    assert_eq!(shown.code, Some(0));
    let verified = sessions(&home, &["verify"]).await;
    assert_eq!(verified.code, Some(0));
    assert!(
        verified.out.contains("has a torn end of 22 bytes"),
        "{}",
        verified.out
    );
}

#[tokio::test]
async fn verify_fails_when_one_session_is_damaged_and_still_checks_the_others() {
    let (home, session) = a_finished_session().await;
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let sound = client.new_session().await;
    client.prompt(&sound, "hello").await;
    let home = ended(server).await;
    let path = testkit::kill::journal_path(&home, &session);
    let mut bytes = std::fs::read(&path).unwrap();
    let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    bytes[second + 40] ^= 1;
    std::fs::write(&path, bytes).unwrap();

    let verified = sessions(&home, &["verify"]).await;
    assert_eq!(verified.code, Some(1));
    let damaged = format!("{session} is damaged at event 2");
    assert!(verified.out.contains(&damaged), "{}", verified.out);
    let counts = verified.out.lines().nth(1).unwrap();
    let counts: Vec<&str> = counts.split_whitespace().collect();
    assert_eq!((counts[0], counts[3], counts[4]), ("2", "1", "0"));
    // What comes before the damage can be had, and nobody is told that this is all.
    let exported = sessions(&home, &["export", &session, "--format", "json"]).await;
    assert_eq!(exported.code, Some(1));
    assert!(
        exported.err.contains("damaged at event 2"),
        "{}",
        exported.err
    );
    let array: Value = serde_json::from_str(&exported.out).unwrap();
    assert_eq!(array.as_array().map(Vec::len), Some(1));
    let listed = sessions(&home, &["list"]).await.succeeded();
    assert!(listed.contains(&sound), "{listed}");
}

#[tokio::test]
async fn exported_documents_stand_alone_and_nothing_in_them_becomes_markup() {
    let hostile = "</div><script>fetch('http://x')</script>\n```\n# you\u{1b}[2J";
    let server = serve(Script::says(hostile)).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, hostile).await;
    let page = sessions(server.home(), &["export", &session, "--format", "html"]).await;
    let page = page.succeeded();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(page.contains("&lt;script&gt;") && !page.contains("<script"));
    for loads in ["src=", "url(", "@import", "<link"] {
        assert!(!page.contains(loads), "the page has {loads}");
    }
    assert!(page.contains("light dark"));
    let document = sessions(server.home(), &["export", &session])
        .await
        .succeeded();
    assert!(document.contains("\n## You\n"), "{document}");
    assert!(document.contains("\n> # you[2J\n"), "{document}");
    assert!(!document.contains('\u{1b}'));
}

#[tokio::test]
async fn search_finds_events_with_all_words_in_any_case() {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let (one, two) = (client.new_session().await, client.new_session().await);
    client.prompt(&one, "the Deadline was EXCEEDED again").await;
    client.prompt(&two, "the deadline was met").await;
    let found = sessions(server.home(), &["search", "deadline", "exceeded"])
        .await
        .succeeded();
    assert!(found.lines().all(|line| line.starts_with(&one)), "{found}");
    let kinds = ["user.message: the Deadline", "assistant.message: you said"];
    assert!(kinds.iter().all(|kind| found.contains(kind)), "{found}");
    let nothing = sessions(server.home(), &["search", "nowhere"]).await;
    assert_eq!((nothing.code, nothing.out.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn an_id_may_be_shortened_as_long_as_one_session_is_meant() {
    let (home, session) = a_finished_session().await;
    let shown = sessions(&home, &["show", &session[..6]]).await.succeeded();
    assert!(shown.contains(&session), "{shown}");
    let short = sessions(&home, &["show", &session[..3]]).await;
    assert_eq!(short.code, Some(2), "{}", short.err);
    let missing = sessions(&home, &["show", "zzzz"]).await;
    assert_eq!(missing.code, Some(1));
    assert!(
        missing.err.contains("there is no session zzzz"),
        "{}",
        missing.err
    );
}

#[tokio::test]
async fn a_session_is_forked_and_deleted_on_the_files_when_nobody_holds_it() {
    let (home, session) = a_finished_session().await;
    let head = home.events(&session).len();
    let fork = sessions(&home, &["fork", &session, "--at", &head.to_string()])
        .await
        .succeeded();
    let fork = fork.trim();
    assert_eq!(home.events(fork).len(), head + 1);
    assert_eq!(home.events(fork)[head]["type"], "session.forked");
    let too_far = sessions(&home, &["fork", &session, "--at", "999"]).await;
    assert_eq!(too_far.code, Some(1));
    let deleted = sessions(&home, &["delete", &session]).await;
    assert_eq!(deleted.code, Some(0), "{}", deleted.err);
    let left = sessions(&home, &["list"]).await.succeeded();
    assert!(left.contains(fork) && !left.contains(&session), "{left}");
    // The copy is a session like any other.
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.load_session(fork).await.unwrap();
    client.prompt(fork, "and on").await;
}

#[tokio::test]
async fn f_12_a_session_that_a_server_holds_is_not_deleted_and_the_holder_is_named() {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "hello").await;
    let refused = sessions(server.home(), &["delete", &session, "--yes"]).await;
    assert_eq!(refused.code, Some(1));
    let holder = format!(
        "process {} has session {session} open",
        server.pid().unwrap()
    );
    assert!(refused.err.contains(&holder), "{}", refused.err);
    // Another process may work on other sessions of the same directory.
    let mut beside = AcpClient::spawn_stdio(server.home()).await;
    let error = beside.load_session(&session).await.unwrap_err();
    assert_eq!(
        (error.code, &error.data["kind"]),
        (-32603, &json!("held_elsewhere"))
    );
    let own = beside.new_session().await;
    beside.prompt(&own, "beside the server").await;
    client.prompt(&session, "still here").await;
}

#[tokio::test]
async fn tail_follows_a_message_while_it_is_written_and_ends_on_ctrl_c_with_130() {
    let script = Script::new().call([stream("tick\n", 5_000, 2)]);
    let server = serve(script).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let mut command = server.home().clean(binary());
    let mut tail = command
        .args(arguments(server.home(), &["tail", "-f", &session]))
        .spawn()
        .unwrap();
    client.start_prompt(&session, "go on").await;
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    let (mut asked, mut ticks) = (false, 0);
    while ticks < 5 {
        let line = lines.next_line().await.unwrap().unwrap();
        asked |= line.trim() == "go on";
        ticks += usize::from(line.trim() == "tick");
    }
    assert!(asked);
    let stored = server.home().events(&session);
    let ended = stored
        .iter()
        .any(|event| event["type"] == "assistant.message");
    assert!(!ended, "shown before the message was finished");
    let pid = tail
        .id()
        .and_then(|pid| Pid::from_raw(pid.cast_signed()))
        .unwrap();
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(tail.wait().await.unwrap().code(), Some(130));
}

#[tokio::test]
async fn looking_makes_no_data_directory() {
    let home = Home::new(binary(), echo());
    for action in [["list"].as_slice(), &["verify"], &["search", "x"]] {
        sessions(&home, action).await.succeeded();
    }
    assert!(!home.data_dir().exists());
}

/// How a command ended and what it said.
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Said {
    fn succeeded(self) -> String {
        assert_eq!(self.code, Some(0), "{}\n{}", self.out, self.err);
        self.out
    }
}

async fn sessions(home: &Home, action: &[&str]) -> Said {
    let mut command = home.clean(binary());
    command
        .args(arguments(home, action))
        .stdin(std::process::Stdio::null());
    let output = command.output().await.unwrap();
    Said {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn arguments(home: &Home, action: &[&str]) -> Vec<String> {
    let data_dir = home.data_dir().display().to_string();
    let mut arguments = vec!["sessions".to_owned(), "--data-dir".to_owned(), data_dir];
    arguments.extend(action.iter().map(ToString::to_string));
    arguments
}

async fn a_finished_session() -> (Home, String) {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "hello").await;
    (ended(server).await, session)
}

async fn a_session_with_a_tool_run() -> (Program, String) {
    let script = Script::new()
        .call([
            think("hm"),
            tool("write", json!({"path": "a.txt", "content": "x"})),
        ])
        .call([say("done")]);
    let server = serve(script).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Option("allow_once".to_owned()));
    let session = client.new_session().await;
    client.prompt(&session, "please write").await;
    (server, session)
}

async fn ended(mut server: Program) -> Home {
    server.terminate().await;
    server.into_home()
}

fn append(home: &Home, session: &str, bytes: &[u8]) {
    let path = testkit::kill::journal_path(home, session);
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    std::io::Write::write_all(&mut file, bytes).unwrap();
}
