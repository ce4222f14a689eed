//! `fastness mcp conformance`: what the official conformance suite of MCP wants of a client.
//!
//! The suite starts a server, runs this command with its address, and judges what it sees. So this
//! does what a session would: it connects and calls every tool that is offered, with the input that
//! the suite names or else the least that the tool's schema asks for.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use domain::ToolServer;
use domain::tool_server::{Hidden, LoginClient, NamedBy, ServerUrl, ServerWay, Speech};
use mcp::{CallError, Hub, Phase};
use netguard::{Exception, Guard, Target};
use serde_json::{Map, Value, json};
use tools::asks::{
    Answering, Asks, NotSampled, PersonAnswer, SampleRequest, Sampling, ServerQuestion,
};
use tools::output::Output;
use tools::remote::RemoteTools as _;

use super::{hub, servers};
use crate::render::Exit;
use crate::settings::Settings;
use crate::web;

/// What the server is called here.
const NAME: &str = "suite";

/// The address of a description of us, as the suite expects it.
const DESCRIPTION: &str = "https://conformance-test.local/client-metadata.json";

/// How often we log in for one scenario: once, and once more if the server wants more.
const LOGINS_MAX: usize = 2;

/// Does what the suite expects of a client of the server at `url`.
///
/// # Errors
/// If the guard cannot be made, or what the suite says cannot be read.
pub(super) async fn run(url: &str, settings: &Settings) -> anyhow::Result<ExitCode> {
    let context = settings.environment.value("MCP_CONFORMANCE_CONTEXT");
    let context: Value = context.map_or(Ok(Value::Null), serde_json::from_str)?;
    let (all, server) = (servers(settings)?, server(url, &context));
    let guard = web::network(settings, &[])?.guard;
    // Another scenario's server may have been here.
    all.logout(&server).await?;
    for logins in 0..=LOGINS_MAX {
        let hub = hub(&all, vec![server.clone()], settings);
        hub.begun().await;
        let reports = hub.reports();
        let is_done = match reports.first().map(|report| report.phase) {
            Some(Phase::Ready) => call_all(&hub, &context, settings).await?,
            Some(Phase::LoginNeeded) => false,
            _ => {
                writeln!(io::stderr(), "{reports:?}")?;
                break;
            }
        };
        if is_done {
            return Ok(Exit::Success.into());
        }
        if logins < LOGINS_MAX {
            all.login(&server, |address| browse(&guard, address))
                .await?;
        }
    }
    Ok(Exit::Failure.into())
}

/// The suite's server.
fn server(url: &str, context: &Value) -> ToolServer {
    let id = context["client_id"].as_str().unwrap_or(DESCRIPTION);
    let at = ServerUrl {
        url: url.to_owned(),
        headers: Vec::new(),
        speech: Speech::Streamable,
        client: Some(LoginClient {
            id: id.to_owned(),
            secret: context["client_secret"].as_str().map(Hidden::new),
            redirect_port: None,
        }),
    };
    ToolServer::new(NAME, ServerWay::Url(at), NamedBy::Operator)
}

/// Goes where a person would be sent, as their browser.
fn browse(guard: &Guard, address: &str) {
    let Ok(target) = Target::parse(address) else {
        return;
    };
    let mut pairs = target.url().query_pairs();
    let back = pairs.find(|(name, _)| name == "redirect_uri");
    let back = back.and_then(|(_, back)| Target::parse(&back).ok());
    let open: Vec<Exception> = [Some(&target), back.as_ref()]
        .into_iter()
        .flatten()
        .filter_map(|target| target.authority().parse().ok())
        .collect();
    let (guard, address) = (guard.for_session(open), address.to_owned());
    tokio::spawn(async move { guard.get(&address).await });
}

/// Calls the tools that the suite names, or each that there is; says whether no login was in the way.
async fn call_all(hub: &Hub, context: &Value, settings: &Settings) -> anyhow::Result<bool> {
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
        let outcome = hub.try_tool(&name, input, output, Arc::new(Willing)).await;
        writeln!(io::stderr(), "{name}: {outcome:?}")?;
        if let Err(CallError::LoginNeeded(_)) = outcome {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A person who takes every form as it is.
#[derive(Debug)]
struct Willing;

impl Asks for Willing {
    fn person(&self, _question: ServerQuestion) -> Answering {
        Box::pin(std::future::ready(PersonAnswer::Filled(Map::new())))
    }

    fn model(&self, _wish: SampleRequest) -> Sampling {
        Box::pin(std::future::ready(Err(NotSampled::Denied)))
    }
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
