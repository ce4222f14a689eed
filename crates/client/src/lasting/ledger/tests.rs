//! The rules of coming back, as stories: what either side says, and what the other one hears.

use serde_json::{Value, json};

use super::{Effects, Ledger};

const SESSION: &str = "0123456789abcdef0123456789abcdef";
const SIZE: usize = 4 * 1024;

/// A caller that is attached to [`SESSION`], whose stream stands at event 3.
fn attached() -> Ledger {
    let mut ledger = Ledger::new(SIZE);
    ask(&mut ledger, 0, "initialize", json!({"protocolVersion": 1}));
    answer(&mut ledger, &json!(0), json!({"protocolVersion": 1}));
    ask(
        &mut ledger,
        1,
        "session/new",
        json!({"cwd": "/w", "mcpServers": []}),
    );
    let meta = json!({"fastness": {"resumeToken": "first"}});
    answer(
        &mut ledger,
        &json!(1),
        json!({"sessionId": SESSION, "_meta": meta}),
    );
    tell(&mut ledger, json!({"seq": 3}), "agent_message_chunk");
    ledger
}

fn ask(ledger: &mut Ledger, id: u64, method: &str, params: Value) -> Value {
    let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let effects = ledger.outgoing(message.to_string());
    assert_eq!((effects.to_server.len(), effects.to_caller.len()), (1, 0));
    serde_json::from_str(&effects.to_server[0]).unwrap()
}

fn answer(ledger: &mut Ledger, id: &Value, result: Value) -> Effects {
    ledger.incoming(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
}

/// An update with this cursor; gives how many updates the caller hears.
fn tell(ledger: &mut Ledger, meta: Value, kind: &str) -> usize {
    let params = json!({"sessionId": SESSION, "update": {"sessionUpdate": kind},
        "_meta": {"fastness": meta}});
    let message = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
    let effects = ledger.incoming(message.to_string());
    assert!(effects.to_server.is_empty());
    effects.to_caller.len()
}

/// Loses the connection and makes the next one; gives what is said after the handshake.
fn come_back(ledger: &mut Ledger) -> Vec<Value> {
    ledger.lost();
    let greeting = all(&ledger.greet().to_server);
    assert_eq!(greeting[0]["method"], "initialize");
    assert!(!ledger.is_ready());
    let effects = answer(ledger, &greeting[0]["id"], json!({"protocolVersion": 1}));
    assert!(effects.to_caller.is_empty(), "the caller knows already");
    assert!(ledger.is_ready());
    all(&effects.to_server)
}

fn all(frames: &[String]) -> Vec<Value> {
    let parse = |frame: &String| serde_json::from_str(frame).unwrap();
    frames.iter().map(parse).collect()
}

fn methods(frames: &[Value]) -> Vec<&str> {
    frames
        .iter()
        .map(|frame| frame["method"].as_str().unwrap())
        .collect()
}

fn question(id: &str, name: &str) -> String {
    let params = json!({"sessionId": SESSION, "toolCall": {"toolCallId": "c1"}, "options": [],
        "_meta": {"fastness": {"question": name}}});
    let method = "session/request_permission";
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn chosen(id: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": {"outcome": "selected"}}}).to_string()
}

#[test]
fn b_21_a_session_goes_on_after_the_last_cursor_with_its_newest_token() {
    let mut ledger = attached();
    tell(
        &mut ledger,
        json!({"seq": 5, "epoch": 2, "offset": 7}),
        "agent_message_chunk",
    );
    let said = come_back(&mut ledger);
    assert_eq!(methods(&said), ["session/resume"]);
    let meta =
        json!({"fastness": {"afterSeq": 5, "offset": 7, "epoch": 2, "resumeToken": "first"}});
    let params = json!({"cwd": "/w", "mcpServers": [], "sessionId": SESSION, "_meta": meta});
    assert_eq!(said[0]["params"], params);

    let meta = json!({"fastness": {"resumeToken": "second", "cursor": {"seq": 4, "epoch": 3}}});
    let effects = answer(&mut ledger, &said[0]["id"], json!({"_meta": meta}));
    assert_eq!(effects, Effects::default(), "the caller asked for nothing");
    let said = come_back(&mut ledger);
    let meta = &said[0]["params"]["_meta"]["fastness"];
    assert_eq!(
        *meta,
        json!({"afterSeq": 4, "offset": 0, "epoch": 3, "resumeToken": "second"})
    );
}

#[test]
fn a_turn_that_no_new_event_tells_of_does_not_move_the_cursor() {
    let mut ledger = attached();
    let mut resumed_after = |seq: u64| {
        let open = json!({"seq": 5, "epoch": 2, "offset": 7});
        tell(&mut ledger, open, "agent_message_chunk");
        let params = json!({"sessionId": SESSION, "seq": seq, "turn": 1, "state": "idle"});
        let notice = json!({"jsonrpc": "2.0", "method": "_fastness/turn", "params": params});
        assert_eq!(ledger.incoming(notice.to_string()).to_caller.len(), 1);
        let said = come_back(&mut ledger);
        let meta = said[0]["params"]["_meta"]["fastness"].clone();
        (meta["afterSeq"].clone(), meta["offset"].clone())
    };
    // The store failed in the middle of a message: the client has seven bytes of it.
    assert_eq!(resumed_after(5), (json!(5), json!(7)));
    assert_eq!(resumed_after(6), (json!(6), json!(0)));
}

#[test]
fn b_21_a_prompt_is_asked_again_by_its_name_and_its_echo_is_not_shown() {
    let mut ledger = attached();
    let prompt = json!({"sessionId": SESSION, "prompt": []});
    let sent = ask(&mut ledger, 2, "session/prompt", prompt);
    let name = sent["params"]["_meta"]["fastness"]["promptId"].clone();
    assert!(name.is_string());
    let said = come_back(&mut ledger);
    assert_eq!(methods(&said), ["session/resume", "session/prompt"]);
    assert_eq!(said[1], sent);

    let echo = |name: &Value, more: bool| json!({"seq": 6, "promptId": name, "more": more});
    assert_eq!(
        tell(&mut ledger, echo(&name, true), "user_message_chunk"),
        0
    );
    assert_eq!(
        tell(&mut ledger, echo(&name, false), "user_message_chunk"),
        0
    );
    // Somebody else's is.
    let other = echo(&json!("other"), false);
    assert_eq!(tell(&mut ledger, other, "user_message_chunk"), 1);
    let effects = answer(&mut ledger, &json!(2), json!({"stopReason": "end_turn"}));
    assert_eq!(effects.to_caller.len(), 1);
    // A second answer is nobody's.
    let again = answer(&mut ledger, &json!(2), json!({"stopReason": "end_turn"}));
    assert_eq!(again, Effects::default());
}

#[test]
fn b_21_a_cancel_that_may_have_been_lost_is_said_again() {
    let mut ledger = attached();
    let prompt = json!({"sessionId": SESSION, "prompt": []});
    ask(&mut ledger, 2, "session/prompt", prompt);
    let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel",
        "params": {"sessionId": SESSION}});
    ledger.outgoing(cancel.to_string());
    let said = come_back(&mut ledger);
    assert_eq!(
        methods(&said),
        ["session/resume", "session/prompt", "session/cancel"]
    );
}

#[test]
fn b_21_an_event_of_several_updates_is_handed_on_whole_or_not_at_all() {
    let mut ledger = attached();
    assert_eq!(
        tell(&mut ledger, json!({"seq": 4, "more": true}), "plan"),
        0
    );
    assert_eq!(
        tell(&mut ledger, json!({"seq": 4, "more": true}), "plan"),
        0
    );
    let said = come_back(&mut ledger);
    assert_eq!(said[0]["params"]["_meta"]["fastness"]["afterSeq"], 3);
    assert_eq!(
        tell(&mut ledger, json!({"seq": 4, "more": true}), "plan"),
        0
    );
    assert_eq!(tell(&mut ledger, json!({"seq": 4}), "plan"), 2);
}

#[test]
fn b_21_what_was_replayed_before_the_loss_is_not_replayed_again() {
    let mut ledger = Ledger::new(SIZE);
    ask(&mut ledger, 0, "initialize", json!({"protocolVersion": 1}));
    answer(&mut ledger, &json!(0), json!({"protocolVersion": 1}));
    let load = json!({"sessionId": SESSION, "cwd": "/w", "mcpServers": []});
    ask(&mut ledger, 1, "session/load", load);
    assert_eq!(methods(&come_back(&mut ledger)), ["session/load"]);
    tell(&mut ledger, json!({"seq": 9}), "agent_message_chunk");
    let said = come_back(&mut ledger);
    assert_eq!(methods(&said), ["session/resume"]);
    assert_eq!(said[0]["id"], 1, "its answer is the caller's");
    assert_eq!(said[0]["params"]["_meta"]["fastness"]["afterSeq"], 9);
    assert_eq!(answer(&mut ledger, &json!(1), json!({})).to_caller.len(), 1);
    assert_eq!(methods(&come_back(&mut ledger)), ["session/resume"]);
}

#[test]
fn what_cannot_be_asked_twice_fails_with_a_clear_error() {
    let mut ledger = attached();
    ask(&mut ledger, 2, "_other/extension", json!({}));
    ask(&mut ledger, 3, "session/list", json!({}));
    let told = all(&ledger.lost().to_caller);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["id"], 2);
    assert_eq!(told[0]["error"]["data"]["kind"], "connection_lost");
    let failed = all(&ledger.give_up("it is gone").to_caller);
    assert_eq!((failed.len(), &failed[0]["id"]), (1, &json!(3)));
    assert_eq!(failed[0]["error"]["message"], "it is gone");
}

#[test]
fn a_question_survives_the_connection_that_asked_it() {
    let mut ledger = attached();
    assert_eq!(ledger.incoming(question("a", "q1")).to_caller.len(), 1);
    ledger
        .incoming(json!({"jsonrpc": "2.0", "id": "f", "method": "fs/read_text_file"}).to_string());
    let void = all(&ledger.lost().to_caller);
    assert_eq!(void.len(), 1, "only the server's call for a file is void");
    assert_eq!(void[0]["params"]["requestId"], "f");
    // Asked again under another id: the person is not asked twice, and the answer finds its way.
    assert_eq!(ledger.incoming(question("b", "q1")), Effects::default());
    let sent = all(&ledger.outgoing(chosen("a")).to_server);
    assert_eq!(sent[0]["id"], "b");
    // That answer was lost as well, but not forgotten. Another question is a new one.
    ledger.lost();
    let sent = all(&ledger.incoming(question("c", "q1")).to_server);
    assert_eq!(sent[0]["id"], "c");
    assert_eq!(ledger.incoming(question("d", "q2")).to_caller.len(), 1);
    // A late answer to what is void goes nowhere.
    assert_eq!(ledger.outgoing(chosen("f")), Effects::default());
}

#[test]
fn a_question_that_is_not_asked_again_is_withdrawn_with_its_call_or_its_turn() {
    let mut ledger = attached();
    ledger.incoming(question("a", "q1"));
    ledger.lost();
    let params = json!({"sessionId": SESSION, "update": {"sessionUpdate": "tool_call_update",
        "toolCallId": "c1", "status": "failed"}, "_meta": {"fastness": {"seq": 8}}});
    let update = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
    let told = all(&ledger.incoming(update.to_string()).to_caller);
    assert_eq!(methods(&told), ["session/update", "$/cancel_request"]);

    let prompt = json!({"sessionId": SESSION, "prompt": []});
    ask(&mut ledger, 2, "session/prompt", prompt);
    ledger.incoming(question("b", "q2"));
    ledger.lost();
    let told = all(&answer(&mut ledger, &json!(2), json!({"stopReason": "end_turn"})).to_caller);
    assert_eq!(told[0]["params"]["requestId"], "b");
    assert_eq!(told[1]["id"], 2);
}

#[test]
fn b_16_what_is_not_json_is_answered_and_what_is_too_large_is_refused_here() {
    let mut ledger = attached();
    let refused = all(&ledger.outgoing("not json".to_owned()).to_caller);
    assert_eq!(refused[0]["error"]["code"], -32700);
    assert_eq!(refused[0]["id"], Value::Null);
    let large = "x".repeat(SIZE);
    let request = json!({"jsonrpc": "2.0", "id": 7, "method": "session/prompt",
        "params": {"sessionId": SESSION, "prompt": [{"type": "text", "text": large}]}});
    let refused = all(&ledger.outgoing(request.to_string()).to_caller);
    assert_eq!(refused[0]["error"]["code"], -32012);
    assert_eq!(refused[0]["id"], 7);
    // The server must hear something, or its tool would wait.
    ledger
        .incoming(json!({"jsonrpc": "2.0", "id": "f", "method": "fs/read_text_file"}).to_string());
    let content = json!({"jsonrpc": "2.0", "id": "f", "result": {"content": large}});
    let sent = all(&ledger.outgoing(content.to_string()).to_server);
    assert_eq!(sent[0]["error"]["code"], -32012);
}

#[test]
fn b_02_what_the_server_says_that_is_no_message_is_not_passed_on() {
    let mut ledger = attached();
    for garbage in [
        "not json",
        "",
        "[]",
        "{\"foo\":1}",
        "{\"id\":\"x\",\"result\":1}",
    ] {
        assert_eq!(ledger.incoming(garbage.to_owned()), Effects::default());
    }
    // A notification that we do not know may be one that the caller knows.
    let unknown = json!({"jsonrpc": "2.0", "method": "x/y"}).to_string();
    assert_eq!(ledger.incoming(unknown).to_caller.len(), 1);
}

#[test]
fn a_session_that_was_closed_does_not_come_back() {
    let mut ledger = attached();
    let close = json!({"sessionId": SESSION});
    ask(&mut ledger, 2, "session/close", close);
    answer(&mut ledger, &json!(2), json!({}));
    assert!(come_back(&mut ledger).is_empty());
}
