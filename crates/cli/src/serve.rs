//! `fastness serve`: the multi-client server.

pub(crate) mod announcement;
mod descriptors;
mod idle;

use std::io::{self, IsTerminal as _, Write, stderr};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use auth::{Door, Gate, NamedTokens};
use domain::clock::Timestamp;
use serde_json::{Value, json};
use server::http::{Listening, Tls, UnixDoor};
use server::transport::stdio::{LineReader, LineWriter};
use tokio_util::sync::CancellationToken;

use crate::args::ServeArgs;
use crate::engine::{self, Running};
use crate::open;
use crate::render::{self, Exit, Failure, advise};
use crate::serve::announcement::{Announcement, Claim, Taken};
use crate::settings::Settings;
use crate::{signals, trim};

/// Serves until asked to stop, then lets turns end, flushes, and leaves.
///
/// # Errors
/// If it cannot listen or the engine cannot start.
pub(crate) async fn run(args: &ServeArgs, settings: &Settings) -> anyhow::Result<ExitCode> {
    let mut asked_to_stop = signals::Stop::listen()?;
    // The data directory comes first: the token lives in it.
    engine::open_store(settings)?;
    let claim = Claim::take(&settings.data_dir).await;
    let claim = claim.map_err(|taken| already_served(settings, &taken))?;
    let token_file = settings.data_dir.join("token");
    let token = auth::token::load_or_create(&token_file)
        .with_context(|| format!("{}", token_file.display()))?;
    let listening = listen(settings).await?;
    let address = listening.tcp.local_addr()?;
    let url = url(address, listening.tls.is_some());
    let unix = listening.unix.as_ref().map(|unix| unix.path().to_owned());
    let named = NamedTokens::of(&settings.data_dir);
    let gate = Gate::with_tokens(token, named.clone());
    let Running { service, model } =
        engine::start(settings, gate, door(args, settings, address), &[address]).await?;
    let stop = CancellationToken::new();
    let accepting = tokio::spawn(server::http::serve(
        Arc::clone(&service),
        listening,
        stop.clone(),
    ));
    let watched = Arc::clone(&service);
    tokio::spawn(async move { watched.watch_tokens().await });
    let announcement = Announcement::publish(claim, &settings.data_dir, &url, unix.as_deref());
    tracing::info!(url, model, "ready");
    say_ready(
        args,
        &json!({"ready": true, "url": url, "tokenFile": token_file}),
    )?;
    let listed = Arc::clone(&service);
    tokio::spawn(async move {
        // So that the first list is as quick as all others, also where there are very many sessions.
        listed.sessions.check_list().await;
        trim::once_started().await;
    });
    if stderr().is_terminal() {
        show_the_way_in(&named, &url);
    }
    if args.stdio {
        let service = Arc::clone(&service);
        let input = LineReader::stdin(settings.limits.line_bytes_max)?;
        let output = LineWriter::stdout()?;
        tokio::spawn(async move {
            // The process itself is always admitted; the end of its input only detaches it.
            let _ = server::transport::stdio::serve(&service, input, output).await;
        });
    }
    let idle_max = args.end_when_idle.then_some(settings.limits.spawned_idle);
    tokio::select! {
        () = asked_to_stop.asked() => {}
        () = idle::for_long(idle_max) => tracing::info!("nobody has used this server for long"),
    }
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

/// Why this server does not start: sessions have one writer, and clients expect one server.
fn already_served(settings: &Settings, taken: &Taken) -> Failure {
    let data_dir = settings.data_dir.display();
    let pid = taken.pid.map(|pid| format!("process {pid}"));
    let pid = pid.unwrap_or_else(|| "another process".to_owned());
    let place = match &taken.url {
        Some(url) => format!("listens at {url}"),
        None => "is still starting".to_owned(),
    };
    let sentence = format!("{data_dir} is served already: {pid} {place}");
    let stop = taken.pid.map_or_else(
        || "stop it first".to_owned(),
        |pid| format!("stop it with `kill {pid}`"),
    );
    Failure::new(sentence).hint(format!(
        "use that one (`fastness chat --server local`, `fastness open`), {stop}, \
         or serve another directory with --data-dir"
    ))
}

/// Prints the one ready line: to stdout, or to stderr when stdout carries the protocol.
fn say_ready(args: &ServeArgs, ready: &Value) -> io::Result<()> {
    if args.stdio {
        writeln!(stderr(), "{ready}")
    } else {
        let mut out = render::stdout();
        writeln!(out, "{ready}")?;
        out.flush()
    }
}

/// Takes the sockets, before anything else is started.
async fn listen(settings: &Settings) -> anyhow::Result<Listening> {
    let tls = settings.tls.as_ref().map(|files| {
        Tls::load(&files.certificate, &files.key).context("TLS cannot be spoken with these files")
    });
    let tcp = server::http::bind(settings.listen)
        .with_context(|| format!("{} cannot be listened on", settings.listen))?;
    let unix = match &settings.unix {
        Some(path) => Some(UnixDoor::bind(path).await?),
        None => None,
    };
    Ok(Listening {
        tcp,
        tls: tls.transpose()?,
        unix,
        sockets_max: descriptors::for_sockets(),
    })
}

fn door(args: &ServeArgs, settings: &Settings, address: SocketAddr) -> Door {
    let door = Door::new(address.port(), &args.allow_host, &args.allow_origin);
    if settings.tls.is_some() {
        door.over_tls()
    } else {
        door
    }
}

/// Where this machine reaches the server: an address that means all of them leads nowhere.
fn url(address: SocketAddr, is_tls: bool) -> String {
    let ip = match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        SocketAddr::V4(_) | SocketAddr::V6(_) => address.ip(),
    };
    let scheme = if is_tls { "https" } else { "http" };
    format!("{scheme}://{}", SocketAddr::new(ip, address.port()))
}

/// Tells the person at the terminal how to log in; a log would keep it for others.
fn show_the_way_in(named: &NamedTokens, url: &str) {
    let told = named
        .issue_ticket(Timestamp::now())
        .context("no ticket")
        .and_then(|ticket| {
            let address = open::address(url, &ticket);
            let text = format!("Open {address} within a minute, or run `fastness open` later.");
            Ok(writeln!(stderr(), "{}", advise(&text))?)
        });
    if let Err(error) = told {
        tracing::warn!(%error, "the page's address cannot be shown");
    }
}
