//! The file tools through the real program: a person sees a change before it is made, and one that
//! is not allowed is not made.

use serde_json::{Value, json};
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Program, Update};

use crate::support::serve;

/// A model that makes these calls one after the other and repeats the last result.
fn calls<const N: usize>(calls: [(&str, Value); N]) -> Script {
    let mut script = Script::new();
    for (name, input) in calls {
        script = script.call([tool(name, input)]);
    }
    script.call([say("${result}")])
}

const NOTEBOOK: &str = r#"{"cells": [{"cell_type": "code", "source": ["1"]}]}"#;

async fn client(server: &Program, choice: Choice) -> AcpClient {
    let mut client = AcpClient::connect_ws(server).await;
    client.on_permission(choice);
    client
}

/// The differences that updates of this kind show.
fn differences(updates: &[Update], kind: &str) -> Vec<Value> {
    let of_kind = updates.iter().filter(|update| update.kind == kind);
    let content = of_kind.filter_map(|update| update.update["content"].as_array());
    let content = content.flatten().filter(|item| item["type"] == "diff");
    content.cloned().collect()
}

#[tokio::test]
async fn d_05_an_edit_shows_its_difference_before_and_after() {
    let edit = json!({"path": "a.txt", "old": "two", "new": "2"});
    let script = calls([("read", json!({"path": "a.txt"})), ("edit", edit)]);
    let server = serve(script).await;
    server.home().write("a.txt", "one\ntwo\nthree\n");
    let mut client = client(&server, Choice::Allow).await;
    let session = client.new_session().await;
    let done = client.prompt(&session, "go").await;
    assert_eq!(done.text, "Edited a.txt in 1 place, first in line 2.");
    assert_eq!(
        server.home().read("a.txt").as_deref(),
        Some("one\n2\nthree\n")
    );
    let path = server
        .home()
        .workspace()
        .canonicalize()
        .unwrap()
        .join("a.txt");
    let before = differences(&done.updates, "tool_call");
    assert_eq!(
        before,
        [json!({"type": "diff", "path": path, "oldText": "two", "newText": "2"})]
    );
    let after = differences(&done.updates, "tool_call_update");
    assert_eq!(after[0]["oldText"], "one\ntwo\nthree\n");
    assert_eq!(after[0]["newText"], "one\n2\nthree\n");
    // And to whoever comes later.
    let mut late = AcpClient::connect_ws(&server).await;
    let seen = late.load_session(&session).await.unwrap();
    assert_eq!(differences(&seen, "tool_call"), before);
    assert_eq!(differences(&seen, "tool_call_update"), after);
}

#[tokio::test]
async fn d_04_changes_that_are_rejected_change_nothing() {
    let edit = json!({"path": "a.txt", "old": "two", "new": "2"});
    let write = json!({"path": "new/b.txt", "content": "x"});
    let cell = json!({"path": "n.ipynb", "cellId": "0", "source": "2"});
    let script = calls([
        ("read", json!({"path": "a.txt"})),
        ("read", json!({"path": "n.ipynb"})),
        ("edit", edit),
        ("write", write),
        ("notebook_edit", cell),
    ]);
    let server = serve(script).await;
    server.home().write("a.txt", "one two");
    server.home().write("n.ipynb", NOTEBOOK);
    let mut client = client(&server, Choice::Reject).await;
    let session = client.new_session().await;
    let done = client.prompt(&session, "go").await;
    assert!(done.text.contains("was not run"), "{}", done.text);
    assert_eq!(server.home().read("a.txt").as_deref(), Some("one two"));
    assert!(!server.home().workspace().join("new").exists());
    assert_eq!(server.home().read("n.ipynb").as_deref(), Some(NOTEBOOK));
}

#[tokio::test]
async fn f_39_what_was_read_in_one_turn_may_be_edited_in_the_next_unless_it_changed() {
    let edit = |old: &str, new: &str| {
        let input = json!({"path": "a.txt", "old": old, "new": new});
        [tool("edit", input)]
    };
    let script = Script::new()
        .call([tool("read", json!({"path": "a.txt"}))])
        .call([say("read")])
        .call(edit("one", "two"))
        .call([say("${result}")])
        .call(edit("three", "four"))
        .call([say("${result}")]);
    let server = serve(script).await;
    server.home().write("a.txt", "one");
    let mut client = client(&server, Choice::Allow).await;
    let session = client.new_session().await;
    client.prompt(&session, "read it").await;
    let done = client.prompt(&session, "edit it").await;
    assert!(done.text.starts_with("Edited"), "{}", done.text);
    server.home().write("a.txt", "three");
    let done = client.prompt(&session, "edit it again").await;
    assert!(done.text.contains("has changed since"), "{}", done.text);
    assert_eq!(server.home().read("a.txt").as_deref(), Some("three"));
}

#[tokio::test]
async fn d_05_a_project_is_searched_without_asking() {
    let script = Script::new()
        .call([
            tool("list", json!({})),
            tool("glob", json!({"pattern": "*.rs"})),
            tool("grep", json!({"pattern": "needle"})),
        ])
        .call([say("done")]);
    let server = serve(script).await;
    let home = server.home();
    std::fs::create_dir(home.workspace().join("src")).unwrap();
    home.write("src/a.rs", "a needle\n");
    home.write("b.txt", "no\n");
    let mut client = client(&server, Choice::Reject).await;
    let session = client.new_session().await;
    let done = client.prompt(&session, "go").await;
    let ended = done.updates.iter();
    let ended = ended.filter(|update| update.update["status"] == "completed");
    // They run side by side.
    let mut texts: Vec<&str> = ended
        .filter_map(|update| update.update["content"][0]["content"]["text"].as_str())
        .collect();
    texts.sort_unstable();
    assert_eq!(
        texts,
        ["src/\nb.txt\n", "src/a.rs\n", "src/a.rs:1:a needle\n"]
    );
    assert!(client.requests().is_empty(), "nobody is asked");
}

#[tokio::test]
async fn the_data_directory_is_out_of_sight_where_a_root_contains_it() {
    let script = Script::new()
        .call([
            tool("list", json!({"path": "."})),
            tool("glob", json!({"pattern": "**/token"})),
            tool("grep", json!({"pattern": "session.created"})),
            tool("bash", json!({"command": "true", "cwd": "data"})),
        ])
        .call([say("done")]);
    let server = serve(script).await;
    let data = server.home().data_dir().canonicalize().unwrap();
    let above = data.parent().unwrap();
    let name = data.file_name().unwrap().to_string_lossy().into_owned();
    let mut client = client(&server, Choice::Allow).await;
    let session = client.new_session_in(above).await.unwrap();
    let session = session["sessionId"].as_str().unwrap().to_owned();
    let done = client.prompt(&session, "go").await;
    let results = server.home().events(&session);
    let results = results
        .iter()
        .filter(|event| event["type"] == "tool.result");
    for result in results {
        let text = result["text"].as_str().unwrap();
        let is_shown = text.lines().any(|line| line.starts_with(&name));
        assert!(!is_shown, "{text}");
    }
    assert_eq!(done.text, "done");
}

#[tokio::test]
async fn d_05_images_are_shown_to_people_and_cells_of_notebooks_are_changed() {
    let script = Script::new()
        .call([tool("read", json!({"path": "a.png"}))])
        .call([tool("read", json!({"path": "n.ipynb"}))])
        .call([tool(
            "notebook_edit",
            json!({"path": "n.ipynb", "cellId": "0", "source": "2"}),
        )])
        .call([say("${result}")]);
    let server = serve(script).await;
    std::fs::write(
        server.home().workspace().join("a.png"),
        b"\x89PNG\r\n\x1a\n\0",
    )
    .unwrap();
    server.home().write("n.ipynb", NOTEBOOK);
    let mut client = client(&server, Choice::Allow).await;
    let session = client.new_session().await;
    let done = client.prompt(&session, "go").await;
    assert_eq!(done.text, "Replaced cell 0 of n.ipynb.");
    let updates = done.updates.iter();
    let content = updates.filter_map(|update| update.update["content"].as_array());
    let image = content
        .flatten()
        .find(|item| item["content"]["type"] == "image");
    assert_eq!(image.unwrap()["content"]["mimeType"], "image/png");
    let notebook = server.home().read("n.ipynb").unwrap();
    assert!(notebook.contains("\"2\""), "{notebook}");
}
