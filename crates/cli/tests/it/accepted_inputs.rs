//! Inputs that are not quite what a tool's schema says and cannot be misread. Each is run as it was
//! meant, and the journal, the rules and the client see it as it runs.

use serde_json::{Value, json};
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Home, Program};

use crate::lsp::with_language_server;
use crate::rejected::furnish;
use crate::support::binary;

/// A tool, an input as a model wrote it, and the input that runs.
type Row = (&'static str, Value, Value);

fn rows() -> Vec<Row> {
    let text = |path: &str| json!({"path": path, "content": "x"});
    let hover = json!({"operation": "hover", "path": "code.py", "line": 1});
    let item = json!({"content": "x", "status": "pending"});
    vec![
        (
            "write",
            json!({"path": "number", "content": 5}),
            json!({"path": "number", "content": "5"}),
        ),
        ("write", json!({"path": 5, "content": "x"}), text("5")),
        ("write", json!({"path": true, "content": "x"}), text("true")),
        (
            "notebook_edit",
            json!({"path": "n.ipynb", "cellId": 0, "source": "y"}),
            json!({"path": "n.ipynb", "cellId": "0", "source": "y"}),
        ),
        ("glob", json!({"pattern": 5}), json!({"pattern": "5"})),
        ("grep", json!({"pattern": 5}), json!({"pattern": "5"})),
        (
            "grep",
            json!({"pattern": "x", "glob": 5}),
            json!({"pattern": "x", "glob": "5"}),
        ),
        (
            "bash",
            json!({"command": ["touch", "made"]}),
            json!({"command": "touch made"}),
        ),
        (
            "bash",
            json!({"command": ["touch", "a b; touch harm", "$(touch harm)"]}),
            json!({"command": "touch 'a b; touch harm' '$(touch harm)'"}),
        ),
        (
            "lsp",
            json!({"operation": "hover", "path": "code.py", "line": 1, "column": 0}),
            hover,
        ),
        (
            "todo",
            json!({"items": [{"content": "x", "status": "pending", "priority": "none"}]}),
            json!({"items": [item]}),
        ),
        ("ask_user", json!({"question": 5}), json!({"question": "5"})),
        (
            "ask_user",
            json!({"question": "x", "options": "y"}),
            json!({"question": "x", "options": ["y"]}),
        ),
        (
            "ask_user",
            json!({"question": "x", "options": [5]}),
            json!({"question": "x", "options": ["5"]}),
        ),
        ("task", json!({"prompt": 5}), json!({"prompt": "5"})),
        (
            "slash_command",
            json!({"name": "/fix", "args": 5}),
            json!({"name": "/fix", "args": "5"}),
        ),
    ]
}

#[tokio::test]
async fn harmless_variants_run_as_they_were_meant() {
    let first = tool("read", json!({"path": "n.ipynb"}));
    let script = rows()
        .into_iter()
        .fold(Script::new().call([first]), |script, (name, input, _)| {
            script.call([tool(name, input)])
        });
    let script = script
        .call([say("done")])
        .agent("general", Script::says("reported"));
    let home = with_language_server(Home::new(binary(), script));
    furnish(&home);
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    assert!(client.prompt(&session, "go").await.text.ends_with("done"));
    let events = server.home().events(&session);
    let of = |kind: &'static str| {
        events
            .iter()
            .filter(move |event| event["type"] == kind)
            .skip(1)
    };
    assert_eq!(of("tool.use").count(), rows().len());
    assert_eq!(of("tool.result").count(), rows().len());
    for ((call, result), (name, written, meant)) in
        of("tool.use").zip(of("tool.result")).zip(rows())
    {
        assert_eq!(call["input"], meant, "{name} {written}");
        // A question is answered in the chat here, which is no failure of its input.
        let is_fit = !result["text"].as_str().unwrap().contains("is not valid");
        let is_well = result["status"] == "completed" || name == "ask_user";
        assert!(is_fit && is_well, "{name} {written}: {result}");
    }
    let read = |name| server.home().read(name);
    assert_eq!(read("number").as_deref(), Some("5"));
    assert_eq!(
        (read("5"), read("true")),
        (Some("x".to_owned()), Some("x".to_owned()))
    );
    assert!(read("made").is_some() && read("a b; touch harm").is_some());
    assert!(read("$(touch harm)").is_some());
    assert_eq!(read("harm"), None);
}
