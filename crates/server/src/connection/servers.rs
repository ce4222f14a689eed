//! Tool servers as a client names them, in our own words.

use auth::Principal;
use domain::tool_server::{
    Hidden, NamedBy, ServerProgram, ServerUrl, ServerWay, Speech, ToolServer,
};
use serde_json::Value;
use wire::acp::McpServer;

/// The servers that `principal`'s client named.
pub(super) fn named_servers(principal: &Principal, named: &[McpServer]) -> Vec<ToolServer> {
    let named_by = match principal.is_local() {
        true => NamedBy::LocalClient,
        false => NamedBy::Guest,
    };
    let servers = named.iter();
    servers
        .map(|server| ToolServer::new(server.name(), way(&server.0), named_by))
        .collect()
}

fn way(server: &Value) -> ServerWay {
    let text = |key: &str| server[key].as_str().unwrap_or_default().to_owned();
    let speech = match server["type"].as_str() {
        Some("http") => Speech::Streamable,
        Some("sse") => Speech::Sse,
        Some(_) | None => {
            let args = server["args"].as_array().into_iter().flatten();
            let args = args.filter_map(Value::as_str).map(str::to_owned);
            return ServerWay::Program(ServerProgram {
                environment: pairs(&server["env"]),
                ..ServerProgram::new(text("command"), args.collect())
            });
        }
    };
    ServerWay::Url(ServerUrl {
        url: text("url"),
        headers: pairs(&server["headers"]),
        speech,
        client: None,
    })
}

/// A list of names and values.
fn pairs(list: &Value) -> Vec<(String, Hidden)> {
    let pairs = list.as_array().into_iter().flatten();
    let pairs = pairs.filter_map(|pair| Some((pair["name"].as_str()?, pair["value"].as_str()?)));
    pairs
        .map(|(name, value)| (name.to_owned(), Hidden::new(value)))
        .collect()
}
