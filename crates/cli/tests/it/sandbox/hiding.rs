//! What is hidden stays hidden when a directory above it is renamed.

use serde_json::json;
use testkit::script::{Script, say, tool};

use super::{LAYERS, furnished};
use crate::support::binary;

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
