//! `fastness mcp conformance`: what the official conformance suite of MCP wants of a client.
//!
//! The suite starts a server, runs this command with its address, and judges what it sees. So this
//! does what a session would: it connects and calls every tool that is offered, with the input that
//! the suite names or else the least that the tool's schema asks for.

use std::io::{self, Write as _};
use std::process::ExitCode;

use domain::ToolServer;
use domain::tool_server::{NamedBy, ServerUrl, ServerWay, Speech};
use mcp::{Hub, Phase, Servers};
use serde_json::{Map, Value, json};
use tools::output::Output;
use tools::remote::{RemoteHome, RemoteTools as _};
use tools::roots::Roots;

use crate::render::Exit;
use crate::settings::Settings;
use crate::web;

/// What the server is called here.
const NAME: &str = "suite";

/// Does what the suite expects of a client of the server at `url`.
///
/// # Errors
/// If the guard cannot be made, or what the suite says cannot be read.
pub(super) async fn run(url: &str, settings: &Settings) -> anyhow::Result<ExitCode> {
    let context = settings.environment.value("MCP_CONFORMANCE_CONTEXT");
    let context: Value = context.map_or(Ok(Value::Null), serde_json::from_str)?;
    let (_, guard) = web::web(settings, &[])?;
    let at = ServerUrl {
        url: url.to_owned(),
        headers: Vec::new(),
        speech: Speech::Streamable,
    };
    let server = ToolServer::new(NAME, ServerWay::Url(at), NamedBy::Operator);
    let hub = Servers::new(guard).hub(RemoteHome {
        roots: Roots::new(settings.cwd.clone(), Vec::new(), Vec::new()),
        shell: None,
        named: vec![server],
    });
    hub.begun().await;
    for report in hub.reports() {
        if report.phase != Phase::Ready {
            writeln!(io::stderr(), "{report:?}")?;
            return Ok(Exit::Failure.into());
        }
    }
    call_all(&hub, &context, settings).await?;
    Ok(Exit::Success.into())
}

/// Calls the tools that the suite names, or each that there is.
async fn call_all(hub: &Hub, context: &Value, settings: &Settings) -> anyhow::Result<()> {
    let named = context["toolCalls"].as_array().into_iter().flatten();
    let named = named.filter_map(|call| {
        let input = call["arguments"].as_object().cloned();
        let name = mcp::offered_name(NAME, call["name"].as_str()?);
        Some((name, input.unwrap_or_default()))
    });
    let mut calls: Vec<(String, Map<String, Value>)> = named.collect();
    if calls.is_empty() {
        let offered = hub.offered();
        let tools = offered.tools.iter();
        calls = tools
            .map(|tool| (tool.name.clone(), least(&tool.input_schema)))
            .collect();
    }
    for (name, input) in calls {
        let output = Output::new(settings.data_dir.join("outputs"));
        let outcome = hub.try_tool(&name, input, output).await;
        writeln!(io::stderr(), "{name}: {outcome:?}")?;
    }
    Ok(())
}

/// The least input that `schema` asks for.
fn least(schema: &Value) -> Map<String, Value> {
    let required = schema["required"].as_array().into_iter().flatten();
    let required = required.filter_map(Value::as_str);
    let value = |name: &str| match schema["properties"][name]["type"].as_str() {
        Some("number" | "integer") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("one"),
    };
    required
        .map(|name| (name.to_owned(), value(name)))
        .collect()
}
