//! What things look like: commands while they run and after, plans, colours where they are wanted.

use serde_json::json;
use testkit::script::{Script, say, tool};
use testkit::{Home, Terminal};

use super::{USUAL, chat, choose, home, talk};
use crate::support::{binary, echo};

/// A command that prints numbers and then waits for a file, so that it can be looked at meanwhile.
const COMMAND: &str = "seq 1 9; while [ ! -e go ]; do sleep 0.05; done; echo ten";

#[tokio::test]
async fn a_command_shows_its_last_lines_while_it_runs_and_is_folded_when_it_has_ended() {
    let script = Script::new()
        .call([tool("bash", json!({"command": COMMAND}))])
        .call([say("counted")]);
    let home = home(script);
    let mut terminal = chat(&home).await;
    terminal.enter("count");
    terminal.shows("allow it? [y] yes").await;
    choose(&mut terminal, "y").await;
    terminal.shows("\n  6\n  7\n  8\n  9\n").await;
    home.write("go", "");
    terminal.shows("counted").await;
    terminal.shows("ready").await;
    let folded = "  … 6 lines more (Ctrl-O shows them)\n  7\n  8\n  9\n  ten\n";
    assert!(talk(&terminal).contains(folded), "{}", terminal.screen());
    terminal.press("\x0f");
    terminal.shows("▾ ").await;
    terminal.shows("\n  1\n  2\n  3\n").await;
}

#[tokio::test]
async fn a_plan_stands_below_while_a_turn_runs_and_stays_when_it_has_ended() {
    let items = json!([
        {"content": "look", "status": "completed"},
        {"content": "write", "status": "in_progress"},
    ]);
    let script = Script::new()
        .call([
            tool("todo", json!({"items": items})),
            tool("write", json!({"path": "a", "content": "x"})),
        ])
        .call([say("stopped")]);
    let home = home(script);
    let mut terminal = chat(&home).await;
    terminal.enter("plan");
    terminal.shows("allow it? [y] yes").await;
    terminal.shows("☑ look\n▸ write\n").await;
    choose(&mut terminal, "n").await;
    terminal.shows("stopped\n\n☑ look\n▸ write\n").await;
    terminal.shows("ready").await;
}

#[tokio::test]
async fn colours_are_there_unless_somebody_minds() {
    let text = "# Title\n```rust\nlet x = 1;\n```\n";
    let coloured = |home: &Home| Terminal::start(home, "chat", &[], USUAL);
    let bright = Home::new(binary(), Script::says(text));
    let bare = Home::new(binary(), Script::says(text)).env("NO_COLOR", 1);
    for (home, expected) in [(bright, true), (bare, false)] {
        let mut terminal = coloured(&home);
        terminal.shows("ready").await;
        terminal.enter("go");
        terminal.shows("let x = 1;").await;
        terminal.shows("ready").await;
        let bytes = String::from_utf8_lossy(&terminal.bytes()).into_owned();
        assert_eq!(bytes.contains("\x1b[1;36mTitle"), expected);
        assert_eq!(bytes.contains("\x1b[35mlet\x1b[0m"), expected);
        let attributes = bytes.split("\x1b[").skip(1);
        let attributes = attributes.filter(|rest| {
            let end = rest.find(|c: char| c.is_ascii_alphabetic());
            end.is_some_and(|end| rest[end..].starts_with('m') && end > 0 && &rest[..end] != "0")
        });
        assert_eq!(attributes.count() > 0, expected);
    }
}

#[tokio::test]
async fn commands_of_the_project_are_offered_and_sent_to_the_agent() {
    let home = home(echo());
    let commands = home.workspace().join(".claude/commands");
    std::fs::create_dir_all(&commands).unwrap();
    std::fs::write(commands.join("review.md"), "Review $ARGUMENTS carefully.").unwrap();
    let mut terminal = chat(&home).await;
    terminal.press("/rev");
    terminal.shows("  /review").await;
    terminal.press("\tmain.rs\r");
    terminal.shows("you said").await;
    terminal.shows("ready").await;
    assert!(
        talk(&terminal).contains("❯ /review main.rs"),
        "{}",
        terminal.screen()
    );
    assert!(!talk(&terminal).contains("there is no command"));
}
