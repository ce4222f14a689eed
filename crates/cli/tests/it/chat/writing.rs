//! Writing to the agent: several lines, pastes, what was written before, commands and completion.

use testkit::script::{Script, say, stream, tool};
use testkit::{Terminal, wait_for};

use super::{chat, choose, home, talk};
use crate::support::echo;

/// Leaves, so that the next one can come.
async fn leave(terminal: &mut Terminal) {
    terminal.press("\x04");
    assert!(terminal.exit().await.success());
}

#[tokio::test]
async fn several_lines_and_a_paste_are_one_message() {
    let home = home(echo());
    let mut terminal = chat(&home).await;
    terminal.press("one\ntwo\x1b\rthree");
    terminal.shows("  three").await;
    terminal.press("\r");
    terminal.shows("you said one\ntwo\nthree").await;
    terminal.shows("ready").await;
    terminal.press("\x1b[200~pasted\r\nlines\r\n\x1b[201~");
    terminal.shows("❯ pasted").await;
    terminal.press("end\r");
    terminal.shows("you said pasted\nlines\nend").await;
}

#[tokio::test]
async fn what_was_written_comes_back_the_next_time() {
    let home = home(echo());
    let mut terminal = chat(&home).await;
    terminal.enter("first words");
    terminal.shows("you said first words").await;
    terminal.shows("ready").await;
    leave(&mut terminal).await;
    let mut again = chat(&home).await;
    again.press("\x1b[A");
    again.shows("❯ first words").await;
}

#[tokio::test]
async fn commands_and_files_are_completed() {
    let home = home(echo());
    home.write("notes.md", "x");
    home.write("other.md", "x");
    let mut terminal = chat(&home).await;
    terminal.press("/mo");
    terminal.shows("/model  show the models").await;
    terminal.press("\x1b[B\t");
    terminal.shows("❯ /mode").await;
    terminal.press("plan\r");
    terminal.shows("✓ mode is plan").await;
    terminal.press("see @not");
    terminal.shows("  @notes.md").await;
    terminal.press("\t\r");
    terminal.shows("you said see @notes.md").await;
    terminal.enter("/nothing");
    terminal.shows("there is no command /nothing").await;
    terminal.enter("/help");
    terminal.shows("stop the turn; twice leaves").await;
}

#[tokio::test]
async fn a_turn_can_be_undone_and_another_session_begun() {
    let home = home(echo());
    let mut terminal = chat(&home).await;
    terminal.enter("one");
    terminal.shows("you said one").await;
    terminal.shows("ready").await;
    terminal.enter("/undo");
    terminal.shows("✓ the last turn is undone").await;
    terminal.enter("/undo");
    terminal.shows("there is nothing to undo").await;
    terminal.enter("/new");
    terminal
        .shows_when("two sessions", |screen| {
            screen.matches("session ").count() == 2
        })
        .await;
    terminal.enter("two");
    terminal.shows("you said two").await;
    terminal.shows("ready").await;
    terminal.enter("/sessions");
    terminal.shows("go on with one by /resume ID").await;
}

#[tokio::test]
async fn what_is_sent_while_a_turn_runs_waits_for_it() {
    let script = Script::new()
        .call([stream("tick ", 50, 20), say("first done")])
        .call([say("you said ${prompt}")]);
    let home = home(script);
    let mut terminal = chat(&home).await;
    terminal.enter("go");
    terminal.shows("tick").await;
    terminal.enter("next");
    terminal.shows("⧗ next").await;
    terminal.shows("you said next").await;
    terminal.shows("ready").await;
    let talk = talk(&terminal);
    assert!(!talk.contains('⧗'), "{talk}");
    assert!(
        talk.find("first done").unwrap() < talk.find("❯ next").unwrap(),
        "{talk}"
    );
}

#[tokio::test]
async fn a_question_is_answered_by_its_number() {
    let input = serde_json::json!({"question": "Which colour?", "options": ["red", "blue"]});
    let script = Script::new()
        .call([tool("ask_user", input)])
        .call([say("told: ${result}")]);
    let home = home(script);
    let mut terminal = chat(&home).await;
    terminal.enter("ask me");
    terminal.shows("[2] blue").await;
    choose(&mut terminal, "2").await;
    terminal.shows("told: blue").await;
}

#[tokio::test]
async fn a_narrow_terminal_and_one_that_changes_its_size_show_all() {
    let words = "several words that need more than one row here";
    let home = home(Script::says(words));
    let mut terminal = Terminal::start(&home, "chat", &[], (20, 12));
    terminal.shows("ready").await;
    terminal.enter("hi");
    terminal.shows("several words that").await;
    terminal.shows("ready").await;
    terminal.shows("\nrow here").await;
    for number in 1..4 {
        terminal.enter(&format!("hi {number}"));
        let prompt = format!("❯ hi {number}\n\nseveral words that\n");
        terminal
            .shows_when(&prompt, |screen| {
                screen.contains(&prompt) && screen.contains("ready")
            })
            .await;
    }
    terminal.resize(60, 12);
    terminal.shows(words).await;
    terminal.resize(20, 8);
    terminal.shows("\nrow here").await;
    wait_for("nothing is on the screen twice", || {
        terminal.screen().matches("ready").count() == 1
    })
    .await;
}
