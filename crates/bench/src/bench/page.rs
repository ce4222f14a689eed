//! `cargo xtask bench page`: how soon a long session is on the screen of a browser, and whether scrolling through all
//! of it stutters; beside a session of one turn.
//!
//! The browser does the measuring (`crates/cli/tests/peers/page/bench.mjs`): its clock begins with the navigation, and
//! tasks that block the page for more than 50 ms are told by the browser itself.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use testkit::{Peer, peers};

use super::program::{Server, serve, write_script};
use super::table::{Row, Samples, Table, time};
use super::{Group, Plan, because};
use crate::Failure;

/// What is measured, by the name that `--only` looks at.
pub(super) const GROUPS: &[(&str, Group)] = &[("page", measure)];

/// Messages of the long session: one prompt and one answer are two.
const MESSAGES: u64 = 5_000;

/// How often each session is opened.
const ROUNDS: u64 = 10;

/// An answer with some Markdown in it; the prompt names which it is.
const ANSWER: &str = "Here is what I found about `${prompt}`\n\n1. the **first** thing\n2. the second, in [a link](https://example.com)\n\n\
    ```rust\nfn answer() -> u32 {\n    42\n}\n```\n\nThat is all for ${prompt}";

/// What the browser found; times in milliseconds.
#[derive(Deserialize)]
struct Found {
    small: Vec<f64>,
    large: Vec<f64>,
    /// The longest task that blocked the page while it opened the long session.
    loading: Vec<f64>,
    scrolled: Vec<Scrolled>,
}

/// A way from the end to the beginning and back.
#[derive(Deserialize)]
struct Scrolled {
    frames: u64,
    slowest: f64,
    longest: f64,
    tasks: u64,
}

fn measure(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let folder = plan.scratch()?;
    let script = write_script(folder.path(), &json!([{"text": ANSWER}]))?;
    let mut command = serve(plan, &folder.path().join("data"), &script);
    command
        .env("FASTNESS_GREETING", "false")
        .current_dir(folder.path());
    let server = Server::started(command)?;
    let found = browse(&server)?;
    let [small, large, loading] =
        [&found.small, &found.large, &found.loading].map(|times| samples(times));
    table.push(Row {
        what: "5,000 messages, address to last answer drawn",
        measured: large.to_string(),
        beside: format!("one turn {small}"),
        ratio: large.ratio(&small),
        aim: "< 1 s",
    });
    table.push(Row {
        what: "longest task while it opens",
        measured: format!("{} (p99)", time(loading.p99())),
        beside: "none is told below 50 ms".to_owned(),
        ratio: None,
        aim: "–",
    });
    for scrolled in &found.scrolled {
        table.push(Row {
            what: "longest task while all of it is scrolled",
            measured: time(milliseconds(scrolled.longest)),
            beside: format!(
                "{} tasks over 50 ms in {} frames; slowest frame {}",
                scrolled.tasks,
                scrolled.frames,
                time(milliseconds(scrolled.slowest))
            ),
            ratio: None,
            aim: "≤ 100 ms",
        });
    }
    Ok(())
}

/// Has a browser fill two sessions, open them and scroll; gives what it found.
fn browse(server: &Server) -> Result<Found, Failure> {
    let plan = json!({
        "story": "bench", "url": format!("http://{}", server.address), "token": server.token,
        "messages": MESSAGES, "rounds": ROUNDS, "timeoutMs": 120_000,
    });
    let _ = peers::ensure(Peer::Page);
    let mut browser = Command::new(peers::script())
        .args(["run", Peer::Page.name(), &plan.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(because("the browser's driver does not start"))?;
    let told = browser.stdout.take().ok_or("the driver has no stdout")?;
    let mut line = String::new();
    BufReader::new(told)
        .read_line(&mut line)
        .map_err(because("the driver says nothing"))?;
    if let Some(mut answer) = browser.stdin.take() {
        // It waits for an answer to whatever it says; if it has ended, its words tell why.
        let _ = answer.write_all(b"{}\n");
    }
    let status = browser.wait().map_err(because("the driver is lost"))?;
    if !status.success() {
        return Err("the browser did not get through".to_owned());
    }
    serde_json::from_str(&line).map_err(because("the driver says something else"))
}

fn samples(times: &[f64]) -> Samples {
    Samples::new(times.iter().copied().map(milliseconds).collect())
}

fn milliseconds(count: f64) -> Duration {
    Duration::from_secs_f64(count.max(0.0) / 1_000.0)
}
