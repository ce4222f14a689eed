//! What takes an answer of the server: done beside the conversation, one at a time.

use std::path::PathBuf;
use std::pin::Pin;

use client::{Attached, Client, ClientError, SessionSummary, Watch};
use domain::{EventSeq, SessionId};
use serde_json::Value;

use super::complete;
use crate::render::Failure;
use crate::settings::Settings;

/// Pages of the session list that are looked through for one session.
const PAGES_MAX: usize = 100;

/// Something under way.
pub(super) type Job<'a> = Pin<Box<dyn Future<Output = Done> + Send + 'a>>;

/// What came of it.
pub(super) enum Done {
    /// The session that was meant, and its directory.
    Found(anyhow::Result<(SessionId, PathBuf)>),
    Began(Result<(Attached, Watch), ClientError>),
    Loaded(Result<Attached, ClientError>),
    Listed(Result<Vec<SessionSummary>, ClientError>),
    /// All options, and what to say of it.
    Set(Result<(Value, String), ClientError>),
    Undone(Result<(), ClientError>),
    Files(Vec<String>),
}

/// The session to be in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    New,
    /// The one of this directory in which something happened last.
    Newest,
    /// By its id, or the first characters of it.
    Named(String),
}

/// Begins a session, or finds the one that is meant.
pub(super) fn enter<'a>(client: &'a Client, settings: &'a Settings, wanted: Wanted) -> Job<'a> {
    match wanted {
        Wanted::New => {
            Box::pin(async { Done::Began(client.new_session_watched(&settings.cwd).await) })
        }
        Wanted::Newest => Box::pin(async {
            let page = client.list_sessions(Some(&settings.cwd), None).await;
            let newest = page.map(|page| page.sessions.into_iter().next());
            Done::Found(match newest {
                Ok(Some(found)) => Ok((found.session, found.cwd.into())),
                Ok(None) => Err(Failure::new("there is no session in this directory yet").into()),
                Err(error) => Err(error.into()),
            })
        }),
        Wanted::Named(name) => Box::pin(async { Done::Found(find(client, name).await) }),
    }
}

/// Has all of a session told to its watch.
pub(super) fn load(client: &Client, session: SessionId, cwd: PathBuf) -> Job<'_> {
    Box::pin(async move { Done::Loaded(client.load_session(session, &cwd).await) })
}

/// The sessions of this directory, the newest first.
pub(super) fn list<'a>(client: &'a Client, settings: &'a Settings) -> Job<'a> {
    Box::pin(async {
        let page = client.list_sessions(Some(&settings.cwd), None).await;
        Done::Listed(page.map(|page| page.sessions))
    })
}

/// Chooses a model or a mode.
pub(super) fn set<'a>(
    client: &'a Client,
    session: SessionId,
    option: &'static str,
    choice: String,
) -> Job<'a> {
    Box::pin(async move {
        let set = client.set_option(session, option, &choice).await;
        Done::Set(set.map(|options| (options, format!("{option} is {choice}"))))
    })
}

/// Undoes what came after `to`.
pub(super) fn undo(client: &Client, session: SessionId, to: EventSeq) -> Job<'_> {
    Box::pin(async move { Done::Undone(client.rewind(session, to).await) })
}

/// Looks for the files of a project.
pub(super) fn files<'a>(directory: PathBuf) -> Job<'a> {
    Box::pin(async move {
        let found = tokio::task::spawn_blocking(move || complete::files(&directory)).await;
        Done::Files(found.unwrap_or_default())
    })
}

async fn find(client: &Client, name: String) -> anyhow::Result<(SessionId, PathBuf)> {
    let mut found: Vec<SessionSummary> = Vec::new();
    let mut page = None;
    for _ in 0..PAGES_MAX {
        let listed = client.list_sessions(None, page.as_deref()).await?;
        let fitting = listed.sessions.into_iter();
        found.extend(fitting.filter(|one| one.session.to_string().starts_with(&name)));
        page = listed.next;
        if page.is_none() || found.len() > 1 {
            break;
        }
    }
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (Some(one), None) => Ok((one.session, one.cwd.into())),
        (Some(_), Some(_)) => {
            let sentence = format!("more than one session begins with `{name}`");
            Err(Failure::new(sentence).hint("write more of its id").into())
        }
        (None, _) => Err(
            Failure::new(format!("there is no session `{name}` for you"))
                .hint("`fastness sessions list` shows all")
                .into(),
        ),
    }
}
