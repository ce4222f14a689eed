//! What tool servers offer besides tools, and what is put into their descriptions.

use serde_json::{Value, json};
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Home, Program};

use crate::hooks::configure;
use crate::mcp::home_with;
use crate::project::run;
use crate::questions::event;

/// A server with a few resources, a prompt and as many tools as it is told to have. `link` answers with
/// a link, `env` with a variable, `dial` says whether it reaches a port, others say their name. With
/// `stumble` it ends at its first start.
pub(crate) const SERVER: &str = r#"
import json, os, socket, sys
def say(id, result):
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
def text(text):
    return {"content": [{"type": "text", "text": text}]}
if "stumble" in sys.argv and not os.path.exists("stumbled"):
    open("stumbled", "w").close()
    sys.exit(1)
names = ["link", "env", "dial"] + ["tool_%02d" % number for number in range(int(sys.argv[1]))]
for line in sys.stdin:
    asked = json.loads(line)
    method, id, params = asked.get("method"), asked.get("id"), asked.get("params", {})
    if method == "initialize":
        say(id, {"protocolVersion": "2025-06-18", "serverInfo": {"name": "small", "version": "1"},
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}}})
    elif method == "tools/list":
        say(id, {"tools": [{"name": name, "description": "does " + name, "inputSchema": {"type": "object"}}
            for name in names]})
    elif method == "resources/list":
        say(id, {"resources": [{"uri": "note://one", "name": "one"}, {"uri": "note://long", "name": "long"}]})
    elif method == "resources/read":
        body = "the note" if params["uri"] == "note://one" else "0123456789\n" * 50000
        say(id, {"contents": [{"uri": params["uri"], "mimeType": "text/plain", "text": body}]})
    elif method == "prompts/list":
        say(id, {"prompts": [{"name": "trip", "description": "Plans a trip",
            "arguments": [{"name": "city", "required": True}]}]})
    elif method == "prompts/get":
        city = params["arguments"]["city"]
        say(id, {"messages": [{"role": "user", "content": {"type": "text", "text": "Plan a trip to " + city}}]})
    elif method == "tools/call":
        name, given = params["name"], params.get("arguments", {})
        if name == "link":
            say(id, {"content": [{"type": "resource_link", "uri": "note://one", "name": "one"}]})
        elif name == "env":
            say(id, text(os.environ.get(given["name"], "unset")))
        elif name == "dial":
            try:
                socket.create_connection(("127.0.0.1", given["port"]), 2).close()
                say(id, text("reached"))
            except OSError:
                say(id, text("not reached"))
        else:
            say(id, text("ran " + name))
    elif id is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "?"}}), flush=True)
"#;

/// A home with the server as the operator's own.
pub(crate) fn home_of(script: impl Into<Value>, words: &[&str], more: &str) -> Home {
    let home = home_with(script);
    let args = json!([&["-c", SERVER], words].concat());
    let mcp = format!(
        "[permissions]\nallow = [\"mcp__*\", \"mcp_read_resource\"]\n[mcp.small]\n\
         command = \"python3\"\nargs = {args}\nrequired = true\n{more}"
    );
    configure(&home, &mcp);
    home
}

pub(crate) async fn prompted(home: Home, text: &str) -> (Program, String, String) {
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let said = client.prompt(&session, text).await.text;
    (server, session, said)
}

#[tokio::test]
async fn a_linked_resource_is_shown_as_one_and_can_be_read() {
    let read = |input: Value| tool("mcp_read_resource", input);
    let script = Script::new()
        .call([tool("mcp__small__link", json!({}))])
        .call([read(json!({"server": "small"}))])
        .call([
            say("[${result}]"),
            read(json!({"server": "small", "uri": "note://one"})),
        ])
        .call([
            say("[${result}]"),
            read(json!({"server": "small", "uri": "note://long"})),
        ])
        .call([say("[${result}]"), read(json!({"server": "other"}))])
        .call([say("[${result}]")]);
    let (server, session, said) = prompted(home_of(script, &["0"], ""), "go").await;
    assert!(said.contains("note://one (one)"), "listed: {said}");
    assert!(said.contains("the note"), "read: {said}");
    assert!(
        said.contains("can be read as output:"),
        "too long: {}",
        said.len()
    );
    assert!(said.contains("no server called other"), "{said}");
    let result = event(server.home(), &session, "tool.result");
    let shown = &result["blocks"][0]["content"];
    assert_eq!(
        (&shown["type"], &shown["uri"]),
        (&json!("resource_link"), &json!("note://one"))
    );
}

#[tokio::test]
async fn a_prompt_of_a_server_is_a_command_that_a_person_types() {
    let home = home_of(Script::says("read: ${prompt}"), &["0"], "");
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client
        .prompt(&session, "/mcp__small__trip Paris by night")
        .await;
    let expanded = event(server.home(), &session, "prompt.expanded");
    assert_eq!(expanded["name"], "mcp__small__trip");
    let text = expanded["text"].as_str().unwrap();
    assert!(text.ends_with("Plan a trip to Paris by night"), "{text}");
    client.prompt(&session, "/mcp__small__trip").await;
    client.prompt(&session, "/mcp__small__none").await;
    let notices = server.home().events(&session);
    let told = |words: &str| {
        notices
            .iter()
            .any(|event| event["text"].to_string().contains(words))
    };
    assert!(
        told("it needs city") && told("no such prompt"),
        "{notices:?}"
    );
    let updates = client.received().into_iter();
    let mut offered = updates.filter(|frame| frame.contains("available_commands_update"));
    let offered = offered.next_back().unwrap();
    assert!(offered.contains("mcp__small__trip"), "{offered}");
}

#[tokio::test]
async fn among_many_tools_the_model_searches_and_then_calls() {
    let script = Script::new()
        .call([tool("tool_search", json!({"query": "tool_41"}))])
        .call([say("[${result}]"), tool("mcp__small__tool_41", json!({}))])
        .call([say("[${result}]")]);
    let (_server, _, said) = prompted(home_of(script, &["60"], ""), "go").await;
    assert!(said.contains("mcp__small__tool_41: does tool_41"), "{said}");
    assert!(said.ends_with("[ran tool_41]"), "{said}");
}

#[tokio::test]
async fn a_required_server_that_stumbles_is_waited_for() {
    let script = Script::new()
        .call([tool("mcp__small__tool_00", json!({}))])
        .call([say("${result}")]);
    let (_server, _, said) = prompted(home_of(script, &["1", "stumble"], ""), "go").await;
    assert_eq!(said, "ran tool_00");
}

/// What a session says whose project names the server as `entry` adds.
pub(crate) async fn of_project(script: Script, entry: Value, approved: &str) -> String {
    let home = home_with(script)
        .env("WHO", "somebody")
        .env("FASTNESS_SECRET", "hidden");
    let mut server = json!({"command": "python3", "args": ["-c", SERVER, "0"],
        "required": true});
    for (key, value) in entry.as_object().unwrap() {
        server[key] = value.clone();
    }
    home.write(
        ".mcp.json",
        &json!({"mcpServers": {"small": server}}).to_string(),
    );
    let (shown, _) = run(&home, "approve", &["--yes"]).await;
    assert!(shown.contains(approved), "{shown}");
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    client.prompt(&session, "go").await.text
}

#[tokio::test]
async fn variables_in_a_projects_file_are_put_in_but_never_ours() {
    let asks = |name: &str| {
        let script = Script::new().call([tool("mcp__small__env", json!({"name": name}))]);
        script.call([say("${result}")])
    };
    let entry = json!({"env": {"A": "${WHO} ${NOT_SET_HERE:-nobody}"}});
    let said = of_project(asks("A"), entry, "run the tool server small").await;
    assert_eq!(said, "somebody nobody");
    for missing in ["${FASTNESS_SECRET}", "${NOT_SET_HERE}"] {
        let entry = json!({"env": {"A": missing}});
        let said = of_project(asks("A"), entry, "run the tool server small").await;
        assert!(said.contains("no tool"), "{missing}: {said}");
    }
}

#[tokio::test]
async fn a_server_is_added_tried_and_taken_out_again() {
    let home = home_with(Script::says("hi"));
    configure(
        &home,
        "# mine\n[permissions]\nallow = [\"mcp__*\"] # all of them\n",
    );
    let (said, code) = run(&home, "mcp", &["test", "small"]).await;
    assert_eq!(code, Some(1), "{said}");
    let add = [
        "add", "small", "--env", "A=b c", "--", "python3", "-c", SERVER, "2",
    ];
    let (said, code) = run(&home, "mcp", &add).await;
    assert_eq!(code, Some(0), "{said}");
    let (said, code) = run(&home, "mcp", &add).await;
    assert_eq!(code, Some(1), "it is there already: {said}");
    let (said, code) = run(&home, "mcp", &["test", "small"]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("mcp__small__tool_01"), "{said}");
    let (said, code) = run(&home, "mcp", &["remove", "small"]).await;
    assert_eq!(code, Some(0), "{said}");
    let (said, code) = run(&home, "mcp", &["list"]).await;
    assert!(code == Some(0) && !said.contains("small"), "{said}");
    for (wrong, expected) in [
        (vec!["remove", "small"], Some(1)),
        (vec!["add", "small"], Some(2)),
        (vec!["add", "a b", "--", "x"], Some(2)),
        (vec!["add", "s", "--type", "http", "--", "x"], Some(2)),
    ] {
        let (said, code) = run(&home, "mcp", &wrong).await;
        assert_eq!(code, expected, "{wrong:?}: {said}");
    }
    let url = [
        "add",
        "far",
        "--url",
        "https://example.com/mcp",
        "--header",
        "X-Key=k",
        "--project",
    ];
    let (said, _) = run(&home, "mcp", &url).await;
    assert!(said.contains("fastness approve"), "{said}");
    let written = home.read("fastness.toml").unwrap();
    let expected = "[mcp.far]\nurl = \"https://example.com/mcp\"\nheaders = { X-Key = \"k\" }\n";
    assert_eq!(written, expected);
}

#[tokio::test]
async fn removing_a_server_leaves_text_in_strings_alone() {
    let home = home_with(Script::says("hi"));
    let hook = "[[hooks]]\nevent = \"Stop\"\ncommand = \'\'\'\n[mcp.small]\nkeep = me\n\'\'\'\n";
    let server = "# mine\n[mcp.small]\ncommand = \"python3\"\n";
    configure(&home, &format!("{hook}\n{server}"));
    let (said, code) = run(&home, "mcp", &["remove", "small"]).await;
    assert_eq!(code, Some(0), "{said}");
    let path = home.user_dir().join(".config/fastness/config.toml");
    assert_eq!(std::fs::read_to_string(path).unwrap(), hook);
}

#[tokio::test]
async fn project_file_that_is_a_link_is_not_written() {
    let home = home_with(Script::says("hi"));
    let secret = home.user_dir().join("notes.toml");
    std::fs::write(&secret, "a = 1\n").unwrap();
    std::os::unix::fs::symlink(&secret, home.workspace().join("fastness.toml")).unwrap();
    let add = ["add", "x", "--project", "--", "python3"];
    let (said, code) = run(&home, "mcp", &add).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("is a symbolic link"), "{said}");
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "a = 1\n");
    // A file that leads nowhere yet would be made.
    std::fs::remove_file(&secret).unwrap();
    let (said, code) = run(&home, "mcp", &add).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(!secret.exists());
}
