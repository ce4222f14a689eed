//! `fastness serve`: the multi-client server.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Write, stderr, stdin, stdout};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use auth::{Door, Gate};
use rustix::fs::FlockOperation;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::args::ServeArgs;
use crate::engine::{self, Running};
use crate::render::Exit;
use crate::settings::Settings;
use crate::signals;

/// Serves until asked to stop, then lets turns end, flushes, and leaves.
///
/// # Errors
/// If it cannot listen or the engine cannot start.
pub(crate) async fn run(args: &ServeArgs, settings: &Settings) -> anyhow::Result<ExitCode> {
    let mut asked_to_stop = signals::Stop::listen()?;
    // The data directory comes first: the token lives in it.
    engine::open_store(settings)?;
    let token_file = settings.data_dir.join("token");
    let token = auth::token::load_or_create(&token_file)
        .with_context(|| format!("{}", token_file.display()))?;
    let listener = TcpListener::bind(settings.listen)
        .await
        .with_context(|| format!("{} cannot be listened on", settings.listen))?;
    let address = listener.local_addr()?;
    let url = format!("http://{address}");
    let named = auth::NamedTokens::of(&settings.data_dir);
    let door = Door::new(address.port(), &args.allow_host, &args.allow_origin);
    let Running { service, model } =
        engine::start(settings, Gate::with_tokens(token, named), door).await?;
    let stop = CancellationToken::new();
    let accepting = tokio::spawn(server::http::serve(
        Arc::clone(&service),
        listener,
        stop.clone(),
    ));
    let watched = Arc::clone(&service);
    tokio::spawn(async move { watched.watch_tokens().await });
    let announcement = Announcement::publish(&settings.data_dir, &url);
    tracing::info!(url, model, "ready");
    say_ready(
        args,
        &json!({"ready": true, "url": url, "tokenFile": token_file}),
    )?;
    if args.stdio {
        let service = Arc::clone(&service);
        tokio::spawn(async move {
            let input = BufReader::new(stdin());
            // The process itself is always admitted; the end of its input only detaches it.
            let _ = server::transport::stdio::serve(&service, input, stdout()).await;
        });
    }
    asked_to_stop.asked().await;
    tracing::info!(
        "stopping: running turns have {} s to end",
        settings.limits.drain.as_secs()
    );
    stop.cancel();
    accepting.await.context("accepting connections failed")?;
    service.shut_down().await;
    drop(announcement);
    Ok(Exit::Success.into())
}

/// Prints the one ready line: to stdout, or to stderr when stdout carries the protocol.
fn say_ready(args: &ServeArgs, ready: &Value) -> io::Result<()> {
    if args.stdio {
        writeln!(stderr(), "{ready}")
    } else {
        let mut out = stdout().lock();
        writeln!(out, "{ready}")?;
        out.flush()
    }
}

/// `server.json`, which tells other commands where this server is. Removed when dropped.
struct Announcement {
    path: std::path::PathBuf,
    /// Held while the file is ours; a second server on the same data directory stays unannounced.
    _lock: File,
}

impl Announcement {
    fn publish(data_dir: &Path, url: &str) -> Option<Self> {
        let announced = Self::try_publish(data_dir, url);
        if let Err(error) = &announced {
            tracing::warn!(%error, "not announced: other commands will not find this server by themselves");
        }
        announced.ok()
    }

    fn try_publish(data_dir: &Path, url: &str) -> io::Result<Self> {
        let lock = private_file(&data_dir.join("server.lock"))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let path = data_dir.join("server.json");
        let temporary = data_dir.join(".server.json");
        let content = json!({"pid": std::process::id(), "url": url, "unix": null});
        let mut file = private_file(&temporary)?;
        file.set_len(0)?;
        file.write_all(content.to_string().as_bytes())?;
        std::fs::rename(&temporary, &path)?;
        Ok(Self { path, _lock: lock })
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        // A file that stays behind is recognised by its dead process.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
}
