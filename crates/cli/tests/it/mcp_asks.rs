//! What tool servers ask for while their tools run: answers of the person, and of the model.

use serde_json::{Value, json};
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Home, Program, Reply, wait_for};

use crate::hooks::configure;
use crate::mcp::home_with;
use crate::mcp_servers::by_pipes;
use crate::questions::{accept, event, with_forms};
use crate::support::stored;

/// A server whose tool `ask` passes its input on as a question and answers with what it was told; of
/// `hang` it says nothing. `ask_and_die` ends once it has asked.
const SERVER: &str = r#"
import json, os, sys
def say(message):
    message["jsonrpc"] = "2.0"
    print(json.dumps(message), flush=True)
tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("ask", "ask_and_die")]
waiting = None
for line in sys.stdin:
    asked = json.loads(line)
    method, id = asked.get("method"), asked.get("id")
    if method == "initialize":
        say({"id": id, "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "asker", "version": "1"}}})
    elif method == "tools/list":
        say({"id": id, "result": {"tools": tools}})
    elif method == "tools/call":
        name, given = asked["params"]["name"], asked["params"].get("arguments", {})
        waiting = id
        if given["method"] == "hang":
            continue
        say({"id": "q", "method": given["method"], "params": given.get("params", {})})
        if name == "ask_and_die":
            sys.exit(3)
    elif id == "q":
        said = {key: asked[key] for key in ("result", "error") if key in asked}
        say({"id": waiting, "result": {"content": [{"type": "text", "text": json.dumps(said)}]}})
    elif id is not None:
        say({"id": id, "error": {"code": -32601, "message": "unknown"}})
"#;

fn asking(name: &str, method: &str, params: Value) -> Script {
    let input = json!({"method": method, "params": params});
    Script::new().call([tool(&format!("mcp__asker__{name}"), input)])
}

/// A server that runs `script`, with the asking one in its settings.
async fn serve(script: Script) -> Program {
    let home = home_with(script);
    let mcp = format!(
        "[permissions]\nallow = [\"mcp__*\"]\n[mcp.asker]\ncommand = \"python3\"\n\
         args = [\"-c\", '''{SERVER}''']\nrequired = true\ntimeout_ms = 2000\n"
    );
    configure(&home, &mcp);
    Program::serve_in(home).await
}

fn elicitation(properties: Value) -> Value {
    let schema = json!({"type": "object", "properties": properties});
    json!({"mode": "form", "message": "Who are you?", "requestedSchema": schema})
}

/// What the server was told, as it told the model.
fn told(home: &Home, session: &str) -> Value {
    let text = event(home, session, "tool.result")["text"].clone();
    let text = text.as_str().unwrap();
    serde_json::from_str(text).unwrap_or_else(|_| json!(text))
}

#[tokio::test]
async fn a_server_asks_the_person_in_a_form_and_gets_what_they_filled_in() {
    let fields = json!({"name": {"type": "string"}, "age": {"type": "integer", "default": 30}});
    let script = asking("ask", "elicitation/create", elicitation(fields.clone()));
    let server = serve(script.call([say("done")])).await;
    let mut client = with_forms(&server, accept(json!({"name": "Ann"}))).await;
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "go").await.text, "done");
    let [asked] = client.requests() else {
        panic!("{:?}", client.requests());
    };
    assert_eq!(asked.params["message"], "asker asks: Who are you?");
    let used = event(server.home(), &session, "tool.use");
    assert_eq!(asked.params["toolCallId"], used["callId"]);
    let shown = &asked.params["requestedSchema"]["properties"]["age"];
    assert_eq!(shown["default"], 30);
    let expected = json!({"action": "accept", "content": {"name": "Ann", "age": 30}});
    assert_eq!(told(server.home(), &session)["result"], expected);
    let answered = event(server.home(), &session, "question.answered");
    assert_eq!(
        (&answered["content"], &answered["by"]),
        (&json!({"name": "Ann"}), &json!("local")),
        "the journal has the person's answer as it was"
    );
    let kinds = stored(server.home(), &session);
    let results = kinds.iter().filter(|kind| *kind == "tool.result").count();
    assert_eq!(results, 1, "the call has one outcome, its own");
}

#[tokio::test]
async fn without_forms_a_choice_is_shown_and_what_needs_words_can_only_be_declined() {
    let sure = json!({"sure": {"type": "boolean", "title": "Sure?"}});
    let words = json!({"type": "object", "properties": {"name": {"type": "string"}},
        "required": ["name"]});
    let words = json!({"message": "Name?", "requestedSchema": words});
    for (params, options, expected) in [
        (
            elicitation(sure),
            json!(["Yes", "No", "Don't answer"]),
            json!({"action": "accept", "content": {"sure": true}}),
        ),
        (words, json!(["Don't answer"]), json!({"action": "decline"})),
    ] {
        let script = asking("ask", "elicitation/create", params);
        let server = serve(script.call([say("done")])).await;
        let mut client = AcpClient::connect_ws(&server).await;
        client.on_permission(Choice::Hold);
        let session = client.new_session().await;
        let running = client.start_prompt(&session, "go").await;
        let asked = client.next_request().await;
        let offered = asked.params["options"].as_array().unwrap();
        let names: Vec<_> = offered.iter().map(|option| &option["name"]).collect();
        assert_eq!(json!(names), options);
        let first = &offered[0]["optionId"];
        let chosen = json!({"outcome": {"outcome": "selected", "optionId": first}});
        client.answer(&asked, Ok(chosen)).await;
        client.finish_prompt(&session, &running).await.unwrap();
        assert_eq!(told(server.home(), &session)["result"], expected);
    }
}

#[tokio::test]
async fn while_a_person_thinks_the_call_is_not_late_and_a_decline_is_an_answer() {
    let script = asking("ask", "${prompt}", elicitation(json!({})));
    let server = serve(script.call([say("${result}")])).await;
    let mut client = with_forms(&server, Reply::Hold).await;
    let (session, other) = (client.new_session().await, client.new_session().await);
    let running = client.start_prompt(&session, "elicitation/create").await;
    let asked = client.next_request().await;
    // A call that begins now ends by silence while the person still thinks about the other.
    let silent = client.prompt(&other, "hang").await.text;
    assert!(
        silent.contains("nothing was heard of it for 2 s"),
        "{silent}"
    );
    client
        .answer(&asked, Ok(json!({"action": "decline"})))
        .await;
    client.finish_prompt(&session, &running).await.unwrap();
    assert_eq!(
        told(server.home(), &session)["result"],
        json!({"action": "decline"})
    );
}

#[tokio::test]
async fn a_server_that_dies_with_a_question_open_takes_it_back_and_ends_its_call() {
    let script = asking("ask_and_die", "elicitation/create", elicitation(json!({})));
    let server = serve(script.call([say("after: ${result}")])).await;
    let mut client = with_forms(&server, Reply::Hold).await;
    let session = client.new_session().await;
    let begun = std::time::Instant::now();
    let text = client.prompt(&session, "go").await.text;
    assert!(text.contains("may have run"), "{text}");
    assert!(begun.elapsed().as_secs() < 10, "nobody waits for a person");
    // It was either asked and taken back, or never asked.
    let home = server.home();
    wait_for("the question to be closed", || {
        let kinds = stored(home, &session);
        let count = |kind: &str| kinds.iter().filter(|stored| *stored == kind).count();
        count("question.asked") == count("question.answered")
    })
    .await;
    assert_eq!(
        client.prompt(&session, "again").await.stop_reason,
        "end_turn"
    );
}

#[tokio::test]
async fn a_cancelled_turn_takes_back_what_a_server_asked() {
    let script = asking("ask", "elicitation/create", elicitation(json!({})));
    let server = serve(script).await;
    let mut client = with_forms(&server, Reply::Hold).await;
    let session = client.new_session().await;
    let running = client.start_prompt(&session, "go").await;
    let asked = client.next_request().await;
    client.cancel(&session).await;
    let taken_back = client.next_notification("$/cancel_request").await;
    assert_eq!(taken_back["requestId"], asked.id);
    let answer = client.finish_prompt(&session, &running).await.unwrap();
    assert_eq!(answer.stop_reason, "cancelled");
}

fn sampling() -> Value {
    let content = json!({"type": "text", "text": "What is 6 times 7?"});
    json!({"messages": [{"role": "user", "content": content}], "maxTokens": 50})
}

#[tokio::test]
async fn a_server_has_the_model_answer_once_the_person_allows_it() {
    let script = asking("ask", "sampling/createMessage", sampling())
        .call([say("forty-two")])
        .call([say("done")]);
    let server = serve(script).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let answer = client.prompt(&session, "go").await;
    assert_eq!(answer.text, "done", "what the server was told is not shown");
    let title = &client.requests()[0].params["toolCall"]["title"];
    let title = title.as_str().unwrap();
    assert!(title.contains("may the model answer"), "{title}");
    let said = told(server.home(), &session);
    assert_eq!(said["result"]["content"]["text"], "forty-two", "{said}");
    assert_eq!(said["result"]["stopReason"], "endTurn");
}

#[tokio::test]
async fn a_server_without_leave_gets_an_error_and_no_model() {
    let script = asking("ask", "sampling/createMessage", sampling()).call([say("done")]);
    let server = serve(script).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Reject);
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "go").await.text, "done");
    assert_eq!(told(server.home(), &session)["error"]["code"], -1);
}

#[tokio::test]
async fn a_rule_that_allows_a_tool_answers_nothing_in_a_persons_place() {
    for (method, params) in [
        ("sampling/createMessage", sampling()),
        (
            "elicitation/create",
            elicitation(json!({"ok": {"type": "boolean"}})),
        ),
    ] {
        let home = home_with(asking("ask", method, params).call([say("told: ${result}")]));
        let mcp = format!(
            "[mcp.asker]\ncommand = \"python3\"\nargs = [\"-c\", '''{SERVER}''']\n\
             required = true\n"
        );
        configure(&home, &mcp);
        let output = home.command("ask").args(["go", "--allow", "*"]).output();
        let output = output.await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let is_refused = said.contains("decline") || said.contains("has not allowed");
        assert!(is_refused, "{method}: {said}");
    }
}

#[tokio::test]
async fn a_server_is_told_the_sessions_directories() {
    let script = asking("ask", "roots/list", json!({})).call([say("done")]);
    let server = serve(script).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    let roots = &told(server.home(), &session)["result"]["roots"];
    let uri = roots[0]["uri"].as_str().unwrap();
    let workspace = server.home().workspace();
    assert_eq!(uri, format!("file://{}", workspace.to_str().unwrap()));
}

#[tokio::test]
async fn server_everything_asks_in_its_own_forms() {
    let real = by_pipes("server-everything", &["stdio"]);
    let call = tool("mcp__real__trigger-elicitation-request", json!({}));
    let script = Script::new().call([call]).call([say("${result}")]);
    let home = home_with(script);
    configure(
        &home,
        &format!("[permissions]\nallow = [\"mcp__*\"]\n[mcp.real]\nrequired = true\n{real}"),
    );
    let server = Program::serve_in(home).await;
    let mut client = with_forms(&server, accept(json!({"name": "Ann"}))).await;
    // It has the tool once it knows that we can be asked, and says so a little later.
    let mut text = String::new();
    for _ in 0..50 {
        let session = client.new_session().await;
        text = client.prompt(&session, "go").await.text;
        if !text.contains("no tool") {
            break;
        }
    }
    assert!(text.contains("- Name: Ann"), "{text}");
    assert!(
        text.contains("- Favorite Integer: 42"),
        "by default: {text}"
    );
}
