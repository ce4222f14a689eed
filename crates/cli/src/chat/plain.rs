//! Talking where nobody looks at a screen: each line of stdin is a prompt, and the answers are plain
//! text on stdout. Nobody can be asked, so what would ask is denied.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};

use client::{Client, PromptEvent, Update};
use domain::SessionId;
use tokio::sync::mpsc;

use super::jobs::{self, Done, Wanted};
use crate::render::{Exit, one_line};
use crate::safe_text::TextFilter;
use crate::settings::Settings;

/// Answers each line of stdin until it ends.
///
/// # Errors
/// If the session cannot be entered, or the connection or the output is gone.
pub(super) async fn run(
    client: &Client,
    settings: &Settings,
    wanted: Wanted,
) -> anyhow::Result<Exit> {
    let session = enter(client, settings, wanted).await?;
    let mut lines = lines(settings.limits.message_bytes_max as u64);
    let mut exit = Exit::Success;
    while let Some(line) = lines.recv().await {
        let text = line.trim();
        match text {
            "" => {}
            "/quit" | "/exit" => break,
            text => {
                if !answer(client, session, text).await? {
                    exit = Exit::Failure;
                }
            }
        }
    }
    writeln!(io::stderr(), "session {session}").ok();
    Ok(exit)
}

async fn enter(client: &Client, settings: &Settings, wanted: Wanted) -> anyhow::Result<SessionId> {
    if wanted == Wanted::New {
        return Ok(client.new_session(&settings.cwd).await?.session);
    }
    match jobs::enter(client, settings, wanted).await {
        Done::Found(found) => {
            let (session, cwd) = found?;
            client.resume_session(session, &cwd, None).await?;
            Ok(session)
        }
        Done::Began(_)
        | Done::Loaded(_)
        | Done::Listed(_)
        | Done::Set(_)
        | Done::Undone(_)
        | Done::Files(_) => anyhow::bail!("the session was not found"),
    }
}

/// Prints the answer to one prompt; whether it is a whole one.
async fn answer(client: &Client, session: SessionId, text: &str) -> anyhow::Result<bool> {
    let is_terminal = io::stdout().is_terminal();
    let mut turn = client.prompt(session, text).await?;
    let mut last = None;
    let mut filter = TextFilter::default();
    let mut is_good = true;
    while let Some(event) = turn.next().await {
        match event {
            Ok(PromptEvent::Update(Update::Text {
                text,
                greeting: false,
                ..
            })) => {
                last = text.chars().next_back().or(last);
                let text = match is_terminal {
                    true => filter.push(&text),
                    false => text,
                };
                let mut out = io::stdout().lock();
                out.write_all(text.as_bytes())?;
                out.flush()?;
            }
            Ok(PromptEvent::Update(_)) => {}
            Ok(PromptEvent::Ask(ask)) => {
                let what = ask.call.title.as_deref().unwrap_or("a tool");
                note(&format!("denied, as nobody can be asked: {what}"));
                ask.cancel();
            }
            Ok(PromptEvent::Ended(end)) => {
                is_good = end.stop_reason != "cancelled" && end.stop_reason != "refusal";
            }
            Err(error) => {
                is_good = false;
                note(&format!("error: {error}"));
            }
        }
    }
    if last.is_some_and(|last| last != '\n') {
        io::stdout().write_all(b"\n")?;
    }
    Ok(is_good)
}

fn note(text: &str) {
    // If stderr is closed there is nobody to tell.
    let _ = writeln!(io::stderr(), "{}", one_line(text));
}

/// The lines of stdin. The thread ends with it, or with the program.
fn lines(bytes_max: u64) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        loop {
            let mut line = String::new();
            let read = io::stdin().lock().take(bytes_max).read_line(&mut line);
            let is_over = !matches!(read, Ok(1..));
            if is_over || sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}
