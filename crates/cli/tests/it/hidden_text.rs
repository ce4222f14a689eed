//! Characters that cannot be seen but change how a text reads do not reach a terminal as they are.

use serde_json::json;
use testkit::script::{Script, say, tool};
use testkit::{Home, Terminal, wait_for};

use crate::chat::{USUAL, chat, choose, home};

/// Direction marks and overrides, zero width, operators, tags, selectors, separators.
const HIDDEN: &[char] = &[
    '\u{202e}',
    '\u{202a}',
    '\u{2066}',
    '\u{2069}',
    '\u{61c}',
    '\u{200e}',
    '\u{200f}',
    '\u{200b}',
    '\u{200d}',
    '\u{2060}',
    '\u{2064}',
    '\u{206a}',
    '\u{feff}',
    '\u{e0041}',
    '\u{e007f}',
    '\u{e0100}',
    '\u{2028}',
    '\u{85}',
    '\u{9b}',
    '\u{7}',
];

/// The hidden characters, each between two letters.
fn hostile() -> String {
    HIDDEN.iter().map(|c| format!("a{c}b")).collect()
}

/// Fails if any of them was written to the terminal.
fn assert_clean(terminal: &Terminal, what: &str) {
    let bytes = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    for c in HIDDEN {
        assert!(!bytes.contains(*c), "{what} wrote {c:?}");
    }
}

/// A model that says, writes and runs hostile things.
fn script() -> Script {
    let text = hostile();
    let path = format!(
        "{}.txt",
        text.replace(['\u{85}', '\u{2028}', '\u{9b}', '\u{7}'], "")
    );
    Script::new()
        .call([
            say(&format!("{text} said ")),
            tool("write", json!({"path": path, "content": text})),
        ])
        .call([tool("bash", json!({"command": format!("printf '{text}'")}))])
        .call([say("that is all")])
}

/// Runs a command of `home` in a terminal until it has ended and shows a hidden character by its number.
async fn run(home: &Home, arguments: &[&str]) -> Terminal {
    let data_dir = home.data_dir();
    let data_dir = data_dir.to_str().unwrap();
    let arguments: Vec<&str> = [arguments, &["--data-dir", data_dir]].concat();
    let mut terminal = Terminal::open(home, &arguments, (200, 60));
    terminal.exit().await;
    wait_for("what it printed is there", || {
        terminal.all().contains("<U+202E>")
    })
    .await;
    terminal
}

#[tokio::test]
async fn hidden_characters_are_shown_by_number_in_chat() {
    let home = home(script());
    let mut terminal = chat(&home).await;
    terminal.enter(&format!(
        "{} please",
        hostile().replace(['\u{85}', '\u{9b}', '\u{7}'], "")
    ));
    for _ in 0..2 {
        terminal.shows("allow it? [y] yes").await;
        assert!(terminal.all().contains("<U+202E>"), "{}", terminal.all());
        choose(&mut terminal, "y").await;
        terminal
            .shows_when("the next thing", |screen| !screen.contains("▸[y]"))
            .await;
    }
    terminal.shows("that is all").await;
    terminal.shows("ready").await;
    assert_clean(&terminal, "chat");
    let all = terminal.all();
    assert!(
        all.contains("<U+E0041>") && all.contains("<U+0007>"),
        "{all}"
    );
    terminal.press("\x04");
    terminal.exit().await;
    terminal.shows("--resume ").await;

    let again = Terminal::start(&home, "chat", &["--continue"], USUAL);
    again.shows("that is all").await;
    assert_clean(&again, "a replay");

    let list = run(&home, &["sessions", "list"]).await;
    assert_clean(&list, "sessions list");
    let screen = terminal.all();
    let (_, id) = screen.rsplit_once("--resume ").unwrap();
    for command in ["show", "tail"] {
        let shown = run(&home, &["sessions", command, &id[..12]]).await;
        assert_clean(&shown, command);
    }
}

#[tokio::test]
async fn hidden_characters_are_shown_by_number_in_ask() {
    let home = home(script());
    let mut terminal = Terminal::start(&home, "ask", &["go"], (600, 60));
    for _ in 0..2 {
        terminal
            .shows_when("a prompt", |screen| {
                screen.trim_end().ends_with("allow it? [y/N]")
            })
            .await;
        terminal.press("y\r");
        terminal
            .shows_when("the answer", |screen| {
                !screen.trim_end().ends_with("allow it? [y/N]")
            })
            .await;
    }
    terminal.shows("that is all").await;
    terminal.exit().await;
    assert!(terminal.all().contains("<U+202E>"), "{}", terminal.all());
    assert_clean(&terminal, "ask");
}

#[tokio::test]
async fn emoji_and_scripts_that_join_stay_as_they_are() {
    let text = "👩\u{200d}💻 می\u{200c}خواهم ❤\u{fe0f}";
    let steps = text.chars().map(|c| say(c.encode_utf8(&mut [0; 4])));
    let home = home(Script::new().call(steps));
    let mut terminal = Terminal::start(&home, "ask", &["go"], USUAL);
    terminal.exit().await;
    let bytes = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    assert!(bytes.contains(text), "{bytes:?}");
}

#[tokio::test]
async fn a_pipe_gets_the_answer_exactly() {
    let text = hostile();
    let home = home(Script::says(&text));
    let output = home.command("ask").arg("go").output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{text}\n"));
}

#[tokio::test]
async fn a_line_typed_before_the_prompt_of_ask_is_no_answer() {
    let script = Script::new()
        .call([
            json!({"sleepMs": 700}),
            tool("write", json!({"path": "a.txt", "content": "x"})),
        ])
        .call([
            json!({"sleepMs": 700}),
            tool("write", json!({"path": "b.txt", "content": "x"})),
        ])
        .call([say("that is all")]);
    let home = home(script);
    let mut terminal = Terminal::start(&home, "ask", &["go"], USUAL);
    // Two whole lines, and the beginning of a third.
    terminal.press("y\ry\ry");
    terminal.shows("allow it? [y/N]").await;
    terminal.press("\r");
    terminal.shows("denied").await;
    terminal.press("y\ry\ry");
    terminal
        .shows_when("a second prompt", |screen| {
            screen.matches("allow it? [y/N]").count() == 2
        })
        .await;
    terminal.press("\r");
    terminal.shows("that is all").await;
    terminal.exit().await;
    assert_eq!((home.read("a.txt"), home.read("b.txt")), (None, None));
}
