//! What clients send, in today's spelling and in the older ones.

use domain::ids::NotASessionId;
use domain::{Cursor, EventSeq, PromptId};
use serde_json::{Value, json};
use wire::acp::{
    AgentMessage, Attach, ClientCapabilities, ClientMessage, ConfigValue, FastnessMeta, McpServer,
    PermissionReply, Prompt, ResumeToken, SetMode, TurnState, decode, decode_agent,
    permission_outcome, requests,
};
use wire::rpc::{Incoming, RequestId, RpcError, code, parse};

use crate::{SESSION, raw, session};

fn read(method: &str, params: Value) -> Result<ClientMessage, RpcError> {
    decode(method, Some(&raw(&params.to_string())))
}

fn prompt_of(params: Value) -> Prompt {
    match read("session/prompt", params) {
        Ok(ClientMessage::Prompt(prompt)) => prompt,
        other => panic!("not a prompt: {other:?}"),
    }
}

fn refusal(method: &str, params: Value) -> RpcError {
    let error = read(method, params).unwrap_err();
    assert_eq!(error.code, code::INVALID_PARAMS);
    error
}

#[test]
fn old_and_new_names_mean_the_same() {
    let params = json!({
        "sessionId": SESSION, "cwd": "/w", "mcpServers": [], "prompt": [], "modeId": "plan",
        "configId": "mode", "value": "plan",
    });
    for (new, old) in [
        ("session/new", "new_session"),
        ("session/load", "load_session"),
        ("session/resume", "resume_session"),
        ("session/list", "list_sessions"),
        ("session/close", "close_session"),
        ("session/delete", "delete_session"),
        ("session/prompt", "prompt"),
        ("session/cancel", "cancel"),
        ("session/set_mode", "set_mode"),
        ("session/set_mode", "set_session_mode"),
        ("session/set_config_option", "set_config_option"),
    ] {
        let message = read(new, params.clone()).unwrap();
        assert!(!matches!(message, ClientMessage::Unknown(_)), "{new}");
        assert_eq!(read(old, params.clone()), Ok(message), "{old}");
    }
}

#[test]
fn snake_case_parameters_are_understood_where_acp_defines_them() {
    let attach = read("session/load", json!({"session_id": SESSION, "cwd": "/w"}));
    assert_eq!(
        attach,
        Ok(ClientMessage::LoadSession(Attach {
            session: Ok(session()),
            cwd: "/w".into(),
            additional_directories: vec![],
            mcp_servers: vec![],
            meta: FastnessMeta::default(),
        }))
    );
    let set_mode = read(
        "set_mode",
        json!({"session_id": SESSION, "mode_id": "plan"}),
    );
    let expected = SetMode {
        session: Ok(session()),
        mode: "plan".into(),
    };
    assert_eq!(set_mode, Ok(ClientMessage::SetMode(expected)));
    let both = json!({"session_id": "old", "sessionId": SESSION});
    assert_eq!(
        read("session/close", both),
        Ok(ClientMessage::CloseSession(Ok(session())))
    );
}

#[test]
fn what_clients_fill_freely_keeps_its_spelling() {
    let free = json!({"session_id": "mine", "mime_type": "x"});
    let prompt = prompt_of(json!({
        "session_id": SESSION,
        "prompt": [{
            "type": "resource_link", "name": "n", "uri": "u", "mime_type": "text/plain",
            "_meta": free,
        }],
    }));
    let expected = json!([{
        "type": "resource_link", "name": "n", "uri": "u", "mimeType": "text/plain", "_meta": free,
    }]);
    assert_eq!(Value::from(prompt.blocks), expected);
}

#[test]
fn capabilities_are_read_in_either_spelling() {
    let all = ClientCapabilities {
        read_text_file: true,
        write_text_file: true,
        terminal: true,
        terminal_login: true,
        notices: true,
        compaction: true,
        forms: true,
        tools: true,
        turns: true,
        queue: true,
    };
    let read = |params: Value| match read("initialize", params) {
        Ok(ClientMessage::Initialize(initialize)) => initialize,
        other => panic!("not initialize: {other:?}"),
    };
    let new = read(json!({
        "protocolVersion": 7,
        "clientCapabilities": {
            "fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true, "auth": {"terminal": true},
            "elicitation": {"form": {}},
            "session": {"notices": {}, "compaction": {}}, "_meta": {"fastness": {"turns": true, "tools": {}, "queue": true}},
        },
        "clientInfo": {"name": "editor", "version": "1"},
    }));
    assert_eq!((new.protocol_version, new.capabilities), (7, all));
    assert_eq!(
        new.client.map(|client| client.name).as_deref(),
        Some("editor")
    );
    let old = read(json!({
        "protocol_version": 1,
        "client_capabilities": {"fs": {"read_text_file": true, "write_text_file": false}},
    }));
    let reads = ClientCapabilities {
        read_text_file: true,
        ..ClientCapabilities::default()
    };
    assert_eq!(old.capabilities, reads);
    let bare = read(json!({"protocolVersion": 1}));
    assert_eq!(bare.capabilities, ClientCapabilities::default());
}

#[test]
fn a_prompt_may_be_blocks_or_plain_strings() {
    let blocks = json!([{"type": "text", "text": "hello"}]);
    for prompt in [json!("hello"), json!(["hello"]), blocks.clone()] {
        let prompt = prompt_of(json!({"sessionId": SESSION, "prompt": prompt}));
        assert_eq!(prompt.text, "hello");
        assert_eq!(Value::from(prompt.blocks), blocks);
    }
}

#[test]
fn links_and_embedded_text_become_part_of_the_prompts_text() {
    let prompt = prompt_of(json!({"sessionId": SESSION, "prompt": [
        {"type": "text", "text": "look at "},
        {"type": "resource_link", "name": "a.rs", "uri": "file:///a.rs"},
        {"type": "resource", "resource": {"uri": "file:///b", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "file:///c", "blob": "AAAA"}},
    ]}));
    assert_eq!(
        prompt.text,
        "look at [a.rs](file:///a.rs)\n<resource uri=\"file:///b\">\ninside\n</resource>\n\
         [binary resource](file:///c)"
    );
    assert_eq!(prompt.blocks.len(), 4);
}

#[test]
fn an_image_is_named_in_the_text_and_kept_whole_in_the_blocks() {
    let image = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
    let prompt = prompt_of(json!({"sessionId": SESSION, "prompt": [
        {"type": "text", "text": "what is "}, image,
    ]}));
    assert_eq!(prompt.text, "what is [image]");
    assert_eq!(prompt.blocks[1], image);
}

#[test]
fn content_that_was_not_offered_or_is_not_content_is_refused() {
    for block in [
        json!({"type": "image", "mimeType": "image/png"}),
        json!({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}),
        json!({"type": "hologram"}),
        json!({"type": "text"}),
        json!(5),
    ] {
        refusal(
            "session/prompt",
            json!({"sessionId": SESSION, "prompt": [block]}),
        );
    }
    refusal("session/prompt", json!({"sessionId": SESSION, "prompt": 5}));
    refusal("session/prompt", json!({"sessionId": SESSION}));
}

#[test]
fn a_block_is_stored_so_that_it_can_be_sent_again() {
    // Known fields of a wrong type are dropped: ACP tells readers to skip them, not to send them.
    let block = json!({"type": "text", "text": "a", "annotations": 5, "_meta": "x"});
    let prompt = prompt_of(json!({"sessionId": SESSION, "prompt": [block]}));
    assert_eq!(
        Value::from(prompt.blocks),
        json!([{"type": "text", "text": "a"}])
    );
}

#[test]
fn an_id_that_names_no_session_is_told_apart_from_a_wrong_type() {
    for name in ["", "../../etc", "ABCDEF", &SESSION[1..]] {
        let close = read("session/close", json!({"sessionId": name})).unwrap();
        assert_eq!(close, ClientMessage::CloseSession(Err(NotASessionId)));
        let error = RpcError::from(close.session().unwrap().unwrap_err());
        assert_eq!(error, RpcError::session_not_found());
    }
    refusal("session/close", json!({"sessionId": 5}));
    refusal("session/close", json!({}));
}

#[test]
fn our_extensions_are_read_and_judged_strictly() {
    let meta = |fastness: Value| json!({"sessionId": SESSION, "cwd": "/w", "_meta": {"fastness": fastness, "other": 1}});
    let full = meta(json!({"afterSeq": 5, "offset": 7, "epoch": 1, "resumeToken": "T"}));
    let Ok(ClientMessage::ResumeSession(attach)) = read("session/resume", full) else {
        panic!("not a resume");
    };
    let cursor = Cursor {
        epoch: 1,
        seq: EventSeq(5),
        offset: 7,
    };
    let expected = FastnessMeta {
        resume_token: Some(ResumeToken::new("T")),
        ..FastnessMeta::after(cursor)
    };
    assert_eq!(attach.meta, expected);
    assert!(!format!("{attach:?}").contains("\"T\""), "a token printed");
    for wrong in [
        json!({"afterSeq": "5"}),
        json!({"afterSeq": -1}),
        json!({"queue": 1}),
        json!({"promptId": "x".repeat(65)}),
        json!(5),
    ] {
        refusal("session/resume", meta(wrong));
    }
    let prompt = json!({
        "sessionId": SESSION, "prompt": "a",
        "_meta": {"fastness": {"promptId": "x".repeat(64), "queue": true}},
    });
    let prompt = prompt_of(prompt);
    assert_eq!(prompt.meta.prompt_id, Some(PromptId::new("x".repeat(64))));
    assert!(prompt.meta.queue);
    let foreign = json!({"sessionId": SESSION, "prompt": "a", "_meta": 5});
    assert_eq!(prompt_of(foreign).meta, FastnessMeta::default());
}

#[test]
fn mcp_servers_are_validated_and_print_only_their_name() {
    let server = json!({
        "name": "files", "command": "/bin/files", "args": [],
        "env": [{"name": "KEY", "value": "hunter2"}],
    });
    let params = json!({"cwd": "/w", "mcpServers": [server], "additionalDirectories": ["/x"]});
    let Ok(ClientMessage::NewSession(new)) = read("session/new", params) else {
        panic!("not a new session");
    };
    assert_eq!(new.mcp_servers, [McpServer(server)]);
    assert_eq!(new.additional_directories, ["/x"]);
    assert!(!format!("{new:?}").contains("hunter2"));
    refusal(
        "session/new",
        json!({"cwd": "/w", "mcpServers": [{"name": "files"}]}),
    );
}

#[test]
fn config_values_are_choices_or_switches() {
    let read = |value: Value| {
        let mut params = json!({"sessionId": SESSION, "configId": "c"});
        params
            .as_object_mut()
            .unwrap()
            .extend(value.as_object().unwrap().clone());
        match read("session/set_config_option", params) {
            Ok(ClientMessage::SetConfigOption(set)) => Some(set.value),
            _ => None,
        }
    };
    assert_eq!(
        read(json!({"value": "x"})),
        Some(ConfigValue::Choice("x".into()))
    );
    let switch = json!({"type": "boolean", "value": true});
    assert_eq!(read(switch), Some(ConfigValue::Switch(true)));
    assert_eq!(read(json!({"value": 5})), None);
    assert_eq!(read(json!({})), None);
}

#[test]
fn a_cancelled_request_is_named_exactly() {
    for (params, id) in [
        (r#"{"requestId":"a"}"#, RequestId::string("a")),
        (r#"{"request_id":7}"#, RequestId::integer(7)),
        (r#"{"requestId":null}"#, RequestId::null()),
    ] {
        let message = decode("$/cancel_request", Some(&raw(params)));
        assert_eq!(message, Ok(ClientMessage::CancelRequest(id)));
    }
    for wrong in [r#"{"requestId":1.5}"#, "{}", "[]"] {
        assert!(decode("$/cancel_request", Some(&raw(wrong))).is_err());
    }
    assert!(decode("$/cancel_request", None).is_err());
}

#[test]
fn missing_parameters_are_an_empty_object_and_an_array_is_refused() {
    assert!(matches!(
        decode("session/list", None),
        Ok(ClientMessage::ListSessions(_))
    ));
    assert_eq!(decode("logout", None), Ok(ClientMessage::Logout));
    assert_eq!(
        decode("session/new", None).unwrap_err().code,
        code::INVALID_PARAMS
    );
    refusal("session/list", json!([]));
    let unknown = ClientMessage::Unknown("no/such".into());
    assert_eq!(decode("no/such", Some(&raw("[]"))), Ok(unknown));
}

#[test]
fn a_refusal_names_the_field_and_never_the_clients_values() {
    let message = refusal("session/new", json!({"mcpServers": []})).message;
    assert!(message.contains("`cwd`"), "{message}");
    let secret = "hunter2, expected nothing".repeat(1_000);
    let message = refusal("session/set_mode", json!({"sessionId": [secret]})).message;
    assert!(!message.contains("hunter2"), "{message}");
    let message = refusal(
        "session/prompt",
        json!({"sessionId": SESSION, "prompt": {"a": secret}}),
    );
    assert!(message.message.len() < 200, "{message}");
}

#[test]
fn permission_answers_are_read() {
    let read = |json: &str| permission_outcome(&raw(json));
    let selected = r#"{"outcome":{"outcome":"selected","optionId":"allow_once"}}"#;
    assert_eq!(
        read(selected),
        PermissionReply::Selected("allow_once".into())
    );
    let explained = r#"{"outcome":{"outcome":"selected","optionId":"reject_once"},"_meta":{"fastness":{"reason":" no rule "}}}"#;
    let reply = PermissionReply::Explained {
        option: "reject_once".into(),
        reason: "no rule".into(),
    };
    assert_eq!(read(explained), reply);
    let sent = requests::permission_answer(&RequestId::string("r"), &reply);
    let sent: Value = serde_json::from_str(&sent).unwrap();
    assert_eq!(read(&sent["result"].to_string()), reply);
    // What is no reason is none.
    for reason in ["\"\"", "3", "null", "{}"] {
        let odd = explained.replace("\" no rule \"", reason);
        let plainly = PermissionReply::Selected("reject_once".into());
        assert_eq!(read(&odd), plainly, "{odd}");
    }
    let long = explained.replace(" no rule ", &"ä".repeat(10_000));
    let PermissionReply::Explained { reason, .. } = read(&long) else {
        panic!("the reason is lost");
    };
    assert_eq!(reason.len(), domain::limits::ANSWER_REASON_BYTES_MAX);
    let cancelled = r#"{"outcome":{"outcome":"cancelled"}}"#;
    assert_eq!(read(cancelled), PermissionReply::Cancelled);
    for wrong in [
        "null",
        "{}",
        r#"{"outcome":"selected"}"#,
        r#"{"outcome":{"outcome":"x"}}"#,
    ] {
        assert_eq!(read(wrong), PermissionReply::Invalid, "{wrong}");
    }
}

#[test]
fn our_clients_requests_are_understood_by_our_server() {
    let id = RequestId::string("r");
    let meta = FastnessMeta {
        prompt_id: Some(PromptId::new("p")),
        ..FastnessMeta::default()
    };
    let after = FastnessMeta::after(Cursor::default());
    let blocks = [json!({"type": "text", "text": "hi"})];
    let page = wire::acp::ListSessions::default();
    let choice = ConfigValue::Choice("plan".into());
    for frame in [
        requests::initialize(&id, "ask", "1"),
        requests::new_session(&id, "/w"),
        requests::load_session(&id, session(), "/w", &meta),
        requests::resume_session(&id, session(), "/w", &after),
        requests::list_sessions(&id, &page),
        requests::prompt(&id, session(), &blocks, &meta),
        requests::cancel(session()),
        requests::close_session(&id, session()),
        requests::delete_session(&id, session()),
        requests::set_mode(&id, session(), "plan"),
        requests::set_config_option(&id, session(), "mode", &choice),
    ] {
        let (method, params) = match parse(frame.as_bytes()).unwrap() {
            Incoming::Request { method, params, .. }
            | Incoming::Notification { method, params } => (method, params),
            Incoming::Response { .. } | Incoming::Ignored(_) => panic!("not a call: {frame}"),
        };
        let message = decode(&method, params.as_deref()).unwrap();
        assert!(!matches!(message, ClientMessage::Unknown(_)), "{method}");
    }
}

#[test]
fn our_client_understands_what_an_agent_sends() {
    let update = r#"{"sessionId":"0123456789abcdef0123456789abcdef",
        "update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}},
        "_meta":{"fastness":{"seq":4,"epoch":1,"offset":2,"greeting":true}}}"#;
    let Ok(AgentMessage::Update(update)) = decode_agent("session/update", Some(&raw(update)))
    else {
        panic!("not an update");
    };
    assert_eq!(
        (update.kind(), update.text()),
        ("agent_message_chunk", Some("hi"))
    );
    let meta = update.meta.unwrap();
    let cursor = Cursor {
        epoch: 1,
        seq: EventSeq(4),
        offset: 2,
    };
    assert_eq!((meta.cursor(), meta.greeting), (cursor, true));
    let turn = r#"{"sessionId":"0123456789abcdef0123456789abcdef","seq":9,"turn":2,"state":"idle",
        "error":{"kind":"interrupted","message":"m"}}"#;
    let Ok(AgentMessage::Turn(turn)) = decode_agent("_fastness/turn", Some(&raw(turn))) else {
        panic!("not a turn");
    };
    assert_eq!((turn.seq, turn.state), (EventSeq(9), TurnState::Idle));
    let unknown = decode_agent("fs/read_text_file", None);
    assert_eq!(
        unknown,
        Ok(AgentMessage::Unknown("fs/read_text_file".into()))
    );
    assert!(decode_agent("session/update", None).is_err());
}
