//! Sub-agents: work given away, in a session of its own, with no more rights than its caller has.

use serde_json::{Value, json};
use testkit::model::{ModelReply, RecordingModel, Say, Speech, text};
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Home, Program, Reply, Update};

use crate::support::{binary, serve};

/// A model that gives `tasks` away and repeats the last result.
pub(crate) fn giving(tasks: impl IntoIterator<Item = Value>) -> Script {
    Script::new()
        .call(tasks.into_iter().map(|input| tool("task", input)))
        .call([say("${result}")])
}

/// The newest child of a session, by the link in its journal.
pub(crate) fn child_of(home: &Home, session: &str) -> Option<String> {
    let events = home.events(session);
    let linked = events.iter().rev();
    let linked = linked.filter(|event| event["type"] == "child.linked");
    let mut children = linked.filter_map(|event| event["child"].as_str());
    children.next().map(str::to_owned)
}

/// The events of one type.
fn of_type(home: &Home, session: &str, kind: &str) -> Vec<Value> {
    let events = home.events(session).into_iter();
    events.filter(|event| event["type"] == kind).collect()
}

fn reads(path: &str) -> Value {
    tool("read", json!({"path": path}))
}

fn writes(path: &str) -> Value {
    tool("write", json!({"path": path, "content": "x"}))
}

fn questions(client: &AcpClient) -> Vec<Value> {
    let asked = client.requests().iter();
    let asked = asked.filter(|asked| asked.method == "session/request_permission");
    asked.map(|asked| asked.params.clone()).collect()
}

#[tokio::test]
async fn d_05_a_task_is_done_in_a_session_of_its_own_and_its_last_words_are_the_result() {
    let scout = Script::new()
        .call([say("I look."), reads("a.txt")])
        .call([say("It says: ${result}")]);
    let server = serve(giving([json!({"prompt": "find it"})]).agent("general", scout)).await;
    server.home().write("a.txt", "treasure");
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let answer = client.prompt(&session, "go").await;
    assert!(answer.text.starts_with("It says:"), "{}", answer.text);
    assert!(answer.text.contains("treasure"), "{}", answer.text);
    let home = server.home();
    let child = child_of(home, &session).unwrap();
    // Linked both ways, by the same call; owned by the same person; in the same directory.
    let (down, up) = (
        of_type(home, &session, "child.linked"),
        of_type(home, &child, "child.linked"),
    );
    assert_eq!(down[0]["callId"], up[0]["callId"]);
    assert_eq!(up[0]["parent"], json!(session));
    assert_eq!(
        of_type(home, &session, "tool.use")[0]["callId"],
        up[0]["callId"]
    );
    let (of_parent, of_child) = (&home.events(&session)[0], &home.events(&child)[0]);
    assert_eq!(of_parent["owner"], of_child["owner"]);
    assert_eq!(of_parent["cwd"], of_child["cwd"]);
    testkit::wait_for("the child to leave", || {
        !of_type(home, &child, "session.closed").is_empty()
    })
    .await;
    // Nobody is shown it beside the sessions of people, but it can be looked at.
    let listed = client.call("session/list", json!({})).await.unwrap();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
    let replayed = client.load_session(&child).await.unwrap();
    let said = testkit::client::text_of(&replayed, "user_message_chunk");
    assert_eq!(said, "find it");
    let refused = client.try_prompt(&child, "and now?").await.unwrap_err();
    assert_eq!(refused.code, -32602, "{refused}");
}

#[tokio::test]
async fn d_05_what_a_sub_agent_does_is_shown_as_updates_of_the_call() {
    let scout = Script::new()
        .call([say("I look."), reads("a.txt"), writes("b.txt")])
        .call([say("Done.")]);
    let server = serve(giving([json!({"prompt": "find it"})]).agent("general", scout)).await;
    server.home().write("a.txt", "treasure");
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Hold);
    let session = client.new_session().await;
    let prompt = client.start_prompt(&session, "go").await;
    let task = client.next_request().await;
    client.on_permission(Choice::Hold);
    let allow = json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}});
    client.answer(&task, Ok(allow.clone())).await;
    let write = client.next_request().await;
    let call = task.params["toolCall"]["toolCallId"].clone();
    let shown = |update: &Update| {
        let text = &update.update["content"][0]["content"]["text"];
        update.update["toolCallId"] == call && *text == "I look.\n→ Read a.txt\n→ Write b.txt\n"
    };
    let updates = client.updates_until(shown).await;
    let begun = updates
        .iter()
        .map(|update| &update.update["_meta"]["fastness"]["agent"]);
    let child = child_of(server.home(), &session).unwrap();
    assert!(
        begun
            .into_iter()
            .any(|agent| *agent == json!({"name": "general", "sessionId": child})),
        "{updates:?}"
    );
    client.answer(&write, Ok(allow)).await;
    let answer = client.finish_prompt(&session, &prompt).await.unwrap();
    assert_eq!(answer.text, "Done.");
}

#[tokio::test]
async fn d_04_a_sub_agent_s_question_reaches_the_people_of_its_caller_and_counts_for_it_alone() {
    let worker = Script::new()
        .call([writes("a"), writes("b")])
        .call([writes("c")])
        .call([say("Written.")]);
    let script = Script::new()
        .call([tool("task", json!({"prompt": "write them"}))])
        .call([writes("d")])
        .call([say("${result}")])
        .agent("general", worker);
    let server = serve(script).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Hold);
    let session = client.new_session().await;
    let prompt = client.start_prompt(&session, "go").await;
    let chosen = |option: &str| {
        let outcome = json!({"outcome": "selected", "optionId": option});
        Ok(json!({"outcome": outcome}))
    };
    let mut titles = Vec::new();
    for option in ["allow_once", "reject_once", "allow_always", "allow_once"] {
        let asked = client.next_request().await;
        let call = &asked.params["toolCall"];
        titles.push(call["title"].as_str().unwrap().to_owned());
        if option == "allow_always" {
            let agent = &call["_meta"]["fastness"]["agent"];
            assert_eq!(
                (&agent["tool"], &agent["input"]["path"]),
                (&json!("write"), &json!("b"))
            );
            assert_eq!(
                call["content"][0]["type"], "diff",
                "what it would do is shown: {call}"
            );
            let always = &asked.params["options"][1]["name"];
            assert_eq!(*always, "Allow write for this task");
        }
        client.answer(&asked, chosen(option)).await;
    }
    client.finish_prompt(&session, &prompt).await.unwrap();
    // What was allowed always was so to the sub-agent: `c` was not asked about, and `d` was.
    let expected = [
        "general: write them",
        "general: Write a",
        "general: Write b",
        "Write d",
    ];
    assert_eq!(titles, expected);
    let home = server.home();
    let there = ["a", "b", "c", "d"].map(|name| home.read(name).is_some());
    assert_eq!(there, [false, true, true, true]);
    let child = child_of(home, &session).unwrap();
    let answers = of_type(home, &child, "permission.answered");
    let answers: Vec<&Value> = answers.iter().map(|answer| &answer["outcome"]).collect();
    assert_eq!(answers, ["denied", "allowed"]);
    let results = of_type(home, &session, "tool.result");
    assert_eq!(
        results.len(),
        2,
        "one outcome for the task, one for the write: {results:?}"
    );
}

#[tokio::test]
async fn d_04_a_question_answered_at_the_sub_agent_itself_is_withdrawn_from_its_caller() {
    let worker = Script::new().call([writes("a")]).call([say("Written.")]);
    let server = serve(giving([json!({"prompt": "write"})]).agent("general", worker)).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Hold);
    let session = client.new_session().await;
    let prompt = client.start_prompt(&session, "go").await;
    let task = client.next_request().await;
    let allow = json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}});
    client.answer(&task, Ok(allow.clone())).await;
    let held = client.next_request().await;
    let child = child_of(server.home(), &session).unwrap();
    let mut other = AcpClient::connect_ws(&server).await;
    other.on_permission(Choice::Hold);
    other.load_session(&child).await.unwrap();
    let asked = other.next_request().await;
    assert_eq!(asked.params["toolCall"]["title"], "Write a");
    other.answer(&asked, Ok(allow)).await;
    let cancelled = client.next_notification("$/cancel_request").await;
    assert_eq!(cancelled["requestId"], held.id);
    let answer = client.finish_prompt(&session, &prompt).await.unwrap();
    assert_eq!(answer.text, "Written.");
}

#[tokio::test]
async fn d_04_a_sub_agent_has_the_mode_of_its_caller_also_when_that_changes() {
    let worker = Script::new()
        .call([writes("a")])
        .call([reads("go")])
        .call([writes("b")])
        .call([say("${result}")]);
    let server = serve(giving([json!({"prompt": "write"})]).agent("general", worker)).await;
    let dialled = AcpClient::dial_ws(&server.acp_url(), Some(server.token())).await;
    let mut client = dialled.unwrap().in_directory(server.home().workspace());
    client
        .initialize_with(json!({"fs": {"readTextFile": true}}))
        .await;
    client.on_request("fs/read_text_file", Reply::Hold);
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let mode = |mode: &str| json!({"sessionId": session, "modeId": mode});
    client.call("session/set_mode", mode("plan")).await.unwrap();
    let prompt = client.start_prompt(&session, "go").await;
    // It reads with the files of its caller's client.
    let read = client.next_request().await;
    let read = match read.method.as_str() {
        "fs/read_text_file" => read,
        _ => client.next_request().await,
    };
    assert_eq!(server.home().read("a"), None, "plan stays plan");
    client
        .call("session/set_mode", mode("acceptEdits"))
        .await
        .unwrap();
    let child = child_of(server.home(), &session).unwrap();
    testkit::wait_for("the mode to follow", || {
        of_type(server.home(), &child, "mode.changed").len() == 2
    })
    .await;
    client.answer(&read, Ok(json!({"content": "go"}))).await;
    client.finish_prompt(&session, &prompt).await.unwrap();
    assert_eq!(server.home().read("b").as_deref(), Some("x"));
    assert_eq!(questions(&client).len(), 1, "only the task was asked about");
    // And nobody gives it another.
    client.load_session(&child).await.unwrap();
    let wider = json!({"sessionId": child, "modeId": "bypass"});
    let refused = client.call("session/set_mode", wider).await.unwrap_err();
    assert_eq!(refused.code, -32602);
}

#[tokio::test]
async fn d_05_tasks_of_one_answer_run_at_the_same_time() {
    let reader = Script::new()
        .call([reads("a")])
        .call([say("read ${prompt}")]);
    let tasks = [json!({"prompt": "one"}), json!({"prompt": "two"})];
    let server = serve(giving(tasks).agent("general", reader)).await;
    let dialled = AcpClient::dial_ws(&server.acp_url(), Some(server.token())).await;
    let mut client = dialled.unwrap().in_directory(server.home().workspace());
    client
        .initialize_with(json!({"fs": {"readTextFile": true}}))
        .await;
    client.on_request("fs/read_text_file", Reply::Hold);
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let prompt = client.start_prompt(&session, "go").await;
    let mut held = Vec::new();
    // Both ask before either is answered.
    while held.len() < 2 {
        let request = client.next_request().await;
        held.extend((request.method == "fs/read_text_file").then_some(request));
    }
    for request in &held {
        client.answer(request, Ok(json!({"content": "text"}))).await;
    }
    let answer = client.finish_prompt(&session, &prompt).await.unwrap();
    assert_eq!(answer.text, "read two", "in the order of the calls");
    assert_eq!(of_type(server.home(), &session, "child.linked").len(), 2);
}

#[tokio::test]
async fn d_05_an_unknown_agent_is_told_who_there_is_and_the_model_is_told_before() {
    let calls = ModelReply::Says(vec![Say::Tool(
        "task",
        r#"{"agent":"spy","prompt":"look"}"#,
    )]);
    let model = RecordingModel::speaking(Speech::OpenAiChat, vec![calls]).await;
    let home = model.home(binary());
    let own = "[agents.scout]\ndescription = \"finds things\"\n";
    crate::hooks::configure(&home, own);
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    let told = model.requests()[0]["tools"].to_string();
    assert!(told.contains("\\n- scout: finds things"), "{told}");
    let result = &of_type(server.home(), &session, "tool.result")[0];
    assert_eq!(result["status"], "failed");
    let text = result["text"].as_str().unwrap();
    assert!(text.ends_with("There are: general, scout."), "{text}");
    assert_eq!(child_of(server.home(), &session), None);
}

#[tokio::test]
async fn d_05_an_agent_has_its_role_its_tools_its_steps_and_its_tokens_are_its_caller_s() {
    let gives = r#"{"agent":"scout","prompt":"look"}"#;
    let looks = || ModelReply::Says(vec![Say::Tool("read", r#"{"path":"a.txt"}"#)]);
    let replies = vec![
        ModelReply::Says(vec![Say::Tool("task", gives)]),
        looks(),
        looks(),
        ModelReply::Says(vec![text("over")]),
    ];
    let model = RecordingModel::speaking(Speech::OpenAiChat, replies).await;
    let home = model.home(binary());
    home.write("a.txt", "treasure");
    let own = "[agents.scout]\nprompt = \"You only look.\"\ntools = [\"read\", \"grep\", \"task\"]\nsteps_max = 2\n";
    crate::hooks::configure(&home, own);
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let answer = client.prompt(&session, "go").await;
    let requests = model.requests();
    assert_eq!(requests.len(), 4, "two of them the agent's");
    let names = |request: &Value| -> Vec<String> {
        let tools = request["tools"].as_array().unwrap().iter();
        tools
            .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert!(names(&requests[0]).contains(&"task".to_owned()));
    assert_eq!(
        names(&requests[1]),
        ["read", "grep"],
        "and no task within a task"
    );
    let system = requests[1]["messages"][0]["content"].to_string();
    assert!(system.contains("You only look."), "{system}");
    assert!(
        !requests[1].to_string().contains("go"),
        "nothing of the conversation"
    );
    let result = &of_type(server.home(), &session, "tool.result")[0];
    let text = result["text"].as_str().unwrap();
    assert!(text.contains("used up its steps"), "{text}");
    // A hundred and seven tokens for each request, as the model counts.
    let usage = &answer.result["_meta"]["fastness"]["usage"];
    assert_eq!(usage["inputTokens"], json!(400), "{usage}");
    let used = of_type(server.home(), &session, "usage");
    let tasks = used.iter().filter(|used| used["purpose"] == "task");
    assert_eq!(tasks.count(), 2);
}

#[tokio::test]
async fn d_05_agents_that_work_at_once_share_the_tokens_that_are_left() {
    let gives = r#"{"agent":"scout","prompt":"look"}"#;
    let looks = || ModelReply::Says(vec![Say::Tool("read", r#"{"path":"a.txt"}"#)]);
    let both = ModelReply::Says(vec![Say::Tool("task", gives), Say::Tool("task", gives)]);
    let replies = std::iter::once(both).chain((0..20).map(|_| looks()));
    let model = RecordingModel::speaking(Speech::OpenAiChat, replies.collect()).await;
    // A hundred and seven for each request: one to begin with, and three for each of them.
    let home = model
        .home(binary())
        .env("FASTNESS_LIMITS_TURN_TOKENS_MAX", 7 * 107);
    home.write("a.txt", "treasure");
    let own = "[agents.scout]\nprompt = \"You only look.\"\ntools = [\"read\"]\n";
    crate::hooks::configure(&home, own);
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let answer = client.prompt(&session, "go").await;
    assert_eq!(answer.result["stopReason"], "max_tokens");
    assert_eq!(model.requests().len(), 7);
}

#[tokio::test]
async fn d_05_a_project_s_agents_count_once_they_are_approved_as_they_are() {
    let script = giving([json!({"agent": "scout", "prompt": "look"})])
        .agent("scout", Script::says("I am ${prompt}"));
    let home = Home::new(binary(), script);
    let folder = home.workspace().join(".claude/agents");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("scout.md");
    std::fs::write(&file, "---\ndescription: Finds\ntools: Read\n---\nLook.").unwrap();
    let fastness = async |home: &Home, command: &str, arguments: &[&str]| {
        let mut command = home.command(command);
        let output = command.args(arguments).output().await.unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let told = fastness(&home, "doctor", &[]).await;
    assert!(
        told.contains("1 of this project are not approved"),
        "{told}"
    );
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let mut ask = async || {
        let session = client.new_session().await;
        client.prompt(&session, "go").await.text
    };
    let text = ask().await;
    assert!(text.contains("There is no agent called scout"), "{text}");
    let shown = fastness(server.home(), "approve", &["--yes"]).await;
    assert!(
        shown.contains("define the agent scout with read"),
        "{shown}"
    );
    assert_eq!(ask().await, "I am look");
    let told = fastness(server.home(), "doctor", &[]).await;
    assert!(told.contains("scout (1 tools)"), "{told}");
    std::fs::write(&file, "---\ndescription: Finds\n---\nTake all.").unwrap();
    let text = ask().await;
    assert!(text.contains("There is no agent called scout"), "{text}");
}

#[tokio::test]
async fn d_07_hooks_of_a_sub_agent_are_told_which_agent_works() {
    let agent = Script::new().call([reads("a.txt")]).call([say("done")]);
    let script = giving([json!({"prompt": "find it"})]).agent("general", agent);
    let home = Home::new(binary(), script);
    home.write("a.txt", "treasure");
    let note = crate::hooks::hook("PreToolUse", "cat >> heard; echo >> heard");
    crate::hooks::configure(&home, &note);
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    let heard = server.home().read("heard").unwrap();
    let heard = heard.lines().filter(|line| !line.is_empty());
    let heard: Vec<Value> = heard
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let told = |index: usize| (&heard[index]["toolName"], &heard[index]["agent"]);
    assert_eq!(told(0), (&json!("task"), &Value::Null), "the person's own");
    assert_eq!(told(1), (&json!("read"), &json!("general")));
}
