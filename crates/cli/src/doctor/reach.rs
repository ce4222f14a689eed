//! Whether the model's server can be reached from here. Nothing is asked of it: that could cost.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Check, State};
use crate::settings::Settings;

/// How long a server may take to be there: one round trip around the world, a few times.
const WAIT: Duration = Duration::from_secs(3);

/// A line about the server of the model that `label` names, if it has one.
pub(super) async fn check(label: &str, settings: &Settings) -> Option<Check> {
    let model = &settings.model;
    let (provider, _) = label.split_once(':')?;
    let (base, variable) = match provider {
        "anthropic" => (
            model
                .anthropic_base
                .as_deref()
                .unwrap_or("https://api.anthropic.com"),
            "ANTHROPIC_BASE_URL",
        ),
        "openai" => (
            model
                .openai_base
                .as_deref()
                .unwrap_or("https://api.openai.com"),
            "OPENAI_BASE_URL",
        ),
        "openai-chat" => (model.openai_base.as_deref()?, "OPENAI_BASE_URL"),
        "ollama" => (
            model
                .ollama_host
                .as_deref()
                .unwrap_or("http://127.0.0.1:11434"),
            "OLLAMA_HOST",
        ),
        _ => return None,
    };
    let check = |state, finding: String| Check::new("model server", state, finding);
    let place = place(base, provider)?;
    let proxies = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    if proxies
        .iter()
        .any(|name| settings.environment.value(name).is_some())
    {
        return Some(check(
            State::Noted,
            format!("{place}, by a proxy; not tried"),
        ));
    }
    Some(match timeout(WAIT, TcpStream::connect(&place)).await {
        Ok(Ok(_)) => check(State::Fine, format!("{place} takes connections")),
        Ok(Err(error)) => check(State::Broken, format!("{place} is not reached: {error}"))
            .advice(format!("is it running, and is {variable} right?")),
        Err(_) => check(State::Broken, format!("{place} does not answer")).advice(format!(
            "look at the network, and whether {variable} is right"
        )),
    })
}

/// Host and port of a base address.
fn place(base: &str, provider: &str) -> Option<String> {
    let (scheme, rest) = base.split_once("://").unwrap_or(("http", base));
    let authority = rest.split(['/', '?', '#']).next()?;
    let authority = authority.rsplit('@').next()?;
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| {
        !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    if has_port {
        return Some(authority.to_owned());
    }
    let port = match (scheme, provider) {
        ("https", _) => 443,
        (_, "ollama") => 11_434,
        _ => 80,
    };
    (!authority.is_empty()).then(|| format!("{authority}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn the_place_of_a_server_is_its_host_and_port() {
        let places = [
            (
                "https://api.anthropic.com",
                "anthropic",
                "api.anthropic.com:443",
            ),
            ("http://box:8080/v1", "openai", "box:8080"),
            ("http://name:key@box/v1", "openai", "box:80"),
            ("http://[::1]/v1", "openai-chat", "[::1]:80"),
            ("box", "ollama", "box:11434"),
            ("0.0.0.0:1234", "ollama", "0.0.0.0:1234"),
        ];
        for (base, provider, expected) in places {
            assert_eq!(place(base, provider).as_deref(), Some(expected), "{base}");
        }
    }
}
