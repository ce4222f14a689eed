//! What a model is told of its tools: only those that can do something here, each in plain words.

use serde_json::Value;
use testkit::model::RecordingModel;
use testkit::{AcpClient, Home, Program};

use crate::lsp::with_language_server;
use crate::support::binary;

/// The first request of a session in `home`.
async fn first_request(model: &RecordingModel, home: Home) -> Value {
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    model.requests().remove(0)
}

fn names(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().unwrap().iter();
    tools
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn tools_that_cannot_apply_are_not_offered() {
    for (file, has_server, lsp, notebook) in [
        ("a.txt", true, false, false),
        ("a.py", false, false, false),
        ("a.py", true, true, false),
        ("a.ipynb", false, false, true),
    ] {
        let model = RecordingModel::start().await;
        // A search path without a language server of the machine's own.
        let home = model.home(binary()).env("PATH", "/usr/bin:/bin");
        let home = match has_server {
            true => with_language_server(home),
            false => home,
        };
        home.write(file, "");
        let request = first_request(&model, home).await;
        let names = names(&request);
        let case = format!("{file} {has_server}: {names:?}");
        assert_eq!(names.contains(&"lsp"), lsp, "{case}");
        assert_eq!(names.contains(&"notebook_edit"), notebook, "{case}");
        assert!(names.contains(&"read") && names.contains(&"bash"), "{case}");
    }
}

/// Every parameter in `schema` without a description, by its path.
fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
    let properties = schema["properties"].as_object();
    for (name, property) in properties.into_iter().flatten() {
        let path = format!("{path}.{name}");
        if property["description"].as_str().is_none_or(str::is_empty) {
            found.push(path.clone());
        }
        undescribed(property, &path, found);
        undescribed(&property["items"], &path, found);
    }
}

#[tokio::test]
async fn every_parameter_is_described_in_plain_words() {
    let model = RecordingModel::start().await;
    let home = with_language_server(model.home(binary()));
    home.write("a.py", "");
    home.write("a.ipynb", "{}");
    let skill = "---\nname: tidy\ndescription: Tidies up.\n---\nTidy.\n";
    for (folder, file, text) in [
        (".fastness/skills/tidy", "SKILL.md", skill),
        (".fastness/commands", "check.md", "Check it.\n"),
    ] {
        std::fs::create_dir_all(home.workspace().join(folder)).unwrap();
        home.write(&format!("{folder}/{file}"), text);
    }
    let request = first_request(&model, home).await;
    let mut found = Vec::new();
    for tool in request["tools"].as_array().unwrap() {
        let function = &tool["function"];
        let name = function["name"].as_str().unwrap();
        assert!(
            function["description"].as_str().unwrap().len() > 20,
            "{name}"
        );
        undescribed(&function["parameters"], name, &mut found);
    }
    assert_eq!(found, Vec::<String>::new());
    let told = format!("{} {}", request["messages"][0]["content"], request["tools"]);
    for word in [
        "person", "omebody", "obody", "hoever", ".rs`", "cargo", "Rust",
    ] {
        assert!(!told.contains(word), "{word}: {told}");
    }
}
