//! All numbers as Prometheus text, version 0.0.4.

use std::fmt::{self, Write as _};

use crate::label::Label;
use crate::numbers::{BOUNDS, Counter, Gauge, Histogram, Per};
use crate::process::Process;

/// Every number there is, as it stands now. Reads a few files of `/proc`.
#[must_use]
pub fn render(version: &str) -> String {
    let mut text = Text::default();
    clients(&mut text);
    work(&mut text);
    requests(&mut text);
    storage(&mut text);
    process(&mut text, version);
    text.0
}

fn clients(text: &mut Text) {
    let help = "Clients connected now.";
    text.gauges(
        "fastness_connections",
        help,
        "transport",
        &crate::CONNECTIONS,
    );
    let (name, help) = ("fastness_connections_total", "Clients that ever connected.");
    text.counters(name, help, "transport", &crate::CONNECTIONS_EVER);
    let help = "Cursors that clients hold on sessions.";
    text.gauge("fastness_attachments", help, &crate::ATTACHMENTS);
    let (name, help) = ("fastness_attaches_total", "Sessions entered, by request.");
    text.counters(name, help, "way", &crate::ATTACHES);
    let (name, help) = ("fastness_queued_bytes", "Bytes that wait for clients.");
    text.gauge(name, help, &crate::QUEUED_BYTES);
    let help = "Requests to clients that wait for their answer.";
    text.gauge(
        "fastness_client_requests_pending",
        help,
        &crate::CLIENT_REQUESTS,
    );
    let help = "Messages ignored because they meant nothing.";
    text.counters("fastness_ignored_total", help, "what", &crate::IGNORED);
}

fn work(text: &mut Text) {
    let help = "Sessions in memory, by what they are doing.";
    text.gauges("fastness_sessions", help, "state", &crate::SESSIONS);
    let (name, help) = ("fastness_turns_total", "Turns that ended.");
    text.counters(name, help, "outcome", &crate::TURNS);
    let (name, help) = ("fastness_events_total", "Events that were stored.");
    text.counter(name, help, &crate::EVENTS);
    let (name, help) = ("fastness_turn_duration_seconds", "How long turns took.");
    text.histogram(name, help, &crate::TURN_TIME);
    text.head(
        "fastness_tool_runs_total",
        "Tool runs that ended.",
        "counter",
    );
    for (tool, outcomes) in crate::TOOL_RUNS.each() {
        for (outcome, runs) in outcomes.each().filter(|(_, runs)| runs.value() > 0) {
            let labels = format_args!("{{tool=\"{tool}\",outcome=\"{outcome}\"}}");
            text.line("fastness_tool_runs_total", labels, runs.value());
        }
    }
    let name = "fastness_tool_run_duration_seconds";
    text.head(name, "How long tool runs took.", "histogram");
    for (tool, times) in crate::TOOL_TIME.each() {
        if times.cumulative()[BOUNDS.len()] > 0 {
            text.buckets(name, format_args!("tool=\"{tool}\""), times);
        }
    }
    let (name, help) = ("fastness_model_calls_total", "Model calls that ended.");
    text.counters(name, help, "outcome", &crate::MODEL_CALLS);
    let help = "From asking a model to the first piece of its answer.";
    text.histogram(
        "fastness_model_first_byte_seconds",
        help,
        &crate::MODEL_FIRST,
    );
    let help = "From asking a model to the end of its answer.";
    text.histogram(
        "fastness_model_call_duration_seconds",
        help,
        &crate::MODEL_TIME,
    );
}

fn requests(text: &mut Text) {
    let help = "Requests refused, by reason.";
    text.counters("fastness_refusals_total", help, "reason", &crate::REFUSALS);
    let name = "fastness_http_requests_total";
    text.head(name, "HTTP requests answered.", "counter");
    for (route, statuses) in crate::HTTP_REQUESTS.each() {
        for (status, count) in statuses.each().filter(|(_, count)| count.value() > 0) {
            let labels = format_args!("{{route=\"{route}\",status=\"{status}\"}}");
            text.line(name, labels, count.value());
        }
    }
    let help = "How long HTTP requests took to be answered.";
    text.histogram(
        "fastness_http_request_duration_seconds",
        help,
        &crate::HTTP_TIME,
    );
    let name = "fastness_rpc_requests_total";
    text.head(name, "ACP requests answered.", "counter");
    for (method, outcomes) in crate::RPC_REQUESTS.each() {
        for (outcome, count) in outcomes.each().filter(|(_, count)| count.value() > 0) {
            let labels = format_args!("{{method=\"{method}\",outcome=\"{outcome}\"}}");
            text.line(name, labels, count.value());
        }
    }
    let help = "How long ACP requests took to be answered, prompts left out.";
    text.histogram(
        "fastness_rpc_request_duration_seconds",
        help,
        &crate::RPC_TIME,
    );
}

fn storage(text: &mut Text) {
    let help = "How long the disk took to make events durable.";
    text.histogram(
        "fastness_journal_sync_duration_seconds",
        help,
        &crate::SYNC_TIME,
    );
    let help = "Syncs that failed.";
    text.counter(
        "fastness_journal_sync_failures_total",
        help,
        &crate::SYNC_FAILURES,
    );
    let help = "Clean-up steps that failed.";
    text.counter(
        "fastness_cleanup_failures_total",
        help,
        &crate::CLEANUP_FAILURES,
    );
}

fn process(text: &mut Text, version: &str) {
    text.head("fastness_build_info", "The version that runs.", "gauge");
    text.line(
        "fastness_build_info",
        format_args!("{{version=\"{version}\"}}"),
        1,
    );
    let process = Process::now();
    for (name, help, kind, value) in [
        (
            "process_resident_memory_bytes",
            "Memory in use.",
            "gauge",
            process.resident_bytes,
        ),
        (
            "process_cpu_seconds_total",
            "Processor time used.",
            "counter",
            process.cpu_seconds,
        ),
        (
            "process_start_time_seconds",
            "When it started, since 1970.",
            "gauge",
            process.start_seconds,
        ),
        (
            "fastness_uptime_seconds",
            "How long it has run.",
            "gauge",
            process.uptime_seconds,
        ),
        (
            "process_open_fds",
            "Descriptors in use.",
            "gauge",
            process.fds,
        ),
        (
            "process_max_fds",
            "Descriptors it may use.",
            "gauge",
            process.fds_max,
        ),
        ("process_threads", "Threads.", "gauge", process.threads),
    ] {
        if let Some(value) = value {
            text.head(name, help, kind);
            text.line(name, format_args!(""), value);
        }
    }
}

/// The text so far.
#[derive(Default)]
struct Text(String);

impl Text {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        self.add(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    fn line(&mut self, name: &str, labels: fmt::Arguments<'_>, value: impl fmt::Display) {
        self.add(format_args!("{name}{labels} {value}\n"));
    }

    fn counter(&mut self, name: &str, help: &str, counter: &Counter) {
        self.head(name, help, "counter");
        self.line(name, format_args!(""), counter.value());
    }

    fn gauge(&mut self, name: &str, help: &str, gauge: &Gauge) {
        self.head(name, help, "gauge");
        self.line(name, format_args!(""), gauge.value());
    }

    fn counters<L: Label, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        counters: &Per<L, Counter, N>,
    ) {
        self.head(name, help, "counter");
        for (value, counter) in counters.each() {
            let labels = format_args!("{{{label}=\"{value}\"}}");
            self.line(name, labels, counter.value());
        }
    }

    fn gauges<L: Label, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        gauges: &Per<L, Gauge, N>,
    ) {
        self.head(name, help, "gauge");
        for (value, gauge) in gauges.each() {
            let labels = format_args!("{{{label}=\"{value}\"}}");
            self.line(name, labels, gauge.value());
        }
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, help, "histogram");
        self.buckets(name, format_args!(""), histogram);
    }

    fn buckets(&mut self, name: &str, labels: fmt::Arguments<'_>, histogram: &Histogram) {
        let labels = labels.to_string();
        let comma = if labels.is_empty() { "" } else { "," };
        let counts = histogram.cumulative();
        for (bound, count) in BOUNDS.iter().zip(&counts) {
            let bound = Seconds(*bound);
            self.add(format_args!(
                "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {count}\n"
            ));
        }
        let all = counts[BOUNDS.len()];
        self.add(format_args!(
            "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {all}\n"
        ));
        let braced = if labels.is_empty() {
            labels
        } else {
            format!("{{{labels}}}")
        };
        let sum = Seconds(histogram.sum_micros());
        self.add(format_args!(
            "{name}_sum{braced} {sum}\n{name}_count{braced} {all}\n"
        ));
    }

    fn add(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.0.write_fmt(text);
    }
}

/// Microseconds, written as seconds.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1_000_000, self.0 % 1_000_000);
        if part == 0 {
            return write!(f, "{whole}");
        }
        let part = format!("{part:06}");
        write!(f, "{whole}.{}", part.trim_end_matches('0'))
    }
}
