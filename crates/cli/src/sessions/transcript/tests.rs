//! Which event allowed which run, told from the events alone.

use domain::clock::Timestamp;
use domain::event::ToolStatus;
use domain::{Event, EventSeq};
use journal::Stored;

use super::{Allowed, Piece, Transcript};

/// Reads events written as `type {fields}`, one per line; gives why each outcome was allowed.
fn outcomes(events: &str) -> Vec<(ToolStatus, Option<Allowed>)> {
    let mut transcript = Transcript::default();
    let lines = events.lines().filter(|line| !line.is_empty());
    let mut found = Vec::new();
    for (index, line) in lines.enumerate() {
        let (kind, fields) = line.split_once(' ').unwrap();
        let stored = Stored {
            seq: EventSeq(index as u64 + 1),
            ts: Timestamp(0.0),
            event: Event::from_json(kind, fields).unwrap(),
        };
        assert!(!matches!(stored.event, Event::Unknown(_)), "{line}");
        if let Piece::Outcome {
            status, allowed, ..
        } = transcript.read(&stored)
        {
            found.push((status, allowed));
        }
    }
    found
}

#[test]
fn a_run_points_at_the_answer_that_allowed_it() {
    let found = outcomes(
        r#"
tool.use {"turn":1,"callId":"c","name":"write","input":{}}
permission.asked {"id":"p","callId":"c","options":[{"optionId":"allow_once","name":"","kind":"allow_once"}]}
permission.answered {"id":"p","outcome":"allowed","optionId":"allow_once","by":"local"}
tool.result {"callId":"c","status":"completed","text":""}
"#,
    );
    let answer = Some(Allowed::Answer(EventSeq(3), Some("local".to_owned())));
    assert_eq!(found, [(ToolStatus::Completed, answer)]);
}

#[test]
fn a_later_run_points_at_the_answer_for_the_whole_session() {
    let found = outcomes(
        r#"
tool.use {"turn":1,"callId":"c","name":"bash","input":{}}
permission.asked {"id":"p","callId":"c","options":[{"optionId":"yes","name":"","kind":"allow_always"}]}
permission.answered {"id":"p","outcome":"allowed","optionId":"yes"}
tool.result {"callId":"c","status":"completed","text":""}
tool.use {"turn":2,"callId":"d","name":"bash","input":{}}
tool.result {"callId":"d","status":"failed","text":""}
tool.use {"turn":2,"callId":"e","name":"read","input":{}}
tool.result {"callId":"e","status":"completed","text":""}
"#,
    );
    let allowed: Vec<_> = found.into_iter().map(|(_, allowed)| allowed).collect();
    assert_eq!(
        allowed,
        [
            Some(Allowed::Answer(EventSeq(3), None)),
            Some(Allowed::Always(EventSeq(3))),
            Some(Allowed::Unsaid(EventSeq(7))),
        ]
    );
}

#[test]
fn d_04_a_run_that_nobody_was_asked_about_says_by_what_it_was_allowed() {
    let found = outcomes(
        r#"
tool.use {"turn":1,"callId":"c","name":"bash","input":{},"allowedBy":{"rules":[{"rule":"bash(ls*)","from":"project"},{"rule":"bash(make *)","from":"operator"}]}}
tool.result {"callId":"c","status":"completed","text":""}
tool.use {"turn":1,"callId":"d","name":"bash","input":{},"allowedBy":{"event":7}}
tool.result {"callId":"d","status":"completed","text":""}
tool.use {"turn":1,"callId":"e","name":"write","input":{},"allowedBy":{"mode":"bypass"}}
tool.result {"callId":"e","status":"completed","text":""}
"#,
    );
    let said = found
        .iter()
        .map(|(_, allowed)| allowed.as_ref().unwrap().sentence());
    assert_eq!(
        said.collect::<Vec<_>>(),
        [
            "allowed by the rule bash(ls*) (project), bash(make *) (operator) at event 1",
            "allowed for the session by event 7",
            "allowed by mode bypass at event 5",
        ]
    );
}

#[test]
fn what_did_not_run_was_allowed_by_nothing() {
    let found = outcomes(
        r#"
tool.use {"turn":1,"callId":"c","name":"write","input":{}}
permission.asked {"id":"p","callId":"c","options":[]}
permission.answered {"id":"p","outcome":"denied"}
tool.result {"callId":"c","status":"denied","text":""}
tool.use {"turn":2,"callId":"d","name":"write","input":{}}
permission.asked {"id":"q","callId":"d","options":[]}
tool.result {"callId":"d","status":"not_run","text":""}
"#,
    );
    let denied = (ToolStatus::Denied, None);
    assert_eq!(found, [denied, (ToolStatus::NotRun, None)]);
}
