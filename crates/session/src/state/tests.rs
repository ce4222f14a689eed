//! The rules of a session as stories: a command, then indented what it means.

use agent::permissions::Ruled;
use agent::{PersonQuestion, Refusal};
use domain::event::{MessageKind, MessageStarted, StopReason, ToolKind, ToolResult, ToolStatus};
use domain::ids::PermissionId;
use domain::{CallId, Event, EventSeq, FailureKind, MessageId, PrincipalId, PromptId, TurnError};
use journal::Entry;
use serde_json::json;

mod ends;
mod questions;

use crate::handle::Label;

use super::{Command, Fate, Proposed, Rejected, Said, SessionState};

/// The same within a turn, which has just begun.
fn check_in_a_turn(story: &str) {
    let begins = "
prompt hello
    notice
    session.updated
    user.message hello
    turn.started 1";
    check(&format!("{begins}{story}"));
}

/// Runs the story: lines at the margin are commands, indented ones what must follow.
fn check(story: &str) {
    let mut state = SessionState::default();
    let created = json!({"owner": "local", "cwd": "/w", "epoch": 0}).to_string();
    state.apply(
        state.head().next(),
        &Event::from_json("session.created", &created).unwrap(),
    );
    let mut told = String::from("\n");
    for line in story
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with(' '))
    {
        told.push_str(&format!("{line}\n"));
        if line == "text" {
            let started = json!({"messageId": "m", "kind": "text"}).to_string();
            let event = Event::from_json("message.started", &started).unwrap();
            state.apply(state.head().next(), &event);
            continue;
        }
        match state.decide(command(line, &state)) {
            Err(rejected) => told.push_str(&format!("    rejected: {}\n", refusal(&rejected))),
            Ok(entries) => {
                for entry in &entries {
                    told.push_str(&format!("    {}\n", shown(entry)));
                    state.apply_entry(state.head().next(), entry);
                }
            }
        }
    }
    assert_eq!(told, story);
}

fn command(line: &str, state: &SessionState) -> Command {
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    let question = || {
        let first = state.questions().first();
        first.map_or(PermissionId::new("?"), |first| first.asked.id().clone())
    };
    let prompt = |queue| {
        let (text, id) = rest.split_once(" as ").unwrap_or((rest, ""));
        let prompt_id = (!id.is_empty()).then(|| PromptId::new(id));
        Command::Prompt {
            text: text.to_owned(),
            blocks: vec![],
            message_id: MessageId::new("u"),
            prompt_id,
            queue,
            greeting: Some("hi".to_owned()),
            is_spent: text == "beyond the budget",
        }
    };
    let answer = |said| Command::Answer {
        question: question(),
        said,
        by: PrincipalId::local(),
    };
    match verb {
        "prompt" => prompt(false),
        "queue" => prompt(true),
        "next" => Command::StartQueued { greeting: None },
        "cancel" => Command::Cancel,
        "mode" => Command::SetMode(rest.parse().unwrap()),
        "propose" => Command::Propose(rest.split(' ').map(proposed).collect()),
        "answer" => answer(Said::Option(rest.to_owned())),
        "explain" => {
            let (option, reason) = rest.split_once(' ').unwrap();
            answer(Said::Explained {
                option: option.to_owned(),
                reason: reason.to_owned(),
            })
        }
        "dismiss" => answer(Said::Nothing),
        "say" => answer(Said::Words(rest.to_owned())),
        "unable" => Command::Deny(question()),
        "expire" => Command::Expire(question()),
        "finish" => Command::Finish {
            result: ToolResult {
                call_id: CallId::new(rest),
                status: ToolStatus::Completed,
                text: "done".to_owned(),
                blocks: Vec::new(),
                locations: Vec::new(),
            },
            plan: None,
        },
        "model" => Command::SetModel(rest.to_owned()),
        "title" => Command::Label(Label {
            title: Some(rest.to_owned()),
            archived: None,
        }),
        "archive" => Command::Label(Label {
            title: None,
            archived: Some(rest == "yes"),
        }),
        "rewind" => Command::Rewind(EventSeq(rest.parse().unwrap())),
        "tell" => tell(),
        "end" => Command::End(Ok(StopReason::EndTurn)),
        "end-cancelled" => Command::End(Ok(StopReason::Cancelled)),
        "fail" => Command::End(Err(TurnError::new(FailureKind::ModelError, "broken"))),
        "interrupt" => Command::Interrupt,
        other => panic!("no such verb: {other}"),
    }
}

/// `write:c1` is a call `c1` of `write`; `read:c1!` is one that a hook refuses, `bash:c1?` one that
/// nothing would contain, `raed:c1~` one of a tool that there is not.
fn proposed(word: &str) -> Proposed {
    let (name, call) = word.split_once(':').unwrap();
    let refused = match call.chars().last() {
        Some('!') => Some(Refusal::Hook("a hook said no".to_owned())),
        Some('~') => Some(Refusal::NoTool("there is no such tool".to_owned())),
        Some(_) | None => None,
    };
    let is_uncontained = call.ends_with('?');
    let call = call.trim_end_matches(['!', '?', '~']);
    let asks = || PersonQuestion {
        question: "Which?".to_owned(),
        options: vec!["red".to_owned(), "blue".to_owned()],
    };
    Proposed {
        call: CallId::new(call),
        name: name.to_owned(),
        input: json!({}),
        title: name.to_owned(),
        kind: ToolKind::Other,
        locations: vec![],
        content: Vec::new(),
        ruled: Ruled::Silent,
        refused,
        is_uncontained,
        question: (name == "ask_user").then(asks),
    }
}

fn tell() -> Command {
    let message = MessageStarted {
        message_id: MessageId::new("whole"),
        kind: MessageKind::Text,
    };
    let text = "hello".to_owned();
    Command::Say { message, text }
}

fn refusal(rejected: &Rejected) -> String {
    match rejected {
        Rejected::Repeated(Fate::Ended(outcome)) => format!("repeated, ended {}", outcome.is_ok()),
        Rejected::Repeated(fate) => format!("repeated, {fate:?}"),
        Rejected::Busy
        | Rejected::QueueFull
        | Rejected::Spent
        | Rejected::Nothing
        | Rejected::SubAgent
        | Rejected::Late => rejected.to_string(),
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the rest is told by its name alone"
)]
fn shown(entry: &Entry) -> String {
    let event = match entry {
        Entry::EndMessage { partial } => return format!("end of message, partial {partial}"),
        Entry::Event(event) => event,
    };
    let detail = match event {
        Event::UserMessage(message) => message.text.clone(),
        Event::TurnStarted(started) => started.turn.0.to_string(),
        Event::ToolUse(used) => used.call_id.to_string(),
        Event::ToolResult(result) => format!("{} {:?}", result.call_id, result.status),
        Event::PermissionAsked(asked) => asked.call_id.to_string(),
        Event::PermissionAnswered(answered) => {
            let reason = answered.reason.as_ref();
            let reason = reason.map(|reason| format!(", {reason}"));
            format!("{:?}{}", answered.outcome, reason.unwrap_or_default())
        }
        Event::QuestionAsked(asked) => asked.call_id.to_string(),
        Event::QuestionAnswered(answered) => {
            let text = answered.text.as_deref().unwrap_or_default();
            format!("{:?} {text}", answered.outcome)
        }
        Event::TurnResult(result) => match (&result.error, result.stop_reason) {
            (Some(error), _) => error.kind.name().to_owned(),
            (None, reason) => format!("{:?}", reason.unwrap()),
        },
        Event::PromptDropped(dropped) => {
            let why = ["", " interrupted"][usize::from(dropped.interrupted)];
            format!("{}{why}", dropped.queued)
        }
        Event::ModeChanged(changed) => changed.mode.clone(),
        Event::SessionRewound(rewound) => rewound.to.to_string(),
        Event::TurnInterrupted(interrupted) => interrupted.turn.0.to_string(),
        _ => String::new(),
    };
    format!("{} {detail}", event.kind()).trim_end().to_owned()
}

#[test]
fn a_second_prompt_is_refused_while_a_turn_runs() {
    check(
        "
prompt hello
    notice
    session.updated
    user.message hello
    turn.started 1
prompt again
    rejected: a turn is already running
end
    result EndTurn
prompt again
    user.message again
    turn.started 2
",
    );
}

#[test]
fn a_queued_prompt_runs_after_the_turn_and_cancel_drops_it() {
    check(
        "
prompt one
    notice
    session.updated
    user.message one
    turn.started 1
queue two
    prompt.queued
queue three
    prompt.queued
next
    rejected: its time has passed
end
    result EndTurn
next
    user.message two
    turn.started 2
cancel
    prompt.dropped 7
end-cancelled
    result Cancelled
next
    rejected: its time has passed
",
    );
}

#[test]
fn a_prompt_sent_twice_runs_once() {
    check(
        "
prompt one as p
    notice
    session.updated
    user.message one
    turn.started 1
prompt one as p
    rejected: repeated, Running(TurnId(1))
queue two as q
    prompt.queued
queue two as q
    rejected: repeated, Queued(EventSeq(6))
fail
    result model_error
prompt one as p
    rejected: repeated, ended false
",
    );
}

#[test]
fn a_call_that_must_be_asked_for_runs_only_when_allowed() {
    check(
        "
prompt write it
    notice
    session.updated
    user.message write it
    turn.started 1
text
propose read:r write:w
    end of message, partial false
    tool.use r
    tool.use w
    permission.asked w
answer reject_once
    permission.answered Denied
    tool.result w Denied
answer allow_once
    rejected: its time has passed
finish w
    rejected: its time has passed
finish r
    tool.result r Completed
propose write:x
    tool.use x
    permission.asked x
answer nonsense
    permission.answered Denied
    tool.result x Denied
propose write:y
    tool.use y
    permission.asked y
dismiss
    permission.answered Denied
    tool.result y Denied
propose write:z
    tool.use z
    permission.asked z
expire
    permission.answered Expired
    tool.result z Denied
",
    );
}

#[test]
fn d_07_a_call_that_a_hook_refuses_does_not_run_whatever_the_rules_say() {
    check(
        "
prompt go
    notice
    session.updated
    user.message go
    turn.started 1
mode bypass
    mode.changed bypass
propose read:r! write:w! write:x
    tool.use r
    tool.use w
    tool.use x
    tool.result r Denied
    tool.result w Denied
finish r
    rejected: its time has passed
finish x
    tool.result x Completed
",
    );
}

#[test]
fn d_04_a_call_that_nothing_would_contain_is_asked_about_whatever_the_rules_allow() {
    check(
        "
prompt go
    notice
    session.updated
    user.message go
    turn.started 1
mode bypass
    mode.changed bypass
propose bash:a bash:b?
    tool.use a
    tool.use b
    permission.asked b
answer allow_always
    permission.answered Denied
    tool.result b Denied
propose bash:c?
    tool.use c
    permission.asked c
answer allow_once
    permission.answered Allowed
finish c
    tool.result c Completed
mode plan
    mode.changed plan
propose bash:d?
    tool.use d
    tool.result d Denied
",
    );
}

#[test]
fn an_always_answer_is_remembered_and_plan_mode_overrides_it() {
    check(
        "
prompt go
    notice
    session.updated
    user.message go
    turn.started 1
propose write:a
    tool.use a
    permission.asked a
answer allow_always
    permission.answered Allowed
finish a
    tool.result a Completed
propose write:b
    tool.use b
finish b
    tool.result b Completed
mode plan
    mode.changed plan
propose write:c
    tool.use c
    tool.result c Denied
",
    );
}

#[test]
fn a_cancelled_turn_leaves_no_call_and_no_question_open() {
    check(
        "
prompt go
    notice
    session.updated
    user.message go
    turn.started 1
propose read:r write:w
    tool.use r
    tool.use w
    permission.asked w
text
cancel
    permission.answered Cancelled
end-cancelled
    end of message, partial true
    tool.result r Cancelled
    tool.result w Cancelled
    result Cancelled
end
    rejected: its time has passed
",
    );
}

#[test]
fn an_interrupted_turn_says_which_calls_may_have_run() {
    check(
        "
prompt go as p
    notice
    session.updated
    user.message go
    turn.started 1
queue later as q
    prompt.queued
propose read:r write:w
    tool.use r
    tool.use w
    permission.asked w
interrupt
    permission.answered Cancelled
    tool.result r Unknown
    tool.result w NotRun
    turn.interrupted 1
    prompt.dropped 6 interrupted
prompt go as p
    rejected: repeated, ended false
prompt later as q
    rejected: repeated, ended false
interrupt
    rejected: its time has passed
",
    );
}

#[test]
fn d_11_undoing_goes_back_to_the_end_of_a_turn_and_never_under_a_running_one() {
    check(
        "
prompt one
    notice
    session.updated
    user.message one
    turn.started 1
rewind 1
    rejected: a turn is already running
end
    result EndTurn
prompt two
    user.message two
    turn.started 2
end
    result EndTurn
rewind 9
    rejected: no turn ended after that event
rewind 8
    session.rewound 6
rewind 8
    rejected: no turn ended after that event
prompt three
    user.message three
    turn.started 3
end
    result EndTurn
rewind 11
    session.rewound 6
rewind 0
    session.rewound 1
rewind 0
    rejected: no turn ended after that event
",
    );
}

#[test]
fn d_11_a_client_that_saw_what_was_undone_must_drop_it() {
    let mut state = SessionState::default();
    for (seq, to) in [(10, 6), (14, 3)] {
        let rewound = json!({"to": to}).to_string();
        let rewound = Event::from_json("session.rewound", &rewound).unwrap();
        state.apply(EventSeq(seq), &rewound);
    }
    let drops = |cursor| state.undone_from(EventSeq(cursor)).map(|from| from.0);
    assert_eq!([drops(3), drops(4), drops(8)], [None, Some(4), Some(4)]);
    assert_eq!([drops(10), drops(13), drops(14)], [Some(4), Some(4), None]);
}

#[test]
fn a_session_without_tokens_takes_no_new_prompt_but_answers_an_old_one() {
    check(
        "
prompt one as p
    notice
    session.updated
    user.message one
    turn.started 1
end
    result EndTurn
prompt beyond the budget
    rejected: the session has used up its tokens
prompt beyond the budget as p
    rejected: repeated, ended true
model other
    session.updated
model other
prompt two
    user.message two
    turn.started 2
",
    );
}

#[test]
fn a_label_that_says_nothing_new_is_no_event_and_a_title_is_kept_by_the_first_prompt() {
    check(
        "
archive no
title mine
    session.updated
title mine
archive yes
    session.updated
archive yes
prompt hello
    notice
    user.message hello
    turn.started 1
title other
    session.updated
archive no
    session.updated
",
    );
}
