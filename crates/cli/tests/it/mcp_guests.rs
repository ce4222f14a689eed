//! What clients with tokens of their own may name as tool servers: nothing on this machine, and no programs. What
//! the operator has set is not theirs.

use serde_json::{Value, json};
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Program};

use crate::hooks::configure;
use crate::identity::token;
use crate::mcp::home_with;
use crate::mcp_apart::keyed;

/// A client that shows notices.
async fn connect(server: &Program, token: &str) -> AcpClient {
    let dialed = AcpClient::dial_ws(&server.acp_url(), Some(token)).await;
    let mut client = dialed.unwrap().in_directory(server.home().workspace());
    let capabilities = json!({"session": {"notices": {}}});
    client.initialize_with(capabilities).await;
    client.on_permission(Choice::Allow);
    client
}

/// What comes of calling one tool of each server in a session that names `far` and a program; and what is told.
async fn prompted(client: &mut AcpClient, server: &Program, far: &str) -> (String, String) {
    let program = "open('ran', 'w').close()";
    let servers = json!([
        {"type": "http", "name": "far", "url": far, "headers": []},
        {"name": "near", "command": "python3", "args": ["-c", program], "env": []},
    ]);
    let params = json!({"cwd": server.home().workspace(), "mcpServers": servers});
    let session = client.call("session/new", params).await.unwrap();
    let session = session["sessionId"].as_str().unwrap();
    let answer = client.prompt(session, "go").await;
    let notices = answer.updates.iter().filter(|said| said.kind == "notice");
    let notices: Vec<Value> = notices.map(|said| said.update.clone()).collect();
    (answer.text, json!(notices).to_string())
}

#[tokio::test]
async fn policy_06_a_client_with_its_own_token_reaches_neither_this_machine_nor_programs() {
    let (far, own) = (keyed().await, keyed().await);
    let script = Script::new()
        .call([tool("mcp__far__who_nobody", json!({}))])
        .call([say("[${result}]"), tool("mcp__own__who_nobody", json!({}))])
        .call([say("[${result}]")]);
    let home = home_with(script);
    configure(
        &home,
        &format!("[mcp.own]\nurl = \"{own}\"\nrequired = true\n"),
    );
    let server = Program::serve_in(home).await;
    let secret = token(server.home(), &["friend"]).await;
    let mut friend = connect(&server, &secret).await;
    let (said, told) = prompted(&mut friend, &server, &far).await;
    assert_eq!(said.matches("There is no tool").count(), 2, "{said}");
    assert!(told.contains("MCP server far: it cannot be used"), "{told}");
    assert!(
        told.contains("MCP server near: it cannot be used"),
        "{told}"
    );
    assert!(!told.contains("own"), "{told}");
    assert!(server.home().read("ran").is_none(), "no program ran");

    let mut local = connect(&server, server.token()).await;
    let (said, told) = prompted(&mut local, &server, &far).await;
    assert_eq!(said, "[you are nobody][you are nobody]");
    assert!(!told.contains("MCP server far"), "{told}");
    assert!(server.home().read("ran").is_some(), "this one may");
}
