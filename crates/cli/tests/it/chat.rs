//! `fastness chat` in a real terminal: what is typed, and what a person then sees.

mod answering;
mod ends;
mod looks;
mod queue;
mod writing;

use std::time::Duration;

use serde_json::{Value, json};
use testkit::chatted;
use testkit::script::{Script, say, stream, tool};
use testkit::{Home, Program, Terminal};
use tokio::io::AsyncWriteExt as _;

use crate::support::{binary, echo};

/// A terminal of the usual size.
pub(crate) const USUAL: (u16, u16) = (70, 18);

/// A home in which servers come back soon, and no greeting names a model that is a path.
pub(crate) fn home(script: impl Into<Value>) -> Home {
    Home::new(binary(), script)
        .env("FASTNESS_LIMITS_RECONNECT_FIRST_MS", 50)
        .env("FASTNESS_GREETING", false)
        .env("NO_COLOR", 1)
}

/// A conversation with an agent in the same process, ready for the first prompt.
pub(crate) async fn chat(home: &Home) -> Terminal {
    chat_with(home, &[]).await
}

pub(crate) async fn chat_with(home: &Home, arguments: &[&str]) -> Terminal {
    let terminal = Terminal::start(home, "chat", arguments, USUAL);
    terminal.shows("ready").await;
    terminal
}

/// The screen from the person's first words on, without the last row, which tells the state.
pub(crate) fn talk(terminal: &Terminal) -> String {
    let screen = terminal.screen();
    let from = screen.find('❯').unwrap_or_default();
    let talk = &screen[from..];
    let end = talk.rfind('\n').unwrap_or(talk.len());
    talk[..end].to_owned()
}

/// Highlights an option by its key and confirms it, as slowly as a person does.
pub(crate) async fn choose(terminal: &mut Terminal, key: &str) {
    terminal.press(key);
    terminal.shows(&format!("▸[{key}]")).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    terminal.press("\r");
}

#[tokio::test]
async fn an_answer_streams_in_and_the_next_question_can_be_asked() {
    let script = Script::new()
        .call([
            say("you **said** ${prompt}"),
            stream(" and", 3, 10),
            say("\n"),
        ])
        .call([say("again `${prompt}`")]);
    let home = home(script);
    let mut terminal = chat(&home).await;
    terminal.enter("hello");
    terminal.shows("and and and").await;
    terminal.shows("ready").await;
    terminal.enter("you");
    terminal.shows("again you").await;
    terminal.shows("ready").await;
    assert_eq!(
        talk(&terminal),
        "❯ hello\n\nyou said hello and and and\n\n❯ you\n\nagain you\n\n❯"
    );
    terminal.press("\x04");
    assert!(terminal.exit().await.success());
    assert!(
        terminal
            .screen()
            .contains("continue with: fastness chat --resume ")
    );
}

#[tokio::test]
async fn a_change_is_shown_and_allowed() {
    let script = Script::new()
        .call([tool(
            "write",
            json!({"path": "a.txt", "content": "one\ntwo\n"}),
        )])
        .call([say("written")]);
    let home = home(script);
    let mut terminal = chat(&home).await;
    terminal.enter("write it");
    terminal.shows("allow it? [y] yes").await;
    assert!(
        terminal.screen().contains("  + one\n  + two\n"),
        "{}",
        terminal.screen()
    );
    assert_eq!(home.read("a.txt"), None);
    choose(&mut terminal, "y").await;
    terminal.shows("written").await;
    terminal.shows("ready").await;
    assert_eq!(home.read("a.txt").as_deref(), Some("one\ntwo\n"));
    assert!(talk(&terminal).contains("✓ "), "{}", terminal.screen());
    assert!(!terminal.screen().contains("allow it?"));
}

#[tokio::test]
async fn keys_pressed_before_the_request_are_text() {
    let script = Script::new()
        .call([
            json!({"sleepMs": 300}),
            tool("write", json!({"path": "a.txt", "content": "x"})),
        ])
        .call([say("then not")]);
    let home = home(script);
    let mut terminal = chat(&home).await;
    terminal.enter("write it");
    terminal.press("yyy");
    terminal.shows("allow it?  y  yes").await;
    terminal.shows("❯ yyy\n").await;
    assert_eq!(home.read("a.txt"), None);
    terminal.press("\x15");
    terminal.shows("allow it? [y] yes").await;
    choose(&mut terminal, "n").await;
    terminal.shows("then not").await;
    terminal.shows("ready").await;
    assert!(
        talk(&terminal).contains("(denied)"),
        "{}",
        terminal.screen()
    );
    assert_eq!(home.read("a.txt"), None);
}

#[tokio::test]
async fn ctrl_c_stops_the_turn_and_twice_leaves() {
    let home = home(Script::new().call([stream("tick ", 5_000, 20)]));
    let mut terminal = chat(&home).await;
    terminal.enter("go");
    terminal.shows("tick tick").await;
    terminal.press("\x03");
    terminal.shows("✗ cancelled").await;
    terminal.shows("ready").await;
    terminal.press("words\x03");
    terminal
        .shows_when("an empty line to write in", |screen| {
            screen.lines().any(|line| line == "❯")
        })
        .await;
    terminal.press("\x03");
    terminal.shows("Ctrl-C again leaves").await;
    terminal.press("\x03");
    assert!(terminal.exit().await.success());
}

#[tokio::test]
async fn a_session_is_taken_up_again_with_what_was_said() {
    let home = home(echo());
    let mut terminal = chat(&home).await;
    terminal.enter("remember this");
    terminal.shows("you said remember this").await;
    terminal.shows("ready").await;
    terminal.press("\x04");
    terminal.exit().await;
    let screen = terminal.screen();
    let (_, id) = screen.rsplit_once("--resume ").unwrap();
    let mut again = chat_with(&home, &["--resume", &id[..12]]).await;
    again.shows("you said remember this").await;
    again.enter("and that");
    again.shows("you said and that").await;
    again.shows("ready").await;
    let all = again.all();
    assert_eq!(all.matches("you said remember this").count(), 1, "{all}");
    assert!(all.find("❯ remember this").unwrap() < all.find("❯ and that").unwrap());
    again.press("\x04");
    again.exit().await;
    let newest = chat_with(&home, &["--continue"]).await;
    newest.shows("you said and that").await;
}

#[tokio::test]
async fn b_21_a_server_that_is_killed_is_seen_to_come_back_and_the_talk_goes_on() {
    let script = Script::new().call([
        say("answering ${prompt}: "),
        stream("tick ", 40, 10),
        say("end"),
    ]);
    let mut server = Program::serve_in(home(script)).await;
    let mut terminal = chat_with(server.home(), &["--server", "local"]).await;
    terminal.enter("one");
    terminal.shows("tick tick").await;
    server.kill9().await;
    terminal.shows("connection lost").await;
    terminal.shows("reconnecting: try").await;
    let server = server.restart().await;
    terminal.shows("connected again").await;
    terminal.shows("✗ interrupted").await;
    terminal.shows("ready").await;
    terminal.enter("two");
    terminal.shows("answering two: tick").await;
    terminal.shows("tick end").await;
    terminal.shows("ready").await;
    let all = terminal.all();
    for once in ["answering one", "answering two", "❯ one", "❯ two"] {
        assert_eq!(all.matches(once).count(), 1, "{once} in\n{all}");
    }
    drop(server);
}

#[tokio::test]
async fn b_21_no_word_is_lost_or_doubled_over_servers_that_die() {
    let plan = testkit::rounds::Plan {
        binary: binary().into(),
        seed: 3,
        rounds: 4,
    };
    let report = chatted::run(&plan, &mut |_| {}).await.unwrap();
    assert!(report.rounds == 4 && report.words > 0, "{report:?}");
}

#[tokio::test]
async fn where_nobody_looks_lines_are_answered_in_plain_text() {
    let script = Script::new()
        .call([say("**you** said ${prompt}")])
        .call([tool("write", json!({"path": "a.txt", "content": "x"}))])
        .call([say("not done")]);
    let home = home(script);
    let mut program = home.command("chat").spawn().unwrap();
    let mut stdin = program.stdin.take().unwrap();
    stdin.write_all(b"one\n\nwrite\n").await.unwrap();
    drop(stdin);
    let output = program.wait_with_output().await.unwrap();
    assert!(output.status.success());
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "**you** said one\nnot done\n"
    );
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("nobody can be asked"), "{stderr}");
    assert_eq!(home.read("a.txt"), None);
}

#[tokio::test]
async fn what_a_model_says_cannot_reach_the_terminal_but_as_text() {
    let hostile = "a\u{1b}[2Jb\u{1b}]0;owned\u{7}c\u{9b}31md\u{1b}[?1049he";
    let home = home(Script::new().call([
        say(hostile),
        tool("bash", json!({"command": format!("echo {hostile}")})),
        say("end"),
    ]));
    let mut terminal = chat(&home).await;
    terminal.enter("go");
    terminal.shows("allow it? [y] yes").await;
    assert!(
        terminal.screen().contains("a[2Jb]0;ownedc31md[?1049he"),
        "{}",
        terminal.screen()
    );
    let bytes = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    for never in ["\u{1b}[2J", "\u{1b}]0", "\u{7}", "\u{9b}", "\u{1b}[?1049"] {
        assert!(!bytes.contains(never), "{never:?} was written");
    }
}
