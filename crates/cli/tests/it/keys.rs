//! API keys that are stored: by `login` and `logout`, for editors that were started from a desktop.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::json;
use testkit::model::{RecordingModel, Speech};
use testkit::terminal::Terminal;
use testkit::{AcpClient, Home, Script};
use tokio::io::AsyncWriteExt as _;

use crate::project::run;
use crate::support::binary;

const KEY: &str = "sk-ant-api03-the-key-of-this-test";

fn home() -> Home {
    Home::new(binary(), Script::says("unused")).without_model()
}

fn stored(home: &Home) -> PathBuf {
    home.user_dir().join(".config/fastness/keys/anthropic")
}

/// Pipes `text` into `fastness login ARGUMENTS`; what it printed, and its exit code.
async fn log_in(home: &Home, arguments: &[&str], text: &str) -> (String, Option<i32>) {
    let mut command = home.command("login");
    let mut login = command
        .args(arguments)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = login.stdin.take().unwrap();
    // It may have ended before it read anything.
    stdin.write_all(text.as_bytes()).await.ok();
    drop(stdin);
    let output = login.wait_with_output().await.unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), output.status.code())
}

#[tokio::test]
async fn a_piped_key_is_stored_privately_used_and_removed() {
    let home = home();
    let (told, code) = log_in(&home, &["anthropic"], &format!("{KEY}\n")).await;
    assert_eq!(code, Some(0), "{told}");
    assert!(!told.contains(KEY), "{told}");
    let path = stored(&home);
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);

    // A program without the variable, as an editor on a desktop starts it, uses the key.
    let model = RecordingModel::speaking(Speech::Anthropic, Vec::new()).await;
    let base = home.env("ANTHROPIC_BASE_URL", model.url());
    let (told, code) = run(&base, "ask", &["hello", "--model", "anthropic:mock"]).await;
    assert_eq!(code, Some(0), "{told}");
    let (told, _) = run(&base, "doctor", &[]).await;
    let expected = format!("anthropic from {}, openai none", path.display());
    assert!(told.contains(&expected), "{told}");
    assert!(
        told.contains("a key was stored with fastness login"),
        "{told}"
    );
    assert!(!told.contains(KEY), "{told}");

    let (told, code) = run(&base, "logout", &["anthropic"]).await;
    assert_eq!(code, Some(0), "{told}");
    assert!(!path.exists());
    let (told, code) = run(&base, "logout", &["anthropic"]).await;
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("No key is stored for anthropic"), "{told}");
}

#[tokio::test]
async fn the_environment_wins_over_a_stored_key() {
    let home = home().env("ANTHROPIC_API_KEY", "sk-ant-api03-other");
    let (told, code) = log_in(&home, &["anthropic"], KEY).await;
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("ANTHROPIC_API_KEY is set here"), "{told}");
    let (told, _) = run(&home, "doctor", &["--model", "offline"]).await;
    assert!(told.contains("anthropic from ANTHROPIC_API_KEY"), "{told}");
}

#[tokio::test]
async fn a_key_file_that_others_can_read_stops_the_program_until_it_is_replaced() {
    let home = home();
    log_in(&home, &["anthropic"], KEY).await;
    let path = stored(&home);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    let (told, code) = run(&home, "ask", &["hello"]).await;
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("is open to others (mode 644)"), "{told}");
    assert!(!told.contains(KEY), "{told}");
    let (told, code) = run(&home, "doctor", &["--model", "offline"]).await;
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("is open to others (mode 644)"), "{told}");
    let (told, code) = log_in(&home, &["anthropic"], KEY).await;
    assert_eq!(code, Some(0), "{told}");
    let (told, code) = run(&home, "ask", &["hello", "--model", "offline"]).await;
    assert_eq!(code, Some(0), "{told}");
}

#[tokio::test]
async fn subscription_tokens_and_other_texts_are_not_stored() {
    let home = home();
    for (text, expected) in [
        ("sk-ant-oat01-secret", "a token of a subscription"),
        ("eyJsecret.x.y", "a token of a subscription"),
        ("", "no key was given"),
        ("two secret words", "no spaces"),
    ] {
        let (told, code) = log_in(&home, &["anthropic"], text).await;
        assert_eq!(code, Some(2), "{told}");
        assert!(told.contains(expected), "{told}");
        assert!(!told.contains("secret"), "{told}");
    }
    let (told, code) = log_in(&home, &[], KEY).await;
    assert_eq!(code, Some(2), "{told}");
    assert!(
        told.contains("name the provider: anthropic or openai"),
        "{told}"
    );
    assert!(!stored(&home).exists());
}

#[tokio::test]
async fn a_typed_key_is_not_shown_and_echo_comes_back() {
    let home = home();
    let arguments = home.arguments("acp");
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // As an editor runs it: its own arguments, then those of the method.
    arguments.push("--login");
    let mut terminal = Terminal::open(&home, &arguments, (100, 20));
    terminal.shows("Provider (anthropic or openai):").await;
    terminal.enter("anthropic");
    terminal
        .shows("API key for anthropic (it is not shown):")
        .await;
    terminal.enter(KEY);
    terminal.shows("is stored in").await;
    assert!(terminal.exit().await.success(), "{}", terminal.all());
    assert!(!terminal.all().contains(KEY), "{}", terminal.all());
    let key = std::fs::read_to_string(stored(&home)).unwrap();
    assert_eq!(key.trim_end(), KEY);
}

#[tokio::test]
async fn stored_keys_are_hidden_from_file_tools() {
    use testkit::script::{say, tool};
    let read = json!({"path": ".config/fastness/keys/anthropic"});
    let script = Script::new().call([tool("read", read)]).call([say("done")]);
    let home = Home::new(binary(), script);
    let (told, code) = log_in(&home, &["anthropic"], KEY).await;
    assert_eq!(code, Some(0), "{told}");
    let mut client = AcpClient::spawn_stdio(&home)
        .await
        .in_directory(home.user_dir());
    let session = client.new_session().await;
    client.prompt(&session, "read the key").await;
    let events = home.events(&session);
    let result = events.iter().find(|event| event["type"] == "tool.result");
    assert_eq!(result.unwrap()["status"], "failed", "{events:?}");
    assert!(!format!("{events:?}").contains(KEY), "{events:?}");
}
