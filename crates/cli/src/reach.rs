//! Reaching a server: the one that was named, or the one of this data directory, started if need be.

mod spawn;

use client::{Dialer, Transport, TransportError};

use crate::serve::announcement::{running, running_socket};
use crate::settings::Settings;

/// The server of the data directory, whatever its address is today.
const LOCAL: &str = "local";

/// What to do if no server runs on the data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Say so.
    IsAnError,
    /// Start one.
    IsStarted,
}

/// Calls the server that `--server` names, else the one of the data directory. Address and token are
/// looked up for each call: a server that comes back may have others.
pub(crate) fn dialer(settings: &Settings, missing: Missing) -> Dialer {
    let settings = settings.clone();
    Dialer::new(move || {
        let settings = settings.clone();
        async move {
            let url = match settings.server.server.as_deref() {
                Some(url) if url != LOCAL => url.to_owned(),
                Some(_) | None => local(&settings, missing).await?,
            };
            let token = settings.token().map_err(|error| {
                let cause = format!("there is no usable token for it: {error:#}");
                let url = url.clone();
                TransportError::Unreachable { url, cause }
            })?;
            let token = token.as_ref().map(auth::Secret::reveal);
            let trust = settings.trust().map_err(|error| {
                let cause = error.to_string();
                let url = url.clone();
                TransportError::Untrusted { url, cause }
            })?;
            Transport::open_with(&url, token, &trust, &settings.limits).await
        }
    })
}

/// The address of the data directory's own server.
async fn local(settings: &Settings, missing: Missing) -> Result<String, TransportError> {
    if let Some(address) = address(settings) {
        return Ok(address);
    }
    let nobody = |cause: String| TransportError::Unreachable {
        url: format!("the server of {}", settings.data_dir.display()),
        cause,
    };
    match missing {
        Missing::IsAnError => Err(nobody("none runs".to_owned())),
        Missing::IsStarted => {
            let start = settings.clone();
            let started = tokio::task::spawn_blocking(move || spawn::start(&start)).await;
            match started {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(nobody(format!("{error:#}"))),
                Err(_) => return Err(nobody("starting it failed".to_owned())),
            }
            address(settings).ok_or_else(|| nobody("it ended at once".to_owned()))
        }
    }
}

/// Where a running server is reached: by its socket if it has one, which needs neither token nor TLS.
fn address(settings: &Settings) -> Option<String> {
    let socket = running_socket(&settings.data_dir).map(|path| format!("unix:{path}"));
    socket.or_else(|| running(&settings.data_dir))
}
