//! `fastness sessions`: looking at what is stored, and managing it, beside a running server.
//!
//! Everything but `fork` and `delete` reads without a lock. [`transcript`] says what an event means
//! to a reader; `show`, `tail` and `export` put it into words, each in its own form.

mod export;
pub(crate) mod find;
mod list;
mod manage;
mod progress;
mod remote;
mod search;
mod show;
mod tail;
mod terminal;
mod transcript;
mod verify;
mod walk;

use std::process::ExitCode;

use journal::FileStore;

use crate::args::{SessionsAction, SessionsArgs};
use crate::engine;
use crate::render::Exit;
use crate::settings::Settings;

/// Does what was asked.
///
/// # Errors
/// If there is no such session, or the store or the output fails.
pub(crate) async fn run(args: &SessionsArgs, settings: &Settings) -> anyhow::Result<ExitCode> {
    act(&args.action, settings).await.map(ExitCode::from)
}

async fn act(action: &SessionsAction, settings: &Settings) -> anyhow::Result<Exit> {
    // Looking must not make a data directory where there is none.
    let store = match settings.data_dir.join("sessions").exists() {
        true => Some(engine::open_store(settings)?),
        false => None,
    };
    let store = store.as_ref();
    match action {
        SessionsAction::List { json, agents } => {
            let rows = match agents {
                true => list::with_agents(store, settings)?,
                false => list::without_agents(store, settings)?,
            };
            match json {
                true => list::json(&rows),
                false => list::table(&rows, settings),
            }
        }
        SessionsAction::Show { id } => {
            let (store, id) = find::session(store, id)?;
            show::run(store, id, settings)
        }
        SessionsAction::Tail {
            id,
            lines,
            follow,
            server,
        } if server.server.is_some() => {
            let until = match follow {
                true => remote::Until::Interrupted,
                false => remote::Until::Now,
            };
            remote::tail(id, *lines, until, settings).await
        }
        SessionsAction::Tail {
            id, follow, lines, ..
        } => {
            let (store, id) = find::session(store, id)?;
            match follow {
                true => tail::follow(store, id, *lines, settings).await,
                false => tail::newest(store, id, *lines, settings),
            }
        }
        SessionsAction::Export { id, format } => {
            let (store, id) = find::session(store, id)?;
            export::run(store, id, *format)
        }
        SessionsAction::Fork { id, at } => {
            let (store, id) = find::session(store, id)?;
            manage::fork(store, id, *at)
        }
        SessionsAction::Delete { id, yes } => {
            let (store, id) = find::session(store, id)?;
            match yes {
                true => manage::delete(store, id),
                false => manage::delete_if_meant(store, id),
            }
        }
        SessionsAction::Search { words } => search::run(store, words, settings),
        SessionsAction::Verify => verify::run(store, settings),
    }
}

/// Every session that is stored; none if there is no store yet.
fn all(store: Option<&FileStore>) -> anyhow::Result<Vec<(&FileStore, domain::SessionId)>> {
    let Some(store) = store else {
        return Ok(Vec::new());
    };
    Ok(store.list()?.into_iter().map(|id| (store, id)).collect())
}
