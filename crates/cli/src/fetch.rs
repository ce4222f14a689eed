//! `fastness fetch`: the guard from the shell.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use netguard::page::{Kind, Page};
use netguard::{End, FetchError, FixedResolver, Guard, Network, Refusal, SystemResolver};
use serde_json::json;

use crate::args::FetchArgs;
use crate::render::{self, Exit, Failure, exact_line, one_line, printable};
use crate::settings::Settings;
use crate::web;

/// Fetches or only judges the address, and prints what came of it.
///
/// # Errors
/// A refusal, which ends the program with its own exit code, or whatever went wrong on the way.
pub(crate) async fn run(args: &FetchArgs, settings: &Settings) -> anyhow::Result<ExitCode> {
    let guard = guard(args, settings)?;
    let url = args.url.to_string_lossy();
    if args.check {
        return check(&guard, &url).await;
    }
    let response = guard.get(&url).await.map_err(failure)?;
    // A large page takes a moment to read.
    let page = tokio::task::spawn_blocking(move || Page::read(&response));
    let page = page.await.context("the page could not be read")?;
    print(args, &page)?;
    if page.status.is_client_error() || page.status.is_server_error() {
        let sentence = format!("the server answered {}", page.status);
        return Err(Failure::new(sentence).into());
    }
    Ok(Exit::Success.into())
}

/// The guard that models get, opened a little further by the person at the shell.
fn guard(args: &FetchArgs, settings: &Settings) -> anyhow::Result<Guard> {
    let mut policy = settings.network.policy.clone();
    policy.exceptions.extend(args.allow.iter().cloned());
    let mut resolver = FixedResolver::before(Arc::new(SystemResolver::default()));
    for (host, addresses) in &args.resolve {
        resolver = resolver.answer(host, addresses.clone());
    }
    let guard = web::guard(policy, resolver, settings)?;
    guard.build().context("TLS could not be set up")
}

/// The verdict is what was asked for, so it goes to stdout either way.
async fn check(guard: &Guard, url: &str) -> anyhow::Result<ExitCode> {
    match guard.check(url).await {
        Ok(_) => {
            writeln!(render::stdout(), "allowed")?;
            Ok(Exit::Success.into())
        }
        Err(refusal) => {
            writeln!(render::stdout(), "{}", exact_line(&refusal.to_string()))?;
            Ok(Exit::Refused.into())
        }
    }
}

fn print(args: &FetchArgs, page: &Page) -> anyhow::Result<()> {
    let window = page.window(args.offset, args.limit.unwrap_or(usize::MAX));
    if args.json {
        let object = json!({
            "url": page.url.as_str(),
            "status": page.status.as_u16(),
            "title": page.title,
            "contentType": page.content_type,
            "charset": page.charset,
            "text": window.text,
            "nextOffset": window.next_offset,
            "truncated": page.end == End::CutAtLimit,
        });
        writeln!(render::stdout(), "{object}")?;
        return Ok(());
    }
    let text = window.text;
    if stdout().is_terminal() {
        // What a page contains must not steer the terminal.
        writeln!(render::stdout(), "{}", printable(text))?;
    } else {
        writeln!(render::stdout(), "{text}")?;
    }
    for note in notes(page, window.next_offset) {
        writeln!(stderr(), "note: {}", one_line(&note))?;
    }
    Ok(())
}

/// What a reader should know beside the text.
fn notes(page: &Page, next_offset: Option<usize>) -> Vec<String> {
    let mut notes = Vec::new();
    if page.kind == Kind::Html && page.text.is_empty() {
        notes.push("the page has no text of its own; it may need JavaScript".to_owned());
    }
    if page.end == End::CutAtLimit {
        notes.push("the page is larger than the limit, and its end is missing".to_owned());
    }
    if page.is_lossy {
        let charset = page.charset.unwrap_or("text");
        notes.push(format!("some bytes are not {charset} and were replaced"));
    }
    if let Some(offset) = next_offset {
        notes.push(format!("there is more: --offset {offset}"));
    }
    notes
}

fn failure(error: FetchError) -> anyhow::Error {
    let Some(refusal) = error.refusal() else {
        return error.into();
    };
    let refused = Failure::refused(error.to_string());
    match refusal {
        Refusal::Address(network) | Refusal::Answer(network) => match network {
            Network::Loopback | Network::Private | Network::Shared | Network::OwnAddress => {
                refused.hint("to reach it on purpose, add `--allow HOST:PORT`")
            }
            Network::Metadata
            | Network::Unspecified
            | Network::LinkLocal
            | Network::OwnServer
            | Network::Protocol
            | Network::Documentation
            | Network::Benchmarking
            | Network::Multicast
            | Network::Reserved
            | Network::Tunnel
            | Network::Translated => refused,
        },
        Refusal::Port(_) => refused.hint("to reach it on purpose, add `--allow HOST:PORT`"),
        Refusal::Url(_) | Refusal::Name(_) | Refusal::Resolution(_) | Refusal::Redirect(_) => {
            refused
        }
    }
    .into()
}
