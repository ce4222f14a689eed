//! Entering a session: who may, and where its cursor starts.

use auth::{Grant, Scope};
use domain::{Cursor, EventSeq, SessionId};

use crate::directory::Engine;
use crate::feed::Head;
use crate::handle::{AttachError, Config, Entrance, From, Snapshot, TurnPhase};
use crate::state::SessionState;

/// Checks that `entrance` is let in, by itself or by what it was granted; gives what it may do.
pub(crate) fn check(
    id: SessionId,
    state: &SessionState,
    entrance: &Entrance,
    grant: Option<&Grant>,
) -> Result<Scope, AttachError> {
    let own = entrance.principal.scope();
    let scope = match grant {
        _ if entrance.principal.may_enter(id, state.owner()) => own,
        Some(grant) if grant.scope == Scope::Observe => Scope::Observe,
        Some(_) => own,
        None => return Err(AttachError::NotFound),
    };
    let cwd = entrance.cwd.as_deref();
    if cwd.is_some_and(|cwd| !state.cwd().is_empty() && cwd != state.cwd()) {
        return Err(AttachError::WrongCwd);
    }
    Ok(scope)
}

/// Where a follower starts, and what it must drop first.
pub(crate) fn start(state: &SessionState, head: &Head, from: From) -> (Cursor, Option<EventSeq>) {
    let at = |seq, offset| Cursor {
        epoch: head.epoch,
        seq,
        offset,
    };
    match from {
        From::Start => (at(EventSeq(0), 0), None),
        From::Head => (at(head.seq, head.open.map_or(0, |open| open.bytes)), None),
        From::After {
            cursor,
            epoch_given,
        } => {
            let epoch = if epoch_given {
                cursor.epoch
            } else {
                head.epoch
            };
            let voided = state.voided_from(epoch).filter(|from| cursor.seq >= *from);
            let past_head = (cursor.seq > head.seq).then_some(EventSeq(1));
            let undone = state.undone_from(cursor.seq);
            let voided = voided.into_iter().chain(undone).min();
            match voided.or(past_head) {
                Some(resync) => (at(EventSeq(resync.0.saturating_sub(1)), 0), Some(resync)),
                None => (at(cursor.seq, cursor.offset), None),
            }
        }
    }
}

/// What the newest turn is doing.
pub(crate) fn phase(state: &SessionState) -> TurnPhase {
    match (state.running(), state.questions()) {
        (None, _) => TurnPhase::Idle,
        (Some(_), []) => TurnPhase::Running,
        (Some(_), _) => TurnPhase::Waiting,
    }
}

/// How things stand now.
pub(crate) fn snapshot(
    (state, engine): (&SessionState, &Engine),
    head: &Head,
    resync_from: Option<EventSeq>,
    was_loaded: bool,
) -> Snapshot {
    Snapshot {
        head: head.seq,
        epoch: head.epoch,
        resync_from,
        config: Config::of(state, engine),
        questions: state.questions().to_vec(),
        turn: state.last_turn(),
        phase: phase(state),
        prompt_id: state
            .running()
            .and_then(|running| running.prompt_id.clone()),
        queue: state.queued(),
        was_loaded,
        damaged_at: None,
    }
}
