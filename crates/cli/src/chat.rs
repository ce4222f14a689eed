//! `fastness chat`: a conversation in the terminal, which scrolls as all else in it does.
//!
//! [`run`] reaches the agent; [`mod@talk`] is the conversation, [`face`] what it looks like, [`canvas`]
//! how that is written. Where nobody looks, [`plain`] talks line by line.

mod asking;
mod calls;
mod canvas;
mod code;
mod commands;
mod complete;
mod diff;
mod editor;
mod face;
mod help;
mod history;
mod jobs;
mod keys;
mod markdown;
mod plain;
mod status;
mod talk;
mod terminal;
mod text;
mod transcript;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::time::Duration;

use auth::{Door, Gate};
use client::{Client, ClientError, LinkState, Pipe, Transport};
use tokio::sync::watch;

use self::canvas::Canvas;
use self::editor::Editor;
use self::face::Face;
use self::history::History;
use self::jobs::Wanted;
use self::talk::Talk;
use self::terminal::Terminal;
use self::text::Paint;
use crate::args::ChatArgs;
use crate::reach::{self, Missing};
use crate::render::{Exit, Palette};
use crate::serve::announcement;
use crate::settings::Settings;
use crate::{client_settings, engine};

/// Talks until the person leaves or the input ends.
///
/// # Errors
/// If the agent cannot be reached, is lost for good, or the session cannot be entered.
pub(crate) async fn run(args: &ChatArgs, settings: &Settings) -> anyhow::Result<ExitCode> {
    let wanted = match (&args.resume, args.is_continued) {
        (Some(name), _) => Wanted::Named(name.clone()),
        (None, true) => Wanted::Newest,
        (None, false) => Wanted::New,
    };
    let is_running = || announcement::running(&settings.data_dir).is_some();
    let missing = match &settings.server.server {
        _ if args.spawn => Some(Missing::IsStarted),
        Some(_) => Some(Missing::IsAnError),
        None if settings.model_flag.is_none() && is_running() => Some(Missing::IsAnError),
        None => None,
    };
    let exit = match missing {
        Some(missing) => through_server(settings, missing, wanted).await?,
        None => here(settings, wanted).await?,
    };
    Ok(exit.into())
}

async fn through_server(
    settings: &Settings,
    missing: Missing,
    wanted: Wanted,
) -> anyhow::Result<Exit> {
    let dialer = reach::dialer(settings, missing);
    let lasting = Transport::lasting(dialer, &settings.limits).await;
    let (transport, link) = lasting.map_err(ClientError::Connect)?;
    let client = Client::connect(transport, client_settings(settings)).await?;
    talk(&client, settings, Some(link), wanted).await
}

/// With an agent that lives in this process as long as the conversation.
async fn here(settings: &Settings, wanted: Wanted) -> anyhow::Result<Exit> {
    let gate = Gate::this_process_only();
    let running = engine::start(settings, gate, Door::default(), &[]).await?;
    let (outgoing, incoming) = server::transport::pipe::connect(&running.service)?;
    let transport = Transport::in_process(Pipe { outgoing, incoming });
    let client = Client::connect(transport, client_settings(settings)).await?;
    let outcome = talk(&client, settings, None, wanted).await;
    running.service.shut_down_within(Duration::ZERO).await;
    outcome
}

async fn talk(
    client: &Client,
    settings: &Settings,
    link: Option<watch::Receiver<LinkState>>,
    wanted: Wanted,
) -> anyhow::Result<Exit> {
    let is_dumb = settings.environment.value("TERM") == Some("dumb");
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let outcome = if is_terminal && !is_dumb {
        let paint = match Palette::stdout(&settings.environment).is_coloured() {
            true => Paint::Coloured,
            false => Paint::Bare,
        };
        let canvas = Canvas::new(Terminal::size(), paint);
        let editor = Editor::new(History::load(&settings.data_dir));
        let talk = Talk::begin(client, settings, link, Face::new(canvas, editor))?;
        talk.run(wanted).await
    } else {
        plain::run(client, settings, wanted).await
    };
    client.close().await;
    outcome
}
