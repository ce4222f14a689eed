//! Everything the agent emits, against a golden file that the ACP schema was checked with.

use domain::clock::Timestamp;
use domain::event::{
    AssistantMessage, MessageKind, MessageStarted, ModeChanged, Notice, PermissionAsked,
    PermissionOption, PermissionOptionKind, SessionUpdated, StopReason, Text, ToolKind,
    ToolLocation, ToolResult, ToolStatus, ToolUse, Usage, UserMessage,
};
use domain::ids::PermissionId;
use domain::{
    CallId, Cursor, Event, EventSeq, FailureKind, MessageId, PromptId, TurnError, TurnId,
};
use serde_json::{Value, json};
use wire::acp::{
    Attached, AvailableCommand, LoginOffer, ModelChoice, NoticeSeverity, ResumeToken, SessionEntry,
    Settings, TurnNotice, TurnState, TurnStatus, UpdateMeta, available_commands_update,
    cancel_request, config_option_update, current_mode_update, empty_result, event_updates,
    initialize_result, list_result, load_result, new_session_result, notice_update,
    permission_request, prompt_result, resume_result, set_config_option_result, text_chunk,
    tool_progress, turn_notification,
};
use wire::rpc::{RequestId, response};

use crate::{session, value};

/// One line per message: what it answers (or `-`), a space, the frame.
#[test]
fn every_message_is_as_in_the_golden_file() {
    let mut lines = String::new();
    for (answers, frame) in messages() {
        assert!(!frame.contains('\n'));
        lines += &format!("{answers} {frame}\n");
    }
    assert!(
        lines == include_str!("../data/emitted.txt"),
        "now emitted:\n{lines}"
    );
}

fn messages() -> Vec<(&'static str, String)> {
    let mut messages = answers();
    messages.extend(notifications().into_iter().map(|frame| ("-", frame)));
    messages
}

fn initialized() -> Value {
    initialize_result("0.1.0", 16_777_216, LoginOffer::None)
}

fn answers() -> Vec<(&'static str, String)> {
    let models = [ModelChoice {
        value: "offline".into(),
        name: "Offline assistant".into(),
    }];
    let settings = Settings {
        mode: "default",
        model: "openai:x",
        models: &models,
    };
    let token = ResumeToken::new("T");
    let fresh = Attached {
        settings,
        turn: TurnStatus::default(),
        resume_token: None,
        resync_from: None,
        cursor: None,
        damaged_at: None,
        queue: &[],
        ignored: &[],
    };
    let busy = Attached {
        turn: TurnStatus {
            id: TurnId(3),
            state: TurnState::Running,
            prompt_id: Some(PromptId::new("p")),
        },
        resume_token: Some(&token),
        resync_from: Some(EventSeq(4)),
        cursor: Some(Cursor {
            epoch: 1,
            seq: EventSeq(3),
            offset: 2,
        }),
        damaged_at: None,
        ignored: &["mcpServers"],
        ..fresh.clone()
    };
    let usage = Usage {
        input_tokens: 5,
        output_tokens: 7,
        ..Usage::default()
    };
    let results = [
        ("initialize", initialized()),
        ("session/new", new_session_result(session(), &fresh)),
        ("session/load", load_result(&fresh)),
        ("session/resume", resume_result(&busy)),
        ("session/list", list_result(&entries(), Some("next"))),
        ("session/list", list_result(&[], None)),
        (
            "session/prompt",
            prompt_result(StopReason::EndTurn, Some(&usage)),
        ),
        (
            "session/prompt",
            prompt_result(StopReason::MaxTurnRequests, None),
        ),
        (
            "session/set_config_option",
            set_config_option_result(&settings),
        ),
        ("session/set_mode", empty_result()),
        ("session/close", empty_result()),
        ("session/delete", empty_result()),
        ("authenticate", empty_result()),
        ("logout", empty_result()),
    ];
    let id = RequestId::integer(1);
    let answer = |(method, result)| (method, response(&id, &result).unwrap());
    results.map(answer).into()
}

fn entries() -> [SessionEntry; 2] {
    let entry = SessionEntry {
        session: session(),
        cwd: "/w".into(),
        additional_directories: vec![],
        title: None,
        updated_at: None,
    };
    let full_entry = SessionEntry {
        additional_directories: vec!["/x".into()],
        title: Some("A title".into()),
        updated_at: Some(Timestamp(0.0)),
        ..entry.clone()
    };
    [entry, full_entry]
}

fn notifications() -> Vec<String> {
    let settings = Settings {
        mode: "plan",
        model: "offline",
        models: &[],
    };
    let commands = [("help", None), ("find", Some("a word"))];
    let commands = commands.map(|(name, hint)| AvailableCommand {
        name: name.into(),
        description: "Does it".into(),
        hint: hint.map(str::to_owned),
    });
    let turn = TurnNotice {
        session_id: session(),
        seq: EventSeq(9),
        turn: TurnId(2),
        state: TurnState::Idle,
        stop_reason: None,
        error: Some(TurnError::new(
            FailureKind::Interrupted,
            "the server stopped",
        )),
        prompt_id: None,
        queued: None,
    };
    let message = MessageId::new("m1");
    let chunk = |kind, text| text_chunk(session(), kind, &message, text, &streaming());
    let mut frames = vec![
        chunk(MessageKind::Text, "a \"quoted\"\n\u{1}line 🦀"),
        chunk(MessageKind::Thought, ""),
        current_mode_update(session(), "plan"),
        config_option_update(session(), &settings),
        available_commands_update(session(), &commands),
        notice_update(session(), NoticeSeverity::Warning, "Watch out", &at(8)).unwrap(),
        turn_notification(&turn),
        cancel_request(&RequestId::string("q")),
        permission_request(&RequestId::string("q"), session(), &question()),
        tool_progress(session(), &CallId::new("c1"), "half a line").unwrap(),
    ];
    frames.extend(events().iter().flat_map(updates));
    frames
}

fn updates(event: &Event) -> Vec<String> {
    event_updates(session(), event, &at(5))
}

fn at(seq: u64) -> UpdateMeta {
    UpdateMeta {
        seq: EventSeq(seq),
        ..UpdateMeta::default()
    }
}

fn streaming() -> UpdateMeta {
    UpdateMeta {
        epoch: 1,
        offset: Some(12),
        more: true,
        prompt_id: Some(PromptId::new("p\"1")),
        ..at(5)
    }
}

fn question() -> PermissionAsked {
    let option = |id: &str, name: &str, kind| PermissionOption {
        option_id: id.into(),
        name: name.into(),
        kind,
    };
    PermissionAsked {
        id: PermissionId::new("q1"),
        call_id: CallId::new("c1"),
        options: vec![
            option("allow_once", "Allow once", PermissionOptionKind::AllowOnce),
            option(
                "allow_always",
                "Always allow",
                PermissionOptionKind::AllowAlways,
            ),
            option("reject_once", "Reject", PermissionOptionKind::RejectOnce),
        ],
        title: "Write a.txt".into(),
        kind: ToolKind::Edit,
        asker: None,
        rule: None,
    }
}

fn events() -> Vec<Event> {
    let call_id = || CallId::new("c1");
    let result = |status, text: &str, blocks| ToolResult {
        call_id: call_id(),
        status,
        text: text.into(),
        blocks,
        locations: vec![],
    };
    vec![
        user_message(vec![
            json!({"type": "text", "text": "one"}),
            json!({"type": "resource_link", "name": "n", "uri": "u", "annotations": 5}),
        ]),
        user_message(vec![json!({"type": "of another tool"})]),
        ToolUse {
            turn: TurnId(1),
            call_id: call_id(),
            name: "write".into(),
            input: json!({"path": "a.txt"}),
            title: "Write a.txt".into(),
            kind: ToolKind::Edit,
            locations: [ToolLocation {
                path: "/w/a.txt".into(),
                line: Some(3),
            }]
            .into(),
            content: tool_blocks().into(),
            allowed_by: None,
        }
        .into(),
        ToolUse {
            turn: TurnId(1),
            call_id: call_id(),
            name: "read".into(),
            input: json!(null),
            title: String::new(),
            kind: ToolKind::Read,
            locations: Box::default(),
            content: Box::default(),
            allowed_by: None,
        }
        .into(),
        result(ToolStatus::Completed, "done", tool_blocks()).into(),
        result(ToolStatus::Denied, "", vec![]).into(),
        ModeChanged {
            mode: "plan".into(),
        }
        .into(),
        SessionUpdated {
            title: Some("A title".into()),
            config: None,
            archived: None,
        }
        .into(),
        notice("greeting"),
    ]
}

fn user_message(blocks: Vec<Value>) -> Event {
    Event::from(UserMessage {
        text: "one".into(),
        blocks,
        message_id: Some(MessageId::new("u1")),
        prompt_id: Some(PromptId::new("p1")),
    })
}

/// A content block, a diff, and two that must not be sent.
fn tool_blocks() -> Vec<Value> {
    vec![
        json!({"type": "text", "text": "block"}),
        json!({"type": "diff", "path": "/w/a.txt", "oldText": null, "newText": "x"}),
        json!({"type": "terminal", "terminalId": "gone"}),
        json!({"type": "of another tool"}),
    ]
}

fn notice(kind: &str) -> Event {
    Event::from(Notice {
        kind: kind.into(),
        message_id: Some(MessageId::new("g1")),
        text: "Hello".into(),
    })
}

#[test]
fn the_hand_written_chunk_says_what_the_derived_types_say() {
    let mut by_hand = value(&text_chunk(
        session(),
        MessageKind::Text,
        &MessageId::new("g1"),
        "Hello",
        &UpdateMeta {
            greeting: true,
            ..streaming()
        },
    ));
    let derived = event_updates(session(), &notice("greeting"), &streaming());
    by_hand["params"]["update"]["_meta"] = json!({"fastness": {"greeting": true}});
    assert_eq!(by_hand, value(&derived[0]));
}

#[test]
fn all_but_the_last_update_of_an_event_say_that_more_follow() {
    let block = json!({"type": "text", "text": "x"});
    let frames = updates(&user_message(vec![block; 3]));
    let metas: Vec<Value> = frames
        .iter()
        .map(|frame| value(frame)["params"]["_meta"]["fastness"].take())
        .collect();
    let more = json!({"seq": 5, "epoch": 0, "more": true, "promptId": "p1"});
    let last = json!({"seq": 5, "epoch": 0, "promptId": "p1"});
    assert_eq!(metas, [more.clone(), more, last]);
}

#[test]
fn every_outcome_but_completed_is_failed_and_says_how() {
    for (status, shown, name) in [
        (ToolStatus::Completed, "completed", "completed"),
        (ToolStatus::Failed, "failed", "failed"),
        (ToolStatus::Denied, "failed", "denied"),
        (ToolStatus::Cancelled, "failed", "cancelled"),
        (ToolStatus::NotRun, "failed", "not_run"),
        (ToolStatus::Unknown, "failed", "unknown"),
    ] {
        let result = Event::from(ToolResult {
            call_id: CallId::new("c1"),
            status,
            text: String::new(),
            blocks: vec![],
            locations: vec![],
        });
        let frame = value(&updates(&result)[0]);
        let update = &frame["params"]["update"];
        assert_eq!(
            (&update["status"], &update["rawOutput"]["status"]),
            (&json!(shown), &json!(name))
        );
        assert_eq!(update.get("content"), None);
    }
}

#[test]
fn messages_of_the_assistant_and_inner_events_send_nothing_here() {
    let message_id = MessageId::new("m");
    let started = MessageStarted {
        message_id: message_id.clone(),
        kind: MessageKind::Text,
    };
    let ended = AssistantMessage {
        message_id,
        text: Text::Inline("x".into()),
        partial: false,
    };
    let archived = SessionUpdated {
        title: None,
        config: None,
        archived: Some(true),
    };
    for event in [
        started.into(),
        ended.into(),
        archived.into(),
        question().into(),
        notice("hint"),
    ] {
        assert_eq!(updates(&event), Vec::<String>::new(), "{}", event.kind());
    }
}

#[test]
fn the_current_model_is_always_among_the_choices() {
    let settings = Settings {
        mode: "default",
        model: "a",
        models: &[],
    };
    let result = set_config_option_result(&settings);
    assert_eq!(
        result["configOptions"][0]["options"],
        json!([{"value": "a", "name": "a"}])
    );
}
