//! `fastness open`: the page of the running server in a browser, logged in.
//!
//! The address holds a ticket that works once, within a minute. It must not stand on a command
//! line, where every user of the machine can read it; so the browser is given a private file that
//! leads there.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use anyhow::Context as _;
use auth::{NamedTokens, Secret};
use domain::clock::Timestamp;

use tools::helpers::{self, Trust};

use crate::args::OpenArgs;
use crate::render::{self, Exit, Failure};
use crate::serve::announcement::{private_file, running};
use crate::settings::Settings;

/// The programs that open a file as its user likes it, best first.
const OPENERS: [&str; 3] = ["xdg-open", "open", "wslview"];

/// Opens the page, or prints its address.
///
/// # Errors
/// If no server runs, or the ticket cannot be made.
pub(crate) fn run(args: &OpenArgs, settings: &Settings) -> anyhow::Result<ExitCode> {
    let url = running(&settings.data_dir).ok_or_else(|| {
        Failure::new("no server runs on this data directory")
            .hint("start one with `fastness serve`")
    })?;
    let tokens = NamedTokens::of(&settings.data_dir);
    let ticket = tokens
        .issue_ticket(Timestamp::now())
        .context("the ticket was not made")?;
    let address = address(&url, &ticket);
    if args.print {
        writeln!(render::stdout(), "{address}")?;
        return Ok(Exit::Success.into());
    }
    let page = write_page(&settings.data_dir, &address)
        .context("the page that leads there cannot be written")?;
    if browse(&page) {
        writeln!(render::stdout(), "opened {url} in your browser")?;
    } else {
        writeln!(
            render::stdout(),
            "no browser could be started; open this address within a minute:\n{address}"
        )?;
    }
    Ok(Exit::Success.into())
}

/// The page's address with a ticket: what follows `#` reaches no server and no log.
pub(crate) fn address(url: &str, ticket: &Secret) -> String {
    format!("{url}/#ticket={}", ticket.reveal())
}

/// A file that sends the browser on. The ticket in it is dead a minute later.
fn write_page(data_dir: &Path, address: &str) -> std::io::Result<PathBuf> {
    let path = data_dir.join("open.html");
    // The address is ours: a URL of digits, letters and `-_.:/#=[]`, which HTML takes as it is.
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>Fastness</title>\n\
         <meta http-equiv=\"refresh\" content=\"0; url={address}\">\n\
         <a href=\"{address}\">Fastness</a>\n"
    );
    let temporary = data_dir.join(".open.html");
    let mut file = private_file(&temporary)?;
    file.set_len(0)?;
    file.write_all(page.as_bytes())?;
    std::fs::rename(&temporary, &path)?;
    Ok(path)
}

/// Starts a browser on `page`, a file or an address; whether one was there to start.
#[expect(
    clippy::disallowed_methods,
    reason = "the person at this machine asked for a browser; no model and no client can"
)]
pub(crate) fn browse(page: &Path) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    OPENERS.iter().any(|opener| {
        // A session may have put a program of that name into the search path.
        let Ok(opener) = helpers::find(opener, &path, Trust::System) else {
            return false;
        };
        let mut command = std::process::Command::new(opener);
        command
            .arg(page)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // It may stay as long as the browser does; nobody waits for it.
        command.spawn().is_ok()
    })
}
