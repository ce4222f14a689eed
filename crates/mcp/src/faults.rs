//! Servers of ours that misbehave, and what becomes of calls to them: over pipes, Streamable HTTP
//! and server-sent events. Everything that waits ends within a second or at its deadline.

mod all_ways;
mod broken;
mod http;
mod pipes;
pub(crate) mod server;
mod sse;

use std::time::Duration;

use domain::tool_server::{NamedBy, ServerUrl, ServerWay, Speech, ToolServer};
use futures_util::future::join_all;
use netguard::{Guard, Policy};
use rmcp::model::CallToolResult;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tools::remote::RemoteHome;
use tools::roots::Roots;

use crate::call::params;
use crate::connect::{Connector, Servers};
use crate::error::{CallError, ConnectError};
use crate::link::Link;

/// What "at once" means for whoever waits.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(1);

fn connector(url: String, speech: Speech, named_by: NamedBy) -> Connector {
    let servers = Servers::new(Guard::new(Policy::default()).unwrap());
    let home = RemoteHome {
        roots: Roots::new("/".into(), Vec::new(), Vec::new()),
        shell: None,
        named: Vec::new(),
    };
    let at = ServerUrl {
        url,
        headers: Vec::new(),
        speech,
        client: None,
    };
    let server = ToolServer::new("s", ServerWay::Url(at), named_by);
    servers.connector(&server, &std::sync::Arc::new(home))
}

async fn connect(url: String, speech: Speech) -> Result<Link, ConnectError> {
    let connected = connector(url, speech, NamedBy::Operator).connect().await;
    connected.map(|(link, tools)| {
        assert!(!tools.is_empty(), "it lists its tools");
        link
    })
}

async fn call(link: &Link, tool: &str, input: Value) -> Result<CallToolResult, CallError> {
    let input = input.as_object().cloned().unwrap_or_else(Map::new);
    link.call(params(tool, input), None, None, |_| {}).await
}

fn text(result: Result<CallToolResult, CallError>) -> String {
    let result = result.unwrap();
    let text = result.content[0].as_text();
    text.unwrap().text.clone()
}

/// Has `count` calls of `tool` pending, lets `break_it` happen, and wants all of them to end at once.
async fn all_end_at_once<F: Future<Output = ()>>(
    link: &Link,
    (tool, count): (&str, usize),
    break_it: F,
) -> Vec<CallError> {
    let calls = (0..count).map(|number| call(link, tool, json!({"number": number})));
    let calls = join_all(calls);
    let broken = async {
        break_it.await;
        Instant::now()
    };
    let (ended, broken_at) = tokio::join!(calls, broken);
    let took = broken_at.elapsed();
    assert!(took < AT_ONCE, "{count} calls took {took:?} to end");
    ended.into_iter().map(|ended| ended.unwrap_err()).collect()
}
