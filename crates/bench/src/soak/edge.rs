//! `cargo xtask soak edge`: the harnesses of [`testkit::edge`] with the numbers of the fault list.

use std::path::Path;
use std::time::{Duration, Instant};

use testkit::{Program, edge};

use crate::Failure;
use crate::bench::because;

/// Descriptors for five thousand clients on both sides, and some to spare.
const OPEN_FILES: u64 = 12_000;

/// Given to headers in the slow step: enough to open a thousand connections first.
const HEADERS_TIME: Duration = Duration::from_secs(5);

/// What is done, in this order; `--only` picks by these names.
const STEPS: &[&str] = &[
    "churn",
    "resets",
    "slow",
    "pings",
    "neighbours",
    "storm",
    "stalled",
];

/// Runs all steps, or those whose name contains `only`.
pub(super) fn run(binary: &Path, only: Option<&str>) -> Result<(), Failure> {
    edge::raise_open_files(OPEN_FILES)?;
    // What is timed must not wait for what is read beside it.
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let built = builder.worker_threads(2).enable_all().build();
    let runtime = built.map_err(because("cannot start the runtime"))?;
    let wanted = |step: &&&str| only.is_none_or(|only| step.contains(only));
    let mut failures = Vec::new();
    for step in STEPS.iter().filter(wanted) {
        let started = Instant::now();
        let outcome = runtime.block_on(take(step, binary));
        let seconds = started.elapsed().as_secs_f64();
        match outcome {
            Ok(found) => println!("{found} ({seconds:.1} s)"),
            Err(failure) => {
                println!("FAILED {step}: {failure} ({seconds:.1} s)");
                failures.push(*step);
            }
        }
    }
    if failures.is_empty() {
        return Ok(());
    }
    let failed = failures.join(", ");
    Err(format!(
        "{failed}; repeat with: cargo xtask soak edge --only {}",
        failures[0]
    ))
}

async fn take(step: &str, binary: &Path) -> edge::Outcome {
    let home = edge::home(binary);
    match step {
        "churn" => edge::churn(&Program::serve_in(home).await, 10_000).await,
        "resets" => edge::resets(&Program::serve_in(home).await, 1).await,
        "slow" => {
            let home = home.env("FASTNESS_LIMITS_HANDSHAKE_MS", HEADERS_TIME.as_millis());
            let within = HEADERS_TIME + Duration::from_secs(1);
            edge::slow_headers(&Program::serve_in(home).await, 1_000, within).await
        }
        "pings" => edge::pings(&Program::serve_in(home).await, 1_000_000).await,
        "neighbours" => edge::neighbours(&Program::serve_in(home).await, 1_000).await,
        "storm" => edge::storm(binary, 5_000, Duration::from_secs(10)).await,
        // A gigabyte, and what summaries of the conversation take away.
        "stalled" => edge::stalled(binary, 24).await,
        other => Err(format!("there is no step {other}")),
    }
}
