//! What must not happen by accident in the page, and what it says of what was written.
//!
//! The stories are in `crates/cli/tests/peers/page/safety.mjs`.

use serde_json::json;
use testkit::script::{Script, say, stream, tool};

use super::Stage;

/// A turn that goes on until it is cancelled.
fn endless() -> Script {
    Script::new().call([stream("tick ", 100_000, 10)])
}

#[tokio::test]
async fn only_a_chosen_option_and_enter_or_a_click_approve() {
    let write = |name: &str| tool("write", json!({"path": name, "content": "x"}));
    let script = Script::new()
        .call([write("one.txt")])
        .call([write("two.txt")])
        .call([say("both written")]);
    Stage::new(script).await.tell("keys", json!({})).await;
}

#[tokio::test]
async fn escape_does_what_is_nearest_and_drops_nothing_silently() {
    let stage = Stage::new(endless()).await;
    stage.tell("escape", json!({})).await;
}

#[tokio::test]
async fn queued_prompts_are_seen_by_all_and_a_crash_is_told() {
    let script = Script::new()
        .call([say("")])
        .call([stream("tick ", 100_000, 10)]);
    let stage = Stage::new(script).await;
    stage.tell("queue", json!({})).await;
}

#[tokio::test]
async fn a_question_takes_the_focus_but_never_text() {
    let ask = |question: &str| tool("ask_user", json!({"question": question}));
    let script = Script::new()
        .call([ask("Your name?")])
        .call([ask("Your town?")])
        .call([ask("Your age?")])
        .call([say("You said ${result}")]);
    let stage = Stage::new(script).await;
    stage.tell("questions", json!({})).await;
}

#[tokio::test]
async fn missing_sessions_tables_phones_hidden_text_and_copies() {
    let hidden = "echo a\u{202e}dcb\u{200b} \u{2066}x\u{2069} \u{e0041}";
    let table = "the table\n\n| requirement | implementation | responsibility | consequences |\n|---|---|---|---|\n\
        | authentication | cryptographically | infrastructure | incompatibilities |\n";
    let script = Script::new()
        .call([tool("bash", json!({"command": hidden}))])
        .call([say(table)]);
    let stage = Stage::new(script).await;
    let plan = json!({"first": "show \u{202e}gpj.txt \u{200b}please"});
    stage.tell("places", plan).await;
}
