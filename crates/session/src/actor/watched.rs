//! What others see of a turn from outside: its span, its line in the log, its numbers.

use std::sync::{Arc, OnceLock};

use domain::trace::TraceId;
use domain::{Event, TraceParent, TurnId};
use journal::Stored;
use meters::label::{Label as _, Phase, TurnOutcome};
use tokio::time::Instant;
use tracing::Span;
use tracing::field::{Empty, display};

use super::SessionActor;
use crate::attach;
use crate::handle::TurnPhase;

/// Makes a turn's span part of its caller's trace.
type Adopt = fn(&Span, TraceParent);

static ADOPT: OnceLock<Adopt> = OnceLock::new();

/// Has `adopt` called for each turn whose caller named a trace, so that whoever exports spans can
/// join them. The first call decides, as with the subscriber that it belongs to.
pub fn adopt_traces_with(adopt: fn(&Span, TraceParent)) {
    // A second exporter would have nothing to add.
    let _ = ADOPT.set(adopt);
}

/// A turn whose end is not stored yet.
pub(super) struct WatchedTurn {
    turn: TurnId,
    began: Instant,
    trace: Option<TraceId>,
}

impl SessionActor {
    /// A turn begins; everything it does is logged in the span.
    pub(super) fn watch_start(&mut self, turn: TurnId, trace: Option<TraceParent>) -> Span {
        let parent = trace;
        let trace = parent.map(|parent| parent.id());
        let began = Instant::now();
        self.watched = Some(WatchedTurn { turn, began, trace });
        let span = tracing::info_span!(
            "turn", session = %self.id, turn = turn.0, trace_id = Empty
        );
        if let Some(trace) = trace {
            span.record("trace_id", display(trace));
        }
        if let (Some(parent), Some(adopt)) = (parent, ADOPT.get()) {
            adopt(&span, parent);
        }
        span
    }

    /// Looks for the end of the turn among what was stored.
    pub(super) fn watch_ends(&mut self, stored: &[Arc<Stored>]) {
        for event in stored {
            let outcome = if let Event::TurnResult(result) = &event.event {
                match (&result.stop_reason, &result.error) {
                    (Some(reason), _) => TurnOutcome::from(*reason),
                    (None, Some(error)) => error.kind.into(),
                    (None, None) => TurnOutcome::EndTurn,
                }
            } else if let Event::TurnInterrupted(_) = &event.event {
                TurnOutcome::Interrupted
            } else {
                continue;
            };
            if self.watched.is_some() {
                self.watch_end(outcome);
            } else {
                // One that never began here: cancelled before it could, or an earlier life's.
                meters::TURNS.of(outcome).count();
            }
        }
    }

    /// The turn is over, if there was one.
    pub(super) fn watch_end(&mut self, outcome: TurnOutcome) {
        let Some(WatchedTurn { turn, began, trace }) = self.watched.take() else {
            return;
        };
        let took = began.elapsed();
        meters::TURNS.of(outcome).count();
        meters::TURN_TIME.observe(took);
        tracing::info!(
            session = %self.id,
            turn = turn.0,
            outcome = outcome.name(),
            took_ms = took.as_secs_f64() * 1e3,
            trace_id = trace.map(display),
            "turn ended"
        );
    }

    /// What the session is doing, as it is counted.
    pub(super) fn phase(&self) -> Phase {
        let phase = self.open.as_ref().map(|open| attach::phase(&open.state));
        match phase {
            Some(TurnPhase::Running) => Phase::Running,
            Some(TurnPhase::Waiting) => Phase::Waiting,
            Some(TurnPhase::Idle) | None => Phase::Idle,
        }
    }
}
