//! What a reader of the numbers can rely on.

use std::collections::HashSet;
use std::time::Duration;

use domain::event::ToolStatus;

use crate::label::{Label, Method, Phase, Reason, Status, Tool, ToolOutcome};
use crate::{Gauge, Histogram, SESSIONS, SessionSeen, TOOL_RUNS, ToolRun, render};

#[test]
fn every_line_is_a_comment_or_a_number_and_every_series_stands_once() {
    TOOL_RUNS.of(Tool::Grep).of(ToolOutcome::Denied).count();
    let text = render("1.2.3");
    let mut seen = HashSet::new();
    let mut known = HashSet::new();
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# TYPE ") {
            let (name, kind) = comment.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(known.insert(name.to_owned()), "{line}");
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        value.parse::<f64>().unwrap();
        assert!(seen.insert(series.to_owned()), "{line}");
        let name = series.split('{').next().unwrap();
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end).filter(|name| known.contains(*name)))
            .unwrap_or(name);
        assert!(known.contains(family), "{line}");
    }
    assert!(seen.contains("fastness_build_info{version=\"1.2.3\"}"));
    assert!(seen.contains("process_resident_memory_bytes"));
}

#[test]
fn a_histogram_counts_what_is_not_longer_than_each_bound() {
    let times = Histogram::new();
    for micros in [500, 501, 2_000_000, 10_000_000_000] {
        times.observe(Duration::from_micros(micros));
    }
    let counts = times.cumulative();
    assert_eq!((counts[0], counts[1]), (1, 2));
    assert_eq!((counts[10], counts[11]), (2, 3));
    assert_eq!((counts[15], counts[16]), (3, 4));
    assert_eq!(times.sum_micros(), 10_002_001_001);
}

#[test]
fn what_is_held_counts_until_it_is_dropped() {
    static GAUGE: Gauge = Gauge::new();
    let (one, other) = (GAUGE.hold(), GAUGE.hold());
    assert_eq!(GAUGE.value(), 2);
    drop(one);
    assert_eq!(GAUGE.value(), 1);
    drop(other);
    assert_eq!(GAUGE.value(), 0);
}

#[test]
fn a_session_counts_under_one_state_at_a_time() {
    let before = |phase| SESSIONS.of(phase).value();
    let (idle, waiting) = (before(Phase::Idle), before(Phase::Waiting));
    let mut session = SessionSeen::loaded();
    assert_eq!(before(Phase::Idle), idle + 1);
    session.is(Phase::Waiting);
    assert_eq!(
        (before(Phase::Idle), before(Phase::Waiting)),
        (idle, waiting + 1)
    );
    drop(session);
    assert_eq!(before(Phase::Waiting), waiting);
}

#[test]
fn a_tool_run_ends_once_and_unknown_tools_count_together() {
    let value = |outcome| TOOL_RUNS.of(Tool::Other).of(outcome).value();
    let before = (value(ToolOutcome::Completed), value(ToolOutcome::Cancelled));
    ToolRun::start("made_up").end(ToolStatus::Completed);
    drop(ToolRun::start("made_up_too"));
    let after = (value(ToolOutcome::Completed), value(ToolOutcome::Cancelled));
    assert_eq!(after, (before.0 + 1, before.1 + 1));
}

#[test]
fn names_lead_to_their_values_and_back() {
    assert_eq!(Method::named("session/prompt"), Some(Method::Prompt));
    assert_eq!(Method::named("no/such"), None);
    assert_eq!(Method::Prompt.name(), "session/prompt");
    assert_eq!(Status::of(404), Status::Refused);
    assert_eq!(Reason::of_rpc(-32_011), Reason::Rate);
}
