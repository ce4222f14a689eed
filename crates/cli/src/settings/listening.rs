//! Where `fastness serve` listens, and how it is kept from telling strangers the token.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use super::Environment;
use crate::args::{self, Command, ServeArgs};
use crate::render::Failure;

/// Where `fastness serve` listens when nothing else is said.
const LISTEN: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 4600);

/// A certificate and its key; the paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// What was set about listening.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) address: SocketAddr,
    pub(super) unix: Option<PathBuf>,
    pub(super) tls: Option<TlsFiles>,
}

/// Puts flags and environment together.
///
/// # Errors
/// If a value cannot be used, or if strangers could read along.
pub(super) fn resolve(command: &Command, environment: &Environment) -> anyhow::Result<Listening> {
    let Command::Serve(serve) = command else {
        return Ok(Listening {
            address: LISTEN.into(),
            unix: None,
            tls: None,
        });
    };
    let path = |flag: &Option<PathBuf>, name| {
        let named = environment.value(name).map(Path::new);
        let path = flag.as_deref().or(named)?;
        Some(environment.current_dir.join(path))
    };
    let certificate = path(&serve.tls_cert, "FASTNESS_TLS_CERT");
    let key = path(&serve.tls_key, "FASTNESS_TLS_KEY");
    let tls = match (certificate, key) {
        (Some(certificate), Some(key)) => Some(TlsFiles { certificate, key }),
        (None, None) => None,
        (Some(_), None) => return Err(half("--tls-cert", "--tls-key").into()),
        (None, Some(_)) => return Err(half("--tls-key", "--tls-cert").into()),
    };
    let address = address(serve, environment)?;
    let is_private = address.ip().is_loopback();
    if !is_private && tls.is_none() && !is_behind_proxy(serve, environment)? {
        return Err(Failure::usage(format!(
            "{address} can be reached from other machines, and the connection would not be encrypted"
        ))
        .hint(
            "add --tls-cert and --tls-key, or --behind-proxy if a proxy in front speaks TLS; \
             or listen on 127.0.0.1",
        )
        .into());
    }
    Ok(Listening {
        address,
        unix: path(&serve.unix, "FASTNESS_UNIX"),
        tls,
    })
}

fn half(given: &str, missing: &str) -> Failure {
    Failure::usage(format!("{given} needs {missing} as well"))
}

fn address(serve: &ServeArgs, environment: &Environment) -> anyhow::Result<SocketAddr> {
    match (serve.listen, environment.value("FASTNESS_LISTEN")) {
        (Some(listen), _) => Ok(listen),
        (None, Some(text)) => args::listen_address(text)
            .map_err(|problem| Failure::usage(format!("FASTNESS_LISTEN: {problem}")).into()),
        (None, None) => Ok(LISTEN.into()),
    }
}

fn is_behind_proxy(serve: &ServeArgs, environment: &Environment) -> anyhow::Result<bool> {
    match environment.value("FASTNESS_BEHIND_PROXY") {
        _ if serve.behind_proxy => Ok(true),
        None | Some("false" | "0") => Ok(false),
        Some("true" | "1") => Ok(true),
        Some(other) => Err(Failure::usage(format!(
            "FASTNESS_BEHIND_PROXY takes true or false, not `{other}`"
        ))
        .into()),
    }
}
