//! What developers run beside cargo itself: `cargo xtask test`, `tidy`, `lint`, `ci`, `deny`,
//! `package`, `soak` and `bench`.
//!
//! Start with [`tidy`] for the rules of the house and [`steps`] for what a change must pass.
//! A newcomer waits for this program to be built, so it uses none of our crates.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a development tool: talking to the person who started it is its job"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a development tool: it reads the source tree and starts cargo"
)]

mod measuring;
mod package;
mod packages;
mod steps;
mod test;
mod tidy;
mod tree;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test [ARG]...   install and fetch what the tests need, then run all of them; each ARG is for
                  nextest, such as -p fastness-journal or -E 'test(name)'
  tidy            check the rules of the house (also a test of this crate)
  lint            rustfmt, clippy, rustdoc, tidy, and cargo-deny when it is installed
  ci              lint, then all tests
  deny            cargo-deny: bans, licences, sources
  package         make what people install: npm, wheel, deb, tarball, container image
    --out DIR     where the packages go
    --release     build what is published, for old systems too (the default)
    --dev         package the dev build, for tests
    --bin PATH    package this program instead of building one
    --only WORD   only the packages whose name contains WORD
  bench           measure the release binary and print a table
    --quick       fewer rounds and 500 sockets instead of 10,000
    --cold        also the time from a clean clone to the first answer
    --only WORD   only the groups whose name contains WORD
    --bin PATH    measure this binary instead of building one
  bench edge      measure transports, requests and connections beside a bare axum server
    --quick, --only WORD, --bin PATH as above
  bench stream    measure turns per second, long turns, many who watch, replay
    --quick, --only WORD, --bin PATH as above
  bench turn      measure turns with a model behind HTTP, beside asking that model directly
    --quick, --only WORD, --bin PATH as above
  bench journal   measure the journal beside what the disk and the parser can do
    --quick       fewer rounds and a session of 100 MB instead of 1 GB
    --only WORD   only the groups whose name contains WORD
  bench netguard  measure judging a URL, and a guarded fetch beside bare reqwest
    --quick, --only WORD as above
  bench mcp       measure calls of tool servers and their start, beside the TypeScript and Python SDKs
    --quick, --only WORD as above
  bench page      measure opening and scrolling a session of 5,000 messages in a browser
    --bin PATH    as above
  bench store     measure lists of 100,000 sessions, and a prompt into a session of 1 GB
    --quick, --only WORD, --bin PATH as above
  soak journal    the journal over a storage that fails and loses power
    --seeds N     how many seeds, from 0 on (10,000)
    --seed S      only this one
  soak bash       commands that permission rules know, run by a real bash
    --commands N  how many are made (200,000)
    --seed S      only the hundred of this seed
  soak resume     clients that come and go over bad networks, a server that dies
    --seeds N     how many seeds, from 0 on (20,000)
    --seed S      only this one, fifty times
  soak kill       the real server, killed at random moments while clients write
  soak bridge     the real bridge, with a server that is killed and started again under it
  soak chat       the real chat in a terminal, with a server that is killed under it
    --rounds N    how often it dies (1,000)
    --seed S      when it dies (1)
    --bin PATH    kill this binary instead of building one
  soak edge       many clients that come, go, break off, dawdle and flood
    --only WORD   only the steps whose name contains WORD (churn, resets, slow, pings,
                  neighbours, storm, stalled)
    --bin PATH    strain this binary instead of building one";

/// What a command could not do, as one sentence for the person who started it.
type Failure = String;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rest = arguments.get(1..).unwrap_or_default();
    let outcome = match arguments.first().map(String::as_str) {
        Some("test") => match test::test(rest) {
            // The runner's summary is the last word, of a failure too.
            Ok(false) => return ExitCode::FAILURE,
            outcome => outcome.map(drop),
        },
        Some("tidy") => steps::tidy(),
        Some("lint") => steps::lint(),
        Some("ci") => steps::ci(),
        Some("deny") => steps::deny(),
        Some("package") => package::main(rest),
        Some("bench") => measuring::bench(rest),
        Some("soak") => measuring::soak(rest),
        Some("help" | "--help" | "-h") => {
            println!("{USAGE}");
            Ok(())
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}
