//! Prompts that wait behind a turn: in every chat of the session, after a resume, and after a crash.

use testkit::script::{Script, say, stream};
use testkit::{Program, Terminal, wait_for};

use super::{USUAL, chat_with, home};
use crate::support::stored;

/// A server, a chat whose turn runs and behind which `next` waits, and the session.
async fn waiting() -> (Program, Terminal, String) {
    let script = Script::new()
        .call([stream("tick ", 5_000, 20)])
        .call([say("you said ${prompt}")]);
    let server = Program::serve_in(home(script)).await;
    let mut terminal = chat_with(server.home(), &["--server", "local"]).await;
    let screen = terminal.screen();
    let (_, rest) = screen.split_once("session ").unwrap();
    let session = rest.split_whitespace().next().unwrap().to_owned();
    terminal.enter("go");
    terminal.shows("tick tick").await;
    terminal.enter("next");
    terminal.shows("⧗ next").await;
    let is_stored = || stored(server.home(), &session).contains(&"prompt.queued".to_owned());
    wait_for("the server has it", is_stored).await;
    (server, terminal, session)
}

fn resumed(server: &Program, session: &str) -> Terminal {
    let arguments = ["--server", "local", "--resume", session];
    Terminal::start(server.home(), "chat", &arguments, USUAL)
}

#[tokio::test]
async fn queued_prompts_are_shown_to_every_chat_and_after_a_resume() {
    let (server, mut first, session) = waiting().await;
    let mut second = resumed(&server, &session);
    second.shows("⧗ next").await;
    second.enter("and then");
    first.shows("⧗ and then").await;
    first.press("\x04");
    assert!(first.exit().await.success());
    let mut third = resumed(&server, &session);
    third.shows("⧗ next").await;
    third.shows("⧗ and then").await;
    // Stopping the turn drops what waits behind it, and says which.
    third.press("\x03");
    for chat in [&second, &third] {
        chat.shows("not sent: next").await;
        chat.shows("not sent: and then").await;
        chat.shows("ready").await;
        let all = chat.all();
        assert_eq!(all.matches("not sent: next").count(), 1, "{all}");
        assert!(!chat.screen().contains('⧗'), "{}", chat.screen());
    }
}

#[tokio::test]
async fn a_crash_names_the_queued_prompts_that_did_not_run() {
    const DROPPED: &str = "not sent, for the server stopped before its turn: next";
    let (mut server, mut terminal, session) = waiting().await;
    server.kill9().await;
    let server = server.restart().await;
    terminal.shows(DROPPED).await;
    terminal.shows("✗ interrupted").await;
    terminal.shows("ready").await;
    assert!(!terminal.screen().contains('⧗'), "{}", terminal.screen());
    let all = terminal.all();
    assert_eq!(all.matches(DROPPED).count(), 1, "{all}");
    terminal.press("\x04");
    assert!(terminal.exit().await.success());
    let again = resumed(&server, &session);
    again.shows(DROPPED).await;
    again.shows("ready").await;
}
