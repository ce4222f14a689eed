//! The oracle accepts what the protocol says, of every kind, and nothing beside it.

use serde_json::{Value, json};

use super::Oracle;

/// One update of every kind, with as many of its fields as are worth showing.
fn updates() -> Vec<Value> {
    let text =
        json!({"type": "text", "text": "hi", "annotations": {"audience": ["user"], "priority": 1}});
    let content = json!([
        {"type": "content", "content": text},
        {"type": "diff", "path": "/w/a", "oldText": null, "newText": "b"},
        {"type": "terminal", "terminalId": "t1"},
    ]);
    let config = json!({
        "id": "model", "name": "Model", "type": "select", "currentValue": "a", "category": "model",
        "options": [{"value": "a", "name": "A"}],
    });
    vec![
        json!({"sessionUpdate": "user_message_chunk", "content": text, "messageId": "m1"}),
        json!({"sessionUpdate": "agent_message_chunk", "content": text, "_meta": {"fastness": {"greeting": true}}}),
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "resource_link", "name": "a", "uri": "file:///a"}}),
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "resource", "resource": {"uri": "file:///a", "text": "x", "mimeType": "text/plain"}}}),
        json!({"sessionUpdate": "agent_thought_chunk", "content": text}),
        json!({"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "write a", "name": "write", "kind": "edit",
               "status": "pending", "rawInput": {"any_thing": {"goes_here": 1}}, "locations": [{"path": "/w/a", "line": 3}]}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed", "content": content, "rawOutput": {"exit_code": 0}}),
        json!({"sessionUpdate": "plan", "entries": [{"content": "a", "priority": "high", "status": "pending"}]}),
        json!({"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "n", "description": "d", "input": {"hint": "h"}}]}),
        json!({"sessionUpdate": "current_mode_update", "currentModeId": "default"}),
        json!({"sessionUpdate": "config_option_update", "configOptions": [config]}),
        json!({"sessionUpdate": "session_info_update", "title": "T", "updatedAt": "2026-01-01T00:00:00Z"}),
        json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 0.5, "currency": "USD"}}),
        json!({"sessionUpdate": "notice", "severity": "info", "title": "t", "description": "d"}),
        json!({"sessionUpdate": "compaction_update", "compactionId": "k", "status": "in_progress"}),
        json!({"sessionUpdate": "compaction_summary_chunk", "compactionId": "k", "content": text}),
    ]
}

/// Results of the methods of a session's life.
fn results() -> Vec<(&'static str, Value)> {
    let modes = json!({"currentModeId": "default", "availableModes": [{"id": "default", "name": "Default"}]});
    vec![
        (
            "initialize",
            json!({"protocolVersion": 1, "authMethods": [], "agentInfo": {"name": "fastness", "version": "0", "title": "Fastness"},
                "agentCapabilities": {"loadSession": true, "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
                    "promptCapabilities": {"image": false, "embeddedContext": true}}, "_meta": {"fastness": {"maxMessageBytes": 1}}}),
        ),
        (
            "session/new",
            json!({"sessionId": "s", "modes": modes, "_meta": {"fastness": {"resumeToken": "t"}}}),
        ),
        ("session/load", json!({"modes": modes})),
        (
            "session/resume",
            json!({"_meta": {"fastness": {"resyncFrom": 1}}}),
        ),
        (
            "session/list",
            json!({"sessions": [{"sessionId": "s", "cwd": "/w", "title": null, "updatedAt": "2026-01-01T00:00:00Z"}], "nextCursor": null}),
        ),
        ("session/close", json!({})),
        ("session/delete", json!({})),
        ("session/set_mode", json!({})),
        ("session/set_config_option", json!({"configOptions": []})),
        ("session/prompt", json!({"stopReason": "end_turn"})),
        ("new_session", json!({"sessionId": "s"})),
    ]
}

fn requests() -> Vec<(&'static str, Value)> {
    let options = json!([{"optionId": "allow_once", "name": "Allow", "kind": "allow_once"}]);
    let call = json!({"toolCallId": "c1", "title": "write a", "rawInput": {"path": "a"}});
    vec![
        (
            "session/request_permission",
            json!({"sessionId": "s", "toolCall": call, "options": options}),
        ),
        (
            "fs/read_text_file",
            json!({"sessionId": "s", "path": "/w/a", "line": 1, "limit": 2}),
        ),
        (
            "fs/write_text_file",
            json!({"sessionId": "s", "path": "/w/a", "content": "x"}),
        ),
        (
            "terminal/create",
            json!({"sessionId": "s", "command": "ls", "args": ["-l"], "env": [{"name": "A", "value": "b"}]}),
        ),
        (
            "terminal/output",
            json!({"sessionId": "s", "terminalId": "t"}),
        ),
        (
            "terminal/wait_for_exit",
            json!({"sessionId": "s", "terminalId": "t"}),
        ),
        (
            "terminal/kill",
            json!({"sessionId": "s", "terminalId": "t"}),
        ),
        (
            "terminal/release",
            json!({"sessionId": "s", "terminalId": "t"}),
        ),
    ]
}

fn update(update: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update",
           "params": {"sessionId": "s", "update": update, "_meta": {"fastness": {"seq": 1, "epoch": 0}}}})
}

fn answer(result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "result": result})
}

/// Judges `message` and says whether the finding names `word`.
fn refused_for(message: &Value, method: Option<&str>, word: &str) {
    let violation = Oracle::shared().judge(message, method).unwrap_err();
    let report = violation.to_string();
    assert!(report.contains(word), "{word} is not in: {report}");
}

#[test]
fn proper_messages_of_every_kind_are_accepted() {
    let oracle = Oracle::shared();
    for kind in updates() {
        oracle.judge(&update(kind), None).unwrap();
    }
    for (method, result) in results() {
        oracle.judge(&answer(result), Some(method)).unwrap();
    }
    for (method, params) in requests() {
        let message = json!({"jsonrpc": "2.0", "id": "u", "method": method, "params": params});
        oracle.judge(&message, None).unwrap();
    }
    let cancel =
        json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "u"}});
    oracle.judge(&cancel, None).unwrap();
    let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "m", "data": {"request_id": 1}}});
    oracle.judge(&error, None).unwrap();
}

#[test]
fn every_update_kind_of_the_schema_is_shown_here() {
    let schema = &Oracle::shared().schema;
    let kinds = schema["$defs"]["SessionUpdate"]["oneOf"]
        .as_array()
        .unwrap();
    let shown = updates();
    for kind in kinds {
        let name = &kind["properties"]["sessionUpdate"]["const"];
        let is_shown = shown.iter().any(|update| update["sessionUpdate"] == *name);
        assert!(is_shown, "{name} has no example");
    }
}

#[test]
fn an_unknown_update_kind_is_rejected() {
    let chunk = json!({"sessionUpdate": "agent_message", "content": {"type": "text", "text": "x"}});
    refused_for(&update(chunk), None, "agent_message");
}

#[test]
fn a_snake_case_field_is_rejected_at_any_depth() {
    let top = json!({"jsonrpc": "2.0", "method": "session/update",
        "params": {"session_id": "s", "update": {"sessionUpdate": "plan", "entries": []}}});
    refused_for(&top, None, "session_id");
    let chunk = json!({"sessionUpdate": "agent_message_chunk", "message_id": "m", "content": {"type": "text", "text": "x"}});
    refused_for(&update(chunk), None, "message_id");
    let deep = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t",
        "content": [{"type": "diff", "path": "/a", "newText": "n", "old_text": "o"}]});
    refused_for(&update(deep), None, "old_text");
    refused_for(
        &answer(json!({"stopReason": "end_turn", "stop_reason": "end_turn"})),
        Some("session/prompt"),
        "stop_reason",
    );
}

#[test]
fn a_missing_field_a_wrong_type_and_a_wrong_word_are_rejected() {
    refused_for(&answer(json!({})), Some("session/new"), "sessionId");
    refused_for(&answer(json!(null)), Some("session/close"), "null");
    refused_for(
        &answer(json!({"stopReason": "done"})),
        Some("session/prompt"),
        "done",
    );
    let error = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": "x", "message": "m"}});
    refused_for(&error, Some("session/new"), "code");
}

#[test]
fn a_method_that_agents_do_not_send_is_rejected_but_ours_are_not_judged() {
    let prompt = json!({"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}});
    refused_for(&prompt, None, "session/prompt");
    let update_with_id =
        json!({"jsonrpc": "2.0", "id": 1, "method": "session/update", "params": {}});
    refused_for(&update_with_id, None, "session/update");
    let ours = json!({"jsonrpc": "2.0", "method": "_fastness/turn", "params": {"any_thing": 1}});
    Oracle::shared().judge(&ours, None).unwrap();
}

#[test]
fn the_frame_around_a_message_is_judged_too() {
    refused_for(&json!([]), None, "one JSON object");
    refused_for(
        &json!({"id": 1, "result": {}}),
        Some("session/close"),
        "jsonrpc",
    );
    refused_for(
        &json!({"jsonrpc": "2.0", "id": 1}),
        Some("session/close"),
        "either",
    );
    refused_for(
        &json!({"jsonrpc": "2.0", "id": 1, "result": {}, "extra": 1}),
        Some("session/close"),
        "extra",
    );
    refused_for(&answer(json!({})), None, "not sent");
}
