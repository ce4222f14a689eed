//! A tool server of 2026-07-28 through real sessions: it keeps nothing between requests, says what has changed
//! on a subscription, and answers a call that needs something with what it needs.

use serde_json::{Value, json};
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Home, Program, Reply, wait_for};

use crate::hooks::configure;
use crate::mcp::home_with;
use crate::questions::{accept, event, with_forms};

/// Such a server. `grow` gives it one more tool, `late`, and says so to who listens. `deploy` wants to know who
/// asks, what the model thinks and where it is, then a word more, and answers with all of that; `greedy`
/// always wants more. It notes what it is asked in the session's directory.
const SERVER: &str = r#"
import json, sys
def say(message):
    message["jsonrpc"] = "2.0"
    print(json.dumps(message), flush=True)
def answer(id, result):
    result.setdefault("resultType", "complete")
    say({"id": id, "result": result})
def text(id, text):
    answer(id, {"content": [{"type": "text", "text": text}]})
def form(message, field):
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message,
        "requestedSchema": {"type": "object", "properties": {field: {"type": "string"}}, "required": [field]}}}
THINK = {"method": "sampling/createMessage", "params": {"maxTokens": 50,
    "messages": [{"role": "user", "content": {"type": "text", "text": "Is it Friday?"}}]}}
LISTENER = "io.modelcontextprotocol/subscriptionId"
tools, listeners = ["grow", "deploy", "greedy"], []
for line in sys.stdin:
    asked = json.loads(line)
    method, id, params = asked.get("method"), asked.get("id"), asked.get("params", {})
    with open("noted", "a") as file:
        file.write(json.dumps(asked) + "\n")
    if method == "server/discover":
        answer(id, {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": True}},
            "ttlMs": 3600000, "cacheScope": "private"})
    elif method == "tools/list":
        answer(id, {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in tools],
            "ttlMs": 3600000, "cacheScope": "private"})
    elif method == "subscriptions/listen":
        listeners.append(id)
        say({"method": "notifications/subscriptions/acknowledged",
            "params": {"_meta": {LISTENER: id}, "notifications": params["notifications"]}})
    elif method == "tools/call":
        name, state, given = params["name"], params.get("requestState"), params.get("inputResponses", {})
        if name == "grow":
            tools.append("late")
            for listener in listeners * 3:
                say({"method": "notifications/tools/list_changed", "params": {"_meta": {LISTENER: listener}}})
            text(id, "grown")
        elif name == "late":
            text(id, "late and here")
        elif name == "greedy":
            answer(id, {"resultType": "input_required", "requestState": "more"})
        elif state is None:
            answer(id, {"resultType": "input_required", "requestState": "one", "inputRequests":
                {"who": form("Who are you?", "name"), "think": THINK, "where": {"method": "roots/list"}}})
        elif state == "one":
            answer(id, {"resultType": "input_required", "requestState": json.dumps(given),
                "inputRequests": {"word": form("The word?", "word")}})
        else:
            text(id, json.dumps({"first": json.loads(state), "second": given}))
    elif id is not None:
        say({"id": id, "error": {"code": -32601, "message": "unknown"}})
"#;

async fn serve(script: Script) -> Program {
    let home = home_with(script);
    let mcp = format!(
        "[permissions]\nallow = [\"mcp__*\"]\n[mcp.newer]\ncommand = \"python3\"\n\
         args = [\"-c\", '''{SERVER}''']\nrequired = true\n"
    );
    configure(&home, &mcp);
    Program::serve_in(home).await
}

/// What the server was asked for by `method`, in order.
fn noted(home: &Home, method: &str) -> Vec<Value> {
    let noted = home.read("noted").unwrap_or_default();
    let noted = noted
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    noted
        .filter(|asked: &Value| asked["method"] == method)
        .collect()
}

#[tokio::test]
async fn a_server_of_2026_07_28_says_on_its_subscription_that_it_has_a_new_tool() {
    let late = || tool("mcp__newer__late", json!({}));
    let mut script = Script::new()
        .call([say("hello")])
        .call([tool("mcp__newer__grow", json!({}))])
        .call([say("${result}")]);
    for _ in 0..100 {
        script = script.call([late()]).call([say("${result}")]);
    }
    let server = serve(script).await;
    let home = server.home();
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "hello").await;
    wait_for("the server to be listened to", || {
        !noted(home, "subscriptions/listen").is_empty()
    })
    .await;
    let listened = &noted(home, "subscriptions/listen")[0]["params"];
    assert_eq!(listened["notifications"], json!({"toolsListChanged": true}));
    assert_eq!(client.prompt(&session, "grow").await.text, "grown");
    // It is asked what it has now; what it says is known a moment later.
    wait_for("the tools to be listed again", || {
        noted(home, "tools/list").len() > 1
    })
    .await;
    let mut text = String::new();
    for _ in 0..100 {
        text = client.prompt(&session, "call it").await.text;
        if !text.contains("no tool") {
            break;
        }
    }
    assert_eq!(text, "late and here");
    assert_eq!(
        noted(home, "tools/list").len(),
        2,
        "said three times, asked once, and not answered from what was kept"
    );
    assert!(
        noted(home, "initialize").is_empty(),
        "it is of the newer era"
    );
}

#[tokio::test]
async fn a_server_of_2026_07_28_is_called_again_with_what_it_needs() {
    let script = Script::new()
        .call([tool("mcp__newer__deploy", json!({"to": "here"}))])
        .call([say("never on Fridays")])
        .call([say("done")]);
    let server = serve(script).await;
    let home = server.home();
    let mut client = with_forms(&server, accept(json!({"name": "Ann", "word": "please"}))).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "go").await.text, "done");

    let result = event(home, &session, "tool.result");
    let told = result["text"].as_str().unwrap();
    let told: Value = serde_json::from_str(told).unwrap_or_else(|_| panic!("{told}"));
    let first = &told["first"];
    let accepted = |content: Value| json!({"action": "accept", "content": content});
    assert_eq!(first["who"], accepted(json!({"name": "Ann"})));
    assert_eq!(first["think"]["content"]["text"], "never on Fridays");
    let workspace = format!("file://{}", home.workspace().to_str().unwrap());
    assert_eq!(first["where"]["roots"][0]["uri"], workspace);
    assert_eq!(told["second"]["word"], accepted(json!({"word": "please"})));

    let calls = noted(home, "tools/call");
    let [one, two, three] = &calls[..] else {
        panic!("{calls:?}");
    };
    let state = |call: &Value| call["params"]["requestState"].clone();
    assert_eq!((state(one), state(two)), (Value::Null, json!("one")));
    let given: Value = serde_json::from_str(state(three).as_str().unwrap()).unwrap();
    assert_eq!(given, *first, "as the server wrote it");
    for call in &calls {
        assert_eq!(call["params"]["arguments"], json!({"to": "here"}));
    }
    assert!(
        one["id"] != two["id"] && two["id"] != three["id"],
        "each is a request of its own"
    );
    let events = home.events(&session);
    let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!((count("tool.use"), count("tool.result")), (1, 1));
}

#[tokio::test]
async fn what_a_server_of_2026_07_28_needs_is_not_given_without_leave() {
    let script = Script::new()
        .call([tool("mcp__newer__deploy", json!({}))])
        .call([say("${result}")]);
    let server = serve(script).await;
    let mut client = with_forms(&server, Reply::Result(json!({"action": "decline"}))).await;
    client.on_permission(Choice::Reject);
    let session = client.new_session().await;
    let text = client.prompt(&session, "go").await.text;
    assert!(
        text.contains("the user has not allowed the model"),
        "{text}"
    );
    let calls = noted(server.home(), "tools/call");
    assert_eq!(calls.len(), 1, "it is not called again: {calls:?}");
}

#[tokio::test]
async fn a_server_of_2026_07_28_that_always_needs_more_is_given_up() {
    let script = Script::new()
        .call([tool("mcp__newer__greedy", json!({}))])
        .call([say("${result}")]);
    let server = serve(script).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let text = client.prompt(&session, "go").await.text;
    assert!(text.contains("asks for more and more"), "{text}");
    assert_eq!(noted(server.home(), "tools/call").len(), 10);
}

#[tokio::test]
async fn a_cancelled_turn_takes_back_what_a_server_of_2026_07_28_needs() {
    let script = Script::new().call([tool("mcp__newer__deploy", json!({}))]);
    let server = serve(script).await;
    let mut client = with_forms(&server, Reply::Hold).await;
    client.on_permission(Choice::Hold);
    let session = client.new_session().await;
    let running = client.start_prompt(&session, "go").await;
    let asked = client.next_request().await;
    client.cancel(&session).await;
    let taken_back = client.next_notification("$/cancel_request").await;
    assert_eq!(taken_back["requestId"], asked.id);
    let answer = client.finish_prompt(&session, &running).await.unwrap();
    assert_eq!(answer.stop_reason, "cancelled");
    assert_eq!(noted(server.home(), "tools/call").len(), 1);
}
