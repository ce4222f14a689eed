//! Looking for a model server on this machine, quickly and without the HTTP client.
//!
//! One small HTTP/1.0 request each, all at the same time. A closed port on loopback refuses at
//! once, so a machine without model servers pays about a millisecond.

use domain::limits::{MODEL_PROBE_BYTES_MAX, MODEL_PROBE_WAIT, MODELS_OFFERED_MAX};
use futures_util::{StreamExt, stream};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// What Ollama is called.
const OLLAMA: &str = "Ollama";

/// Ollama's own port.
const OLLAMA_PORT: u16 = 11434;

/// A kind of server that people run models with.
#[derive(Clone, Copy)]
pub(crate) struct LocalServer {
    name: &'static str,
    /// Its address, or `None` for where Ollama is set to be.
    address: Option<(&'static str, u16)>,
    path: &'static str,
    /// Its first model that can chat, if the answer is this server's.
    first_model: fn(&Value) -> Option<String>,
}

/// The servers looked for; the first that answers is taken.
pub(crate) const KNOWN: &[LocalServer] = &[
    LocalServer {
        name: OLLAMA,
        address: None,
        path: "/api/tags",
        first_model: |answer| first_chat_model(answer["models"].as_array()?, "name"),
    },
    LocalServer {
        name: "LM Studio",
        address: Some(("127.0.0.1", 1234)),
        path: "/v1/models",
        first_model: |answer| {
            (answer["object"] == "list").then_some(())?;
            first_chat_model(answer["data"].as_array()?, "id")
        },
    },
    LocalServer {
        name: "llama.cpp",
        address: Some(("127.0.0.1", 8080)),
        path: "/v1/models",
        first_model: |answer| first_model_of(answer, "llamacpp"),
    },
    LocalServer {
        name: "vLLM",
        address: Some(("127.0.0.1", 8000)),
        path: "/v1/models",
        first_model: |answer| first_model_of(answer, "vllm"),
    },
];

/// A server that answered.
pub(crate) struct Found {
    /// What it is.
    pub(crate) server: &'static str,
    /// Where its compatible interface is.
    pub(crate) base: String,
    /// Its first model.
    pub(crate) model: String,
}

impl Found {
    /// Whether it is the server that has an interface of its own.
    pub(crate) fn is_ollama(&self) -> bool {
        self.server == OLLAMA
    }
}

/// The first of `servers` that answers in time, in their order.
pub(crate) async fn first(servers: &[LocalServer], ollama_base: &str) -> Option<Found> {
    let looks = servers.iter().map(|server| look(*server, ollama_base));
    let found = stream::iter(looks).buffered(servers.len().max(1));
    let mut found = std::pin::pin!(found.filter_map(std::future::ready));
    found.next().await
}

/// The models that Ollama at `base` says it has, or none if it does not answer in time.
pub(crate) async fn ollama_models(base: &str) -> Vec<String> {
    let Some(authority) = authority(base) else {
        return Vec::new();
    };
    let answer = timeout(MODEL_PROBE_WAIT, get(authority, "/api/tags")).await;
    let answer = answer.ok().and_then(Result::ok);
    let Some(list) = answer.and_then(|answer| body(&answer)) else {
        return Vec::new();
    };
    let models = list["models"].as_array().into_iter().flatten();
    models
        .filter_map(|model| model["name"].as_str())
        .filter(|name| can_chat(name))
        .take(MODELS_OFFERED_MAX)
        .map(str::to_owned)
        .collect()
}

/// The base URL that `OLLAMA_HOST` means: `HOST`, `HOST:PORT` or a URL; empty is the default.
pub(crate) fn ollama_base(host: &str) -> String {
    let host = host.trim().trim_end_matches('/');
    let (scheme, host) = host.split_once("://").unwrap_or(("http", host));
    let is_bare_v6 = host.matches(':').count() > 1 && !host.starts_with('[');
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !is_bare_v6 && !port.ends_with(']') => (name, port.to_owned()),
        _ if scheme == "https" => (host, "443".to_owned()),
        _ => (host, OLLAMA_PORT.to_string()),
    };
    // The address to listen on is not one to connect to.
    let name = match name {
        "" | "0.0.0.0" | "localhost" => "127.0.0.1",
        "::" | "[::]" => "[::1]",
        name => name,
    };
    let bracketed = if is_bare_v6 && !name.starts_with('[') {
        format!("[{name}]")
    } else {
        name.to_owned()
    };
    format!("{scheme}://{bracketed}:{port}")
}

async fn look(server: LocalServer, ollama_base: &str) -> Option<Found> {
    let base = match server.address {
        Some((host, port)) => format!("http://{host}:{port}"),
        None => ollama_base.to_owned(),
    };
    let authority = authority(&base)?;
    let answer = timeout(MODEL_PROBE_WAIT, get(authority, server.path)).await;
    let answer = answer.ok()?.ok()?;
    let model = (server.first_model)(&body(&answer)?)?;
    Some(Found {
        server: server.name,
        base,
        model,
    })
}

/// Host and port of a base that is spoken to in the clear.
fn authority(base: &str) -> Option<&str> {
    base.strip_prefix("http://")?.split('/').next()
}

async fn get(authority: &str, path: &str) -> std::io::Result<Vec<u8>> {
    let mut socket = TcpStream::connect(authority).await?;
    // HTTP/1.0 keeps the answer plain: no chunks, and the end of the body is the end of the stream.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {authority}\r\nAccept: */*\r\n\r\n");
    socket.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    let mut socket = socket.take(MODEL_PROBE_BYTES_MAX as u64);
    socket.read_to_end(&mut answer).await?;
    Ok(answer)
}

/// The JSON in a successful answer.
fn body(answer: &[u8]) -> Option<Value> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let status = answer.get(..end)?.split(|byte| *byte == b' ').nth(1)?;
    (status == b"200").then_some(())?;
    serde_json::from_slice(&answer[end + 4..]).ok()
}

/// The first model of a list whose owner says what kind of server it is.
fn first_model_of(answer: &Value, owner: &str) -> Option<String> {
    let models = answer["data"].as_array()?;
    (models.first()?["owned_by"] == owner).then_some(())?;
    first_chat_model(models, "id")
}

/// The first model in the list of a server that speaks as OpenAI does.
pub(crate) fn first_listed(list: &Value) -> Option<String> {
    first_chat_model(list["data"].as_array()?, "id")
}

fn first_chat_model(models: &[Value], key: &str) -> Option<String> {
    let mut names = models.iter().filter_map(|model| model[key].as_str());
    let name = names.find(|name| can_chat(name))?;
    Some(name.to_owned())
}

/// Models that only embed text cannot answer.
fn can_chat(name: &str) -> bool {
    !name.is_empty() && !name.contains("embed")
}

#[cfg(test)]
impl LocalServer {
    /// The server named `name`, at another address.
    pub(crate) fn at(name: &str, port: u16) -> Self {
        let known = KNOWN.iter().find(|known| known.name == name).unwrap();
        Self {
            address: Some(("127.0.0.1", port)),
            ..*known
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ollama_base;

    #[test]
    fn ollama_is_where_its_own_variable_says() {
        let cases = [
            ("", "http://127.0.0.1:11434"),
            ("0.0.0.0", "http://127.0.0.1:11434"),
            ("0.0.0.0:9000", "http://127.0.0.1:9000"),
            ("10.1.2.3:9000", "http://10.1.2.3:9000"),
            ("http://box:9000/", "http://box:9000"),
            ("https://box", "https://box:443"),
            ("[::1]:9000", "http://[::1]:9000"),
            ("::", "http://[::1]:11434"),
            ("::1", "http://[::1]:11434"),
            ("[fe80::1]", "http://[fe80::1]:11434"),
        ];
        for (host, base) in cases {
            assert_eq!(ollama_base(host), base, "{host}");
        }
    }
}
