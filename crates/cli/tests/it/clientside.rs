//! Tools that run with the client that prompted: its files with what was not saved yet, and its
//! terminals. Other clients of the session are not asked, and the server's disk is not touched.

use serde_json::{Value, json};
use testkit::script::{Script, pause, say, tool};
use testkit::{AcpClient, Choice, Home, Program, Reply, RpcError, Update, wait_for};
use tokio::time::{Duration, Instant};

use crate::support::{binary, serve, serve_with, two_clients};

/// A client of `server` that offers these `clientCapabilities`.
async fn connect(server: &Program, capabilities: Value) -> AcpClient {
    let dialed = AcpClient::dial_ws(&server.acp_url(), Some(server.token())).await;
    let mut client = dialed.unwrap().in_directory(server.home().workspace());
    client.initialize_with(capabilities).await;
    client
}

fn files() -> Value {
    json!({"fs": {"readTextFile": true, "writeTextFile": true}})
}

fn everything() -> Value {
    json!({"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true})
}

/// A model that reads `a.txt` and repeats what it was told.
fn reader() -> Script {
    Script::new()
        .call([tool("read", json!({"path": "a.txt"}))])
        .call([say("${result}")])
}

/// A client whose file has the text `buffer`, wherever it is.
fn holding(mut client: AcpClient, buffer: &str) -> AcpClient {
    client.on_request(
        "fs/read_text_file",
        Reply::Result(json!({"content": buffer})),
    );
    client
}

fn methods(client: &AcpClient) -> Vec<&str> {
    let requests = client.requests().iter();
    requests.map(|request| request.method.as_str()).collect()
}

/// The text of a finished tool call, if the update is one with this status.
fn ended<'a>(update: &'a Update, status: &str) -> Option<&'a str> {
    let is_it = update.kind == "tool_call_update" && update.update["status"] == status;
    is_it.then(|| update.update["content"][0]["content"]["text"].as_str())?
}

#[tokio::test]
async fn b_06_a_turn_uses_the_clients_files_and_terminal_while_other_requests_are_answered() {
    let script = Script::new()
        .call([tool(
            "read",
            json!({"path": "a.txt", "offset": 3, "limit": 2}),
        )])
        .call([tool(
            "write",
            json!({"path": "new/b.txt", "content": "${result}"}),
        )])
        .call([tool("bash", json!({"command": "make", "cwd": "."}))])
        .call([say("${result}")]);
    let server = serve(script).await;
    server.home().write("a.txt", "saved\n");
    let mut client = connect(&server, everything()).await;
    client.on_permission(Choice::Allow);
    client.on_request("fs/read_text_file", Reply::Hold);
    client.on_request("fs/write_text_file", Reply::Result(json!({})));
    client.on_request(
        "terminal/create",
        Reply::Result(json!({"terminalId": "t1"})),
    );
    client.on_request("terminal/wait_for_exit", Reply::Hold);
    let output = json!({"output": "built\n", "truncated": false, "exitStatus": {"exitCode": 0}});
    client.on_request("terminal/output", Reply::Result(output));
    client.on_request("terminal/release", Reply::Result(json!({})));
    let session = client.new_session().await;
    let running = client.start_prompt(&session, "go").await;

    let read = client.next_request().await;
    let path = server.home().workspace().join("a.txt");
    assert_eq!(
        read.params,
        json!({"sessionId": session, "path": path, "line": 3, "limit": 3})
    );
    // The reader is free while the turn waits for this client.
    client.call("session/list", json!({})).await.unwrap();
    // It is asked again for what the write would change, which is nothing yet.
    client.on_request("fs/read_text_file", Reply::Result(json!({"content": ""})));
    client
        .answer(&read, Ok(json!({"content": "unsaved\n"})))
        .await;

    let wait = client.next_request().await;
    assert_eq!(wait.method, "terminal/wait_for_exit");
    client.call("session/list", json!({})).await.unwrap();
    client.answer(&wait, Ok(json!({"exitCode": 0}))).await;

    let answer = client.finish_prompt(&session, &running).await.unwrap();
    assert_eq!(answer.text, "built\n");
    let written = client
        .requests()
        .iter()
        .find(|r| r.method == "fs/write_text_file");
    assert_eq!(
        written.unwrap().params["content"],
        "3\tunsaved\n[lines 3–3]"
    );
    let created = client
        .requests()
        .iter()
        .find(|r| r.method == "terminal/create");
    let created = &created.unwrap().params;
    assert_eq!(
        (&created["command"], &created["args"], &created["cwd"]),
        (
            &json!("bash"),
            &json!(["-c", "make"]),
            &json!(server.home().workspace())
        )
    );
    assert_eq!(server.home().read("a.txt").as_deref(), Some("saved\n"));
    assert_eq!(server.home().read("new/b.txt"), None, "it is the client's");
}

#[tokio::test]
async fn a_running_terminal_is_shown_to_its_client_and_never_again() {
    let script = Script::new()
        .call([tool("bash", json!({"command": "make"}))])
        .call([say("done")]);
    let server = serve(script).await;
    let mut client = connect(&server, json!({"terminal": true})).await;
    client.on_permission(Choice::Allow);
    client.on_request(
        "terminal/create",
        Reply::Result(json!({"terminalId": "t1"})),
    );
    let exit = json!({"exitCode": 2, "signal": null});
    client.on_request("terminal/wait_for_exit", Reply::Result(exit));
    let output = json!({"output": "oops", "truncated": false});
    client.on_request("terminal/output", Reply::Result(output));
    client.on_request("terminal/release", Reply::Result(Value::Null));
    let session = client.new_session().await;
    let answer = client.prompt(&session, "go").await;
    let shown = json!([{"type": "terminal", "terminalId": "t1"}]);
    let is_shown = |update: &&Update| update.update["content"] == shown;
    assert_eq!(answer.updates.iter().filter(is_shown).count(), 1);
    let text = answer
        .updates
        .iter()
        .find_map(|update| ended(update, "failed"));
    assert_eq!(text, Some("[exit code 2]\noops"));

    let mut other = AcpClient::connect_ws(&server).await;
    let replayed = other.load_session(&session).await.unwrap();
    assert_eq!(replayed.iter().filter(is_shown).count(), 0);
    assert!(
        replayed
            .iter()
            .any(|update| ended(update, "failed").is_some())
    );
}

#[tokio::test]
async fn a_04_a_dropped_socket_fails_its_pending_request_at_once() {
    let script = Script::new()
        .call([tool("read", json!({"path": "a.txt"}))])
        .call([tool("read", json!({"path": "b.txt"}))])
        .call([say("${result}")]);
    let limits = [("FASTNESS_LIMITS_CLIENT_BACK_MS", "200")];
    let server = serve_with(script, &limits).await;
    server.home().write("b.txt", "the server's");
    let mut client = connect(&server, files()).await;
    client.on_request("fs/read_text_file", Reply::Hold);
    let session = client.new_session().await;
    let mut other = AcpClient::connect_ws(&server).await;
    other.load_session(&session).await.unwrap();
    client.start_prompt(&session, "go").await;
    client.next_request().await;
    let left = Instant::now();
    drop(client);

    let mut texts = Vec::new();
    let mut first = None;
    other
        .updates_until(|update| {
            if let Some(text) = ended(update, "failed") {
                first.get_or_insert_with(|| left.elapsed());
                texts.push(text.to_owned());
            }
            update.kind == "agent_message_chunk" && !update.is_greeting()
        })
        .await;
    // Far below the 30 s that an answer may take, and not after the time for coming back either.
    assert!(first.unwrap() < Duration::from_secs(1), "{first:?}");
    assert_eq!(
        texts,
        [
            "a.txt could not be read: client gone.",
            "b.txt could not be read: client gone."
        ],
        "never the server's file within that turn"
    );
    wait_for("the log of it", || {
        server.stderr().contains("aborted 1 pending requests")
    })
    .await;
}

#[tokio::test]
async fn b_20_leaving_logs_how_many_requests_were_aborted() {
    let server = serve(reader()).await;
    let mut client = connect(&server, files()).await;
    client.on_request("fs/read_text_file", Reply::Hold);
    for _ in 0..3 {
        let session = client.new_session().await;
        client.start_prompt(&session, "go").await;
        client.next_request().await;
    }
    client.leave().await;
    wait_for("the log of it", || {
        server.stderr().contains("aborted 3 pending requests")
    })
    .await;
}

#[tokio::test]
async fn a_05_replies_to_nothing_are_ignored_and_counted() {
    let server = Program::serve_in(Home::new(binary(), reader()).arg("--log").arg("debug")).await;
    let mut client = connect(&server, files()).await;
    client.on_request("fs/read_text_file", Reply::Hold);
    let session = client.new_session().await;
    let running = client.start_prompt(&session, "go").await;
    let read = client.next_request().await;
    let unknown = [
        json!("00000000-0000-4000-8000-000000000000"),
        json!(7),
        json!(null),
    ];
    for id in unknown {
        let reply = json!({"jsonrpc": "2.0", "id": id, "result": {"content": "not this"}});
        client.raw(&reply.to_string()).await;
    }
    client.answer(&read, Ok(json!({"content": "this"}))).await;
    // Once more, which is too late.
    client
        .answer(&read, Ok(json!({"content": "not this"})))
        .await;
    let answer = client.finish_prompt(&session, &running).await.unwrap();
    assert_eq!(answer.text, "1\tthis");
    wait_for("all of them to be counted", || {
        server.stderr().contains("ignored=4")
    })
    .await;
    let id = read.id.as_str().unwrap();
    assert_eq!((id.len(), &id[14..15]), (36, "4"), "{id}");
}

#[tokio::test]
async fn a_10_a_client_that_does_not_answer_fails_the_call_in_time() {
    let limits = [("FASTNESS_LIMITS_CLIENT_REQUEST_MS", "150")];
    let server = serve_with(reader(), &limits).await;
    let mut client = connect(&server, files()).await;
    client.on_request("fs/read_text_file", Reply::Hold);
    let session = client.new_session().await;
    let answer = client.prompt(&session, "go").await;
    let said = "the client did not answer fs/read_text_file within 0.15 s";
    assert!(answer.text.contains(said), "{}", answer.text);
    let withdrawn = client.next_notification("$/cancel_request").await;
    assert_eq!(withdrawn["requestId"], client.requests()[0].id);
}

#[tokio::test]
async fn a_15_a_clients_error_reaches_the_model_whole() {
    let server = serve(reader()).await;
    let mut client = connect(&server, files()).await;
    let error = RpcError {
        code: -32002,
        message: "nf".to_owned(),
        data: json!({"uri": "x"}),
    };
    client.on_request("fs/read_text_file", Reply::Error(error));
    let session = client.new_session().await;
    let answer = client.prompt(&session, "go").await;
    let text = answer
        .updates
        .iter()
        .find_map(|update| ended(update, "failed"));
    assert!(text.is_some(), "{:?}", answer.updates);
    for part in ["-32002", "nf", r#"{"uri":"x"}"#] {
        assert!(answer.text.contains(part), "{part} in {}", answer.text);
    }
}

#[tokio::test]
async fn of_two_clients_the_one_that_prompts_is_asked() {
    let server = serve(reader_again()).await;
    server.home().write("a.txt", "on the server");
    let mut editor = holding(connect(&server, files()).await, "in the editor");
    let mut laptop = holding(connect(&server, files()).await, "on the laptop");
    let mut terminal = AcpClient::connect_ws(&server).await;
    let session = editor.new_session().await;
    laptop.load_session(&session).await.unwrap();
    terminal.load_session(&session).await.unwrap();
    for (client, text) in [
        (&mut editor, "in the editor"),
        (&mut laptop, "on the laptop"),
        (&mut terminal, "on the server"),
    ] {
        // It has also been told of the turns of the others.
        let told = client.prompt(&session, "go").await.text;
        assert!(told.ends_with(text), "{told}");
    }
    assert_eq!(methods(&editor), ["fs/read_text_file"]);
    assert_eq!(methods(&laptop), ["fs/read_text_file"]);
    assert_eq!(methods(&terminal).len(), 0);
}

/// As [`reader`], for three turns.
fn reader_again() -> Script {
    let read = || [tool("read", json!({"path": "a.txt"}))];
    let script = Script::new().call(read()).call([say("${result}")]);
    let script = script.call(read()).call([say("${result}")]);
    script.call(read()).call([say("${result}")])
}

#[tokio::test]
async fn a_queued_prompt_runs_with_the_client_that_queued_it() {
    let script = Script::new()
        .call([say("first"), pause(200)])
        .call([tool("read", json!({"path": "a.txt"}))])
        .call([say("${result}")]);
    let server = serve(script).await;
    let (mut first, _) = two_clients(&server).await;
    let mut second = holding(connect(&server, files()).await, "mine");
    let session = first.new_session().await;
    second.load_session(&session).await.unwrap();
    let running = first.start_prompt(&session, "go").await;
    second
        .updates_until(|update| update.text() == Some("first"))
        .await;
    let blocks = json!([{"type": "text", "text": "next"}]);
    let queued =
        json!({"sessionId": session, "prompt": blocks, "_meta": {"fastness": {"queue": true}}});
    let waiting = second.start("session/prompt", queued).await;
    first.finish_prompt(&session, &running).await.unwrap();
    let answer = second.finish_prompt(&session, &waiting).await.unwrap();
    assert!(answer.text.ends_with("mine"), "{}", answer.text);
}

#[tokio::test]
async fn a_cancelled_turn_takes_its_requests_back_and_ends_its_command() {
    let script = Script::new().call([tool("bash", json!({"command": "sleep 99"}))]);
    let server = serve(script).await;
    let mut client = connect(&server, json!({"terminal": true})).await;
    client.on_permission(Choice::Allow);
    client.on_request(
        "terminal/create",
        Reply::Result(json!({"terminalId": "t1"})),
    );
    client.on_request("terminal/wait_for_exit", Reply::Hold);
    client.on_request("terminal/kill", Reply::Hold);
    client.on_request("terminal/release", Reply::Hold);
    let session = client.new_session().await;
    let running = client.start_prompt(&session, "go").await;
    let wait = client.next_request().await;
    client.cancel(&session).await;
    let withdrawn = client.next_notification("$/cancel_request").await;
    assert_eq!(withdrawn["requestId"], wait.id);
    for method in ["terminal/kill", "terminal/release"] {
        let request = client.next_request().await;
        assert_eq!(request.method, method);
        assert_eq!(
            request.params,
            json!({"sessionId": session, "terminalId": "t1"})
        );
        client.answer(&request, Ok(json!({}))).await;
    }
    let answer = client.finish_prompt(&session, &running).await.unwrap();
    assert_eq!(answer.stop_reason, "cancelled");
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_killed() {
    let script = Script::new()
        .call([tool(
            "bash",
            json!({"command": "sleep 99", "timeoutMs": 100}),
        )])
        .call([say("${result}")]);
    let server = serve(script).await;
    let mut client = connect(&server, json!({"terminal": true})).await;
    client.on_permission(Choice::Allow);
    client.on_request(
        "terminal/create",
        Reply::Result(json!({"terminalId": "t1"})),
    );
    client.on_request("terminal/wait_for_exit", Reply::Hold);
    client.on_request("terminal/kill", Reply::Result(json!({})));
    let output = json!({"output": "so far", "truncated": true});
    client.on_request("terminal/output", Reply::Result(output));
    client.on_request("terminal/release", Reply::Result(json!({})));
    let session = client.new_session().await;
    let answer = client.prompt(&session, "go").await;
    assert_eq!(
        answer.text,
        "[timed out: stopped after 0.1 s]\n[cut: only the end of the output is shown]\nso far"
    );
    let asked = methods(&client);
    let killed = asked.iter().position(|m| *m == "terminal/kill");
    assert_eq!(
        asked[killed.unwrap()..],
        ["terminal/kill", "terminal/output", "terminal/release"]
    );
}

#[tokio::test]
async fn without_a_terminal_commands_run_on_the_server() {
    let script = Script::new()
        .call([tool("bash", json!({"command": "touch x"}))])
        .call([say("${result}")]);
    let server = serve(script).await;
    let mut client = connect(&server, files()).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let answer = client.prompt(&session, "go").await;
    assert_eq!(answer.text, "[no output]");
    assert_eq!(server.home().read("x").as_deref(), Some(""));
}

#[tokio::test]
async fn a_command_allowed_always_is_that_command_only() {
    let run = |command: &str| [tool("bash", json!({"command": command}))];
    let script = Script::new()
        .call(run("ls"))
        .call(run("ls"))
        .call(run("rm"));
    let script = script.call([say("done")]);
    let server = serve(script).await;
    let mut client = connect(&server, json!({"terminal": true})).await;
    client.on_permission(Choice::AllowAlways);
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    let asked = methods(&client);
    let questions = asked.iter().filter(|m| **m == "session/request_permission");
    assert_eq!(questions.count(), 2, "{asked:?}");
    let created = asked.iter().filter(|m| **m == "terminal/create");
    assert_eq!(created.count(), 3, "{asked:?}");
}

#[tokio::test]
async fn an_editor_on_stdio_is_asked_for_its_unsaved_text() {
    let home = Home::new(binary(), reader());
    home.write("a.txt", "saved");
    let mut client = AcpClient::spawn(&home, "acp", &[]);
    client.initialize_with(files()).await;
    let mut client = holding(client, "unsaved");
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "go").await.text, "1\tunsaved");
    client.leave().await;
}

#[tokio::test]
async fn a_client_that_lies_fails_its_calls_and_the_turn_goes_on() {
    let calls = [
        ("read", json!({"path": "a.txt"})),
        ("write", json!({"path": "a.txt", "content": "x"})),
        ("edit", json!({"path": "a.txt", "old": "x", "new": "y"})),
        ("bash", json!({"command": "make"})),
        ("bash", json!({"command": "make again"})),
    ];
    let script = calls
        .into_iter()
        .fold(Script::new(), |script, (name, input)| {
            script.call([tool(name, input)])
        });
    let server = serve(script.call([say("done")])).await;
    let mut client = connect(&server, everything()).await;
    client.on_permission(Choice::Allow);
    // It gives a number for a text, writes nothing and says that it did, has one terminal for all.
    client.on_request("fs/read_text_file", Reply::Result(json!({"content": 7})));
    client.on_request(
        "fs/write_text_file",
        Reply::Result(json!({"written": false})),
    );
    client.on_request(
        "terminal/create",
        Reply::Result(json!({"terminalId": "same"})),
    );
    client.on_request(
        "terminal/wait_for_exit",
        Reply::Result(json!({"exitCode": "zero"})),
    );
    client.on_request("terminal/output", Reply::Result(json!({"output": ["x"]})));
    client.on_request("terminal/kill", Reply::Result(Value::Null));
    client.on_request("terminal/release", Reply::Result(Value::Null));
    let session = client.new_session().await;
    let answer = client.prompt(&session, "go").await;
    assert_eq!(
        (answer.text.as_str(), answer.stop_reason.as_str()),
        ("done", "end_turn")
    );
    let events = server.home().events(&session);
    let results = events.iter().filter(|event| event["type"] == "tool.result");
    let ends: Vec<_> = results
        .map(|result| result["status"].as_str().unwrap())
        .collect();
    // What it says it wrote is believed, for nothing else can be known; the edit then sees through it.
    assert_eq!(
        ends,
        ["failed", "completed", "failed", "unknown", "unknown"]
    );
    assert_eq!(server.home().read("a.txt"), None);
    let releases = methods(&client);
    let releases = releases
        .iter()
        .filter(|method| **method == "terminal/release")
        .count();
    assert_eq!(releases, 2, "each is given back, whatever it is called");
    assert_eq!(
        client.prompt(&session, "next").await.stop_reason,
        "end_turn"
    );
}
