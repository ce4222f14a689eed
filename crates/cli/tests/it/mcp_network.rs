//! Which programs of tool servers may reach the network: none, unless somebody has said so.

use serde_json::json;
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Home, Program};
use tokio::net::TcpListener;

use crate::hooks::configure;
use crate::mcp::home_with;
use crate::mcp_offers::{SERVER, home_of, of_project, prompted};
use crate::project::run;

#[tokio::test]
async fn a_projects_program_has_no_network_unless_that_is_written_and_approved() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for (entry, approved, expected) in [
        (json!({}), "tool server small:", "not reached"),
        (
            json!({"network": true}),
            "small (with the network)",
            "reached",
        ),
    ] {
        let script = Script::new()
            .call([tool("mcp__small__dial", json!({"port": port}))])
            .call([say("${result}")]);
        assert_eq!(of_project(script, entry, approved).await, expected);
    }
}

/// What becomes of dialling `port` in a session whose server the operator has set with `more`, under `rules`
/// that allow more than tools.
async fn dialled(port: u16, rules: &str, more: &str) -> String {
    let script = Script::new()
        .call([tool("mcp__small__dial", json!({"port": port}))])
        .call([say("${result}")]);
    let home = home_of(script, &["0"], more);
    allow_also(&home, rules);
    prompted(home, "go").await.2
}

/// The operator's settings.
fn settings(home: &Home) -> String {
    let path = home.user_dir().join(".config/fastness/config.toml");
    std::fs::read_to_string(path).unwrap()
}

/// Adds `rules` to what the operator allows.
fn allow_also(home: &Home, rules: &str) {
    let set = settings(home);
    configure(
        home,
        &set.replace("allow = [", &format!("allow = [{rules}")),
    );
}

#[tokio::test]
async fn a_program_has_no_network_unless_its_settings_or_a_rule_of_its_own_say_so() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for (rules, more, expected) in [
        ("", "", "not reached"),
        (
            "\"*\", \"network\", \"mcp_network(other)\", ",
            "",
            "not reached",
        ),
        ("", "network = true\n", "reached"),
        ("\"mcp_network(small)\", ", "", "reached"),
        ("\"mcp_network\", ", "network = false\n", "not reached"),
    ] {
        let said = dialled(port, rules, more).await;
        assert_eq!(said, expected, "rules {rules}, settings {more}");
    }
}

#[tokio::test]
async fn a_program_that_a_client_names_has_the_network_if_the_operators_rules_say_so() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for (rules, expected) in [("", "not reached"), ("\"mcp_network(ed*)\", ", "reached")] {
        let script = Script::new()
            .call([tool("mcp__editors__dial", json!({"port": port}))])
            .call([say("${result}")]);
        let home = home_with(script);
        let allow = format!("[permissions]\nallow = [{rules}\"mcp__*\"]\n");
        configure(&home, &allow);
        let server = Program::serve_in(home).await;
        let mut client = AcpClient::connect_ws(&server).await;
        let named = json!({"name": "editors", "command": "python3", "args": ["-c", SERVER, "0"],
            "env": []});
        let params = json!({"cwd": server.home().workspace(), "mcpServers": [named]});
        let session = client.call("session/new", params).await.unwrap();
        let session = session["sessionId"].as_str().unwrap();
        assert_eq!(client.prompt(session, "go").await.text, expected, "{rules}");
    }
}

#[tokio::test]
async fn a_program_that_does_not_begin_names_what_would_give_it_the_network() {
    let fails = ["-c", "import sys; sys.exit('I cannot reach anybody')"];
    let home = home_with(Script::says("hi"));
    let mcp = format!(
        "[mcp.broken]\ncommand = \"python3\"\nargs = {}\n",
        json!(fails)
    );
    configure(&home, &mcp);
    let (said, code) = run(&home, "mcp", &["test", "broken"]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("I cannot reach anybody"), "{said}");
    assert!(said.contains("`network = true` in [mcp.broken]"), "{said}");
    configure(&home, &format!("{mcp}network = true\n"));
    let (said, _) = run(&home, "mcp", &["test", "broken"]).await;
    assert!(!said.contains("no network"), "it has it: {said}");
    configure(&home, "");
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let named = json!({"name": "ide", "command": "python3", "args": fails, "env": []});
    let params = json!({"cwd": server.home().workspace(), "mcpServers": [named]});
    let session = client.call("session/new", params).await.unwrap();
    let session = session["sessionId"].as_str().unwrap();
    client.prompt(session, "go").await;
    let events = server.home().events(session);
    let mut told = events.iter().filter(|event| event["type"] == "notice");
    let is_told = told.any(|event| event["text"].to_string().contains("mcp_network(ide)"));
    assert!(is_told, "{events:?}");
}

#[tokio::test]
async fn who_adds_a_program_is_told_whether_it_has_the_network() {
    let home = home_with(Script::says("hi"));
    for (name, words, has_network) in [
        ("plain", vec!["--", "python3", "x.py"], false),
        ("asked", vec!["--network", "--", "python3", "x.py"], true),
        ("fetches", vec!["--", "/usr/bin/npx", "-y", "thing"], true),
        ("held", vec!["--no-network", "--", "uvx", "thing"], false),
    ] {
        let (said, code) = run(&home, "mcp", &[&["add", name], &words[..]].concat()).await;
        assert_eq!(code, Some(0), "{said}");
        let expected = match has_network {
            true => "it may reach the network",
            false => "it has no network",
        };
        assert!(said.contains(expected), "{name}: {said}");
        let set = settings(&home);
        let (_, section) = set.split_once(&format!("[mcp.{name}]")).unwrap();
        assert_eq!(section.contains("network = true"), has_network, "{set}");
        // Its private cache is found when it starts; nothing about it stands in the file.
        assert!(!section.contains("write = "), "{set}");
    }
    for wrong in [
        vec!["add", "s", "--network", "--url", "https://example.com/mcp"],
        vec!["add", "s", "--network", "--no-network", "--", "x"],
    ] {
        let (said, code) = run(&home, "mcp", &wrong).await;
        assert_eq!(code, Some(2), "{wrong:?}: {said}");
    }
}
