//! Permission requests and questions in chat: what answers them, and what never does.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Home, Program, Terminal, wait_for};

use super::{USUAL, chat, chat_with, home, talk};
use crate::support::stored;

/// How far apart a slow typist's keys are: long enough for every time limit of the chat to pass.
const SLOWLY: Duration = Duration::from_millis(600);

/// A model that writes a file, and then says that it is done.
fn writing() -> Script {
    Script::new()
        .call([tool("write", json!({"path": "a.txt", "content": "x"}))])
        .call([say("done with it")])
        .call([say("heard ${prompt}")])
}

/// Types one key after the other, each when the chat has long settled.
async fn type_slowly(terminal: &mut Terminal, keys: &[&str]) {
    for key in keys {
        tokio::time::sleep(SLOWLY).await;
        terminal.press(key);
    }
}

/// A chat whose permission request is on the screen and takes keys.
async fn asked(home: &Home) -> Terminal {
    let mut terminal = chat(home).await;
    terminal.enter("write it");
    terminal.shows("allow it? [y] yes").await;
    terminal
}

#[tokio::test]
async fn typing_a_message_slowly_approves_nothing() {
    let home = home(writing());
    let mut terminal = asked(&home).await;
    type_slowly(&mut terminal, &["W", "a", "i", "t", "\r"]).await;
    terminal.shows("⧗ Wait").await;
    assert_eq!(home.read("a.txt"), None);
    assert!(terminal.screen().contains("allow it?"));
}

#[tokio::test]
async fn a_message_that_begins_with_an_options_letter_stays_whole() {
    let home = home(writing());
    let mut terminal = asked(&home).await;
    type_slowly(&mut terminal, &["a"]).await;
    terminal.shows("▸[a] always").await;
    type_slowly(&mut terminal, &["n"]).await;
    terminal.shows("❯ an\n").await;
    assert!(!terminal.screen().contains('▸'), "{}", terminal.screen());
    type_slowly(&mut terminal, &["d", "\r"]).await;
    terminal.shows("⧗ and").await;
    assert_eq!(home.read("a.txt"), None);
}

#[tokio::test]
async fn a_letter_highlights_and_enter_confirms() {
    let home = home(writing());
    let mut terminal = asked(&home).await;
    terminal.press("y");
    terminal.shows("allow it?▸[y] yes").await;
    terminal.shows("Enter confirms").await;
    assert_eq!(home.read("a.txt"), None);
    type_slowly(&mut terminal, &["\r"]).await;
    terminal.shows("done with it").await;
    assert_eq!(home.read("a.txt").as_deref(), Some("x"));
}

#[tokio::test]
async fn arrows_highlight_and_a_lone_enter_confirms_nothing() {
    let home = home(writing());
    let mut terminal = asked(&home).await;
    terminal.press("\r");
    terminal.shows("nothing is chosen").await;
    assert_eq!(home.read("a.txt"), None);
    terminal.press("\x1b[B");
    terminal.shows("▸[y] yes").await;
    terminal.press("\x1b[A");
    terminal.shows("▸[n] no").await;
    terminal.press("\x1b");
    terminal
        .shows_when("no highlight", |screen| !screen.contains('▸'))
        .await;
    assert!(terminal.screen().contains("allow it?"));
    terminal.press("\x1b[D");
    terminal.shows("▸[n] no").await;
    type_slowly(&mut terminal, &["\r"]).await;
    terminal.shows("done with it").await;
    assert!(talk(&terminal).contains("(denied)"));
    assert_eq!(home.read("a.txt"), None);
}

#[tokio::test]
async fn pasted_text_never_answers() {
    let home = home(writing());
    let mut terminal = asked(&home).await;
    // With the marks of a paste, and Enter after it.
    terminal.press("\x1b[200~y\x1b[201~");
    terminal.shows("❯ y\n").await;
    type_slowly(&mut terminal, &["\r"]).await;
    terminal.shows("⧗ y").await;
    // Without them: everything in one read.
    tokio::time::sleep(SLOWLY).await;
    terminal.press("y\r");
    terminal
        .shows_when("two messages", |screen| screen.matches("⧗ y").count() == 2)
        .await;
    // Without them, and cut between the letter and Enter.
    tokio::time::sleep(SLOWLY).await;
    terminal.press("a");
    terminal.shows("▸[a]").await;
    terminal.press("b\ra\r");
    terminal.shows("⧗ ab").await;
    // An arrow and Enter at once.
    tokio::time::sleep(SLOWLY).await;
    terminal.press("\x1b[B\r");
    terminal.shows("nothing was answered").await;
    assert_eq!(home.read("a.txt"), None);
    assert!(terminal.screen().contains("allow it?"));
}

#[tokio::test]
async fn composed_characters_are_text() {
    let home = home(writing());
    let mut terminal = asked(&home).await;
    // An input method commits several characters at once, or a character that is no option.
    for keys in ["ya", "ｙ", "é", "日本"] {
        type_slowly(&mut terminal, &[keys]).await;
        terminal.shows(&format!("{keys}\n")).await;
    }
    terminal.shows("❯ yaｙé日本").await;
    type_slowly(&mut terminal, &["\x15", "ｙ", "\r"]).await;
    terminal.shows("⧗ ｙ").await;
    assert_eq!(home.read("a.txt"), None);
}

#[tokio::test]
async fn a_question_is_not_answered_by_typing_digits() {
    let input = json!({"question": "Which colour?", "options": ["red", "blue"]});
    let script = Script::new()
        .call([tool("ask_user", input)])
        .call([say("told: ${result}")])
        .call([say("heard ${prompt}")]);
    let home = home(script);
    let mut terminal = chat(&home).await;
    terminal.enter("ask me");
    terminal.shows("[2] blue").await;
    type_slowly(&mut terminal, &["2", "0", " ", "1"]).await;
    terminal.shows("❯ 20 1").await;
    assert!(!terminal.screen().contains("told"));
    terminal.press("\x15");
    terminal.shows("[2] blue").await;
    type_slowly(&mut terminal, &["2"]).await;
    terminal.shows("▸[2] blue").await;
    type_slowly(&mut terminal, &["\r"]).await;
    terminal.shows("told: blue").await;
}

/// A server and a chat on it, a second client that holds the same permission request, and the session.
async fn held_by_two(script: Script) -> (Program, Terminal, AcpClient, String) {
    let server = Program::serve_in(home(script)).await;
    let mut terminal = chat_with(server.home(), &["--server", "local"]).await;
    let screen = terminal.screen();
    let (_, rest) = screen.split_once("session ").unwrap();
    let session = rest.split_whitespace().next().unwrap().to_owned();
    let mut other = AcpClient::connect_ws(&server).await;
    other.on_permission(Choice::Hold);
    other.load_session(&session).await.unwrap();
    terminal.enter("write it");
    terminal.shows("allow it? [y] yes").await;
    (server, terminal, other, session)
}

fn selected(option: &str) -> Result<Value, testkit::RpcError> {
    Ok(json!({"outcome": {"outcome": "selected", "optionId": option}}))
}

#[tokio::test]
async fn an_enter_meant_for_a_former_request_answers_no_other() {
    let script = Script::new()
        .call([
            tool("write", json!({"path": "a.txt", "content": "x"})),
            tool("write", json!({"path": "b.txt", "content": "x"})),
        ])
        .call([say("done with it")]);
    let (server, mut terminal, mut other, _) = held_by_two(script).await;
    let first = other.next_request().await;
    terminal.press("y");
    terminal.shows("▸[y] yes").await;
    other.answer(&first, selected("reject_once")).await;
    terminal.shows("(denied)").await;
    terminal
        .shows_when("no highlight", |screen| !screen.contains('▸'))
        .await;
    terminal.press("\r");
    type_slowly(&mut terminal, &["\r"]).await;
    terminal.shows("nothing is chosen").await;
    assert!(terminal.screen().contains("allow it?"));
    for file in ["a.txt", "b.txt"] {
        assert_eq!(server.home().read(file), None);
    }
    // A resize keeps what is highlighted for the request that is shown.
    type_slowly(&mut terminal, &["\x1b[B"]).await;
    terminal.shows("▸[y] yes").await;
    terminal.resize(20, 18);
    terminal.shows("▸[y]").await;
    terminal.resize(70, 18);
    terminal.shows("allow it?▸[y] yes").await;
    type_slowly(&mut terminal, &["\r"]).await;
    terminal.shows("done with it").await;
    assert_eq!(server.home().read("a.txt"), None);
    assert_eq!(server.home().read("b.txt").as_deref(), Some("x"));
}

#[tokio::test]
async fn a_letter_whose_request_has_gone_still_begins_the_message() {
    let (server, mut terminal, mut other, _) = held_by_two(writing()).await;
    let first = other.next_request().await;
    terminal.press("a");
    terminal.shows("▸[a] always").await;
    other.answer(&first, selected("reject_once")).await;
    terminal.shows("done with it").await;
    terminal.press("n");
    terminal.shows("❯ an\n").await;
    assert_eq!(server.home().read("a.txt"), None);
}

#[tokio::test]
async fn leaving_a_session_only_detaches_from_its_permission_request() {
    let (server, mut terminal, mut other, session) = held_by_two(writing()).await;
    let request = other.next_request().await;
    terminal.enter("/new");
    terminal
        .shows_when("two sessions", |screen| {
            screen.matches("session ").count() == 2
        })
        .await;
    terminal.enter("/quit");
    assert!(terminal.exit().await.success());
    let kinds = stored(server.home(), &session);
    assert!(
        !kinds.contains(&"permission.answered".to_owned()),
        "{kinds:?}"
    );
    other.answer(&request, selected("allow_once")).await;
    let written = || server.home().read("a.txt").as_deref() == Some("x");
    wait_for("the file is written", written).await;
}

#[tokio::test]
async fn a_permission_request_is_there_again_when_the_chat_returns() {
    let server = Program::serve_in(home(writing())).await;
    let mut terminal = chat_with(server.home(), &["--server", "local"]).await;
    let screen = terminal.screen();
    let (_, rest) = screen.split_once("session ").unwrap();
    let session = rest.split_whitespace().next().unwrap().to_owned();
    terminal.enter("write it");
    terminal.shows("allow it? [y] yes").await;
    terminal.enter("/new");
    terminal
        .shows_when("no request", |screen| !screen.contains("allow it?"))
        .await;
    terminal.enter(&format!("/resume {}", &session[..12]));
    terminal.shows("allow it? [y] yes").await;
    terminal.press("\x04");
    assert!(terminal.exit().await.success());
    let arguments = ["--server", "local", "--resume", &session];
    let mut again = Terminal::start(server.home(), "chat", &arguments, USUAL);
    again.shows("allow it? [y] yes").await;
    again.press("y");
    again.shows("▸[y] yes").await;
    type_slowly(&mut again, &["\r"]).await;
    again.shows("done with it").await;
    assert_eq!(server.home().read("a.txt").as_deref(), Some("x"));
}
