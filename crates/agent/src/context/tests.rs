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
            "results: read false a; write true The user did not allow this call. It was not run.",
            "assistant: long text []",
        ]
    );
}

#[test]
fn d_07_what_hooks_and_commands_say_is_folded_in_and_a_refused_prompt_is_forgotten() {
    let hook = |event: &str, fields: Value| {
        let mut ran = json!({"event": event, "command": "c", "outcome": "ok", "ms": 1});
        ran.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        ran
    };
    let refused = json!({"stopped": true, "outcome": "blocked"});
    let rewritten = json!({"prompt": "two", "context": "night"});
    let shown = fold(&[
        ("user.message", json!({"text": "/fix 1", "blocks": []})),
        (
            "prompt.expanded",
            json!({"turn": 1, "name": "fix", "text": "/fix 1\n\nFix 1"}),
        ),
        (
            "assistant.message",
            json!({"messageId": "m", "text": "Done."}),
        ),
        (
            "hook.event",
            hook("Stop", json!({"context": "test it", "stopped": true})),
        ),
        (
            "assistant.message",
            json!({"messageId": "n", "text": "Tested."}),
        ),
        ("user.message", json!({"text": "secret", "blocks": []})),
        (
            "assistant.message",
            json!({"messageId": "o", "text": "A hook said no."}),
        ),
        ("hook.event", hook("UserPromptSubmit", refused)),
        ("user.message", json!({"text": "one", "blocks": []})),
        ("hook.event", hook("UserPromptSubmit", rewritten)),
    ]);
    assert_eq!(
        shown,
        [
            "user: /fix 1\n\nFix 1",
            "assistant: Done. []",
            "user: [from a hook]\ntest it",
            "assistant: Tested. []",
            "user: two\n\n[from a hook]\nnight",
        ]
    );
}

#[test]
fn d_07_what_a_hook_kept_from_the_model_is_not_quoted_in_a_summary() {
    let mut conversation = Conversation::default();
    let events = [
        (
            "user.message",
            json!({"text": "tiger is the password", "blocks": []}),
        ),
        (
            "hook.event",
            json!({"event": "UserPromptSubmit", "command": "c", "outcome": "rewrote", "ms": 1, "prompt": "a polite question"}),
        ),
        (
            "assistant.message",
            json!({"messageId": "m", "text": "Answer."}),
        ),
        (
            "compaction",
            json!({"kind": "summary", "upTo": 3, "text": "SUMMARY", "tokensBefore": 9, "tokensAfter": 1}),
        ),
    ];
    for (at, (kind, fields)) in events.iter().enumerate() {
        let event = Event::from_json(kind, &fields.to_string()).unwrap();
        conversation.apply(domain::EventSeq(at as u64 + 1), &event, |_| String::new());
    }
    let shown: Vec<String> = conversation.context().messages.iter().map(line).collect();
    let shown = shown.join("\n");
    assert!(
        shown.contains("SUMMARY") && !shown.contains("tiger"),
        "{shown}"
    );
    assert!(shown.contains("a polite question"), "{shown}");
}

#[test]
fn a_conversation_that_grows_is_never_copied_not_even_while_it_is_lent_out() {
    let mut conversation = Conversation::default();
    let mut seq = 0;
    let mut tell = |conversation: &mut Conversation, kind: &str, fields: Value| {
        seq += 1;
        let event = Event::from_json(kind, &fields.to_string()).unwrap();
        conversation.apply(domain::EventSeq(seq), &event, |_| String::new());
    };
    let prompt = || json!({"text": "go on", "blocks": []});
    let said = |text: &str| json!({"messageId": "m", "text": text});
    tell(&mut conversation, "user.message", prompt());
    let place = std::sync::Arc::as_ptr(&conversation.context().messages);
    for turn in 1..1_000 {
        let lent = conversation.context();
        // A model that thinks between two texts ends one while its own call still runs.
        tell(&mut conversation, "assistant.message", said("one "));
        tell(&mut conversation, "assistant.message", said("two"));
        assert_eq!(
            lent.messages.len(),
            2 * turn - 1,
            "what was lent has changed"
        );
        drop(lent);
        tell(&mut conversation, "user.message", prompt());
        let now = conversation.context().messages;
        assert_eq!(std::sync::Arc::as_ptr(&now), place, "it was copied");
        assert_eq!(now.len(), 2 * turn + 1);
        assert_eq!(line(&now[2 * turn - 1]), "assistant: one two []");
    }
}

#[test]
fn conversation_of_any_length_stays_within_its_limit() {
    use domain::limits::CONVERSATION_BYTES_MAX;
    let mut conversation = Conversation::default();
    let long = "x".repeat(1024 * 1024);
    for turn in 1..100 {
        let prompt = json!({"text": format!("task {turn}"), "blocks": []});
        let call = format!("c{turn}");
        let used = json!({"turn": turn, "callId": call, "name": "read", "input": {}});
        let result = json!({"callId": call, "status": "completed", "text": long});
        let events = [
            ("user.message", prompt),
            ("tool.use", used),
            ("tool.result", result),
        ];
        for (at, (kind, fields)) in (turn * 3..).zip(events) {
            let event = Event::from_json(kind, &fields.to_string()).unwrap();
            conversation.apply(domain::EventSeq(at), &event, |_| String::new());
            assert!(conversation.bytes() <= CONVERSATION_BYTES_MAX);
        }
    }
    let messages = conversation.context().messages;
    let first = line(&messages[0]);
    assert!(first.contains("was left out"), "{first}");
    assert!(first.contains("task 1\n"), "the first instruction is kept");
    assert!(
        !matches!(messages[1], Message::ToolResults(_)),
        "a result needs its call"
    );
    let last = line(&messages[messages.len() - 1]);
    assert!(last.starts_with("results: read false xxx"));
    let prompts = messages
        .iter()
        .filter(|message| matches!(message, Message::User { .. }));
    assert!(prompts.count() > 5);
}
