//! The resources of servers: one tool that lists them and reads one.

use std::sync::Arc;

use domain::limits::{MCP_LIST_WAIT, MCP_PAGES_MAX, MCP_RESOURCES_MAX};
use rmcp::model::{
    CallToolResult, ContentBlock, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, Resource,
};
use serde_json::{Value, json};
use tokio::time::timeout;
use tools::Outcome;
use tools::output::Output;
use tools::remote::RemoteTool;

use crate::error::{CallError, quoted};
use crate::link::Link;
use crate::outcome;

/// What a model calls to read a resource.
pub(crate) const NAME: &str = "mcp_read_resource";

/// The tool that reads resources of these servers.
pub(crate) fn tool(servers: &[String]) -> RemoteTool {
    RemoteTool {
        name: NAME.to_owned(),
        title: "Read a resource of an MCP server".to_owned(),
        description:
            "Reads a resource of an MCP server, such as one that a result links to. Without `uri` \
             it lists the server's resources."
                .to_owned(),
        input_schema: Arc::new(json!({
            "type": "object",
            "properties": {
                "server": {"type": "string", "enum": servers, "description": "The MCP server"},
                "uri": {"type": "string", "description": "Address of the resource; without it, all are listed"},
            },
            "required": ["server"],
        })),
        is_shown: true,
    }
}

/// Reads or lists what `input` asks of the server called `name`, at the end of `link`.
pub(crate) async fn run(name: &str, link: &Link, input: &Value, output: Output) -> Outcome {
    let done = match input["uri"].as_str() {
        Some(uri) => read(link, uri).await,
        None => list(link).await,
    };
    match done {
        Ok(content) => {
            let result = CallToolResult::success(content);
            // Writing a file takes a thread for a while.
            let told =
                tokio::task::spawn_blocking(move || outcome::of_result(result, None, output));
            told.await
                .unwrap_or_else(|_| Outcome::failed("The resource could not be read."))
        }
        Err(error) => Outcome::failed(format!("{name}: {error}.")),
    }
}

async fn read(link: &Link, uri: &str) -> Result<Vec<ContentBlock>, CallError> {
    let params = ReadResourceRequestParams::new(uri);
    let reading = link.peer().read_resource_once(params);
    let read = tokio::select! {
        read = timeout(MCP_LIST_WAIT, reading) => read.map_err(|_| CallError::TooLong(MCP_LIST_WAIT))?,
        () = link.life().ended() => return Err(CallError::Closed(link.life().why())),
    };
    match read.map_err(|error| link.failure(error))? {
        ReadResourceResponse::Complete(result) => {
            let contents = result.contents.into_iter();
            Ok(contents.map(ContentBlock::resource).collect())
        }
        ReadResourceResponse::InputRequired(_) | _ => Err(CallError::Unexpected(
            "the server asks for more before it shows this".to_owned(),
        )),
    }
}

async fn list(link: &Link) -> Result<Vec<ContentBlock>, CallError> {
    let (mut all, mut cursor) = (Vec::new(), None);
    for _ in 0..MCP_PAGES_MAX {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let page = timeout(MCP_LIST_WAIT, link.peer().list_resources(Some(page)));
        let page = tokio::select! {
            page = page => page.map_err(|_| CallError::TooLong(MCP_LIST_WAIT))?,
            () = link.life().ended() => return Err(CallError::Closed(link.life().why())),
        };
        let page = page.map_err(|error| link.failure(error))?;
        all.extend(page.resources);
        cursor = page.next_cursor;
        if cursor.is_none() || all.len() >= MCP_RESOURCES_MAX {
            break;
        }
    }
    let is_cut = cursor.is_some() || all.len() > MCP_RESOURCES_MAX;
    let mut lines: Vec<String> = all.iter().take(MCP_RESOURCES_MAX).map(line).collect();
    if lines.is_empty() {
        lines.push("The server has no resources.".to_owned());
    }
    if is_cut {
        lines.push("[there are more]".to_owned());
    }
    Ok(vec![ContentBlock::text(lines.join("\n"))])
}

fn line(resource: &Resource) -> String {
    let description = resource.description.as_deref().unwrap_or_default();
    let (uri, name) = (quoted(&resource.uri), quoted(&resource.name));
    format!("{uri} ({name}) {}", quoted(description))
        .trim_end()
        .to_owned()
}
