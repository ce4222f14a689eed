//! What is hidden stays hidden when a directory above it is renamed.

use serde_json::json;
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Home, Program};

use super::{LAYERS, furnished, runner};
use crate::hooks::configure;
use crate::rest::Rest;
use crate::support::binary;

/// What programs are told.
const KIND: &str = "data_directory_in_root";

#[tokio::test]
async fn without_a_sandbox_no_session_holds_the_data_directory() {
    let home = Home::new(binary(), runner("true")).env("FASTNESS_SANDBOX_MODE", "off");
    let above = home.data_dir().parent().unwrap().to_owned();
    let mut ask = home.command("ask");
    let output = ask.arg("go").current_dir(&above).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("holds the server's data directory"), "{said}");

    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let refused = client.new_session_in(&above).await.unwrap_err();
    assert_eq!(refused.data["kind"], KIND, "{refused}");
    let params = json!({
        "cwd": server.home().workspace(), "additionalDirectories": [above], "mcpServers": [],
    });
    let refused = client.call("session/new", params).await.unwrap_err();
    assert_eq!(refused.data["kind"], KIND, "{refused}");
    let rest = Rest::of(&server);
    let said = rest.post("/sessions", &json!({"cwd": above})).await;
    said.is_refused(409, KIND);
    client.new_session().await;
}

#[tokio::test]
async fn session_above_the_data_directory_is_not_loaded_without_a_sandbox() {
    let server = Program::serve_in(Home::new(binary(), runner("true"))).await;
    let above = server.home().data_dir().parent().unwrap().to_owned();
    let mut client = AcpClient::connect_ws(&server).await;
    let made = client.new_session_in(&above).await.unwrap();
    let session = made["sessionId"].as_str().unwrap().to_owned();
    configure(server.home(), "[sandbox]\nmode = \"off\"\n");
    let server = server.restart().await;
    let mut client = AcpClient::connect_ws(&server).await;
    for method in ["session/load", "session/load", "session/resume"] {
        let params = json!({"sessionId": session, "cwd": above, "mcpServers": []});
        let refused = client.call(method, params).await.unwrap_err();
        assert_eq!(refused.data["kind"], KIND, "{method}: {refused}");
    }
    let path = format!("/sessions/{session}/prompts");
    let said = Rest::of(&server)
        .post(&path, &json!({"prompt": "go"}))
        .await;
    said.is_refused(409, KIND);
}

#[tokio::test]
async fn hidden_places_stay_hidden_when_a_parent_is_renamed() {
    let rename = "mv parent elsewhere; mkdir -p parent/state; cat elsewhere/state/token \
                  elsewhere/letters/mine parent/letters/mine; echo over";
    for layer in LAYERS {
        let script = Script::new()
            .call([tool("bash", json!({"command": rename}))])
            .call([tool(
                "bash",
                json!({"command": "cat elsewhere/state/token elsewhere/letters/mine; echo again"}),
            )])
            .call([tool("read", json!({"path": "elsewhere/state/token"}))])
            .call([say("the end")]);
        let home = furnished("", layer);
        home.set_script(script);
        let data = home.workspace().join("parent/state");
        let letters = home.workspace().join("parent/letters");
        std::fs::create_dir_all(&data).unwrap();
        std::fs::create_dir_all(&letters).unwrap();
        std::fs::set_permissions(&data, std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .unwrap();
        std::fs::write(letters.join("mine"), "dear diary").unwrap();
        let hide = format!("[sandbox]\nhide = [\"{}\"]\n", letters.display());
        home.write("fastness.toml", &hide);
        std::fs::write(data.join("token"), "sesame").unwrap();
        std::fs::set_permissions(
            data.join("token"),
            std::os::unix::fs::PermissionsExt::from_mode(0o600),
        )
        .unwrap();
        let model = format!("script:{}", home.script_path().display());
        let mut command = home.clean(binary());
        command.args([
            "ask",
            "--json",
            "--allow",
            "bash",
            "--model",
            &model,
            "--data-dir",
        ]);
        let output = command.arg(&data).arg("go").output().await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("the end"), "{layer}: {said}");
        assert!(
            !said.contains("sesame") && !said.contains("dear diary"),
            "{layer}: {said}"
        );
        assert!(data.join("token").exists(), "{layer}: it was moved");
        assert!(letters.join("mine").exists(), "{layer}: it was moved");
    }
}
