//! How turns end, as a chat shows it: while it watches, and when it resumes the session later.

use serde_json::json;
use testkit::model::{ModelReply, Piece, RecordingModel, Speech};
use testkit::script::{Script, fail, say, stream, tool};
use testkit::{Program, Terminal};

use super::{USUAL, chat, chat_with, home};
use crate::support::{binary, echo};

/// Leaves, and gives the id of the session.
async fn leave(terminal: &mut Terminal) -> String {
    terminal.press("\x04");
    assert!(terminal.exit().await.success());
    terminal.shows("--resume ").await;
    let screen = terminal.all();
    let (_, id) = screen.rsplit_once("--resume ").unwrap();
    id.split_whitespace().next().unwrap().to_owned()
}

#[tokio::test]
async fn a_resumed_session_shows_that_a_turn_was_cancelled() {
    let script = Script::new()
        .call([stream("tick ", 5_000, 20)])
        .call([say("fine")]);
    let home = home(script);
    let mut terminal = chat(&home).await;
    terminal.enter("go");
    terminal.shows("tick tick").await;
    terminal.press("\x03");
    terminal.shows("✗ cancelled").await;
    terminal.shows("ready").await;
    assert_eq!(terminal.all().matches("✗ cancelled").count(), 1);
    let session = leave(&mut terminal).await;
    let again = chat_with(&home, &["--resume", &session]).await;
    again.shows("✗ cancelled").await;
    assert_eq!(again.all().matches("✗ cancelled").count(), 1);
}

#[tokio::test]
async fn a_resumed_session_shows_that_a_turn_was_interrupted() {
    let script = Script::new().call([stream("tick ", 5_000, 20)]);
    let mut server = Program::serve_in(home(script)).await;
    let mut terminal = chat_with(server.home(), &["--server", "local"]).await;
    terminal.enter("go");
    terminal.shows("tick tick").await;
    server.kill9().await;
    let server = server.restart().await;
    terminal.shows("✗ interrupted").await;
    terminal.shows("ready").await;
    assert_eq!(terminal.all().matches("✗ interrupted").count(), 1);
    let session = leave(&mut terminal).await;
    let arguments = ["--server", "local", "--resume", &session];
    let again = chat_with(server.home(), &arguments).await;
    again.shows("✗ interrupted").await;
    assert_eq!(again.all().matches("✗ interrupted").count(), 1);
}

#[tokio::test]
async fn an_error_of_the_model_is_shown_once() {
    let home = home(Script::new().call([fail(400, "the flux is broken")]));
    let mut terminal = chat(&home).await;
    terminal.enter("go");
    terminal.shows("the flux is broken").await;
    terminal.shows("ready").await;
    let all = terminal.all();
    assert_eq!(all.matches("the flux is broken").count(), 1, "{all}");
    let session = leave(&mut terminal).await;
    let again = chat_with(&home, &["--resume", &session]).await;
    again.shows("the flux is broken").await;
}

#[tokio::test]
async fn an_empty_answer_is_said() {
    let script = Script::new()
        .call([tool("list", json!({"path": "."}))])
        .call([say("")]);
    let home = home(script);
    let mut terminal = chat(&home).await;
    terminal.enter("go");
    terminal
        .shows("! the model ended its turn without an answer")
        .await;
    terminal.shows("ready").await;
}

/// An answer of a model that has read `tokens` tokens.
fn counted(text: &str, tokens: u32) -> ModelReply {
    let events = [
        json!({"choices": [{"index": 0, "delta": {"content": text}}]}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": tokens, "completion_tokens": 0}}),
    ];
    let events: String = events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    ModelReply::Pieces(vec![Piece::of(events + "data: [DONE]\n\n")])
}

#[tokio::test]
async fn the_context_figure_shrinks_with_undo_and_compact() {
    let long = "word ".repeat(8_000);
    let replies = vec![
        counted(&long, 20_000),
        counted(&long, 40_000),
        counted("a summary", 40_000),
    ];
    let model = RecordingModel::speaking(Speech::OpenAiChat, replies).await;
    let home = model
        .home(binary())
        .env("FASTNESS_LIMITS_CONTEXT_WINDOW", 100_000)
        .env("FASTNESS_GREETING", false)
        .env("NO_COLOR", 1);
    let mut terminal = chat(&home).await;
    for (words, figure) in [("one", " 20% of 100k"), ("two", " 40% of 100k")] {
        terminal.enter(words);
        terminal.shows(figure).await;
        terminal.shows("ready").await;
    }
    terminal.enter("/undo");
    terminal.shows(" 20% of 100k").await;
    terminal.enter("/compact");
    terminal.shows("Compacted the conversation").await;
    let percent = |screen: &str| -> Option<u32> {
        let (before, _) = screen.lines().next_back()?.split_once("% of 100k")?;
        before.rsplit(' ').next()?.parse().ok()
    };
    terminal
        .shows_when("a lower figure", |screen| {
            percent(screen).is_some_and(|percent| percent < 20)
        })
        .await;
    let session = leave(&mut terminal).await;
    let again = chat_with(&home, &["--resume", &session]).await;
    again
        .shows_when("the lower figure", |screen| {
            percent(screen).is_some_and(|percent| percent < 20)
        })
        .await;
}

#[tokio::test]
async fn a_short_id_resumes_and_an_unknown_one_says_so() {
    let home = home(echo());
    let mut terminal = chat(&home).await;
    terminal.enter("hello");
    terminal.shows("you said hello").await;
    terminal.shows("ready").await;
    let session = leave(&mut terminal).await;
    let again = chat_with(&home, &["--resume", &session[..6]]).await;
    again.shows("you said hello").await;
    drop(again);
    let mut none = Terminal::start(&home, "chat", &["--resume", "zzzz"], USUAL);
    assert_eq!(none.exit().await.code(), Some(1));
    none.shows("zzzz").await;
}
