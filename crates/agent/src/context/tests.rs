//! The conversation as a fold.

use domain::Event;
use llm::Message;
use serde_json::{Value, json};

use super::Conversation;

fn fold(events: &[(&str, Value)]) -> Vec<String> {
    let mut conversation = Conversation::default();
    for (kind, fields) in events {
        let event = Event::from_json(kind, &fields.to_string()).unwrap();
        conversation.apply(domain::EventSeq(1), &event, |_| "long text".to_owned());
    }
    conversation.context().messages.iter().map(line).collect()
}

fn line(message: &Message) -> String {
    match message {
        Message::User { text, .. } => format!("user: {text}"),
        Message::Assistant { text, calls } => {
            let names: Vec<_> = calls.iter().map(|call| call.name.as_str()).collect();
            format!("assistant: {text} {names:?}")
        }
        Message::ToolResults(outcomes) => {
            let shown = outcomes
                .iter()
                .map(|outcome| format!("{} {} {}", outcome.name, outcome.failed, outcome.text));
            format!("results: {}", shown.collect::<Vec<_>>().join("; "))
        }
    }
}

#[test]
fn a_turn_with_tools_reads_as_text_calls_results_text() {
    let shown = fold(&[
        (
            "notice",
            json!({"kind": "greeting", "text": "I am the offline assistant"}),
        ),
        ("user.message", json!({"text": "read both", "blocks": []})),
        ("assistant.thought", json!({"messageId": "t", "text": "hm"})),
        (
            "assistant.message",
            json!({"messageId": "m", "text": "Reading."}),
        ),
        (
            "tool.use",
            json!({"turn": 1, "callId": "c1", "name": "read", "input": {}}),
        ),
        (
            "tool.use",
            json!({"turn": 1, "callId": "c2", "name": "write", "input": {}}),
        ),
        (
            "tool.result",
            json!({"callId": "c1", "status": "completed", "text": "a"}),
        ),
        (
            "tool.result",
            json!({"callId": "c2", "status": "denied", "text": ""}),
        ),
        (
            "assistant.message",
            json!({"messageId": "n", "text": {"$blob": "ab"}}),
        ),
    ]);
    assert_eq!(
        shown,
        [
            "user: read both",
            "assistant: Reading. [\"read\", \"write\"]",
            "results: read false a; write true The person did not allow this call. It was not run.",
            "assistant: long text []",
        ]
    );
}
