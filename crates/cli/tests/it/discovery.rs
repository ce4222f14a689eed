//! Tools that a client has of its own (tier one), beside its files and terminal (tier two) and the
//! server's tools (tier three).

use serde_json::{Value, json};
use testkit::model::RecordingModel;
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Program, Reply, RpcError, wait_for};
use tokio::time::{Duration, Instant};

use crate::support::{binary, serve, serve_with, stored};

/// A client with tools of its own.
async fn connect(server: &Program, discovered: Reply) -> AcpClient {
    let dialed = AcpClient::dial_ws(&server.acp_url(), Some(server.token())).await;
    let mut client = dialed.unwrap().in_directory(server.home().workspace());
    let offers = json!({
        "_meta": {"fastness": {"tools": true}}, "session": {"notices": {}},
    });
    client.initialize_with(offers).await;
    client.on_permission(Choice::Allow);
    client.on_request("_discover_tools", discovered);
    client
}

fn bell() -> Reply {
    let schema = json!({"type": "object", "properties": {"times": {"type": "integer"}}});
    Reply::Result(json!({"tools": [
        {"name": "ring", "description": "Rings a bell.", "inputSchema": schema},
        {"name": "read", "description": "Not the file tool."},
    ]}))
}

fn rings() -> Script {
    Script::new()
        .call([tool("client__ring", json!({"times": 2}))])
        .call([say("told: ${result}")])
}

fn asked(client: &AcpClient, method: &str) -> usize {
    let requests = client.requests().iter();
    requests.filter(|request| request.method == method).count()
}

fn result(server: &Program, session: &str) -> Value {
    let events = server.home().events(session);
    let found = events
        .into_iter()
        .rfind(|event| event["type"] == "tool.result");
    found.unwrap()
}

#[tokio::test]
async fn d_06_a_clients_own_tools_are_offered_beside_the_others_and_run_in_the_client() {
    let server = serve(rings()).await;
    let mut client = connect(&server, bell()).await;
    let content = json!([{"type": "text", "text": "ding"}, {"type": "image"}]);
    client.on_request("_call_tool", Reply::Result(json!({ "content": content })));
    let session = client.new_session().await;
    let answer = client.prompt(&session, "go").await;
    assert_eq!(answer.text, "told: ding\n[image is not shown]");
    let called = client
        .requests()
        .iter()
        .find(|request| request.method == "_call_tool");
    let called = &called.unwrap().params;
    let events = server.home().events(&session);
    let used = events
        .iter()
        .find(|event| event["type"] == "tool.use")
        .unwrap();
    let expected = json!({
        "sessionId": session, "toolCallId": used["callId"], "name": "ring", "arguments": {"times": 2},
    });
    assert_eq!(*called, expected);
    assert_eq!(used["title"], "ring in your client");
    assert_eq!(
        asked(&client, "session/request_permission"),
        1,
        "it is asked about"
    );
}

#[tokio::test]
async fn d_06_the_model_is_shown_all_three_tiers() {
    let model = RecordingModel::start().await;
    let server = Program::serve_in(model.home(binary())).await;
    let mut client = connect(&server, bell()).await;
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    let request = &model.requests()[0];
    let offered = request["tools"].as_array().unwrap().iter();
    let names: Vec<_> = offered
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    for name in ["read", "bash", "client__ring", "client__read"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert_eq!(names.iter().filter(|name| **name == "read").count(), 1);
}

#[tokio::test]
async fn d_06_what_a_person_rejects_does_not_run_in_the_client() {
    let server = serve(rings()).await;
    let mut client = connect(&server, bell()).await;
    client.on_permission(Choice::Reject);
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    assert_eq!(asked(&client, "_call_tool"), 0);
    assert_eq!(result(&server, &session)["status"], "denied");
}

#[tokio::test]
async fn a_11_twenty_first_prompts_discover_once() {
    let server = serve(Script::says("done")).await;
    let mut client = connect(&server, Reply::Hold).await;
    let session = client.new_session().await;
    let mut prompts = Vec::new();
    for number in 0..20 {
        let params = json!({
            "sessionId": session, "prompt": [{"type": "text", "text": number.to_string()}],
            "_meta": {"fastness": {"queue": true}},
        });
        prompts.push(client.start("session/prompt", params).await);
    }
    let discovery = client.next_request().await;
    assert_eq!(discovery.method, "_discover_tools");
    client
        .answer(&discovery, Ok(json!({"tools": [{"name": "ring"}]})))
        .await;
    let mut ran = 0;
    for prompt in &prompts {
        ran += usize::from(client.wait(prompt).await.is_ok());
    }
    assert_eq!(ran, 17, "one runs, sixteen wait, the rest is refused");
    assert_eq!(asked(&client, "_discover_tools"), 1);
}

#[tokio::test]
async fn d_06_a_client_that_does_not_say_which_tools_it_has_is_not_waited_for_again() {
    let limits = [("FASTNESS_LIMITS_CLIENT_REQUEST_MS", "100")];
    let server = serve_with(Script::says("done"), &limits).await;
    let mut client = connect(&server, Reply::Hold).await;
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "one").await.text, "done");
    assert_eq!(client.prompt(&session, "two").await.text, "done");
    assert_eq!(asked(&client, "_discover_tools"), 1);
    let notices = stored(server.home(), &session);
    let told = server.home().events(&session);
    let told = told
        .iter()
        .filter(|event| event["type"] == "notice" && event["kind"] == "project");
    let told: Vec<_> = told.map(|event| event["text"].as_str().unwrap()).collect();
    assert_eq!(told.len(), 1, "{notices:?}");
    assert!(
        told[0].contains("did not answer _discover_tools"),
        "{told:?}"
    );
}

#[tokio::test]
async fn d_06_a_client_that_lies_about_its_tools_harms_nobody() {
    let huge = "x".repeat(1_000_000);
    let odd = [
        json!(null),
        json!({"tools": "all"}),
        json!({"tools": [7, null, {"name": ["ring"]}, {"name": "bash; rm -rf /"}]}),
        json!({"tools": [{"name": "ring", "inputSchema": {"title": huge}}]}),
    ];
    for reply in odd {
        let server = serve(rings()).await;
        let mut client = connect(&server, Reply::Result(reply.clone())).await;
        let session = client.new_session().await;
        let answer = client.prompt(&session, "go").await;
        assert!(
            answer.text.contains("no tool called client__ring"),
            "{reply}: {}",
            answer.text
        );
        assert_eq!(asked(&client, "_call_tool"), 0);
    }
}

#[tokio::test]
async fn d_06_what_goes_wrong_in_the_client_is_the_calls_failure_and_the_turn_goes_on() {
    let error = RpcError::new(-32000, "the bell is broken");
    let stories = [
        (Reply::Error(error), "failed", "the bell is broken"),
        (
            Reply::Result(json!({"content": "no list"})),
            "unknown",
            "cannot be read",
        ),
        (
            Reply::Hold,
            "unknown",
            "did not answer _call_tool within 0.2 s",
        ),
        (
            Reply::Result(
                json!({"content": [{"type": "text", "text": "cracked"}], "isError": true}),
            ),
            "failed",
            "cracked",
        ),
    ];
    for (reply, status, text) in stories {
        let limits = [("FASTNESS_LIMITS_CLIENT_REQUEST_MS", "200")];
        let server = serve_with(rings(), &limits).await;
        let mut client = connect(&server, bell()).await;
        client.on_request("_call_tool", reply);
        let session = client.new_session().await;
        let answer = client.prompt(&session, "go").await;
        assert!(answer.text.contains(text), "{}", answer.text);
        assert_eq!(result(&server, &session)["status"], status);
        assert_eq!(
            client.prompt(&session, "next").await.stop_reason,
            "end_turn"
        );
    }
}

#[tokio::test]
async fn d_06_a_cancelled_call_is_taken_back_from_the_client() {
    let server = serve(rings()).await;
    let mut client = connect(&server, bell()).await;
    client.on_request("_call_tool", Reply::Hold);
    let session = client.new_session().await;
    let running = client.start_prompt(&session, "go").await;
    let call = client.next_request().await;
    assert_eq!(call.method, "_call_tool");
    client.cancel(&session).await;
    let taken_back = client.next_notification("$/cancel_request").await;
    assert_eq!(taken_back["requestId"], call.id);
    let answer = client.finish_prompt(&session, &running).await.unwrap();
    assert_eq!(answer.stop_reason, "cancelled");
}

#[tokio::test]
async fn d_06_a_client_that_leaves_takes_its_tools_along() {
    let script = rings()
        .call([tool("client__ring", json!({}))])
        .call([say("${result}")]);
    let limits = [("FASTNESS_LIMITS_CLIENT_BACK_MS", "100")];
    let server = serve_with(script, &limits).await;
    let mut client = connect(&server, bell()).await;
    client.on_request("_call_tool", Reply::Hold);
    let session = client.new_session().await;
    client.start_prompt(&session, "go").await;
    client.next_request().await;
    let left = Instant::now();
    drop(client);
    let home = server.home();
    let has = |kind: &str| stored(home, &session).contains(&kind.to_owned());
    wait_for("the call to fail", || has("tool.result")).await;
    assert!(left.elapsed() < Duration::from_secs(5));
    let failed = result(&server, &session);
    assert_eq!(failed["status"], "unknown");
    assert!(
        failed["text"].as_str().unwrap().contains("client gone"),
        "{failed}"
    );
    wait_for("the turn to end", || has("result")).await;
    let mut other = AcpClient::connect_ws(&server).await;
    other.on_permission(Choice::Allow);
    other.load_session(&session).await.unwrap();
    let answer = other.prompt(&session, "again").await;
    assert!(
        answer.text.contains("no tool called client__ring"),
        "{}",
        answer.text
    );
}
