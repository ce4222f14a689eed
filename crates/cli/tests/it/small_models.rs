//! What small models do through the real program: other agents' names for tools, calls written as
//! text, the same call again and again.

use serde_json::{Value, json};
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Home, Program};

use crate::hooks::configure;
use crate::support::{binary, serve_with};

async fn serve(script: impl Into<Value>, settings: &str) -> Program {
    let home = Home::new(binary(), script);
    configure(&home, settings);
    Program::serve_in(home).await
}

fn events(home: &Home, session: &str, kind: &str) -> Vec<Value> {
    let mut events = home.events(session);
    events.retain(|event| event["type"] == kind);
    events
}

#[tokio::test]
async fn an_alias_cannot_pass_a_deny_rule() {
    let names = [
        "shell",
        "Bash",
        "functions.bash",
        "run_terminal_cmd",
        "default_api.execute_command",
    ];
    let call = |name: &str| tool(name, json!({"cmd": "touch harm"}));
    let script = names
        .iter()
        .fold(Script::new(), |script, name| script.call([call(name)]));
    let written = "{\"name\": \"shell\", \"arguments\": {\"cmd\": \"touch harm\"}}";
    let script = script.call([say(written)]).call([say("done")]);
    let rules = "[permissions]\nallow = [\"bash(echo *)\"]\ndeny = [\"bash(touch *)\"]\n";
    let server = serve(script, rules).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    assert_eq!(server.home().read("harm"), None);
    assert!(
        client.requests().is_empty(),
        "a denied call is not asked about"
    );
    for call in events(server.home(), &session, "tool.use") {
        assert_eq!(call["name"], "bash");
        assert_eq!(call["input"], json!({"command": "touch harm"}));
    }
    let results = events(server.home(), &session, "tool.result");
    assert_eq!(results.len(), names.len() + 1);
    assert!(results.iter().all(|result| result["status"] == "denied"));
}

#[tokio::test]
async fn a_permission_request_shows_what_will_run() {
    let written = "<tool_call>\n{\"name\": \"write_file\", \"arguments\": {\"file_path\": \"a\", \"contents\": \"x\"}}\n</tool_call>";
    let script = Script::new().call([say(written)]).call([say("done")]);
    let server = serve(script, "").await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    assert!(client.prompt(&session, "go").await.text.ends_with("done"));
    assert_eq!(client.requests().len(), 1);
    assert_eq!(server.home().read("a").as_deref(), Some("x"));
    let call = &events(server.home(), &session, "tool.use")[0];
    assert_eq!(
        (&call["name"], &call["title"]),
        (&json!("write"), &json!("Write a"))
    );
    assert_eq!(call["input"], json!({"path": "a", "content": "x"}));
}

#[tokio::test]
async fn a_turn_of_repeats_ends_with_an_error_that_clients_see() {
    let script = Script::new().call([tool("read", json!({"path": "a"}))]);
    let server = serve_with(script, &[("FASTNESS_LIMITS_REPEATS_MAX", "4")]).await;
    server.home().write("a", "text");
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let error = client.try_prompt(&session, "go").await.unwrap_err();
    assert_eq!(error.data["kind"], "model_error");
    assert!(
        error
            .message
            .contains("its last 4 calls (the newest of `read`)"),
        "{error:?}"
    );
    let results = events(server.home(), &session, "tool.result");
    assert_eq!(results.len(), 5);
    assert_eq!(results[0]["text"], "1\ttext");
    assert!(
        results[1]["text"]
            .as_str()
            .unwrap()
            .starts_with("Not run again")
    );
    let calls = events(server.home(), &session, "tool.use");
    assert_eq!(calls.len(), 5);
}

#[tokio::test]
async fn an_edit_of_an_unread_file_shows_it_unless_a_rule_denies_reading() {
    let edit = json!({"path": "a", "old": "one", "new": "two"});
    let script = || {
        let script = Script::new().call([tool("edit", edit.clone())]);
        script.call([say("${result}")])
    };
    for (rules, is_shown) in [
        ("[permissions]\nallow = [\"edit\"]\n", true),
        (
            "[permissions]\nallow = [\"edit\"]\ndeny = [\"read(a)\"]\n",
            false,
        ),
        (
            "[permissions]\nallow = [\"edit\"]\nask = [\"read(a)\"]\n",
            false,
        ),
    ] {
        let server = serve(script(), rules).await;
        server.home().write("a", "one secret\n");
        let mut client = AcpClient::connect_ws(&server).await;
        let session = client.new_session().await;
        let answer = client.prompt(&session, "go").await.text;
        assert!(
            answer.contains("was not edited: it was not read"),
            "{answer}"
        );
        assert_eq!(
            answer.contains("1\tone secret"),
            is_shown,
            "{rules}: {answer}"
        );
    }
}
