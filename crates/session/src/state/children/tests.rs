//! Stories of a session and its sub-agents, as the journal has them.

use domain::event::{
    Asker, ChildLinked, PermissionAsked, PermissionOption, PermissionOptionKind, SessionForked,
    ToolKind, ToolResult, ToolStatus, ToolUse, TurnStarted,
};
use domain::ids::PermissionId;
use domain::{CallId, Event, EventSeq, MessageId, PrincipalId, SessionId, TurnId};
use journal::Entry;
use serde_json::json;

use crate::state::{Command, Rejected, Said, SessionState};

/// A session whose turn has given a task away.
fn calling() -> SessionState {
    let mut state = SessionState::default();
    let turn = TurnId(1);
    let started = TurnStarted {
        turn,
        prompt_id: None,
        queued: None,
    };
    let used = ToolUse {
        turn,
        call_id: CallId::new("task"),
        name: "task".to_owned(),
        input: json!({"prompt": "work"}),
        title: String::new(),
        kind: ToolKind::Think,
        locations: Box::default(),
        content: Box::default(),
        allowed_by: None,
    };
    let linked = ChildLinked {
        call_id: CallId::new("task"),
        agent: "general".to_owned(),
        child: Some(SessionId::random()),
        parent: None,
    };
    let events: [Event; 3] = [started.into(), used.into(), linked.into()];
    for event in events {
        state.apply(state.head().next(), &event);
    }
    state
}

fn question() -> PermissionAsked {
    let option = |id: &str, kind| PermissionOption {
        option_id: id.to_owned(),
        name: String::new(),
        kind,
    };
    PermissionAsked {
        id: PermissionId::new("q"),
        call_id: CallId::new("task"),
        options: vec![
            option("allow_always", PermissionOptionKind::AllowAlways),
            option("reject_once", PermissionOptionKind::RejectOnce),
        ],
        title: "general: Write a".to_owned(),
        kind: ToolKind::Edit,
        asker: Some(Box::new(Asker {
            agent: "general".to_owned(),
            session_id: SessionId::random(),
            call_id: CallId::new("write"),
            tool: "write".to_owned(),
            input: json!({"path": "a"}),
            content: Vec::new(),
        })),
        rule: None,
    }
}

/// Decides and applies; gives the events.
fn act(state: &mut SessionState, command: Command) -> Result<Vec<Event>, Rejected> {
    let entries = state.decide(command)?;
    let mut events = Vec::new();
    for entry in &entries {
        state.apply_entry(state.head().next(), entry);
        if let Entry::Event(event) = entry {
            events.push(event.clone());
        }
    }
    Ok(events)
}

fn asked(state: &mut SessionState) {
    let asked = Command::AskForChild(Box::new(question()));
    act(state, asked).unwrap();
    assert_eq!(state.questions().len(), 1);
}

fn answer(option: &str) -> Command {
    Command::Answer {
        question: PermissionId::new("q"),
        said: Said::Option(option.to_owned()),
        by: PrincipalId::local(),
    }
}

#[test]
fn what_a_sub_agent_is_denied_ends_its_question_and_not_the_task() {
    for end in [
        answer("reject_once"),
        Command::Deny(PermissionId::new("q")),
        Command::Expire(PermissionId::new("q")),
        Command::Withdraw(PermissionId::new("q")),
    ] {
        let mut state = calling();
        asked(&mut state);
        let events = act(&mut state, end).unwrap();
        let kinds: Vec<&str> = events.iter().map(Event::kind).collect();
        assert_eq!(kinds, ["permission.answered"]);
        assert!(state.questions().is_empty());
    }
}

#[test]
fn what_a_sub_agent_is_allowed_always_its_caller_is_not() {
    let mut state = calling();
    asked(&mut state);
    act(&mut state, answer("allow_always")).unwrap();
    assert!(state.always.is_empty());
}

#[test]
fn a_task_under_way_may_have_run_also_while_somebody_is_asked() {
    let mut state = calling();
    asked(&mut state);
    let events = act(&mut state, Command::Interrupt).unwrap();
    let ended: Event = ToolResult {
        call_id: CallId::new("task"),
        status: ToolStatus::Unknown,
        text: String::new(),
        blocks: Vec::new(),
        locations: Vec::new(),
    }
    .into();
    assert!(events.contains(&ended), "{events:?}");
}

#[test]
fn nobody_works_or_asks_for_a_call_that_does_not_run() {
    let mut state = calling();
    let other = ChildLinked {
        call_id: CallId::new("other"),
        agent: "general".to_owned(),
        child: Some(SessionId::random()),
        parent: None,
    };
    assert_eq!(
        act(&mut state, Command::LinkChild(other)),
        Err(Rejected::Late)
    );
    let late = PermissionAsked {
        call_id: CallId::new("other"),
        ..question()
    };
    let late = Command::AskForChild(Box::new(late));
    assert_eq!(act(&mut state, late), Err(Rejected::Late));
    // And nobody asks in the name of a sub-agent without saying which.
    let nameless = PermissionAsked {
        asker: None,
        ..question()
    };
    let nameless = Command::AskForChild(Box::new(nameless));
    assert_eq!(act(&mut state, nameless), Err(Rejected::Late));
}

#[test]
fn a_sub_agent_takes_no_prompts_and_a_fork_of_it_does() {
    let prompt = || Command::Prompt {
        text: "go".to_owned(),
        blocks: Vec::new(),
        message_id: MessageId::new("m"),
        prompt_id: None,
        queue: false,
        greeting: None,
        is_spent: false,
    };
    let mut state = SessionState::default();
    let linked = ChildLinked {
        call_id: CallId::new("task"),
        agent: "general".to_owned(),
        child: None,
        parent: Some(SessionId::random()),
    };
    state.apply(EventSeq(1), &linked.into());
    assert!(state.is_child());
    assert_eq!(act(&mut state, prompt()), Err(Rejected::SubAgent));
    let forked = SessionForked {
        from: String::new(),
        at: EventSeq(1),
        owner: None,
    };
    state.apply(EventSeq(2), &forked.into());
    assert!(act(&mut state, prompt()).is_ok());
    let mut state = calling();
    assert_eq!(state.children().len(), 1);
    let forked = SessionForked {
        from: String::new(),
        at: EventSeq(1),
        owner: None,
    };
    state.apply(state.head().next(), &forked.into());
    assert!(
        state.children().is_empty(),
        "a copy has no sub-agents to delete"
    );
}
