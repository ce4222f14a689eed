//! Whether a model's server answers, by the way that a call would take: proxy, TLS and HTTP.

use std::time::Duration;

use tokio::time::timeout;

use crate::choose::{ChooseError, ModelSettings};
use crate::http::{self, Broken, PROXY_LOGIN_WANTED};
use crate::sources::Sources;

/// How a model's server was reached, or not.
#[derive(Clone, Debug)]
pub struct ReachReport {
    /// Scheme, host and port of the server.
    pub server: String,
    /// The variable that says where it is.
    pub variable: &'static str,
    /// The proxy on the way and where it was set, if there is one. Without its login.
    pub proxy: Option<(String, String)>,
    /// Which certificates are trusted, if the server speaks TLS.
    pub roots: Option<String>,
    /// The status of its answer, or why there is none.
    pub outcome: Result<u16, ReachError>,
}

/// Why a model's server did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReachError {
    /// No connection, or none that lasted.
    #[error("cannot be reached")]
    Unreachable,
    /// Nothing came in time.
    #[error("does not answer")]
    Silent,
    /// The proxy wants a login.
    #[error("cannot be reached: the proxy refused the user name or password, or wants one")]
    ProxyLogin,
    /// TLS failed because of the certificate.
    #[error("has a certificate that is not trusted")]
    Untrusted,
}

/// Asks the server of the model `label` for its base address, without a key: that costs nothing, and
/// any answer shows that the way is open. `None` if the model has no server that can be asked.
///
/// # Errors
/// If the settings cannot be used.
pub async fn reach(
    settings: ModelSettings,
    label: &str,
    limit: Duration,
) -> Result<Option<ReachReport>, ChooseError> {
    let (roots, proxies) = (settings.roots.clone(), settings.proxies.clone());
    let sources = Sources::new(settings)?;
    let form = label.split_once(':').map(|(form, _)| form);
    let Some((base, variable)) = form.and_then(|form| sources.base(form)) else {
        return Ok(None);
    };
    let url = http::at(&base, &[]).ok_or(ChooseError::NotABase { variable })?;
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Ok(None);
    };
    let is_secure = url.scheme() == "https";
    let proxy = proxies.proxy_for(is_secure, host, port);
    let outcome = match timeout(limit, sources.http().send(http::get(&url))).await {
        Err(_) => Err(ReachError::Silent),
        Ok(Ok(answer)) if answer.status() == PROXY_LOGIN_WANTED => Err(ReachError::ProxyLogin),
        Ok(Ok(answer)) => Ok(answer.status()),
        Ok(Err(Broken::Unreachable | Broken::Lost)) => Err(ReachError::Unreachable),
        Ok(Err(Broken::ProxyLogin)) => Err(ReachError::ProxyLogin),
        Ok(Err(Broken::Untrusted)) => Err(ReachError::Untrusted),
    };
    let roots = is_secure.then(|| Some(roots.load().ok()?.to_string()));
    Ok(Some(ReachReport {
        server: format!("{}://{host}:{port}", url.scheme()),
        variable,
        proxy: proxy.map(|named| (named.proxy.to_string(), named.source.clone())),
        roots: roots.flatten(),
        outcome,
    }))
}
