//! Measures the release binary and soaks it: what `cargo xtask bench` and `cargo xtask soak` start.
//!
//! A crate of its own, because it is built from most of the product, and `cargo xtask test` must not
//! wait for that.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a development tool: it prints its results"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a development tool: it starts the programs that it measures"
)]

mod bench;
mod soak;

use std::process::ExitCode;

/// What a command could not do, as one sentence for the person who started it.
type Failure = String;

fn main() -> ExitCode {
    // MCP servers that are measured run under a supervisor, which is this program.
    if let Some(code) = tools::sandbox::supervisor::take_over(std::env::args_os()) {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rest = arguments.get(1..).unwrap_or_default();
    let outcome = match arguments.first().map(String::as_str) {
        Some("bench") => bench::measure(rest),
        Some(bench::BARE) => bench::bare_listener(),
        Some(bench::BARE_AXUM) => bench::bare_axum(),
        Some(bench::WEIGH) => bench::weigh(rest),
        Some("soak") => soak::run(rest),
        _ => {
            eprintln!("start it with `cargo xtask bench` or `cargo xtask soak`");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("fastness-bench: {failure}");
            ExitCode::FAILURE
        }
    }
}
