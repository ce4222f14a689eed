//! The stored format, event by event.

use serde_json::{Value, json};

use super::Event;

/// Reads `fields` as an event of type `kind` and writes it again.
fn round_trip(kind: &str, fields: &Value) -> (Event, Value) {
    let event = Event::from_json(kind, &fields.to_string()).unwrap();
    let again = serde_json::from_str(&event.fields_to_string().unwrap()).unwrap();
    (event, again)
}

#[test]
fn every_known_event_keeps_its_fields_and_its_name() {
    let examples = [
        (
            "session.created",
            json!({"owner": "local", "cwd": "/w", "epoch": 0}),
        ),
        ("session.updated", json!({"title": "t"})),
        (
            "user.message",
            json!({"text": "hi", "blocks": [{"type": "text", "text": "hi"}], "promptId": "p"}),
        ),
        ("prompt.queued", json!({"text": "hi", "blocks": []})),
        ("prompt.dropped", json!({"queued": 7})),
        ("prompt.dropped", json!({"queued": 7, "interrupted": true})),
        ("turn.started", json!({"turn": 1, "promptId": "p"})),
        (
            "message.started",
            json!({"messageId": "m", "kind": "thought"}),
        ),
        (
            "assistant.message",
            json!({"messageId": "m", "text": "x", "partial": true}),
        ),
        ("assistant.thought", json!({"messageId": "m", "text": "x"})),
        (
            "tool.use",
            json!({"turn": 1, "callId": "c", "name": "read", "input": {"path": "a"}, "title": "Read a", "kind": "read", "allowedBy": {"rules": [{"rule": "read", "from": "project"}], "event": 3, "mode": "default"}}),
        ),
        (
            "tool.result",
            json!({"callId": "c", "status": "not_run", "text": ""}),
        ),
        (
            "hook.event",
            json!({"event": "Stop", "command": "make", "outcome": "timed_out", "ms": 9, "turn": 1, "callId": "c", "reason": "r", "prompt": "p", "context": "x", "stopped": true}),
        ),
        (
            "prompt.expanded",
            json!({"turn": 1, "name": "fix", "text": "Fix it"}),
        ),
        (
            "permission.asked",
            json!({"id": "q", "callId": "c", "options": [{"optionId": "o", "name": "Allow", "kind": "allow_once"}], "title": "Write a", "kind": "edit"}),
        ),
        (
            "permission.answered",
            json!({"id": "q", "outcome": "allowed", "optionId": "o", "by": "local"}),
        ),
        ("mode.changed", json!({"mode": "plan"})),
        (
            "result",
            json!({"turn": 1, "error": {"kind": "model_timeout", "message": "late"}}),
        ),
        ("turn.interrupted", json!({"turn": 1})),
        ("session.recovered", json!({"epoch": 1, "from": 4})),
        ("session.forked", json!({"from": "a", "at": 3})),
        ("session.closed", json!({})),
        (
            "notice",
            json!({"kind": "greeting", "messageId": "m", "text": "hello"}),
        ),
    ];
    for (kind, fields) in examples {
        let (event, again) = round_trip(kind, &fields);
        assert_eq!(event.kind(), kind);
        assert!(
            !matches!(event, Event::Unknown(_)),
            "{kind} was not understood"
        );
        assert_eq!(again, fields, "{kind}");
    }
}

#[test]
fn events_between_a_session_and_its_sub_agents_keep_their_fields() {
    let session = "0".repeat(32);
    let asker = json!({"agent": "a", "sessionId": session, "callId": "c", "tool": "write", "input": {"path": "b"}});
    let examples = [
        (
            "permission.asked",
            json!({"id": "q", "callId": "t", "options": [], "title": "a: Write b", "kind": "edit", "asker": asker}),
        ),
        (
            "child.linked",
            json!({"callId": "c", "agent": "general", "child": session}),
        ),
        (
            "child.linked",
            json!({"callId": "c", "agent": "general", "parent": session}),
        ),
        (
            "usage",
            json!({"turn": 1, "purpose": "task", "inputTokens": 1, "outputTokens": 2}),
        ),
    ];
    for (kind, fields) in examples {
        let (event, again) = round_trip(kind, &fields);
        assert!(!matches!(event, Event::Unknown(_)), "{kind}");
        assert_eq!(again, fields, "{kind}");
    }
}

#[test]
fn an_unknown_type_and_a_known_type_of_another_shape_are_kept_whole() {
    let (event, again) = round_trip("assistant.delta", &json!({"text_delta": "x"}));
    assert_eq!(event.kind(), "assistant.delta");
    assert_eq!(again, json!({"text_delta": "x"}));

    let (event, again) = round_trip("user.message", &json!({"seq": 1, "ts": 2.0, "content": 5}));
    assert!(matches!(event, Event::Unknown(_)));
    assert_eq!(event.kind(), "user.message");
    assert_eq!(again, json!({"content": 5}));
}

#[test]
fn usage_keeps_all_its_counts_and_adds_up_what_is_known() {
    let counts = json!({"turn": 1, "inputTokens": 9, "outputTokens": 4, "cachedTokens": 3,
        "cacheWriteTokens": 2, "thoughtTokens": 1, "costNanoUsd": 70_500});
    let (event, again) = round_trip("usage", &counts);
    assert_eq!(again, counts);
    let Event::UsageRecorded(recorded) = event else {
        panic!("usage is known")
    };
    // What an older version stored has no price, which makes the sum no less than it is.
    let (older, _) = round_trip(
        "usage",
        &json!({"turn": 1, "inputTokens": 1, "outputTokens": 1}),
    );
    let Event::UsageRecorded(older) = older else {
        panic!("usage is known")
    };
    let mut sum = recorded.usage;
    sum += older.usage;
    sum += recorded.usage;
    assert_eq!((sum.input_tokens, sum.cost_nano_usd), (19, Some(141_000)));
}

#[test]
fn plans_compactions_and_rewinds_keep_their_fields_and_their_names() {
    let examples = [
        (
            "usage",
            json!({"turn": 1, "purpose": "summary", "contextWindow": 9, "sessionCostNanoUsd": 8, "inputTokens": 3, "outputTokens": 4}),
        ),
        (
            "plan.updated",
            json!({"entries": [{"content": "a", "priority": "high", "status": "in_progress"}]}),
        ),
        (
            "compaction",
            json!({"kind": "pruned", "upTo": 9, "tokensBefore": 8, "tokensAfter": 7}),
        ),
        (
            "compaction",
            json!({"kind": "summary", "upTo": 9, "text": "s", "tokensBefore": 8, "tokensAfter": 7}),
        ),
        ("session.rewound", json!({"to": 4})),
    ];
    for (kind, fields) in examples {
        let (event, again) = round_trip(kind, &fields);
        assert!(!matches!(event, Event::Unknown(_)), "{kind}");
        assert_eq!(again, fields, "{kind}");
    }
}

#[test]
fn questions_to_people_keep_their_fields_and_their_names() {
    for (kind, fields) in [
        (
            "question.asked",
            json!({"id": "q", "callId": "c", "question": "Which?", "options": ["a", "b"]}),
        ),
        (
            "question.answered",
            json!({"id": "q", "outcome": "later", "text": "a", "by": "local"}),
        ),
    ] {
        let (event, again) = round_trip(kind, &fields);
        assert_eq!((event.kind(), again), (kind, fields));
        assert!(!matches!(event, Event::Unknown(_)), "{kind}");
    }
}

#[test]
fn a_failed_turn_says_whether_to_try_again_and_older_ones_go_by_their_kind() {
    let failed = |error: Value| {
        let fields = json!({"turn": 1, "error": error});
        let (event, again) = round_trip("result", &fields);
        assert_eq!(again, fields);
        let Event::TurnResult(result) = event else {
            panic!("a result is known")
        };
        result.error.unwrap().is_retryable()
    };
    assert!(failed(json!({"kind": "model_error", "message": "m"})));
    assert!(!failed(json!({"kind": "storage_failed", "message": "m"})));
    let lasting = json!({"kind": "model_error", "message": "m", "retryable": false});
    assert!(!failed(lasting));
    let passing = json!({"kind": "model_error", "message": "m", "retryable": true});
    assert!(failed(passing));
}
